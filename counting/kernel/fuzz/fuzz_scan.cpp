// Fuzz driver for the scan: a plan, added tokens and Arrow text all made from the input's bytes, in buffers of exactly
// their size; what is counted is held against a slow count of the same text. See the kernel's README for how to run it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../arrow_scan.hpp"
#include "../scan_tally.hpp"

namespace {

using namespace trimbed;
using Pieces = std::map<std::pair<std::string, bool>, uint64_t>;

struct Input {
  const uint8_t* at;
  const uint8_t* end;
  uint32_t number(uint32_t below) {
    uint32_t value = 0;
    for (int i = 0; i < 2 && at < end; ++i) value = value << 8 | *at++;
    return below ? value % below : 0;
  }
};

void append(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 63));
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  }
}

constexpr uint32_t kAlphabet[] = {'a', 'b', 'c', ' ', '\n', '<', '>', '0', 0x7F, 0, 0xE9, 0x301, 0x7FF, 0x800, 0x65E5, 0x672C,
                                  0x3000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF, 0x2028};
constexpr uint32_t kLetters = sizeof kAlphabet / sizeof *kAlphabet;

std::string some_text(Input& in, uint32_t longest) {
  std::string text;
  for (uint32_t left = in.number(longest + 1); left > 0; --left) append(text, kAlphabet[in.number(kLetters)]);
  return text;
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "fuzz_scan: %s\n", what);
  std::abort();
}

struct Fuzzed {
  std::vector<uint8_t> classes = std::vector<uint8_t>(kCodePoints), cut, word = std::vector<uint8_t>(kCodePoints);
  std::vector<uint64_t> joined;
  std::vector<AddedToken> added;
  InitialRule initial;
  size_t width;

  explicit Fuzzed(Input& in) : width(1 + in.number(6)) {
    for (uint32_t c : kAlphabet) {
      classes[c] = static_cast<uint8_t>(in.number(static_cast<uint32_t>(width)));
      word[c] = in.number(2) != 0;
    }
    for (size_t i = 0; i < width * width; ++i) cut.push_back(static_cast<uint8_t>(in.number(3)));
    for (uint32_t n = in.number(12); n > 0; --n)
      joined.push_back(uint64_t{kAlphabet[in.number(kLetters)]} << 32 | kAlphabet[in.number(kLetters)]);
    for (uint32_t n = in.number(9); n > 0; --n) {
      AddedToken one;
      one.content = some_text(in, 4);
      one.stage = static_cast<int>(in.number(2));
      const uint32_t flags = in.number(8);
      one.single_word = flags & 1;
      one.lstrip = flags & 2;
      one.rstrip = flags & 4;
      bool fresh = !one.content.empty();
      for (const AddedToken& other : added) fresh = fresh && (other.content != one.content || other.stage != one.stage);
      if (fresh) added.push_back(one);
    }
    initial = {in.number(2) != 0, in.number(2) != 0, in.number(2) != 0};
  }
};

// The slow count: code points in a vector, every token tried at every place.
struct Slow {
  const Fuzzed& plan;
  Pieces pieces;
  std::vector<int64_t> added;

  std::vector<std::vector<uint32_t>> contents;

  explicit Slow(const Fuzzed& fuzzed) : plan(fuzzed), added(fuzzed.added.size()) {
    for (const AddedToken& one : fuzzed.added) contents.push_back(points(one.content));
  }

  static std::vector<uint32_t> points(const std::string& text) {
    std::vector<uint32_t> out;
    const auto* at = reinterpret_cast<const uint8_t*>(text.data());
    for (const uint8_t* end = at + text.size(); at < end;) {
      const Decoded one = decode(at, end);
      if (one.size == 0) throw InvalidText();
      out.push_back(one.code_point);
      at += one.size;
    }
    return out;
  }

  using Span = std::vector<uint32_t>;

  void document(const Span& text) {
    split(text, 0, text.size(), 0, [&](size_t from, size_t to, bool) {
      split(text, from, to, 1, [&](size_t start, size_t stop, bool after) { segment(text, start, stop, after); });
    });
  }

  template <class Stretch>
  void split(const Span& text, size_t begin, size_t end, int stage, Stretch&& stretch) {
    size_t taken = begin;
    bool after = false;
    for (size_t at = begin; at < end;) {
      size_t best = 0, length = 0;
      for (size_t i = 0; i < plan.added.size(); ++i) {
        const Span& content = contents[i];
        if (plan.added[i].stage != stage || content.size() <= length || content.size() > end - at) continue;
        if (std::equal(content.begin(), content.end(), text.begin() + static_cast<std::ptrdiff_t>(at))) {
          best = i;
          length = content.size();
        }
      }
      if (length == 0) {
        ++at;
        continue;
      }
      const AddedToken& one = plan.added[best];
      size_t start = at, stop = at + length;
      at = stop;
      if (one.single_word && ((start > begin && plan.word[text[start - 1]]) || (stop < end && plan.word[text[stop]]))) continue;
      if (one.lstrip) {
        while (start > begin && is_white_space(text[start - 1])) --start;
        start = std::max(start, taken);
      }
      if (one.rstrip)
        while (stop < end && is_white_space(text[stop])) ++stop;
      if (taken < start) stretch(taken, start, after);
      ++added[best];
      taken = stop;
      after = true;
    }
    if (taken < end) stretch(taken, end, after);
  }

  void segment(const Span& text, size_t begin, size_t end, bool after_stage_1) {
    bool initial = plan.initial.pieces && (begin == 0 || (!plan.initial.once && (!after_stage_1 || plan.initial.after_stage_1)));
    std::string piece;
    for (size_t i = begin; i < end; ++i) {
      if (i > begin) {
        const uint32_t left = text[i - 1], right = text[i];
        const uint8_t rule = plan.cut[plan.classes[left] * plan.width + plan.classes[right]];
        bool joined = false;
        for (uint64_t pair : plan.joined) joined = joined || pair == (uint64_t{left} << 32 | right);
        if (rule == 1 || (rule == 2 && !joined)) {
          ++pieces[{piece, initial}];
          initial = false;
          piece.clear();
        }
      }
      append(piece, text[i]);
    }
    ++pieces[{piece, initial}];
  }
};

// Arrow buffers of exactly their size, on the heap, so that reading past one is seen.
template <class T>
std::unique_ptr<T[]> exactly(const std::vector<T>& values) {
  auto out = std::make_unique<T[]>(values.size());
  std::copy(values.begin(), values.end(), out.get());
  return out;
}

void scan_texts(Scan& scan, const std::vector<std::string>& texts, const std::vector<bool>& null, uint32_t layout, int64_t offset) {
  std::string all;
  std::vector<int32_t> offsets{0};
  std::vector<int64_t> large{0};
  std::vector<uint8_t> validity((texts.size() + 7) / 8), views(16 * texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const int32_t head[2] = {static_cast<int32_t>(texts[i].size()), 0};
    std::memcpy(&views[16 * i], head, 8);
    if (texts[i].size() <= 12) {
      std::memcpy(&views[16 * i + 4], texts[i].data(), texts[i].size());
    } else {
      const int32_t where[2] = {0, static_cast<int32_t>(all.size())};
      std::memcpy(&views[16 * i + 8], where, 8);
    }
    all += texts[i];
    offsets.push_back(static_cast<int32_t>(all.size()));
    large.push_back(static_cast<int64_t>(all.size()));
    if (!null[i]) validity[i / 8] |= static_cast<uint8_t>(1 << (i % 8));
  }
  const auto data = exactly(std::vector<uint8_t>(all.begin(), all.end()));
  const auto own_offsets = exactly(offsets);
  const auto own_large = exactly(large);
  const auto own_views = exactly(views);
  const auto own_validity = exactly(validity);
  const int64_t sizes[1] = {static_cast<int64_t>(all.size())};
  const void* buffers[4] = {own_validity.get(), nullptr, data.get(), sizes};
  ArrowArray array{};
  array.length = static_cast<int64_t>(texts.size()) - offset;
  array.offset = offset;
  array.null_count = -1;
  array.n_buffers = layout == 2 ? 4 : 3;
  array.buffers = buffers;
  if (layout == 0) buffers[1] = own_offsets.get();
  if (layout == 1) buffers[1] = own_large.get();
  if (layout == 2) buffers[1] = own_views.get();
  scan_array(scan, array, static_cast<TextLayout>(layout), 0);
}

void one_array(Input& in, const Fuzzed& fuzzed, const ScanPlan& plan) {
  const uint32_t layout = in.number(3), limit = in.number(3) ? 1 + in.number(400) : 0;
  const bool broken = in.number(8) == 0;
  std::vector<std::string> texts;
  std::vector<bool> null;
  for (uint32_t n = in.number(12); n > 0; --n) {
    std::string text = some_text(in, 30);
    if (in.number(4) == 0) {
      const std::string unit = text;
      for (uint32_t times = in.number(80); times > 0; --times) text += unit;
    }
    if (broken && !text.empty()) text[in.number(static_cast<uint32_t>(text.size()))] = static_cast<char>(in.number(256));
    texts.push_back(text);
    null.push_back(in.number(6) == 0);
  }
  const int64_t offset = texts.empty() ? 0 : in.number(static_cast<uint32_t>(texts.size()));

  Slow slow(fuzzed);
  bool invalid = false;
  for (size_t i = static_cast<size_t>(offset); i < texts.size(); ++i) {
    if (null[i] || texts[i].empty()) continue;
    try {
      slow.document(Slow::points(texts[i]));
    } catch (const InvalidText&) {
      invalid = true;
    }
  }

  // Ids are the pieces' sizes and initial flags: enough to see what was encoded, and how often.
  PieceTable table(1 << 20, limit);
  const EncodePieces encode = [](std::span<const PieceText> pieces, const TakeIds& take) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      const uint32_t id = static_cast<uint32_t>(pieces[i].size % 64) + (pieces[i].initial ? 64 : 0);
      const bool known = pieces[i].data[0] != 'b';
      take(i, known, {&id, known ? size_t{1} : size_t{0}});
    }
  };
  std::FILE* file = std::tmpfile();
  if (!file) fail("no temporary file");
  PieceTally tally(table, encode, 128, 1 << 20);
  const auto settle = [&](int run_file) {
    for (size_t left = tally.settle(run_file); left > 0;) {
      const PieceTally::Batch batch = tally.pending(3, 100);
      std::vector<uint32_t> ids;
      std::vector<int64_t> lengths(batch.initial.size(), 1);
      for (size_t i = 0; i < batch.initial.size(); ++i)
        ids.push_back(static_cast<uint32_t>((batch.offsets[i + 1] - batch.offsets[i]) % 64) + (batch.initial[i] ? 64 : 0));
      tally.resolve(ids, lengths);
      left -= batch.initial.size();
    }
  };
  Totals totals;
  Scan scan(plan, table, totals, [&] {
    settle(fileno(file));
    tally.make_room();
  });
  try {
    scan_texts(scan, texts, null, layout, offset);
    if (invalid && fuzzed.added.empty()) fail("invalid text was counted");
  } catch (const BadRow&) {
    if (!invalid) fail("valid text was refused");
    std::fclose(file);
    return;
  }
  settle(-1);
  tally.end();
  if (!invalid) {
    if (totals.added != slow.added) fail("added tokens differ");
    const KeptPieces kept = tally.kept();
    Pieces pieces;
    for (size_t i = 0; i < kept.counts.size(); ++i)
      pieces[{kept.data.substr(static_cast<size_t>(kept.offsets[i]), static_cast<size_t>(kept.offsets[i + 1] - kept.offsets[i])), kept.initial[i] != 0}] +=
          static_cast<uint64_t>(kept.counts[i]);
    if (pieces != slow.pieces) fail("pieces differ");
    std::vector<int64_t> counts(128);
    for (const auto& [key, count] : slow.pieces) counts[key.first.size() % 64 + (key.second ? 64 : 0)] += static_cast<int64_t>(count);
    if (counts != tally.counts()) fail("counts differ");
  }
  std::fclose(file);
}

// A plan takes long to make, so one serves for all the arrays that the input has bytes for.
void one_input(const uint8_t* data, size_t size) {
  Input in{data, data + size};
  const Fuzzed fuzzed(in);
  const ScanPlan plan(fuzzed.classes, fuzzed.cut, fuzzed.width, fuzzed.joined, fuzzed.added, fuzzed.word, fuzzed.initial);
  do one_array(in, fuzzed, plan);
  while (in.at < in.end);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  one_input(data, size);
  return 0;
}

#ifndef TRIMBED_LIBFUZZER
// fuzz_scan SECONDS [SEED]: random inputs for so long; fuzz_scan FILE: that input.
int main(int argc, char** argv) {
  char* rest = nullptr;
  const double seconds = argc > 1 ? std::strtod(argv[1], &rest) : 10;
  if (rest && *rest) {
    std::FILE* file = std::fopen(argv[1], "rb");
    if (!file) fail("no such file");
    std::vector<uint8_t> data(1 << 20);
    data.resize(std::fread(data.data(), 1, data.size(), file));
    std::fclose(file);
    one_input(data.data(), data.size());
    return 0;
  }
  uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device{}();
  const std::time_t stop = std::time(nullptr) + static_cast<std::time_t>(seconds);
  uint64_t inputs = 0;
  for (; std::time(nullptr) < stop; ++inputs, ++seed) {
    std::mt19937_64 random(seed);
    std::vector<uint8_t> data(random() % 20000);
    for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
    std::FILE* last = inputs % 8 == 0 ? std::fopen("fuzz_scan.last", "wb") : nullptr;
    if (last) {
      std::fprintf(last, "%llu\n", static_cast<unsigned long long>(seed));
      std::fclose(last);
    }
    one_input(data.data(), data.size());
  }
  std::printf("%llu inputs, nothing found\n", static_cast<unsigned long long>(inputs));
}
#endif
