// SPDX-License-Identifier: Apache-2.0
// Makes the resources of tuck resources of cuda::mr, so that rmm's containers and adaptors accept them. To pass any
// other tuck::stream_resource, wrap it in a resource_ref. Resources of rmm and CCCL work in tuck without this header.
// It includes <cuda/memory_resource> of CCCL.
#pragma once

#include <tuck/memory/resource.hpp>

#if defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
#include <cuda/memory_resource>
#else
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE  // CCCL 3.0 requires this macro
#include <cuda/memory_resource>
#undef LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#endif

namespace tuck::inline TUCK_ABI {

// Say with CCCL's properties which memory each resource allocates. A resource_ref counts as device memory.
/// @cond
inline void get_property(const async_resource&, cuda::mr::device_accessible) noexcept {}
inline void get_property(const pinned_resource&, cuda::mr::device_accessible) noexcept {}
inline void get_property(const pinned_resource&, cuda::mr::host_accessible) noexcept {}
inline void get_property(const resource_ref&, cuda::mr::device_accessible) noexcept {}
/// @endcond

}  // namespace tuck::inline TUCK_ABI
