// A paged KV cache that is larger than its device memory. Blocks have a fixed number of values, as in vLLM, and live in
// an arena of pages on the device. If there are more blocks than pages, the least recently used blocks are encoded and
// moved to a store. There each block takes the size of its frame, not of a page.
//
//   tuck::async_resource memory;
//   tuck::pinned_resource host;  // the store may also be in device memory or any other resource
//   kv::kv_pool<tuck::codebooks<tuck::bf16>> pool(
//       {}, {.page_values = 8192, .pages = 4096, .store_bytes = 1 << 30}, memory, host, stream);
//   pool.put(id, values);               // a block
//   pool.fetch(block_table, pages);     // restores the blocks of an attention step with one decode
//   attention<<<..., stream>>>(pages);
//   pool.prefetch(next_block_table);    // decodes while the attention runs
//
// Each block has a budget in bytes. It is stored without loss if it fits the budget, otherwise within
// pool_options::bound if the caller allows one, otherwise raw. `report` returns the form, and the bound that holds for
// this block's values.
//
// Blocks are read often and, once full, not written again. So a restored block keeps its frame until it is written or
// erased. Evicting it again costs nothing, and a lossy codec is applied only once. (Quantizing quantized values would
// add up errors.) The store must therefore hold all blocks that have been evicted.
//
// A pool is for one thread and one stream. All its work is on the constructor's stream or waits for it. Kernels that
// use a page must be on that stream too, before the next call that may evict the page. Work on other streams must be
// ordered with events by the caller. So pages, staging and the store can be reused at once. The current device must be
// the stream's.
//
// Eviction waits for the stream once per batch, because the host must know the sizes of the frames. Fetching evicted
// blocks waits too, because a frame is freed only after the device has confirmed the page. Prefetching waits only if it
// must evict, and the next call waits for it. No other function waits. Only the constructor allocates device or pinned
// memory.
//
// A call that throws loses nothing: each block has its values, on the device or in the store. But blocks may have been
// marked as used, or evicted, by the failed call.
#pragma once

#include "page_store.cuh"

#include <iterator>
#include <list>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

namespace kv {

struct pool_options {
  uint64_t page_values = 0;      // values of a block: tokens x heads x head size
  uint32_t pages = 0;            // number of pages on the device
  uint64_t store_bytes = 0;      // size of the store; erase and edit free frames
  uint64_t page_budget = 0;      // most bytes of a frame; at most, and if 0, the bytes of a page
  tuck::error_bound bound = {};  // for blocks that exceed the budget without loss; value 0: no loss allowed
  uint32_t chunk_values = 0;     // values of a chunk, which `read` can decode alone; 0: the codec's default
  uint32_t evict_batch = 8;      // blocks to evict at once when a page is needed, if possible
  uint32_t batch = 32;           // most blocks of one launch; staging has this size
};

struct pool_statistics {
  uint64_t resident = 0, evicted = 0;           // blocks
  uint64_t framed = 0;                          // blocks with a frame in the store: evicted, or restored and unchanged
  uint64_t lossless = 0, bounded = 0, raw = 0;  // forms of these frames
  uint64_t raw_bytes = 0, held_bytes = 0;       // their bytes as pages, and in the store
};

// How a block is stored. `bytes` is 0 without a frame.
struct page_report {
  uint32_t form = TUCK_PAGES_RAW;
  uint64_t bytes = 0;
  double bound = 0;  // bound on the error of each value
};

template <tuck::codec L, tuck::stream_resource R = tuck::async_resource,
          tuck::stream_resource S = tuck::pinned_resource>
class kv_pool {
 public:
  using T = tuck::value_t<L>;
  using block_id = uint64_t;

  // `memory` allocates the pages, `frames` the store; both must outlive the pool. Throws if there is not enough memory,
  // or if the bound is invalid.
  kv_pool(const L& lossless, const pool_options& options, R& memory, S& frames, cudaStream_t stream)
      : options_(checked(options)),
        stream_(stream),
        arena_(memory, options_.pages * page_stride(), stream),
        store_(lossless, store_options_of(options_), memory, frames, stream) {
    free_.reserve(options_.pages);
    for (uint64_t i = options_.pages; i-- != 0;)
      free_.push_back(reinterpret_cast<T*>(arena_.all().data() + i * page_stride()));
  }
  kv_pool(const kv_pool&) = delete;
  kv_pool& operator=(const kv_pool&) = delete;

  // Sets the values of a block, which may be new or known, from device or host memory. `values` must stay unchanged
  // until the stream has done the copy.
  void put(block_id id, const T* values) {
    begin_call();
    const auto known = blocks_.find(id);
    const bool resident = known != blocks_.end() && known->second->page != nullptr;
    if (!resident) make_free(1, 0);
    T* const page = resident ? known->second->page : free_.back();
    check(cudaMemcpyAsync(page, values, page_bytes(), cudaMemcpyDefault, stream_));
    if (known != blocks_.end()) {
      if (!resident) move_in(known->second);
      touch(known->second);
      forget_frame(known->second);
    } else {
      std::list<block> made(1, {id, page, {}, 0});
      blocks_.emplace(id, made.begin());
      free_.pop_back();
      resident_.splice(resident_.end(), made);
    }
  }

  // Restores these blocks to the device, all at once. Their pages are valid until a call that may evict them.
  void fetch(tuck::span<const block_id> ids, tuck::span<const T*> pages) {
    if (pages.size() < ids.size()) throw std::invalid_argument("kv_pool: fewer pages than blocks");
    begin_call();
    make_room_for(ids);
    bring_back(group_);
    for (uint64_t i = 0; i < ids.size(); ++i) {
      const entry b = find(ids[i]);
      touch(b);
      pages[i] = b->page;
    }
  }
  const T* page(block_id id) {
    const T* found = nullptr;
    fetch({&id, 1}, {&found, 1});
    return found;
  }
  // Begins to restore these blocks, on another stream: the first ones, up to a batch. It is a hint only. Errors of a
  // frame are reported by fetch.
  void prefetch(tuck::span<const block_id> ids) {
    begin_call();
    make_room_for(ids);
    group_.resize(std::min<uint64_t>(group_.size(), options_.batch));
    if (group_.empty()) return;
    gather_stored(group_);
    store_.begin_decode(stored_, free_in_order());
    for (const entry b : group_) move_in(b);
    arriving_.swap(group_);
  }

  // Returns the page for writing, in the order of the stream. A lossy codec is applied once more when the block is
  // evicted again. With range-relative bounds, errors of values that did not change may then grow.
  T* edit(block_id id) {
    static_cast<void>(page(id));
    forget_frame(find(id));
    return find(id)->page;
  }
  // Copies the values of a block to device or host memory, in the order of the stream.
  void get(block_id id, T* out) { check(cudaMemcpyAsync(out, page(id), page_bytes(), cudaMemcpyDefault, stream_)); }

  // Copies values [first, first + out.size()) of a block, such as those of a few tokens, to memory that the device can
  // write. An evicted block stays evicted, and only the chunks of these values are decoded. Waits for the stream.
  void read(block_id id, uint64_t first, tuck::span<T> out) {
    begin_call();
    const entry b = find(id);
    if (first > options_.page_values || out.size() > options_.page_values - first)
      throw std::out_of_range("kv_pool: a block has no such values");
    if (out.empty()) return;
    if (b->page == nullptr) return store_.read(b->frame, first, out);
    check(cudaMemcpyAsync(out.data(), b->page + first, out.size_bytes(), cudaMemcpyDefault, stream_));
    check(cudaStreamSynchronize(stream_));
  }

  // Moves these blocks, or the `count` least recently used ones, to the store. If they do not fit, throws tuck::error
  // with pool_full and moves none.
  void evict(tuck::span<const block_id> ids) {
    begin_call();
    group_ = distinct(ids);
    std::erase_if(group_, [](entry b) { return b->page == nullptr; });
    evict_group(group_.size());
  }
  void evict(uint64_t count) {
    begin_call();
    group_oldest(std::min<uint64_t>(count, resident_.size()));
    evict_group(group_.size());
  }

  void erase(block_id id) {
    settle();
    const entry b = find(id);
    forget_frame(b);
    if (b->page != nullptr) free_.push_back(b->page);
    (b->page != nullptr ? resident_ : evicted_).erase(b);
    blocks_.erase(id);
  }

  auto counts() const { return store_.counts(); }
  bool contains(block_id id) const { return blocks_.contains(id); }
  bool is_resident(block_id id) const { return find(id)->page != nullptr; }  // true also while it is prefetched
  page_report report(block_id id) const {
    const stored_page& frame = find(id)->frame;
    return {frame.form, frame.at.size, frame.bound};
  }
  // Returns the block's frame in the store.
  tuck::bytes frame(block_id id) const { return store_.bytes_of(find(id)->frame); }
  pool_statistics statistics() const {
    pool_statistics s{.resident = resident_.size(), .evicted = evicted_.size()};
    for (const auto& [id, b] : blocks_) {
      if (b->frame.at.size == 0) continue;
      ++s.framed;
      ++(b->frame.form == TUCK_PAGES_LOSSLESS ? s.lossless : b->frame.form == TUCK_PAGES_BOUNDED ? s.bounded : s.raw);
    }
    s.raw_bytes = s.framed * page_bytes();
    s.held_bytes = store_.held_bytes();
    return s;
  }

 private:
  struct block {
    block_id id;
    T* page;            // null: evicted
    stored_page frame;  // empty: the block must be encoded to be evicted
    uint64_t call;      // the last call that named it
  };
  using entry = typename std::list<block>::iterator;

  static const pool_options& checked(const pool_options& o) {
    if (o.page_values == 0 || o.pages == 0 || o.evict_batch == 0 || o.batch == 0)
      throw std::invalid_argument("kv_pool: no values, pages or batches");
    return o;
  }
  static store_options store_options_of(const pool_options& o) {
    const uint64_t page = o.page_values * sizeof(T);
    const uint64_t budget = o.page_budget == 0 ? page : std::min(o.page_budget, page);
    return {{o.page_values, o.batch, o.chunk_values, o.bound}, std::max<uint64_t>(budget / 16 * 16, 16), o.store_bytes};
  }
  uint64_t page_bytes() const { return options_.page_values * sizeof(T); }
  uint64_t page_stride() const { return (page_bytes() + 255) / 256 * 256; }

  // Rejects a capturing stream, because a graph would repeat work that must happen once. Finishes a prefetch.
  void begin_call() {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream_, &capture));
    if (capture != cudaStreamCaptureStatusNone) throw std::logic_error("kv_pool: the stream is being captured");
    settle();
  }
  void settle() {
    if (arriving_.empty()) return;
    const bool whole = bool{store_.finish()};
    for (const entry b : arriving_) {
      if (whole) continue;
      free_.push_back(std::exchange(b->page, nullptr));
      evicted_.splice(evicted_.end(), resident_, b);
    }
    arriving_.clear();
  }

  entry find(block_id id) const {
    const auto known = blocks_.find(id);
    if (known == blocks_.end()) throw std::out_of_range("kv_pool: there is no block " + std::to_string(id));
    return known->second;
  }
  std::vector<entry> distinct(tuck::span<const block_id> ids) {
    std::vector<entry> found;
    ++call_;
    for (const block_id id : ids)
      if (const entry b = find(id); std::exchange(b->call, call_) != call_) found.push_back(b);
    return found;
  }

  void touch(entry b) { resident_.splice(resident_.end(), resident_, b); }
  void forget_frame(entry b) { store_.deallocate(std::exchange(b->frame, {})); }
  // Gives the block the last free page, which has its values.
  void move_in(entry b) {
    b->page = free_.back();
    free_.pop_back();
    resident_.splice(resident_.end(), evicted_, b);
  }
  std::vector<T*> free_in_order() const { return {free_.rbegin(), free_.rend()}; }  // as move_in takes them

  // Frees as many pages as these blocks need. group_ gets the blocks that have no page.
  void make_room_for(tuck::span<const block_id> ids) {
    std::vector<entry> missing;
    uint64_t here = 0;  // resident blocks; they become the most recently used, so that they are not evicted
    for (const entry b : distinct(ids)) {
      if (b->page == nullptr)
        missing.push_back(b);
      else
        touch(b), ++here;
    }
    if (here + missing.size() > options_.pages)
      throw std::invalid_argument("kv_pool: " + std::to_string(here + missing.size()) + " blocks at once, and only " +
                                  std::to_string(options_.pages) + " pages");
    make_free(missing.size(), here);
    group_ = std::move(missing);
  }
  // Frees `wanted` pages. Does not evict the `keep` most recently used blocks.
  void make_free(uint64_t wanted, uint64_t keep) {
    if (free_.size() >= wanted) return;
    const uint64_t least = wanted - free_.size();
    group_oldest(std::min<uint64_t>(std::max<uint64_t>(least, options_.evict_batch), resident_.size() - keep));
    try {
      evict_group(least);
    } catch (const tuck::error& e) {
      if (e.code() != tuck::status::pool_full) throw;
      group_framed(resident_.size() - keep);
      if (group_.size() < least) throw;
      evict_group(least);
    }
  }
  // Selects those of the `count` oldest blocks that have a frame. They can be evicted even if the store is full.
  void group_framed(uint64_t count) {
    group_oldest(count);
    std::erase_if(group_, [](entry b) { return b->frame.at.size == 0; });
  }
  void group_oldest(uint64_t count) {
    group_.clear();
    for (auto b = resident_.begin(); group_.size() < count; ++b) group_.push_back(b);
  }
  // Evicts the group, or as many of its blocks as fit, but at least `least`.
  void evict_group(uint64_t least) {
    const auto bare =
        std::stable_partition(group_.begin(), group_.end(), [](entry b) { return b->frame.at.size != 0; });
    const auto framed = static_cast<uint64_t>(bare - group_.begin());
    std::vector<T*> pages;
    std::transform(bare, group_.end(), std::back_inserter(pages), [](entry b) { return b->page; });
    store_.encode(pages, std::max(least, framed) - framed, stored_);
    for (size_t i = 0; i < stored_.size(); ++i) group_[framed + i]->frame = stored_[i];
    group_.resize(framed + stored_.size());
    for (const entry b : group_) {
      free_.push_back(std::exchange(b->page, nullptr));
      evicted_.splice(evicted_.end(), resident_, b);
    }
  }
  void gather_stored(const std::vector<entry>& blocks) {
    stored_.clear();
    for (const entry b : blocks) stored_.push_back(b->frame);
  }
  // Restores these blocks. There must be enough free pages.
  void bring_back(const std::vector<entry>& missing) {
    gather_stored(missing);
    store_.decode(stored_, free_in_order());
    for (const entry b : missing) move_in(b);
  }

  pool_options options_;
  cudaStream_t stream_;
  tuck::device_buffer<R> arena_;
  page_store<L, R, S> store_;
  std::list<block> resident_, evicted_;  // least recently used first
  std::unordered_map<block_id, entry> blocks_;
  std::vector<T*> free_;
  std::vector<entry> group_;         // blocks to be evicted or restored together
  std::vector<entry> arriving_;      // prefetched blocks, until the next call
  std::vector<stored_page> stored_;  // frames of the group, or of the blocks to restore
  uint64_t call_ = 0;
};

}  // namespace kv
