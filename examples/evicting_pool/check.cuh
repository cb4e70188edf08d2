// What went wrong, as an exception.
#pragma once

#include <tuck/memory/frame_buffer.cuh>

namespace example {

inline void check(const tuck::result& r) {
  if (!r) throw tuck::error(r.code, r.cuda);
}
inline void check(cudaError_t e) {
  if (e != cudaSuccess) throw tuck::error(tuck::status::cuda_error, e);
}
// Of any kind, also pinned memory.
inline bool is_lack_of_memory(tuck::status s, cudaError_t e) {
  return s == tuck::status::out_of_memory || s == tuck::status::pool_full || e == cudaErrorMemoryAllocation;
}

}  // namespace example
