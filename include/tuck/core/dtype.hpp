// SPDX-License-Identifier: Apache-2.0
// The types that values of a tensor can have, as C++ types and as run-time numbers.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/config.hpp>
#include <tuck/core/standard.hpp>

namespace tuck::inline TUCK_ABI {

/// Identifies the type of a tensor's values. Stored in frame headers: append, never renumber.
enum class dtype : uint8_t {
  none = 0,  ///< no type
  u8 = 1,
  i8 = 2,
  u16 = 3,
  i16 = 4,
  u32 = 5,
  i32 = 6,
  u64 = 7,
  i64 = 8,
  f16 = 9,      ///< IEEE binary16
  bf16 = 10,    ///< bfloat16: the upper half of an f32
  f32 = 11,     ///< IEEE binary32
  f64 = 12,     ///< IEEE binary64
  f8e4m3 = 13,  ///< OCP 8-bit float E4M3, without infinities
  f8e5m2 = 14,  ///< OCP 8-bit float E5M2: the upper byte of an f16
};

/// IEEE binary16 as a bit pattern. Lossless codecs need no arithmetic on it. Write f16{bits} to make one: g++ 12.2 ends
/// with an internal error on loops that std::bit_cast to such a type.
struct f16 {
  uint16_t bits;  ///< sign, 5 bits of exponent, 10 bits of mantissa
  // Compares bits: a NaN equals itself, -0 differs from +0.
  TUCK_HD friend bool operator==(f16, f16) = default;
};
/// bfloat16 as a bit pattern.
struct bf16 {
  uint16_t bits;  ///< sign, 8 bits of exponent, 7 bits of mantissa
  TUCK_HD friend bool operator==(bf16, bf16) = default;
};
/// The OCP 8-bit float E4M3 as a bit pattern. It has no infinities; its only NaN are 0x7f and 0xff. Others call it
/// E4M3FN.
struct f8e4m3 {
  uint8_t bits;  ///< sign, 4 bits of exponent, 3 bits of mantissa
  TUCK_HD friend bool operator==(f8e4m3, f8e4m3) = default;
};
/// The OCP 8-bit float E5M2 as a bit pattern: the upper byte of an f16.
struct f8e5m2 {
  uint8_t bits;  ///< sign, 5 bits of exponent, 2 bits of mantissa
  TUCK_HD friend bool operator==(f8e5m2, f8e5m2) = default;
};

/// The dtype of a C++ type; dtype::none for types that are not elements. core/cuda_types.hpp has those of CUDA's
/// floats. Specialize it for types of another vendor:
///
///     template <> inline constexpr tuck::dtype tuck::dtype_of<my_half> = tuck::dtype::f16;
template <class T> inline constexpr dtype dtype_of = dtype::none;
template <> inline constexpr dtype dtype_of<uint8_t> = dtype::u8;
template <> inline constexpr dtype dtype_of<int8_t> = dtype::i8;
template <> inline constexpr dtype dtype_of<uint16_t> = dtype::u16;
template <> inline constexpr dtype dtype_of<int16_t> = dtype::i16;
template <> inline constexpr dtype dtype_of<uint32_t> = dtype::u32;
template <> inline constexpr dtype dtype_of<int32_t> = dtype::i32;
template <> inline constexpr dtype dtype_of<uint64_t> = dtype::u64;
template <> inline constexpr dtype dtype_of<int64_t> = dtype::i64;
template <> inline constexpr dtype dtype_of<f16> = dtype::f16;
template <> inline constexpr dtype dtype_of<bf16> = dtype::bf16;
template <> inline constexpr dtype dtype_of<float> = dtype::f32;
template <> inline constexpr dtype dtype_of<double> = dtype::f64;
template <> inline constexpr dtype dtype_of<f8e4m3> = dtype::f8e4m3;
template <> inline constexpr dtype dtype_of<f8e5m2> = dtype::f8e5m2;

/// A value whose type is known only at run time. Lossless codecs look only at bits: zvc<untyped<4>> encodes i32, u32
/// and f32, as frame_options::type says, and decodes the frames of all three. A program then needs a quarter of the
/// kernels.
/// @tparam Bytes size of a value: 1, 2, 4 or 8
template <uint32_t Bytes> struct untyped {
  typename uint_of_size<Bytes>::type bits;  ///< the value
  TUCK_HD friend bool operator==(untyped, untyped) = default;
};
/// Is T an `untyped`?
template <class T> inline constexpr bool is_untyped = false;
/// True for every `untyped`.
template <uint32_t Bytes> inline constexpr bool is_untyped<untyped<Bytes>> = true;

/// Returns the bytes of one value; 0 for dtype::none and for other numbers.
TUCK_HD constexpr uint32_t size_of(dtype t) noexcept {
  // One hexadecimal digit for each type; that of dtype::none is the last.
  constexpr uint64_t sizes = 0x118422884422110;
  const auto i = static_cast<uint32_t>(t);
  return i < 16 ? static_cast<uint32_t>(sizes >> 4 * i) & 15 : 0;
}

/// Returns the name of a type, such as "f32"; "none" for dtype::none and for other numbers.
TUCK_HD constexpr const char* name(dtype t) noexcept {
  constexpr const char* names[] = {"none", "u8",  "i8",   "u16", "i16", "u32",    "i32",   "u64",
                                   "i64",  "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"};
  return names[t <= dtype::f8e5m2 ? static_cast<uint8_t>(t) : 0];
}

/// A type that values of a tensor can have. It is trivial, so all bits of T{} are 0.
template <class T>
concept element = std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T> &&
                  (is_untyped<T> || (dtype_of<T> != dtype::none && sizeof(T) == size_of(dtype_of<T>)));

/// Can values of a tensor of type `t` have the type T? Any type of the same size can be `untyped`.
template <element T> TUCK_HD constexpr bool holds(dtype t) noexcept {
  return is_untyped<T> ? size_of(t) == sizeof(T) : t == dtype_of<T>;
}

}  // namespace tuck::inline TUCK_ABI
