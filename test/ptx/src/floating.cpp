// Floating-point arithmetic of 32 and 64 bits: each rounding, .ftz and .sat. Approximations are refused.
#include "floating.hpp"

#include "handlers.hpp"

namespace ptx {

uint32_t encode_float(double value, float_format f, rounding how) {
  const uint32_t sign = std::signbit(value) ? 1u << (f.exponent_bits + f.fraction_bits) : 0;
  const uint32_t infinity = ((1u << f.exponent_bits) - 1) << f.fraction_bits;
  if (std::isnan(value)) return (1u << (f.exponent_bits + f.fraction_bits)) - 1;
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  const int bias = (1 << (f.exponent_bits - 1)) - 1, lowest = 1 - bias;
  int exponent = 0;
  const double m = std::frexp(std::fabs(value), &exponent);  // in [.5, 1)
  --exponent;                                                // of 1.xxx
  const int kept = exponent < lowest ? static_cast<int>(f.fraction_bits) - (lowest - exponent)
                                     : static_cast<int>(f.fraction_bits);  // bits behind the point
  // 53 bits, of which `drop` are lost.
  const auto mantissa = static_cast<uint64_t>(std::ldexp(m, 53));
  const int drop = 52 - kept;
  uint64_t whole = 0, rest = 1, half = 2;  // all is lost: less than a half
  if (drop <= 53) {
    whole = mantissa >> drop;
    rest = mantissa & ((uint64_t{1} << drop) - 1);
    half = drop == 0 ? 1 : uint64_t{1} << (drop - 1);
  }
  bool up = false;
  switch (how) {
    case rounding::nearest: up = drop > 0 && (rest > half || (rest == half && (whole & 1) != 0)); break;
    case rounding::zero: break;
    case rounding::down: up = sign != 0 && rest != 0; break;
    case rounding::up: up = sign == 0 && rest != 0; break;
  }
  whole += up ? 1 : 0;
  // A carry out of the fraction lands in the exponent, which is right; denormals have exponent 0.
  const uint64_t base = exponent < lowest ? 0 : static_cast<uint64_t>(exponent + bias - 1) << f.fraction_bits;
  const uint64_t bits = base + whole;
  if (bits < infinity) return sign | static_cast<uint32_t>(bits);
  const bool to_infinity =
      how == rounding::nearest || (how == rounding::down && sign != 0) || (how == rounding::up && sign == 0);
  return sign | (to_infinity ? infinity : infinity - 1);
}

double decode_float(uint32_t bits, float_format f) {
  const uint32_t fraction = bits & ((1u << f.fraction_bits) - 1);
  const uint32_t exponent = bits >> f.fraction_bits & ((1u << f.exponent_bits) - 1);
  const double sign = (bits >> (f.exponent_bits + f.fraction_bits) & 1) != 0 ? -1. : 1.;
  const int bias = (1 << (f.exponent_bits - 1)) - 1, shift = static_cast<int>(f.fraction_bits);
  if (exponent == (1u << f.exponent_bits) - 1) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - shift);
  return sign * std::ldexp(fraction + (1u << f.fraction_bits), static_cast<int>(exponent) - bias - shift);
}

double value_of(uint64_t bits, type t) {
  switch (t) {
    case type::f16: return decode_float(static_cast<uint16_t>(bits), f16_format);
    case type::bf16: return decode_float(static_cast<uint16_t>(bits), bf16_format);
    case type::f32: return std::bit_cast<float>(static_cast<uint32_t>(bits));
    default: return std::bit_cast<double>(bits);
  }
}

namespace {

// Of instruction::mode.
constexpr uint8_t rounding_bits = 3, ftz_bit = 4, sat_bit = 8;

struct add_op {
  template <class T> static T of(T a, T b) { return a + b; }
};
struct sub_op {
  template <class T> static T of(T a, T b) { return a - b; }
};
struct mul_op {
  template <class T> static T of(T a, T b) { return a * b; }
};
struct div_op {
  template <class T> static T of(T a, T b) { return a / b; }
};
struct fma_op {
  template <class T> static T of(T a, T b, T c) { return std::fma(a, b, c); }
};
struct sqrt_op {
  template <class T> static T of(T a) { return std::sqrt(a); }
};
struct rcp_op {
  template <class T> static T of(T a) { return T(1) / a; }
};
// One NaN gives way to the other operand; -0 is below +0.
struct min_op {
  template <class T> static T of(T a, T b) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
  }
};
struct max_op {
  template <class T> static T of(T a, T b) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
  }
};

// Volatile, because the compiler knows nothing of roundings.
template <class Op, class T, class... A> T rounded(const instruction& i, A... a) {
  const rounding_scope scope(static_cast<rounding>(i.mode & rounding_bits));
  const bool ftz = (i.mode & ftz_bit) != 0;
  const auto operand = [&](T v) {
    volatile T kept = ftz ? flushed(v) : v;
    return T(kept);
  };
  volatile T r = Op::of(operand(a)...);
  T result = r;
  if (ftz) result = flushed(result);
  if ((i.mode & sat_bit) != 0) result = saturated(result);
  return canonical(result);
}

template <class Op, class T, std::size_t n> struct floats {
  template <std::size_t... K>
  static void run(warp& w, const instruction& i, uint32_t lanes, std::index_sequence<K...>) {
    std::byte* const to = w.out(i.to[0]);
    const std::byte* const from[] = {w.in(i.from_columns[K])...};
    if (i.mode == 0)
      for_lanes(lanes, [&](int l) { put<T>(to, l, canonical(T(Op::of(get<T>(from[K], l)...)))); });
    else
      for_lanes(lanes, [&](int l) { put<T>(to, l, rounded<Op, T>(i, get<T>(from[K], l)...)); });
  }
  static void handle(warp& w, const instruction& i, uint32_t lanes) { run(w, i, lanes, std::make_index_sequence<n>()); }
};

void take_rounding(decoder& d) {
  const int how = d.take_one({"rn", "rz", "rm", "rp"}, 0);
  d.i.mode = static_cast<uint8_t>(how);
}
template <class Op, std::size_t n> void arithmetic(decoder& d, bool rounds, bool saturates = true) {
  if (rounds) take_rounding(d);
  if (d.take("ftz")) d.i.mode |= ftz_bit;
  if (saturates && d.take("sat")) d.i.mode |= sat_bit;
  const type t = d.need_type({type::f32, type::f64});
  if (t == type::f64 && d.i.mode > rounding_bits) d.fail(".ftz and .sat are for f32");
  d.i.to[0] = d.destination(t);
  for (std::size_t k = 0; k < n; ++k) d.i.from_columns[k] = d.source(t);
  d.i.run = t == type::f32 ? &floats<Op, float, n>::handle : &floats<Op, double, n>::handle;
}

// The sign bit alone: NaN keeps its payload.
template <class T, bool negates> void on_sign(warp& w, const instruction& i, uint32_t lanes) {
  using bits = slot<T>;
  constexpr bits sign = bits{1} << (8 * sizeof(T) - 1);
  std::byte* const to = w.out(i.to[0]);
  const std::byte* const from = w.in(i.from_columns[0]);
  for_lanes(lanes, [&](int l) {
    T v = get<T>(from, l);
    if ((i.mode & ftz_bit) != 0) v = flushed(v);
    const auto b = std::bit_cast<bits>(v);
    put<bits>(to, l, negates ? b ^ sign : b & ~sign);
  });
}
template <bool negates> void sign_operation(decoder& d) {
  if (d.take("ftz")) d.i.mode |= ftz_bit;
  const type t = d.i.mode != 0 ? d.need_type({type::f32}) : d.need_type({type::f32, type::f64});
  operands(d, t, {t});
  d.i.run = t == type::f32 ? &on_sign<float, negates> : &on_sign<double, negates>;
}

template <class T> struct copysign_op {
  static T of(T sign, T magnitude) { return std::copysign(magnitude, sign); }
};
void decode_copysign(decoder& d) {
  const type t = d.need_type({type::f32, type::f64});
  operands(d, t, {t, t});
  d.i.run = t == type::f32 ? lanes_of<copysign_op<float>, float, float, float>
                           : lanes_of<copysign_op<double>, double, double, double>;
}

// Approximate and full-range forms are left untaken, and so refused.
template <class Op, std::size_t n> void needs_rounding(decoder& d) {
  const int how = d.take_one({"rn", "rz", "rm", "rp"});
  if (how < 0) d.fail("approximations are not supported");
  d.i.mode = static_cast<uint8_t>(how);
  arithmetic<Op, n>(d, false);
}

constexpr mnemonic table[] = {
    {"fma", &needs_rounding<fma_op, 3>},
    {"sqrt", &needs_rounding<sqrt_op, 1>},
    {"rcp", &needs_rounding<rcp_op, 1>},
    {"copysign", &decode_copysign},
};

}  // namespace

bool decode_floating(decoder& d) {
  if (!is_float(d.next_type())) return false;
  const std::string_view m = d.mnemonic();
  if (m == "add")
    arithmetic<add_op, 2>(d, true);
  else if (m == "sub")
    arithmetic<sub_op, 2>(d, true);
  else if (m == "mul")
    arithmetic<mul_op, 2>(d, true);
  else if (m == "mad")
    needs_rounding<fma_op, 3>(d);
  else if (m == "div")
    needs_rounding<div_op, 2>(d);
  else if (m == "min")
    arithmetic<min_op, 2>(d, false, false);
  else if (m == "max")
    arithmetic<max_op, 2>(d, false, false);
  else if (m == "neg")
    sign_operation<true>(d);
  else if (m == "abs")
    sign_operation<false>(d);
  else
    d.fail("not of a type that is supported");
  return true;
}

std::span<const mnemonic> floating_mnemonics() { return table; }

}  // namespace ptx
