// Whether any of the added tokens occurs in a text at all. Knows nothing of what the library would do then: such a
// piece is left to it.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trie.hpp"

namespace trimbed::encode {

class AddedTokens {
public:
    AddedTokens() = default;
    AddedTokens(const Recipe& recipe, const std::string& name) {
        const Strings strings(recipe, name);
        if (strings.size() == 0) return;
        for (std::size_t i = 0; i < strings.size(); ++i) {
            const std::string_view s = strings[i];
            require(!s.empty(), name + " has an empty token");
            const auto first = static_cast<std::uint8_t>(s[0]);
            if (s.size() == 1) {
                for (unsigned second = 0; second < 256; ++second) begins_.set(first << 8 | second);
                ends_.set(first);
            } else {
                begins_.set(static_cast<std::size_t>(first << 8 | static_cast<std::uint8_t>(s[1])));
            }
        }
        trie_ = Trie(strings, std::vector<std::uint32_t>(strings.size(), 0));
        any_ = true;
    }

    bool occur(std::string_view text) const {
        if (!any_ || text.empty()) return false;
        for (std::size_t i = 0; i + 1 < text.size(); ++i) {
            const auto first = static_cast<std::uint8_t>(text[i]), second = static_cast<std::uint8_t>(text[i + 1]);
            if (begins_[static_cast<std::size_t>(first << 8 | second)] && at(text.substr(i))) return true;
        }
        return ends_[static_cast<std::uint8_t>(text.back())];
    }

private:
    bool at(std::string_view text) const {
        std::uint32_t node = Trie::kRoot;
        for (const char c : text) {
            node = trie_.step(node, static_cast<std::uint8_t>(c));
            if (node == Trie::kNone) return false;
            if (trie_.number(node) != Trie::kNone) return true;
        }
        return false;
    }

    bool any_ = false;
    std::bitset<65536> begins_;
    std::bitset<256> ends_;
    Trie trie_;
};

}  // namespace trimbed::encode
