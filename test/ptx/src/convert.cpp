// Conversions between numbers of all kinds.
#include "floating.hpp"
#include "handlers.hpp"

#include <algorithm>

namespace ptx {
namespace {

// Of instruction::mode.
constexpr uint8_t rounding_bits = 3, ftz_bit = 4, sat_bit = 8, to_integer_bit = 16;

// An integer register's value, extended as its type says.
int128 integer_in(uint64_t bits, type t) {
  const unsigned n = 64 - bits_of(t);
  return is_signed(t) ? int128{static_cast<int64_t>(bits << n) >> n} : int128{bits << n >> n};
}
int128 lowest(type t) { return is_signed(t) ? -(int128{1} << (bits_of(t) - 1)) : 0; }
int128 highest(type t) { return (int128{1} << (bits_of(t) - (is_signed(t) ? 1 : 0))) - 1; }

double to_whole(double v, rounding how) {
  switch (how) {
    case rounding::nearest: return std::nearbyint(v);
    case rounding::zero: return std::trunc(v);
    case rounding::down: return std::floor(v);
    default: return std::ceil(v);
  }
}

// Out of range is the nearest end; of NaN the ISA says 0, or the top bit where 64 bits are concerned.
uint64_t integer_of(double v, type from, type to, rounding how) {
  if (std::isnan(v)) return from == type::f64 || bits_of(to) == 64 ? uint64_t{1} << (bits_of(to) - 1) : 0;
  const double whole = to_whole(v, how);
  if (whole <= static_cast<double>(lowest(to))) return static_cast<uint64_t>(lowest(to));
  // The highest of 64 bits is rounded up as a double: anything below is a double itself.
  if (whole >= std::ldexp(1., static_cast<int>(bits_of(to)) - (is_signed(to) ? 1 : 0)))
    return static_cast<uint64_t>(highest(to));
  return static_cast<uint64_t>(static_cast<int128>(whole));
}

uint64_t float_of_integer(int128 v, type to, rounding how) {
  const rounding_scope scope(how);
  if (to == type::f64) {
    volatile double r =
        v < 0 ? static_cast<double>(static_cast<int64_t>(v)) : static_cast<double>(static_cast<uint64_t>(v));
    return std::bit_cast<uint64_t>(double{r});
  }
  if (to == type::f32) {
    volatile float r =
        v < 0 ? static_cast<float>(static_cast<int64_t>(v)) : static_cast<float>(static_cast<uint64_t>(v));
    return std::bit_cast<uint32_t>(float{r});
  }
  // Rounded once: a double has all bits that matter, and the last says whether there are more.
  auto size = static_cast<uint64_t>(v < 0 ? -v : v);
  if (size >> 53 != 0) size = (size >> 11 | uint64_t{(size & 2047) != 0}) << 11;
  const auto exact = static_cast<double>(size);
  return encode_float(v < 0 ? -exact : exact, to == type::f16 ? f16_format : bf16_format, how);
}

uint64_t float_of_float(double v, uint64_t bits, type from, type to, const instruction& i) {
  const auto how = static_cast<rounding>(i.mode & rounding_bits);
  if ((i.mode & to_integer_bit) != 0) v = to_whole(v, how);
  const bool same = from == to && (i.mode & (sat_bit | to_integer_bit)) == 0;
  if ((i.mode & sat_bit) != 0) v = saturated(v);
  switch (to) {
    case type::f64: return same || (std::isnan(v) && from == to) ? bits : std::bit_cast<uint64_t>(v);
    case type::f32: {
      const uint32_t r = encode_float(v, f32_format, how);
      return (i.mode & ftz_bit) != 0 ? std::bit_cast<uint32_t>(flushed(std::bit_cast<float>(r))) : r;
    }
    case type::f16: return encode_float(v, f16_format, how);
    default: return encode_float(v, bf16_format, how);
  }
}

uint64_t converted(uint64_t bits, const instruction& i) {
  const auto how = static_cast<rounding>(i.mode & rounding_bits);
  if (!is_float(i.from)) {
    int128 v = integer_in(bits, i.from);
    if (is_float(i.t)) {
      if ((i.mode & sat_bit) != 0) v = std::clamp<int128>(v, 0, 1);
      return float_of_integer(v, i.t, how);
    }
    if ((i.mode & sat_bit) != 0) v = std::clamp(v, lowest(i.t), highest(i.t));
    return static_cast<uint64_t>(v);
  }
  double v = value_of(bits, i.from);
  if ((i.mode & ftz_bit) != 0 && i.from == type::f32) v = flushed(static_cast<float>(v));
  return is_float(i.t) ? float_of_float(v, bits, i.from, i.t, i) : integer_of(v, i.from, i.t, how);
}

uint64_t bits_in(const std::byte* column, int lane, unsigned bits) {
  return bits == 64 ? get<uint64_t>(column, lane) : get<uint32_t>(column, lane);
}
// Into a register of so many bits, which may be more than the value has: extended by its sign or zeros.
void put_bits(std::byte* column, int lane, uint64_t value, type t, unsigned bits) {
  if (!is_float(t)) value = static_cast<uint64_t>(integer_in(value, t));
  if (bits == 64)
    put<uint64_t>(column, lane, value);
  else
    put<uint32_t>(column, lane, static_cast<uint32_t>(bits == 16 ? value & 0xffff : value));
}

void run_convert(warp& w, const instruction& i, uint32_t lanes) {
  std::byte* const to = w.out(i.to[0]);
  const std::byte* const from = w.in(i.from_columns[0]);
  const unsigned from_bits = i.vector;  // of the source's register
  for_lanes(lanes, [&](int l) { put_bits(to, l, converted(bits_in(from, l, from_bits), i), i.t, i.wide); });
}

// What most conversions are: between unsigned registers of 32 and 64 bits.
template <class R, class A> struct extend {
  static R of(A a) { return static_cast<R>(a); }
};

void run_pair(warp& w, const instruction& i, uint32_t lanes) {
  std::byte* const to = w.out(i.to[0]);
  const std::byte *const high = w.in(i.from_columns[0]), *const low = w.in(i.from_columns[1]);
  for_lanes(lanes, [&](int l) {
    const uint64_t h = converted(get<uint32_t>(high, l), i), v = converted(get<uint32_t>(low, l), i);
    put<uint32_t>(to, l, static_cast<uint32_t>(h << 16 | (v & 0xffff)));
  });
}

handler quick(type to, unsigned to_bits, type from, unsigned from_bits) {
  if (bits_of(to) != to_bits || bits_of(from) != from_bits || is_float(to) || is_float(from)) return nullptr;
  const bool s = is_signed(from);
  if (to_bits == 64 && from_bits == 32)
    return s ? lanes_of<extend<uint64_t, int32_t>, uint64_t, int32_t>
             : lanes_of<extend<uint64_t, uint32_t>, uint64_t, uint32_t>;
  if (to_bits == 32 && from_bits == 64) return lanes_of<extend<uint32_t, uint64_t>, uint32_t, uint64_t>;
  if (to_bits == 32 && from_bits == 16)
    return s ? lanes_of<extend<uint32_t, int16_t>, uint32_t, int16_t>
             : lanes_of<extend<uint32_t, uint16_t>, uint32_t, uint16_t>;
  if (to_bits == 16 && from_bits == 32) return lanes_of<extend<uint16_t, uint32_t>, uint16_t, uint32_t>;
  return nullptr;
}

void decode_pair(decoder& d, type to) {
  d.need_type({type::f32});
  d.i.t = to;
  d.i.from = type::f32;
  const int how = d.take_one({"rn", "rz"});
  if (how < 0) d.fail("a rounding is missing");
  d.i.mode = static_cast<uint8_t>(how);
  operands(d, type::b32, {type::f32, type::f32});
  d.i.run = &run_pair;
}

void decode_cvt(decoder& d) {
  if (d.take("f16x2")) return decode_pair(d, type::f16);
  if (d.take("bf16x2")) return decode_pair(d, type::bf16);
  const type to = d.take_type(), from = d.take_type();
  if (bits_of(to) < 8 || bits_of(from) < 8 || to == type::b128 || from == type::b128 ||
      (to >= type::b8 && to <= type::b64) || (from >= type::b8 && from <= type::b64))
    d.fail("not between types that are supported");
  const int whole = d.take_one({"rni", "rzi", "rmi", "rpi"}), how = d.take_one({"rn", "rz", "rm", "rp"});
  if (is_float(from) && !is_float(to) && whole < 0) d.fail("a rounding to integers is missing");
  if (is_float(to) && (!is_float(from) || bits_of(to) < bits_of(from)) && how < 0) d.fail("a rounding is missing");
  if (whole >= 0 && how >= 0) d.fail("two roundings");
  const bool exact = is_float(to) ? is_float(from) && (bits_of(to) > bits_of(from) || to == from) : true;
  if (exact && how >= 0) d.fail("nothing is rounded here");
  if (whole >= 0 && (!is_float(from) || (is_float(to) && to != from))) d.fail("no rounding to integers here");
  d.i.mode =
      static_cast<uint8_t>(std::max(std::max(whole, how), 0) | (whole >= 0 && is_float(to) ? to_integer_bit : 0) |
                           (d.take("ftz") ? ftz_bit : 0) | (d.take("sat") ? sat_bit : 0));
  if ((d.i.mode & ftz_bit) != 0 && to != type::f32 && from != type::f32) d.fail(".ftz is for f32");
  d.i.t = to;
  d.i.from = from;
  d.i.to[0] = d.wide_destination(d.next_operand(), to, d.i.wide);
  if (d.i.to[0] == no_operand) d.fail("a destination is missing");
  uint8_t bits = 0;
  d.i.from_columns[0] = d.wide_source(from, bits);
  d.i.vector = bits;
  d.i.run = d.i.mode == 0 ? quick(to, d.i.wide, from, bits) : nullptr;
  if (d.i.run == nullptr) d.i.run = &run_convert;
}

constexpr mnemonic table[] = {{"cvt", &decode_cvt}};

}  // namespace

std::span<const mnemonic> convert_mnemonics() { return table; }

}  // namespace ptx
