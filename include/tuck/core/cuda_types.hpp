// SPDX-License-Identifier: Apache-2.0
// Makes the floats of CUDA's headers elements: __half is an f16, __nv_bfloat16 a bf16, __nv_fp8_e4m3 an f8e4m3 and
// __nv_fp8_e5m2 an f8e5m2. Frames of either type are the same, and restore to either. Needs the headers of CUDA's
// toolkit, but no nvcc; the simulator cannot include them. Include it before the first use of such a type with tuck.
#pragma once

#include <tuck/core/dtype.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace tuck::inline TUCK_ABI {

/// @cond
template <> inline constexpr dtype dtype_of<__half> = dtype::f16;
template <> inline constexpr dtype dtype_of<__nv_bfloat16> = dtype::bf16;
template <> inline constexpr dtype dtype_of<__nv_fp8_e4m3> = dtype::f8e4m3;
template <> inline constexpr dtype dtype_of<__nv_fp8_e5m2> = dtype::f8e5m2;
/// @endcond
static_assert(element<__half> && element<__nv_bfloat16> && element<__nv_fp8_e4m3> && element<__nv_fp8_e5m2>);

}  // namespace tuck::inline TUCK_ABI
