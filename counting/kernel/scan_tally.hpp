// From occurrences of pieces to occurrences of ids: each distinct piece is encoded once, its ids times its count are
// added up, and the table is emptied of all but its most frequent pieces. Knows nothing of Python or Arrow; pieces that
// the encoder refuses are handed out in batches and their ids taken back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "table.hpp"
#include "table_runs.hpp"

namespace trimbed {

struct PieceText {
  const char* data;
  size_t size;
  bool initial;
};
// What is done with the ids of the piece of that number; `known` is false when it needs the reference library.
using TakeIds = std::function<void(size_t number, bool known, std::span<const uint32_t> ids)>;
// Encodes some pieces, as many as are worth encoding together. An empty function refuses all.
using EncodePieces = std::function<void(std::span<const PieceText> pieces, const TakeIds& take)>;

// How pieces were encoded since the tally began; nothing that depends on the text's meaning.
struct TallyStats {
  int64_t encoded_native = 0;   // distinct pieces, each time one was encoded
  int64_t encoded_library = 0;
  int64_t encoded_library_occurrences = 0;
  int64_t remembered = 0;       // distinct pieces whose ids were still known
  int64_t rooms_made = 0;       // times that the table was full
};

class PieceTally {
 public:
  // keep_pieces: how many distinct pieces are reported (0: none are).
  PieceTally(PieceTable& table, EncodePieces encode, size_t id_count, size_t keep_pieces)
      : table_(table), encode_(std::move(encode)), keep_(keep_pieces), counts_(id_count) {}

  std::vector<int64_t>& counts() { return counts_; }
  TallyStats& stats() { return stats_; }

  // Settles all that the table has counted: adds up what can be encoded here, lists the rest as pending. `run_file` is
  // the descriptor of a temporary file for piece counts, -1 at the end of a shard, when the pieces kept are made from
  // the table if nothing was ever written. Returns how many pieces are pending; they must be resolved before anything else.
  size_t settle(int run_file) {
    if (!pending_.empty()) throw std::logic_error("pieces are still pending");
    if (keep_ != 0) record(run_file);
    table_.settled();
    Together together;
    table_.each([&](Entry& entry) {
      if (entry.count == 0) {
        entry.recent = 0;
      } else if (entry.encoding != 0) {
        ++stats_.remembered;
        settle_entry(entry, table_.encoding(entry));
      } else if (!encode_) {
        pending_.push_back(&entry);
      } else {
        together.entries[together.size] = &entry;
        const std::string_view piece = table_.piece(entry, together.scratch[together.size]);
        together.pieces[together.size++] = {piece.data(), piece.size(), (entry.shape & 1) != 0};
        if (together.size == kTogether) encode(together);
      }
    });
    encode(together);
    return pending_.size();
  }

  struct Batch {
    std::string data;
    std::vector<int64_t> offsets{0};
    std::vector<uint8_t> initial;
  };

  // The next pending pieces, at least one and then as many as fit the limits.
  Batch pending(size_t most, size_t bytes) const {
    Batch batch;
    for (size_t i = resolved_; i < pending_.size() && batch.initial.size() < most; ++i) {
      char scratch[kInline];
      const std::string_view piece = table_.piece(*pending_[i], scratch);
      if (!batch.initial.empty() && batch.data.size() + piece.size() > bytes) break;
      batch.data.append(piece);
      batch.offsets.push_back(static_cast<int64_t>(batch.data.size()));
      batch.initial.push_back(static_cast<uint8_t>(pending_[i]->shape & 1));
    }
    return batch;
  }

  // The ids of as many pending pieces as there are sizes, in the order they were handed out. Throws std::invalid_argument
  // and changes nothing when they can't be right.
  void resolve(std::span<const uint32_t> ids, std::span<const int64_t> sizes) {
    if (sizes.size() > pending_.size() - resolved_) throw std::invalid_argument("more pieces were encoded than are pending");
    size_t total = 0;
    for (int64_t size : sizes) {
      if (size < 0 || static_cast<size_t>(size) > ids.size() - total) throw std::invalid_argument("sizes and ids don't fit together");
      total += static_cast<size_t>(size);
    }
    if (total != ids.size()) throw std::invalid_argument("sizes and ids don't fit together");
    for (uint32_t id : ids) check(id);
    size_t at = 0;
    for (int64_t size : sizes) {
      Entry& entry = *pending_[resolved_++];
      const auto own = ids.subspan(at, static_cast<size_t>(size));
      at += static_cast<size_t>(size);
      ++stats_.encoded_library;
      stats_.encoded_library_occurrences += static_cast<int64_t>(entry.count);
      remember(entry, own);
      settle_entry(entry, own);
    }
    if (resolved_ == pending_.size()) {
      pending_.clear();
      resolved_ = 0;
    }
  }

  // Empties the table of all but its most frequent pieces, by what was counted up to the last settling.
  void make_room() {
    if (!pending_.empty()) throw std::logic_error("pieces are still pending");
    ++stats_.rooms_made;
    forget(table_.size() / 4);
  }

  // Ends a shard: a table that is more than half full is brought down, so that the next shard has room.
  void end() {
    if (!pending_.empty()) throw std::logic_error("pieces are still pending");
    if (table_.crowded()) forget(table_.size() / 4);
  }

  KeptPieces kept() {
    KeptPieces kept = std::move(kept_);
    kept_ = {};
    runs_.clear();
    return kept;
  }

 private:
  // Longer encodings belong to pieces that hardly come again.
  static constexpr size_t kRemembered = 64;

  static constexpr size_t kTogether = 64;
  struct Together {
    size_t size = 0;
    Entry* entries[kTogether];
    PieceText pieces[kTogether];
    char scratch[kTogether][kInline];
  };

  void encode(Together& together) {
    if (together.size == 0) return;
    encode_({together.pieces, together.size}, [&](size_t number, bool known, std::span<const uint32_t> ids) {
      Entry& entry = *together.entries[number];
      if (!known) {
        pending_.push_back(&entry);
        return;
      }
      ++stats_.encoded_native;
      remember(entry, ids);
      settle_entry(entry, ids);
    });
    together.size = 0;
  }

  void check(uint32_t id) const {
    if (id >= counts_.size()) throw std::invalid_argument("an encoder gave id " + std::to_string(id) + ", which is outside the vocabulary");
  }

  void remember(Entry& entry, std::span<const uint32_t> ids) {
    if (ids.size() <= kRemembered && table_.can_hold(ids.size())) table_.set_encoding(entry, ids);
  }

  void settle_entry(Entry& entry, std::span<const uint32_t> ids) {
    for (uint32_t id : ids) {
      check(id);
      counts_[id] += static_cast<int64_t>(entry.count);
    }
    entry.recent = entry.count;
    entry.count = 0;
  }

  void record(int run_file) {
    std::vector<PieceCount> pieces;
    std::string inline_bytes;
    size_t inline_size = 0, seen = 0;
    table_.each([&](Entry& entry) {
      if (entry.count == 0) return;
      ++seen;
      if ((entry.shape >> 1) <= kInline) inline_size += entry.shape >> 1;
    });
    inline_bytes.reserve(inline_size);  // never moves, so views into it stay good
    const bool at_once = run_file < 0 && runs_.empty();
    MostFrequent most(keep_);
    if (at_once) {
      table_.each([&](Entry& entry) {
        if (entry.count != 0) most.show(entry.count);
      });
      most.settle();
    }
    const uint64_t least = at_once ? most.least() : 0;
    if (!at_once) pieces.reserve(seen);
    table_.each([&](Entry& entry) {
      if (entry.count == 0) return;
      if (entry.count < least) {
        ++kept_.dropped;
        kept_.dropped_count += static_cast<int64_t>(entry.count);
        return;
      }
      char scratch[kInline];
      std::string_view piece = table_.piece(entry, scratch);
      if (piece.size() <= kInline) {
        const size_t at = inline_bytes.size();
        inline_bytes.append(piece);
        piece = {inline_bytes.data() + at, piece.size()};
      }
      pieces.emplace_back(piece, (entry.shape & 1) != 0, entry.count);
    });
    if (at_once) {
      std::sort(pieces.begin(), pieces.end());
      for (const PieceCount& one : pieces) most.keeps(one.count) ? kept_.add(one) : kept_.drop(one);
      return;
    }
    if (run_file >= 0) runs_.use(run_file);
    runs_.append(pieces);
    if (run_file < 0) kept_ = runs_.keep(keep_);
  }

  // Keeps at most `most` entries, those that were counted most.
  void forget(size_t most) {
    std::vector<uint32_t> counts;
    counts.reserve(table_.size());
    table_.each([&](Entry& entry) { counts.push_back(entry.recent); });
    uint32_t least = 1;
    if (most < counts.size()) {
      std::nth_element(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(most), counts.end(), std::greater<>());
      least = counts[most] + 1;
    }
    table_.retain([&](const Entry& entry) { return entry.recent >= least && entry.encoding != 0; });
    // A few very long pieces may be most of the memory.
    if (table_.full()) table_.retain([](const Entry&) { return false; });
  }

  PieceTable& table_;
  EncodePieces encode_;
  size_t keep_;
  std::vector<int64_t> counts_;
  std::vector<Entry*> pending_;
  size_t resolved_ = 0;
  PieceRuns runs_;
  KeptPieces kept_;
  TallyStats stats_;
};

}  // namespace trimbed
