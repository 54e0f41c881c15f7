// A fixed set of byte strings with a number each, as a double array: one look-up a byte. Knows no tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "recipe.hpp"

namespace trimbed::encode {

class Trie {
public:
    static constexpr std::uint32_t kNone = 0xFFFFFFFFu;
    static constexpr std::uint32_t kRoot = 0;

    Trie() = default;
    // Of equal strings the later one's number counts. Empty strings are left out.
    Trie(const Strings& strings, const std::vector<std::uint32_t>& numbers) {
        require(strings.size() == numbers.size(), "strings and numbers differ in number");
        std::vector<std::uint32_t> order;
        for (std::uint32_t i = 0; i < numbers.size(); ++i)
            if (!strings[i].empty()) order.push_back(i);
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return strings[a] < strings[b]; });
        grow(512);
        free_ = 1;
        nodes_[kRoot].parent = kRoot;
        std::vector<Task> tasks{{kRoot, 0, static_cast<std::uint32_t>(order.size()), 0}};
        std::vector<std::uint8_t> labels;
        std::vector<std::uint32_t> begins;
        while (!tasks.empty()) {
            Task task = tasks.back();
            tasks.pop_back();
            while (task.begin < task.end && strings[order[task.begin]].size() == task.depth)
                nodes_[task.node].number = numbers[order[task.begin++]];
            if (task.begin == task.end) continue;
            labels.clear();
            begins.clear();
            for (std::uint32_t i = task.begin; i < task.end; ++i) {
                const auto label = static_cast<std::uint8_t>(strings[order[i]][task.depth]);
                if (labels.empty() || labels.back() != label) {
                    labels.push_back(label);
                    begins.push_back(i);
                }
            }
            begins.push_back(task.end);
            const std::uint32_t base = place(labels);
            nodes_[task.node].base = base;
            for (std::size_t i = 0; i < labels.size(); ++i) nodes_[base + labels[i]].parent = task.node;
            for (std::size_t i = 0; i < labels.size(); ++i)
                tasks.push_back({base + labels[i], begins[i], begins[i + 1], task.depth + 1});
        }
    }

    bool empty() const { return nodes_.empty(); }
    // The node behind `node` along `byte`, or kNone.
    std::uint32_t step(std::uint32_t node, std::uint8_t byte) const {
        const std::uint32_t next = nodes_[node].base + byte;
        return nodes_[next].parent == node && next != kRoot ? next : kNone;
    }
    std::uint32_t number(std::uint32_t node) const { return nodes_[node].number; }

    std::uint32_t find(std::string_view s) const {
        std::uint32_t node = kRoot;
        for (const char c : s) {
            node = step(node, static_cast<std::uint8_t>(c));
            if (node == kNone) return kNone;
        }
        return s.empty() ? kNone : number(node);
    }

private:
    struct Node {
        std::uint32_t base = 0, parent = kNone, number = kNone;
    };
    struct Task {
        std::uint32_t node, begin, end;
        std::size_t depth;
    };

    void grow(std::size_t size) {
        if (nodes_.size() < size) nodes_.resize(std::max(size, nodes_.size() * 2));
    }

    // A base whose slots for all labels are free.
    std::uint32_t place(const std::vector<std::uint8_t>& labels) {
        std::size_t tries = 0;
        while (nodes_[free_].parent != kNone) {
            ++free_;
            grow(free_ + 512);
        }
        for (std::uint32_t slot = std::max<std::uint32_t>(free_, labels[0] + 1u);; ++slot) {
            grow(slot + 512);
            if (nodes_[slot].parent != kNone) continue;
            const std::uint32_t base = slot - labels[0];
            bool fits = true;
            for (const std::uint8_t label : labels) fits = fits && nodes_[base + label].parent == kNone;
            if (fits) return base;
            if (++tries == 64) free_ = std::max(free_, slot);  // give up the crowded part: some slots stay empty
        }
    }

    std::vector<Node> nodes_;
    std::uint32_t free_ = 0;
};

}  // namespace trimbed::encode
