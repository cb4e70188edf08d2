// Pages into frames of at most a budget each, and back, a batch of them on a stream: without loss where that fits the
// budget, else within a bound that the caller allows, else refused. Nothing here allocates, waits or throws. What the
// pool (kv_pool.cuh) and the C ABI (tuck_pages.h) do with pages, they do by this.
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

// Calls job(i) for i < job.count, a thread each.
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

// What the lossless codec had no room for, as a batch of its own; the other items of that are empty.
template <class T> struct retry {
  uint64_t count;
  const tuck::encode_item<T>* items;
  const tuck::outcome* done;
  tuck::encode_item<T>* again;

  __device__ void operator()(uint64_t i) const {
    again[i] = done[i].code == tuck::status::output_too_small ? items[i] : tuck::encode_item<T>{};
  }
};

// Each frame to the batch of its codec; in the other it is an empty item.
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

// Of two batches the outcome that counts. `Item` has the frame, and null values where an index was bad.
template <class Item> struct conclude {
  uint64_t count;
  const Item* items;
  const tuck::outcome *lossless, *bounded;  // no `bounded`: no loss was allowed
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

struct page_codec_options {
  uint64_t page_values = 0;
  uint64_t batch = 0;            // the most pages of a call
  uint32_t chunk_values = 0;     // that decode alone; 0: the codec's own choice
  tuck::error_bound bound = {};  // 0: no loss is allowed
};

// By the lossless codec `L`, and by quantize where bytes are more important than bits.
template <tuck::codec L> class page_codec {
 public:
  using T = tuck::value_t<L>;
  using bounded_codec = tuck::quantize<T>;
  static_assert(!tuck::is_lossy<L>);

  page_codec() = default;
  page_codec(const L& lossless, const page_codec_options& options) noexcept
      : lossless_(lossless), bounded_(options.bound), options_(options) {}

  // What is wrong with the options.
  tuck::status check() const noexcept {
    tuck::frame_header header;
    if (options_.batch == 0 || options_.page_values == 0) return tuck::status::invalid_argument;
    if (const tuck::status s = tuck::make_header(lossless_, sizes().values, frame_options(), header);
        s != tuck::status::ok)
      return s;
    if (header.chunk_values > tuck::max_device_chunk_values<L>) return tuck::status::unsupported;
    return loses() ? bounded_.check() : tuck::status::ok;
  }
  // That any page fits without loss.
  uint64_t worst_frame_bytes() const noexcept {
    return tuck::max_frame_bytes(lossless_, options_.page_values, frame_options());
  }

  // A workspace begins at a multiple of 256 bytes, and serves one call at a time.
  uint64_t workspace_bytes() const noexcept { return items_at(items_arrays); }
  tuck::result initialize(tuck::bytes workspace, cudaStream_t stream) const noexcept {
    if (workspace.size() < workspace_bytes()) return {tuck::status::scratch_too_small};
    return tuck::initialize(scratch(workspace), stream);
  }
  // Room for the items of a call, of which the call takes no notice: for those who make them on the device.
  template <class Item> Item* own_items(tuck::bytes workspace) const noexcept { return items<Item>(workspace, 2); }

  // What is wrong with a call of so many items.
  tuck::status check_call(uint64_t items, tuck::bytes workspace) const noexcept {
    if (workspace.data() == nullptr) return tuck::status::invalid_argument;
    if (reinterpret_cast<uintptr_t>(workspace.data()) % 256 != 0) return tuck::status::misaligned;
    if (items > options_.batch) return tuck::status::batch_too_large;
    return workspace.size() < workspace_bytes() ? tuck::status::scratch_too_small : tuck::status::ok;
  }

  // Encodes each item's page into its room, which is the page's budget. The items and results are in memory that the
  // device can use, and pages begin at a multiple of 4 bytes, rooms at one of 16. A refused page has the status
  // output_too_small, and its room no frame.
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

  // Restores each item's page, whichever of the two codecs wrote the frame.
  tuck::result decode(tuck::span<const tuck::decode_item<T>> from, page_result* results, tuck::bytes workspace,
                      cudaStream_t stream) const noexcept {
    using item = tuck::decode_item<T>;
    if (const tuck::status s = check_call(from.size(), workspace); s != tuck::status::ok) return {s};
    const uint64_t n = from.size();
    tuck::outcome *const lossless = outcomes(workspace, 0), *const bounded = outcomes(workspace, 1);
    item *const a = items<item>(workspace, 0), *const b = items<item>(workspace, 1);
    tuck::result r = detail::for_each_page(detail::split<T>{n, from.data(), a, b}, stream);
    if (r)
      r = tuck::decode_batch(lossless_, tuck::span<const item>(a, n), sizes(), scratch(workspace), {lossless, n},
                             stream);
    if (r)
      r = tuck::decode_batch(bounded_codec{}, tuck::span<const item>(b, n), sizes(), scratch(workspace), {bounded, n},
                             stream);
    if (!r) return r;
    return detail::for_each_page(detail::conclude<item>{n, from.data(), lossless, bounded, results, false}, stream);
  }

  // Restores values [first, first + out.size()) of one frame that `encode` wrote in this form: decodes their chunks
  // alone. The outcome is the device's.
  tuck::result decode_range(uint32_t form, tuck::const_bytes frame, uint64_t first, tuck::span<T> out,
                            tuck::outcome* restored, tuck::bytes workspace, cudaStream_t stream) const noexcept {
    if (form == TUCK_PAGES_BOUNDED)
      return tuck::decode(bounded_codec{}, frame, out, scratch(workspace), restored, stream, first);
    return tuck::decode(lossless_, frame, out, scratch(workspace), restored, stream, first);
  }

 private:
  static constexpr int items_arrays = 3;
  static_assert(sizeof(tuck::encode_item<T>) == sizeof(tuck::decode_item<T>));

  bool loses() const noexcept { return options_.bound.value != 0; }
  tuck::frame_options frame_options() const noexcept {
    return {.chunk_values = options_.chunk_values, .alignment = 16};
  }
  tuck::batch_sizes sizes() const noexcept {
    return {options_.batch, tuck::saturating_mul(options_.batch, options_.page_values)};
  }
  // The workspace: scratch, two outcomes a page, three items a page.
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
