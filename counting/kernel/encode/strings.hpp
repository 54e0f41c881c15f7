// A fixed map from strings to ids: open addressing over hashes, the strings themselves end to end.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "recipe.hpp"

namespace trimbed::encode {

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_bytes(std::string_view s) {
    constexpr std::uint64_t k0 = 0x9E3779B97F4A7C15ull, k1 = 0xD6E8FEB86659FD93ull;
    std::uint64_t h = k0 ^ s.size();
    std::size_t i = 0;
    for (; i + 8 <= s.size(); i += 8) {
        std::uint64_t word;
        std::memcpy(&word, s.data() + i, 8);
        h = mix(h ^ word, k1);
    }
    if (i < s.size()) {
        std::uint64_t word = 0;
        std::memcpy(&word, s.data() + i, s.size() - i);
        h = mix(h ^ word, k1);
    }
    return h;
}

class StringTable {
public:
    static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

    StringTable() = default;
    // Where a string comes twice the later id counts, as in a map that is filled in order.
    StringTable(const Strings& strings, const std::vector<std::uint32_t>& ids) {
        require(strings.size() == ids.size(), "strings and ids differ in number");
        std::size_t size = 16;
        while (size < ids.size() * 2) size *= 2;
        slots_.assign(size, Slot{0, kNone, 0, 0});
        mask_ = size - 1;
        seen_.assign(size * 4 / 64 + 1, 0);
        seen_mask_ = size * 4 - 1;
        for (std::uint32_t i = 0; i < ids.size(); ++i) {
            require(ids[i] != kNone, "an id is out of range");
            const std::string_view s = strings[i];
            const std::uint64_t h = hash_bytes(s);
            std::size_t at = h & mask_;
            while (slots_[at].id != kNone && !holds(slots_[at], h, s)) at = (at + 1) & mask_;
            if (slots_[at].id == kNone) {
                slots_[at] = Slot{tag(h), ids[i], static_cast<std::uint32_t>(bytes_.size()),
                                  static_cast<std::uint32_t>(s.size())};
                bytes_ += s;
                seen_[(h >> 20 & seen_mask_) >> 6] |= std::uint64_t{1} << (h >> 20 & 63);
            } else {
                slots_[at].id = ids[i];
            }
            if (s.size() > longest_) longest_ = s.size();
        }
    }

    std::uint32_t find(std::string_view s) const {
        if (s.size() > longest_ || slots_.empty()) return kNone;
        const std::uint64_t h = hash_bytes(s);
        // Most look-ups are in vain; a row of bits, small enough for a near cache, answers most of those.
        if (!(seen_[(h >> 20 & seen_mask_) >> 6] >> (h >> 20 & 63) & 1)) return kNone;
        for (std::size_t at = h & mask_;; at = (at + 1) & mask_) {
            const Slot& slot = slots_[at];
            if (slot.id == kNone) return kNone;
            if (holds(slot, h, s)) return slot.id;
        }
    }

private:
    struct Slot {
        std::uint32_t tag, id, begin, size;
    };
    static std::uint32_t tag(std::uint64_t h) { return static_cast<std::uint32_t>(h >> 32); }
    bool holds(const Slot& slot, std::uint64_t h, std::string_view s) const {
        return slot.tag == tag(h) && std::string_view(bytes_).substr(slot.begin, slot.size) == s;
    }
    std::string bytes_;
    std::vector<Slot> slots_;
    std::vector<std::uint64_t> seen_;
    std::size_t mask_ = 0, seen_mask_ = 0, longest_ = 0;
};

}  // namespace trimbed::encode
