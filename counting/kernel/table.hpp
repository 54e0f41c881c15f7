// The table of distinct pieces: bytes + initial flag -> occurrences, and the ids of the pieces that have been encoded.
// Knows nothing of plans, encoders, Arrow or Python.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "table_memory.hpp"

#if defined(_MSC_VER)
#include <intrin.h>
#endif

namespace trimbed {

// Zero where there is no piece, since pieces are never empty.
struct Entry {
  uint64_t low = 0;       // up to 16 bytes: the piece itself, zero-padded; longer: its first eight bytes
  uint64_t high = 0;      // longer than 16 bytes: kFar | where its bytes are in the arena
  uint32_t count = 0;     // occurrences since the last settling, below 2^31 (see PieceTable::count)
  uint32_t recent = 0;    // what `count` was at the last settling
  uint32_t encoding = 0;  // place in the encodings, 0 when not known
  uint32_t shape = 0;     // size << 1 | initial
};
static_assert(sizeof(Entry) == 32);

// A piece that is about to be counted. Small, since a batch of them should stay in the nearest cache.
struct Lookup {
  uint64_t low;    // as in Entry
  uint64_t high;   // as in Entry; longer than 16 bytes: the address of the bytes
  uint32_t place;  // where the search begins, before it is cut to the table's size
  uint32_t shape;  // as in Entry
};
static_assert(sizeof(Lookup) == 24);

inline constexpr size_t kInline = 16;
// No address of a process has this bit, so a lookup's `high` never equals that of a long piece's entry.
inline constexpr uint64_t kFar = uint64_t{1} << 63;
inline constexpr size_t kLongestPiece = size_t{1} << 30;

inline uint64_t mix(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
#elif defined(_MSC_VER) && defined(_M_X64)
  uint64_t top;
  const uint64_t bottom = _umul128(a, b, &top);
  return bottom ^ top;
#else
  const uint64_t p = (a ^ (a >> 32)) * 0xD6E8FEB86659FD93u + b;
  return (p ^ (p >> 29)) * 0xBF58476D1CE4E5B9u ^ (b >> 31);
#endif
}

// Of the bytes alone: what differs only by trailing zeros or the initial flag shares a place, and is told apart there.
inline uint32_t hash_short(uint64_t low, uint64_t high) {
  return static_cast<uint32_t>(mix(low ^ 0x9E3779B97F4A7C15u, high ^ 0xE7037ED1A0B428DBu));
}

inline uint64_t load64(const uint8_t* at) {
  uint64_t word;
  std::memcpy(&word, at, 8);
  if constexpr (std::endian::native == std::endian::big) {
    uint64_t swapped = 0;
    for (int i = 0; i < 8; ++i) swapped |= (word >> (8 * i) & 0xFF) << (8 * (7 - i));
    word = swapped;
  }
  return word;
}

inline uint32_t hash_long(const uint8_t* data, size_t size) {
  uint64_t hash = 0x8EBC6AF09C88C6E3u ^ size;
  const uint8_t* end = data + size;
  for (; end - data > 16; data += 16) {
    hash = mix(load64(data) ^ 0x2D358DCCAA6C78A5u ^ hash, load64(data + 8) ^ 0x589965CC75374CC3u);
  }
  // The last 16 bytes, overlapping what was read: the piece is longer than 16.
  return static_cast<uint32_t>(mix(load64(end - 16) ^ 0x2D358DCCAA6C78A5u ^ hash, load64(end - 8) ^ 0xE7037ED1A0B428DBu));
}

// What of a 16-byte load belongs to a piece of so many bytes.
inline constexpr auto kMasks = [] {
  std::array<std::array<uint64_t, 2>, kInline + 1> masks{};
  for (size_t size = 1; size <= kInline; ++size) {
    masks[size][0] = size >= 8 ? ~uint64_t{0} : (uint64_t{1} << (size * 8)) - 1;
    masks[size][1] = size <= 8 ? 0 : size == 16 ? ~uint64_t{0} : (uint64_t{1} << ((size - 8) * 8)) - 1;
  }
  return masks;
}();

// The lookup of a piece of 1 to 16 bytes, 16 bytes of memory being readable from `data`.
inline void look_up_short(const uint8_t* data, size_t size, bool initial, Lookup& one) {
  one.low = load64(data) & kMasks[size][0];
  one.high = load64(data + 8) & kMasks[size][1];
  one.place = hash_short(one.low, one.high);
  one.shape = static_cast<uint32_t>(size << 1 | (initial ? 1 : 0));
}

// The lookup of any piece. `limit` is the end of the memory that may be read.
inline void look_up(const uint8_t* data, size_t size, bool initial, const uint8_t* limit, Lookup& one) {
  if (size > kInline) {
    one.low = load64(data);
    one.high = reinterpret_cast<uintptr_t>(data);
    one.place = hash_long(data, size);
    one.shape = static_cast<uint32_t>(size << 1 | (initial ? 1 : 0));
  } else if (static_cast<size_t>(limit - data) >= kInline) {
    look_up_short(data, size, initial, one);
  } else {
    uint8_t padded[kInline] = {};
    std::memcpy(padded, data, size);
    look_up_short(padded, size, initial, one);
  }
}

class PieceTable {
 public:
  // Lookups counted between two looks at `full`: the table has room for as many beyond its limits.
  static constexpr size_t kBatch = 256;

  // bytes: what entries (one half) and long pieces and encodings (the other) may take. pieces: at most so many entries (0: as memory allows).
  PieceTable(size_t bytes, size_t pieces) : bytes_(bytes), pieces_(pieces ? pieces : ~size_t{0}) { clear(kSmallest); }

  size_t size() const { return used_; }
  size_t capacity() const { return entries_.size(); }
  size_t memory() const { return entries_.size() * sizeof(Entry) + arena_.size() + encodings_.size() * sizeof(uint32_t); }

  // Whether the owner must make room before the next batch: entries or bytes are at the limit.
  bool full() const {
    if (used_ >= pieces_ || counted_ >= kMostCounted) return true;
    if (used_ + kBatch > room() && !may_grow()) return true;
    return used_ > 0 && arena_.size() + encodings_.size() * sizeof(uint32_t) > bytes_ / 2;
  }

  // Whether so much is used that the next shard had better start with less.
  bool crowded() const { return used_ * 2 > pieces_ || (used_ > kSmallest && memory() * 2 > bytes_); }

  // Brings a lookup's place near. What it uses stays the same until the next count.
  class Prefetch {
   public:
    explicit Prefetch(const PieceTable& table) : entries_(table.entries_.begin()), mask_(static_cast<uint32_t>(table.mask_)) {}
    void operator()([[maybe_unused]] uint32_t place) const {
#if defined(__GNUC__) || defined(__clang__)
      __builtin_prefetch(entries_ + (place & mask_), 1);
#endif
    }

   private:
    [[maybe_unused]] const Entry* entries_;
    [[maybe_unused]] uint32_t mask_;
  };

  // All counts were settled: entries count from zero again.
  void settled() { counted_ = 0; }

  // Adds one occurrence of each. At most kBatch at a time, `full` looked at in between: it also says so before any
  // entry's count can overflow.
  void count(const Lookup* lookups, size_t size) {
    counted_ += size;
    if (used_ + size > room()) grow();
    Entry* const entries = entries_.begin();
    const uint32_t mask = static_cast<uint32_t>(mask_);
    for (const Lookup* const end = lookups + size; lookups != end; ++lookups) {
      Entry& entry = entries[lookups->place & mask];
      // For a longer piece `high` is an address, which no entry has (see kFar): those take the other way.
      if (entry.low == lookups->low && entry.high == lookups->high && entry.shape == lookups->shape) [[likely]] {
        ++entry.count;
      } else {
        ++find(*lookups).count;
      }
    }
  }

  template <class Visit>
  void each(Visit&& visit) {
    for (Entry& entry : entries_)
      if (entry.shape != 0) visit(entry);
  }

  // The bytes of an entry's piece; `scratch` (16 bytes) holds them when they are inline.
  std::string_view piece(const Entry& entry, char* scratch) const {
    const size_t size = entry.shape >> 1;
    if (size > kInline) return {reinterpret_cast<const char*>(far(entry)), size};
    for (int i = 0; i < 8; ++i) scratch[i] = static_cast<char>(entry.low >> (8 * i));
    for (int i = 0; i < 8; ++i) scratch[8 + i] = static_cast<char>(entry.high >> (8 * i));
    return {scratch, size};
  }

  std::span<const uint32_t> encoding(const Entry& entry) const {
    const uint32_t* at = encodings_.data() + entry.encoding;
    return {at + 1, *at};
  }

  void set_encoding(Entry& entry, std::span<const uint32_t> ids) {
    entry.encoding = static_cast<uint32_t>(encodings_.size());
    encodings_.push_back(static_cast<uint32_t>(ids.size()));
    encodings_.insert(encodings_.end(), ids.begin(), ids.end());
  }
  // Whether another encoding of `ids` can still be addressed.
  bool can_hold(size_t ids) const { return encodings_.size() + ids + 1 < ~uint32_t{0}; }

  // Keeps the entries for which `keep(entry)` holds, with their encodings; entries move.
  template <class Keep>
  void retain(Keep&& keep) {
    std::vector<Entry> kept;
    each([&](Entry& entry) {
      if (keep(std::as_const(entry))) kept.push_back(entry);
    });
    size_t capacity = kSmallest;
    while (kept.size() + kBatch > capacity - capacity / 2) capacity *= 2;
    std::vector<uint8_t> arena = std::move(arena_);
    std::vector<uint32_t> encodings = std::move(encodings_);
    clear(capacity);
    for (Entry& entry : kept) {
      const size_t size = entry.shape >> 1;
      if (size > kInline) {
        const uint8_t* data = arena.data() + (entry.high & ~kFar);
        entry.high = kFar | arena_.size();
        arena_.insert(arena_.end(), data, data + size);
      }
      if (entry.encoding != 0) {
        const uint32_t* at = encodings.data() + entry.encoding;
        set_encoding(entry, {at + 1, *at});
      }
      entries_[empty_slot(hash_of(entry))] = entry;
      ++used_;
    }
  }

 private:
  static constexpr size_t kSmallest = 2048;
  static constexpr size_t kMostEntries = size_t{1} << 31;  // places are 32 bits
  static constexpr size_t kMostCounted = size_t{1} << 31;

  size_t room() const { return entries_.size() / 2; }
  bool may_grow() const { return entries_.size() < kMostEntries && (entries_.size() * 2 * sizeof(Entry) <= bytes_ / 2 || entries_.size() < kSmallest * 2); }

  bool same(const Entry& entry, const Lookup& one) const {
    if (entry.low != one.low || entry.shape != one.shape) return false;
    const size_t size = one.shape >> 1;
    return size <= kInline ? entry.high == one.high : std::memcmp(far(entry), bytes_of(one), size) == 0;
  }
  const uint8_t* far(const Entry& entry) const { return arena_.data() + (entry.high & ~kFar); }
  static const uint8_t* bytes_of(const Lookup& one) { return reinterpret_cast<const uint8_t*>(static_cast<uintptr_t>(one.high)); }

  Entry& find(const Lookup& one) {
    size_t at = one.place & mask_;
    for (; entries_[at].shape != 0; at = (at + 1) & mask_)
      if (same(entries_[at], one)) return entries_[at];
    Entry& entry = entries_[at];
    entry.low = one.low;
    entry.high = one.high;
    entry.shape = one.shape;
    const size_t size = one.shape >> 1;
    if (size > kInline) {
      entry.high = kFar | arena_.size();
      arena_.insert(arena_.end(), bytes_of(one), bytes_of(one) + size);
    }
    ++used_;
    return entry;
  }

  uint32_t hash_of(const Entry& entry) const {
    const size_t size = entry.shape >> 1;
    return size <= kInline ? hash_short(entry.low, entry.high) : hash_long(far(entry), size);
  }

  size_t empty_slot(uint32_t hash) const {
    size_t at = hash & mask_;
    while (entries_[at].shape != 0) at = (at + 1) & mask_;
    return at;
  }

  // A new capacity without entries. Encoding 0 means none, so the first place is taken.
  void clear(size_t capacity) {
    entries_ = EntryArray<Entry>(capacity);
    mask_ = capacity - 1;
    used_ = 0;
    arena_.clear();
    encodings_.assign(1, 0);
  }

  void grow() {
    EntryArray<Entry> old = std::move(entries_);
    entries_ = EntryArray<Entry>(old.size() * 2);
    mask_ = entries_.size() - 1;
    for (const Entry& entry : old)
      if (entry.shape != 0) entries_[empty_slot(hash_of(entry))] = entry;
  }

  size_t bytes_;
  size_t pieces_;
  EntryArray<Entry> entries_;
  size_t mask_ = 0;
  size_t used_ = 0;
  size_t counted_ = 0;  // occurrences since the last settling
  std::vector<uint8_t> arena_;
  std::vector<uint32_t> encodings_;
};

}  // namespace trimbed
