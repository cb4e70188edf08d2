// How handlers are made: an operation is a struct with a static `of`, and these run it over the lanes.
#pragma once

#include "decoder.hpp"
#include "warp.hpp"

namespace ptx {

template <class Op, class R, class... A> struct over_lanes {
  template <std::size_t... K>
  static void run(warp& w, const instruction& i, uint32_t lanes, std::index_sequence<K...>) {
    std::byte* const to = w.out(i.to[0]);
    const std::byte* const from[] = {w.in(i.from_columns[K])...};
    for_lanes(lanes, [&](int l) { put<R>(to, l, static_cast<R>(Op::of(get<A>(from[K], l)...))); });
  }
  static void handle(warp& w, const instruction& i, uint32_t lanes) {
    run(w, i, lanes, std::index_sequence_for<A...>());
  }
};
template <class Op, class R, class... A> constexpr handler lanes_of = &over_lanes<Op, R, A...>::handle;

// Sets the columns of a plain operation: destination of type r, then sources.
inline void operands(decoder& d, type r, std::initializer_list<type> sources) {
  d.i.to[0] = d.destination(r);
  std::size_t k = 0;
  for (const type t : sources) d.i.from_columns[k++] = d.source(t);
}

constexpr type unsigned_of(unsigned bits) {
  return bits == 16 ? type::u16 : bits == 32 ? type::u32 : bits == 64 ? type::u64 : type::none;
}

// Ends the launch: `kind` as in ptx::error, and what the lane did.
[[noreturn]] void fault(const warp& w, const char* kind, const std::string& detail, int lane = -1);

}  // namespace ptx
