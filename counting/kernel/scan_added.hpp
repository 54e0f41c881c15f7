// Finds the added tokens that are matched on raw text: leftmost-longest, with the single_word, lstrip and rstrip flags as
// the tokenizers library applies them. Knows nothing of pieces or counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "scan_utf8.hpp"

namespace trimbed {

struct AddedToken {
  std::string content;
  uint32_t id = 0;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  int stage = 0;
};

// A match: its token's place among the matcher's, and the bytes it covers, white space taken in by lstrip and rstrip included.
struct AddedMatch {
  size_t token;
  const uint8_t* begin;
  const uint8_t* end;
};

inline bool is_white_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

class AddedMatcher {
 public:
  AddedMatcher() = default;

  // Of `tokens`, those of one stage. word: one byte for each code point, 1 where it is a word character to the library;
  // may be empty when no token has single_word. Throws std::invalid_argument for empty or repeated contents.
  AddedMatcher(const std::vector<AddedToken>& tokens, std::vector<uint8_t> word, int stage) : word_(std::move(word)) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].stage != 0 && tokens[i].stage != 1) throw std::invalid_argument("added tokens have stage 0 or 1");
      if (tokens[i].stage != stage) continue;
      tokens_.push_back(tokens[i]);
      numbers_.push_back(i);
      if (tokens[i].content.empty()) throw std::invalid_argument("an added token is empty");
      if (tokens[i].single_word && word_.size() != 0x110000)
        throw std::invalid_argument("added tokens with single_word need the word table");
    }
    order_.resize(tokens_.size());
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    std::sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return tokens_[a].content < tokens_[b].content; });
    for (size_t i = 1; i < order_.size(); ++i)
      if (tokens_[order_[i - 1]].content == tokens_[order_[i]].content)
        throw std::invalid_argument("an added token is listed twice");
    build_trie();
    build_filter();
  }

  bool empty() const { return tokens_.empty(); }
  // Where a match's token stands in the list that the matcher was made from.
  size_t number(size_t token) const { return numbers_[token]; }

  // The next match in [from, end) of a document that starts at `begin`. `from` is where the search resumes (the bare end of
  // the match before), `taken` is where that match ended with its white space. False when there is none. After a match
  // `from` is where to resume.
  bool next(const uint8_t* begin, const uint8_t*& from, const uint8_t* taken, const uint8_t* end, AddedMatch& match) const {
    while (from < end) {
      from = candidate(from, end);
      if (from == end) return false;
      size_t length = 0;
      const size_t token = longest(from, end, length);
      if (length == 0) {
        ++from;
        continue;
      }
      const uint8_t* start = from;
      const uint8_t* stop = from + length;
      from = stop;  // matches don't overlap, and one that its flags refuse still uses up its text
      const AddedToken& one = tokens_[token];
      if (one.single_word && !stands_alone(begin, start, stop, end)) continue;
      if (one.lstrip) {
        const uint8_t* wide = start;
        while (wide > begin) {
          const Decoded before = decode_before(begin, wide);
          if (before.size == 0 || !is_white_space(before.code_point)) break;
          wide -= before.size;
        }
        start = std::max(wide, taken);
      }
      if (one.rstrip) {
        while (stop < end) {
          const Decoded after = decode(stop, end);
          if (after.size == 0 || !is_white_space(after.code_point)) break;
          stop += after.size;
        }
      }
      match = {token, start, stop};
      return true;
    }
    return false;
  }

 private:
  struct Node {
    uint32_t first_edge = 0;
    uint32_t edge_count = 0;
    uint32_t token = kNone;
  };
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr size_t kFewFirsts = 6;
  static constexpr size_t kBlock = 64;

  void build_trie() {
    nodes_.clear();
    edges_.clear();
    if (!tokens_.empty()) {
      nodes_.emplace_back();
      build_node(0, 0, 0, order_.size());
    }
  }

  // Node `node` stands for the first `depth` bytes that order_[low, high) have in common.
  void build_node(size_t node, size_t depth, size_t low, size_t high) {
    // An explicit stack: contents can be long, and recursion a byte deep each would go as deep.
    struct Task {
      size_t node, depth, low, high;
    };
    std::vector<Task> tasks{{node, depth, low, high}};
    while (!tasks.empty()) {
      Task task = tasks.back();
      tasks.pop_back();
      if (tokens_[order_[task.low]].content.size() == task.depth)
        nodes_[task.node].token = static_cast<uint32_t>(order_[task.low++]);
      nodes_[task.node].first_edge = static_cast<uint32_t>(edges_.size());
      for (size_t at = task.low; at < task.high;) {
        const char byte = tokens_[order_[at]].content[task.depth];
        size_t stop = at;
        while (stop < task.high && tokens_[order_[stop]].content[task.depth] == byte) ++stop;
        edges_.push_back({static_cast<uint8_t>(byte), static_cast<uint32_t>(nodes_.size())});
        tasks.push_back({nodes_.size(), task.depth + 1, at, stop});
        nodes_.emplace_back();
        at = stop;
      }
      nodes_[task.node].edge_count = static_cast<uint32_t>(edges_.size()) - nodes_[task.node].first_edge;
    }
  }

  void build_filter() {
    for (const AddedToken& one : tokens_) {
      const uint8_t first = static_cast<uint8_t>(one.content[0]);
      if (!starts_[first]) firsts_.push_back(first);
      starts_[first] = 1;
      if (one.content.size() == 1)
        for (size_t second = 0; second < 256; ++second) allow(first, second);
      else
        allow(first, static_cast<uint8_t>(one.content[1]));
    }
  }
  void allow(size_t first, size_t second) { seconds_[first][second >> 6] |= uint64_t{1} << (second & 63); }

  // The first place in [at, end) where a token may start, or end.
  const uint8_t* candidate(const uint8_t* at, const uint8_t* end) const {
    for (;;) {
      if (firsts_.size() <= kFewFirsts)
        while (static_cast<size_t>(end - at) >= kBlock && !block_has_first(at)) at += kBlock;
      const uint8_t* stop = static_cast<size_t>(end - at) > kBlock ? at + kBlock : end;
      for (; at < stop; ++at) {
        if (!starts_[*at]) continue;
        // The last byte of a text is let through: only a token of one byte can match there.
        if (at + 1 == end || (seconds_[*at][at[1] >> 6] >> (at[1] & 63) & 1)) return at;
      }
      if (at == end) return end;
    }
  }

  // Whether any of the 64 bytes at `at` begins a token: compares of whole blocks, which compilers turn into vector code.
  bool block_has_first(const uint8_t* at) const {
    switch (firsts_.size()) {
      case 0: return false;
      case 1: return any_of<1>(at);
      case 2: return any_of<2>(at);
      case 3: return any_of<3>(at);
      default: return any_of<kFewFirsts>(at);
    }
  }
  template <size_t N>
  bool any_of(const uint8_t* at) const {
    uint8_t wanted[N];
    for (size_t k = 0; k < N; ++k) wanted[k] = firsts_[std::min(k, firsts_.size() - 1)];
    uint8_t found = 0;
    for (size_t i = 0; i < kBlock; ++i)
      for (size_t k = 0; k < N; ++k) found |= static_cast<uint8_t>(at[i] == wanted[k] ? 0xFF : 0);
    return found != 0;
  }

  // The longest token that starts at `at`; length 0 when none does.
  size_t longest(const uint8_t* at, const uint8_t* end, size_t& length) const {
    size_t found = 0;
    size_t node = 0;
    for (const uint8_t* p = at; p < end; ++p) {
      const Node& here = nodes_[node];
      const Edge* edge = edges_.data() + here.first_edge;
      const Edge* stop = edge + here.edge_count;
      while (edge != stop && edge->byte != *p) ++edge;
      if (edge == stop) break;
      node = edge->node;
      if (nodes_[node].token != kNone) {
        found = nodes_[node].token;
        length = static_cast<size_t>(p + 1 - at);
      }
    }
    return found;
  }

  bool stands_alone(const uint8_t* begin, const uint8_t* start, const uint8_t* stop, const uint8_t* end) const {
    if (start > begin) {
      const Decoded before = decode_before(begin, start);
      if (before.size != 0 && word_[before.code_point]) return false;
    }
    if (stop < end) {
      const Decoded after = decode(stop, end);
      if (after.size != 0 && word_[after.code_point]) return false;
    }
    return true;
  }

  std::vector<AddedToken> tokens_;
  std::vector<size_t> numbers_;
  std::vector<uint8_t> word_;
  std::vector<size_t> order_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<uint8_t> firsts_;
  std::array<uint8_t, 256> starts_{};
  std::array<std::array<uint64_t, 4>, 256> seconds_{};
};

}  // namespace trimbed
