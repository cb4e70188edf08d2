// SPDX-License-Identifier: Apache-2.0
// The small headers of the standard library, on host and device. NVRTC has none: there the names are those of
// libcu++, which is in CUDA's include/cccl, and `std` in the library's code is cuda::std.
#pragma once

#if defined(__CUDACC_RTC__)
#include <cuda/std/bit>
#include <cuda/std/cassert>
#include <cuda/std/concepts>
#include <cuda/std/cstddef>
#include <cuda/std/cstdint>
#include <cuda/std/cstring>
#include <cuda/std/type_traits>
#include <cuda/std/utility>

namespace tuck {
namespace std = ::cuda::std;
}
#else
#include <bit>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#endif
