// Device and pinned memory: ordinary host allocations, so that the sanitizers see their bounds and their end.
#include "host.hpp"

#include <cstdlib>
#include <cstring>
#include <map>

namespace cudasim::detail {
namespace {

struct allocation {
  std::size_t bytes;
  bool device_memory;
  int device;
  bool captured;  // owned by a graph
};

struct heap {
  quiet_mutex mutex;
  std::map<std::uintptr_t, allocation> live;
};

heap& the_heap() {
  static heap& h = *new heap;
  return h;
}

std::uintptr_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

// The allocation that p points into.
const std::pair<const std::uintptr_t, allocation>* find(const void* p) {
  auto after = the_heap().live.upper_bound(number(p));
  if (after == the_heap().live.begin()) return nullptr;
  --after;
  return number(p) < after->first + after->second.bytes ? &*after : nullptr;
}

void poison(void* p, std::size_t n) {
  program_scope program;
  std::memset(p, get_settings().poison, n);
}

void release(void* p, std::size_t n) {
  memory_goes(p);
  poison(p, n);
  program_scope program;
  std::free(p);
}

void* allocate(std::size_t bytes) {
  constexpr std::size_t device_memory = std::size_t{64} << 30, alignment = 256;
  void* p = nullptr;
  if (bytes > device_memory || posix_memalign(&p, alignment, bytes) != 0) return nullptr;
  return p;
}

void enter(void* p, const allocation& a) {
  quiet_lock lock(the_heap().mutex);
  the_heap().live[number(p)] = a;
}

// Takes an allocation out of the books. False if there is none that starts at p.
bool take(void* p, bool device_memory, allocation& a) {
  quiet_lock lock(the_heap().mutex);
  const auto found = the_heap().live.find(number(p));
  if (found == the_heap().live.end() || found->second.device_memory != device_memory || found->second.captured)
    return false;
  a = found->second;
  the_heap().live.erase(found);
  return true;
}

cudaError_t allocate_now(void** p, std::size_t bytes, bool device_memory) {
  if (!p) return cudaErrorInvalidValue;
  if (const cudaError_t e = forbidden_while_capturing(); e != cudaSuccess) return e;
  *p = nullptr;
  if (bytes == 0) return cudaSuccess;
  wait_for_host_functions();
  void* fresh = allocate(bytes);
  if (!fresh) return cudaErrorMemoryAllocation;
  poison(fresh, bytes);
  memory_comes(fresh, bytes, device_memory);
  enter(fresh, {bytes, device_memory, current_device(), false});
  count(&counters::allocations);
  *p = fresh;
  return cudaSuccess;
}

cudaError_t free_now(void* p, bool device_memory) {
  if (!p) return cudaSuccess;
  if (const cudaError_t e = forbidden_while_capturing(); e != cudaSuccess) return e;
  allocation a;
  if (!take(p, device_memory, a)) return cudaErrorInvalidValue;
  drain_all(false);
  release(p, a.bytes);
  count(&counters::frees);
  return cudaSuccess;
}

// Within one allocation if it is the simulator's, and on the side that the kind says.
bool allowed(const void* p, std::size_t bytes, bool must_be_device) {
  quiet_lock lock(the_heap().mutex);
  const auto* a = find(p);
  if (!a) return !must_be_device;
  return number(p) + bytes <= a->first + a->second.bytes;
}

bool allowed(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return allowed(to, bytes, kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
         allowed(from, bytes, kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice);
}

bool in_device_memory(const void* p) {
  quiet_lock lock(the_heap().mutex);
  const auto* a = find(p);
  return a && a->second.device_memory;
}

// By the stream, while other memory may come and go: whose the memory is was true when the call came.
auto copying(void* to, const void* from, std::size_t bytes) {
  const bool to_device = in_device_memory(to), from_device = in_device_memory(from);
  return [=] {
    {
      program_scope program;
      std::memcpy(to, from, bytes);
    }
    if (to_device && from_device)
      bytes_copied(to, from, bytes);
    else if (to_device)
      bytes_written(to, bytes);
  };
}

void fill(void* p, int value, std::size_t bytes) {
  {
    program_scope program;
    std::memset(p, value, bytes);
  }
  bytes_written(p, bytes);
}

// The address is the caller's at once, the memory when the stream gets there.
cudaError_t hand_out(void* p, std::size_t bytes, cudaStream_t stream) {
  hide(p, bytes);
  return submit(stream, [=](CUstream_st&) {
    unhide(p, bytes);
    poison(p, bytes);
    memory_comes(p, bytes, true);
  });
}

// In a capture: memory with a fixed address that the graph owns, handed out and taken back at each replay.
cudaError_t allocate_captured(void** p, std::size_t bytes, cudaStream_t stream, graph_data& graph) {
  void* fresh = allocate(bytes);
  if (!fresh) return cudaErrorMemoryAllocation;
  enter(fresh, {bytes, true, current_device(), true});
  graph.memory.emplace_back(fresh, [bytes](void* q) {
    {
      quiet_lock lock(the_heap().mutex);
      the_heap().live.erase(number(q));
    }
    runtime_scope quiet;
    memory_goes(q);
    unhide(q, bytes);
    std::free(q);
  });
  *p = fresh;
  return hand_out(fresh, bytes, stream);
}

}  // namespace
}  // namespace cudasim::detail

using namespace cudasim::detail;

namespace cudasim {

std::size_t live_allocations() {
  quiet_lock lock(the_heap().mutex);
  return the_heap().live.size();
}

}  // namespace cudasim

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  return api(call_kind::work, [&] { return allocate_now(p, bytes, true); });
}
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  return api(call_kind::work, [&] { return allocate_now(p, bytes, false); });
}
cudaError_t cudaMallocHost(void** p, std::size_t bytes) { return cudaHostAlloc(p, bytes, cudaHostAllocDefault); }
cudaError_t cudaFree(void* p) {
  return api(call_kind::housekeeping, [&] { return free_now(p, true); });
}
cudaError_t cudaFreeHost(void* p) {
  return api(call_kind::housekeeping, [&] { return free_now(p, false); });
}

cudaError_t cudaMallocAsync(void** p, std::size_t bytes, cudaStream_t stream) {
  return api(call_kind::work, [&] {
    CUstream_st* s = valid(stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (!p) return cudaErrorInvalidValue;
    *p = nullptr;
    if (bytes == 0) return cudaSuccess;
    count(&cudasim::counters::allocations);
    if (auto graph = graph_of(*s)) return allocate_captured(p, bytes, stream, *graph);
    void* fresh = allocate(bytes);
    if (!fresh) return cudaErrorMemoryAllocation;
    enter(fresh, {bytes, true, s->device, false});
    *p = fresh;
    return hand_out(fresh, bytes, stream);
  });
}

cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
  return api(call_kind::housekeeping, [&] {
    CUstream_st* s = valid(stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (!p) return cudaSuccess;
    if (graph_of(*s)) {
      std::size_t bytes = 0;
      {
        quiet_lock lock(the_heap().mutex);
        const auto found = the_heap().live.find(number(p));
        if (found == the_heap().live.end() || !found->second.captured) return cudaErrorInvalidValue;
        bytes = found->second.bytes;
      }
      count(&cudasim::counters::frees);
      return submit(stream, [=](CUstream_st&) {
        memory_goes(p);
        poison(p, bytes);
        hide(p, bytes);
      });
    }
    allocation a;
    if (!take(p, true, a)) return cudaErrorInvalidValue;
    count(&cudasim::counters::frees);
    return submit(stream, [p, bytes = a.bytes](CUstream_st&) { release(p, bytes); });
  });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  return api(call_kind::work, [&] {
    quiet_lock lock(the_heap().mutex);
    const auto* a = find(host);
    if (!device || !a || a->second.device_memory) return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  return api(call_kind::work, [&] {
    if (!attributes) return cudaErrorInvalidValue;
    quiet_lock lock(the_heap().mutex);
    const auto* a = find(p);
    void* q = const_cast<void*>(p);
    *attributes = {};
    attributes->type = !a                        ? cudaMemoryTypeUnregistered
                       : a->second.device_memory ? cudaMemoryTypeDevice
                                                 : cudaMemoryTypeHost;
    attributes->device = a ? a->second.device : -1;
    attributes->devicePointer = a ? q : nullptr;
    attributes->hostPointer = a && a->second.device_memory ? nullptr : q;
    return cudaSuccess;
  });
}

// On the legacy default stream by definition, hence behind all streams that it waits for.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return api(call_kind::work, [&] {
    if (const cudaError_t e = forbidden_while_capturing(); e != cudaSuccess) return e;
    if (bytes == 0) return cudaSuccess;
    if (!to || !from || !allowed(to, from, bytes, kind)) return cudaErrorInvalidValue;
    count(&cudasim::counters::memcpys);
    count(&cudasim::counters::synchronisations);
    drain_all(true, current_device());
    if (device_failed()) return cudaErrorLaunchFailure;
    copying(to, from, bytes)();
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return api(call_kind::work, [&] {
    if (!valid(stream)) return cudaErrorInvalidResourceHandle;
    if (bytes == 0) return cudaSuccess;
    if (!to || !from || !allowed(to, from, bytes, kind)) return cudaErrorInvalidValue;
    count(&cudasim::counters::memcpys);
    return submit(stream, [copy = copying(to, from, bytes)](CUstream_st&) {
      if (!device_failed()) copy();
    });
  });
}

cudaError_t cudaMemset(void* p, int value, std::size_t bytes) { return cudaMemsetAsync(p, value, bytes, nullptr); }

cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  return api(call_kind::work, [&] {
    if (!valid(stream)) return cudaErrorInvalidResourceHandle;
    if (bytes == 0) return cudaSuccess;
    if (!p || !allowed(p, bytes, true)) return cudaErrorInvalidValue;
    count(&cudasim::counters::memsets);
    return submit(stream, [=](CUstream_st&) {
      if (!device_failed()) fill(p, value, bytes);
    });
  });
}
