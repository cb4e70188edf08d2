// How a swap_stream works. Two streams of its own: on `out_` tensors leave, one after the other, so that the fill level
// of the pool's run, which is in device memory, is always that of the frame before; on `in_` they come back, ahead of
// the streams that want them. Frames are decoded on their consumer's stream.
//
// Nothing here waits for the device but drain, on_full::block, and calls that fail: these wait for what they had begun,
// so that an error leaves everything as it was. What the device has done is learnt from events, in order, each time
// something is asked for (`reap`). One lock guards all; CUDA calls made under it are asynchronous ones.
#pragma once

#include <tuck/swap/parked_tensor.cuh>
#include <tuck/swap/swap_options.cuh>
#include <tuck/swap/work_queue.hpp>

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>

namespace tuck::inline TUCK_ABI::detail {

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

class swap_state {
 public:
  using tensor = std::shared_ptr<parked_tensor>;

  swap_state(const swap_options& options, resource_ref resource)
      : options_(options), resource_(resource), pool_(options.pinned_bytes), compressors_(options.cpu_threads) {
    counters_ = device_buffer<resource_ref>(resource_, 256, out_);
    require(cudaMemsetAsync(counters_.all().data(), 0, 256, out_));
  }

  const swap_options& options() const noexcept { return options_; }
  pool_statistics statistics() {
    const std::lock_guard lock(mutex_);
    look_around();
    return pool_.statistics();
  }

  result out(const swap_request& request, cudaStream_t producer, tensor& parked) {
    const device_scope device(options_.device);
    if (const result r = device.entered(); !r) return r;
    if (const result r = check_stream(producer); !r) return r;
    std::unique_lock lock(mutex_);
    auto t = std::make_shared<parked_tensor>();
    t->source = request.source;
    t->codec = request.calls;
    for (;;) {
      if (const result r = reap(); !r) return r;
      if (reserve(*t, request)) break;
      if (options_.full == on_full::fail) return {status::pool_full};
      if (options_.full == on_full::keep_on_device) {
        if (const result r = keep(*t, producer); !r) return r;
        parked = std::move(t);
        return {};
      }
      if (const result r = wait_for_room(lock); !r) return r;
    }
    bool began = false;
    result r = guarded([&] { return send(t, request, producer, began); });
    if (!r) {
      if (began) static_cast<void>(cudaStreamSynchronize(out_));
      if (!outgoing_.empty() && outgoing_.back() == t) outgoing_.pop_back();
      if (began) scratch_ = {};  // who knows what the kernels left there
      t->wanted = false;
      if (t->promise.in != nullptr) pool_.withdraw(t->promise, began);
      drop(*t);
      return r;
    }
    parked = std::move(t);
    return {};
  }

  result prefetch(const tensor& t) {
    const device_scope device(options_.device);
    if (const result r = device.entered(); !r) return r;
    const auto lock = lock_with(*t);
    if (const result r = reap(); !r) return r;
    if (t->at == parked_tensor::state::kept || t->fetched) return {};
    if (t->at == parked_tensor::state::lost) return {t->written.code};
    return fetch(t, in_);
  }

  result in(const tensor& t, bytes destination, cudaStream_t consumer) {
    if (destination.size() != t->source.size() || destination.is_null()) return {status::invalid_argument};
    if (t->codec != nullptr && !tuck::aligned(destination.data(), t->codec->value_bytes)) return {status::misaligned};
    const device_scope device(options_.device);
    if (const result r = device.entered(); !r) return r;
    if (const result r = check_stream(consumer); !r) return r;
    const auto lock = lock_with(*t);
    if (const result r = reap(); !r) return r;
    if (t->at == parked_tensor::state::lost) return {t->written.code};
    if (t->at == parked_tensor::state::kept) return copy_kept(*t, destination, consumer);
    const bool prefetched = static_cast<bool>(t->fetched);
    if (!t->is_frame && !prefetched) return copy_raw(*t, destination, consumer);
    // What is still under way must not hold up, on `in_`, what is there and wanted elsewhere.
    if (!prefetched)
      if (const result r = fetch(t, t->at == parked_tensor::state::under_way ? consumer : in_); !r) return r;
    const result r = restore(*t, destination, consumer);
    if (!r && !prefetched) t->fetched = {};
    return r;
  }

  result wait_source(const tensor& t, cudaStream_t stream) {
    const device_scope device(options_.device);
    if (const result r = device.entered(); !r) return r;
    if (const result r = check_stream(stream); !r) return r;
    const std::lock_guard lock(mutex_);
    if (t->at == parked_tensor::state::kept) return {status::pool_full};
    if (t->at == parked_tensor::state::lost) return {t->written.code};
    return t->source_read == nullptr ? result{} : from_cuda(cudaStreamWaitEvent(stream, *t->source_read, 0));
  }

  outcome report(const tensor& t) {
    const std::lock_guard lock(mutex_);
    look_around();
    return t->at == parked_tensor::state::under_way ? outcome{.code = status::not_ready} : t->written;
  }
  bool is_kept(const tensor& t) {
    const std::lock_guard lock(mutex_);
    return t->at == parked_tensor::state::kept;
  }
  uint64_t pool_bytes(const tensor& t) {
    const std::lock_guard lock(mutex_);
    look_around();
    return t->room == nullptr ? 0 : t->room->place.size;
  }

  // The handle has gone.
  void release(tensor t) noexcept {
    const device_scope device(options_.device);
    const std::lock_guard lock(mutex_);
    t->wanted = false;
    if (t->at != parked_tensor::state::under_way) drop(*t);
    t->fetched = {};
    t.reset();
    look_around();
  }

  result poll() {
    const device_scope device(options_.device);
    if (const result r = device.entered(); !r) return r;
    const std::lock_guard lock(mutex_);
    if (const result r = reap(); !r) return r;
    return {std::exchange(failure_, status::ok)};
  }

  result drain() {
    const device_scope device(options_.device);
    if (const result r = device.entered(); !r) return r;
    for (std::vector<event_lease> events;; events.clear()) {
      {
        const std::lock_guard lock(mutex_);
        if (const result r = reap(); !r) return r;
        for (const tensor& t : outgoing_) events.push_back(t->arrived);
        for (const operation& op : reading_) events.push_back(op.done);
      }
      for (const event_lease& e : events)
        if (const auto error = cudaEventSynchronize(*e); error != cudaSuccess) return from_cuda(error);
      if (!events.empty()) continue;
      if (compressors_.is_idle()) break;
      compressors_.wait();
    }
    return poll();
  }

  void stop() { compressors_.stop(); }

 private:
  // Something that reads the pool, or what came from it, until its event.
  struct operation {
    event_lease done = {};
    cudaStream_t stream = nullptr;
    std::shared_ptr<pool_room> room = {};
    report_pool::lease report = {};  // of a frame that was fetched before it was known, or of a decode
    bool decodes = false;
  };

  // A graph would do again what has been promised for one time.
  static result check_stream(cudaStream_t stream) noexcept {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (const auto e = cudaStreamIsCapturing(stream, &capture); e != cudaSuccess) return from_cuda(e);
    return {capture == cudaStreamCaptureStatusNone ? status::ok : status::not_swappable};
  }

  uint64_t* used() const noexcept { return reinterpret_cast<uint64_t*>(counters_.all().data()); }
  scratch_head* copy_head() const noexcept {
    return reinterpret_cast<scratch_head*>(counters_.all().data() + scratch_head_bytes);
  }
  event_lease take_event() {
    return events_.take([] { return std::make_unique<event>(); });
  }

  // Once nobody writes where the tensor's values are.
  std::unique_lock<std::mutex> lock_with(const parked_tensor& t) {
    std::unique_lock lock(mutex_);
    rewritten_.wait(lock, [&] { return !t.is_rewritten; });
    return lock;
  }
  // Whoever wants to know of an error asks poll.
  void look_around() noexcept {
    const device_scope device(options_.device);
    static_cast<void>(guarded([&] { return reap(); }));
  }

  // -- what the device has done ------------------------------------------------------------------------------------

  static result happened(const event_lease& e, bool& yes) {
    const auto error = cudaEventQuery(*e);
    yes = error == cudaSuccess;
    return error == cudaErrorNotReady ? result{} : from_cuda(error);
  }

  result reap() {
    bool done = true;
    while (!outgoing_.empty()) {
      if (const result r = happened(outgoing_.front()->arrived, done); !r) return r;
      if (!done) break;
      settle(*outgoing_.front());
      outgoing_.pop_front();
    }
    // Consumers do not wait for each other, but what one of them is given is done in order.
    std::array<cudaStream_t, 8> busy = {};
    size_t busy_count = 0;
    for (auto op = reading_.begin(); op != reading_.end();) {
      const auto end = busy.begin() + busy_count;
      if (std::find(busy.begin(), end, op->stream) != end) {
        ++op;
        continue;
      }
      if (const result r = happened(op->done, done); !r) return r;
      if (!done) {
        if (busy_count < busy.size()) busy[busy_count++] = op->stream;
        ++op;
        continue;
      }
      if (op->decodes && !op->report->host->frame) note(op->report->host->frame.code);
      op = reading_.erase(op);
    }
    return {};
  }

  void settle(parked_tensor& t) {
    t.at = parked_tensor::state::parked;
    if (t.report != nullptr) {
      t.written = t.report->host->frame;
      t.room->place = pool_.settle(t.promise, t.report->host->offset, t.written ? t.written.bytes : 0);
      t.report = nullptr;
      if (!t.written) {
        t.at = parked_tensor::state::lost;
        note(t.written.code);
      }
    }
    t.source_read = nullptr;
    if (!t.wanted) drop(t);
  }
  void note(status failure) noexcept {
    if (failure_ == status::ok) failure_ = failure;
  }

  void drop(parked_tensor& t) noexcept { t.room = nullptr; }

  // For on_full::block: a moment, if something is under way that may make room. pool_full: nothing is. What that will
  // be, and on which stream, cannot be known, so there is no one event to wait for.
  result wait_for_room(std::unique_lock<std::mutex>& lock) {
    if (outgoing_.empty() && reading_.empty() && compressors_.is_idle()) return {status::pool_full};
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock.lock();
    return {};
  }

  // -- out -----------------------------------------------------------------------------------------------------------

  bool reserve(parked_tensor& t, const swap_request& request) {
    t.room = std::make_shared<pool_room>(pool_);
    t.is_frame = request.path == swap_path::direct || request.path == swap_path::staged;
    return t.is_frame ? pool_.make_promise(request.most, t.promise) : pool_.take(request.source.size(), t.room->place);
  }

  result keep(parked_tensor& t, cudaStream_t producer) {
    t.arrived = take_event();
    if (const result r = from_cuda(cudaEventRecord(*t.arrived, producer)); !r) return r;
    t.at = parked_tensor::state::kept;
    t.written = {t.source.size(), status::pool_full, no_chunk};
    return {};
  }

  result send(const tensor& t, const swap_request& request, cudaStream_t producer, bool& began) {
    t->arrived = t->source_read = take_event();
    if (t->is_frame) {
      t->report = reports_.take();
      *t->report->host = {{.code = status::not_ready}};
      if (scratch_.all().size() < request.scratch) {
        device_buffer<resource_ref> larger(resource_, request.scratch, out_);
        if (const result r = initialize(larger.scratch(), out_); !r) return r;
        scratch_ = std::move(larger);
      }
    } else {
      t->written = {request.source.size()};
    }
    outgoing_.push_back(t);
    if (const auto e = cudaEventRecord(turn_, producer); e != cudaSuccess) return from_cuda(e);
    if (const auto e = cudaStreamWaitEvent(out_, turn_, 0); e != cudaSuccess) return from_cuda(e);
    if (t->is_frame && t->promise.fresh)
      if (const auto e = cudaMemsetAsync(used(), 0, sizeof(uint64_t), out_); e != cudaSuccess) return from_cuda(e);
    result r;
    if (!t->is_frame)
      r = send_raw(t, request, began);
    else if (request.path == swap_path::direct)
      r = send_direct(*t, request, began);
    else
      r = send_staged(*t, request, began);
    return r ? from_cuda(cudaEventRecord(*t->arrived, out_)) : r;
  }

  result send_direct(parked_tensor& t, const swap_request& request, bool& began) {
    const result r = request.calls->encode(request.codec, request.source, pool_.device(t.promise.in->room),
                                           {used(), &t.report->device->offset}, scratch_.scratch(),
                                           &t.report->device->frame, out_, request.options, options_.limits);
    began = r || r.code == status::cuda_error;
    return r;
  }

  result send_staged(parked_tensor& t, const swap_request& request, bool& began) {
    const uint64_t room = pinned_pool::round_up(request.most);
    const device_buffer<resource_ref> staging(resource_, room + sizeof(outcome), out_);
    auto* const written = reinterpret_cast<outcome*>(staging.all().data() + room);
    result r = request.calls->encode(request.codec, request.source, staging.all().subspan(0, room), {},
                                     scratch_.scratch(), written, out_, request.options, options_.limits);
    began = r || r.code == status::cuda_error;
    if (!r) return r;
    t.source_read = take_event();
    if (const auto e = cudaEventRecord(*t.source_read, out_); e != cudaSuccess) return from_cuda(e);
    const bytes to = pool_.device(t.promise.in->room);
    return copy_frame(
        {staging.all().data(), nullptr, written, to.data(), to.size(), used(), t.report->device, copy_head()},
        options_.limits, out_);
  }

  result send_raw(const tensor& t, const swap_request& request, bool& began) {
    if (request.source.empty()) return {};
    began = true;
    if (const result r =
            copy(pool_.host(t->room->place).subspan(0, request.source.size()), request.source.data(), out_);
        !r)
      return r;
    if (!request.on_host) return {};
    struct call {
      swap_state* self;
      std::function<void()> work;
    };
    auto next = std::make_unique<call>(
        call{this, [this, t, most = request.most, codec = request.on_host] { compress(t, most, codec); }});
    const auto e = cudaLaunchHostFunc(
        out_,
        [](void* data) {
          const std::unique_ptr<call> c(static_cast<call*>(data));
          // Where there is no memory to remember it, the values stay as they are.
          static_cast<void>(guarded([&]() -> result {
            c->self->compressors_.add(std::move(c->work));
            return {};
          }));
        },
        next.get());
    if (e == cudaSuccess) static_cast<void>(next.release());
    return from_cuda(e);
  }

  // On a thread of `compressors_`: the frame of what has been copied, in its place. It goes where it fits best, or
  // where the values were; if these are being read just then, they stay, as they are wanted back anyway.
  void compress(const tensor& t, uint64_t most, const std::function<outcome(const_bytes, bytes)>& encode) noexcept {
    static_cast<void>(guarded([&]() -> result {
      std::unique_lock lock(mutex_);
      if (!t->wanted) return {};
      auto values = t->room;
      const_bytes from = pool_.host(values->place).subspan(0, t->source.size());
      lock.unlock();
      const std::unique_ptr<std::byte[]> frame(new (std::nothrow) std::byte[most]);
      const outcome written =
          frame == nullptr ? outcome{.code = status::out_of_memory} : encode(from, {frame.get(), most});
      lock.lock();
      from = {};
      if (written && pinned_pool::round_up(written.bytes) < values->place.size && t->wanted) {
        if (auto other = std::make_shared<pool_room>(pool_); pool_.take(written.bytes, other->place)) {
          lock.unlock();
          std::memcpy(pool_.host(other->place).data(), frame.get(), written.bytes);
          lock.lock();
          if (t->wanted) replace(*t, std::move(other), written);
        } else if (values.use_count() == 2) {
          pool_.shrink(values->place, written.bytes);
          t->is_rewritten = true;
          lock.unlock();
          std::memcpy(pool_.host(values->place).data(), frame.get(), written.bytes);
          lock.lock();
          t->is_rewritten = false;
          rewritten_.notify_all();
          if (t->wanted) replace(*t, values, written);
        }
      }
      values = nullptr;
      return {};
    }));
  }
  static void replace(parked_tensor& t, std::shared_ptr<pool_room> room, const outcome& written) noexcept {
    t.room = std::move(room);
    t.is_frame = true;
    t.written = written;
  }

  // -- in ------------------------------------------------------------------------------------------------------------

  // Puts `work`, which ends with an operation's event, on a stream; when it fails, that is waited for.
  template <class Work> result tracked(operation op, cudaStream_t stream, const Work& work) {
    op.done = take_event();
    op.stream = stream;
    reading_.push_back(std::move(op));
    result r = guarded(work);
    if (r) r = from_cuda(cudaEventRecord(*reading_.back().done, stream));
    if (!r) {
      static_cast<void>(cudaStreamSynchronize(stream));
      reading_.pop_back();
    }
    return r;
  }

  // What is in the pool, to device memory, by `stream`.
  result fetch(const tensor& t, cudaStream_t stream) {
    const bool known = t->promise.in == nullptr;  // where it is, and how long
    fetched_bytes to;
    to.is_frame = t->is_frame;
    to.size = !t->is_frame ? t->source.size() : known ? t->written.bytes : t->promise.most;
    to.memory = device_buffer<resource_ref>(resource_, pinned_pool::round_up(to.size) + scratch_head_bytes, stream);
    operation op{.room = t->room, .report = t->report};
    const result r = tracked(std::move(op), stream, [&]() -> result {
      if (t->at == parked_tensor::state::under_way)
        if (const auto e = cudaStreamWaitEvent(stream, *t->arrived, 0); e != cudaSuccess) return from_cuda(e);
      if (const result ready = initialize(to.scratch(), stream); !ready) return ready;
      if (!known)
        return copy_frame({pool_.device(t->promise.in->room).data(), &t->report->device->offset,
                           &t->report->device->frame, to.memory.all().data(), to.size, nullptr, nullptr, nullptr},
                          options_.limits, stream);
      return copy(to.contents(), pool_.host(t->room->place).data(), stream);
    });
    if (!r) return r;
    to.arrived = reading_.back().done;
    t->fetched = std::move(to);
    return {};
  }

  // From there to where it is wanted.
  result restore(parked_tensor& t, bytes destination, cudaStream_t consumer) {
    operation op;
    if (t.fetched.is_frame) {
      op.report = reports_.take();
      op.report->host->frame = {.code = status::not_ready};
      op.decodes = true;
    }
    const result r = tracked(op, consumer, [&] {
      if (const auto e = cudaStreamWaitEvent(consumer, *t.fetched.arrived, 0); e != cudaSuccess) return from_cuda(e);
      if (t.fetched.is_frame)
        return t.codec->decode(t.fetched.contents(), destination, t.fetched.scratch(), &op.report->device->frame,
                               consumer, {});
      return copy(destination, t.fetched.contents().data(), consumer);
    });
    if (!r) return r;
    t.fetched.memory.move_to(consumer);
    t.fetched = {};
    return {};
  }

  result copy_raw(parked_tensor& t, bytes destination, cudaStream_t consumer) {
    return tracked({.room = t.room}, consumer, [&] {
      if (t.at == parked_tensor::state::under_way)
        if (const auto e = cudaStreamWaitEvent(consumer, *t.arrived, 0); e != cudaSuccess) return from_cuda(e);
      return copy(destination, pool_.host(t.room->place).data(), consumer);
    });
  }

  static result copy_kept(parked_tensor& t, bytes destination, cudaStream_t consumer) {
    if (const auto e = cudaStreamWaitEvent(consumer, *t.arrived, 0); e != cudaSuccess) return from_cuda(e);
    if (destination.data() == t.source.data()) return {};
    return copy(destination, t.source.data(), consumer);
  }

  static result copy(bytes to, const std::byte* from, cudaStream_t stream) {
    return to.empty() ? result{} : from_cuda(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDefault, stream));
  }

 public:
  // What `body` returns, or what the exception says that it threw.
  template <class Body> static result guarded(const Body& body) noexcept {
    try {
      return body();
    } catch (const error& e) {
      return e.why();
    } catch (...) {
      return {status::out_of_memory};
    }
  }

 private:
  swap_options options_;
  resource_ref resource_;
  owned_stream out_, in_;
  pinned_pool pool_;
  event turn_;  // of the producer, recorded and waited for at once
  lease_pool<event> events_;
  report_pool reports_;
  device_buffer<resource_ref> counters_;  // the run's fill level, and what the blocks of copies share
  device_buffer<resource_ref> scratch_;   // of encodes

  std::mutex mutex_;
  std::condition_variable rewritten_;
  std::deque<tensor> outgoing_;
  std::list<operation> reading_;
  status failure_ = status::ok;  // of what the device has done since poll
  work_queue compressors_;
};

}  // namespace tuck::inline TUCK_ABI::detail
