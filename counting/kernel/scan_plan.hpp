// A kernel plan in the shape the scan reads it: class and cut tables, the table for ASCII pairs, the set of joined pairs.
// Knows nothing of Python, Arrow, or how the plan was derived.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "scan_added.hpp"

namespace trimbed {

inline constexpr size_t kCodePoints = 0x110000;

// A set of code point pairs by open addressing; key x << 32 | y.
class PairSet {
 public:
  PairSet() = default;
  explicit PairSet(const std::vector<uint64_t>& pairs) {
    if (pairs.empty()) return;
    size_t capacity = 16;
    while (capacity < pairs.size() * 3) capacity *= 2;
    slots_.assign(capacity, kEmpty);
    mask_ = capacity - 1;
    for (uint64_t key : pairs) {
      size_t at = slot(key);
      while (slots_[at] != kEmpty && slots_[at] != key) at = (at + 1) & mask_;
      slots_[at] = key;
    }
  }

  bool contains(uint32_t left, uint32_t right) const {
    if (slots_.empty()) return false;
    const uint64_t key = uint64_t{left} << 32 | right;
    for (size_t at = slot(key);; at = (at + 1) & mask_) {
      if (slots_[at] == key) return true;
      if (slots_[at] == kEmpty) return false;
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  size_t slot(uint64_t key) const { return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 20) & mask_; }

  std::vector<uint64_t> slots_;
  size_t mask_ = 0;
};

// Which segments begin with an initial piece: those that start a document, and (unless `once`) those after a match.
struct InitialRule {
  bool pieces = false;
  bool once = false;
  bool after_stage_1 = true;
};

class ScanPlan {
 public:
  // classes: one byte for each code point; cut: class_count x class_count, row = class on the left, values 0 never,
  // 1 always, 2 unless the pair is in `joined`. Throws std::invalid_argument for tables that don't fit together.
  ScanPlan(std::vector<uint8_t> classes, std::vector<uint8_t> cut, size_t class_count,
           const std::vector<uint64_t>& joined, const std::vector<AddedToken>& added, const std::vector<uint8_t>& word,
           InitialRule initial)
      : classes_(std::move(classes)), width_(class_count), joined_(joined), added_count_(added.size()), initial_(initial),
        added_{AddedMatcher(added, word, 0), AddedMatcher(added, word, 1)} {
    if (classes_.size() != kCodePoints) throw std::invalid_argument("classes must have one entry for each code point");
    if (width_ == 0 || width_ > 256 || cut.size() != width_ * width_)
      throw std::invalid_argument("cut must be a square table of at most 256 classes");
    for (uint8_t one : classes_)
      if (one >= width_) throw std::invalid_argument("a class is not in the cut table");
    for (uint8_t one : cut)
      if (one > 2) throw std::invalid_argument("cut values are 0, 1 and 2");
    // Rows of 256, so that the row is a shift away whatever the number of classes.
    cut_.assign(width_ * 256, 0);
    for (size_t left = 0; left < width_; ++left)
      for (size_t right = 0; right < width_; ++right) cut_[left << 8 | right] = cut[left * width_ + right];
    for (uint32_t right = 0; right < 128; ++right)
      for (uint32_t left = 0; left < 128; ++left) ascii_[right << 8 | left] = cuts(left, right) ? 1 : 0;
  }

  // Whether there is a cut between two neighbouring code points of a segment.
  bool cuts(uint32_t left, uint32_t right) const {
    const uint8_t rule = rule_of(classes_[left], classes_[right]);
    return rule == 2 ? !joined_.contains(left, right) : rule != 0;
  }

  uint8_t class_of(uint32_t code_point) const { return classes_[code_point]; }
  uint8_t rule_of(uint8_t left, uint8_t right) const { return cut_[size_t{left} << 8 | right]; }
  bool joined(uint32_t left, uint32_t right) const { return joined_.contains(left, right); }

  // For two ASCII bytes that lie in memory as (left, right): index right << 8 | left, which on a little-endian machine
  // is the 16-bit word as loaded. Entries are 0 or 1, with `joined` already resolved.
  const uint8_t* ascii_pairs() const { return ascii_.data(); }

  // The tokens found in a document (stage 0) or in what stage 0 left over (stage 1).
  const AddedMatcher& added(int stage) const { return added_[stage]; }
  size_t added_count() const { return added_count_; }

  // Whether the first piece of a segment is an initial one.
  bool starts_initial(bool at_document_start, bool after_stage_1) const {
    if (!initial_.pieces || at_document_start) return initial_.pieces;
    return !initial_.once && (!after_stage_1 || initial_.after_stage_1);
  }

 private:
  std::vector<uint8_t> classes_;
  size_t width_;
  std::vector<uint8_t> cut_;
  PairSet joined_;
  size_t added_count_;
  InitialRule initial_;
  std::array<AddedMatcher, 2> added_;
  std::array<uint8_t, 128 * 256> ascii_{};
};

}  // namespace trimbed
