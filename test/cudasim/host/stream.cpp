// Streams are in-order queues, each with a thread of its own, and events are points in them.
#include "host.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

namespace cudasim::detail {
namespace {

struct registry {
  quiet_mutex mutex;
  std::map<CUstream_st*, std::shared_ptr<CUstream_st>> streams;  // until their thread has ended
  std::map<int, CUstream_st*> legacy;                            // the default streams of devices, once used
  std::set<CUstream_st*> destroyed;                              // names that no other stream has got since
  std::uint64_t created = 0;
};

registry& all_streams() {
  static registry& r = *new registry;
  return r;
}

constinit thread_local bool on_stream_thread = false;
constinit std::atomic<std::uint32_t> host_functions{0};  // submitted and not ended; those of graphs are not counted

void pause(CUstream_st& s) {
  if (!get_settings().stream_delays || s.delays.below(3) != 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(s.delays.below(400)));
}

void work(const std::shared_ptr<CUstream_st>& stream) {
  runtime_scope quiet;
  CUstream_st& s = *stream;
  on_stream_thread = true;
  const unsigned pace = s.delays.below(4);  // some streams are slower than others
  for (;;) {
    std::unique_ptr<CUstream_st::entry> next;
    const std::uint32_t seen = s.signal.load();
    {
      quiet_lock lock(s.mutex);
      if (!s.queue.empty()) {
        next = std::move(s.queue.front());
        s.queue.pop_front();
      } else if (s.closing) {
        break;
      }
    }
    if (!next) {
      s.signal.wait(seen);
      continue;
    }
    next->submitted.acquire();
    for (unsigned i = 0; i <= pace; ++i) pause(s);
    next->run(s);
    next.reset();
    s.done.release();
    s.completed.fetch_add(1);
    s.completed.notify_all();
  }
  quiet_lock lock(all_streams().mutex);
  // A ThreadSanitizer fiber remembers what its stream did before its last launch: another stream may have it only if
  // the host waited for that.
  s.branches.push_back(std::move(s.runner));
  if (!tsan() || static_cast<std::int32_t>(s.waited_for - s.launched) >= 0)
    for (auto& r : s.branches)
      if (r) r->recycle();
  s.branches.clear();
  all_streams().streams.erase(&s);
}

void wake(CUstream_st& s) {
  s.signal.fetch_add(1);
  s.signal.notify_all();
}

cudaError_t create(cudaStream_t* result, unsigned flags) {
  if (!result || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
  before_streams();
  auto s = std::make_shared<CUstream_st>();
  s->device = current_device();
  s->legacy_waits = flags == cudaStreamDefault;
  {
    quiet_lock lock(all_streams().mutex);
    s->delays = random(mix(seed(), ++all_streams().created));
    all_streams().streams[s.get()] = s;
    all_streams().destroyed.erase(s.get());
  }
  std::thread([s]() mutable {
    work(s);
    runtime_scope quiet;
    s.reset();
  }).detach();
  *result = s.get();
  return cudaSuccess;
}

void close_stream(CUstream_st& s) {
  std::shared_ptr<CUstream_st> keep;
  {
    quiet_lock registry_lock(all_streams().mutex);
    keep = all_streams().streams[&s];
    quiet_lock lock(s.mutex);
    s.closing = true;
  }
  wake(s);
}

bool is_default(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

// One host thread's own default streams, by device.
struct thread_streams {
  std::map<int, CUstream_st*> of_device;
  ~thread_streams() {
    runtime_scope quiet;
    for (auto& [device, s] : of_device) close_stream(*s);
  }
};

// The stream that a default one's name stands for here and now, made when it is first asked for.
CUstream_st* default_stream(cudaStream_t name) {
  thread_local thread_streams mine;
  const int device = current_device();
  if (name == cudaStreamPerThread) {
    CUstream_st*& s = mine.of_device[device];
    if (s == nullptr && create(&s, cudaStreamDefault) != cudaSuccess) return nullptr;
    return s;
  }
  {
    quiet_lock lock(all_streams().mutex);
    if (const auto found = all_streams().legacy.find(device); found != all_streams().legacy.end()) return found->second;
  }
  CUstream_st* fresh = nullptr;
  if (create(&fresh, cudaStreamDefault) != cudaSuccess) return nullptr;
  fresh->is_legacy = true;
  quiet_lock lock(all_streams().mutex);
  const auto [it, is_new] = all_streams().legacy.try_emplace(device, fresh);
  return it->second;
}

// False where it takes nothing more.
bool push(CUstream_st& s, operation run) {
  auto next = std::make_unique<CUstream_st::entry>();
  next->run = std::move(run);
  next->submitted.release();
  {
    quiet_lock lock(s.mutex);
    if (s.closing) return false;
    s.queue.push_back(std::move(next));
    s.submitted.fetch_add(1);
  }
  wake(s);
  return true;
}

// All that `first` has been given comes before what `then` gets next.
void put_in_order(CUstream_st& first, CUstream_st& then) {
  if (first.submitted.load() == 0) return;
  auto point = std::make_shared<event_point>();
  if (push(first, [point](CUstream_st&) { point->complete(); })) push(then, [point](CUstream_st&) { point->wait(); });
}

// A device's legacy default stream waits for its blocking streams, and they for it.
cudaError_t put_in_legacy_order(CUstream_st& s) {
  if (!s.legacy_waits) return cudaSuccess;
  std::vector<std::shared_ptr<CUstream_st>> others;
  {
    quiet_lock lock(all_streams().mutex);
    for (auto& [p, other] : all_streams().streams)
      if (p != &s && other->legacy_waits && other->device == s.device && !other->closing &&
          (s.is_legacy || other->is_legacy))
        others.push_back(other);
  }
  if (s.is_legacy) {
    cudaError_t e = cudaSuccess;
    for (auto& other : others)
      if (invalidate_if_capturing(*other) != cudaSuccess) e = cudaErrorStreamCaptureImplicit;
    if (e != cudaSuccess) return e;
  }
  for (auto& other : others) put_in_order(*other, s);
  return cudaSuccess;
}

}  // namespace

void event_point::complete() {
  time = std::chrono::steady_clock::now();
  order.release();
  done.store(1);
  done.notify_all();
}

void event_point::wait() {
  done.wait(0);
  order.acquire();
}

CUstream_st* valid(cudaStream_t stream) {
  if (is_default(stream)) return default_stream(stream);
  quiet_lock lock(all_streams().mutex);
  if (all_streams().destroyed.contains(stream)) {  // CUDA may crash, and the error may be one that nobody looks at
    std::fputs("cudasim: a stream is used that has been destroyed\n", stderr);
    std::abort();
  }
  return all_streams().streams.contains(stream) ? stream : nullptr;
}

cudaError_t submit(cudaStream_t stream, operation run) {
  CUstream_st* s = valid(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  cudaError_t e = cudaSuccess;
  if (captured(*s, run, e)) return e;
  if (e = put_in_legacy_order(*s); e != cudaSuccess) return e;
  return push(*s, std::move(run)) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

void drain(CUstream_st& s) {
  const std::uint32_t target = s.submitted.load();
  for (std::uint32_t done = s.completed.load(); static_cast<std::int32_t>(done - target) < 0; done = s.completed.load())
    s.completed.wait(done);
  s.done.acquire();
  s.waited_for = target;
}

void drain_all(bool legacy_only, int device) {
  std::vector<std::shared_ptr<CUstream_st>> streams;
  {
    quiet_lock lock(all_streams().mutex);
    for (auto& [p, s] : all_streams().streams)
      if ((!legacy_only || s->legacy_waits) && (device < 0 || s->device == device)) streams.push_back(s);
  }
  for (auto& s : streams) drain(*s);
}

void wait_for_host_functions() {
  for (std::uint32_t n = host_functions.load(); n != 0; n = host_functions.load()) host_functions.wait(n);
}

bool inside_stream() { return on_stream_thread; }

void run_launch(CUstream_st& s, const kernel_launch& l) {
  s.launched = s.completed.load() + 1;
  if (!s.runner) s.runner = make_runner();
  s.runner->run(l);
}

}  // namespace cudasim::detail

using namespace cudasim::detail;

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return api(call_kind::work, [&] { return create(stream, flags); });
}

// Work that has been submitted still runs, as on a GPU.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return api(call_kind::housekeeping, [&] {
    CUstream_st* s = is_default(stream) ? nullptr : valid(stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (invalidate_if_capturing(*s) != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    close_stream(*s);
    quiet_lock lock(all_streams().mutex);
    all_streams().destroyed.insert(s);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return api(call_kind::work, [&] {
    CUstream_st* s = valid(stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t e = invalidate_if_capturing(*s); e != cudaSuccess) return e;
    count(&cudasim::counters::synchronisations);
    drain(*s);
    return device_failed() ? cudaErrorLaunchFailure : cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return api(call_kind::work, [&] {
    CUstream_st* s = valid(stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t e = invalidate_if_capturing(*s); e != cudaSuccess) return e;
    if (s->completed.load() != s->submitted.load()) return cudaErrorNotReady;
    drain(*s);
    return device_failed() ? cudaErrorLaunchFailure : cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api(call_kind::work, [&] {
    if (const cudaError_t e = forbidden_while_capturing(true); e != cudaSuccess) return e;
    count(&cudasim::counters::synchronisations);
    drain_all(false, current_device());
    return device_failed() ? cudaErrorLaunchFailure : cudaSuccess;
  });
}

// CUDA may run the host functions of all streams one at a time, so one must not wait for what is behind another.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  static quiet_mutex& one_at_a_time = *new quiet_mutex;
  return api(call_kind::work, [&] {
    if (!function) return cudaErrorInvalidValue;
    CUstream_st* s = valid(stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    const bool is_submitted = graph_of(*s) == nullptr;
    if (is_submitted) host_functions.fetch_add(1);
    const auto end = [=] {
      if (is_submitted && host_functions.fetch_sub(1) == 1) host_functions.notify_all();
    };
    const cudaError_t e = submit(stream, [=](CUstream_st&) {
      {
        quiet_lock lock(one_at_a_time);
        program_scope program;
        function(data);
      }
      end();
    });
    if (e != cudaSuccess) end();
    return e;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return api(call_kind::work, [&] {
    if (!event) return cudaErrorInvalidValue;
    *event = new CUevent_st;
    (*event)->timing = (flags & cudaEventDisableTiming) == 0;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return api(call_kind::work, [&] {
    CUstream_st* s = valid(stream);
    if (!s || !event) return cudaErrorInvalidResourceHandle;
    bool done = false;
    if (const cudaError_t e = record_captured(*s, *event, done); done) return e;
    auto point = std::make_shared<event_point>();
    event->point = point;
    event->captured = nullptr;
    return submit(stream, [point](CUstream_st&) { point->complete(); });
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return api(call_kind::work, [&] {
    CUstream_st* s = valid(stream);
    if (!s || !event) return cudaErrorInvalidResourceHandle;
    bool done = false;
    if (const cudaError_t e = wait_captured(*s, *event, done); done) return e;
    if (!event->point) return cudaSuccess;
    return submit(stream, [point = event->point](CUstream_st&) { point->wait(); });
  });
}

namespace {

cudaError_t look_at(cudaEvent_t event) {
  if (!event) return cudaErrorInvalidResourceHandle;
  if (!event->captured) return forbidden_while_capturing();
  event->captured->invalidated = true;
  return cudaErrorCapturedEvent;
}

}  // namespace

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return api(call_kind::work, [&] {
    if (const cudaError_t e = look_at(event); e != cudaSuccess) return e;
    if (!event->point) return cudaSuccess;
    if (event->point->done.load() == 0) return cudaErrorNotReady;
    event->point->wait();
    return device_failed() ? cudaErrorLaunchFailure : cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return api(call_kind::work, [&] {
    if (const cudaError_t e = look_at(event); e != cudaSuccess) return e;
    count(&cudasim::counters::synchronisations);
    if (event->point) event->point->wait();
    return device_failed() ? cudaErrorLaunchFailure : cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return api(call_kind::work, [&] {
    if (!milliseconds) return cudaErrorInvalidValue;
    if (!start || !end || !start->timing || !end->timing || !start->point || !end->point)
      return cudaErrorInvalidResourceHandle;
    if (start->point->done.load() == 0 || end->point->done.load() == 0) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(end->point->time - start->point->time).count();
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api(call_kind::housekeeping, [&] {
    if (!event) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}
