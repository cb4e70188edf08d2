// Devices, kernels' attributes, and launches.
#include "host.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <utility>

namespace cudasim::detail {
namespace {

constexpr int max_threads = 1024, max_static_shared = 48 * 1024;

constinit thread_local int device = 0;

struct functions {
  quiet_mutex mutex;
  std::map<const void*, int> dynamic_shared;     // opted in to
  std::set<std::pair<const void*, int>> loaded;  // on a device
};

functions& all_functions() {
  static functions& f = *new functions;
  return f;
}

int dynamic_limit(const void* kernel, const kernel_limits& l) {
  quiet_lock lock(all_functions().mutex);
  const auto found = all_functions().dynamic_shared.find(kernel);
  return found == all_functions().dynamic_shared.end() ? max_static_shared - static_cast<int>(l.static_shared)
                                                       : found->second;
}

cudaError_t check(const cudaLaunchConfig_t& c, const void* kernel, std::uint64_t threads) {
  kernel_limits l;
  if (const cudaError_t e = find_kernel(kernel, l); e != cudaSuccess) return e;
  const dim3 &g = c.gridDim, &b = c.blockDim;
  if (threads == 0 || g.x == 0 || g.y == 0 || g.z == 0 || threads > static_cast<std::uint64_t>(l.threads) || b.z > 64)
    return cudaErrorInvalidConfiguration;
  if (g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535) return cudaErrorInvalidConfiguration;
  if (c.dynamicSmemBytes > static_cast<std::size_t>(dynamic_limit(kernel, l))) return cudaErrorInvalidValue;
  return cudaSuccess;
}

int processors() {
  const int known = limits().processors;
  return known != 0 ? known : 8;
}

cudaError_t attribute_value(int* value, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = max_threads; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = max_static_shared; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMultiProcessorCount: *value = processors(); break;
    case cudaDevAttrL2CacheSize: *value = 4 << 20; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = limits().threads_per_sm; break;
    case cudaDevAttrComputeCapabilityMajor: *value = limits().compute_capability / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = limits().compute_capability % 10; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = limits().shared_per_sm; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = limits().shared_per_block; break;
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    default: return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

// A kernel is loaded when it is first launched.
void load(const void* kernel) {
  {
    quiet_lock lock(all_functions().mutex);
    if (!all_functions().loaded.emplace(kernel, device).second) return;
  }
  wait_for_host_functions();
}

cudaError_t check_device(int d) { return d >= 0 && d < get_settings().devices ? cudaSuccess : cudaErrorInvalidDevice; }

}  // namespace

int current_device() { return device; }

cudaError_t submit_launch(const cudaLaunchConfig_t& config, const void* kernel, std::shared_ptr<const kernel_call> call,
                          site where) {
  return api(call_kind::work, [&] {
    const std::uint64_t threads = std::uint64_t{config.blockDim.x} * config.blockDim.y * config.blockDim.z;
    if (const cudaError_t e = check(config, kernel, threads); e != cudaSuccess) return e;
    CUstream_st* s = valid(config.stream);
    if (!s || s->device != device) return cudaErrorInvalidResourceHandle;
    for (unsigned i = 0; i < config.numAttrs; ++i)
      if (config.attrs[i].id == cudaLaunchAttributeClusterDimension && config.attrs[i].val.clusterDim.x > 1)
        return cudaErrorNotSupported;
    load(kernel);
    count(&counters::launches);
    count_most(&counters::largest_grid, std::uint64_t{config.gridDim.x} * config.gridDim.y * config.gridDim.z);
    return submit(config.stream, [c = config, kernel, call = std::move(call), where](CUstream_st& on) {
      if (device_failed()) return;
      run_launch(on, {call, kernel, c.gridDim, c.blockDim, c.dynamicSmemBytes, where, next_launch_seed(),
                      get_settings(), current_tensors()});
    });
  });
}

}  // namespace cudasim::detail

using namespace cudasim::detail;

cudaError_t cudaSetDevice(int d) {
  return api(call_kind::housekeeping, [&] {
    const cudaError_t e = check_device(d);
    if (e == cudaSuccess) device = d;
    return e;
  });
}

cudaError_t cudaGetDevice(int* d) {
  return api(call_kind::housekeeping, [&] {
    if (!d) return cudaErrorInvalidValue;
    *d = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceCount(int* n) {
  return api(call_kind::housekeeping, [&] {
    if (!n) return cudaErrorInvalidValue;
    *n = get_settings().devices;
    return *n > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int d) {
  return api(call_kind::housekeeping, [&] {
    if (!value) return cudaErrorInvalidValue;
    const cudaError_t e = check_device(d);
    return e == cudaSuccess ? attribute_value(value, attribute) : e;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int d) {
  return api(call_kind::housekeeping, [&] {
    if (!p) return cudaErrorInvalidValue;
    if (const cudaError_t e = check_device(d); e != cudaSuccess) return e;
    *p = {};
    std::snprintf(p->name, sizeof p->name, "cudasim");
    p->totalGlobalMem = std::size_t{64} << 30;
    p->sharedMemPerBlock = max_static_shared;
    p->sharedMemPerBlockOptin = static_cast<std::size_t>(limits().shared_per_block);
    p->sharedMemPerMultiprocessor = static_cast<std::size_t>(limits().shared_per_sm);
    p->warpSize = 32;
    p->maxThreadsPerBlock = max_threads;
    p->multiProcessorCount = processors();
    p->maxThreadsPerMultiProcessor = limits().threads_per_sm;
    p->major = limits().compute_capability / 10;
    p->minor = limits().compute_capability % 10;
    p->l2CacheSize = 4 << 20;
    p->canMapHostMemory = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
cudaError_t cudaRuntimeGetVersion(int* version) {
  return api(call_kind::housekeeping, [&] {
    if (!version) return cudaErrorInvalidValue;
    *version = 13000;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return api(call_kind::work, [&] {
    kernel_limits l;
    if (const cudaError_t e = find_kernel(kernel, l); e != cudaSuccess) return e;
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        value > limits().shared_per_block - static_cast<int>(l.static_shared))
      return cudaErrorInvalidValue;
    quiet_lock lock(all_functions().mutex);
    all_functions().dynamic_shared[kernel] = value;
    return cudaSuccess;
  });
}

// Registers are not known.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  return api(call_kind::work, [&] {
    if (!attributes || !kernel) return cudaErrorInvalidValue;
    kernel_limits l;
    if (const cudaError_t e = find_kernel(kernel, l); e != cudaSuccess) return e;
    *attributes = {};
    attributes->sharedSizeBytes = l.static_shared;
    attributes->localSizeBytes = l.local;
    attributes->maxThreadsPerBlock = l.threads;
    attributes->numRegs = 64;
    attributes->ptxVersion = attributes->binaryVersion = limits().compute_capability;
    attributes->maxDynamicSharedSizeBytes = dynamic_limit(kernel, l);
    return cudaSuccess;
  });
}

// By threads and shared memory, a guess, unless registers count.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* kernel, int threads,
                                                                   std::size_t dynamic_bytes, unsigned) {
  return api(call_kind::work, [&] {
    if (!blocks || !kernel || threads <= 0) return cudaErrorInvalidValue;
    kernel_limits k;
    if (const cudaError_t e = find_kernel(kernel, k); e != cudaSuccess) return e;
    const device_limits d = limits();
    const int by_threads = threads > k.threads ? 0 : d.threads_per_sm / ((threads + 31) / 32 * 32);
    const bool too_much = dynamic_bytes > static_cast<std::size_t>(dynamic_limit(kernel, k));
    const std::size_t each = k.static_shared + dynamic_bytes + static_cast<std::size_t>(d.shared_reserved);
    const int by_shared = too_much ? 0 : each == 0 ? d.blocks_per_sm : d.shared_per_sm / static_cast<int>(each);
    *blocks = std::min({by_threads, by_shared, d.blocks_per_sm});
    return *blocks == 0 ? cudaSuccess : count_registers(kernel, threads, dynamic_bytes, *blocks);
  });
}
