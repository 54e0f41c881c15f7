// Documents in, occurrences of distinct pieces out: finds the added tokens, cuts the text between them, looks the pieces
// up in batches. Knows nothing of Python, Arrow or encoders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "scan_cut.hpp"
#include "scan_plan.hpp"
#include "table.hpp"

namespace trimbed {

// What a scan counts besides pieces.
struct Totals {
  int64_t documents = 0;
  int64_t empty = 0;
  int64_t bytes = 0;
  int64_t pieces = 0;           // occurrences
  std::vector<int64_t> added;   // occurrences of each added token of the plan, in its order
};

class Scan {
 public:
  // make_room is called when the table is full and must leave it with room; it may throw. All references outlive the scan.
  Scan(const ScanPlan& plan, PieceTable& table, Totals& totals, std::function<void()> make_room)
      : plan_(plan), table_(table), totals_(totals), make_room_(std::move(make_room)), cuts_(Cutter::kSpan + 64), lookups_(PieceTable::kBatch) {
    totals_.added.resize(plan.added_count());
  }

  // One document. `limit` (not before data + size) is the end of the memory that may be read. The bytes must stay
  // where they are until `flush`. Throws InvalidText, and then the totals are of no use any more.
  void document(const uint8_t* data, size_t size, const uint8_t* limit) {
    ++totals_.documents;
    totals_.bytes += static_cast<int64_t>(size);
    if (size == 0) {
      ++totals_.empty;
      return;
    }
    limit_ = limit;
    begin_ = data;
    const uint8_t* const end = data + size;
    split(plan_.added(0), data, end, [&](const uint8_t* from, const uint8_t* to, bool) {
      split(plan_.added(1), from, to, [&](const uint8_t* start, const uint8_t* stop, bool after_match) {
        segment(start, stop, after_match);
      });
    });
  }

  // Brings what has been read so far into the table.
  void flush() {
    if (waiting_ == 0) return;
    table_.count(lookups_.data(), waiting_);
    totals_.pieces += static_cast<int64_t>(waiting_);
    waiting_ = 0;
    if (table_.full()) make_room_();
  }

 private:
  static constexpr size_t kLong = size_t{1} << 16;

  // Calls `stretch(from, to, after_match)` for each non-empty stretch of text between the matches.
  template <class Stretch>
  void split(const AddedMatcher& matcher, const uint8_t* begin, const uint8_t* end, Stretch&& stretch) {
    const uint8_t* from = begin;
    const uint8_t* taken = begin;
    bool after_match = false;
    AddedMatch match;
    if (!matcher.empty()) {
      while (matcher.next(begin, from, taken, end, match)) {
        if (taken < match.begin) stretch(taken, match.begin, after_match);
        ++totals_.added[matcher.number(match.token)];
        taken = match.end;
        after_match = true;
      }
    }
    if (taken < end) stretch(taken, end, after_match);
  }

  void segment(const uint8_t* begin, const uint8_t* end, bool after_stage_1) {
    bool initial = plan_.starts_initial(begin == begin_, after_stage_1);
    const uint8_t* start = begin;
    Cutter cutter(plan_, begin, end);
    while (!cutter.done()) {
      const uint8_t* const origin = cutter.at();
      const uint32_t* cut = cuts_.data();
      const uint32_t* const last = cut + cutter.cuts(cuts_.data());
      if (cut != last && initial) {
        piece(start, origin + *cut, true);
        start = origin + *cut++;
        initial = false;
      }
      while (cut != last) {
        cut = short_pieces(start, origin, cut, last);
        if (cut == last) break;
        piece(start, origin + *cut, false);
        start = origin + *cut++;
      }
    }
    piece(start, end, initial);
  }

  // Takes pieces for as long as nothing is special about them; returns the first cut whose piece wasn't taken. Nearly all
  // of a scan's time goes by in here and in `cuts` and `count`, so everything it needs is a local variable.
  const uint32_t* short_pieces(const uint8_t*& start, const uint8_t* origin, const uint32_t* cut, const uint32_t* last) {
    if (limit_ - origin < static_cast<std::ptrdiff_t>(kInline)) return cut;
    const PieceTable::Prefetch prefetch(table_);
    const uint8_t* const readable = limit_ - kInline;
    const uint8_t* from = start;
    Lookup* out = lookups_.data() + waiting_;
    Lookup* const full = lookups_.data() + PieceTable::kBatch - 1;
    for (; cut != last && out != full; ++cut, ++out) {
      const uint8_t* const to = origin + *cut;
      const size_t size = static_cast<size_t>(to - from);
      if (size > kInline || from > readable) break;
      look_up_short(from, size, false, *out);
      prefetch(out->place);
      from = to;
    }
    start = from;
    waiting_ = static_cast<size_t>(out - lookups_.data());
    return cut;
  }

  void piece(const uint8_t* begin, const uint8_t* end, bool initial) {
    const size_t size = static_cast<size_t>(end - begin);
    if (size > kLongestPiece) [[unlikely]] throw std::length_error("a piece of more than 1 GiB without a cut");
    Lookup& one = lookups_[waiting_];
    look_up(begin, size, initial, limit_, one);
    PieceTable::Prefetch{table_}(one.place);
    // A long piece is copied into the table; don't let a batch of them pile up past the table's limit.
    if (++waiting_ == PieceTable::kBatch || size > kLong) flush();
  }

  const ScanPlan& plan_;
  PieceTable& table_;
  Totals& totals_;
  std::function<void()> make_room_;
  std::vector<uint32_t> cuts_;
  std::vector<Lookup> lookups_;
  size_t waiting_ = 0;
  const uint8_t* begin_ = nullptr;
  const uint8_t* limit_ = nullptr;
};

}  // namespace trimbed
