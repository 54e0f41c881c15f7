// Arrow text arrays by the Arrow C data interface: utf8, large_utf8 and utf8_view, with nulls and offsets. Gives out
// (row, bytes); knows nothing of Python or of what the bytes are for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

extern "C" {
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};
#endif
}

namespace trimbed {

// An array that isn't text.
struct NotText : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Owns a C data structure that came out of a capsule or a stream; releases it once.
template <class T>
class Owned {
 public:
  Owned() { std::memset(&value_, 0, sizeof value_); }
  // Takes over what `source` holds, leaving it released.
  explicit Owned(T* source) : value_(*source) { source->release = nullptr; }
  Owned(Owned&& other) noexcept : value_(other.value_) { other.value_.release = nullptr; }
  Owned& operator=(Owned&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (value_.release) value_.release(&value_);
  }
  T* get() { return &value_; }
  const T* get() const { return &value_; }

 private:
  T value_;
};

enum class TextLayout { utf8, large_utf8, utf8_view };

inline TextLayout layout_of(const ArrowSchema& schema) {
  const std::string_view format = schema.format ? schema.format : "";
  if (schema.dictionary != nullptr) throw NotText("a dictionary-encoded array; cast it to string first");
  if (format == "u") return TextLayout::utf8;
  if (format == "U") return TextLayout::large_utf8;
  if (format == "vu") return TextLayout::utf8_view;
  throw NotText("Arrow format '" + std::string(format) + "' is not string, large_string or string_view");
}

// One row: `limit` is the end of the memory around it that may be read.
struct TextRow {
  int64_t row;
  const uint8_t* data;
  size_t size;
  const uint8_t* limit;
};

template <class Offset, class Visit>
void each_offset_row(const ArrowArray& array, const uint8_t* validity, Visit&& visit) {
  const auto* offsets = static_cast<const Offset*>(array.buffers[1]);
  const auto* data = static_cast<const uint8_t*>(array.buffers[2]);
  if (offsets == nullptr) throw std::invalid_argument("an Arrow array without offsets");
  const Offset last = offsets[array.offset + array.length];
  if (last < 0 || (data == nullptr && last > 0)) throw std::invalid_argument("an Arrow array with broken offsets");
  static const uint8_t nothing = 0;
  if (data == nullptr) data = &nothing;
  for (int64_t row = 0; row < array.length; ++row) {
    const int64_t at = array.offset + row;
    if (validity && !(validity[at >> 3] >> (at & 7) & 1)) continue;
    const Offset begin = offsets[at], end = offsets[at + 1];
    if (begin < 0 || begin > end || end > last) throw std::invalid_argument("an Arrow array with broken offsets");
    visit(TextRow{row, data + begin, static_cast<size_t>(end - begin), data + last});
  }
}

template <class Visit>
void each_view_row(const ArrowArray& array, const uint8_t* validity, Visit&& visit) {
  // A view is 16 bytes: size, then up to 12 bytes of text, or four bytes of prefix, a buffer's number and an offset.
  const auto* views = static_cast<const uint8_t*>(array.buffers[1]);
  const int64_t data_buffers = array.n_buffers - 3;
  const auto* sizes = static_cast<const int64_t*>(array.buffers[array.n_buffers - 1]);
  if (data_buffers < 0 || (views == nullptr && array.length > 0)) throw std::invalid_argument("a string_view array without views");
  const uint8_t* views_end = views + 16 * (array.offset + array.length);
  for (int64_t row = 0; row < array.length; ++row) {
    const int64_t at = array.offset + row;
    if (validity && !(validity[at >> 3] >> (at & 7) & 1)) continue;
    const uint8_t* view = views + 16 * at;
    int32_t head[4];
    std::memcpy(head, view, 16);
    const int32_t size = head[0];
    if (size < 0) throw std::invalid_argument("a string_view with a negative size");
    if (size <= 12) {
      visit(TextRow{row, view + 4, static_cast<size_t>(size), views_end});
      continue;
    }
    const int32_t buffer = head[2], offset = head[3];
    if (buffer < 0 || buffer >= data_buffers || offset < 0 || int64_t{offset} + size > sizes[buffer])
      throw std::invalid_argument("a string_view that points outside its buffers");
    const auto* data = static_cast<const uint8_t*>(array.buffers[2 + buffer]);
    visit(TextRow{row, data + offset, static_cast<size_t>(size), data + sizes[buffer]});
  }
}

// Visits the rows that aren't null. Throws std::invalid_argument for arrays that contradict themselves.
template <class Visit>
void each_row(const ArrowArray& array, TextLayout layout, Visit&& visit) {
  if (array.length < 0 || array.offset < 0) throw std::invalid_argument("an Arrow array of negative length");
  if (array.n_buffers < 3) throw std::invalid_argument("an Arrow text array with too few buffers");
  if (array.length == 0) return;  // its buffers may be absent
  const uint8_t* validity = array.null_count == 0 ? nullptr : static_cast<const uint8_t*>(array.buffers[0]);
  switch (layout) {
    case TextLayout::utf8: return each_offset_row<int32_t>(array, validity, visit);
    case TextLayout::large_utf8: return each_offset_row<int64_t>(array, validity, visit);
    case TextLayout::utf8_view: return each_view_row(array, validity, visit);
  }
}

}  // namespace trimbed
