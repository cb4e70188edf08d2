// Moves, selections, comparisons and addresses.
#include "floating.hpp"
#include "handlers.hpp"
#include "launch_run.hpp"

namespace ptx {
namespace {

struct same_op {
  template <class T> static T of(T a) { return a; }
};

// --- mov ------------------------------------------------------------------------------------------------------------

// {a, b, ..} to one register, the first in the low bits; and back.
void run_pack(warp& w, const instruction& i, uint32_t lanes) {
  const unsigned each = bits_of(i.t) / i.vector;
  for_lanes(lanes, [&](int l) {
    uint64_t v = 0;
    for (unsigned k = 0; k < i.vector; ++k) {
      const std::byte* from = w.in(i.from_columns[k]);
      v |= (each == 64 ? get<uint64_t>(from, l) : get<uint32_t>(from, l)) << (k * each);
    }
    if (bits_of(i.t) == 64)
      put<uint64_t>(w.out(i.to[0]), l, v);
    else
      put<uint32_t>(w.out(i.to[0]), l, static_cast<uint32_t>(v));
  });
}
void run_unpack(warp& w, const instruction& i, uint32_t lanes) {
  const unsigned each = bits_of(i.t) / i.vector;
  const std::byte* from = w.in(i.from_columns[0]);
  for_lanes(lanes, [&](int l) {
    const uint64_t v = bits_of(i.t) == 64 ? get<uint64_t>(from, l) : get<uint32_t>(from, l);
    for (unsigned k = 0; k < i.vector; ++k)
      if (i.to[k] != no_operand)
        put<uint32_t>(w.out(i.to[k]), l, static_cast<uint32_t>(v >> (k * each) & (~uint64_t{0} >> (64 - each))));
  });
}

void run_clock(warp& w, const instruction& i, uint32_t lanes) {
  const uint64_t now = w.run->clock();
  for_lanes(lanes, [&](int l) {
    if (bits_of(i.t) == 64)
      put<uint64_t>(w.out(i.to[0]), l, now);
    else
      put<uint32_t>(w.out(i.to[0]), l, static_cast<uint32_t>(now));
  });
}

template <bool value> void run_set_predicate(warp& w, const instruction& i, uint32_t lanes) {
  w.set(i.to_predicates[0], lanes, value ? ~0u : 0);
}
void run_move_predicate(warp& w, const instruction& i, uint32_t lanes) {
  w.set(i.to_predicates[0], lanes, w.mask(i.from_predicates[0]));
}

type bits_type(unsigned bits) {
  return bits == 8 ? type::b8 : bits == 16 ? type::b16 : bits == 32 ? type::b32 : bits == 64 ? type::b64 : type::none;
}

void decode_mov(decoder& d) {
  const type t = d.take_type();
  if (t == type::pred) {
    d.i.to_predicates[0] = d.destination_predicate(d.next_operand());
    if (const auto v = d.immediate(d.peek())) {
      d.next_operand();
      d.i.run = *v != 0 ? &run_set_predicate<true> : &run_set_predicate<false>;
      return;
    }
    d.i.from_predicates[0] = d.source_predicate();
    d.i.run = &run_move_predicate;
    return;
  }
  if (bits_of(t) < 16 || bits_of(t) > 64) d.fail("not of a type that is supported");
  d.i.t = t;
  const bool unpacks = d.peek().starts_with('{');
  const auto to = d.vector_operand();
  if (unpacks) {
    d.i.vector = static_cast<uint8_t>(to.size());
    const type part = bits_type(bits_of(t) / d.i.vector);
    for (std::size_t k = 0; k < to.size(); ++k) d.i.to[k] = d.destination_or_sink(to[k], part);
    d.i.from_columns[0] = d.source(t);
    d.i.run = &run_unpack;
    return;
  }
  d.i.to[0] = d.destination(to[0], t);
  if (d.peek().starts_with('{')) {
    const auto from = d.vector_operand();
    d.i.vector = static_cast<uint8_t>(from.size());
    const type part = bits_type(bits_of(t) / d.i.vector);
    for (std::size_t k = 0; k < from.size(); ++k) d.i.from_columns[k] = d.source(from[k], part);
    d.i.run = &run_pack;
    return;
  }
  constexpr std::pair<std::string_view, unsigned> clocks[] = {
      {"%clock", 32}, {"%clock_hi", 32}, {"%globaltimer_lo", 32}, {"%clock64", 64}, {"%globaltimer", 64}};
  for (const auto& [clock, bits] : clocks)
    if (d.peek() == clock) {
      if (bits_of(t) != bits) d.fail("the clock has another width");
      d.next_operand();
      d.i.run = &run_clock;
      return;
    }
  d.i.from_columns[0] = d.source(t);
  d.i.run = bits_of(t) == 64 ? lanes_of<same_op, uint64_t, uint64_t> : lanes_of<same_op, uint32_t, uint32_t>;
}

// --- selp -----------------------------------------------------------------------------------------------------------

template <class T> void run_selp(warp& w, const instruction& i, uint32_t lanes) {
  std::byte* const to = w.out(i.to[0]);
  const std::byte *const a = w.in(i.from_columns[0]), *const b = w.in(i.from_columns[1]);
  const uint32_t p = w.mask(i.from_predicates[0]);
  for_lanes(lanes, [&](int l) { put<T>(to, l, (p >> l & 1) != 0 ? get<T>(a, l) : get<T>(b, l)); });
}
void decode_selp(decoder& d) {
  const type t = d.take_type();
  if (bits_of(t) < 16 || bits_of(t) > 64) d.fail("not of a type that is supported");
  operands(d, t, {t, t});
  d.i.from_predicates[0] = d.source_predicate();
  d.i.run = bits_of(t) == 64 ? &run_selp<uint64_t> : &run_selp<uint32_t>;
}

// --- setp -----------------------------------------------------------------------------------------------------------

struct eq {
  template <class T> static bool of(T a, T b) { return a == b; }
};
struct ne {
  template <class T> static bool of(T a, T b) { return a < b || a > b; }
};
struct lt {
  template <class T> static bool of(T a, T b) { return a < b; }
};
struct le {
  template <class T> static bool of(T a, T b) { return a <= b; }
};
struct gt {
  template <class T> static bool of(T a, T b) { return a > b; }
};
struct ge {
  template <class T> static bool of(T a, T b) { return a >= b; }
};
struct num {
  template <class T> static bool of(T a, T b) { return a == a && b == b; }
};
// The negations, which NaN fulfils.
template <class Compare> struct unordered {
  template <class T> static bool of(T a, T b) { return !Compare::of(a, b); }
};

// How a comparison is joined with another predicate: instruction::mode.
enum class join : uint8_t { none, and_, or_, xor_ };

template <class T, class Compare> void run_setp(warp& w, const instruction& i, uint32_t lanes) {
  const std::byte *const x = w.in(i.from_columns[0]), *const y = w.in(i.from_columns[1]);
  uint32_t yes = 0;
  for_lanes(lanes, [&](int l) {
    T a = get<T>(x, l), b = get<T>(y, l);
    if constexpr (std::is_same_v<T, float>)
      if (i.flag) a = flushed(a), b = flushed(b);
    yes |= uint32_t(Compare::of(a, b)) << l;
  });
  uint32_t no = ~yes;
  const auto how = static_cast<join>(i.mode);
  if (how != join::none) {
    const uint32_t c = w.mask(i.from_predicates[0]);
    if (how == join::and_) yes &= c, no &= c;
    if (how == join::or_) yes |= c, no |= c;
    if (how == join::xor_) yes ^= c, no ^= c;
  }
  if (i.to_predicates[0] != no_operand) w.set(i.to_predicates[0], lanes, yes);
  if (i.to_predicates[1] != no_operand) w.set(i.to_predicates[1], lanes, no);
}

template <class Compare> handler compare_of(type t) {
  if (t >= type::b8 && t <= type::b64) t = unsigned_of(bits_of(t));
  switch (t) {
    case type::u16: return &run_setp<uint16_t, Compare>;
    case type::s16: return &run_setp<int16_t, Compare>;
    case type::u32: return &run_setp<uint32_t, Compare>;
    case type::s32: return &run_setp<int32_t, Compare>;
    case type::u64: return &run_setp<uint64_t, Compare>;
    case type::s64: return &run_setp<int64_t, Compare>;
    case type::f32: return &run_setp<float, Compare>;
    case type::f64: return &run_setp<double, Compare>;
    default: return nullptr;
  }
}

void decode_setp(decoder& d) {
  struct comparison {
    std::string_view name;
    handler (*of)(type);
    enum class kind : uint8_t { any, unsigned_only, floats_only } takes = kind::any;
  };
  using enum comparison::kind;
  static constexpr comparison all[] = {{"eq", &compare_of<eq>},
                                       {"ne", &compare_of<ne>},
                                       {"lt", &compare_of<lt>},
                                       {"le", &compare_of<le>},
                                       {"gt", &compare_of<gt>},
                                       {"ge", &compare_of<ge>},
                                       {"lo", &compare_of<lt>, unsigned_only},
                                       {"ls", &compare_of<le>, unsigned_only},
                                       {"hi", &compare_of<gt>, unsigned_only},
                                       {"hs", &compare_of<ge>, unsigned_only},
                                       {"equ", &compare_of<unordered<ne>>, floats_only},
                                       {"neu", &compare_of<unordered<eq>>, floats_only},
                                       {"ltu", &compare_of<unordered<ge>>, floats_only},
                                       {"leu", &compare_of<unordered<gt>>, floats_only},
                                       {"gtu", &compare_of<unordered<le>>, floats_only},
                                       {"geu", &compare_of<unordered<lt>>, floats_only},
                                       {"num", &compare_of<num>, floats_only},
                                       {"nan", &compare_of<unordered<num>>, floats_only}};
  const comparison* wanted = nullptr;
  for (const comparison& c : all)
    if (wanted == nullptr && d.take(c.name)) wanted = &c;
  if (wanted == nullptr) d.fail("a comparison is missing");
  d.i.mode = static_cast<uint8_t>(d.take_one({"and", "or", "xor"}) + 1);
  d.i.flag = d.take("ftz");
  const type t = d.take_type();
  const bool bits = t >= type::b8 && t <= type::b64;
  if ((wanted->takes == floats_only && !is_float(t)) ||
      (wanted->takes == unsigned_only && (is_float(t) || is_signed(t))) ||
      (bits && wanted->name != "eq" && wanted->name != "ne") || (d.i.flag && t != type::f32))
    d.fail("not of a type that is supported");
  const auto [p, q] = d.paired_operand();
  d.i.to_predicates = {d.predicate_or_sink(p), d.predicate_or_sink(q)};
  d.i.from_columns[0] = d.source(t);
  d.i.from_columns[1] = d.source(t);
  if (d.i.mode != 0) d.i.from_predicates[0] = d.source_predicate();
  d.i.run = wanted->of(t);
  if (d.i.run == nullptr) d.fail("not of a type that is supported");
}

// --- addresses ------------------------------------------------------------------------------------------------------

uint64_t window_of(space s) {
  return s == space::shared ? shared_window : s == space::local ? local_window : s == space::param ? param_window : 0;
}
template <bool to_generic> void run_cvta(warp& w, const instruction& i, uint32_t lanes) {
  const uint64_t window = window_of(i.where);
  for_lanes(lanes, [&](int l) {
    const auto a = i.flag ? get<uint32_t>(w.in(i.from_columns[0]), l) : get<uint64_t>(w.in(i.from_columns[0]), l);
    const uint64_t r = to_generic ? a | window : window != 0 ? a & ~window_mask : a;
    if (i.flag)
      put<uint32_t>(w.out(i.to[0]), l, static_cast<uint32_t>(r));
    else
      put<uint64_t>(w.out(i.to[0]), l, r);
  });
}
void decode_cvta(decoder& d) {
  const bool to = d.take("to");
  d.i.where = d.take_space();
  if (d.i.where == space::generic) d.fail("a state space is missing");
  const type t = d.need_type({type::u64});
  operands(d, t, {t});
  d.i.run = to ? &run_cvta<false> : &run_cvta<true>;
}
void run_isspacep(warp& w, const instruction& i, uint32_t lanes) {
  uint32_t r = 0;
  for_lanes(lanes, [&](int l) {
    r |= uint32_t((get<uint64_t>(w.in(i.from_columns[0]), l) & window_mask) == window_of(i.where)) << l;
  });
  w.set(i.to_predicates[0], lanes, r);
}
void decode_isspacep(decoder& d) {
  d.i.where = d.take_space();
  if (d.i.where == space::generic || d.i.where == space::constant) d.fail("not of a state space that is supported");
  d.i.to_predicates[0] = d.destination_predicate(d.next_operand());
  d.i.from_columns[0] = d.source(type::u64);
  d.i.run = &run_isspacep;
}

constexpr mnemonic table[] = {
    {"mov", &decode_mov},   {"selp", &decode_selp},         {"setp", &decode_setp},
    {"cvta", &decode_cvta}, {"isspacep", &decode_isspacep},
};

}  // namespace

std::span<const mnemonic> move_mnemonics() { return table; }

}  // namespace ptx
