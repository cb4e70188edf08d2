// SPDX-License-Identifier: Apache-2.0
// A pointer with a 64-bit length. Unlike std::span it works in device code without compiler flags.
#pragma once

#include <tuck/core/config.hpp>
#include <tuck/core/standard.hpp>

#if defined(TUCK_HOST)
#include <iterator>
#include <span>
#endif

namespace tuck::inline TUCK_ABI {

template <class T> class span;

namespace detail {
// clang-format off
template <class> inline constexpr bool is_span = false;
template <class T> inline constexpr bool is_span<span<T>> = true;

template <class From, class T>
concept same_but_for_const = !std::is_same_v<From, T> && std::is_convertible_v<From (*)[], T (*)[]>;

#if defined(TUCK_HOST)
template <class From, class T> concept array_of = std::is_convertible_v<From (*)[], T (*)[]>;

// Unwraps fancy pointers, such as thrust::device_ptr.
template <class U> constexpr U* plain_pointer(U* p) noexcept { return p; }
template <class P>
  requires requires(const P& p) { std::is_pointer_v<decltype(p.get())>; }
constexpr auto* plain_pointer(const P& p) noexcept { return p.get(); }

template <class Range, class T>
concept contiguous_of = !is_span<std::remove_cvref_t<Range>> && requires(Range& range) {
  std::size(range);
  requires array_of<std::remove_pointer_t<decltype(detail::plain_pointer(std::data(range)))>, T>;
};
template <class P, class T>
concept fancy_pointer_to = std::is_class_v<P> && requires(const P& p) {
  requires array_of<std::remove_pointer_t<decltype(detail::plain_pointer(p))>, T>;
};
#endif
// clang-format on
}  // namespace detail

/// A view of `size()` contiguous elements, in host or device memory. It does not own the elements and is valid as long
/// as they are. Trivially copyable; kernels take it by value. Indices are not checked.
/// @tparam T element type; const T for a read-only view
template <class T> class span {
 public:
  using element_type = T;                  ///< T, with its const
  using value_type = std::remove_cv_t<T>;  ///< T without const

  /// Makes an empty span with a null pointer.
  constexpr span() = default;
  /// Views `size` elements from `data`.
  TUCK_HD constexpr span(T* data, uint64_t size) noexcept : data_(data), size_(size) {}

  /// Converts from a span of the same elements without const.
  template <detail::same_but_for_const<T> U>
  TUCK_HD constexpr span(span<U> other) noexcept : data_(other.data()), size_(other.size()) {}

#if defined(TUCK_HOST)
  /// Views any contiguous range of T: std::vector, std::array, std::span, cuda::std::span, rmm::device_uvector,
  /// thrust::device_vector. Host code only. The data() of rmm::device_buffer is a void*: cast it to std::byte*.
  template <detail::contiguous_of<T> Range>
  constexpr span(Range&& range) noexcept : data_(detail::plain_pointer(std::data(range))), size_(std::size(range)) {}
  /// Views `size` elements from a fancy pointer, such as thrust::device_ptr. Host code only.
  template <detail::fancy_pointer_to<T> P>
  constexpr span(const P& data, uint64_t size) noexcept : data_(detail::plain_pointer(data)), size_(size) {}
#endif

  TUCK_HD constexpr T* data() const noexcept { return data_; }                          ///< the first element
  TUCK_HD constexpr uint64_t size() const noexcept { return size_; }                    ///< number of elements
  TUCK_HD constexpr uint64_t size_bytes() const noexcept { return size_ * sizeof(T); }  ///< size in bytes
  /// Returns whether the pointer is null although the size is not 0. Functions reject such spans.
  TUCK_HD constexpr bool is_null() const noexcept { return data_ == nullptr && size_ != 0; }
  TUCK_HD constexpr bool empty() const noexcept { return size_ == 0; }             ///< no elements
  TUCK_HD constexpr T& operator[](uint64_t i) const noexcept { return data_[i]; }  ///< element i < size(), unchecked
  TUCK_HD constexpr T* begin() const noexcept { return data_; }                    ///< the first element
  TUCK_HD constexpr T* end() const noexcept { return data_ + size_; }              ///< after the last element

  /// Returns `count` elements from index `first`. first + count <= size() is required and not checked.
  TUCK_HD constexpr span subspan(uint64_t first, uint64_t count) const noexcept { return {data_ + first, count}; }
  /// Returns all elements from index `first` <= size().
  TUCK_HD constexpr span subspan(uint64_t first) const noexcept { return {data_ + first, size_ - first}; }

 private:
  T* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace tuck::inline TUCK_ABI

#if defined(TUCK_HOST)
// std::span's range constructor requires a borrowed range.
/// @cond
template <class T> inline constexpr bool std::ranges::enable_borrowed_range<tuck::span<T>> = true;
/// @endcond
#endif

namespace tuck::inline TUCK_ABI {

using bytes = span<std::byte>;              ///< writable bytes
using const_bytes = span<const std::byte>;  ///< read-only bytes

/// Views the elements as bytes.
template <class T> TUCK_HD const_bytes as_bytes(span<T> s) noexcept {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size_bytes()};
}
/// Views the elements as writable bytes.
template <class T> TUCK_HD bytes as_writable_bytes(span<T> s) noexcept {
  return {reinterpret_cast<std::byte*>(s.data()), s.size_bytes()};
}

}  // namespace tuck::inline TUCK_ABI
