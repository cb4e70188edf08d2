// What the lanes of a warp do together. Handlers run for all lanes of a mask at once.
#include "handlers.hpp"
#include "launch_run.hpp"

#include <algorithm>

namespace ptx {
namespace {

enum class shuffle : uint8_t { up, down, bfly, idx };

void run_shfl(warp& w, const instruction& i, uint32_t lanes) {
  const std::byte *const value = w.in(i.from_columns[0]), *const b = w.in(i.from_columns[1]),
                         *const c = w.in(i.from_columns[2]);
  std::array<uint32_t, 32> source;
  std::memcpy(source.data(), value, sizeof source);
  uint32_t inside = 0;
  for_lanes(lanes, [&](int l) {
    const int by = static_cast<int>(get<uint32_t>(b, l) & 31), control = static_cast<int>(get<uint32_t>(c, l));
    const int segment = control >> 8 & 31, clamp = control & 31;
    const int highest = (l & segment) | (clamp & ~segment & 31), lowest = l & segment;
    int from = l;
    bool in = false;
    switch (static_cast<shuffle>(i.mode)) {
      case shuffle::up:
        from = l - by;
        in = from >= highest;
        break;
      case shuffle::down:
        from = l + by;
        in = from <= highest;
        break;
      case shuffle::bfly:
        from = l ^ by;
        in = from <= highest;
        break;
      case shuffle::idx:
        from = lowest | (by & ~segment & 31);
        in = from <= highest;
        break;
    }
    if (!in) from = l;
    if ((lanes >> from & 1) == 0)
      fault(w, "divergent sync", "shfl from lane " + std::to_string(from) + ", which takes no part", l);
    inside |= uint32_t(in) << l;
    if (i.to[0] != no_operand) put<uint32_t>(w.out(i.to[0]), l, source[static_cast<std::size_t>(from)]);
  });
  if (i.to_predicates[0] != no_operand) w.set(i.to_predicates[0], lanes, inside);
}

enum class vote : uint8_t { ballot, any, all, uni };

void run_vote(warp& w, const instruction& i, uint32_t lanes) {
  const uint32_t yes = w.mask(i.from_predicates[0]) & lanes;
  switch (static_cast<vote>(i.mode)) {
    case vote::ballot: for_lanes(lanes, [&](int l) { put<uint32_t>(w.out(i.to[0]), l, yes); }); return;
    case vote::any: return w.set(i.to_predicates[0], lanes, yes != 0 ? ~0u : 0);
    case vote::all: return w.set(i.to_predicates[0], lanes, yes == lanes ? ~0u : 0);
    case vote::uni: return w.set(i.to_predicates[0], lanes, yes == lanes || yes == 0 ? ~0u : 0);
  }
}

template <class T, bool all> void run_match(warp& w, const instruction& i, uint32_t lanes) {
  const std::byte* const value = w.in(i.from_columns[0]);
  std::array<uint32_t, 32> same{};
  for_lanes(lanes, [&](int l) {
    for_lanes(lanes,
              [&](int o) { same[static_cast<std::size_t>(l)] |= uint32_t(get<T>(value, l) == get<T>(value, o)) << o; });
  });
  const bool alike = same[static_cast<std::size_t>(std::countr_zero(lanes))] == lanes;
  if (i.to[0] != no_operand)
    for_lanes(lanes, [&](int l) {
      put<uint32_t>(w.out(i.to[0]), l, all ? (alike ? lanes : 0) : same[static_cast<std::size_t>(l)]);
    });
  if (i.to_predicates[0] != no_operand) w.set(i.to_predicates[0], lanes, alike ? ~0u : 0);
}

enum class reduction : uint8_t { add, min, max, and_, or_, xor_ };

template <class T> void run_redux(warp& w, const instruction& i, uint32_t lanes) {
  const std::byte* const value = w.in(i.from_columns[0]);
  bool first = true;
  T r = 0;
  for_lanes(lanes, [&](int l) {
    const T v = get<T>(value, l);
    switch (static_cast<reduction>(i.mode)) {
      case reduction::add: r = first ? v : static_cast<T>(static_cast<uint32_t>(r) + static_cast<uint32_t>(v)); break;
      case reduction::min: r = first ? v : std::min(r, v); break;
      case reduction::max: r = first ? v : std::max(r, v); break;
      case reduction::and_: r = first ? v : r & v; break;
      case reduction::or_: r = first ? v : r | v; break;
      case reduction::xor_: r = first ? v : r ^ v; break;
    }
    first = false;
  });
  for_lanes(lanes, [&](int l) { put<T>(w.out(i.to[0]), l, r); });
}

void run_warp_barrier(warp& w, const instruction&, uint32_t lanes) { w.clock.synchronise(lanes, lanes == w.alive); }

void run_activemask(warp& w, const instruction& i, uint32_t lanes) {
  for_lanes(lanes, [&](int l) { put<uint32_t>(w.out(i.to[0]), l, lanes); });
}

// --- decoding -------------------------------------------------------------------------------------------------------

// Who takes part: always in the last of the columns.
void take_mask(decoder& d) {
  d.i.how = flow::warp_sync;
  d.i.from_columns[4] = d.source(type::b32);
}
void needs_sync(decoder& d) {
  if (!d.take("sync")) d.fail("without .sync");
}
void take_pair(decoder& d) {
  const auto [to, p] = d.paired_operand();
  d.i.to[0] = d.destination_or_sink(to, type::b32);
  d.i.to_predicates[0] = d.predicate_or_sink(p);
}
void needs_destination(decoder& d) {
  if (d.i.to[0] == no_operand) d.fail("a destination is missing");
}

void decode_shfl(decoder& d) {
  needs_sync(d);
  d.i.mode = static_cast<uint8_t>(d.need_one({"up", "down", "bfly", "idx"}));
  d.need_type({type::b32});
  take_pair(d);
  needs_destination(d);
  for (std::size_t k = 0; k < 3; ++k) d.i.from_columns[k] = d.source(type::b32);
  take_mask(d);
  d.i.run = &run_shfl;
}
void decode_vote(decoder& d) {
  needs_sync(d);
  d.i.mode = static_cast<uint8_t>(d.need_one({"ballot", "any", "all", "uni"}));
  if (static_cast<vote>(d.i.mode) == vote::ballot) {
    d.need_type({type::b32});
    d.i.to[0] = d.destination(type::b32);
  } else {
    d.need_type({type::pred});
    d.i.to_predicates[0] = d.destination_predicate(d.next_operand());
  }
  d.i.from_predicates[0] = d.source_predicate();
  take_mask(d);
  d.i.run = &run_vote;
}
void decode_match(decoder& d) {
  needs_sync(d);
  const bool all = d.need_one({"any", "all"}) == 1;
  const type t = d.need_type({type::b32, type::b64});
  take_pair(d);
  if (!all) needs_destination(d);
  if (!all && d.i.to_predicates[0] != no_operand) d.fail("match.any has no predicate");
  d.i.from_columns[0] = d.source(t);
  take_mask(d);
  d.i.run = t == type::b64 ? (all ? &run_match<uint64_t, true> : &run_match<uint64_t, false>)
                           : (all ? &run_match<uint32_t, true> : &run_match<uint32_t, false>);
}
void decode_redux(decoder& d) {
  needs_sync(d);
  d.i.mode = static_cast<uint8_t>(d.need_one({"add", "min", "max", "and", "or", "xor"}));
  const bool bits = static_cast<reduction>(d.i.mode) >= reduction::and_;
  const type t = bits ? d.need_type({type::b32}) : d.need_type({type::u32, type::s32});
  d.i.to[0] = d.destination(t);
  d.i.from_columns[0] = d.source(t);
  take_mask(d);
  d.i.run = is_signed(t) ? &run_redux<int32_t> : &run_redux<uint32_t>;
}
void decode_activemask(decoder& d) {
  d.need_type({type::b32});
  d.i.to[0] = d.destination(type::b32);
  d.i.run = &run_activemask;
}

void decode_barrier(decoder& d) {
  if (d.take("warp")) {
    needs_sync(d);
    take_mask(d);
    d.i.run = &run_warp_barrier;
    return;
  }
  d.take("cta");
  d.i.flag = d.mnemonic() == "bar" || d.take("aligned");
  d.i.how = flow::block_barrier;
  d.i.mode = static_cast<uint8_t>(d.need_one({"sync", "arrive", "red"}));
  bool reduces = false;
  if (d.i.mode == 2) {
    reduces = true;
    const int op = d.need_one({"popc", "and", "or"});
    d.i.mode = static_cast<uint8_t>(2 + op);
    if (op == 0) {
      d.need_type({type::u32});
      d.i.to[0] = d.destination(type::u32);
    } else {
      d.need_type({type::pred});
      d.i.to_predicates[0] = d.destination_predicate(d.next_operand());
    }
  }
  d.i.from_columns[0] = d.source(type::u32);
  if (d.operands_left() > (reduces ? 1u : 0u)) d.i.from_columns[1] = d.source(type::u32);
  if (d.i.mode == 1 && d.i.from_columns[1] == no_operand) d.fail("a number of threads is missing");
  if (reduces) d.i.from_predicates[0] = d.source_predicate();
}

constexpr mnemonic table[] = {
    {"shfl", &decode_shfl},
    {"vote", &decode_vote},
    {"match", &decode_match},
    {"redux", &decode_redux},
    {"activemask", &decode_activemask},
    {"bar", &decode_barrier},
    {"barrier", &decode_barrier},
};

}  // namespace

std::span<const mnemonic> warp_mnemonics() { return table; }

}  // namespace ptx
