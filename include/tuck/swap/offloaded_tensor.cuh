// Options of a swap_stream, and the state of one offloaded tensor.
#pragma once

#include <tuck/frame/host.hpp>
#include <tuck/memory/frame_buffer.cuh>
#include <tuck/swap/handle_pool.cuh>
#include <tuck/swap/pinned_pool.cuh>

namespace tuck::inline TUCK_ABI {

/// How a tensor is copied to the host. Restoring is the same call for all of them.
enum class swap_path : uint8_t {
  direct,  ///< the encode kernel, with few blocks, writes the frame into pinned memory, as the engine of cDMA would
  staged,  ///< encoded in device memory, then copied by at most 4 blocks. The source can be reused earlier than with
           ///< `direct`
  raw,     ///< copied unchanged by the copy engine, as in vDNN
  cpu,     ///< copied unchanged, then encoded by CPU threads to occupy less pinned memory, as in vDNN++. A tensor that
           ///< is restored before it is encoded has its original values, even if the codec is lossy
};

/// What `out` does if the pool has no capacity for the largest possible frame of the tensor (raw, cpu: its values). If
/// the whole pool is smaller than that, `fail` and `block` return pool_too_small. With a pool of 0 bytes all do.
enum class on_full : uint8_t {
  keep_on_device,  ///< keeps the tensor in the caller's memory, also if the pool is too small for it: see
                   ///< swap_handle::kept_on_device
  fail,            ///< returns pool_full
  block,           ///< waits for capacity. Returns pool_full if no operation in progress can free enough. Does not wait
                   ///< for the program to destroy handles
};

/// Options of a swap_stream.
struct swap_options {
  uint64_t pinned_bytes = 0;                ///< size of the pool, allocated by the constructor; required
  int device = -1;                          ///< -1: the current device
  launch_options limits{.max_blocks = 32};  ///< for offload kernels: 32 reach 92 % of PCIe 5 on an H100, 16 reach 77 %
  swap_path path = swap_path::direct;       ///< default path
  on_full full = on_full::fail;             ///< what to do if the pool is full
  unsigned cpu_threads = 1;                 ///< threads for swap_path::cpu; 0: such tensors stay raw
  bool checksums = false;                   ///< store a digest of each chunk's values, to detect damage in host memory
};

namespace detail {

// The element type of an offloaded tensor.
struct element_type {
  dtype type = dtype::none;  // none: not known
  uint32_t bytes = 0;        // of a value; 0: of any

  template <element T> static constexpr element_type of() noexcept { return {dtype_of<T>, sizeof(T)}; }
  // Returns whether values of this type can be restored as values of type T.
  template <element T> constexpr bool fits() const noexcept {
    return type != dtype::none ? holds<T>(type) : bytes == 0 || bytes == sizeof(T);
  }
};

// A request to offload a tensor.
struct swap_request {
  const_bytes source;
  element_type type = {};
  swap_path path = swap_path::raw;
  uint64_t most = 0;       // worst-case bytes of the frame
  uint64_t scratch = 0;    // bytes of scratch for encoding
  uint32_t alignment = 1;  // of destinations, in bytes
  // Encodes into a buffer, on the device. It is called during the call only.
  std::function<result(bytes, frame_place, scratch_span, outcome*, cudaStream_t)> encode = {};
  result (*decode)(const_bytes, bytes, scratch_span, outcome*, cudaStream_t) noexcept = nullptr;  // on the device
  std::function<outcome(const_bytes, bytes)> on_host = {};  // encodes on the CPU, for swap_path::cpu
};

// Owns an extent of the pool and returns it on destruction. Shared by the tensor and the operations that read it.
// Shared pointers to it are copied and destroyed under the lock of the swap_stream.
struct pool_extent {
  pinned_pool* pool = nullptr;
  extent range;  // empty while the size of the frame is unknown

  explicit pool_extent(pinned_pool& p) : pool(&p) {}
  pool_extent(const pool_extent&) = delete;
  pool_extent& operator=(const pool_extent&) = delete;
  ~pool_extent() {
    if (range.size != 0) pool->give_back(range);
  }
};

// A device copy of a frame or of raw values, with scratch to decode it, ready for a consumer.
struct fetched_bytes {
  device_buffer<resource_ref> memory;
  signal_pool::handle arrived;
  uint64_t size = 0;  // bytes of the values; for a frame an upper bound
  bool is_frame = false;

  bytes contents() const noexcept { return memory.all().subspan(0, size); }
  scratch_span scratch() const noexcept {
    return scratch_span(memory.all().subspan(memory.all().size() - scratch_head_bytes));
  }
  explicit operator bool() const noexcept { return arrived != nullptr; }
};

// A tensor from `out` to the destruction of its handle. Guarded by the lock of the swap_stream.
struct offloaded_tensor {
  enum class state : uint8_t {
    under_way,  // on its way to the pool
    offloaded,  // in the pool
    kept,       // still in the caller's memory, because the pool was full
    lost,       // no frame was written; only a failed device can cause this
  };

  state at = state::under_way;
  bool wanted = true;         // whether it has a handle
  bool is_rewritten = false;  // a CPU thread is copying its frame over its values
  bool is_frame = false;      // the pool holds a frame, not raw values
  const_bytes source;         // valid until it has been read
  element_type type;
  uint32_t alignment = 1;  // of destinations, in bytes
  result (*decode)(const_bytes, bytes, scratch_span, outcome*, cudaStream_t) noexcept = nullptr;
  outcome written{.code = status::not_ready};

  std::shared_ptr<pool_extent> storage;
  pinned_pool::reservation reservation;
  signal_pool::handle source_read;  // after the source has been read; null: the host knows that it has been
  signal_pool::handle arrived;      // after the tensor is in the pool, with the report of its frame; null: settled. If
                                    // kept: after the producer has written the source

  fetched_bytes fetched;
};

}  // namespace detail
}  // namespace tuck::inline TUCK_ABI
