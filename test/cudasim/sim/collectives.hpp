// Warp and block collectives. The trailing parameter, where the call stands, is for reports.
#pragma once

#include "runtime.hpp"

#include <bit>
#include <type_traits>

namespace cudasim::detail {

template <class T>
concept lane_value = std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);

template <lane_value T> std::uint64_t to_bits(T v) {
  if constexpr (sizeof(T) == 8)
    return std::bit_cast<std::uint64_t>(v);
  else
    return std::bit_cast<std::uint32_t>(v);
}

template <lane_value T> T from_bits(std::uint64_t v) {
  if constexpr (sizeof(T) == 8)
    return std::bit_cast<T>(v);
  else
    return std::bit_cast<T>(static_cast<std::uint32_t>(v));
}

template <lane_value T> T shuffle(warp_op op, unsigned mask, T value, int argument, int width, site where) {
  return from_bits<T>(warp_collective({.op = op,
                                       .bytes = sizeof(T),
                                       .width = static_cast<unsigned char>(width),
                                       .mask = mask,
                                       .argument = argument,
                                       .value = to_bits(value)},
                                      where));
}

inline unsigned vote(warp_op op, unsigned mask, std::uint64_t value, site where) {
  return static_cast<unsigned>(warp_collective({.op = op, .mask = mask, .value = value}, where));
}

}  // namespace cudasim::detail

inline void __syncthreads(cudasim::detail::site where = {}) {
  cudasim::detail::block_barrier(cudasim::detail::barrier_op::plain, false, where);
}
inline int __syncthreads_or(int predicate, cudasim::detail::site where = {}) {
  return cudasim::detail::block_barrier(cudasim::detail::barrier_op::any, predicate != 0, where);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, cudasim::detail::site where = {}) {
  cudasim::detail::vote(cudasim::detail::warp_op::sync, mask, 0, where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, cudasim::detail::site where = {}) {
  return cudasim::detail::vote(cudasim::detail::warp_op::ballot, mask, predicate != 0, where);
}
inline int __any_sync(unsigned mask, int predicate, cudasim::detail::site where = {}) {
  return cudasim::detail::vote(cudasim::detail::warp_op::any, mask, predicate != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, cudasim::detail::site where = {}) {
  return cudasim::detail::vote(cudasim::detail::warp_op::all, mask, predicate != 0, where) != 0;
}
template <cudasim::detail::lane_value T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, cudasim::detail::site where = {}) {
  return cudasim::detail::shuffle(cudasim::detail::warp_op::shfl, mask, value, lane, width, where);
}
template <cudasim::detail::lane_value T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, cudasim::detail::site where = {}) {
  return cudasim::detail::shuffle(cudasim::detail::warp_op::shfl_up, mask, value, static_cast<int>(delta), width,
                                  where);
}
template <cudasim::detail::lane_value T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, cudasim::detail::site where = {}) {
  return cudasim::detail::shuffle(cudasim::detail::warp_op::shfl_down, mask, value, static_cast<int>(delta), width,
                                  where);
}
template <cudasim::detail::lane_value T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, cudasim::detail::site where = {}) {
  return cudasim::detail::shuffle(cudasim::detail::warp_op::shfl_xor, mask, value, lanes, width, where);
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned v, cudasim::detail::site where = {}) {
  return cudasim::detail::vote(cudasim::detail::warp_op::add, mask, v, where);
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned v, cudasim::detail::site where = {}) {
  return cudasim::detail::vote(cudasim::detail::warp_op::min, mask, v, where);
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned v, cudasim::detail::site where = {}) {
  return cudasim::detail::vote(cudasim::detail::warp_op::max, mask, v, where);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned v, cudasim::detail::site where = {}) {
  return cudasim::detail::vote(cudasim::detail::warp_op::or_, mask, v, where);
}
