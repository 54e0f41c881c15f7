// UTF-8 and tables over code points. Knows no property of any character: those come in tables from the recipe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "recipe.hpp"

namespace trimbed::encode {

constexpr std::uint32_t kCodePoints = 0x110000;

inline bool is_ascii(const char* data, std::size_t size) {
    std::uint64_t all = 0;
    std::size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        std::uint64_t word;
        std::memcpy(&word, data + i, 8);
        all |= word;
    }
    for (; i < size; ++i) all |= static_cast<std::uint8_t>(data[i]);
    return (all & 0x8080808080808080ull) == 0;
}

// The code point at `at`, which moves on. Only for valid UTF-8 (see is_utf8).
inline std::uint32_t next_code_point(const char* data, std::size_t& at) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<std::uint8_t>(data[i])); };
    const std::uint32_t first = byte(at);
    if (first < 0x80) {
        at += 1;
        return first;
    }
    if (first < 0xE0) {
        const std::uint32_t value = (first & 0x1F) << 6 | (byte(at + 1) & 0x3F);
        at += 2;
        return value;
    }
    if (first < 0xF0) {
        const std::uint32_t value = (first & 0x0F) << 12 | (byte(at + 1) & 0x3F) << 6 | (byte(at + 2) & 0x3F);
        at += 3;
        return value;
    }
    const std::uint32_t value =
        (first & 0x07) << 18 | (byte(at + 1) & 0x3F) << 12 | (byte(at + 2) & 0x3F) << 6 | (byte(at + 3) & 0x3F);
    at += 4;
    return value;
}

inline bool is_utf8(const char* data, std::size_t size) {
    const auto* s = reinterpret_cast<const std::uint8_t*>(data);
    std::size_t i = 0;
    while (i < size) {
        const std::uint8_t first = s[i];
        if (first < 0x80) {
            ++i;
            continue;
        }
        std::size_t more;
        std::uint8_t low = 0x80, high = 0xBF;
        if (first >= 0xC2 && first <= 0xDF) {
            more = 1;
        } else if ((first & 0xF0) == 0xE0) {
            more = 2;
            if (first == 0xE0) low = 0xA0;
            if (first == 0xED) high = 0x9F;
        } else if (first >= 0xF0 && first <= 0xF4) {
            more = 3;
            if (first == 0xF0) low = 0x90;
            if (first == 0xF4) high = 0x8F;
        } else {
            return false;
        }
        if (size - i <= more) return false;
        if (s[i + 1] < low || s[i + 1] > high) return false;
        for (std::size_t k = 2; k <= more; ++k) {
            if ((s[i + k] & 0xC0) != 0x80) return false;
        }
        i += more + 1;
    }
    return true;
}

inline void append_code_point(std::string& out, std::uint32_t c) {
    if (c < 0x80) {
        out.push_back(static_cast<char>(c));
    } else if (c < 0x800) {
        out.push_back(static_cast<char>(0xC0 | c >> 6));
        out.push_back(static_cast<char>(0x80 | (c & 0x3F)));
    } else if (c < 0x10000) {
        out.push_back(static_cast<char>(0xE0 | c >> 12));
        out.push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
        out.push_back(static_cast<char>(0x80 | (c & 0x3F)));
    } else {
        out.push_back(static_cast<char>(0xF0 | c >> 18));
        out.push_back(static_cast<char>(0x80 | (c >> 12 & 0x3F)));
        out.push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
        out.push_back(static_cast<char>(0x80 | (c & 0x3F)));
    }
}

// A value for each code point: pages of 256, equal pages stored once. `name`.index: u32[4352], `name`.pages: T[256 n].
template <class T>
class CodePointTable {
public:
    CodePointTable() = default;
    CodePointTable(const Recipe& recipe, const std::string& name)
        : index_(recipe.array<std::uint32_t>(name + ".index")), pages_(recipe.array<T>(name + ".pages")) {
        require(index_.size() == kCodePoints >> 8, name + ".index has the wrong length");
        require(pages_.size() % 256 == 0, name + ".pages has the wrong length");
        for (std::uint32_t& page : index_) {
            require(page < pages_.size() / 256, name + ".index points outside");
            page <<= 8;
        }
    }
    T operator[](std::uint32_t code_point) const { return pages_[index_[code_point >> 8] + (code_point & 255)]; }
    const std::vector<T>& values() const { return pages_; }

private:
    std::vector<std::uint32_t> index_;
    std::vector<T> pages_;
};

}  // namespace trimbed::encode
