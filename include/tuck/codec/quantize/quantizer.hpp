// The arithmetic of quantize: a value to a code and back, alike on every machine.
//
// A code is a whole number of steps with the sign below it, 2 q + s; code 1 is -0.0, so that zeros keep their sign.
// Each code is decoded on the spot and compared with the value, after rounding to the element type. In full, where
// each operation is one of f32 (of f64 for f64) rounded to nearest:
//
//   tolerance   the bound in the header, towards zero to f32 and at most 2^120; below 2^-125 there are no codes. Of f64
//               itself, with 2^1000 and 2^-1000
//   step        half * (2 - 2^-19), where half is the tolerance; of 16-bit types the least of these, where 2^e is the
//               tolerance's binade and 2^L the ulp of the chunk's biased exponent (of 1, where that is 0):
//                 tolerance * (1 - 2^-9);  (floor(tolerance / u) + 1/2) u for u = 2^(e-7), .., 2^e if u <= 2^L;
//                 2^e if e < L
//   x'          q * step rounded to the type, with the sign s; of q the lowest code_bits bits count
//   pointwise   the bit pattern key << dropped, less what that shifts out, with the sign s. Of the mantissa are kept:
//               the fewest bits k with 2^-(k+1) <= bound, or all
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
  bool holds;
};

// |x - x'| <= tolerance: q = round(|x| / step), step a little less than twice the tolerance.
//
// The comparison is exact: where q > 0, |x| and q * step are within a factor of two of each other, so their difference
// is a representable number (Sterbenz); where q = 0, it is |x|. The exception are values half an ulp below step / 2
// that are rounded up, and these the factor in `step_of` keeps inside the bound whichever way the difference is
// rounded.
template <floating_element T> struct step_quantizer {
  using format = float_format<T>;
  using bits = bits_t<T>;
  using real = typename format::real;

  // q is less than 2^code_bits: more makes no sense for the type, or its verification would fail too often.
  static constexpr uint32_t code_bits = sizeof(T) == 2 ? 15 : sizeof(T) == 4 ? 23 : 29;

  real tolerance = 0, step = 0, inverse = 0;

  // Of a positive tolerance from tolerance_f32 or tolerance_f64. `exponent` is the biased one of the chunk's largest
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

  TUCK_HD coded<T> code(bits x) const noexcept {
    const bits magnitude = format::magnitude(x);
    const real a = format::widen(magnitude);
    const real shifted = exact::add(exact::mul(a, inverse), magic());
    const auto q = static_cast<bits_t<real>>(bits_of(shifted) - bits_of(magic()));
    const bits restored = format::narrow(exact::mul(exact::sub(shifted, magic()), step));
    const auto difference = float_format<real>::magnitude(bits_of(exact::sub(a, format::widen(restored))));
    const bool holds = (difference <= bits_of(tolerance)) & (q >> code_bits == 0);
    const bool keeps_sign = (x != magnitude) & ((q == 0) == (magnitude == 0));
    const bits sign = keeps_sign ? format::sign : bits{0};
    const bits code = static_cast<bits>(static_cast<bits>(q) << 1 | (keeps_sign ? 1 : 0));
    return {holds ? code : bits{0}, holds ? static_cast<bits>(restored | sign) : x, holds};
  }

  // What a code stands for; of any number.
  TUCK_HD bits value(uint32_t code) const noexcept {
    const auto q = static_cast<bits_t<real>>(code >> 1 & ((uint32_t{1} << code_bits) - 1));
    const real whole = exact::sub(__builtin_bit_cast(real, static_cast<bits_t<real>>(q | bits_of(magic()))), magic());
    return static_cast<bits>(format::narrow(exact::mul(whole, step)) | ((code & 1) != 0 ? format::sign : bits{0}));
  }

 private:
  // 2^23 or 2^52: adding it to a number rounds it to a whole one, which is then in the low bits.
  TUCK_HD static constexpr real magic() noexcept { return sizeof(real) == 8 ? real(0x1p52) : real(0x1p23); }

  TUCK_HD static real step_of(real half) noexcept { return exact::mul(half, real(2) - real(0x1p-19)); }

  // 1 / x to within two ulps, by Newton's iteration from a guess that is right to an eighth.
  TUCK_HD static real reciprocal(real x) noexcept {
    using word = bits_t<real>;
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
// is the rounded bit pattern without the bits that are dropped, 2 key + s with its sign; key 0 is zero.
template <floating_element T> struct mantissa_quantizer {
  using format = float_format<T>;
  using bits = bits_t<T>;

  // Keys of a group may differ by less than 2^code_bits.
  static constexpr uint32_t code_bits = sizeof(T) == 2 ? 15 : 30;

  uint32_t dropped = 0;  // bits of the mantissa

  // Of a positive, finite bound, as a double's bits.
  TUCK_HD static constexpr mantissa_quantizer make(uint64_t bound) noexcept {
    const int kept = -detail::exponent_of(bound) - 1;  // 2^-(kept + 1) <= bound
    constexpr int all = format::mantissa_bits;
    return {static_cast<uint32_t>(all - (kept < 0 ? 0 : kept > all ? all : kept))};
  }

  // The code is 2 key + s. The half unit is at most bound * |x| for normal numbers; denormals have fewer bits and must
  // come back as they were.
  TUCK_HD coded<T> code(bits x) const noexcept {
    const bits magnitude = format::magnitude(x);
    const bits half = static_cast<bits>(bits{1} << dropped >> 1);
    const bits key = static_cast<bits>((magnitude + half) >> dropped);
    const bits restored = static_cast<bits>(key << dropped);
    const bool holds =
        (magnitude < format::infinity) &
        ((restored == magnitude) | ((magnitude >= format::smallest_normal) & (restored < format::infinity)));
    if (!holds) return {0, x, false};
    return {static_cast<bits>(key << 1 | (x != magnitude ? 1 : 0)), value(key, x != magnitude), true};
  }

  // Of any number.
  TUCK_HD bits value(bits key, bool negative) const noexcept {
    return static_cast<bits>(static_cast<bits>(key << dropped) | (negative ? format::sign : bits{0}));
  }
};

}  // namespace tuck::inline TUCK_ABI
