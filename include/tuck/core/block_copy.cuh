// SPDX-License-Identifier: Apache-2.0
// Copies by a block from global to shared memory while it computes: the next chunk comes while this one is decoded.
// For block codecs; those of the library load chunks by themselves.
//
//   block_copy<threads> copy(temp);
//   auto* next = copy.begin(buffer[0], first chunk);
//   for (each chunk) {
//     copy.wait();                                  // also: all threads have left the other buffer
//     auto* const chunk = next;
//     if (there is another) next = copy.begin(buffer[the other], next chunk);
//     ...                                           // decodes this chunk
//   }
//
//   from sm_90   one thread starts a bulk copy; an mbarrier tells when it has arrived
//   from sm_80   each thread copies its parts by cp.async
//   before       begin() copies, and nothing is in the background
#pragma once

#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::device {

/// Copies by a block of Threads threads, one at a time. All threads call each function. begin() and wait() take turns:
/// a wait() without a begin(), or a begin() without a wait() before the next one, hangs.
template <int Threads> class block_copy {
 public:
  /// Whether the first warp may call begin() alone.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  static constexpr bool by_first_warp = true;
#else
  static constexpr bool by_first_warp = false;
#endif

  /// Stays as it is until the block ends. Only one block_copy of a block may have it, once.
  struct TempStorage {
    uint64_t arrived;  // an mbarrier
  };

  /// Has a barrier.
  __device__ explicit block_copy([[maybe_unused]] TempStorage& temp) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    arrived_ = shared_address(&temp.arrived);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(arrived_) : "memory");
#endif
    sync_block();
  }

  /// Starts to copy `size` bytes from any address; no others are read. Returns where the first of them goes: `to`, a
  /// multiple of 16, plus what `from` is more than a multiple of 16. A barrier must lie behind the last access to the
  /// target. Until wait() nobody may access it. The source must not change during the kernel.
  __device__ std::byte* begin(std::byte* to, const std::byte* from, uint32_t size) {
    static_assert(Threads >= warp_size);  // enough for head and tail, of at most 15 bytes each
    constexpr uint32_t each = sizeof(vec128);
    const auto skipped = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % each);
    to += skipped;
    uint32_t head = (each - skipped) % each;
    if (head > size) head = size;
    const uint32_t vectors = (size - head) / each, tail = head + vectors * each;
    if (threadIdx.x < head) to[threadIdx.x] = load(from + threadIdx.x);
    if (threadIdx.x < size - tail) to[tail + threadIdx.x] = load(from + tail + threadIdx.x);
    copy_vectors(reinterpret_cast<vec128*>(to + head), reinterpret_cast<const vec128*>(from + head), vectors);
    return to;
  }

  /// Waits until the bytes are there and all threads have come: has a barrier. Follows each begin().
  __device__ void wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t done;
    do
      asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                   : "=r"(done)
                   : "r"(arrived_), "r"(parity_)
                   : "memory");
    while (done == 0);
    parity_ ^= 1;
#else
    wait_copies();
#endif
    sync_block();
  }

 private:
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __device__ static uint32_t shared_address(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
  }
  // The fence: threads may have written to the target before they met, and this one began the mbarrier.
  __device__ void copy_vectors(vec128* to, const vec128* from, uint32_t count) {
    if (threadIdx.x != 0) return;
    const auto bytes = static_cast<uint32_t>(count * sizeof(vec128));
    asm volatile("fence.proxy.async.shared::cta; mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(arrived_),
                 "r"(bytes)
                 : "memory");
    if (count != 0)
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                       shared_address(to)),
                   "l"(from), "r"(bytes), "r"(arrived_)
                   : "memory");
  }

  uint32_t arrived_, parity_ = 0;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  // The loads of a thread wait together: with 128 threads those of 12 KiB. With 8 at once nvcc 13.0 moves less out of
  // the loops of huffman's decoder, which then executes a sixth more.
  __device__ void copy_vectors(vec128* to, const vec128* from, uint32_t count) {
    constexpr int at_once = 6;
    to += threadIdx.x;
    from += threadIdx.x;
#pragma unroll 1
    for (int left = static_cast<int>(count) - static_cast<int>(threadIdx.x); left > 0; left -= at_once * Threads) {
      vec128 x[at_once];
#pragma unroll
      for (int k = 0; k < at_once; ++k)
        if (k * Threads < left) x[k] = load(from + k * Threads);
#pragma unroll
      for (int k = 0; k < at_once; ++k)
        if (k * Threads < left) to[k * Threads] = x[k];
      to += at_once * Threads;
      from += at_once * Threads;
    }
  }
#else
  __device__ void copy_vectors(vec128* to, const vec128* from, uint32_t count) {
    for (uint32_t i = threadIdx.x; i < count; i += Threads) copy_async(to + i, from + i);
  }
#endif
};

}  // namespace tuck::inline TUCK_ABI::device
