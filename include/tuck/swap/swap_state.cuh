// SPDX-License-Identifier: Apache-2.0
// The implementation of swap_stream. It has two streams:
//
//   out_   Offloads tensors one after the other. The fill level of the pool's run is in device memory; this order
//          guarantees that each frame sees the fill level that the previous frame has left.
//   in_    Copies tensors from the pool to device memory. Frames are decoded on the streams of their consumers.
//
// Only drain, on_full::block, failing calls, and `in` without device memory wait for the device. A failing call waits
// for the work that it has started, so that an error leaves everything unchanged. `reap` queries events, in order, to
// find out what the device has finished. Most calls start with it. One lock guards everything. CUDA calls under the
// lock are asynchronous. Internal functions throw errors. `guarded` converts them to results at the end of each public
// call.
#pragma once

#include <tuck/swap/host_encoder.cuh>

#include <chrono>
#include <deque>
#include <map>
#include <thread>

namespace tuck::inline TUCK_ABI::detail::inline TUCK_ARCH {

class swap_state final : public swap_backend {
 public:
  swap_state(const swap_options& options, resource_ref resource)
      : options_(options),
        resource_(resource),
        pool_(options.pinned_bytes),
        encoder_(options.cpu_threads, mutex_, pool_) {
    counters_ = device_buffer<resource_ref>(resource_, 256, out_);
    require(cudaMemsetAsync(counters_.all().data(), 0, 256, out_));
  }

  const swap_options& options() const noexcept override { return options_; }
  pool_statistics statistics() override {
    const std::lock_guard lock(mutex_);
    try_reap();
    return pool_.statistics();
  }

  result out(const swap_request& request, cudaStream_t producer, tensor& offloaded) override {
    public_call now(*this);
    refuse_capture(producer);
    const bool fits =
        pinned_pool::round_up(is_frame(request) ? request.most : request.source.size()) <= pool_.capacity();
    if (!fits && (options_.full != on_full::keep_on_device || pool_.capacity() == 0)) return {status::pool_too_small};
    auto t = std::make_shared<offloaded_tensor>();
    t->source = request.source;
    t->type = request.type;
    t->alignment = request.alignment;
    t->decode = request.decode;
    for (;;) {
      reap();
      if (reserve(*t, request)) break;
      if (options_.full == on_full::keep_on_device) {
        keep(*t, producer, fits ? status::pool_full : status::pool_too_small);
        offloaded = std::move(t);
        return {};
      }
      // Which operation frees enough capacity is unknown, so look again and again. A host function could signal each
      // end, but it would delay the stream behind it, and host functions of the program would delay it.
      const bool idle = outgoing_.empty() && reading_.empty() && encoder_.is_idle();
      if (options_.full == on_full::fail || idle) return {status::pool_full};
      now.lock.unlock();
      std::this_thread::sleep_for(poll_interval);
      now.lock.lock();
    }
    bool began = false;
    const result r = guarded([&] { send(t, request, producer, began); });
    if (r) {
      offloaded = std::move(t);
      return r;
    }
    if (began) static_cast<void>(cudaStreamSynchronize(out_));
    if (!outgoing_.empty() && outgoing_.back() == t) outgoing_.pop_back();
    if (began) scratch_ = {};  // its contents are unknown
    t->wanted = false;
    if (t->reservation.in != nullptr) pool_.withdraw(t->reservation, began);
    t->storage = nullptr;
    return r;
  }

  result prefetch(const tensor& t) override {
    public_call now(*this);
    encoder_.wait_for(*t, now.lock);
    reap();
    if (t->at == offloaded_tensor::state::lost) return {t->written.code};
    if (t->at != offloaded_tensor::state::kept && !t->fetched) fetch(t, in_);
    return {};
  }

  result in(const tensor& t, bytes destination, cudaStream_t consumer) override {
    if (destination.is_null()) return {status::null_pointer};
    if (destination.size() != t->source.size()) return {status::wrong_size};
    if (!tuck::aligned(destination.data(), t->alignment)) return {status::misaligned};
    public_call now(*this);
    refuse_capture(consumer);
    encoder_.wait_for(*t, now.lock);
    reap();
    if (t->at == offloaded_tensor::state::lost) return {t->written.code};
    const bool prefetched = static_cast<bool>(t->fetched);
    if (t->at == offloaded_tensor::state::kept) {
      copy_kept(*t, destination, consumer);
    } else if (!t->is_frame && !prefetched) {
      copy_raw(*t, destination, consumer);
    } else {
      if (!prefetched)
        if (const result r = fetch_to_restore(t, consumer, now.lock); !r) {
          if (!is_out_of_memory(r)) return r;
          restore_from_pool(*t, destination, consumer);
          return {};
        }
      const result r = guarded([&] { restore(*t, destination, consumer); });
      if (!r && !prefetched) t->fetched = {};
      return r;
    }
    return {};
  }

  result wait_source(const tensor& t, cudaStream_t stream) override {
    const public_call now(*this);
    refuse_capture(stream);
    if (t->at == offloaded_tensor::state::kept || t->at == offloaded_tensor::state::lost) return {t->written.code};
    return t->source_read == nullptr ? result{} : from_cuda(cudaStreamWaitEvent(stream, *t->source_read, 0));
  }

  outcome report(const tensor& t) override {
    const std::lock_guard lock(mutex_);
    try_reap();
    return t->at == offloaded_tensor::state::under_way ? outcome{.code = status::not_ready} : t->written;
  }
  bool is_kept(const tensor& t) override {
    const std::lock_guard lock(mutex_);
    return t->at == offloaded_tensor::state::kept;
  }
  uint64_t pool_bytes(const tensor& t) override {
    const std::lock_guard lock(mutex_);
    try_reap();
    return t->storage == nullptr ? 0 : t->storage->range.size;
  }

  uint64_t raw_bytes(const tensor& t) const noexcept override { return t->source.size(); }
  element_type type(const tensor& t) const noexcept override { return t->type; }

  void release(tensor t) noexcept override {
    const swap_scope device(options_.device);
    const std::lock_guard lock(mutex_);
    t->wanted = false;
    if (t->at != offloaded_tensor::state::under_way) t->storage = nullptr;
    t->fetched = {};
    t.reset();
    try_reap();
  }

  result poll() override {
    const public_call now(*this);
    reap();
    return {std::exchange(failure_, status::ok)};
  }

  result drain() override {
    const swap_scope device(options_.device);
    for (;;) {
      std::vector<signal_pool::handle> events;
      {
        const public_call now(*this);
        reap();
        for (const tensor& t : outgoing_) events.push_back(t->arrived);
        for (const auto& [stream, operations] : reading_) events.push_back(operations.back().done);
      }
      if (events.empty()) break;
      for (const signal_pool::handle& e : events) require(cudaEventSynchronize(*e));
    }
    encoder_.wait();
    return poll();
  }

  void stop() override { encoder_.stop(); }

 private:
  static constexpr std::chrono::microseconds poll_interval{200};  // of a call that waits for capacity

  // An operation that reads the pool, or a device copy from it, until its event.
  struct operation {
    signal_pool::handle done = {};  // with the report of a decode
    std::shared_ptr<pool_extent> storage = {};
    signal_pool::handle arrived = {};  // of the tensor, if the operation reads its report
    bool decodes = false;
  };

  // Scope of a public call: a swap_scope that holds the lock.
  struct public_call {
    explicit public_call(swap_state& state) : device(state.options_.device) {
      require(device.entered());
      lock = std::unique_lock(state.mutex_);
    }
    swap_scope device;
    std::unique_lock<std::mutex> lock;
  };

  // Replaying a graph would repeat operations whose memory is assigned only once.
  static void refuse_capture(cudaStream_t stream) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    require(cudaStreamIsCapturing(stream, &capture));
    if (capture != cudaStreamCaptureStatusNone) throw error(status::not_swappable);
  }

  uint64_t* used() const noexcept { return reinterpret_cast<uint64_t*>(counters_.all().data()); }
  scratch_head* copy_head() const noexcept {
    return reinterpret_cast<scratch_head*>(counters_.all().data() + scratch_head_bytes);
  }
  scratch_span decode_scratch() const noexcept {
    return scratch_span(counters_.all().subspan(2 * scratch_head_bytes, scratch_head_bytes));
  }
  void note(status failure) noexcept {
    if (failure_ == status::ok) failure_ = failure;
  }

  // -- progress of the device ---------------------------------------------------------------------------------------

  // Errors are ignored here: poll reports them.
  void try_reap() noexcept {
    const swap_scope device(options_.device);
    static_cast<void>(guarded([&] { reap(); }));
  }

  static bool happened(const signal_pool::handle& e) {
    const auto error = cudaEventQuery(*e);
    if (error != cudaErrorNotReady) require(error);
    return error == cudaSuccess;
  }

  void reap() {
    for (; !outgoing_.empty() && happened(outgoing_.front()->arrived); outgoing_.pop_front())
      settle(*outgoing_.front());
    // Operations of one consumer finish in order; consumers are independent of each other.
    for (auto consumer = reading_.begin(); consumer != reading_.end();) {
      auto& operations = consumer->second;
      for (; !operations.empty() && happened(operations.front().done); operations.pop_front())
        if (const operation& op = operations.front(); op.decodes && !op.done->report->frame)
          note(op.done->report->frame.code);
      consumer = operations.empty() ? reading_.erase(consumer) : std::next(consumer);
    }
  }

  void settle(offloaded_tensor& t) {
    t.at = offloaded_tensor::state::offloaded;
    if (t.reservation.in != nullptr) {
      t.written = t.arrived->report->frame;
      t.storage->range = pool_.settle(t.reservation, t.arrived->report->offset, t.written ? t.written.bytes : 0);
      if (!t.written) {
        t.at = offloaded_tensor::state::lost;
        note(t.written.code);
      }
    }
    t.arrived = t.source_read = nullptr;
    if (!t.wanted) t.storage = nullptr;
  }

  // -- out -----------------------------------------------------------------------------------------------------------

  // Whether the device writes a frame, rather than the values as they are.
  static bool is_frame(const swap_request& request) noexcept {
    return request.path == swap_path::direct || request.path == swap_path::staged;
  }
  bool reserve(offloaded_tensor& t, const swap_request& request) {
    t.storage = std::make_shared<pool_extent>(pool_);
    t.is_frame = is_frame(request);
    return t.is_frame ? pool_.reserve(request.most, t.reservation)
                      : pool_.allocate(request.source.size(), t.storage->range);
  }

  void keep(offloaded_tensor& t, cudaStream_t producer, status why) {
    t.arrived = signals_.acquire();
    require(cudaEventRecord(*t.arrived, producer));
    t.at = offloaded_tensor::state::kept;
    t.written = {t.source.size(), why, no_chunk};
  }

  void send(const tensor& t, const swap_request& request, cudaStream_t producer, bool& began) {
    t->arrived = t->source_read = signals_.acquire();
    if (t->is_frame) {
      *t->arrived->report = {{.code = status::not_ready}};
      if (scratch_.all().size() < request.scratch) {
        device_buffer<resource_ref> larger(resource_, request.scratch, out_);
        require(initialize(larger.scratch(), out_));
        scratch_ = std::move(larger);
      }
    } else {
      t->written = {request.source.size()};
    }
    outgoing_.push_back(t);
    require(cudaEventRecord(producer_done_, producer));
    require(cudaStreamWaitEvent(out_, producer_done_, 0));
    if (t->is_frame && t->reservation.fresh) require(cudaMemsetAsync(used(), 0, sizeof(uint64_t), out_));
    if (t->is_frame)
      send_frame(*t, request, began);
    else if (!request.source.empty())
      send_raw(t, request, began);
    require(cudaEventRecord(*t->arrived, out_));
  }

  void send_frame(offloaded_tensor& t, const swap_request& request, bool& began) {
    const auto encode = [&](bytes buffer, append_target target, outcome* written) {
      const result r = request.encode(buffer, target, scratch_.scratch(), written, out_);
      began = r || r.code == status::cuda_error;
      require(r);
    };
    const bytes to = pool_.device(t.reservation.in->range);
    offload_report* const report = t.arrived->on_device;
    if (request.path == swap_path::direct) return encode(to, {used(), &report->offset}, &report->frame);
    const uint64_t capacity = pinned_pool::round_up(request.most);
    const device_buffer<resource_ref> staging(resource_, capacity + sizeof(outcome), out_);
    std::byte* const from = staging.all().data();
    auto* const written = reinterpret_cast<outcome*>(from + capacity);
    encode({from, capacity}, {}, written);
    t.source_read = signals_.acquire();
    require(cudaEventRecord(*t.source_read, out_));
    require(
        copy_frame({from, nullptr, written, to.data(), to.size(), used(), report, copy_head()}, options_.limits, out_));
  }

  void send_raw(const tensor& t, const swap_request& request, bool& began) {
    began = true;
    copy(pool_.host(t->storage->range).subspan(0, request.source.size()), request.source.data(), out_);
    if (request.on_host) encoder_.add(t, request.most, request.on_host, out_);
  }

  // -- in ------------------------------------------------------------------------------------------------------------

  // Submits `work` to `stream` and records the returned event after it. If this fails, waits for the submitted work.
  template <class Work> signal_pool::handle tracked(operation op, cudaStream_t stream, const Work& work) {
    if (op.done == nullptr) op.done = signals_.acquire();
    auto done = op.done;
    auto& operations = reading_[stream];
    operations.push_back(std::move(op));
    const result r = guarded([&] {
      work();
      require(cudaEventRecord(*done, stream));
    });
    if (r) return done;
    static_cast<void>(cudaStreamSynchronize(stream));
    operations.pop_back();
    throw error(r);
  }

  // Makes `stream` wait until the tensor is in the pool.
  static void wait_arrived(const offloaded_tensor& t, cudaStream_t stream) {
    if (t.at == offloaded_tensor::state::under_way) require(cudaStreamWaitEvent(stream, *t.arrived, 0));
  }

  // Copies a frame or raw values from the pool to device memory, on `stream`.
  void fetch(const tensor& t, cudaStream_t stream) {
    const bool known = t->reservation.in == nullptr;  // its offset and size
    fetched_bytes to;
    to.is_frame = t->is_frame;
    to.size = !t->is_frame ? t->source.size() : known ? t->written.bytes : t->reservation.most;
    to.memory = device_buffer<resource_ref>(resource_, pinned_pool::round_up(to.size) + scratch_head_bytes, stream);
    to.arrived = tracked({.storage = t->storage, .arrived = t->arrived}, stream, [&] {
      wait_arrived(*t, stream);
      require(initialize(to.scratch(), stream));
      if (known) return copy(to.contents(), pool_.host(t->storage->range).data(), stream);
      const offload_report* const report = t->arrived->on_device;
      require(copy_frame({pool_.device(t->reservation.in->range).data(), &report->offset, &report->frame,
                          to.memory.all().data(), to.size, nullptr, nullptr, nullptr},
                         options_.limits, stream));
    });
    t->fetched = std::move(to);
  }

  // Fetches a tensor that `consumer` restores. If the resource has no memory for the largest possible frame, waits
  // until the frame is in the pool, and asks for its size. Releases the lock while it waits.
  result fetch_to_restore(const tensor& t, cudaStream_t consumer, std::unique_lock<std::mutex>& lock) {
    // On `in_`, a tensor that is not yet in the pool would delay others. So the consumer's stream fetches it.
    const bool known = t->at != offloaded_tensor::state::under_way;
    const result r = guarded([&] { fetch(t, known ? in_ : consumer); });
    if (known || !is_out_of_memory(r)) return r;
    {
      const signal_pool::handle arrived = t->arrived;
      lock.unlock();
      const cudaError_t e = cudaEventSynchronize(*arrived);
      lock.lock();
      require(e);
    }
    reap();
    if (t->at == offloaded_tensor::state::lost) return {t->written.code};
    return t->fetched ? result{} : guarded([&] { fetch(t, in_); });  // another thread may have fetched it
  }
  // Whether a resource threw. CUDA keeps the error of an allocation, which is none of the caller's.
  static bool is_out_of_memory(const result& r) noexcept {
    const bool of_cuda = r.code == status::cuda_error && r.cuda == cudaErrorMemoryAllocation;
    if (of_cuda && cudaPeekAtLastError() == cudaErrorMemoryAllocation) static_cast<void>(cudaGetLastError());
    return of_cuda || r.code == status::out_of_memory;
  }

  // Decodes a frame where it is in the pool, without device memory of its own. All such decodes share a scratch, so
  // each waits for the one before it.
  void restore_from_pool(offloaded_tensor& t, bytes destination, cudaStream_t consumer) {
    const operation op{.done = signals_.acquire(), .storage = t.storage, .decodes = true};
    op.done->report->frame = {.code = status::not_ready};
    tracked(op, consumer, [&] {
      require(cudaStreamWaitEvent(consumer, decoded_from_pool_, 0));
      const bytes frame = pool_.device(t.storage->range).subspan(0, t.written.bytes);
      require(t.decode(frame, destination, decode_scratch(), &op.done->on_device->frame, consumer));
      require(cudaEventRecord(decoded_from_pool_, consumer));
    });
  }

  // Decodes or copies fetched bytes to the destination, and frees them.
  void restore(offloaded_tensor& t, bytes destination, cudaStream_t consumer) {
    fetched_bytes& from = t.fetched;
    const operation op{.done = signals_.acquire(), .decodes = from.is_frame};
    op.done->report->frame = {.code = status::not_ready};
    tracked(op, consumer, [&] {
      require(cudaStreamWaitEvent(consumer, *from.arrived, 0));
      if (!op.decodes) return copy(destination, from.contents().data(), consumer);
      require(t.decode(from.contents(), destination, from.scratch(), &op.done->on_device->frame, consumer));
    });
    from.memory.move_to(consumer);
    from = {};
  }

  void copy_raw(offloaded_tensor& t, bytes destination, cudaStream_t consumer) {
    tracked({.storage = t.storage}, consumer, [&] {
      wait_arrived(t, consumer);
      copy(destination, pool_.host(t.storage->range).data(), consumer);
    });
  }

  void copy_kept(offloaded_tensor& t, bytes destination, cudaStream_t consumer) {
    tracked({}, consumer, [&] {
      require(cudaStreamWaitEvent(consumer, *t.arrived, 0));
      if (destination.data() != t.source.data()) copy(destination, t.source.data(), consumer);
    });
  }

  static void copy(bytes to, const std::byte* from, cudaStream_t stream) {
    if (!to.empty()) require(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDefault, stream));
  }

  swap_options options_;
  resource_ref resource_;
  owned_stream out_, in_;
  pinned_pool pool_;
  event producer_done_;      // orders out_ after a producer; reused by each call
  event decoded_from_pool_;  // the last use of the scratch of decodes from the pool
  signal_pool signals_;
  device_buffer<resource_ref> counters_;  // fill level of the run, scratch of frame copies, scratch of decodes
  device_buffer<resource_ref> scratch_;   // for encodes

  std::mutex mutex_;
  std::deque<tensor> outgoing_;
  std::map<cudaStream_t, std::deque<operation>> reading_;  // operations per stream, oldest first
  status failure_ = status::ok;                            // first error of the device since the last poll
  host_encoder encoder_;
};

}  // namespace tuck::inline TUCK_ABI::detail::inline TUCK_ARCH
