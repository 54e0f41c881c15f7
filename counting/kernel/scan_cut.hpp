// Walks a segment and finds its cuts. Knows the plan and UTF-8; nothing of tables, added tokens or documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <bit>
#include <stdexcept>

#include "scan_plan.hpp"
#include "scan_utf8.hpp"

namespace trimbed {

// Bytes that aren't UTF-8, met while scanning.
struct InvalidText : std::runtime_error {
  InvalidText() : std::runtime_error("the text is not valid UTF-8") {}
};

// The state of a walk: everything before `at` has been decided; `left` is the code point that ends there.
class Cutter {
 public:
  // Bytes that one call of `cuts` walks over, or slightly more.
  static constexpr size_t kSpan = 2048;

  Cutter(const ScanPlan& plan, const uint8_t* begin, const uint8_t* end) : plan_(plan), at_(begin), end_(end) { step_over_first(); }

  bool done() const { return at_ == end_; }
  const uint8_t* at() const { return at_; }

  // Walks on for a span and writes each cut as its distance from at() before the call; returns how many there are.
  // `cuts` has room for kSpan + 64. Throws InvalidText.
  size_t cuts(uint32_t* out) {
    const uint8_t* const origin = at_;
    const uint8_t* const stop = static_cast<size_t>(end_ - at_) > kSpan ? at_ + kSpan : end_;
    const uint8_t* const pairs = plan_.ascii_pairs();
    const uint8_t* at = at_;
    uint32_t left = left_;
    uint32_t* next = out;
    while (at < stop) {
      if (left < 0x80) {
        while (stop - at >= 16 && ascii(at) && ascii(at + 8)) {
          // Every place is written, and stays written where there is a cut: no branch depends on the text.
          const uint32_t distance = static_cast<uint32_t>(at - origin);
          for (uint32_t i = 0; i < 16; ++i) {
            *next = distance + i;
            next += pairs[pair(at + i - 1)];
          }
          at += 16;
        }
        left = at[-1];
        if (at == stop) break;
      }
      uint8_t left_class = plan_.class_of(left);
      // Character by character until ASCII text takes over again.
      for (;;) {
        const Decoded right = decode(at, end_);
        if (right.size == 0) throw InvalidText();
        const uint8_t right_class = plan_.class_of(right.code_point);
        uint8_t rule = plan_.rule_of(left_class, right_class);
        if (rule == 2) rule = !plan_.joined(left, right.code_point);
        *next = static_cast<uint32_t>(at - origin);
        next += rule;
        at += right.size;
        left = right.code_point;
        left_class = right_class;
        if (at >= stop || (left < 0x80 && stop - at >= 16 && ascii(at))) break;
      }
    }
    at_ = at;
    left_ = left;
    return static_cast<size_t>(next - out);
  }

 private:
  void step_over_first() {
    const Decoded first = decode(at_, end_);
    if (first.size == 0) throw InvalidText();
    left_ = first.code_point;
    at_ += first.size;
  }

  static bool ascii(const uint8_t* at) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    return (word & 0x8080808080808080u) == 0;
  }

  static size_t pair(const uint8_t* at) {
    if constexpr (std::endian::native == std::endian::little) {
      uint16_t word;
      std::memcpy(&word, at, 2);
      return word;
    } else {
      return size_t{at[1]} << 8 | at[0];
    }
  }

  const ScanPlan& plan_;
  const uint8_t* at_;
  const uint8_t* end_;
  uint32_t left_ = 0;
};

}  // namespace trimbed
