// Which pairs of symbols merge, and how early. Knows nothing of texts.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../table_memory.hpp"
#include "recipe.hpp"


namespace trimbed::encode {

// A hash table in lines of eight slots, a cache line each, half full. A pair is in the line of its hash, or behind it if
// that one is full. A line is looked at as a whole and without a branch: most look-ups are in vain, and whether one is
// can't be predicted. What is left is waiting for the line, so whoever has something else to do asks for it first.
class Pairs {
public:
    static constexpr std::uint32_t kNoRank = 0xFFFFFFFFu;

    Pairs() = default;
    // Ids are below `vocab`; a pair's rank is its place. Where a pair comes twice, the later place counts.
    Pairs(const std::vector<std::uint32_t>& left, const std::vector<std::uint32_t>& right, std::uint32_t vocab) {
        id_bits_ = static_cast<unsigned>(std::bit_width(vocab));
        rank_bits_ = 64 - 2 * id_bits_;
        require(id_bits_ <= 21 && (left.size() + 1) >> std::min(rank_bits_, 31u) == 0, "too many tokens and merges");
        rank_mask_ = (std::uint64_t{1} << rank_bits_) - 1;
        lines_ = left.size() / 4 + 1;
        slots_ = EntryArray<std::uint64_t>(lines_ * kSlots);
        std::fill(slots_.begin(), slots_.end(), kEmpty);
        for (std::uint32_t rank = 0; rank < left.size(); ++rank) {
            const std::uint64_t base = base_of(left[rank], right[rank]);
            std::uint64_t* slot = &slots_[line_of(base) * kSlots];
            while (*slot != kEmpty && *slot - base > rank_mask_)
                if (++slot == slots_.end()) slot = slots_.begin();
            *slot = base | rank;
        }
    }

    void ask(std::uint32_t left, std::uint32_t right) const {
#if defined(__GNUC__) || defined(__clang__)
        __builtin_prefetch(&slots_[line_of(base_of(left, right)) * kSlots]);
#endif
    }

    // The rank of a pair of symbols, kNoRank if it is never merged.
    std::uint32_t rank(std::uint32_t left, std::uint32_t right) const {
        const std::uint64_t base = base_of(left, right);
        std::size_t line = line_of(base);
        for (;;) {
            const std::uint64_t* slot = &slots_[line * kSlots];
            std::uint64_t found = slot[0] - base;
            for (std::size_t i = 1; i < kSlots; ++i) found = std::min(found, slot[i] - base);
            if (slot[kSlots - 1] == kEmpty || found <= rank_mask_)
                return found <= rank_mask_ ? static_cast<std::uint32_t>(found) : kNoRank;
            if (++line == lines_) line = 0;
        }
    }

private:
    static constexpr std::size_t kSlots = 8;
    // No slot is all ones, as no id is.
    static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

    std::uint64_t base_of(std::uint32_t left, std::uint32_t right) const {
        return (std::uint64_t{left} << id_bits_ | right) << rank_bits_;
    }
    std::size_t line_of(std::uint64_t base) const {
        return static_cast<std::size_t>(((base >> rank_bits_) * 0x9E3779B97F4A7C15ull >> 32) * lines_ >> 32);
    }

    EntryArray<std::uint64_t> slots_;
    std::size_t lines_ = 0;
    std::uint64_t rank_mask_ = 0;
    unsigned id_bits_ = 1, rank_bits_ = 62;
};

}  // namespace trimbed::encode
