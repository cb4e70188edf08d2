// The arithmetic of quantize: a value to a code and back, alike on every machine.
//
// A code is an integer as wide as the type. Each is decoded on the spot and compared with the value, after rounding to
// the element type. In full, where each operation is one of f32 (of f64 for f64), rounded to nearest, ties to even:
//
//   tolerance   the bound in the header, towards zero to f32 and at most 2^120; below 2^-125 there are no codes. Of f64
//               itself, with 2^1000 and 2^-1000
//   step        half * (2 - 2^-19), where half is the tolerance; of 16-bit types the least of these, where 2^e is the
//               tolerance's binade and 2^L the ulp of the chunk's biased exponent (of 1, where that is 0):
//                 tolerance * (1 - 2^-9);  (floor(tolerance / u) + 1/2) u for u = 2^(e-7), .., 2^e if u <= 2^L;
//                 2^e if e < L
//   inverse     of the step, by 4 rounds (of f64 5) of y = y * (2 - step * y) from the number whose bits are
//               0x7ef311c7 (of f64 0x7fde623822fc16e6) less those of the step
//   code q      x * inverse rounded to a whole number, -2^(b - 1) <= q < 2^(b - 1) with b = 16 of 16-bit types, 23 of
//               f32 and 30 of f64
//   x'          q * step rounded to the type
//   pointwise   of the mantissa are kept the fewest bits k with 2^-(k+1) <= bound, or all; the others are `dropped`.
//               key is (magnitude + 2^(dropped - 1)) >> dropped of the bit pattern, without the addition where none is
//               dropped; x' is the pattern key << dropped with the sign. The code is key - lowest + 1 with the sign,
//               where lowest is the key of the least number with the chunk's exponent (side.hpp); 0 of zeros
//
// A value is an exception, with code 0, where there is no such code, where |x - x'| is more than the tolerance, where x
// or x' is not finite, and where x is denormal and the bound pointwise, unless x' is x. Decoders also take codes that
// no encoder writes, of up to b + 2 bits (pointwise as many as the type has, 17 of 16-bit ones); they make of them what
// `value` below does.
#pragma once

#include <tuck/codec/quantize/error_bound.hpp>
#include <tuck/core/exact.hpp>
#include <tuck/core/floating.hpp>

namespace tuck::inline TUCK_ABI {

// What becomes of a value: its code, and what that decodes to. Where no code holds it within the bound, the code is 0
// and the value stays as it was.
template <floating_element T> struct coded {
  bits_t<T> code;
  bits_t<T> restored;
  bits_t<T> holds;  // all ones or 0: as wide as the others, or g++ would not make vectors of them
};

// |x - x'| <= tolerance: q = round(x / step), step a little less than twice the tolerance.
//
// The comparison is exact: where q is not 0, x and q * step are within a factor of two of each other, so their
// difference is a representable number (Sterbenz); where q = 0, it is x. The exception are values half an ulp below
// step / 2 that are rounded up, and these the factor in `step_of` keeps inside the bound whichever way the difference
// is rounded.
template <floating_element T> struct step_quantizer {
  using format = float_format<T>;
  using bits = bits_t<T>;
  using real = typename format::real;
  using word = bits_t<real>;
  using number = std::make_signed_t<word>;

  // Codes have so many bits, their sign among them: more makes no sense for the type, or verification would fail too
  // often.
  static constexpr uint32_t code_bits = sizeof(T) == 2 ? 16 : sizeof(T) == 4 ? 23 : 30;
  // Numbers that decoders take have no more, so that whatever they add up to, `value` stays among the finite numbers.
  static constexpr uint32_t max_width = code_bits + 2;

  static constexpr uint32_t top_bit = 8 * sizeof(real) - 1;
  static constexpr word codes = word{1} << code_bits;
  // Adding `zero` to a number rounds it to a whole one: the bits of the sum are those of zero, and q. With the least q
  // they are `least`: 2^23 of f32, 1.5 * 2^23 of 16-bit types, 1.5 * 2^52 of f64.
  static constexpr word least = sizeof(T) == 8   ? static_cast<word>(0x4338000000000000u)
                                : sizeof(T) == 4 ? 0x4b000000u
                                                 : 0x4b400000u;
  static constexpr word zero = least + codes / 2;

  real tolerance = 0, step = 0, inverse = 0;

  // Of a positive tolerance from tolerance_of. `exponent` is the biased one of the chunk's largest
  // value, which only 16-bit types need.
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

  // Of the bits of a real number: zero + its code, which exists where `shifted ^ least` is less than `codes`, and what
  // that stands for before it is rounded to the type.
  struct nearest {
    word shifted, product;
  };
  TUCK_HD static nearest nearest_to(word x, word inverse, word step) noexcept {
    const word shifted = exact::add(exact::mul(x, inverse), zero);
    return {shifted, exact::mul(exact::sub(shifted, zero), step)};
  }
  TUCK_HD coded<T> code(bits x) const noexcept {
    const word wide = bits_of(format::widen_finite(x));
    const nearest one = nearest_to(wide, bits_of(inverse), bits_of(step));
    const real product = __builtin_bit_cast(real, one.product), rounded = format::rounded(product);
    const word error = float_format<real>::magnitude(exact::sub(wide, bits_of(rounded)));
    // Comparisons by the sign of differences, all ones if one fails: vectors have no better ones for all widths.
    const word place = one.shifted ^ least;
    word over = (bits_of(tolerance) - error) | place | (codes - 1 - place);
    if constexpr (dtype_of<T> == dtype::f16) over |= bits_of(65504.f) - float_format<real>::magnitude(bits_of(rounded));
    bits fails = static_cast<bits>(static_cast<number>(over) >> top_bit);
    if constexpr (dtype_of<T> == dtype::f16) fails = static_cast<bits>(fails | (format::is_finite(x) ? 0 : ~0));
    return {static_cast<bits>(static_cast<bits>(one.shifted - zero) & ~fails),
            select(fails != 0, x, format::narrow(product)), static_cast<bits>(~fails)};
  }

  // What zero + code stands for, where the code is a number of at most max_width bits or the sum of 32 such.
  TUCK_HD bits value(word shifted) const noexcept {
    return format::narrow(__builtin_bit_cast(real, wide_value(shifted)));
  }
  // The same before it is rounded to the type.
  TUCK_HD word wide_value(word shifted) const noexcept { return exact::mul(exact::sub(shifted, zero), bits_of(step)); }

  // The code of what a chain hands on, of which any bits may come back.
  TUCK_HD static constexpr word from_chain(bits integer) noexcept {
    constexpr uint32_t unused = 8 * sizeof(real) - (sizeof(T) == 2 ? 16 : code_bits + 1);
    return static_cast<word>(static_cast<number>(static_cast<word>(integer) << unused) >> unused);
  }

 private:
  TUCK_HD static real step_of(real half) noexcept { return exact::mul(half, real(2) - real(0x1p-19)); }

  // 1 / x to within two ulps, by Newton's iteration from a guess that is right to an eighth.
  TUCK_HD static real reciprocal(real x) noexcept {
    const word guess = sizeof(real) == 8 ? static_cast<word>(0x7fde623822fc16e6u) : static_cast<word>(0x7ef311c7u);
    real y = __builtin_bit_cast(real, static_cast<word>(guess - bits_of(x)));
    for (int i = 0; i < (sizeof(real) == 8 ? 5 : 4); ++i) y = exact::mul(y, exact::sub(real(2), exact::mul(x, y)));
    return y;
  }

  // Restored values are rounded to a grid of ulps u, as the originals are. An error of at most (m + 1/2) u before that
  // is one of at most m u after it, m = floor(tolerance / u): the least of these over the ulps of the chunk. Where u is
  // more than twice the tolerance, rounding gives the original itself. What is left are exceptions: values of the
  // largest binade that restore into the next one, a few in 100,000.
  TUCK_HD static float half_step(float tolerance, uint32_t exponent) noexcept {
    constexpr int finest = 7;  // ulps less than 2^-7 of the tolerance's binade are dealt with together
    const uint32_t wanted = bits_of(tolerance);
    const int largest_ulp = static_cast<int>(exponent == 0 ? 1 : exponent) - format::bias -
                            static_cast<int>(format::mantissa_bits);  // as a power of two
    const int tolerance_exponent = static_cast<int>(wanted >> 23) - 127;
    uint32_t best = bits_of(exact::mul(tolerance, 1 - 0x1p-9f));
    for (int i = finest; i >= 0 && tolerance_exponent - i <= largest_ulp; --i) {
      // u = 2^-i of the binade: i bits of the mantissa are kept, and half a unit is added.
      const uint32_t candidate = (wanted & ~low_mask(23 - static_cast<uint32_t>(i))) | 1u << (22 - i);
      best = candidate < best ? candidate : best;
    }
    // u = twice the binade's lower end.
    if (tolerance_exponent + 1 <= largest_ulp && (wanted & 0x7f800000u) < best) best = wanted & 0x7f800000u;
    return __builtin_bit_cast(float, best);
  }
};

// |x - x'| <= bound * |x|: the mantissa is rounded to so many bits that half of the last one is within the bound. A key
// is the rounded bit pattern without the bits that are dropped and without the sign; codes are counted from the lowest.
template <floating_element T> struct mantissa_quantizer {
  using format = float_format<T>;
  using bits = bits_t<T>;
  using word = bits_t<typename format::real>;
  using number = std::make_signed_t<word>;

  static constexpr word zero = 0;                                                  // as above
  static constexpr uint32_t max_width = 8 * sizeof(T) + (sizeof(T) == 2 ? 1 : 0);  // of numbers that decoders take

  uint32_t dropped = 0;  // bits of the mantissa
  bits below = 0;        // the lowest key of the chunk, less one

  // Of a positive, finite bound, as a double's bits.
  TUCK_HD static constexpr mantissa_quantizer make(uint64_t bound) noexcept {
    const int kept = -detail::exponent_of(bound) - 1;  // 2^-(kept + 1) <= bound
    constexpr int all = format::mantissa_bits;
    return {static_cast<uint32_t>(all - (kept < 0 ? 0 : kept > all ? all : kept))};
  }
  // The same for a chunk whose least value that is not 0 has this exponent.
  TUCK_HD constexpr mantissa_quantizer from(uint32_t exponent) const noexcept {
    return {dropped, static_cast<bits>((uint64_t{exponent} << (format::mantissa_bits - dropped)) - 1)};
  }

  // The half unit is at most bound * |x| for normal numbers; denormals have fewer bits and must come back as they were.
  TUCK_HD coded<T> code(bits x) const noexcept {
    const bits magnitude = format::magnitude(x);
    const bits half = static_cast<bits>(bits{1} << dropped >> 1);
    const bits key = static_cast<bits>((magnitude + half) >> dropped);
    const bits restored = static_cast<bits>(key << dropped);
    const bool holds =
        (magnitude < format::infinity) &
        ((restored == magnitude) | ((magnitude >= format::smallest_normal) & (restored < format::infinity)));
    const auto sign = static_cast<bits>(0 - static_cast<bits>(x >> top_bit));  // all ones of a negative one
    const auto code = static_cast<bits>((static_cast<bits>(key - below) ^ sign) - sign);
    const bits coded = select(holds & (magnitude != 0), bits(~bits{0}), bits{0});
    return {static_cast<bits>(code & coded),
            select(holds, static_cast<bits>((restored | (x & format::sign)) & coded), x),
            static_cast<bits>(0 - bits{holds})};
  }

  // Of any number.
  TUCK_HD bits value(word code) const noexcept {
    const auto x = static_cast<bits>(code);
    const auto sign = static_cast<bits>(0 - static_cast<bits>(x >> top_bit));
    const auto key = static_cast<bits>(static_cast<bits>((x ^ sign) - sign) + below);
    const auto magnitude = format::magnitude(static_cast<bits>(key << dropped));
    return select(x != 0, static_cast<bits>(magnitude | (sign & format::sign)), bits{0});
  }
  TUCK_HD static constexpr word from_chain(bits integer) noexcept { return integer; }

 private:
  static constexpr uint32_t top_bit = 8 * sizeof(T) - 1;
};

}  // namespace tuck::inline TUCK_ABI
