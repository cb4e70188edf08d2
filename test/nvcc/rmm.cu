// tuck beside rmm: our resources under rmm's adaptors and containers, and rmm's under tuck.
#include <tuck/memory/cuda_mr.cuh>
#include <tuck/swap.cuh>

#include "evicting_pool/evicting_pool.cuh"

#include <rmm/cuda_stream.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>

namespace mr = cuda::mr;
static_assert(tuck::stream_resource<rmm::mr::cuda_async_memory_resource>);
static_assert(tuck::stream_resource<rmm::mr::pool_memory_resource>);
static_assert(tuck::stream_resource<rmm::mr::statistics_resource_adaptor>);
static_assert(tuck::stream_resource<rmm::device_async_resource_ref>);
static_assert(mr::resource_with<tuck::async_resource, mr::device_accessible>);
static_assert(mr::resource_with<tuck::pinned_resource, mr::device_accessible, mr::host_accessible>);
static_assert(mr::resource_with<tuck::resource_ref, mr::device_accessible>);

// A vector of rmm's, encoded into memory of its own resource and restored.
template <tuck::stream_resource R> bool comes_back(const rmm::device_uvector<float>& values, R& memory) {
  const rmm::cuda_stream stream;
  const tuck::zvc<float> codec;
  const auto frame = tuck::encode(codec, tuck::span<const float>(values), memory, stream.value());
  rmm::device_uvector<float> restored(values.size(), cuda::stream_ref{stream}, memory);
  return tuck::decode_sync(codec, frame.frame(), tuck::span<float>(restored), memory, stream.value()) &&
         frame.wait_sync();
}

int main() {
  const rmm::cuda_stream stream;
  tuck::async_resource ours;
  rmm::mr::statistics_resource_adaptor counted(ours);
  rmm::mr::pool_memory_resource pooled(ours, 1 << 20);

  // A pool that evicts, in front of rmm's and behind its containers.
  example::evicting_pool pool({.pinned_bytes = 1 << 20}, pooled);
  tuck::resource_ref evicting(pool);
  rmm::device_uvector<float> values(1 << 16, cuda::stream_ref{stream}, evicting);
  values.set_element_to_zero_async(0, cuda::stream_ref{stream});

  tuck::swap_stream swap({.pinned_bytes = 1 << 20}, counted);
  tuck::swap_handle handle;
  const tuck::span<const float> all(values);
  if (!swap.out(tuck::zvc<float>{}, all, stream.value(), handle)) return 1;
  if (!swap.in(handle, tuck::span<float>(values), stream.value())) return 1;
  return comes_back(values, counted) && comes_back(values, pooled) && comes_back(values, evicting) ? 0 : 1;
}
