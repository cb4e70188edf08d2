// Encodes batches of pages to frames on a stream, and decodes them. Each frame has a budget. A page is encoded without
// loss if that fits its budget, otherwise within a bound that the caller allows, otherwise it is refused. Pages of
// 8-bit floats have no bounds, as quantize has no such type. Nothing here allocates, waits or throws. The pool
// (kv_pool.cuh) and the C ABI (tuck_pages.h) are built on this.
#pragma once

#include "tuck_pages.h"

#include <tuck/device.cuh>

#include <algorithm>

namespace kv {

using page_result = tuck_page_result;

namespace detail {

template <class Job> TUCK_KERNEL void each_page(const __grid_constant__ Job job) {
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < job.count;
       i += uint64_t{gridDim.x} * blockDim.x)
    job(i);
}

// Calls job(i) for i < job.count, one thread per call.
template <class Job> tuck::result for_each_page(const Job& job, cudaStream_t stream) noexcept {
  if (job.count == 0) return {};
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(128);
  config.gridDim = dim3(static_cast<unsigned>(std::min<uint64_t>((job.count + 127) / 128, 1024)));
  config.stream = stream;
  return tuck::from_cuda(cudaLaunchKernelEx(&config, each_page<Job>, job));
}

__device__ inline const tuck::stage& first_stage(const std::byte* frame) {
  return reinterpret_cast<const tuck::frame_header*>(frame)->stages.at[0];
}
template <class Frame> __device__ bool is_bounded(const Frame& frame) {
  return frame.size() >= sizeof(tuck::frame_header) && first_stage(frame.data()).id == tuck::codec_id::quantize;
}

// Makes a second batch of the pages that did not fit without loss. Its other items are empty.
template <class T> struct retry {
  uint64_t count;
  const tuck::encode_item<T>* items;
  const tuck::outcome* done;
  tuck::encode_item<T>* again;

  __device__ void operator()(uint64_t i) const {
    again[i] = done[i].code == tuck::status::output_too_small ? items[i] : tuck::encode_item<T>{};
  }
};

// Puts each frame into the batch of its codec. In the other batch the item is empty.
template <class T> struct split {
  uint64_t count;
  const tuck::decode_item<T>* items;
  tuck::decode_item<T>*lossless, *bounded;

  __device__ void operator()(uint64_t i) const {
    const tuck::decode_item<T> item = items[i];
    const bool loses = !item.values.is_null() && is_bounded(item.frame);
    lossless[i] = loses ? tuck::decode_item<T>{} : item;
    bounded[i] = loses ? item : tuck::decode_item<T>{};
  }
};

// Writes the result of each item from the outcomes of both batches. Items with a bad index have null values.
template <class Item> struct conclude {
  uint64_t count;
  const Item* items;
  const tuck::outcome *lossless, *bounded;  // `bounded` is null if no loss is allowed
  page_result* results;
  bool encoding;

  __device__ void operator()(uint64_t i) const {
    const Item item = items[i];
    if (item.values.is_null()) {
      results[i] = {0, 0, TUCK_PAGES_BAD_INDEX, TUCK_PAGES_RAW};
      return;
    }
    const bool loses =
        bounded != nullptr && (encoding ? lossless[i].code == tuck::status::output_too_small : is_bounded(item.frame));
    const tuck::outcome o = loses ? bounded[i] : lossless[i];
    page_result r{o.bytes, 0, static_cast<uint32_t>(o.code), TUCK_PAGES_RAW};
    if (o) {
      r.form = loses ? TUCK_PAGES_BOUNDED : TUCK_PAGES_LOSSLESS;
      if (loses) r.bound = __builtin_bit_cast(double, first_stage(item.frame.data()).large);
    }
    results[i] = r;
  }
};

}  // namespace detail

namespace detail {

// The codec within a bound. For types that quantize does not take, it stands for the lossless one and is not called.
template <tuck::codec L> struct bounded {
  using type = L;
};
template <tuck::codec L>
  requires(sizeof(tuck::value_t<L>) > 1)
struct bounded<L> {
  using type = tuck::quantize<tuck::value_t<L>>;
};

}  // namespace detail

struct page_codec_options {
  uint64_t page_values = 0;      // values of a page
  uint64_t batch = 0;            // most pages of a call
  uint32_t chunk_values = 0;     // values of a chunk, which can be decoded alone; 0: the codec's default
  tuck::error_bound bound = {};  // a value of 0: no loss is allowed
  bool checksums = false;        // keep a digest of each chunk's values, so that damage of payloads is noticed
};

// Encodes with the lossless codec `L`, and with quantize if a page does not fit its budget.
template <tuck::codec L> class page_codec {
 public:
  using T = tuck::value_t<L>;
  using bounded_codec = typename detail::bounded<L>::type;
  static constexpr bool takes_bounds = !std::is_same_v<bounded_codec, L>;
  static_assert(!tuck::is_lossy<L>);

  page_codec() = default;
  page_codec(const L& lossless, const page_codec_options& options) noexcept : lossless_(lossless), options_(options) {
    if constexpr (takes_bounds) bounded_ = bounded_codec(options.bound);
  }

  // Returns what is wrong with the options, or ok.
  tuck::status check() const noexcept {
    tuck::frame_header header;
    if (options_.batch == 0 || options_.page_values == 0) return tuck::status::invalid_argument;
    if (const tuck::status s = tuck::make_header(lossless_, sizes().values, frame_options(), header);
        s != tuck::status::ok)
      return s;
    if (header.chunk_values > tuck::max_device_chunk_values<L>) return tuck::status::unsupported;
    if (!loses()) return tuck::status::ok;
    if constexpr (takes_bounds)
      return bounded_.check();
    else
      return tuck::status::unsupported_type;
  }
  // Returns the budget that every page fits without loss.
  uint64_t worst_frame_bytes() const noexcept {
    return tuck::max_frame_bytes(lossless_, options_.page_values, frame_options());
  }

  // Returns the bytes of a workspace. It must be aligned to 256 bytes and serves one call at a time.
  uint64_t workspace_bytes() const noexcept { return items_at(items_arrays); }
  tuck::result initialize(tuck::bytes workspace, cudaStream_t stream) const noexcept {
    if (workspace.size() < workspace_bytes()) return {tuck::status::scratch_too_small};
    return tuck::initialize(scratch(workspace), stream);
  }
  // Returns memory in the workspace for the items of a call, for callers that make them on the device.
  template <class Item> Item* own_items(tuck::bytes workspace) const noexcept { return items<Item>(workspace, 2); }

  // Returns what is wrong with a call of so many items, or ok.
  tuck::status check_call(uint64_t items, tuck::bytes workspace) const noexcept {
    if (workspace.data() == nullptr) return tuck::status::invalid_argument;
    if (reinterpret_cast<uintptr_t>(workspace.data()) % 256 != 0) return tuck::status::misaligned;
    if (items > options_.batch) return tuck::status::batch_too_large;
    return workspace.size() < workspace_bytes() ? tuck::status::scratch_too_small : tuck::status::ok;
  }

  // Encodes each item's page into its frame buffer, whose size is the page's budget. Items and results are in memory
  // that the device can use. Pages are aligned to 4 bytes, frame buffers to 16. A refused page has the status
  // output_too_small, and its buffer then holds no frame. Asynchronous.
  tuck::result encode(tuck::span<const tuck::encode_item<T>> from, page_result* results, tuck::bytes workspace,
                      cudaStream_t stream) const noexcept {
    if (const tuck::status s = check_call(from.size(), workspace); s != tuck::status::ok) return {s};
    tuck::outcome *const done = outcomes(workspace, 0), *const again = loses() ? outcomes(workspace, 1) : nullptr;
    const uint64_t n = from.size();
    tuck::result r =
        tuck::encode_batch(lossless_, from, sizes(), scratch(workspace), {done, n}, stream, frame_options());
    if (r && loses()) {
      auto* const rest = items<tuck::encode_item<T>>(workspace, 0);
      r = detail::for_each_page(detail::retry<T>{n, from.data(), done, rest}, stream);
      if (r)
        r = tuck::encode_batch(bounded_, tuck::span<const tuck::encode_item<T>>(rest, n), sizes(), scratch(workspace),
                               {again, n}, stream, frame_options());
    }
    if (!r) return r;
    return detail::for_each_page(detail::conclude<tuck::encode_item<T>>{n, from.data(), done, again, results, true},
                                 stream);
  }

  // Restores each item's page, from frames of either codec. Asynchronous.
  tuck::result decode(tuck::span<const tuck::decode_item<T>> from, page_result* results, tuck::bytes workspace,
                      cudaStream_t stream) const noexcept {
    using item = tuck::decode_item<T>;
    if (const tuck::status s = check_call(from.size(), workspace); s != tuck::status::ok) return {s};
    const uint64_t n = from.size();
    tuck::outcome *const lossless = outcomes(workspace, 0), *bounded = nullptr;
    tuck::result r{};
    if constexpr (takes_bounds) {
      bounded = outcomes(workspace, 1);
      item *const a = items<item>(workspace, 0), *const b = items<item>(workspace, 1);
      r = detail::for_each_page(detail::split<T>{n, from.data(), a, b}, stream);
      if (r)
        r = tuck::decode_batch(lossless_, tuck::span<const item>(a, n), sizes(), scratch(workspace), {lossless, n},
                               stream);
      if (r)
        r = tuck::decode_batch(bounded_codec{}, tuck::span<const item>(b, n), sizes(), scratch(workspace), {bounded, n},
                               stream);
    } else {
      r = tuck::decode_batch(lossless_, from, sizes(), scratch(workspace), {lossless, n}, stream);
    }
    if (!r) return r;
    return detail::for_each_page(detail::conclude<item>{n, from.data(), lossless, bounded, results, false}, stream);
  }

  // Restores values [first, first + out.size()) of a frame that `encode` wrote in this form. Only their chunks are
  // decoded. `restored` is memory that the device can write. Asynchronous.
  tuck::result decode_range(uint32_t form, tuck::const_bytes frame, uint64_t first, tuck::span<T> out,
                            tuck::outcome* restored, tuck::bytes workspace, cudaStream_t stream) const noexcept {
    if (takes_bounds && form == TUCK_PAGES_BOUNDED)
      return tuck::decode(bounded_codec{}, frame, out, scratch(workspace), restored, stream, first);
    return tuck::decode(lossless_, frame, out, scratch(workspace), restored, stream, first);
  }

 private:
  static constexpr int items_arrays = 3;
  static_assert(sizeof(tuck::encode_item<T>) == sizeof(tuck::decode_item<T>));

  bool loses() const noexcept { return options_.bound.value != 0; }
  tuck::frame_options frame_options() const noexcept {
    return {.chunk_values = options_.chunk_values, .alignment = 16, .checksums = options_.checksums};
  }
  tuck::batch_sizes sizes() const noexcept {
    return {options_.batch, tuck::saturating_mul(options_.batch, options_.page_values)};
  }
  // The workspace has scratch, then two outcomes per page, then three items per page.
  uint64_t scratch_bytes() const noexcept {
    const uint64_t most = std::max(tuck::scratch_bytes(lossless_, sizes(), frame_options()),
                                   tuck::scratch_bytes(bounded_codec{}, sizes(), frame_options()));
    return (most + 255) / 256 * 256;
  }
  uint64_t items_at(int array) const noexcept {
    return scratch_bytes() +
           options_.batch * (2 * sizeof(tuck::outcome) + static_cast<uint64_t>(array) * sizeof(tuck::encode_item<T>));
  }
  tuck::scratch_span scratch(tuck::bytes workspace) const noexcept {
    return tuck::scratch_span(workspace.subspan(0, scratch_bytes()));
  }
  tuck::outcome* outcomes(tuck::bytes workspace, int array) const noexcept {
    return reinterpret_cast<tuck::outcome*>(workspace.data() + scratch_bytes()) +
           static_cast<uint64_t>(array) * options_.batch;
  }
  template <class Item> Item* items(tuck::bytes workspace, int array) const noexcept {
    return reinterpret_cast<Item*>(workspace.data() + items_at(array));
  }

  L lossless_;
  bounded_codec bounded_;
  page_codec_options options_;
};

}  // namespace kv
