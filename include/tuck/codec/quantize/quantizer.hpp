// SPDX-License-Identifier: Apache-2.0
// The arithmetic of quantize: from a value to a code and back, with the same result on every machine.
//
// A code is an integer as wide as the type. The encoder decodes each code, rounds the result to the element type, and
// compares it with the value. All operations are in f32 (for f64 in f64), rounded to nearest, ties to even:
//
//   tolerance   the bound in the header, rounded towards zero to f32, at most 2^120. If it is below 2^-125, no chunk is
//               encoded. For f64 it is the bound itself, with the limits 2^1000 and 2^-1000
//   step        half * (2 - 2^-19), where half is the tolerance. For 16-bit types half is the least of these. 2^e is
//               the largest power of two that is not above the tolerance. 2^L is the ulp of values with the biased
//               exponent of the chunk; exponent 0 counts as 1.
//                 tolerance * (1 - 2^-9)
//                 (floor(tolerance / u) + 1/2) u for each u = 2^(e-7), .., 2^e with u <= 2^L
//                 2^e if e < L
//   inverse     of the step: y = y * (2 - step * y), 4 times (for f64 5 times), from the number whose bits are
//               0x7ef311c7 (for f64 0x7fde623822fc16e6) minus those of the step
//   code q      x * inverse rounded to an integer, -2^(b-1) <= q < 2^(b-1); b = 16 for 16-bit types, 23 for f32, 30 for
//               f64
//   x'          q * step rounded to the type
//
// With a pointwise bound codes are rounded bit patterns instead:
//
//   kept        the fewest bits k of the mantissa with 2^-(k+1) <= bound, or all of them. The others are `dropped`
//   key         (magnitude + 2^(dropped-1)) >> dropped, where magnitude is the bit pattern without the sign; without
//               the addition if dropped = 0
//   code q      key - lowest + 1, negated if x is negative; 0 for zeros. lowest = exponent << kept, with the exponent
//               of the chunk (the side stream, below)
//   x'          the bit pattern (|q| - 1 + lowest) << dropped without its top bit, with the sign of q; +0.0 for q = 0
//
// A value is an exception, with code 0, if no such code exists, if |x - x'| exceeds the tolerance, or if x or x' is not
// finite. With a pointwise bound a denormal x is an exception unless x' = x.
//
// Decoders accept integers that no encoder writes, of up to b + 2 bits. With a pointwise bound the limit is 17 bits for
// 16-bit types, 32 for f32 and 64 for f64. Outside of chains q is the low 8 sizeof(T) bits in two's complement;
// quantize.hpp has the bits that count in chains. Without a pointwise bound f32 decoders replace q by the float
// z - 1.5 * 2^23, where the bits of z are those of 1.5 * 2^23 plus q. This equals q if -2^22 <= q < 2^22.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/floating.hpp>

namespace tuck::inline TUCK_ABI {

// -- error bounds: how far a restored value may be from the original -------------------------------------------------

/// What a bound limits. x' is the restored value of x. Stored in frame headers: append values, never renumber them.
enum class bound_mode : uint8_t {
  absolute = 0,        ///< |x - x'| <= value
  range_relative = 1,  ///< |x - x'| <= value * (highest - lowest), over the finite values of the tensor
  pointwise = 2,       ///< |x - x'| <= value * |x|
};

/// Returns the name of a mode, as the command line uses it.
TUCK_HD constexpr const char* name(bound_mode mode) noexcept {
  switch (mode) {
    case bound_mode::absolute: return "absolute";
    case bound_mode::range_relative: return "range";
    case bound_mode::pointwise: return "pointwise";
  }
  return "unknown";
}

/// An error bound of quantize.
struct error_bound {
  /// What the value limits.
  bound_mode mode = bound_mode::absolute;
  /// The bound. It must be positive and finite, else encoding fails with bad_bound. For 16- and 32-bit types, a bound
  /// above 2^120 is treated as 2^120. Below 2^-125 nothing is quantized and chunks are stored raw. For f64 the limits
  /// are 2^1000 and 2^-1000. The same limits apply to the product of a range-relative bound and its range.
  double value = 0;

  /// If not null, the device address of the bound, which replaces `value`. The encode kernel reads it when it runs, so
  /// a captured graph uses the current value. If that is not positive and finite, the outcome is bad_bound. Encoding on
  /// the host returns invalid_argument.
  const double* on_device = nullptr;

  /// Makes a bound of |x - x'|.
  TUCK_HD static constexpr error_bound absolute(double value) noexcept {
    return {bound_mode::absolute, value, nullptr};
  }
  /// Makes a bound of |x - x'| relative to the range of the finite values.
  TUCK_HD static constexpr error_bound range_relative(double value) noexcept {
    return {bound_mode::range_relative, value, nullptr};
  }
  /// Makes a bound of |x - x'| relative to |x|.
  TUCK_HD static constexpr error_bound pointwise(double value) noexcept {
    return {bound_mode::pointwise, value, nullptr};
  }
};

namespace detail {

// Returns whether a double is positive and finite, from its bits: kernels then need no arithmetic on doubles.
TUCK_HD constexpr bool is_bound(uint64_t bits) noexcept { return bits != 0 && bits < uint64_t{0x7ff} << 52; }

// Returns the exponent of the largest power of two that is not above a bound.
TUCK_HD constexpr int exponent_of(uint64_t bits) noexcept { return static_cast<int>(bits >> 52) - 1023; }

// Rounds a positive double towards zero to a Real. Returns at most 2^120, and 0 below 2^-125; for double the limits are
// 2^1000 and 2^-1000. In between, everything that quantizing computes with the result is a normal number.
template <class Real> TUCK_HD constexpr Real tolerance_of(uint64_t bits) noexcept {
  constexpr bool wide = sizeof(Real) == 8;
  const int exponent = exponent_of(bits);
  if (exponent >= (wide ? 1000 : 120)) return static_cast<Real>(wide ? 0x1p1000 : 0x1p120);
  if (exponent < (wide ? -1000 : -125)) return 0;
  if constexpr (wide)
    return __builtin_bit_cast(double, bits);
  else
    return __builtin_bit_cast(
        float, static_cast<uint32_t>(exponent + 127) << 23 | (static_cast<uint32_t>(bits >> 29) & 0x7fffffu));
}
// Rounds such a double to the nearest float, with the same limits of 2^120 and 2^-125.
TUCK_HD constexpr float nearest_f32(uint64_t bits) noexcept { return tolerance_of<float>(bits + (uint64_t{1} << 28)); }
// Returns whether nearest_f32 can return a float with these bits.
TUCK_HD constexpr bool is_nearest_f32(uint32_t bits) noexcept {
  return bits == 0 || (bits >= bits_of(0x1p-125f) && bits <= bits_of(0x1p120f));
}
TUCK_HD constexpr uint64_t f64_bits_of(float tolerance) noexcept {
  const uint32_t bits = bits_of(tolerance);
  if (bits == 0) return 0;
  return ((bits >> 23) - 127 + uint64_t{1023}) << 52 | uint64_t{bits & 0x7fffffu} << 29;
}
TUCK_HD constexpr uint64_t f64_bits_of(double tolerance) noexcept { return bits_of(tolerance); }

}  // namespace detail

/// @cond
// -- codes -----------------------------------------------------------------------------------------------------------

/// The code of a value, and the bits that it decodes to. If no code restores the value within the bound, the code is 0
/// and `restored` is the bits of the value.
/// @tparam W unsigned integer type, or lanes of such (core/exact.hpp)
template <class W> struct coded {
  W code;
  W restored;
  W holds;  ///< all ones if the restored value is within the bound, else 0
};

/// Quantizes to multiples of a step that is slightly less than twice the tolerance: |x - x'| <= tolerance.
///
/// The comparison with the tolerance is exact. If q is not 0, x and q * step are within a factor of two of each other,
/// so their difference is representable (Sterbenz). If q is 0, the difference is x. One case is left: x is slightly
/// below step / 2, by half an ulp of that, and its code is rounded up to 1. The factor in `step_of` keeps the error
/// within the bound, however the difference is rounded.
template <floating_element T> struct step_quantizer {
  using format = float_format<T>;
  using bits = bits_t<T>;
  using real = typename format::real;
  using word = bits_t<real>;
  /// Width of a code with its sign. Wider codes exceed the precision of the type, or fail the comparison too often.
  static constexpr uint32_t code_bits = sizeof(T) == 2 ? 16 : sizeof(T) == 4 ? 23 : 30;
  /// Width of the integers that decoders accept. The sum of `zero` and 32 such integers is still a finite number; its
  /// product with the step may overflow.
  static constexpr uint32_t max_width = code_bits + 2;

  static constexpr word codes = word{1} << code_bits;
  /// Adding `zero` rounds a number to an integer q: the bits of the sum are those of zero plus q. With the least q they
  /// are `least`: 2^23 for f32, 1.5 * 2^23 for 16-bit types, 1.5 * 2^52 for f64.
  static constexpr word least = sizeof(T) == 8   ? static_cast<word>(0x4338000000000000u)
                                : sizeof(T) == 4 ? 0x4b000000u
                                                 : 0x4b400000u;
  static constexpr word zero = least + codes / 2;

  real tolerance = 0, step = 0, inverse = 0;

  /// Makes a quantizer for a positive tolerance from tolerance_of. Only 16-bit types use `exponent`, the biased
  /// exponent of the largest value of the chunk.
  TUCK_HD static step_quantizer make(real tolerance, uint32_t exponent) noexcept {
    step_quantizer made;
    made.tolerance = tolerance;
    if constexpr (sizeof(T) == 2)
      made.step = step_of(half_step(tolerance, exponent));
    else
      made.step = step_of(tolerance);
    made.inverse = reciprocal(made.step);
    return made;
  }

  /// `shifted` is the bits of zero plus the code; the code exists if shifted ^ least is less than `codes`. `product` is
  /// the bits of the value that the code stands for, before it is rounded to the type.
  /// @tparam W here and below: word, or lanes of words
  template <class W> struct nearest {
    W shifted, product;
  };
  template <class W> TUCK_HD static nearest<W> nearest_to(W x, W inverse, W step) noexcept {
    const W shifted = exact::add(exact::mul(x, inverse), W{} + zero);
    return {shifted, exact::mul(exact::sub(shifted, W{} + zero), step)};
  }
  /// Returns the code of x, a bit pattern that is extended by zeros. Codes of 16-bit types are in the lower half of the
  /// result; the upper half is undefined.
  template <class W> TUCK_HD coded<W> code(W x) const noexcept {
    const W wide = format::widen_finite(x);
    const nearest<W> one = nearest_to(wide, W{} + bits_of(inverse), W{} + bits_of(step));
    const W rounded = format::rounded(one.product);
    const W error = magnitude(exact::sub(wide, rounded));
    // Each comparison is a subtraction. The sign bit of the result is set if the comparison fails.
    const W index = one.shifted ^ least;
    W over = (bits_of(tolerance) - error) | index | (codes - 1 - index);
    if constexpr (dtype_of<T> == dtype::f16)
      over |= (bits_of(65504.f) - magnitude(rounded)) | (format::infinity - 1u - (x & 0x7fffu));
    const W holds = ~exact::sign_mask(over);
    return {(one.shifted - zero) & holds, (format::narrow_bits(one.product) & holds) | (x & ~holds), holds};
  }

  /// Returns the bits of the value that a code stands for. The code has at most max_width bits or is the sum of 32 such
  /// codes.
  template <class W> TUCK_HD W value(W code) const noexcept { return format::narrow_bits(wide_value(code + zero)); }
  /// Returns the value of the code shifted - zero before it is rounded to the type.
  template <class W> TUCK_HD W wide_value(W shifted) const noexcept {
    return exact::mul(exact::sub(shifted, W{} + zero), W{} + bits_of(step));
  }

  /// Returns the code in the low bits of an integer from a chain, which may be any bit pattern.
  template <class W> TUCK_HD static constexpr W from_chain(W integer) noexcept {
    constexpr word sign = word{1} << (sizeof(T) == 2 ? 15 : code_bits);
    return ((integer & (2 * sign - 1)) ^ sign) - sign;
  }

 private:
  template <class W> TUCK_HD static W magnitude(W x) noexcept { return x & (~word{0} >> 1); }
  TUCK_HD static real step_of(real half) noexcept { return exact::mul(half, real(2) - real(0x1p-19)); }

  // Returns 1 / x to within two ulps, by Newton's iteration from a guess with a relative error of at most 1/8.
  TUCK_HD static real reciprocal(real x) noexcept {
    const word guess = sizeof(real) == 8 ? static_cast<word>(0x7fde623822fc16e6u) : static_cast<word>(0x7ef311c7u);
    real y = __builtin_bit_cast(real, static_cast<word>(guess - bits_of(x)));
    for (int i = 0; i < (sizeof(real) == 8 ? 5 : 4); ++i) y = exact::mul(y, exact::sub(real(2), exact::mul(x, y)));
    return y;
  }

  // Restored values are rounded to the grid of ulps u of the originals. With m = floor(tolerance / u), an error of at
  // most (m + 1/2) u before that rounding is an error of at most m u after it. The result is the least of these over
  // the ulps of the chunk. If u is more than twice the tolerance, rounding gives the original itself. With this step
  // few exceptions are left, some in 100,000: values in the largest binade whose restored value is in the next one.
  TUCK_HD static float half_step(float tolerance, uint32_t exponent) noexcept {
    constexpr int finest = 7;  // ulps of less than 2^-7 of the binade of the tolerance share one term
    const uint32_t wanted = bits_of(tolerance);
    const int largest_ulp = static_cast<int>(exponent == 0 ? 1 : exponent) - format::bias -
                            static_cast<int>(format::mantissa_bits);  // as a power of two
    const int tolerance_exponent = static_cast<int>(wanted >> 23) - 127;
    uint32_t best = bits_of(exact::mul(tolerance, 1 - 0x1p-9f));
    const int coarsest = tolerance_exponent > largest_ulp ? tolerance_exponent - largest_ulp : 0;
    uint32_t below = low_mask(23 - finest);  // the bits of the mantissa that are less than u
    for (int i = finest; i >= coarsest; --i, below += below + 1) {
      // u = 2^-i of the binade: keep i bits of the mantissa and add half a unit.
      const uint32_t candidate = (wanted | below) ^ below >> 1;
      best = candidate < best ? candidate : best;
    }
    // u = twice the lower end of the binade.
    if (tolerance_exponent + 1 <= largest_ulp && (wanted & 0x7f800000u) < best) best = wanted & 0x7f800000u;
    return __builtin_bit_cast(float, best);
  }
};

/// Rounds the mantissa so that half a unit of the last kept bit is within the bound: |x - x'| <= bound * |x|.
template <floating_element T> struct mantissa_quantizer {
  using format = float_format<T>;
  using word = bits_t<typename format::real>;

  static constexpr uint32_t max_width = 8 * sizeof(T) + (sizeof(T) == 2 ? 1 : 0);  ///< as in step_quantizer

  uint32_t dropped = 0;  ///< number of mantissa bits that are dropped
  word below = 0;        ///< the lowest key of the chunk, minus one

  /// Makes a quantizer for a bound, a positive finite double given as its bits.
  TUCK_HD static constexpr mantissa_quantizer make(uint64_t bound) noexcept {
    const int kept = -detail::exponent_of(bound) - 1;  // 2^-(kept + 1) <= bound
    constexpr int all = format::mantissa_bits;
    return {static_cast<uint32_t>(all - (kept < 0 ? 0 : kept > all ? all : kept))};
  }
  /// Returns the quantizer of a chunk whose least finite value that is not 0 has this exponent.
  TUCK_HD constexpr mantissa_quantizer from(uint32_t exponent) const noexcept {
    return {dropped, static_cast<word>((uint64_t{exponent} << (format::mantissa_bits - dropped)) - 1)};
  }

  /// Returns the code of x, as in step_quantizer. Half a unit is at most bound * |x| for normal numbers. Denormals have
  /// fewer bits and must be restored exactly.
  /// @tparam W here and below: word, or lanes of words
  template <class W> TUCK_HD coded<W> code(W x) const noexcept {
    const W magnitude = x & magnitudes;
    const W key = (magnitude + (word{1} << dropped >> 1)) >> dropped, restored = key << dropped;
    // Each comparison is a subtraction of two numbers whose sign bit is 0. The sign bit of the result is the answer.
    const W same = (restored ^ magnitude) - 1, normal = ~(magnitude - format::smallest_normal);
    const W holds =
        exact::sign_mask((magnitude - format::infinity) & (same | (normal & (restored - format::infinity))));
    const W negative = W{} - (x >> sign_bit), coded = holds & exact::sign_mask(W{} - magnitude);
    return {(((key - below) ^ negative) - negative) & coded, ((restored | (x & sign)) & coded) | (x & ~holds), holds};
  }

  /// Returns the bits of the value of a code, the low 8 sizeof(T) bits of any number.
  template <class W> TUCK_HD W value(W number) const noexcept {
    const W code = number & (sign | magnitudes), negative = W{} - (code >> sign_bit);
    const W magnitude = ((code ^ negative) - negative + below) << dropped & magnitudes;
    return (magnitude | (negative & sign)) & exact::sign_mask(code | (W{} - code));
  }
  /// Returns the code in an integer from a chain, which may be any bit pattern.
  template <class W> TUCK_HD static constexpr W from_chain(W integer) noexcept { return integer; }

 private:
  static constexpr uint32_t sign_bit = 8 * sizeof(T) - 1;
  static constexpr word sign = word{1} << sign_bit, magnitudes = sign - 1;
};

// -- exceptions ------------------------------------------------------------------------------------------------------

// The side stream of quantize: the exponent that codes depend on, and the exceptions, which are values without a code.
// A side stream with m exceptions has
//
//   u16 exponent       only for 16-bit types or pointwise bounds: the biased exponent of a value of the chunk. With a
//                      pointwise bound, that is the finite value that is closest to 0 but not 0. Otherwise it is the
//                      finite value with the largest magnitude. 0 if there is no such value
//   u16 position[m]    indices of the exceptions in the chunk, ascending
//   u8  0[]            up to a multiple of sizeof(T) from the beginning of the side stream
//   T   exception[m]   the unchanged values
//   u8  0[]            up to a multiple of 4
//
// Decoders ignore the padding. They reject exponents that no finite value has, and positions that do not ascend or are
// past the end.

/// Layout of the side stream of quantize and quantize_codes.
template <floating_element T> struct quantize_side {
  static constexpr uint32_t width = sizeof(T);

  uint32_t positions;  ///< offset of the positions: 2 after an exponent, else 0

  /// Returns the offset of the exceptions.
  TUCK_HD constexpr uint32_t values(uint32_t exceptions) const noexcept {
    return ceil_div(positions + 2 * exceptions, width) * width;
  }
  /// Returns the size in bytes.
  TUCK_HD constexpr uint32_t bytes(uint32_t exceptions) const noexcept {
    if ((positions | exceptions) == 0) return 0;  // the common case
    return ceil_div(values(exceptions) + exceptions * width, 4u) * 4;
  }
  /// Returns the number of exceptions of a side stream of `size` bytes. The size is valid only if bytes() of the result
  /// is equal to `size`.
  TUCK_HD constexpr uint32_t exceptions(uint32_t size) const noexcept {
    return size < positions ? 0 : (size - positions) / (2 + width);
  }

  TUCK_HD uint32_t exponent(const std::byte* side) const noexcept {
    return positions != 0 ? load_unaligned<uint16_t>(side) : 0;
  }

#if defined(TUCK_HOST)
  /// Writes the side stream to `to`, which has bytes(exceptions) bytes. `fails` has one bit per value, which is 1 for
  /// exceptions.
  void write(std::byte* to, uint32_t exponent, uint32_t exceptions, const uint32_t* fails,
             span<const T> all) const noexcept {
    std::memset(to, 0, bytes(exceptions));
    if (positions != 0) store_unaligned(to, static_cast<uint16_t>(exponent));
    std::byte *position = to + positions, *value = to + values(exceptions);
    for (uint32_t i = 0; exceptions != 0 && 32 * i < all.size(); ++i)
      for (uint32_t left = fails[i]; left != 0; left &= left - 1) {
        const uint32_t at = 32 * i + trailing_zeros(left);
        store_unaligned(position, static_cast<uint16_t>(at));
        tuck::store_unaligned(value, all[at]);
        position += 2;
        value += width;
      }
  }

  /// Writes the exceptions to their positions. Returns false if the positions do not ascend or are past the end.
  bool patch(const std::byte* side, uint32_t exceptions, span<T> all) const noexcept {
    uint32_t next = 0;  // the lowest position that is allowed
    for (uint32_t i = 0; i < exceptions; ++i) {
      const uint32_t at = load_unaligned<uint16_t>(side + positions + 2 * i);
      if (at < next || at >= all.size()) return false;
      next = at + 1;
      std::memcpy(&all[at], side + values(exceptions) + i * width, width);
    }
    return true;
  }
#endif
};
/// @endcond

}  // namespace tuck::inline TUCK_ABI
