// Warp collectives: lanes deposit their requests, the last to arrive computes everybody's result.
#include "engine.hpp"

#include <algorithm>
#include <bit>

namespace cudasim::detail {
namespace {

std::string hex(unsigned mask) {
  constexpr char digits[] = "0123456789abcdef";
  std::string s = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) s += digits[mask >> shift & 15];
  return s;
}

const char* name(warp_op op) {
  static constexpr const char* names[] = {"syncwarp", "shfl", "shfl_up",    "shfl_down",  "shfl_xor",   "ballot",
                                          "any",      "all",  "reduce_add", "reduce_min", "reduce_max", "reduce_or"};
  return names[static_cast<int>(op)];
}

// The lane a shuffle reads; its own where CUDA says so.
int source_lane(const warp_request& r, int lane) {
  const int width = r.width, first = lane & ~(width - 1), within = lane - first;
  switch (r.op) {
    case warp_op::shfl: return first + (r.argument & (width - 1));
    case warp_op::shfl_up: return within >= r.argument ? lane - r.argument : lane;
    case warp_op::shfl_down: return within + r.argument < width ? lane + r.argument : lane;
    default: {
      const int source = lane ^ r.argument;
      return source < first + width && source < 32 ? source : lane;
    }
  }
}

std::uint64_t combine(warp_op op, std::uint64_t a, std::uint64_t b) {
  const auto x = static_cast<std::uint32_t>(a), y = static_cast<std::uint32_t>(b);
  switch (op) {
    case warp_op::or_: return x | y;
    case warp_op::min: return std::min(x, y);
    case warp_op::max: return std::max(x, y);
    default: return x + y;
  }
}

template <class Do> void for_each_lane(unsigned lanes, Do&& act) {
  for (; lanes != 0; lanes &= lanes - 1) act(std::countr_zero(lanes));
}

}  // namespace

std::uint64_t engine::collective(const warp_request& request, site where) {
  fiber& f = *current_;
  warp& w = *f.home;
  const unsigned bit = 1u << f.lane, mask = request.mask;
  f.request = request;
  f.where = where;
  check_partners(w, f);
  const int group = std::countr_zero(mask);
  order_point* order = nullptr;
  if (request.op == warp_op::sync && tsan()) {
    order = &w.order[static_cast<std::size_t>(group)][w.phase >> group & 1];
    order->release();
  }
  w.waiting |= bit;
  if (((w.waiting ^ mask) & mask & w.exists) == 0) {
    complete(w, mask & w.exists);
    w.phase ^= 1u << group;
  } else {
    w.ready &= ~bit;
    f.doing = activity::collective;
    leave();
    f.doing = activity::running;
  }
  if (order) order->acquire();
  return f.result;
}

void engine::check_partners(const warp& w, const fiber& f) {
  const warp_request& mine = f.request;
  const auto call = [](const warp_request& r) { return std::string(name(r.op)) + " with mask " + hex(r.mask); };
  if (!(mine.mask >> f.lane & 1)) fail("mask without the caller", [&] { return call(mine); }, f, f.where);
  if (mine.mask & w.exited)
    fail(
        "exited lane",
        [&] { return call(mine) + " names lanes that have returned from the kernel, " + hex(mine.mask & w.exited); }, f,
        f.where);
  // One partner is enough here: complete() compares them all.
  const unsigned others = mine.mask & w.waiting & ~(1u << f.lane);
  if (others == 0) return;
  const fiber& other = w.lanes[std::countr_zero(others)];
  const auto both = [&] {
    return call(mine) + ", but lane " + std::to_string(other.lane) + " waits in " + call(other.request) + " at " +
           describe(other.where);
  };
  if (other.request.mask != mine.mask) fail("mismatched mask", both, f, f.where);
  if (other.request.op != mine.op || other.request.bytes != mine.bytes) fail("mismatched collective", both, f, f.where);
}

void engine::complete(warp& w, unsigned lanes) {
  const warp_request& first = w.lanes[std::countr_zero(lanes)].request;
  std::uint64_t common = 0;
  for_each_lane(lanes, [&](int l) {
    if (w.lanes[l].request.mask != first.mask) check_partners(w, w.lanes[l]);
  });
  switch (first.op) {
    case warp_op::sync: break;
    case warp_op::shfl:
    case warp_op::shfl_up:
    case warp_op::shfl_down:
    case warp_op::shfl_xor:
      for_each_lane(lanes, [&](int l) {
        fiber& f = w.lanes[l];
        const int source = source_lane(f.request, l);
        if (!(lanes >> source & 1))
          fail(
              "shuffle from outside the mask",
              [&] {
                return std::string(name(first.op)) + " reads lane " + std::to_string(source) + ", mask " +
                       hex(first.mask);
              },
              f, f.where);
        f.result = w.lanes[source].request.value;
      });
      break;
    case warp_op::ballot:
    case warp_op::any:
    case warp_op::all:
      for_each_lane(lanes, [&](int l) { common |= w.lanes[l].request.value << l; });
      if (first.op == warp_op::any) common = common != 0;
      if (first.op == warp_op::all) common = common == lanes;
      for_each_lane(lanes, [&](int l) { w.lanes[l].result = common; });
      break;
    default:
      common = first.value;
      for_each_lane(lanes & (lanes - 1), [&](int l) { common = combine(first.op, common, w.lanes[l].request.value); });
      for_each_lane(lanes, [&](int l) { w.lanes[l].result = common; });
  }
  w.waiting &= ~lanes;
  w.ready |= lanes;
  if (lanes == w.exists) w.traffic.converge();
  step(*w.home);
}

}  // namespace cudasim::detail
