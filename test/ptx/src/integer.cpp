// Integer arithmetic, logic, shifts and bit fields.
#include "handlers.hpp"

#include <algorithm>
#include <limits>

namespace ptx {
namespace {

template <class T> using unsigned_t = std::make_unsigned_t<T>;
template <class T> constexpr unsigned width = 8 * sizeof(T);
template <class T>
using twice =
    std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, int128, uint128>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>>;
// Products of 16-bit values in int could overflow.
template <class T> T low(T a, T b) { return static_cast<T>(uint64_t(a) * uint64_t(b)); }
template <class T> T high(T a, T b) { return static_cast<T>((twice<T>(a) * twice<T>(b)) >> width<T>); }

struct add_op {
  template <class T> static T of(T a, T b) { return T(unsigned_t<T>(a) + unsigned_t<T>(b)); }
};
struct sub_op {
  template <class T> static T of(T a, T b) { return T(unsigned_t<T>(a) - unsigned_t<T>(b)); }
};
struct mul_lo_op {
  template <class T> static T of(T a, T b) { return low(a, b); }
};
struct mul_hi_op {
  template <class T> static T of(T a, T b) { return high(a, b); }
};
struct mul_wide_op {
  template <class T> static twice<T> of(T a, T b) { return twice<T>(a) * twice<T>(b); }
};
struct mad_lo_op {
  template <class T> static T of(T a, T b, T c) { return add_op::of(low(a, b), c); }
};
struct mad_hi_op {
  template <class T> static T of(T a, T b, T c) { return add_op::of(high(a, b), c); }
};
template <class T> struct mad_wide_op {
  static twice<T> of(T a, T b, twice<T> c) { return add_op::of(twice<T>(a) * twice<T>(b), c); }
};
// Division by zero leaves what the hardware's routine does: all ones, and the dividend.
struct div_op {
  template <class T> static T of(T a, T b) {
    if (b == 0) return T(~T(0));
    if (std::is_signed_v<T> && b == T(-1)) return sub_op::of(T(0), a);
    return T(a / b);
  }
};
struct rem_op {
  template <class T> static T of(T a, T b) {
    if (b == 0) return a;
    return std::is_signed_v<T> && b == T(-1) ? T(0) : T(a % b);
  }
};
struct min_op {
  template <class T> static T of(T a, T b) { return std::min(a, b); }
};
struct max_op {
  template <class T> static T of(T a, T b) { return std::max(a, b); }
};
struct sad_op {
  template <class T> static T of(T a, T b, T c) {
    return add_op::of(c, T(a < b ? sub_op::of(b, a) : sub_op::of(a, b)));
  }
};
struct neg_op {
  template <class T> static T of(T a) { return sub_op::of(T(0), a); }
};
struct abs_op {
  template <class T> static T of(T a) { return a < 0 ? neg_op::of(a) : a; }
};
struct and_op {
  template <class T> static T of(T a, T b) { return T(a & b); }
};
struct or_op {
  template <class T> static T of(T a, T b) { return T(a | b); }
};
struct xor_op {
  template <class T> static T of(T a, T b) { return T(a ^ b); }
};
struct not_op {
  template <class T> static T of(T a) { return T(~a); }
};
// Shifts by the width and more leave nothing, or the sign.
struct shl_op {
  template <class T> static T of(T a, uint32_t n) { return n >= width<T> ? T(0) : T(unsigned_t<T>(a) << n); }
};
struct shr_op {
  template <class T> static T of(T a, uint32_t n) {
    if (n >= width<T>) return std::is_signed_v<T> && a < 0 ? T(-1) : T(0);
    return T(a >> n);
  }
};
struct popc_op {
  template <class T> static uint32_t of(T a) { return static_cast<uint32_t>(std::popcount(a)); }
};
struct clz_op {
  template <class T> static uint32_t of(T a) { return static_cast<uint32_t>(std::countl_zero(a)); }
};
struct brev_op {
  template <class T> static T of(T a) {
    T r = 0;
    for (unsigned k = 0; k < width<T>; ++k) r = T(r | ((a >> k & 1) << (width<T> - 1 - k)));
    return r;
  }
};
template <bool shift_amount> struct bfind_op {
  template <class T> static uint32_t of(T a) {
    const auto x = static_cast<unsigned_t<T>>(std::is_signed_v<T> && a < 0 ? ~a : a);
    if (x == 0) return ~0u;
    const auto at = static_cast<uint32_t>(width<T> - 1) - static_cast<uint32_t>(std::countl_zero(x));
    return shift_amount ? width<T> - 1 - at : at;
  }
};
// Positions and lengths are bytes.
struct bfe_op {
  template <class T> static T of(T a, uint32_t b, uint32_t c) {
    const uint32_t at = b & 255, length = c & 255;
    if (length == 0) return 0;
    const uint32_t top = std::min(at + length - 1, width<T> - 1);
    const bool sign = std::is_signed_v<T> && (unsigned_t<T>(a) >> top & 1) != 0;
    const T field = at >= width<T> ? T(0) : T(unsigned_t<T>(a) >> at);
    if (at < width<T> && at + length >= width<T>) {
      const uint32_t have = width<T> - at;
      return sign && have < width<T> ? T(unsigned_t<T>(field) | unsigned_t<T>(~unsigned_t<T>(0) << have)) : field;
    }
    if (at >= width<T>) return sign ? T(-1) : T(0);
    const auto ones = unsigned_t<T>((unsigned_t<T>(1) << length) - 1);
    const auto bits = unsigned_t<T>(unsigned_t<T>(field) & ones);
    return sign ? T(bits | unsigned_t<T>(~ones)) : T(bits);
  }
};
struct bfi_op {
  template <class T> static T of(T a, T b, uint32_t c, uint32_t e) {
    const uint32_t at = c & 255, length = std::min(e & 255, width<T>);
    if (at >= width<T> || length == 0) return b;
    const T ones = T((length == width<T> ? T(~T(0)) : T((T(1) << length) - 1)) << at);
    return T((b & ~ones) | (T(a << at) & ones));
  }
};
template <bool left, bool clamp> struct shf_op {
  static uint32_t of(uint32_t lo, uint32_t hi, uint32_t n) {
    n = clamp ? std::min(n, 32u) : n & 31;
    const uint64_t both = uint64_t{hi} << 32 | lo;
    return static_cast<uint32_t>(left ? both << n >> 32 : both >> n);
  }
};
// The high word of both << 32 would be lost above.
template <> uint32_t shf_op<true, true>::of(uint32_t lo, uint32_t hi, uint32_t n) {
  return n >= 32 ? lo : static_cast<uint32_t>((uint64_t{hi} << 32 | lo) << n >> 32);
}
struct prmt_op {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = uint64_t{b} << 32 | a;
    uint32_t r = 0;
    for (unsigned k = 0; k < 4; ++k) {
      const uint32_t s = c >> (4 * k) & 15;
      auto byte = static_cast<uint32_t>(both >> (8 * (s & 7)) & 255);
      if ((s & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
      r |= byte << (8 * k);
    }
    return r;
  }
};
template <bool a_signed, bool b_signed> struct dp4a_op {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    for (unsigned k = 0; k < 32; k += 8) {
      const int x = a_signed ? int8_t(a >> k) : uint8_t(a >> k), y = b_signed ? int8_t(b >> k) : uint8_t(b >> k);
      c += static_cast<uint32_t>(x * y);
    }
    return c;
  }
};

// An operation on each half of a word.
template <class Op, class T> struct pair_op {
  static uint32_t of(uint32_t a, uint32_t b) {
    const auto half = [=](unsigned at) { return uint32_t{static_cast<uint16_t>(Op::of(T(a >> at), T(b >> at)))}; };
    return half(16) << 16 | half(0);
  }
};
// The handler of an operation on `n` values of type t, and More; null where it has none.
template <class Op, int n, class... More> handler of_type(type t) {
  const auto of = []<class T>(T) -> handler {
    if constexpr (n == 1) return lanes_of<Op, T, T, More...>;
    if constexpr (n == 2) return lanes_of<Op, T, T, T>;
    if constexpr (n == 3) return lanes_of<Op, T, T, T, T>;
  };
  switch (t) {
    case type::u16: return of(uint16_t{});
    case type::u32: return of(uint32_t{});
    case type::u64: return of(uint64_t{});
    case type::s16: return of(int16_t{});
    case type::s32: return of(int32_t{});
    case type::s64: return of(int64_t{});
    default: return nullptr;
  }
}
// By width alone.
template <class Op, int n> handler bitwise(type t) { return of_type<Op, n>(unsigned_of(bits_of(t))); }

constexpr std::initializer_list<type> all_integers = {type::u16, type::u32, type::u64, type::s16, type::s32, type::s64};
constexpr std::initializer_list<type> words = {type::u32, type::s32, type::u64, type::s64};
constexpr std::initializer_list<type> all_bits = {type::b16, type::b32, type::b64};
constexpr std::initializer_list<type> bit_words = {type::b32, type::b64};

// --- decoding -------------------------------------------------------------------------------------------------------

// Pairs of 16 bits, which sm_90 introduced. Returns whether the next modifier says so.
template <class Op> bool decode_pairs(decoder& d) {
  const int which = d.take_one({"u16x2", "s16x2"});
  if (which < 0) return false;
  operands(d, type::b32, {type::b32, type::b32});
  d.i.run = which == 0 ? lanes_of<pair_op<Op, uint16_t>, uint32_t, uint32_t, uint32_t>
                       : lanes_of<pair_op<Op, int16_t>, uint32_t, uint32_t, uint32_t>;
  return true;
}

template <class Op> void decode_binary(decoder& d) {
  if (decode_floating(d)) return;
  if constexpr (std::is_same_v<Op, add_op> || std::is_same_v<Op, min_op> || std::is_same_v<Op, max_op>)
    if (decode_pairs<Op>(d)) return;
  const type t = d.need_type(all_integers);
  operands(d, t, {t, t});
  d.i.run = of_type<Op, 2>(t);
}

template <class Op> void decode_unary_signed(decoder& d) {
  if (decode_floating(d)) return;
  const type t = d.need_type({type::s16, type::s32, type::s64});
  operands(d, t, {t});
  d.i.run = of_type<Op, 1>(t);
}

void decode_mul(decoder& d) {
  if (decode_floating(d)) return;
  const int part = d.need_one({"lo", "hi", "wide"});
  const type t = d.need_type(all_integers);
  if (part < 2) {
    operands(d, t, {t, t});
    d.i.run = part == 0 ? of_type<mul_lo_op, 2>(t) : of_type<mul_hi_op, 2>(t);
    return;
  }
  switch (t) {
    case type::u16: d.i.run = lanes_of<mul_wide_op, uint32_t, uint16_t, uint16_t>; break;
    case type::s16: d.i.run = lanes_of<mul_wide_op, int32_t, int16_t, int16_t>; break;
    case type::u32: d.i.run = lanes_of<mul_wide_op, uint64_t, uint32_t, uint32_t>; break;
    case type::s32: d.i.run = lanes_of<mul_wide_op, int64_t, int32_t, int32_t>; break;
    default: d.fail("products of 64 bits are not wide");
  }
  operands(d, unsigned_of(2 * bits_of(t)), {t, t});
}

void decode_mad(decoder& d) {
  if (decode_floating(d)) return;
  const int part = d.need_one({"lo", "hi", "wide"});
  const type t = d.need_type(all_integers);
  if (part < 2) {
    operands(d, t, {t, t, t});
    d.i.run = part == 0 ? of_type<mad_lo_op, 3>(t) : of_type<mad_hi_op, 3>(t);
    return;
  }
  switch (t) {
    case type::u16: d.i.run = lanes_of<mad_wide_op<uint16_t>, uint32_t, uint16_t, uint16_t, uint32_t>; break;
    case type::s16: d.i.run = lanes_of<mad_wide_op<int16_t>, int32_t, int16_t, int16_t, int32_t>; break;
    case type::u32: d.i.run = lanes_of<mad_wide_op<uint32_t>, uint64_t, uint32_t, uint32_t, uint64_t>; break;
    case type::s32: d.i.run = lanes_of<mad_wide_op<int32_t>, int64_t, int32_t, int32_t, int64_t>; break;
    default: d.fail("products of 64 bits are not wide");
  }
  const type wide = unsigned_of(2 * bits_of(t));
  operands(d, wide, {t, t, wide});
}

void decode_sad(decoder& d) {
  const type t = d.need_type(all_integers);
  operands(d, t, {t, t, t});
  d.i.run = of_type<sad_op, 3>(t);
}

void decode_dp4a(decoder& d) {
  const bool a = is_signed(d.need_type({type::u32, type::s32})), b = is_signed(d.need_type({type::u32, type::s32}));
  operands(d, type::u32, {type::u32, type::u32, type::u32});
  d.i.run = a ? (b ? lanes_of<dp4a_op<true, true>, uint32_t, uint32_t, uint32_t, uint32_t>
                   : lanes_of<dp4a_op<true, false>, uint32_t, uint32_t, uint32_t, uint32_t>)
              : (b ? lanes_of<dp4a_op<false, true>, uint32_t, uint32_t, uint32_t, uint32_t>
                   : lanes_of<dp4a_op<false, false>, uint32_t, uint32_t, uint32_t, uint32_t>);
}

enum class logic : uint8_t { and_, or_, xor_, not_, move };

// On predicates: masks of lanes.
template <logic op> void on_predicates(warp& w, const instruction& i, uint32_t lanes) {
  const uint32_t a = w.mask(i.from_predicates[0]);
  uint32_t r = a;
  if constexpr (op == logic::and_) r = a & w.mask(i.from_predicates[1]);
  if constexpr (op == logic::or_) r = a | w.mask(i.from_predicates[1]);
  if constexpr (op == logic::xor_) r = a ^ w.mask(i.from_predicates[1]);
  if constexpr (op == logic::not_) r = ~a;
  w.set(i.to_predicates[0], lanes, r);
}

template <class Op, logic op> void decode_logic(decoder& d) {
  const type t = d.take_type();
  if (t == type::pred) {
    d.i.to_predicates[0] = d.destination_predicate(d.next_operand());
    d.i.from_predicates[0] = d.source_predicate();
    if constexpr (op == logic::xor_) {  // which is how nvcc says not
      if (const auto mask = d.immediate(d.peek())) {
        d.next_operand();
        d.i.run = (*mask & 1) != 0 ? &on_predicates<logic::not_> : &on_predicates<logic::move>;
        return;
      }
    }
    if constexpr (op != logic::not_) d.i.from_predicates[1] = d.source_predicate();
    d.i.run = &on_predicates<op>;
    return;
  }
  if (t != type::b16 && t != type::b32 && t != type::b64) d.fail("not of a type that is supported");
  if constexpr (op == logic::not_) {
    operands(d, t, {t});
    d.i.run = bitwise<Op, 1>(t);
  } else {
    operands(d, t, {t, t});
    d.i.run = bitwise<Op, 2>(t);
  }
}

void decode_shl(decoder& d) {
  const type t = d.need_type(all_bits);
  operands(d, t, {t, type::u32});
  d.i.run = of_type<shl_op, 1, uint32_t>(unsigned_of(bits_of(t)));
}

void decode_shr(decoder& d) {
  const type t = d.take_type();
  operands(d, t, {t, type::u32});
  d.i.run = of_type<shr_op, 1, uint32_t>(is_signed(t) ? t : unsigned_of(bits_of(t)));
  if (is_float(t) || d.i.run == nullptr) d.fail("not of a type that is supported");
}

template <class Op> void decode_count(decoder& d) {
  const type t = d.need_type(bit_words);
  operands(d, type::u32, {t});
  d.i.run = bits_of(t) == 64 ? lanes_of<Op, uint32_t, uint64_t> : lanes_of<Op, uint32_t, uint32_t>;
}

void decode_brev(decoder& d) {
  const type t = d.need_type(bit_words);
  operands(d, t, {t});
  d.i.run = bitwise<brev_op, 1>(t);
}

template <bool amount> handler bfind_of(type t) {
  switch (t) {
    case type::u32: return lanes_of<bfind_op<amount>, uint32_t, uint32_t>;
    case type::s32: return lanes_of<bfind_op<amount>, uint32_t, int32_t>;
    case type::u64: return lanes_of<bfind_op<amount>, uint32_t, uint64_t>;
    default: return lanes_of<bfind_op<amount>, uint32_t, int64_t>;
  }
}
void decode_bfind(decoder& d) {
  const bool amount = d.take("shiftamt");
  const type t = d.need_type(words);
  operands(d, type::u32, {t});
  d.i.run = amount ? bfind_of<true>(t) : bfind_of<false>(t);
}

void decode_bfe(decoder& d) {
  const type t = d.need_type(words);
  operands(d, t, {t, type::u32, type::u32});
  d.i.run = of_type<bfe_op, 1, uint32_t, uint32_t>(t);
}

void decode_bfi(decoder& d) {
  const type t = d.need_type(bit_words);
  operands(d, t, {t, t, type::u32, type::u32});
  d.i.run = bits_of(t) == 64 ? lanes_of<bfi_op, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t>
                             : lanes_of<bfi_op, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>;
}

template <class Op> constexpr handler of_words = lanes_of<Op, uint32_t, uint32_t, uint32_t, uint32_t>;

void decode_shf(decoder& d) {
  const bool left = d.need_one({"r", "l"}) == 1, clamp = d.need_one({"wrap", "clamp"}) == 1;
  d.need_type({type::b32});
  operands(d, type::b32, {type::b32, type::b32, type::u32});
  d.i.run = left ? (clamp ? of_words<shf_op<true, true>> : of_words<shf_op<true, false>>)
                 : (clamp ? of_words<shf_op<false, true>> : of_words<shf_op<false, false>>);
}

void decode_prmt(decoder& d) {
  d.need_type({type::b32});
  operands(d, type::b32, {type::b32, type::b32, type::b32});
  d.i.run = of_words<prmt_op>;
}

void run_lop3(warp& w, const instruction& i, uint32_t lanes) {
  std::byte* const to = w.out(i.to[0]);
  const std::byte *const x = w.in(i.from_columns[0]), *const y = w.in(i.from_columns[1]),
                         *const z = w.in(i.from_columns[2]);
  for_lanes(lanes, [&](int l) {
    const auto a = get<uint32_t>(x, l), b = get<uint32_t>(y, l), c = get<uint32_t>(z, l);
    uint32_t r = 0;
    for (unsigned k = 0; k < 8; ++k)
      if ((i.mode >> k & 1) != 0) r |= ((k & 4) != 0 ? a : ~a) & ((k & 2) != 0 ? b : ~b) & ((k & 1) != 0 ? c : ~c);
    put<uint32_t>(to, l, r);
  });
}
void decode_lop3(decoder& d) {
  d.need_type({type::b32});
  operands(d, type::b32, {type::b32, type::b32, type::b32});
  const auto table = d.immediate(d.next_operand());
  if (!table || *table > 255) d.fail("the table is a number below 256");
  d.i.mode = static_cast<uint8_t>(*table);
  d.i.run = &run_lop3;
}

constexpr mnemonic table[] = {
    {"add", &decode_binary<add_op>},
    {"sub", &decode_binary<sub_op>},
    {"mul", &decode_mul},
    {"mad", &decode_mad},
    {"div", &decode_binary<div_op>},
    {"rem", &decode_binary<rem_op>},
    {"min", &decode_binary<min_op>},
    {"max", &decode_binary<max_op>},
    {"neg", &decode_unary_signed<neg_op>},
    {"abs", &decode_unary_signed<abs_op>},
    {"sad", &decode_sad},
    {"dp4a", &decode_dp4a},
    {"and", &decode_logic<and_op, logic::and_>},
    {"or", &decode_logic<or_op, logic::or_>},
    {"xor", &decode_logic<xor_op, logic::xor_>},
    {"not", &decode_logic<not_op, logic::not_>},
    {"shl", &decode_shl},
    {"shr", &decode_shr},
    {"shf", &decode_shf},
    {"popc", &decode_count<popc_op>},
    {"clz", &decode_count<clz_op>},
    {"brev", &decode_brev},
    {"bfind", &decode_bfind},
    {"bfe", &decode_bfe},
    {"bfi", &decode_bfi},
    {"prmt", &decode_prmt},
    {"lop3", &decode_lop3},
};

}  // namespace

std::span<const mnemonic> integer_mnemonics() { return table; }

}  // namespace ptx
