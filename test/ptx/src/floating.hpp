// Floating-point formats and roundings that the CPU does not have, exactly.
#pragma once

#include "module.hpp"

#include <bit>
#include <cfenv>
#include <cmath>

namespace ptx {

enum class rounding : uint8_t { nearest, zero, down, up };

struct float_format {
  unsigned exponent_bits, fraction_bits;
};
inline constexpr float_format f16_format{5, 10}, bf16_format{8, 7}, f32_format{8, 23};

// The bits of the value nearest in that direction; NaN is the canonical one, all ones but the sign.
uint32_t encode_float(double value, float_format f, rounding how);
double decode_float(uint32_t bits, float_format f);
double value_of(uint64_t bits, type t);  // of f16, bf16, f32 or f64

inline float flushed(float v) { return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.f, v) : v; }
inline double flushed(double v) { return v; }

inline float canonical(float v) { return std::isnan(v) ? std::bit_cast<float>(0x7fffffffu) : v; }
inline double canonical(double v) { return v; }

template <class T> T saturated(T v) { return std::isnan(v) || v <= 0 ? T(0) : v > 1 ? T(1) : v; }

// For as long as it lives the CPU rounds so.
class rounding_scope {
 public:
  explicit rounding_scope(rounding how) : before_(std::fegetround()) {
    constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(modes[static_cast<int>(how)]);
  }
  rounding_scope(const rounding_scope&) = delete;
  rounding_scope& operator=(const rounding_scope&) = delete;
  ~rounding_scope() { std::fesetround(before_); }

 private:
  int before_;
};

}  // namespace ptx
