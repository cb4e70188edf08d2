#include "device.h"

#include <tuck/device.cuh>
#include <tuck/host.hpp>

#if defined(TUCK_CUDASIM)
#include <cudasim.hpp>
#endif

extern "C" {

void* pages_device_allocate(size_t bytes) {
  void* p = nullptr;
  if (cudaMalloc(&p, bytes) != cudaSuccess || cudaMemsetAsync(p, 0, bytes, nullptr) != cudaSuccess) return nullptr;
  return cudaDeviceSynchronize() == cudaSuccess ? p : nullptr;
}
int pages_device_copy(void* to, const void* from, size_t bytes) {
  if (const cudaError_t e = cudaDeviceSynchronize(); e != cudaSuccess) return e;
  return cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
}
void* pages_device_stream(void) {
  cudaStream_t stream = nullptr;
  return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess ? stream : nullptr;
}
int pages_device_wait(void* stream) { return cudaStreamSynchronize(static_cast<cudaStream_t>(stream)); }
int pages_device_capture(void* stream) {
  return cudaStreamBeginCapture(static_cast<cudaStream_t>(stream), cudaStreamCaptureModeThreadLocal);
}
void* pages_device_captured(void* stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t run = nullptr;
  cudaError_t e = cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &graph);
  if (e == cudaSuccess) e = cudaGraphInstantiate(&run, graph, 0);
  return e == cudaSuccess ? run : nullptr;
}
int pages_device_replay(void* graph, void* stream) {
  const cudaError_t e = cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), static_cast<cudaStream_t>(stream));
  return e == cudaSuccess ? pages_device_wait(stream) : e;
}
uint64_t pages_device_waits(void) {
#if defined(TUCK_CUDASIM)
  const cudasim::counters c = cudasim::snapshot();
  return c.allocations + c.frees + c.synchronisations;
#else
  return 0;
#endif
}

uint64_t pages_host_frame_f8(const void* values, uint64_t count, uint32_t chunk_values, void* frame, uint64_t room) {
  const tuck::span<const tuck::f8e4m3> all(static_cast<const tuck::f8e4m3*>(values), count);
  const tuck::outcome done =
      tuck::host::encode(tuck::codebooks<tuck::f8e4m3>{}, all, tuck::bytes(static_cast<std::byte*>(frame), room),
                         {.chunk_values = chunk_values, .alignment = 16});
  return done ? done.bytes : 0;
}

uint64_t pages_host_frame(const void* values, uint64_t count, double bound, uint32_t chunk_values, void* frame,
                          uint64_t room) {
  const tuck::span<const tuck::bf16> all(static_cast<const tuck::bf16*>(values), count);
  const tuck::bytes to(static_cast<std::byte*>(frame), room);
  const tuck::frame_options shape{.chunk_values = chunk_values, .alignment = 16};
  const tuck::outcome done =
      bound == 0
          ? tuck::host::encode(tuck::codebooks<tuck::bf16>{}, all, to, shape)
          : tuck::host::encode(tuck::quantize<tuck::bf16>(tuck::error_bound::range_relative(bound)), all, to, shape);
  return done ? done.bytes : 0;
}

}  // extern "C"
