// Merges symbols, lowest rank first, leftmost on ties: many short words in turns, a long one by itself.
// Knows no texts: a word is a run of symbols.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "pairs.hpp"
#include "recipe.hpp"

namespace trimbed::encode {

class Merger {
public:
    static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

    Merger() = default;
    // `byte_ids`: the ids of single bytes, kNone where there is none; empty if symbols aren't bytes.
    Merger(const Recipe& recipe, const std::vector<std::uint32_t>& byte_ids) {
        const auto left = recipe.array<std::uint32_t>("bpe.left");
        const auto right = recipe.array<std::uint32_t>("bpe.right");
        merged_ = recipe.array<std::uint32_t>("bpe.merged");
        require(left.size() == right.size() && left.size() == merged_.size(), "merges differ in length");
        require(left.size() < std::size_t{kNoKey} / kFew, "too many merges");
        const std::uint32_t vocab = recipe.number("vocab_size");
        const auto known = [&](std::uint32_t id) { require(id < vocab, "a merge has an id out of range"); };
        for (std::size_t i = 0; i < left.size(); ++i) {
            known(left[i]);
            known(right[i]);
            known(merged_[i]);
        }
        pairs_ = Pairs(left, right, vocab);
        if (byte_ids.empty()) return;
        of_bytes_.assign(65536, kNoKey);
        for (std::size_t i = 0; i < 65536; ++i) {
            const std::uint32_t first = byte_ids[i >> 8], second = byte_ids[i & 255];
            if (first != kNone && second != kNone) of_bytes_[i] = key(pairs_.rank(first, second), 0);
        }
    }

    // Begins a new collection of words.
    void clear() {
        symbols_.clear();
        keys_.clear();
        words_.clear();
    }
    // A word's symbols are put at the end of these, which stay good until the next clear().
    std::vector<std::uint32_t>& symbols() { return symbols_; }

    // The symbols from `begin` on are a word that stays as it is.
    void keep(std::size_t begin) { add_word(begin, 0); }
    // ... a word to merge.
    void add(std::size_t begin) {
        const std::size_t n = symbols_.size() - begin;
        if (n > kFew) merge_many(begin);
        if (n < 2 || n > kFew) return keep(begin);
        for (std::size_t i = begin; i + 1 < begin + n; ++i) pairs_.ask(symbols_[i], symbols_[i + 1]);
        add_word(begin, n);
    }
    // ... a word to merge, one symbol for each of these bytes.
    void add(std::size_t begin, std::string_view bytes) {
        const std::size_t n = bytes.size();
        if (n < 2 || n > kFew) return add(begin);
        add_word(begin, n);
        words_.back().ready = true;
        std::int32_t* keys = keys_.data() + begin;
        for (std::size_t i = 0; i + 1 < n; ++i) {
            const auto first = static_cast<std::uint8_t>(bytes[i]), second = static_cast<std::uint8_t>(bytes[i + 1]);
            const std::int32_t k = of_bytes_[static_cast<std::size_t>(first << 8 | second)];
            keys[i] = k | (k == kNoKey ? 0 : static_cast<std::int32_t>(i));
        }
    }

    std::size_t words() const { return words_.size(); }

    // Merges all words that were added since the last clear().
    void run() {
        Lane lanes[kLanes];
        std::size_t next = 0, count = 0;
        const auto fill = [&](Lane& lane) {
            while (next < words_.size() && words_[next].width == 0) ++next;
            if (next == words_.size()) return false;
            begin(lane, words_[next++]);
            return true;
        };
        while (count < kLanes && fill(lanes[count])) ++count;
        while (count > 0) {
            for (std::size_t i = 0; i < count;) {
                if (choose(lanes[i])) {
                    ++i;
                } else if (!fill(lanes[i])) {
                    lanes[i] = lanes[--count];
                }
            }
            for (std::size_t i = 0; i < count; ++i) merge(lanes[i]);
        }
    }

    // The ids of the word of that number, after run().
    void append(std::size_t number, std::vector<std::uint32_t>& out) const {
        const Word& word = words_[number];
        const std::uint32_t* ids = symbols_.data() + word.begin;
        if (word.width == 0) {
            out.insert(out.end(), ids, ids + word.size);
        } else {
            for (std::uint64_t left = word.left; left; left &= left - 1) out.push_back(ids[std::countr_zero(left)]);
        }
    }

private:
    static constexpr std::size_t kFew = 64;  // a bit for each in a word
    static constexpr std::size_t kBlock = 16, kLanes = 12;
    static constexpr std::int32_t kNoKey = 0x7FFFFFFF;

    struct Word {
        std::size_t begin, size;
        std::uint64_t left;   // which symbols are left
        std::uint32_t width;  // keys, in whole blocks; 0: nothing to merge
        bool ready;           // its keys are known
    };
    // A word in work. The pairs before and behind the symbol at `at` are new, and their keys aren't known yet.
    struct Lane {
        Word* word;
        std::uint64_t left;
        std::uint32_t* ids;
        std::int32_t* keys;
        std::int32_t best;
        std::uint32_t width, at;
        bool changed;
    };

    // A pair's rank and where its left symbol stands: the least key is the next merge.
    static std::int32_t key(std::uint32_t rank, std::size_t at) {
        return rank == Pairs::kNoRank ? kNoKey : static_cast<std::int32_t>(rank * kFew + at);
    }

    void add_word(std::size_t begin, std::size_t few) {
        const std::size_t size = symbols_.size() - begin, width = (few + kBlock - 1) / kBlock * kBlock;
        words_.push_back({begin, size, few ? ~std::uint64_t{0} >> (kFew - few) : 0, static_cast<std::uint32_t>(width), false});
        symbols_.resize(begin + std::max(size, width));
        keys_.resize(symbols_.size(), kNoKey);
    }

    void begin(Lane& lane, Word& word) {
        lane = {&word, word.left, symbols_.data() + word.begin, keys_.data() + word.begin, 0, word.width, 0, false};
        if (word.ready) return;
        for (std::size_t i = 0; i + 1 < word.size; ++i) lane.keys[i] = key(pairs_.rank(lane.ids[i], lane.ids[i + 1]), i);
    }

    static unsigned last(std::uint64_t bits) { return static_cast<unsigned>(63 - std::countl_zero(bits)); }
    static std::uint64_t before(const Lane& lane) { return lane.left & ((std::uint64_t{1} << lane.at) - 1); }
    static std::uint64_t behind(const Lane& lane) { return lane.left & ~std::uint64_t{1} << lane.at; }

    // Finds the next merge; false, and the word is done, if there is none.
    bool choose(Lane& lane) {
        if (lane.changed) {
            const std::uint32_t middle = lane.ids[lane.at];
            const std::uint64_t low = before(lane), high = behind(lane);
            lane.keys[lane.at] = high ? key(pairs_.rank(middle, lane.ids[std::countr_zero(high)]), lane.at) : kNoKey;
            if (low) {
                const unsigned previous = last(low);
                lane.keys[previous] = key(pairs_.rank(lane.ids[previous], middle), previous);
            }
        }
        std::int32_t best = kNoKey;
        for (std::size_t block = 0; block < lane.width; block += kBlock)
            for (std::size_t i = 0; i < kBlock; ++i) best = std::min(best, lane.keys[block + i]);
        if (best == kNoKey) {
            lane.word->left = lane.left;
            return false;
        }
        lane.best = best;
#if defined(__GNUC__) || defined(__clang__)
        __builtin_prefetch(&merged_[static_cast<std::size_t>(best) / kFew]);
#endif
        return true;
    }

    void merge(Lane& lane) {
        lane.at = static_cast<std::uint32_t>(lane.best) % kFew;
        const std::uint64_t high = behind(lane), gone = high & (0 - high);
        lane.left ^= gone;
        lane.keys[std::countr_zero(gone)] = kNoKey;
        const std::uint32_t middle = lane.ids[lane.at] = merged_[static_cast<std::size_t>(lane.best) / kFew];
        lane.changed = true;
        const std::uint64_t low = before(lane), rest = high ^ gone;
        if (rest) pairs_.ask(middle, lane.ids[std::countr_zero(rest)]);
        if (low) pairs_.ask(lane.ids[last(low)], middle);
    }

    // Many symbols: a heap of candidate merges over a linked list; outdated candidates are dropped when they come up.
    void merge_many(std::size_t begin) {
        const auto n = static_cast<std::uint32_t>(symbols_.size() - begin);
        std::uint32_t* ids = symbols_.data() + begin;
        next_.resize(n);
        previous_.resize(n);
        heap_.clear();
        for (std::uint32_t i = 0; i < n; ++i) {
            next_[i] = i + 1 < n ? i + 1 : kNone;
            previous_[i] = i ? i - 1 : kNone;
        }
        const auto later = [](const Candidate& a, const Candidate& b) {
            return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
        };
        const auto consider = [&](std::uint32_t at) {
            const std::uint32_t r = pairs_.rank(ids[at], ids[next_[at]]);
            if (r != Pairs::kNoRank) heap_.push_back({r, at});
            return r != Pairs::kNoRank;
        };
        for (std::uint32_t i = 0; i + 1 < n; ++i) consider(i);
        std::make_heap(heap_.begin(), heap_.end(), later);
        while (!heap_.empty()) {
            std::pop_heap(heap_.begin(), heap_.end(), later);
            const Candidate top = heap_.back();
            heap_.pop_back();
            if (ids[top.at] == kNone || next_[top.at] == kNone) continue;
            const std::uint32_t right = next_[top.at];
            if (pairs_.rank(ids[top.at], ids[right]) != top.rank) continue;
            ids[top.at] = merged_[top.rank];
            ids[right] = kNone;
            next_[top.at] = next_[right];
            if (next_[right] != kNone) {
                previous_[next_[right]] = top.at;
                if (consider(top.at)) std::push_heap(heap_.begin(), heap_.end(), later);
            }
            if (previous_[top.at] != kNone && consider(previous_[top.at]))
                std::push_heap(heap_.begin(), heap_.end(), later);
        }
        std::size_t end = begin;
        for (std::uint32_t at = 0; at != kNone; at = next_[at]) symbols_[end++] = ids[at];
        symbols_.resize(end);
    }

    struct Candidate {
        std::uint32_t rank, at;
    };

    Pairs pairs_;
    std::vector<std::uint32_t> merged_;
    std::vector<std::int32_t> of_bytes_;  // keys of pairs of bytes at place 0
    std::vector<std::uint32_t> symbols_, next_, previous_;
    std::vector<std::int32_t> keys_;
    std::vector<Word> words_;
    std::vector<Candidate> heap_;
};

}  // namespace trimbed::encode
