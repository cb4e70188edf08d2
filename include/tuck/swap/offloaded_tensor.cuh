// SPDX-License-Identifier: Apache-2.0
// The state of one offloaded tensor.
#pragma once

#include <tuck/frame/host.hpp>
#include <tuck/memory/frame_buffer.cuh>
#include <tuck/swap/handle_pool.cuh>
#include <tuck/swap/pinned_pool.cuh>
#include <tuck/swap/swap_backend.hpp>

namespace tuck::inline TUCK_ABI {

namespace detail {

// Owns an extent of the pool and returns it on destruction. Shared by the tensor and the operations that read it.
// Shared pointers to it are copied and destroyed under the lock of the swap_stream.
struct pool_extent {
  pinned_pool* pool = nullptr;
  extent range;  // empty while the size of the frame is unknown

  explicit pool_extent(pinned_pool& p) : pool(&p) {}
  pool_extent(const pool_extent&) = delete;
  pool_extent& operator=(const pool_extent&) = delete;
  ~pool_extent() {
    if (range.size != 0) pool->deallocate(range);
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
  // Each is null once the host has seen it.
  signal_pool::handle source_read;  // the source has been read
  signal_pool::handle arrived;      // the tensor is in the pool, with its report; if kept: its source has been written

  fetched_bytes fetched;
};

}  // namespace detail
}  // namespace tuck::inline TUCK_ABI
