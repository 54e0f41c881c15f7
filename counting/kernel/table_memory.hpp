// Zeroed memory for the table's entries, on huge pages where the system gives them: random access over tens of megabytes
// otherwise misses the page cache of the processor at every step.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace trimbed {

template <class T>
class EntryArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  EntryArray() = default;
  explicit EntryArray(size_t size) : size_(size) {
    const size_t bytes = size * sizeof(T);
    const size_t alignment = bytes >= kHugePage ? kHugePage : 64;
    data_ = static_cast<T*>(::operator new(bytes, std::align_val_t{alignment}));
    alignment_ = alignment;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (bytes >= kHugePage) madvise(data_, bytes, MADV_HUGEPAGE);
#endif
    std::memset(static_cast<void*>(data_), 0, bytes);
  }
  EntryArray(EntryArray&& other) noexcept { swap(other); }
  EntryArray& operator=(EntryArray&& other) noexcept {
    swap(other);
    return *this;
  }
  EntryArray(const EntryArray&) = delete;
  EntryArray& operator=(const EntryArray&) = delete;
  ~EntryArray() {
    if (data_) ::operator delete(data_, std::align_val_t{alignment_});
  }

  size_t size() const { return size_; }
  T& operator[](size_t at) { return data_[at]; }
  const T& operator[](size_t at) const { return data_[at]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;

  void swap(EntryArray& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(alignment_, other.alignment_);
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t alignment_ = 64;
};

}  // namespace trimbed
