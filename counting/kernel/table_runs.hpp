// Piece counts beyond what the table can hold: sorted runs in a temporary file, added up by a merge, of which the most
// frequent are kept. What is kept depends on the pieces and their counts alone, not on when the table was full.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <queue>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

namespace trimbed {

// A distinct piece and its occurrences. Ordered by bytes, then inner before initial.
struct PieceCount {
  uint64_t prefix = 0;  // the first eight bytes as a big-endian number, zero-padded: settles most comparisons
  std::string_view piece;
  uint64_t count = 0;
  bool initial = false;

  PieceCount() = default;
  PieceCount(std::string_view bytes, bool is_initial, uint64_t occurrences) : piece(bytes), count(occurrences), initial(is_initial) {
    for (size_t i = 0; i < 8; ++i) prefix = prefix << 8 | (i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : 0);
  }
  bool operator<(const PieceCount& other) const {
    if (prefix != other.prefix) return prefix < other.prefix;
    const int order = piece.compare(other.piece);
    return order != 0 ? order < 0 : initial < other.initial;
  }
  bool same_piece(const PieceCount& other) const {
    return prefix == other.prefix && initial == other.initial && piece == other.piece;
  }
};

// The pieces kept, sorted, and how much was not.
struct KeptPieces {
  std::string data;
  std::vector<int64_t> offsets{0};
  std::vector<uint8_t> initial;
  std::vector<int64_t> counts;
  int64_t dropped = 0;
  int64_t dropped_count = 0;

  void add(const PieceCount& one) {
    data.append(one.piece);
    offsets.push_back(static_cast<int64_t>(data.size()));
    initial.push_back(one.initial ? 1 : 0);
    counts.push_back(static_cast<int64_t>(one.count));
  }
  void drop(const PieceCount& one) {
    ++dropped;
    dropped_count += static_cast<int64_t>(one.count);
  }
};

// Says which pieces belong to the `bound` most frequent; among equals, those that come first in piece order. The counts
// of all pieces are shown to it once, then the pieces are asked for in order.
class MostFrequent {
 public:
  explicit MostFrequent(size_t bound) : bound_(bound) {}
  void show(uint64_t count) {
    if (heap_.size() < bound_) {
      heap_.push(count);
    } else if (bound_ != 0 && count > heap_.top()) {
      heap_.pop();
      heap_.push(count);
    }
  }
  void settle() {
    full_ = heap_.size() >= bound_;
    least_ = heap_.empty() ? 0 : heap_.top();
    ties_ = 0;
    for (; !heap_.empty() && heap_.top() == least_; heap_.pop()) ++ties_;
  }
  // The smallest count that can be kept.
  uint64_t least() const { return bound_ == 0 ? ~uint64_t{0} : full_ ? least_ : 0; }
  bool keeps(uint64_t count) {
    if (bound_ == 0) return false;
    if (!full_ || count > least_) return true;
    if (count < least_ || ties_ == 0) return false;
    --ties_;
    return true;
  }

 private:
  size_t bound_;
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heap_;
  bool full_ = false;
  uint64_t least_ = 0;
  size_t ties_ = 0;
};

// Sorted runs in one file, given as a descriptor that the owner keeps open.
class PieceRuns {
 public:
  bool empty() const { return runs_.empty(); }
  void use(int descriptor) { descriptor_ = descriptor; }

  // Appends a run; sorts `pieces`. Throws std::system_error when the file can't be written.
  void append(std::vector<PieceCount>& pieces) {
    std::sort(pieces.begin(), pieces.end());
    if (runs_.size() >= kMostRuns) compact();
    const uint64_t begin = end_;
    Writer writer(*this);
    for (const PieceCount& one : pieces) writer.write(one);
    writer.flush();
    runs_.push_back({begin, end_});
  }

  // Visits each distinct piece of all runs once, in order, with its added-up count. The piece's bytes are valid during
  // the visit.
  template <class Visit>
  void merge(Visit&& visit) const {
    const size_t buffer = std::max<size_t>(kLeastBuffer, kAllBuffers / std::max<size_t>(1, runs_.size()));
    std::vector<std::unique_ptr<Reader>> readers;
    const auto later = [](const Reader* a, const Reader* b) { return b->front() < a->front(); };
    std::priority_queue<Reader*, std::vector<Reader*>, decltype(later)> queue(later);
    for (const Extent& run : runs_) {
      readers.push_back(std::make_unique<Reader>(descriptor_, run, buffer));
      if (readers.back()->next()) queue.push(readers.back().get());
    }
    std::string bytes;
    while (!queue.empty()) {
      bytes.assign(queue.top()->front().piece);
      PieceCount sum(bytes, queue.top()->front().initial, 0);
      while (!queue.empty() && queue.top()->front().same_piece(sum)) {
        Reader* reader = queue.top();
        queue.pop();
        sum.count += reader->front().count;
        if (reader->next()) queue.push(reader);
      }
      visit(sum);
    }
  }

  // The `bound` most frequent pieces of all runs.
  KeptPieces keep(size_t bound) const {
    MostFrequent most(bound);
    merge([&](const PieceCount& one) { most.show(one.count); });
    most.settle();
    KeptPieces kept;
    merge([&](const PieceCount& one) { most.keeps(one.count) ? kept.add(one) : kept.drop(one); });
    return kept;
  }

  void clear() {
    runs_.clear();
    end_ = 0;
    descriptor_ = -1;
  }

 private:
  struct Extent {
    uint64_t begin, end;
  };
  struct Head {
    uint64_t count;
    uint64_t shape;  // size << 1 | initial
  };
  static constexpr size_t kMostRuns = 256;
  static constexpr size_t kLeastBuffer = size_t{1} << 14;
  static constexpr size_t kAllBuffers = size_t{1} << 24;

  class Writer {
   public:
    explicit Writer(PieceRuns& runs) : runs_(runs) {}
    void write(const PieceCount& one) {
      const Head head{one.count, uint64_t{one.piece.size()} << 1 | (one.initial ? 1 : 0)};
      buffer_.append(reinterpret_cast<const char*>(&head), sizeof head);
      buffer_.append(one.piece);
      if (buffer_.size() >= kAllBuffers / 4) flush();
    }
    void flush() {
      for (size_t done = 0; done < buffer_.size();) {
        const ssize_t wrote = ::pwrite(runs_.descriptor_, buffer_.data() + done, buffer_.size() - done, static_cast<off_t>(runs_.end_));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) throw std::system_error(errno, std::generic_category(), "writing piece counts to a temporary file");
        done += static_cast<size_t>(wrote);
        runs_.end_ += static_cast<uint64_t>(wrote);
      }
      buffer_.clear();
    }

   private:
    PieceRuns& runs_;
    std::string buffer_;
  };

  class Reader {
   public:
    Reader(int descriptor, Extent run, size_t buffer) : descriptor_(descriptor), run_(run), buffer_size_(buffer) {}
    const PieceCount& front() const { return front_; }
    bool next() {
      if (!fill(sizeof(Head))) return false;
      Head head;
      std::memcpy(&head, buffer_.data() + used_, sizeof head);
      const size_t size = static_cast<size_t>(head.shape >> 1);
      fill(sizeof(Head) + size);
      front_ = PieceCount({buffer_.data() + used_ + sizeof(Head), size}, (head.shape & 1) != 0, head.count);
      used_ += sizeof(Head) + size;
      return true;
    }

   private:
    // Sees to it that `size` bytes stand at used_; false at the run's end.
    bool fill(size_t size) {
      if (buffer_.size() - used_ >= size) return true;
      if (run_.begin == run_.end && buffer_.size() == used_) return false;
      buffer_.erase(0, used_);
      used_ = 0;
      const size_t old = buffer_.size();
      const size_t more = static_cast<size_t>(std::min<uint64_t>(run_.end - run_.begin, std::max(size - old, buffer_size_)));
      buffer_.resize(old + more);
      for (size_t done = 0; done < more;) {
        const ssize_t got = ::pread(descriptor_, buffer_.data() + old + done, more - done, static_cast<off_t>(run_.begin));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) throw std::system_error(got < 0 ? errno : EIO, std::generic_category(), "reading piece counts from a temporary file");
        done += static_cast<size_t>(got);
        run_.begin += static_cast<uint64_t>(got);
      }
      if (buffer_.size() < size) throw std::runtime_error("a temporary file of piece counts was cut short");
      return true;
    }

    int descriptor_;
    Extent run_;
    size_t buffer_size_;
    std::string buffer_;
    size_t used_ = 0;
    PieceCount front_;
  };

  void compact() {
    const uint64_t begin = end_;
    Writer writer(*this);
    merge([&](const PieceCount& one) { writer.write(one); });
    writer.flush();
    runs_.assign(1, {begin, end_});
  }

  int descriptor_ = -1;
  uint64_t end_ = 0;
  std::vector<Extent> runs_;
};

}  // namespace trimbed
