// CUDA's qualifiers and built-in variables. __shared__ is an error: a block's memory comes from TUCK_SHARED, because a
// static or thread_local variable is wrong once two blocks are resident.
#pragma once

#include "vector_types.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ _Pragma("GCC error \"the simulator has no __shared__: use TUCK_SHARED(type, name)\"")
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((__always_inline__))
#define __align__(n) __attribute__((aligned(n)))

// Real variables, which the scheduler sets whenever it switches to another CUDA thread.
extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
inline constexpr int warpSize = 32;
