// What went wrong, as an exception.
#pragma once

#include <tuck/memory/frame_buffer.cuh>

namespace example {

inline void check(const tuck::result& r) {
  if (!r) throw tuck::error(r);
}
inline void check(cudaError_t e) {
  if (e != cudaSuccess) throw tuck::error(e);
}
// Of any kind, also pinned memory.
inline bool is_lack_of_memory(const tuck::result& r) {
  return r.code == tuck::status::out_of_memory || r.code == tuck::status::pool_full ||
         r.cuda == cudaErrorMemoryAllocation;
}

}  // namespace example
