// With this header, which includes CCCL's, tuck's resources are cuda::mr resources: rmm's containers and adaptors take
// them, and by a resource_ref any resource that is tuck's. (rmm's and CCCL's are tuck's without it.)
#pragma once

#include <tuck/memory/resource.cuh>

#if defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
#include <cuda/memory_resource>
#else
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE  // CCCL 3.0 has the header behind this macro
#include <cuda/memory_resource>
#undef LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#endif

namespace tuck::inline TUCK_ABI {

inline void get_property(const async_resource&, cuda::mr::device_accessible) noexcept {}
inline void get_property(const pinned_resource&, cuda::mr::device_accessible) noexcept {}
inline void get_property(const pinned_resource&, cuda::mr::host_accessible) noexcept {}
inline void get_property(const resource_ref&, cuda::mr::device_accessible) noexcept {}

}  // namespace tuck::inline TUCK_ABI
