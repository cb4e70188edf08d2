// Moves pages from the device to extents of a store and back. kv_pool.cuh decides which pages to move, and when.
#pragma once

#include "page_codec.cuh"

#include <tuck/swap/extents.hpp>

#include <vector>

namespace kv {

inline void check(cudaError_t e) {
  if (e != cudaSuccess) throw tuck::error(e);
}
inline void check(const tuck::result& r) {
  if (!r) throw tuck::error(r);
}

// The extent of a page in the store, and its form.
struct stored_page {
  tuck::extent at;
  uint32_t form = TUCK_PAGES_RAW;  // tuck_pages.h
  double bound = 0;                // bound on the error of each value
};

struct store_options {
  page_codec_options codec;
  uint64_t budget = 0;  // most bytes of a frame
  uint64_t bytes = 0;   // size of the store
};

// A stream that can wait for other streams.
class side_stream {
 public:
  side_stream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    if (const cudaError_t e = cudaEventCreateWithFlags(&event_, cudaEventDisableTiming); e != cudaSuccess) {
      static_cast<void>(cudaStreamDestroy(stream_));
      throw tuck::error(e);
    }
  }
  side_stream(const side_stream&) = delete;
  side_stream& operator=(const side_stream&) = delete;
  ~side_stream() {
    static_cast<void>(cudaEventDestroy(event_));
    tuck::detail::release([&] { return cudaStreamDestroy(stream_); });
  }
  operator cudaStream_t() const noexcept { return stream_; }
  void wait_for(cudaStream_t other) {
    check(cudaEventRecord(event_, other));
    check(cudaStreamWaitEvent(stream_, event_, 0));
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

// A call that throws has changed only free pages and the staging buffer. Pages are encoded on the constructor's stream.
// They are decoded on a second stream that waits for the first, so that decoding overlaps with kernels that use other
// pages.
template <tuck::codec L, tuck::stream_resource R, tuck::stream_resource S> class page_store {
 public:
  using T = tuck::value_t<L>;

  // `memory` allocates staging and workspace, `frames` the store.
  page_store(const L& lossless, const store_options& options, R& memory, S& frames, cudaStream_t stream)
      : codec_(checked(lossless, options)),
        options_(options),
        stream_(stream),
        free_(options.bytes / unit * unit),
        store_(frames, std::max(options.bytes, unit), stream),
        staging_(memory, options.codec.batch * options.budget, stream),
        workspace_(memory, codec_.workspace_bytes(), stream),
        results_(pinned_, options.codec.batch * sizeof(page_result), stream),
        items_(pinned_, options.codec.batch * sizeof(tuck::decode_item<T>), stream) {}
  ~page_store() { quiet(); }

  // Stores all pages, or the first ones that fit. If fewer than `least` fit, throws pool_full and stores none. `stored`
  // gets their extents. The pages may be overwritten by later work on the stream. Waits for the stream once per batch,
  // because the host must know the sizes of the frames.
  void encode(tuck::span<T* const> pages, uint64_t least, std::vector<stored_page>& stored) {
    stored.clear();
    stored.reserve(pages.size());
    try {
      for (uint64_t done = 0; done == stored.size() && done < pages.size(); done += batch())
        encode_some(pages.subspan(done, std::min(pages.size() - done, batch())), stored);
      if (stored.size() < least) throw tuck::error(tuck::status::pool_full);
    } catch (...) {
      for (const stored_page& page : stored) deallocate(page);
      throw;
    }
  }

  // Begins to restore up to a batch of stored pages. They stay in the store. Call `finish` before any other function.
  void begin_decode(tuck::span<const stored_page> stored, tuck::span<T* const> pages) {
    begin();
    try {
      enqueue(stored, pages);
    } catch (...) {
      quiet();
      throw;
    }
    ++counts_.decodes;
    counts_.pages_in += stored.size();
  }
  // Waits until the pages are restored. Returns the first error.
  tuck::result finish() noexcept {
    if (const cudaError_t e = cudaStreamSynchronize(side_); e != cudaSuccess) {
      quiet();
      return tuck::from_cuda(e);
    }
    return verdict(decoding_);
  }
  void decode(tuck::span<const stored_page> stored, tuck::span<T* const> pages) {
    for (uint64_t done = 0; done < stored.size(); done += batch()) {
      const uint64_t count = std::min(stored.size() - done, batch());
      begin_decode(stored.subspan(done, count), pages.subspan(done, count));
      check(finish());
    }
  }

  // Copies values [first, first + out.size()) of a page to memory that the device can write. Decodes only their chunks.
  // Waits for the stream.
  void read(const stored_page& page, uint64_t first_value, tuck::span<T> out) {
    if (page.form == TUCK_PAGES_RAW) {
      const auto* const from = bytes_of(page).data() + first_value * sizeof(T);
      check(cudaMemcpyAsync(out.data(), from, out.size_bytes(), cudaMemcpyDefault, stream_));
      check(cudaStreamSynchronize(stream_));
      return;
    }
    begin();
    static_assert(sizeof(page_result) >= sizeof(tuck::outcome));
    auto* const restored = first<tuck::outcome>(results_, 1).data();
    check(codec_.decode_range(page.form, bytes_of(page), first_value, out, restored, workspace_.all(), stream_));
    check(cudaStreamSynchronize(stream_));
    clean_ = true;
    check(tuck::result{restored->code});
  }

  // Frees the extent at once. Later writes to it are ordered after current reads by the stream.
  void deallocate(const stored_page& page) noexcept {
    if (page.at.size == 0) return;
    held_ -= page.at.size;
    free_.deallocate(page.at);
  }
  uint64_t held_bytes() const noexcept { return held_; }
  tuck::bytes bytes_of(const stored_page& page) const noexcept {
    return store_.all().subspan(page.at.begin, page.at.size);
  }

  struct counters {
    uint64_t encodes = 0, decodes = 0;     // batches
    uint64_t pages_out = 0, pages_in = 0;  // pages in these batches
  };
  const counters& counts() const noexcept { return counts_; }

 private:
  static constexpr uint64_t unit = 16;  // extents begin at multiples of this

  static page_codec<L> checked(const L& lossless, const store_options& options) {
    const page_codec<L> codec(lossless, options.codec);
    check(tuck::result{codec.check()});
    return codec;
  }
  uint64_t batch() const noexcept { return options_.codec.batch; }
  tuck::span<T> page_span(T* page) const noexcept { return {page, options_.codec.page_values}; }

  using table = tuck::device_buffer<tuck::pinned_resource>;
  template <class I> static tuck::span<I> first(const table& of, uint64_t count) {
    return {reinterpret_cast<I*>(of.all().data()), count};
  }

  // Makes tables and workspace ready for a batch. After a failed batch, waits for its work first.
  void begin() {
    if (!clean_) {
      check(cudaStreamSynchronize(side_));
      check(codec_.initialize(workspace_.all(), stream_));
      check(cudaStreamSynchronize(stream_));
    }
    clean_ = false;
  }
  // Waits for the work on the second stream.
  void quiet() noexcept {
    tuck::detail::release([&] { return cudaStreamSynchronize(side_); });
  }
  void enqueue(tuck::span<const stored_page> stored, tuck::span<T* const> pages) {
    const auto items = first<tuck::decode_item<T>>(items_, batch());
    side_.wait_for(stream_);
    uint64_t count = 0;
    for (uint64_t i = 0, used = 0; i < stored.size(); ++i) {
      const tuck::bytes from = bytes_of(stored[i]);
      const tuck::bytes to = stored[i].form == TUCK_PAGES_RAW ? tuck::as_writable_bytes(page_span(pages[i]))
                                                              : staging_.all().subspan(used, from.size());
      check(cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyDefault, side_));
      if (stored[i].form == TUCK_PAGES_RAW) continue;
      items[count++] = {to, page_span(pages[i])};
      used += to.size();
    }
    decoding_ = count;
    check(
        codec_.decode(items.subspan(0, count), first<page_result>(results_, batch()).data(), workspace_.all(), side_));
  }
  // Returns the first error of a finished batch. Refused pages are no errors.
  tuck::result verdict(uint64_t count) noexcept {
    clean_ = true;
    for (const page_result& r : first<page_result>(results_, count))
      if (r.status != TUCK_PAGES_OK && r.status != TUCK_PAGES_NO_FIT) return {static_cast<tuck::status>(r.status)};
    return {};
  }

  // Encodes one batch. Adds pages to `stored` until the store is full.
  void encode_some(tuck::span<T* const> pages, std::vector<stored_page>& stored) {
    begin();
    const auto items = first<tuck::encode_item<T>>(items_, pages.size());
    const auto done = first<page_result>(results_, pages.size());
    for (uint64_t i = 0; i < pages.size(); ++i)
      items[i] = {page_span(pages[i]), staging_.all().subspan(i * options_.budget, options_.budget)};
    check(codec_.encode(items, done.data(), workspace_.all(), stream_));
    check(cudaStreamSynchronize(stream_));
    check(verdict(pages.size()));
    for (uint64_t i = 0; i < pages.size(); ++i)
      if (!keep(done[i], items[i], stored)) break;
    ++counts_.encodes;
    counts_.pages_out += pages.size();
  }
  // Stores the frame, or the raw page if it was refused. Returns false if the store is full.
  bool keep(const page_result& done, const tuck::encode_item<T>& item, std::vector<stored_page>& stored) {
    const bool raw = done.status != TUCK_PAGES_OK;
    const uint64_t bytes = raw ? item.values.size_bytes() : done.bytes;
    stored_page page{{}, done.form, done.bound};
    if (!free_.allocate((bytes + unit - 1) / unit * unit, page.at)) return false;
    held_ += page.at.size;
    stored.push_back(page);
    const void* const from = raw ? static_cast<const void*>(item.values.data()) : item.frame.data();
    check(cudaMemcpyAsync(bytes_of(page).data(), from, bytes, cudaMemcpyDefault, stream_));
    return true;
  }

  page_codec<L> codec_;
  store_options options_;
  cudaStream_t stream_;
  side_stream side_;
  bool clean_ = false;
  uint64_t decoding_ = 0;  // frames being decoded
  uint64_t held_ = 0;
  counters counts_;
  tuck::free_extents free_;
  tuck::device_buffer<S> store_;
  tuck::device_buffer<R> staging_, workspace_;
  // The host fills these tables in pinned memory, and kernels read them without a copy. They are destroyed first. That
  // waits for the stream, and so for all work that uses the other members.
  tuck::pinned_resource pinned_;
  table results_, items_;
};

}  // namespace kv
