// What of tuck goes together with what comes with nvcc: spans with Thrust and libcu++, resources with CCCL, and CUDA's
// floats.
#include <tuck/core/cuda_types.hpp>
#include <tuck/core/span.hpp>
#include <tuck/device.cuh>
#include <tuck/memory/cuda_mr.cuh>

#include "evicting_pool/evicting_pool.cuh"
#include "thrust_vectors/thrust_memory.cuh"

#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/universal_vector.h>
#include <cuda/std/span>

#include <span>
#include <vector>

template <class From, class To> constexpr bool gives = std::is_convertible_v<From, To>;

static_assert(gives<thrust::device_vector<float>&, tuck::span<float>>);
static_assert(gives<const thrust::device_vector<float>&, tuck::span<const float>>);
static_assert(!gives<const thrust::device_vector<float>&, tuck::span<float>>);
static_assert(!gives<thrust::device_vector<float>&, tuck::span<const double>>);
static_assert(gives<thrust::universal_vector<float>&, tuck::span<float>>);
static_assert(gives<const thrust::universal_vector<float>&, tuck::span<const float>>);
static_assert(std::is_constructible_v<tuck::span<float>, thrust::device_ptr<float>, size_t>);
static_assert(std::is_constructible_v<tuck::span<const float>, thrust::device_ptr<const float>, size_t>);
static_assert(!std::is_constructible_v<tuck::span<float>, thrust::device_ptr<const float>, size_t>);

static_assert(gives<cuda::std::span<float>, tuck::span<float>>);
static_assert(gives<tuck::span<float>&, cuda::std::span<float>>);
static_assert(gives<const tuck::span<float>&, cuda::std::span<const float>>);
static_assert(!gives<tuck::span<const float>&, cuda::std::span<float>>);
static_assert(gives<std::span<float>, tuck::span<const float>>);
static_assert(gives<tuck::span<float>, std::span<float>>);
static_assert(gives<tuck::span<float>, std::span<const float>>);
static_assert(!gives<tuck::span<const float>, std::span<float>>);

namespace mr = cuda::mr;
#if CCCL_MAJOR_VERSION == 3 && CCCL_MINOR_VERSION == 0
static_assert(mr::async_resource_with<tuck::async_resource, mr::device_accessible>);
static_assert(mr::async_resource_with<tuck::pinned_resource, mr::device_accessible, mr::host_accessible>);
static_assert(mr::async_resource_with<tuck::resource_ref, mr::device_accessible>);
#else
static_assert(mr::resource_with<tuck::async_resource, mr::device_accessible>);
static_assert(mr::resource_with<tuck::pinned_resource, mr::device_accessible, mr::host_accessible>);
static_assert(mr::resource_with<tuck::resource_ref, mr::device_accessible>);
#endif
static_assert(!mr::resource_with<tuck::async_resource, mr::host_accessible>);

tuck::result of_halves(tuck::span<const __half> values, tuck::bytes frame, tuck::scratch_span scratch,
                       tuck::outcome* written) {
  return tuck::encode(tuck::zvc<__half>{}, values, frame, scratch, written, nullptr);
}

// Thrust's vectors in a pool that evicts.
using pool = example::evicting_pool<tuck::async_resource>;
using pooled = example::thrust_allocator<float, pool>;
thrust::device_vector<float, pooled> in_pool(example::thrust_memory<pool>& memory) {
  return thrust::device_vector<float, pooled>(100, 1.0f, &memory);
}
