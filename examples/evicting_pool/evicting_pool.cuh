// A memory resource that goes on when its upstream has run out: it compresses the least recently used tensors and
// offloads them to pinned host memory.
//
//   example::evicting_pool pool({.pinned_bytes = 8ull << 30}, upstream);
//   auto activation = pool.make<float>(count);              // zvc<float>; or pool.make(count, codec)
//   tuck::span<float> values = activation.lock(stream);     // now they have an address, and keep it
//   activation.unlock(stream);                              // behind what uses them: from here on it may be offloaded
//
// An allocator sees bytes, and cannot take them away from behind a pointer: what `allocate` gives is plain memory that
// stays where it is, and a tensor has no address but while it is locked.
//
// Streams: what lock(s) gives is for s, which waits for the stream that had it before; who uses it on others too brings
// them together on the stream of unlock. A stream that needs room waits for those whose tensors make it. Streams are
// destroyed after the pool, which frees memory on them. Any threads may use it; it calls upstream under its lock. One
// device, current in each call.
#pragma once

#include "check.cuh"
#include "reserve_resource.cuh"

#include <tuck/swap.cuh>

#include <functional>
#include <list>
#include <memory>
#include <mutex>

namespace example {

template <tuck::stream_resource Upstream> class evicting_pool {
  struct record;
  // One call at a time; it may allocate while a stream of the program is captured.
  struct turn {
    explicit turn(evicting_pool& pool) : guard(pool.mutex_) {}
    const relaxed_capture relaxed;
    const std::lock_guard<std::mutex> guard;
  };
  struct forget {
    evicting_pool* pool;
    void operator()(record* r) const noexcept {
      const turn now(*pool);
      pool->tensors_.erase(r->self);
    }
  };

 public:
  // Move-only, and destroyed before the pool is; that also unlocks it, in the order of the stream of lock.
  template <tuck::element T> class tensor {
   public:
    // Values are undefined until they are first written. Throws what upstream throws when nothing is left to offload,
    // and tuck::error; then nothing is lost. One lock at a time: another is an invalid_argument.
    tuck::span<T> lock(cudaStream_t stream) { return {static_cast<T*>(pool().lock(*record_, stream)), size()}; }
    void unlock(cudaStream_t stream) { pool().unlock(*record_, stream); }
    uint64_t size() const noexcept { return record_->bytes / sizeof(T); }

   private:
    friend evicting_pool;
    tensor(record& r, evicting_pool* pool) noexcept : record_(&r, {pool}) {}
    evicting_pool& pool() const noexcept { return *record_.get_deleter().pool; }
    std::unique_ptr<record, forget> record_;
  };

  struct counts {
    uint64_t offloaded = 0, restored = 0, bytes_out = 0;  // tensors, and bytes of their values
    tuck::pool_statistics pinned = {};
  };

  evicting_pool(const tuck::swap_options& options, Upstream& upstream)
      : upstream_(&upstream), reserve_(upstream), swap_(options, reserve_) {
    check(cudaEventCreateWithFlags(&turn_, cudaEventDisableTiming));
  }
  ~evicting_pool() { static_cast<void>(cudaEventDestroy(turn_)); }

  // It gets memory when it is first locked; `codec` is what it is offloaded by.
  template <tuck::codec C> tensor<tuck::value_t<C>> make(uint64_t count, const C& codec) {
    static_assert(!tuck::is_lossy<C>, "a tensor is offloaded again and again: errors would add up");
    using T = tuck::value_t<C>;
    if (tuck::max_frame_bytes(codec, count) == 0) throw tuck::error(tuck::status::invalid_argument);
    std::list<record> made(1);
    record& r = made.front();
    r.self = made.begin();
    r.bytes = count * sizeof(T);
    r.out = [this, codec, &r](cudaStream_t stream, tuck::swap_handle& handle) {
      const tuck::bytes values = r.memory.all();
      return swap_.out(codec, {reinterpret_cast<const T*>(values.data()), r.bytes / sizeof(T)}, stream, handle);
    };
    const std::lock_guard guard(mutex_);
    r.scratch = tuck::scratch_bytes(codec, count);
    tensors_.splice(tensors_.begin(), made);
    return tensor<T>(r, this);
  }
  template <tuck::element T> tensor<T> make(uint64_t count) { return make(count, tuck::zvc<T>{}); }

  void* allocate(cudaStream_t stream, size_t size, size_t alignment = 256) {
    const turn now(*this);
    return with_room(stream, [&] { return tuck::allocate_from(*upstream_, size, alignment, stream); });
  }
  void deallocate(cudaStream_t stream, void* p, size_t size, size_t alignment = 256) noexcept {
    const turn now(*this);
    tuck::deallocate_to(*upstream_, p, size, alignment, stream);
  }

  counts statistics() {
    const turn now(*this);
    check(swap_.poll());
    counts_.pinned = swap_.statistics();
    return counts_;
  }

 private:
  using buffer = tuck::device_buffer<Upstream>;
  struct record {
    typename std::list<record>::iterator self;
    uint64_t bytes = 0, scratch = 0;  // of the values, and to encode them
    std::function<tuck::result(cudaStream_t, tuck::swap_handle&)> out;
    enum { absent, resident, locked } at = absent;
    buffer memory;             // unless absent; its stream is the one that it was used on last
    tuck::swap_handle handle;  // of an absent one that has values
  };

  // What `take` returns, after the reserve has been seen to; if need be once tensors have been offloaded.
  template <class Take> auto with_room(cudaStream_t stream, const Take& take) {
    if (is_captured(stream)) throw tuck::error(tuck::status::not_swappable);
    for (;;) try {
        reserve_.refill(stream);
        return take();
      } catch (const std::bad_alloc&) {
        if (!offload_one(stream)) throw;
      } catch (const tuck::error& e) {
        if (!is_lack_of_memory(e.why()) || !offload_one(stream)) throw;
      }
  }

  // Of the tensors that there is pinned memory for, the one used longest ago: what it had on the device is given back
  // in the order of `stream`, which is to have it next. False: there is nothing to hope for.
  bool offload_one(cudaStream_t stream) {
    for (record& t : tensors_) {
      if (t.at != record::resident || is_captured(t.memory.stream())) continue;
      follow(t.memory, stream);
      tuck::swap_handle handle;
      reserve_.open(true);
      const tuck::result out = t.out(stream, handle);
      reserve_.open(false);
      if (handle.kept_on_device() || is_lack_of_memory(out)) continue;
      check(out);
      if (const tuck::result read = handle.wait_source(stream); !read) {
        static_cast<void>(swap_.drain());  // what is given up may still be read
        check(read);
      }
      t.memory = {};
      t.handle = std::move(handle);
      t.at = record::absent;
      ++counts_.offloaded;
      counts_.bytes_out += t.bytes;
      return true;
    }
    // What is under way is taken for the worst case, in pinned memory and where it is brought back.
    const bool hope = swap_.statistics().reserved != 0;
    if (hope) check(swap_.drain());
    return hope;
  }

  // A graph's memory and order are its own.
  static bool is_captured(cudaStream_t stream) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream, &capture));
    return capture != cudaStreamCaptureStatusNone;
  }

  // Puts `stream` behind what used the memory last.
  void follow(buffer& memory, cudaStream_t stream) {
    if (memory.stream() == stream) return;
    check(cudaEventRecord(turn_, memory.stream()));
    check(cudaStreamWaitEvent(stream, turn_, 0));
    memory.move_to(stream);
  }

  void* lock(record& t, cudaStream_t stream) {
    const turn now(*this);
    if (t.at == record::locked) throw tuck::error(tuck::status::invalid_argument);
    if (is_captured(stream)) throw tuck::error(tuck::status::not_swappable);
    check(swap_.poll());
    if (t.at == record::absent) {
      auto wanted = reserve_.want(t.scratch);  // unless it gets its memory
      buffer memory = with_room(stream, [&] { return buffer(*upstream_, t.bytes, stream); });
      if (t.handle) {  // where its frame has no room on the device, it is decoded from pinned memory
        check(swap_.in(t.handle, memory.all(), stream));
        t.handle.reset();
        ++counts_.restored;
      }
      t.memory = std::move(memory);
      wanted.keep();
    }
    follow(t.memory, stream);
    t.at = record::locked;
    return t.memory.all().data();
  }

  void unlock(record& t, cudaStream_t stream) {
    const std::lock_guard guard(mutex_);
    if (t.at != record::locked) throw tuck::error(tuck::status::invalid_argument);
    t.memory.move_to(stream);
    t.at = record::resident;
    tensors_.splice(tensors_.end(), tensors_, t.self);
  }

  std::mutex mutex_;
  Upstream* upstream_;
  cudaEvent_t turn_ = nullptr;          // recorded and waited for at once
  reserve_resource<Upstream> reserve_;  // scratch for offload_one to encode with, when memory is gone
  tuck::swap_stream swap_;
  std::list<record> tensors_;  // used longest ago first
  counts counts_;
};
static_assert(tuck::stream_resource<evicting_pool<tuck::async_resource>>);

}  // namespace example
