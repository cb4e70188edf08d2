// Thrust's vectors in memory from any resource: tuck's, a pool of the other examples, rmm's or CCCL's.
#pragma once

#include <tuck/memory/resource.cuh>

#include <thrust/device_ptr.h>
#include <thrust/mr/allocator.h>
#include <thrust/mr/memory_resource.h>

#include <algorithm>

namespace example {

// Takes and gives back memory in the order of `stream`, on which the vectors must be used. The resource outlives it.
template <tuck::stream_resource R> class thrust_memory : public thrust::mr::memory_resource<thrust::device_ptr<void>> {
 public:
  thrust_memory(R& resource, cudaStream_t stream) : resource_(&resource), stream_(stream) {}

  pointer do_allocate(size_t size, size_t alignment) override {
    return pointer(tuck::allocate_from(*resource_, size, std::max(alignment, least_alignment), stream_));
  }
  void do_deallocate(pointer p, size_t size, size_t alignment) override {
    tuck::deallocate_to(*resource_, p.get(), size, std::max(alignment, least_alignment), stream_);
  }

 private:
  static constexpr size_t least_alignment = 256;  // cudaMalloc's

  R* resource_;
  cudaStream_t stream_;
};

// thrust::device_vector<T, thrust_allocator<T, R>> v(n, &memory);
template <class T, class R> using thrust_allocator = thrust::mr::allocator<T, thrust_memory<R>>;

}  // namespace example
