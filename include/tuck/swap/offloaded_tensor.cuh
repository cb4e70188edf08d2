// The state of one offloaded tensor, and a type-erased interface to its codec.
#pragma once

#include <tuck/frame/host.hpp>
#include <tuck/memory/frame_buffer.cuh>
#include <tuck/swap/handle_pool.cuh>
#include <tuck/swap/pinned_pool.cuh>
#include <tuck/swap/swap_options.cuh>

namespace tuck::inline TUCK_ABI::detail {

// Encode and decode of a codec, on bytes instead of typed values.
struct codec_calls {
  uint32_t value_bytes;
  result (*encode)(const void* codec, const_bytes values, bytes buffer, frame_place place, scratch_span scratch,
                   outcome* written, cudaStream_t stream, const frame_options& options,
                   const launch_options& how) noexcept;
  result (*decode)(const_bytes frame, bytes out, scratch_span scratch, outcome* restored, cudaStream_t stream,
                   const launch_options& how) noexcept;
};

template <class T> span<T> span_of(bytes b) noexcept { return {reinterpret_cast<T*>(b.data()), b.size() / sizeof(T)}; }
template <class T> span<const T> span_of(const_bytes b) noexcept {
  return {reinterpret_cast<const T*>(b.data()), b.size() / sizeof(T)};
}

inline namespace TUCK_ARCH {

template <codec C>
inline constexpr codec_calls calls_of = {
    sizeof(value_t<C>),
    [](const void* codec, const_bytes values, bytes buffer, frame_place place, scratch_span scratch, outcome* written,
       cudaStream_t stream, const frame_options& options, const launch_options& how) noexcept {
      return detail::append(*static_cast<const C*>(codec), span_of<value_t<C>>(values), buffer, place, scratch, written,
                            stream, options, how);
    },
    [](const_bytes frame, bytes out, scratch_span scratch, outcome* restored, cudaStream_t stream,
       const launch_options& how) noexcept {
      return tuck::decode(C{}, frame, span_of<value_t<C>>(out), scratch, restored, stream, 0, how);
    }};

}  // namespace TUCK_ARCH

// A request to offload a tensor.
struct swap_request {
  const_bytes source;
  swap_path path = swap_path::raw;
  const void* codec = nullptr;  // valid during the call only; null: raw
  const codec_calls* calls = nullptr;
  uint64_t most = 0;     // worst-case bytes of the frame
  uint64_t scratch = 0;  // bytes of scratch for encoding
  frame_options options = {};
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
  pooled_event arrived;
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
  const codec_calls* codec = nullptr;
  outcome written{.code = status::not_ready};

  std::shared_ptr<pool_extent> storage;
  pinned_pool::reservation reservation;
  report_pool::handle report;  // null once it is settled
  pooled_event source_read;    // after the source has been read; null: the host knows that it has been
  pooled_event arrived;        // after the tensor is in the pool; if kept: after the producer has written the source

  fetched_bytes fetched;
};

}  // namespace tuck::inline TUCK_ABI::detail
