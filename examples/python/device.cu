// Tensors in device memory for Python: tuck/device.py calls these functions by ctypes. They do not wait for the device,
// except tuck_device_wait. Results are a tuck::status, and CUDA's error in the upper half.
#include "device_codecs.cuh"

#include <algorithm>
#include <cstdint>
#include <new>
#include <string_view>

#if defined(TUCK_CUDASIM)
#include <cudasim.hpp>
#endif

namespace {

using namespace tuck;

uint64_t number_of(const result& r) {
  return static_cast<uint64_t>(r.code) | uint64_t{static_cast<uint32_t>(r.cuda)} << 32;
}
uint64_t number_of(cudaError_t e) { return number_of(from_cuda(e)); }

// Makes a device current while it lives.
class on_device {
 public:
  explicit on_device(int device) {
    error_ = cudaGetDevice(&before_);
    if (error_ == cudaSuccess && before_ != device) error_ = cudaSetDevice(device);
  }
  on_device(const on_device&) = delete;
  ~on_device() { static_cast<void>(cudaSetDevice(before_)); }
  cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  cudaError_t error_;
};

// Calls `body` with scratch of a stream's own, which is freed in the stream's order.
template <class Body> result with_scratch(uint64_t bytes, cudaStream_t stream, const Body& body) {
  void* memory = nullptr;
  if (const cudaError_t e = cudaMallocAsync(&memory, bytes, stream); e != cudaSuccess) return from_cuda(e);
  const scratch_span scratch(tuck::bytes(static_cast<std::byte*>(memory), bytes));
  result done = initialize(scratch, stream);
  if (done) done = body(scratch);
  const cudaError_t freed = cudaFreeAsync(memory, stream);
  return done ? from_cuda(freed) : done;
}

dtype type_named(std::string_view name) {
  for (uint8_t t = 1; size_of(dtype{t}) != 0; ++t)
    if (name == tuck::name(dtype{t})) return dtype{t};
  return dtype::none;
}

// Calls `body` with the codec, on the device. No exception leaves the library.
template <class Body>
uint64_t with_codec(const char* name, int mode, double bound, uint32_t row, const char* type, int device,
                    const Body& body) {
  try {
    const on_device current(device);
    if (current.error() != cudaSuccess) return number_of(current.error());
    tools::codec_choice choice{name, {}, row};
    if (mode >= 0) choice.bound = {static_cast<bound_mode>(mode), bound, nullptr};
    const auto codec = tools::choose_device_codec(choice, type_named(type));
    return number_of(codec == nullptr ? result{status::unsupported_type} : body(*codec));
  } catch (const std::bad_alloc&) {
    return number_of(result{status::out_of_memory});
  }
}

}  // namespace

#define TUCK_EXPORT extern "C" __attribute__((visibility("default")))

// Encodes `bytes` bytes of values. `mode`: -1 if the codec has no bound. `row`: values per row, for chains with rows.
// `written`: a tuck::outcome in device memory.
TUCK_EXPORT uint64_t tuck_device_encode(const char* codec, int mode, double bound, uint32_t row, const char* type,
                                        const void* values, uint64_t bytes, void* frame, uint64_t frame_bytes,
                                        int checksums, void* written, int device, cudaStream_t stream) {
  return with_codec(codec, mode, bound, row, type, device, [&](const tools::chosen_device_codec& chosen) {
    frame_options options;
    options.checksums = checksums != 0;
    const uint64_t needed = chosen.scratch_bytes(bytes / size_of(type_named(type)), options);
    return with_scratch(std::max<uint64_t>(needed, scratch_head_bytes), stream, [&](scratch_span scratch) {
      return chosen.encode({static_cast<const std::byte*>(values), bytes},
                           {static_cast<std::byte*>(frame), frame_bytes}, scratch, static_cast<outcome*>(written),
                           stream, options);
    });
  });
}

// Decodes a frame of this codec and type. Behind the frame there may be other bytes.
TUCK_EXPORT uint64_t tuck_device_decode(const char* codec, const char* type, const void* frame, uint64_t frame_bytes,
                                        void* values, uint64_t bytes, void* restored, int device, cudaStream_t stream) {
  const int mode = tools::is_lossy(codec) ? 0 : -1;  // decoding takes bound and row length of the frame
  return with_codec(codec, mode, 1, 1, type, device, [&](const tools::chosen_device_codec& chosen) {
    return with_scratch(scratch_head_bytes, stream, [&](scratch_span scratch) {
      return chosen.decode({static_cast<const std::byte*>(frame), frame_bytes},
                           {static_cast<std::byte*>(values), bytes}, scratch, static_cast<outcome*>(restored), stream);
    });
  });
}

// Lets later work on `stream` wait for the work that `other` has now.
TUCK_EXPORT uint64_t tuck_device_after(cudaStream_t stream, cudaStream_t other, int device) {
  const on_device current(device);
  cudaEvent_t event = nullptr;
  cudaError_t e = current.error();
  if (e == cudaSuccess) e = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (e != cudaSuccess) return number_of(e);
  e = cudaEventRecord(event, other);
  if (e == cudaSuccess) e = cudaStreamWaitEvent(stream, event, 0);
  static_cast<void>(cudaEventDestroy(event));
  return number_of(e);
}

// Copies from the device to the host and waits for it.
TUCK_EXPORT uint64_t tuck_device_wait(const void* from, void* to, uint64_t bytes, int device, cudaStream_t stream) {
  const on_device current(device);
  cudaError_t e = current.error();
  if (e == cudaSuccess && bytes != 0) e = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
  if (e == cudaSuccess) e = cudaStreamSynchronize(stream);
  return number_of(e);
}

TUCK_EXPORT uint64_t tuck_device_allocate(uint64_t bytes, int device, cudaStream_t stream, void** memory) {
  const on_device current(device);
  if (current.error() != cudaSuccess) return number_of(current.error());
  return number_of(cudaMallocAsync(memory, bytes, stream));
}
TUCK_EXPORT void tuck_device_free(void* memory, int device, cudaStream_t stream) {
  const on_device current(device);
  static_cast<void>(cudaFreeAsync(memory, stream));
}

// Returns the device of memory, or -1 if no device reaches it.
TUCK_EXPORT int tuck_device_of(const void* memory) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, memory) == cudaSuccess && attributes.type != cudaMemoryTypeUnregistered)
    return attributes.device;
  static_cast<void>(cudaGetLastError());
  return -1;
}

// The text of a result.
TUCK_EXPORT const char* tuck_device_message(uint64_t number) {
  return message(result{static_cast<status>(static_cast<uint32_t>(number)), static_cast<int>(number >> 32)});
}

#if defined(TUCK_CUDASIM)
// For tests: calls that may wait for the device.
TUCK_EXPORT uint64_t tuck_device_waits() {
  const cudasim::counters c = cudasim::snapshot();
  return c.synchronisations;
}
TUCK_EXPORT cudaStream_t tuck_device_stream() {
  cudaStream_t stream = nullptr;
  static_cast<void>(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}
#endif
