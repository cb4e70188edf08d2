// What is known of one tensor that is swapped out, and how to call its codec when its type is no longer known.
#pragma once

#include <tuck/frame/host.hpp>
#include <tuck/memory/frame_buffer.cuh>
#include <tuck/swap/handle_pool.cuh>
#include <tuck/swap/pinned_pool.cuh>
#include <tuck/swap/swap_options.cuh>

namespace tuck::inline TUCK_ABI::detail {

// A codec's calls, on bytes.
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
      return detail::encode(*static_cast<const C*>(codec), span_of<value_t<C>>(values), buffer, place, scratch, written,
                            stream, options, how);
    },
    [](const_bytes frame, bytes out, scratch_span scratch, outcome* restored, cudaStream_t stream,
       const launch_options& how) noexcept {
      return tuck::decode(C{}, frame, span_of<value_t<C>>(out), scratch, restored, stream, 0, how);
    }};

}  // namespace TUCK_ARCH

// What is to be swapped out.
struct swap_request {
  const_bytes source;
  swap_path path = swap_path::raw;
  const void* codec = nullptr;  // as long as the call takes; null: none
  const codec_calls* calls = nullptr;
  uint64_t most = 0;     // bytes of the frame
  uint64_t scratch = 0;  // bytes that encoding needs
  frame_options options = {};
  std::function<outcome(const_bytes, bytes)> on_host = {};  // encodes, for swap_path::cpu
};

// A part of the pool, which gets it back when nobody uses it any more. Copied and dropped under the swap_stream's lock.
struct pool_extent {
  pinned_pool* pool = nullptr;
  extent range;  // none yet, of a frame under way

  explicit pool_extent(pinned_pool& p) : pool(&p) {}
  pool_extent(const pool_extent&) = delete;
  pool_extent& operator=(const pool_extent&) = delete;
  ~pool_extent() {
    if (range.size != 0) pool->give_back(range);
  }
};

// What has been brought back to the device and awaits its consumer: a frame, or values, and scratch to decode it.
struct fetched_bytes {
  device_buffer<resource_ref> memory;
  pooled_event arrived;
  uint64_t size = 0;  // at most, of a frame
  bool is_frame = false;

  bytes contents() const noexcept { return memory.all().subspan(0, size); }
  scratch_span scratch() const noexcept {
    return scratch_span(memory.all().subspan(memory.all().size() - scratch_head_bytes));
  }
  explicit operator bool() const noexcept { return arrived != nullptr; }
};

struct offloaded_tensor {
  enum class state : uint8_t {
    under_way,  // to the pool
    offloaded,  // in the pool
    kept,       // where it was, for the pool was full
    lost,       // there is no frame, which only a broken device can bring about
  };

  state at = state::under_way;
  bool wanted = true;         // has a handle
  bool is_rewritten = false;  // its frame is just being put where its values are
  bool is_frame = false;      // what is in the pool; else the values as they are
  const_bytes source;         // which is the caller's, once it has been read
  const codec_calls* codec = nullptr;
  outcome written{.code = status::not_ready};

  std::shared_ptr<pool_extent> storage;
  pinned_pool::reservation reservation;
  report_pool::handle report;  // until it is settled
  pooled_event source_read;    // null: it has been
  pooled_event arrived;        // in the pool; of a kept one: the source has its values

  fetched_bytes fetched;
};

}  // namespace tuck::inline TUCK_ABI::detail
