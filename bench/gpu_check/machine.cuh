// Latencies and rates of a GPU, which a model of time needs. A kernel of one warp runs a chain of one instruction, each
// of which needs the result of the one before: clocks of a step are its latency. 32 warps of one multiprocessor do the
// same: clocks of a step over 32 are the least distance of two warp instructions. The simulator has none of this.
#pragma once

#include "bench/gpu_check/experiments.hpp"
#include "support/on_device.cuh"

#include <array>
#include <numeric>
#include <random>

namespace tuck::bench {

#if defined(TUCK_CUDASIM)
inline void machine(const experiment_settings&) {
  throw std::runtime_error("the simulator has no latencies; this needs a GPU");
}
#else

// ptxas makes one instruction of two steps, or none, where it can (a + b + c; a shuffle by the same lane twice): these
// are chains that it keeps.
// x: what the chain goes through; y: an operand that the compiler does not know; at: the lane's own word of shared
// memory.
#define TUCK_CHAINS(X)                                                                          \
  X(add_with_carry_twice, "add.cc.u32 %0, %0, %1; addc.u32 %0, %0, %2;")                        \
  X(mad, "mad.lo.u32 %0, %0, %1, %1;")                                                          \
  X(logic, "lop3.b32 %0, %0, %1, %2, 0x96;")                                                    \
  X(funnel_shift, "shf.l.wrap.b32 %0, %0, %1, %0;")                                             \
  X(permute, "prmt.b32 %0, %0, %1, 0x2103;")                                                    \
  X(select, "{.reg .pred p; setp.gt.u32 p, %0, %1; selp.u32 %0, %2, %0, p;}")                   \
  X(popc, "popc.b32 %0, %0;")                                                                   \
  X(find_bit, "bfind.u32 %0, %0;")                                                              \
  X(reverse, "brev.b32 %0, %0;")                                                                \
  X(multiply_high, "mul.hi.u32 %0, %0, %1;")                                                    \
  X(convert, "{.reg .f32 f; cvt.rn.f32.u32 f, %0; mov.b32 %0, f;}")                             \
  X(shuffle, "shfl.sync.idx.b32 %0, %0, %0, 0x1f, 0xffffffff;")                                 \
  X(vote, "{.reg .pred p; setp.gt.u32 p, %0, %1; vote.sync.ballot.b32 %0, p, 0xffffffff;}")     \
  X(match, "match.any.sync.b32 %0, %0, 0xffffffff;")                                            \
  X(shared_load, "{.reg .u32 a; and.b32 a, %0, 124; add.u32 a, a, %2; ld.shared.u32 %0, [a];}") \
  X(shared_store_load, "st.volatile.shared.u32 [%2], %0; ld.volatile.shared.u32 %0, [%2];")     \
  X(shared_atomic, "atom.shared.add.u32 %0, [%2], %0;")                                         \
  X(barrier_of_warp, "bar.warp.sync 0xffffffff;")                                               \
  X(barrier, "bar.sync 0;")                                                                     \
  X(fence, "fence.acq_rel.gpu;")

enum class chain {
#define TUCK_CHAIN(name, text) name,
  TUCK_CHAINS(TUCK_CHAIN)
#undef TUCK_CHAIN
};

template <chain What> __device__ __forceinline__ void chain_step(uint32_t& x, uint32_t y, uint32_t at) {
#define TUCK_CHAIN(name, text) \
  if constexpr (What == chain::name) asm volatile(text : "+r"(x) : "r"(y), "r"(at) : "memory");
  TUCK_CHAINS(TUCK_CHAIN)
#undef TUCK_CHAIN
}

inline constexpr int chain_steps = 256, chain_runs = 6;

__device__ __forceinline__ uint32_t clock_now() {
  uint32_t now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
  return now;
}

// Clocks of chain_steps by each warp, the fewest of several runs.
template <chain What> __global__ void chain_kernel(uint32_t* clocks, uint32_t y) {
  __shared__ uint32_t words[1024 + 32];
  for (uint32_t i = threadIdx.x; i < 1024 + 32; i += blockDim.x) words[i] = 4 * (i * 7 % 32);
  const auto at =
      static_cast<uint32_t>(__cvta_generic_to_shared(words + (What == chain::shared_load ? 0 : threadIdx.x)));
  uint32_t x = threadIdx.x + y, fewest = ~0u;
  for (int run = 0; run < chain_runs; ++run) {
    __syncthreads();
    const uint32_t begin = clock_now();
#pragma unroll
    for (int i = 0; i < chain_steps; ++i) chain_step<What>(x, y, at);
    fewest = min(fewest, clock_now() - begin);
  }
  if (threadIdx.x % 32 == 0) clocks[threadIdx.x / 32] = fewest;
  if (x == 0x80000001u) clocks[63] = x;  // so that the chain is needed
}

enum class load_way { first_level, second_level, relaxed };

// A walk from address to address: clocks of all steps, by one thread. `warm`: the second walk counts.
template <load_way Way> __global__ void walk_kernel(const uint64_t* from, uint32_t steps, bool warm, uint32_t* clocks) {
  for (int walk = warm ? 0 : 1; walk < 2; ++walk) {
    auto at = reinterpret_cast<uint64_t>(from);
    const uint32_t begin = clock_now();
    for (uint32_t i = 0; i < steps; ++i) {
      if constexpr (Way == load_way::first_level)
        asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(at)::"memory");
      else if constexpr (Way == load_way::second_level)
        asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
      else
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%0];" : "+l"(at)::"memory");
    }
    clocks[0] = clock_now() - begin;
    if (at == 0) clocks[1] = 1;
  }
}

// Two blocks hand a number to and fro, as look-back does.
__global__ void message_kernel(uint32_t* words, uint32_t rounds, uint32_t* clocks) {
  const uint32_t me = blockIdx.x, begin = clock_now();
  for (uint32_t i = 1; i <= rounds; ++i) {
    uint32_t* const mine = words + 64 * me;
    const uint32_t* const other = words + 64 * (1 - me);
    if (me == 0) asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(mine), "r"(i) : "memory");
    uint32_t seen = 0;
    while (seen < i) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(other) : "memory");
    if (me == 1) asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(mine), "r"(i) : "memory");
  }
  if (me == 0) clocks[0] = clock_now() - begin;
}

// A thread of each block draws from one word, as tickets are drawn. Clocks of the slowest block.
__global__ void draw_kernel(uint32_t* word, uint32_t times, uint32_t* clocks) {
  const uint32_t begin = clock_now();
  uint32_t sum = 0;
  for (uint32_t i = 0; i < times; ++i) sum += atomicAdd(word, 1u);
  atomicMax(clocks, clock_now() - begin);
  if (sum == 0x80000001u) clocks[1] = sum;
}

class machine_check {
 public:
  explicit machine_check(const experiment_settings& s) : s_(s) {}

  void run() {
    chains();
    walk<load_way::first_level>("load, first level", 16 << 10, 128, true);
    walk<load_way::second_level>("load, second level", 8 << 20, 128, true);
    walk<load_way::relaxed>("relaxed load, second level", 8 << 20, 128, true);
    walk<load_way::second_level>("load, second level, 30 MiB", 30 << 20, 128, true);
    walk<load_way::second_level>("load, DRAM", 1 << 30, 4096, false);
    clear();
    launch(message_kernel, 2, 1, words() + 64, 1000, words());
    found("message between two multiprocessors", fetch(1)[0] / 2000.);
    clear();
    constexpr uint32_t blocks = 1024, times = 64;
    launch(draw_kernel, blocks, 1, words() + 64, times, words());
    const double clocks = fetch(1)[0];
    s_.found(record("machine")
                 .add("what", "draw from one word, 1024 blocks")
                 .add("latency_clocks", clocks / times)
                 .add("clocks_each", clocks / (blocks * times)));
  }

 private:
  uint32_t* words() const { return reinterpret_cast<uint32_t*>(memory_.all().data()); }
  template <class... Parameters, class... Arguments>
  void launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, const Arguments&... arguments) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.stream = stream_;
    tools::require(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
  }
  void clear() { tools::require(cudaMemsetAsync(words(), 0, 4096, stream_)); }
  std::vector<uint32_t> fetch(size_t count) {
    tools::require(cudaGetLastError());
    std::vector<uint32_t> seen(count);
    tools::require(cudaMemcpyAsync(seen.data(), words(), 4 * count, cudaMemcpyDefault, stream_));
    stream_.wait();
    return seen;
  }
  void found(const char* what, double latency) {
    s_.found(record("machine").add("what", what).add("latency_clocks", latency));
  }

  template <chain What> void chain_of(const char* what) {
    clear();
    launch(chain_kernel<What>, 1, 32, words(), 3);
    const double latency = fetch(1)[0] / static_cast<double>(chain_steps);
    launch(chain_kernel<What>, 1, 1024, words(), 3);
    const auto all = fetch(32);
    const double each = *std::max_element(all.begin(), all.end()) / (32. * chain_steps);
    s_.found(record("machine").add("what", what).add("latency_clocks", latency).add("clocks_each", each));
  }
  void chains() {
#define TUCK_CHAIN(name, text) chain_of<chain::name>(#name);
    TUCK_CHAINS(TUCK_CHAIN)
#undef TUCK_CHAIN
  }

  // Through lines `stride` bytes apart, in a random order; not warm: of memory that nothing has read.
  template <load_way Way> void walk(const char* what, uint64_t size, uint64_t stride, bool warm) {
    const tools::device_memory memory(size);
    const uint64_t lines = size / stride;
    std::vector<uint64_t> order(lines), words_of(size / 8);
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 random(1);
    for (uint64_t i = lines - 1; i > 0; --i) std::swap(order[i], order[random() % (i + 1)]);
    for (uint64_t i = 0; i < lines; ++i)
      words_of[order[i] * stride / 8] =
          reinterpret_cast<uint64_t>(memory.all().data()) + order[(i + 1) % lines] * stride;
    memory.upload(as_bytes(span<const uint64_t>(words_of)), stream_);
    const auto steps = static_cast<uint32_t>(warm ? lines : std::min<uint64_t>(lines, 16384));
    if (!warm) {
      const tools::device_memory other(256 << 20);  // takes the place of the first in the second level
      tools::require(cudaMemsetAsync(other.all().data(), 1, other.all().size(), stream_));
      stream_.wait();
    }
    clear();
    launch(walk_kernel<Way>, 1, 1, reinterpret_cast<const uint64_t*>(memory.all().data() + order[0] * stride), steps,
           warm, words());
    found(what, fetch(1)[0] / static_cast<double>(steps));
  }

  const experiment_settings& s_;
  tools::device_stream stream_;
  tools::device_memory memory_{4096};
};
#undef TUCK_CHAINS

inline void machine(const experiment_settings& s) { machine_check(s).run(); }
#endif

}  // namespace tuck::bench
