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
// Where the thread may allocate memory although a stream is being captured, which is none of those it uses here.
class relaxed_capture {
 public:
  relaxed_capture() noexcept : changed_(cudaThreadExchangeStreamCaptureMode(&before_) == cudaSuccess) {}
  relaxed_capture(const relaxed_capture&) = delete;
  relaxed_capture& operator=(const relaxed_capture&) = delete;
  ~relaxed_capture() {
    if (changed_) static_cast<void>(cudaThreadExchangeStreamCaptureMode(&before_));
  }

 private:
  cudaStreamCaptureMode before_ = cudaStreamCaptureModeRelaxed;
  bool changed_;
};
// Of any kind, also pinned memory.
inline bool is_lack_of_memory(const tuck::result& r) {
  return r.code == tuck::status::out_of_memory || r.code == tuck::status::pool_full ||
         r.code == tuck::status::pool_too_small || r.cuda == cudaErrorMemoryAllocation;
}

}  // namespace example
