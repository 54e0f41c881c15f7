// Checked UTF-8 decoding, one code point at a time. Never reads past the end it is given.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trimbed {

struct Decoded {
  uint32_t code_point;
  uint32_t size;  // 0: the bytes here are not valid UTF-8
};

inline Decoded decode(const uint8_t* at, const uint8_t* end) {
  const uint32_t first = *at;
  const size_t room = static_cast<size_t>(end - at);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) {
    if (first < 0xC2 || room < 2) return {0, 0};
    const uint32_t second = at[1] ^ 0x80u;
    return second < 0x40 ? Decoded{(first & 0x1F) << 6 | second, 2} : Decoded{0, 0};
  }
  if (first < 0xF0) {
    if (room < 3) return {0, 0};
    const uint32_t second = at[1] ^ 0x80u, third = at[2] ^ 0x80u;
    const uint32_t point = (first & 0x0F) << 12 | second << 6 | third;
    // No continuation bit may be missing, no shorter form exist, and no surrogate be written.
    if ((second | third) >= 0x40 || point < 0x800 || (point & 0xF800u) == 0xD800u) return {0, 0};
    return {point, 3};
  }
  if (first > 0xF4 || room < 4) return {0, 0};
  const uint32_t second = at[1] ^ 0x80u, third = at[2] ^ 0x80u, fourth = at[3] ^ 0x80u;
  if ((second | third | fourth) >= 0x40) return {0, 0};
  const uint32_t point = (first & 0x07) << 18 | second << 12 | third << 6 | fourth;
  return point >= 0x10000 && point < 0x110000 ? Decoded{point, 4} : Decoded{0, 0};
}

// The code point that ends just before `at`; the text up to there starts at `begin` and is not empty.
inline Decoded decode_before(const uint8_t* begin, const uint8_t* at) {
  const uint8_t* start = at - 1;
  while (start > begin && at - start < 4 && (*start & 0xC0) == 0x80) --start;
  const Decoded one = decode(start, at);
  return one.size == static_cast<uint32_t>(at - start) ? one : Decoded{0, 0};
}

}  // namespace trimbed
