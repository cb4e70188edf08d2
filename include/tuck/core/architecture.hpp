// SPDX-License-Identifier: Apache-2.0
// What a multiprocessor of the architecture has that a kernel is compiled for.
//
//   architecture   registers   shared memory   copies to it in the background
//   sm_75          65,536       64 KiB         no
//   sm_80, 87      65,536      164 KiB         yes
//   sm_86, 89      65,536      100 KiB         yes
//   sm_90 - 110    65,536      228 KiB         yes
//   sm_120         65,536      100 KiB         yes
#pragma once

#include <tuck/core/standard.hpp>
#include <tuck/core/version.hpp>

namespace tuck::inline TUCK_ABI::architecture {

inline constexpr uint32_t registers = 65536;
#if !defined(__CUDA_ARCH__) || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200)
inline constexpr uint32_t shared_bytes = 228 * 1024;
#elif __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 870
inline constexpr uint32_t shared_bytes = 164 * 1024;
#elif __CUDA_ARCH__ >= 800
inline constexpr uint32_t shared_bytes = 100 * 1024;
#else
inline constexpr uint32_t shared_bytes = 64 * 1024;
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr bool copies_in_background = false;  // see block_copy.cuh
#else
inline constexpr bool copies_in_background = true;
#endif
// Registers that a thread gets in an encoder that wants 80: ptxas needs a few more for some of them from sm_100 on.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
inline constexpr int registers_for_80 = 96;
#else
inline constexpr int registers_for_80 = 80;
#endif

}  // namespace tuck::inline TUCK_ABI::architecture
