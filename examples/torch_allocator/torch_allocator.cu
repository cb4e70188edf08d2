// libtuck_torch.so: C functions for one swap_stream per device. tuck_torch.h documents them.
#include "tuck_torch.h"

#include <tuck/swap.cuh>

#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>

namespace {

thread_local char last_error[256];

// Sets the text of tuck_last_error. Returns `code`.
__attribute__((format(printf, 2, 3))) int fail(tuck_code code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(last_error, sizeof last_error, format, arguments);
  va_end(arguments);
  return code;
}

tuck_code code_of(const tuck::result& r) {
  switch (r.code) {
    case tuck::status::ok: return TUCK_OK;
    case tuck::status::out_of_memory: return TUCK_OUT_OF_MEMORY;
    case tuck::status::cuda_error: return r.cuda == cudaErrorMemoryAllocation ? TUCK_OUT_OF_MEMORY : TUCK_CUDA_ERROR;
    case tuck::status::invalid_argument:
    case tuck::status::bad_bound:
    case tuck::status::size_overflow:
    case tuck::status::misaligned:
    case tuck::status::not_swappable: return TUCK_BAD_ARGUMENT;
    default: return TUCK_DAMAGED;
  }
}

// Reports a result. `subject` is the name of the function, or of the function and its argument.
int report(const char* subject, const tuck::result& r) {
  const char* const form = r.code == tuck::status::cuda_error ? "%s: CUDA: %s" : "%s: %s";
  return r ? int{TUCK_OK} : fail(code_of(r), form, subject, message(r));
}

// Runs the body of a function and converts exceptions to codes.
template <class Body> int guarded(const char* function, const Body& body) noexcept {
  try {
    return body();
  } catch (const tuck::error& e) {
    return report(function, e.why());
  } catch (...) {  // the standard library has no more memory
    return report(function, {tuck::status::out_of_memory});
  }
}

class device_scope {
 public:
  explicit device_scope(int device) {
    check(cudaGetDevice(&before_));
    check(cudaSetDevice(device));
  }
  device_scope(const device_scope&) = delete;
  device_scope& operator=(const device_scope&) = delete;
  ~device_scope() { static_cast<void>(cudaSetDevice(before_)); }

 private:
  static void check(cudaError_t e) {
    if (e != cudaSuccess) throw tuck::error(e);
  }
  int before_ = 0;
};

struct device_state {
  device_state(uint64_t pinned_bytes, int device)
      : swap({.pinned_bytes = pinned_bytes, .device = device, .full = tuck::on_full::keep_on_device, .cpu_threads = 0},
             memory) {}

  tuck::async_resource memory;
  tuck::swap_stream swap;
};

struct offloaded_tensor {
  device_state& owner;
  int device;
  size_t bytes;
  tuck::swap_handle handle = {};
};

struct library {
  std::mutex mutex;
  std::map<int, std::unique_ptr<device_state>> devices;
  std::unordered_map<uint64_t, std::shared_ptr<const offloaded_tensor>> offloaded;
  uint64_t last_id = 0;
};
// Never destroyed: CUDA may already be gone when the process ends.
library& all() {
  static library& l = *new library;
  return l;
}

int check_device(const char* function, int device) {
  int count = 0;
  if (const auto e = cudaGetDeviceCount(&count); e != cudaSuccess) return report(function, tuck::from_cuda(e));
  if (device >= 0 && device < count) return TUCK_OK;
  return fail(TUCK_BAD_DEVICE, "%s: device: %d; there are %d, from 0", function, device, count);
}

int check_stream(const char* function, cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (const auto e = cudaStreamIsCapturing(stream, &capture); e != cudaSuccess)
    return fail(TUCK_CUDA_ERROR, "%s: stream: %s", function, cudaGetErrorString(e));
  if (capture == cudaStreamCaptureStatusNone) return TUCK_OK;
  return fail(TUCK_BAD_ARGUMENT, "%s: stream: it is being captured in a graph", function);
}

int check_memory(const char* function, const char* argument, const void* p, size_t bytes, int device) {
  if (bytes == 0) return TUCK_OK;
  if (p == nullptr) return fail(TUCK_BAD_ARGUMENT, "%s: %s: is null", function, argument);
  cudaPointerAttributes memory;
  if (const auto e = cudaPointerGetAttributes(&memory, p); e != cudaSuccess)
    return report(function, tuck::from_cuda(e));
  if (memory.type == cudaMemoryTypeHost || memory.type == cudaMemoryTypeUnregistered)
    return fail(TUCK_BAD_ARGUMENT, "%s: %s: is not device memory", function, argument);
  if (memory.device == device) return TUCK_OK;
  return fail(TUCK_BAD_DEVICE, "%s: %s: is memory of device %d, not of %d", function, argument, memory.device, device);
}

int pinned_bytes_wanted(const char* function, uint64_t& bytes) {
  const char* const text = std::getenv("TUCK_PINNED_BYTES");
  bytes = uint64_t{1} << 30;
  if (text == nullptr) return TUCK_OK;
  const char* const end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, bytes);
  if (read.ec == std::errc{} && read.ptr == end && bytes != 0) return TUCK_OK;
  return fail(TUCK_BAD_ENVIRONMENT, "%s: TUCK_PINNED_BYTES: '%s' is not a positive number of bytes", function, text);
}

// Finds the swap_stream of a device. Makes it on first use.
int open_device(const char* function, int device, device_state*& opened) {
  const std::lock_guard guard(all().mutex);
  if (const auto found = all().devices.find(device); found != all().devices.end()) {
    opened = found->second.get();
    return TUCK_OK;
  }
  uint64_t bytes = 0;
  if (const int bad = pinned_bytes_wanted(function, bytes)) return bad;
  std::unique_ptr<device_state> made;
  try {
    made = std::make_unique<device_state>(bytes, device);
  } catch (const tuck::error& e) {
    if (code_of(e.why()) != TUCK_OUT_OF_MEMORY) throw;
    return fail(TUCK_OUT_OF_MEMORY, "%s: %llu bytes of pinned memory, as TUCK_PINNED_BYTES has it, cannot be had",
                function, static_cast<unsigned long long>(bytes));
  }
  opened = made.get();
  all().devices.emplace(device, std::move(made));
  return TUCK_OK;
}
device_state* find_device(int device) {
  const std::lock_guard guard(all().mutex);
  const auto found = all().devices.find(device);
  return found == all().devices.end() ? nullptr : found->second.get();
}

int no_such(const char* function, uint64_t id) {
  return fail(TUCK_NO_SUCH_ID, "%s: id: no tensor %llu", function, static_cast<unsigned long long>(id));
}
// Finds a tensor. The caller may use it even if another thread drops it at the same time.
int find(const char* function, uint64_t id, std::shared_ptr<const offloaded_tensor>& found) {
  const std::lock_guard guard(all().mutex);
  const auto at = all().offloaded.find(id);
  if (at == all().offloaded.end()) return no_such(function, id);
  found = at->second;
  return TUCK_OK;
}

uint32_t size_of_value(int dtype) {
  switch (dtype) {
    case TUCK_BYTES: return 1;
    case TUCK_F16:
    case TUCK_BF16: return 2;
    case TUCK_F32: return 4;
    case TUCK_F64: return 8;
    default: return 0;
  }
}

// How a tensor is stored.
struct manner {
  enum codec : uint8_t { raw, zvc, rle, zvc_rle_huffman, quantize, quantize_delta_huffman } codec;
  tuck::error_bound bound = {};

  bool is_lossy() const noexcept { return codec >= quantize; }
};
constexpr const char* codec_names[] = {  // in the order of manner::codec
    "raw", "zvc", "rle", "zvc+rle+huffman", "quantize", "quantize+delta+zvc+huffman"};

bool find_codec(const char* name, manner& found) {
  for (size_t i = 0; i < std::size(codec_names); ++i)
    if (name != nullptr && std::strcmp(name, codec_names[i]) == 0) {
      found.codec = static_cast<enum manner::codec>(i);
      return true;
    }
  return false;
}

// A request to offload: all but the codec.
struct source {
  tuck::const_bytes values;
  cudaStream_t stream;
  offloaded_tensor& tensor;

  template <tuck::codec C> tuck::result out(const C& codec) const {
    using value = tuck::value_t<C>;
    const tuck::span<const value> all(reinterpret_cast<const value*>(values.data()), values.size() / sizeof(value));
    return tensor.owner.swap.out(codec, all, stream, tensor.handle);
  }
};

// T: an unsigned integer of the size of the values. Lossless codecs look at bits alone, so that f16 and bf16 share
// kernels.
template <class T> tuck::result out_lossless(const source& from, const manner& how) {
  switch (how.codec) {
    case manner::zvc: return from.out(tuck::zvc<T>{});
    case manner::rle: return from.out(tuck::rle<T>{});
    default:
      if constexpr (sizeof(T) <= 4) return from.out(tuck::zvc_rle_huffman<T>{});
      return {tuck::status::codec_mismatch};
  }
}
template <class T> tuck::result out_lossy(const source& from, const manner& how) {
  return how.codec == manner::quantize ? from.out(tuck::quantize<T>(how.bound))
                                       : from.out(tuck::quantize_delta_huffman<T>(how.bound));
}
tuck::result out(const source& from, int dtype, const manner& how) {
  if (how.codec == manner::raw) return from.tensor.owner.swap.out(from.values, from.stream, from.tensor.handle);
  switch (dtype) {
    case TUCK_F16: return how.is_lossy() ? out_lossy<tuck::f16>(from, how) : out_lossless<uint16_t>(from, how);
    case TUCK_BF16: return how.is_lossy() ? out_lossy<tuck::bf16>(from, how) : out_lossless<uint16_t>(from, how);
    case TUCK_F32: return how.is_lossy() ? out_lossy<float>(from, how) : out_lossless<uint32_t>(from, how);
    case TUCK_F64:
      return how.is_lossy() ? tuck::result{tuck::status::codec_mismatch} : out_lossless<uint64_t>(from, how);
    default: return {tuck::status::codec_mismatch};
  }
}

int offload(const char* f, const void* values, size_t bytes, int dtype, const manner& how, int device,
            cudaStream_t stream, uint64_t* id) {
  if (id == nullptr) return fail(TUCK_BAD_ARGUMENT, "%s: id: is null", f);
  const uint32_t size = size_of_value(dtype);
  if (size == 0) return fail(TUCK_BAD_ARGUMENT, "%s: dtype: there is none of number %d", f, dtype);
  if (bytes % size != 0) return fail(TUCK_WRONG_SIZE, "%s: bytes: %zu are no whole values of %u", f, bytes, size);
  if (const int bad = check_stream(f, stream)) return bad;
  if (const int bad = check_device(f, device)) return bad;
  if (const int bad = check_memory(f, "values", values, bytes, device)) return bad;
  device_state* owner = nullptr;
  if (const int bad = open_device(f, device, owner)) return bad;

  const auto t = std::make_shared<offloaded_tensor>(offloaded_tensor{*owner, device, bytes});
  const source from{{static_cast<const std::byte*>(values), bytes}, stream, *t};
  if (const tuck::result r = out(from, dtype, how); !r) {
    if (r.code == tuck::status::codec_mismatch)
      return fail(TUCK_BAD_ARGUMENT, "%s: codec: it is not for values of dtype %d", f, dtype);
    return report((std::string(f) + (r.code == tuck::status::bad_bound ? ": bound" : ": values")).c_str(), r);
  }
  const bool kept = t->handle.kept_on_device();
  if (!kept)
    if (const tuck::result r = t->handle.wait_source(stream); !r) {
      static_cast<void>(owner->swap.drain());  // the caller may free the values
      return report(f, r);
    }
  const std::lock_guard guard(all().mutex);
  all().offloaded.emplace(all().last_id + 1, t);
  *id = ++all().last_id;
  return kept ? fail(TUCK_KEPT, "%s: the pinned memory is full; the tensor was kept where it is", f) : int{TUCK_OK};
}

}  // namespace

extern "C" {

void* tuck_alloc(size_t size, int device, cudaStream_t stream) {
  void* p = nullptr;
  static_cast<void>(guarded(__func__, [&, f = __func__] {
    if (size == 0) return int{TUCK_OK};
    if (const int bad = check_device(f, device)) return bad;
    const device_scope scope(device);
    p = tuck::async_resource{}.allocate(stream, size);
    return int{TUCK_OK};
  }));
  return p;
}

void tuck_free(void* p, size_t /*size*/, int device, cudaStream_t stream) {
  static_cast<void>(guarded(__func__, [&, f = __func__] {
    if (p == nullptr) return int{TUCK_OK};
    if (const int bad = check_device(f, device)) return bad;
    if (const int bad = check_memory(f, "p", p, 1, device)) return bad;
    const device_scope scope(device);
    const cudaError_t e = cudaFreeAsync(p, stream);  // async_resource ignores errors
    return e == cudaSuccess ? int{TUCK_OK} : report(f, tuck::from_cuda(e));
  }));
}

int tuck_offload(const void* values, size_t bytes, int dtype, int device, cudaStream_t stream, uint64_t* id) {
  return guarded(__func__, [&, f = __func__] {
    const bool floats = dtype == TUCK_F16 || dtype == TUCK_BF16 || dtype == TUCK_F32 || dtype == TUCK_F64;
    return offload(f, values, bytes, dtype, {floats ? manner::zvc : manner::raw}, device, stream, id);
  });
}

int tuck_offload_as(const void* values, size_t bytes, int dtype, const char* codec, int mode, double bound, int device,
                    cudaStream_t stream, uint64_t* id) {
  return guarded(__func__, [&, f = __func__] {
    manner how{manner::raw, {static_cast<tuck::bound_mode>(mode), bound}};
    if (!find_codec(codec, how))
      return fail(TUCK_BAD_ARGUMENT, "%s: codec: there is no '%.50s'", f, codec == nullptr ? "" : codec);
    if (how.is_lossy() && (mode < 0 || mode > 2))
      return fail(TUCK_BAD_ARGUMENT, "%s: mode: there is none of number %d", f, mode);
    return offload(f, values, bytes, dtype, how, device, stream, id);
  });
}

int tuck_stored_bytes(uint64_t id, uint64_t* bytes) {
  return guarded(__func__, [&, f = __func__] {
    if (bytes == nullptr) return fail(TUCK_BAD_ARGUMENT, "%s: bytes: is null", f);
    std::shared_ptr<const offloaded_tensor> t;
    if (const int bad = find(f, id, t)) return bad;
    *bytes = t->handle.host_bytes();
    return int{TUCK_OK};
  });
}

int tuck_restore(uint64_t id, void* destination, size_t bytes, cudaStream_t stream) {
  return guarded(__func__, [&, f = __func__] {
    std::shared_ptr<const offloaded_tensor> t;
    if (const int bad = find(f, id, t)) return bad;
    if (bytes != t->bytes) return fail(TUCK_WRONG_SIZE, "%s: bytes: %zu, where it is %zu", f, bytes, t->bytes);
    if (const int bad = check_stream(f, stream)) return bad;
    if (const int bad = check_memory(f, "destination", destination, bytes, t->device)) return bad;
    const tuck::bytes to(static_cast<std::byte*>(destination), bytes);
    return report("tuck_restore: destination", t->owner.swap.in(t->handle, to, stream));
  });
}

int tuck_prefetch(uint64_t id) {
  return guarded(__func__, [&, f = __func__] {
    std::shared_ptr<const offloaded_tensor> t;
    if (const int bad = find(f, id, t)) return bad;
    return report("tuck_prefetch: id", t->owner.swap.prefetch(t->handle));
  });
}

int tuck_drop(uint64_t id) {
  return guarded(__func__, [&, f = __func__] {
    decltype(library::offloaded)::node_type dropped;  // destroyed without the lock
    const std::lock_guard guard(all().mutex);
    dropped = all().offloaded.extract(id);
    return dropped.empty() ? no_such(f, id) : int{TUCK_OK};
  });
}

int tuck_wait(int device) {
  return guarded(__func__, [&, f = __func__] {
    if (const int bad = check_device(f, device)) return bad;
    device_state* const state = find_device(device);
    return state == nullptr ? int{TUCK_OK} : report(f, state->swap.drain());
  });
}

uint64_t tuck_host_bytes(int device) {
  uint64_t held = 0;
  static_cast<void>(guarded(__func__, [&, f = __func__] {
    if (const int bad = check_device(f, device)) return bad;
    if (device_state* const state = find_device(device)) held = state->swap.statistics().held;
    return int{TUCK_OK};
  }));
  return held;
}

const char* tuck_last_error(void) { return last_error; }

}  // extern "C"
