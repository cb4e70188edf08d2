// A paged KV cache that is larger than its device memory. Blocks of a fixed number of values, as vLLM has them, live in
// an arena of pages on the device. Where there are more blocks than pages, those least recently used are encoded and
// kept in a store, each in the bytes that its frame has and not in those of a page.
//
//   tuck::async_resource memory;
//   tuck::pinned_resource host;  // the store may also be on the device, or wherever a resource has memory
//   kv::kv_pool<tuck::exponents<tuck::bf16>> pool(
//       {}, {.page_values = 8192, .pages = 4096, .store_bytes = 1 << 30}, memory, host, stream);
//   pool.put(id, values);               // a block
//   pool.fetch(block_table, pages);     // those of an attention step, on the device again: one decode for all
//   attention<<<..., stream>>>(pages);
//   pool.prefetch(next_block_table);    // decodes beside the attention
//
// Each block has a budget of bytes. It is stored without loss if that fits, else within pool_options::bound if the
// caller allows one, else as it is: raw. `report` says which, and which bound holds for this block's values.
//
// Blocks are read often and, once full, not written again. So a block that comes back keeps its frame until it is
// written or erased: to evict it again costs nothing, and a lossy codec sees its values once. (Quantizing what was
// quantized would add error to error.) The store is for all blocks that have been evicted, then.
//
// One thread and one stream: all work is put on the constructor's stream, or waits for it, and so are the kernels that
// use a page, before the next call that may evict it. What uses it on other streams is ordered by the caller's events.
// So pages, staging and the store can change hands at once: who gets them comes behind who had them. The current device
// is the stream's.
//
// Evicting waits for the stream once a batch, since the host must know how long the frames are, and so does fetching
// what was evicted, since a frame is given up only when the device has said that the page is whole. Prefetching waits
// only where it must evict; the next call waits for what it began. Nothing else waits, and only the constructor
// allocates device or pinned memory.
//
// A call that throws has lost nothing: each block has its values, on the device or in the store. Blocks may count as
// used, or be evicted, for what then failed.
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
  uint64_t page_values = 0;      // of each block: tokens x heads x their size
  uint32_t pages = 0;            // on the device
  uint64_t store_bytes = 0;      // for frames; erase and edit give theirs up
  uint64_t page_budget = 0;      // bytes of a frame; 0, or more than a page has: those of a page
  tuck::error_bound bound = {};  // for blocks that exceed the budget without loss; 0: none may lose anything
  uint32_t chunk_values = 0;     // that `read` decodes alone, such as those of a few tokens; 0: the codec's own choice
  uint32_t evict_batch = 8;      // so many are evicted where one must be, as far as they can be
  uint32_t batch = 32;           // the most of one launch: there is staging for so many
};

struct pool_statistics {
  uint64_t resident = 0, evicted = 0;           // blocks
  uint64_t framed = 0;                          // those evicted, and those that have their frames still
  uint64_t lossless = 0, bounded = 0, raw = 0;  // of those
  uint64_t raw_bytes = 0, held_bytes = 0;       // of those: as pages, and of the store
};

// How a block is stored. Without a frame: no bytes.
struct page_report {
  uint32_t form = TUCK_PAGES_RAW;
  uint64_t bytes = 0;
  double bound = 0;  // what the error of no value exceeds
};

template <tuck::codec L, tuck::stream_resource R = tuck::async_resource,
          tuck::stream_resource S = tuck::pinned_resource>
class kv_pool {
 public:
  using T = tuck::value_t<L>;
  using block_id = uint64_t;

  // `memory` and `frames`, which the store is from, outlive the pool. Throws where there is no memory, or the bound is
  // bad.
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

  // A block's values, whether it is new or had others before, from the device or the host, where they stay as they are
  // until the stream has come here.
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

  // The pages of these blocks, all of them on the device at once, and theirs until a call that may evict them.
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
  // Begins to bring these blocks back, beside the stream: those that one batch takes, the first ones. A hint: what is
  // wrong with a frame, fetch says.
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

  // The same page to be written, in the order of the stream. A lossy codec sees the other values once more then, and
  // bounds that follow the values - range-relative ones - would let their errors grow.
  T* edit(block_id id) {
    static_cast<void>(page(id));
    forget_frame(find(id));
    return find(id)->page;
  }
  // A copy of a block's values, on the device or the host, once the stream has come here.
  void get(block_id id, T* out) { check(cudaMemcpyAsync(out, page(id), page_bytes(), cudaMemcpyDefault, stream_)); }

  // Values [first, first + out.size()) of a block, such as those of a few tokens, to memory that the device can write.
  // A block that is evicted stays so, and only the chunks of these values are decoded. Waits for the stream.
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

  // These blocks, or so many of the least recently used, to the store; where it has no room for them, tuck::error with
  // pool_full, and all stay where they are.
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
  bool is_resident(block_id id) const { return find(id)->page != nullptr; }  // or on its way
  page_report report(block_id id) const {
    const stored_page& frame = find(id)->frame;
    return {frame.form, frame.at.size, frame.bound};
  }
  // Where the block's frame is in the store.
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
    stored_page frame;  // empty: evicting it means encoding it
    uint64_t call;      // the last that named it
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

  // What the pool does it does once; a graph would do it again. What was prefetched has arrived.
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
  void forget_frame(entry b) { store_.give_back(std::exchange(b->frame, {})); }
  // The values are in the last of the free pages.
  void move_in(entry b) {
    b->page = free_.back();
    free_.pop_back();
    resident_.splice(resident_.end(), evicted_, b);
  }
  std::vector<T*> free_in_order() const { return {free_.rbegin(), free_.rend()}; }  // in which move_in takes them

  // As many free pages as these blocks lack; the group is those that do.
  void make_room_for(tuck::span<const block_id> ids) {
    std::vector<entry> missing;
    uint64_t here = 0;  // blocks that the others must not evict: they are made the most recently used
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
  // As many free pages, by evicting others than the `keep` blocks that were used last.
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
  // Of so many of the oldest, those that have their frames, and can go where there is no room for more.
  void group_framed(uint64_t count) {
    group_oldest(count);
    std::erase_if(group_, [](entry b) { return b->frame.at.size == 0; });
  }
  void group_oldest(uint64_t count) {
    group_.clear();
    for (auto b = resident_.begin(); group_.size() < count; ++b) group_.push_back(b);
  }
  // The group, or so many of it as there is room for, which are at least `least`.
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
  // There are free pages for all of them.
  void bring_back(const std::vector<entry>& missing) {
    gather_stored(missing);
    store_.decode(stored_, free_in_order());
    for (const entry b : missing) move_in(b);
  }

  pool_options options_;
  cudaStream_t stream_;
  tuck::device_buffer<R> arena_;
  page_store<L, R, S> store_;
  std::list<block> resident_, evicted_;  // the least recently used first
  std::unordered_map<block_id, entry> blocks_;
  std::vector<T*> free_;
  std::vector<entry> group_;         // to be evicted, or fetched, together
  std::vector<entry> arriving_;      // what was prefetched, until the next call
  std::vector<stored_page> stored_;  // of the group, or of those that come back
  uint64_t call_ = 0;
};

}  // namespace kv
