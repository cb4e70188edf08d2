// Pages on the device into frames in pinned host memory and back, a batch of them by one launch. What kv_pool.cuh needs
// of CUDA is here; which pages, and when, is there.
#pragma once

#include <tuck/device.cuh>
#include <tuck/swap/pinned_pool.cuh>

#include <algorithm>
#include <vector>

namespace kv {

inline void check(cudaError_t e) {
  if (e != cudaSuccess) throw tuck::error(e);
}
inline void check(const tuck::result& r) {
  if (!r) throw tuck::error(r);
}

// A call that throws has changed nothing but what is in free pages and in its staging.
template <tuck::codec C, tuck::stream_resource R> class page_coder {
 public:
  using T = tuck::value_t<C>;

  // Pages of so many values, up to `batch` of them a launch: the staging takes their frames, were they all raw.
  page_coder(const C& codec, uint64_t page_values, uint32_t batch, uint64_t pinned_bytes, R& memory,
             cudaStream_t stream)
      : codec_(codec),
        sizes_{batch, batch * page_values},
        page_values_(page_values),
        frame_room_(room_of(codec, page_values)),
        stream_(stream),
        pool_(pinned_bytes),
        staging_(memory, batch * frame_room_, stream),
        scratch_(memory, tuck::scratch_bytes(codec, sizes_), stream),
        outcomes_(pinned_, batch * sizeof(tuck::outcome), stream),
        sources_(pinned_, batch * sizeof(tuck::encode_item<T>), stream),
        targets_(pinned_, batch * sizeof(tuck::decode_item<T>), stream) {}

  // Into the pinned memory: all of these pages, or the first of them for whose frames there is room, which are at
  // least so many; else pool_full, and none. `frames` is where they went. The pages may be overwritten behind it.
  // Waits for the stream once a batch, to learn how long the frames are.
  void encode(tuck::span<T* const> pages, uint64_t least, std::vector<tuck::extent>& frames) {
    frames.clear();
    frames.reserve(pages.size());
    try {
      for (uint64_t done = 0; done == frames.size() && done < pages.size(); done += sizes_.items)
        encode_some(pages.subspan(done, std::min(pages.size() - done, sizes_.items)), frames);
      if (frames.size() < least) throw tuck::error(tuck::status::pool_full);
    } catch (...) {
      for (const tuck::extent& frame : frames) pool_.give_back(frame);
      throw;
    }
  }

  // From the pinned memory, where the frames stay, to as many pages. Waits for the stream once a batch, to learn that
  // the pages are whole.
  void decode(tuck::span<const tuck::extent> frames, tuck::span<T* const> pages) {
    for (uint64_t done = 0; done < frames.size();) done += decode_some(frames.subspan(done), pages.subspan(done));
  }

  // At once: what is written there next comes behind what is read there now.
  void give_back(tuck::extent frame) { pool_.give_back(frame); }
  uint64_t held_bytes() const { return pool_.statistics().held; }

  struct counters {
    uint64_t encodes = 0, decodes = 0;     // batches
    uint64_t pages_out = 0, pages_in = 0;  // what they would be, were they single calls
  };
  const counters& counts() const { return counts_; }

 private:
  static uint64_t room_of(const C& codec, uint64_t page_values) {
    tuck::frame_header header;
    check(tuck::result{tuck::make_header(codec, page_values, {}, header)});  // says what is wrong with a bound
    return tuck::pinned_pool::round_up(tuck::worst_case_bytes(header));
  }

  using table = tuck::device_buffer<tuck::pinned_resource>;
  template <class I> static tuck::span<I> first(const table& of, uint64_t count) {
    return {reinterpret_cast<I*>(of.all().data()), count};
  }

  // The tables and the scratch are free: where a batch has failed, what it had begun must be over first.
  void begin() {
    if (!clean_) {
      check(cudaStreamSynchronize(stream_));
      check(tuck::initialize(scratch_.scratch(), stream_));
    }
    clean_ = false;
  }
  void end(tuck::span<const tuck::outcome> done) {
    check(cudaStreamSynchronize(stream_));
    clean_ = true;
    for (const tuck::outcome& o : done) check(tuck::result{o.code});
  }

  // A batch. Adds to `frames` until there is no room.
  void encode_some(tuck::span<T* const> pages, std::vector<tuck::extent>& frames) {
    begin();
    const auto items = first<tuck::encode_item<T>>(sources_, pages.size());
    const auto done = first<tuck::outcome>(outcomes_, pages.size());
    for (uint64_t i = 0; i < pages.size(); ++i)
      items[i] = {{pages[i], page_values_}, staging_.all().subspan(i * frame_room_, frame_room_)};
    check(tuck::encode_batch(codec_, items, sizes_, scratch_.scratch(), done, stream_));
    end(done);
    tuck::extent taken;
    for (uint64_t i = 0; i < pages.size() && pool_.take(done[i].bytes, taken); ++i) {
      frames.push_back(taken);
      check(
          cudaMemcpyAsync(pool_.host(taken).data(), items[i].frame.data(), done[i].bytes, cudaMemcpyDefault, stream_));
    }
    ++counts_.encodes;
    counts_.pages_out += pages.size();
  }

  // The first of these frames: as many as a launch takes and the staging has room for.
  uint64_t decode_some(tuck::span<const tuck::extent> frames, tuck::span<T* const> pages) {
    begin();
    const auto items = first<tuck::decode_item<T>>(targets_, std::min(frames.size(), sizes_.items));
    uint64_t count = 0;
    for (uint64_t used = 0; count < items.size(); used += frames[count++].size) {
      if (used + frames[count].size > staging_.all().size()) break;
      const tuck::bytes from = pool_.host(frames[count]), staged = staging_.all().subspan(used, from.size());
      check(cudaMemcpyAsync(staged.data(), from.data(), from.size(), cudaMemcpyDefault, stream_));
      items[count] = {staged, {pages[count], page_values_}};
    }
    const auto done = first<tuck::outcome>(outcomes_, count);
    check(tuck::decode_batch(codec_, items.subspan(0, count), sizes_, scratch_.scratch(), done, stream_));
    end(done);
    ++counts_.decodes;
    counts_.pages_in += count;
    return count;
  }

  C codec_;
  tuck::batch_sizes sizes_;
  uint64_t page_values_, frame_room_;
  cudaStream_t stream_;
  bool clean_ = false;
  counters counts_;
  tuck::pinned_pool pool_;
  tuck::device_buffer<R> staging_, scratch_;
  // In pinned memory, where the host fills the tables and the kernels read them without a copy between. They are the
  // first to be given back, which waits for the stream, and so for all that uses the rest.
  tuck::pinned_resource pinned_;
  table outcomes_, sources_, targets_;
};

}  // namespace kv
