// Tensors in device memory for Python: tuck/device.py calls these functions by ctypes. They do not wait for the device,
// except tuck_device_wait. Results are a tuck::status, and CUDA's error in the upper half.
#include "device_codecs.cuh"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

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

// A tensor and its frame, as device.py's _ITEM.
struct item {
  std::byte* values;
  uint64_t value_bytes;
  std::byte* frame;
  uint64_t frame_bytes;
  const std::byte* base;  // of a delta: as many bytes as `values`
  // The rest of the codec and of the frame's options. mode: -1 if the codec has no bound.
  double bound;
  int32_t mode;
  uint32_t row, metadata_bytes;
  char codec[44], type[8];
};

static_assert(sizeof(item) == 112);

struct chosen_item {
  std::unique_ptr<tools::chosen_device_codec> codec;
  const item* from;

  bytes values() const { return {from->values, from->value_bytes}; }
  const_bytes base() const { return {from->base, from->value_bytes}; }
  bytes frame() const { return {from->frame, from->frame_bytes}; }
};

// The text of a field of a fixed size.
template <size_t N> std::string_view text_of(const char (&field)[N]) { return {field, strnlen(field, N)}; }

dtype type_of(const item& i) {
  for (uint8_t t = 1; size_of(dtype{t}) != 0; ++t)
    if (text_of(i.type) == tuck::name(dtype{t})) return dtype{t};
  return dtype::none;
}

status choose(const item& i, chosen_item& chosen) {
  const std::string name(text_of(i.codec));
  if (tools::types_of(name).empty()) return status::unknown_codec;
  tools::codec_choice choice{name, {}, i.row};
  if (i.mode >= 0) choice.bound = {static_cast<bound_mode>(i.mode), i.bound, nullptr};
  chosen = {tools::choose_device_codec(choice, type_of(i)), &i};
  return chosen.codec == nullptr ? status::unsupported_type : status::ok;
}

// Copies bytes of the host to the device without waiting. A graph keeps them, as they are the argument of a kernel.
struct upload_job {
  std::byte* to;
  uint32_t count;
  std::byte bytes[4000];
};
TUCK_KERNEL void __launch_bounds__(block_threads) upload_kernel(const __grid_constant__ upload_job job) {
  for (uint32_t i = threadIdx.x; i < job.count; i += block_threads) job.to[i] = job.bytes[i];
}
result upload(const_bytes from, std::byte* to, cudaStream_t stream) {
  for (uint64_t done = 0; done < from.size(); done += sizeof upload_job::bytes) {
    upload_job job{
        to + done, static_cast<uint32_t>(std::min(from.size() - done, uint64_t{sizeof upload_job::bytes})), {}};
    std::memcpy(job.bytes, from.data() + done, job.count);
    if (const result launched = detail::launch(upload_kernel, job, 1, {}, stream); !launched) return launched;
  }
  return {};
}

// Calls `body` for each item, one after the other on the stream, with scratch that is freed in the stream's order, and
// with the metadata of all items on the device. Stops at the first error and sets `which` to its item. No exception
// leaves the library.
template <class Scratch, class Body>
uint64_t for_each(const item* items, uint64_t count, const_bytes metadata, uint64_t& which, int device,
                  cudaStream_t stream, const Scratch& scratch_bytes_of, const Body& body) {
  try {
    const on_device current(device);
    if (current.error() != cudaSuccess) return number_of(current.error());
    std::vector<chosen_item> chosen(count);
    uint64_t size = scratch_head_bytes;
    for (which = 0; which < count; ++which) {
      if (const status s = choose(items[which], chosen[which]); s != status::ok) return number_of(result{s});
      size = std::max(size, scratch_bytes_of(chosen[which]));
    }
    void* memory = nullptr;
    if (const cudaError_t e = cudaMallocAsync(&memory, size + metadata.size(), stream); e != cudaSuccess)
      return number_of(e);
    std::byte* texts = static_cast<std::byte*>(memory) + size;
    const scratch_span scratch(bytes(static_cast<std::byte*>(memory), size));
    result done = initialize(scratch, stream);
    if (done) done = upload(metadata, texts, stream);
    for (which = 0; done && which < count; ++which) {
      done = body(chosen[which], which, scratch, const_bytes(texts, items[which].metadata_bytes));
      texts += items[which].metadata_bytes;
      if (!done) break;
    }
    const cudaError_t freed = cudaFreeAsync(memory, stream);
    return done ? number_of(freed) : number_of(done);
  } catch (const std::bad_alloc&) {
    return number_of(result{status::out_of_memory});
  }
}

// Two verified deltas with the same output: if they are not the same, neither is written. An item is not written either
// if its writer is not.
struct same_delta_job {
  const std::byte *of_writer, *of_item;
  outcome *writer, *item;
};
TUCK_KERNEL void __launch_bounds__(32) same_delta_kernel(const __grid_constant__ same_delta_job job) {
  if (threadIdx.x != 0) return;
  const auto load = [](const std::byte* frame) {
    frame_header h;
    for (uint32_t i = 0; i < sizeof h / 8; ++i)
      reinterpret_cast<uint64_t*>(&h)[i] = device::load(reinterpret_cast<const uint64_t*>(frame) + i);
    return h;
  };
  const status of_writer = device::load(&job.writer->code);
  if (of_writer != status::ok) return device::store(job.item, outcome{0, of_writer, no_chunk});
  if (device::load(&job.item->code) != status::ok || job.of_writer == job.of_item) return;
  const frame_header a = load(job.of_writer), b = load(job.of_item);
  const auto result_of = [](const frame_header& h, const std::byte* frame) {
    return device::load(reinterpret_cast<const uint64_t*>(frame + layout_of(h).result));
  };
  if (a.type == b.type && a.value_count == b.value_count && a.chunk_values == b.chunk_values &&
      a.base_digest == b.base_digest && result_of(a, job.of_writer) == result_of(b, job.of_item))
    return;
  device::store(job.writer, outcome{0, status::overlapping, no_chunk});
  device::store(job.item, outcome{0, status::overlapping, no_chunk});
}
// Compares the items that name the same output. The second round passes on what the first found for a writer.
uint64_t compare_writers(const item* items, uint64_t count, const uint64_t* writers, outcome* restored, uint64_t& which,
                         int device, cudaStream_t stream) {
  const on_device current(device);
  if (current.error() != cudaSuccess) return number_of(current.error());
  for (int round = 0; round < 2; ++round)
    for (which = 0; which < count; ++which) {
      const uint64_t writer = writers[which];
      if (writer == which) continue;
      const same_delta_job job{items[writer].frame, items[which].frame, restored + writer, restored + which};
      if (const result r = detail::launch(same_delta_kernel, job, 1, {}, stream); !r) return number_of(r);
    }
  return 0;
}

}  // namespace

#define TUCK_EXPORT extern "C" __attribute__((visibility("default")))

// Encodes tensors, relative to their bases if `is_delta`. metadata: of all items, one after the other, on the host.
// written: as many tuck::outcome in device memory. which: receives the index of the item of an error.
TUCK_EXPORT uint64_t tuck_device_encode(const item* items, uint64_t count, int is_delta, int checksums,
                                        const std::byte* metadata, uint64_t metadata_bytes, outcome* written,
                                        uint64_t* which, int device, cudaStream_t stream) {
  frame_options options;
  options.checksums = checksums != 0;
  if (is_delta != 0) options.alignment = tools::delta_alignment;
  return for_each(
      items, count, {metadata, metadata_bytes}, *which, device, stream,
      [&](const chosen_item& i) {
        return i.codec->scratch_bytes(i.from->value_bytes / size_of(type_of(*i.from)), options);
      },
      [&](const chosen_item& i, uint64_t at, scratch_span scratch, const_bytes text) {
        options.metadata_on_device = text;
        return is_delta != 0
                   ? i.codec->encode_delta(i.values(), i.base(), i.frame(), scratch, written + at, stream, options)
                   : i.codec->encode(i.values(), i.frame(), scratch, written + at, stream, options);
      });
}

// Decodes frames of these codecs and types, or deltas. Behind a frame there may be other bytes. Codecs take bound and
// row length of the frame. Deltas: all are verified before one is written.
// writers: of deltas, for each item the index of that which writes its values, as delta_writers has it
// passes: a delta_passes
TUCK_EXPORT uint64_t tuck_device_decode(const item* items, uint64_t count, int is_delta, const uint64_t* writers,
                                        int passes, outcome* restored, uint64_t* which, int device,
                                        cudaStream_t stream) {
  const auto run = [&](delta_passes pass) {
    return for_each(
        items, count, {}, *which, device, stream, [](const chosen_item&) { return scratch_head_bytes; },
        [&](const chosen_item& i, uint64_t at, scratch_span scratch, const_bytes) -> result {
          if (is_delta == 0) return i.codec->decode(i.frame(), i.values(), scratch, restored + at, stream);
          if (pass != delta_passes::verify && writers[at] != at) return {};
          return i.codec->decode_delta(i.frame(), i.base(), i.values(), scratch, restored + at, stream,
                                       {.passes = pass});
        });
  };
  const auto wanted = static_cast<delta_passes>(passes);
  if (is_delta == 0 || count == 1) return run(wanted);
  if (wanted != delta_passes::write) {
    if (const uint64_t error = run(delta_passes::verify); error != 0) return error;
    if (const uint64_t error = compare_writers(items, count, writers, restored, *which, device, stream); error != 0)
      return error;
  }
  return wanted == delta_passes::verify ? 0 : run(delta_passes::write);
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

#if defined(TUCK_DEVICE_TESTS)
// For tests: streams that can be held, and graphs.
TUCK_EXPORT cudaStream_t tuck_device_stream() {
  cudaStream_t stream = nullptr;
  static_cast<void>(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}
TUCK_EXPORT uint64_t tuck_device_capture(cudaStream_t stream) {
  return number_of(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
}
TUCK_EXPORT uint64_t tuck_device_captured(cudaStream_t stream, cudaGraphExec_t* runnable) {
  cudaGraph_t graph = nullptr;
  const cudaError_t e = cudaStreamEndCapture(stream, &graph);
  return number_of(e == cudaSuccess ? cudaGraphInstantiate(runnable, graph, 0) : e);
}
TUCK_EXPORT uint64_t tuck_device_replay(cudaGraphExec_t runnable, cudaStream_t stream) {
  return number_of(cudaGraphLaunch(runnable, stream));
}
#if defined(TUCK_CUDASIM)
// Calls that may wait for the device.
TUCK_EXPORT uint64_t tuck_device_waits() {
  const cudasim::counters c = cudasim::snapshot();
  return c.synchronisations + c.memcpys;
}
#else
// The stream does nothing more until *released is 1, or for two seconds: then *released becomes 2.
TUCK_EXPORT uint64_t tuck_device_hold(cudaStream_t stream, uint32_t* released) {
  return number_of(cudaLaunchHostFunc(
      stream,
      [](void* memory) {
        std::atomic_ref<uint32_t> word(*static_cast<uint32_t*>(memory));
        for (int i = 0; i < 2000 && word.load() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        uint32_t held = 0;
        word.compare_exchange_strong(held, 2);
      },
      released));
}
#endif
#endif
