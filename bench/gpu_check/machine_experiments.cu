// Latencies and rates of a GPU, which a model of time needs. A kernel of one warp runs a chain of steps, each of which
// needs the result of the one before: clocks of a step are its latency. 32 warps of one multiprocessor do the same:
// clocks of a step over 32 are the least distance of two such steps. The simulator has none of this. constants.py turns
// the records into constants of the model.
#include "bench/gpu_check/experiments.hpp"
#include "support/on_device.cuh"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

namespace tuck::bench {

#if !defined(TUCK_CUDASIM)
namespace {

// Name, instructions of a step as ptxas 13.0 makes them for sm_90, text. ptxas makes one instruction of two steps, or
// none, where it can (a + b + c; a shuffle by the same lane twice; a barrier of a warp that has not diverged): these
// are chains that it keeps.
// %0: what the chain goes through; %1: an operand that the compiler does not know; %2: the lane's own word of shared
// memory; %3: the lane's own word of global memory.
#define TUCK_CHAINS(X)                                                                         \
  X(add_with_carry_twice, 2, "add.cc.u32 %0, %0, %1; addc.u32 %0, %0, %2;")                    \
  X(mad, 1, "mad.lo.u32 %0, %0, %1, %1;")                                                      \
  X(logic, 1, "lop3.b32 %0, %0, %1, %2, 0x96;")                                                \
  X(funnel_shift, 1, "shf.l.wrap.b32 %0, %0, %1, %0;")                                         \
  X(permute, 1, "prmt.b32 %0, %0, %1, 0x2103;")                                                \
  X(select, 2, "{.reg .pred p; setp.gt.u32 p, %0, %1; selp.u32 %0, %2, %0, p;}")               \
  X(popc, 1, "popc.b32 %0, %0;")                                                               \
  X(find_bit, 1, "bfind.u32 %0, %0;")                                                          \
  X(reverse, 1, "brev.b32 %0, %0;")                                                            \
  X(multiply_high, 1, "mul.hi.u32 %0, %0, %1;")                                                \
  X(to_float, 1, "{.reg .f32 f; cvt.rn.f32.u32 f, %0; mov.b32 %0, f;}")                        \
  X(from_float, 1, "{.reg .f32 f; mov.b32 f, %0; cvt.rzi.u32.f32 %0, f;}")                     \
  X(fma_f32, 1, "{.reg .f32 f; mov.b32 f, %0; fma.rn.f32 f, f, f, f; mov.b32 %0, f;}")         \
  X(exp2_f32, 1, "{.reg .f32 f; mov.b32 f, %0; ex2.approx.ftz.f32 f, f; mov.b32 %0, f;}")      \
  X(add_f64, 1, "{.reg .f64 d; mov.b64 d, {%1, %0}; add.f64 d, d, d; mov.b64 {_, %0}, d;}")    \
  X(shuffle, 1, "shfl.sync.idx.b32 %0, %0, %0, 0x1f, 0xffffffff;")                             \
  X(vote, 2, "{.reg .pred p; setp.gt.u32 p, %0, %1; vote.sync.ballot.b32 %0, p, 0xffffffff;}") \
  X(match, 1, "match.any.sync.b32 %0, %0, 0xffffffff;")                                        \
  X(shared_load, 1, "ld.volatile.shared.u32 %0, [%0];")                                        \
  X(shared_store_load, 2, "st.volatile.shared.u32 [%2], %0; ld.volatile.shared.u32 %0, [%2];") \
  X(shared_atomic, 1, "atom.shared.add.u32 %0, [%2], %0;")                                     \
  X(barrier, 1, "bar.sync 0;")                                                                 \
  X(fence_after_store, 2, "st.volatile.global.u32 [%3], %0; fence.acq_rel.gpu;")

enum class chain {
#define TUCK_CHAIN(name, instructions, text) name,
  TUCK_CHAINS(TUCK_CHAIN)
#undef TUCK_CHAIN
};

template <chain What> __device__ __forceinline__ void chain_step(uint32_t& x, uint32_t y, uint32_t at, uint32_t* word) {
#define TUCK_CHAIN(name, instructions, text) \
  if constexpr (What == chain::name) asm volatile(text : "+&r"(x) : "r"(y), "r"(at), "l"(word) : "memory");
  TUCK_CHAINS(TUCK_CHAIN)
#undef TUCK_CHAIN
}

inline constexpr int chain_steps = 256, chain_runs = 6;

__device__ __forceinline__ uint32_t clock_now() {
  uint32_t now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
  return now;
}

// Clocks of chain_steps by each warp, the fewest of several runs; behind them those of the first warp's first run.
template <chain What> __global__ void chain_kernel(uint32_t* clocks, uint32_t y) {
  __shared__ uint32_t words[1024];
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(words + threadIdx.x));
  words[threadIdx.x] = at;  // of which shared_load is a chain
  uint32_t x = What == chain::shared_load ? at : threadIdx.x + y, first = 0, fewest = ~0u;
  uint32_t* const word = clocks + 64 + threadIdx.x;
  for (int run = 0; run < chain_runs; ++run) {
    __syncthreads();
    const uint32_t begin = clock_now();
#pragma unroll
    for (int i = 0; i < chain_steps; ++i) chain_step<What>(x, y, at, word);
    const uint32_t took = clock_now() - begin;
    if (run == 0) first = took;
    fewest = min(fewest, took);
  }
  if (threadIdx.x == 0) clocks[32] = first;
  if (threadIdx.x % 32 == 0) clocks[threadIdx.x / 32] = fewest;
  if (x == 0x80000001u) clocks[63] = x;  // so that the chain is needed
}

enum class load_way { first_level, second_level, relaxed, atomic };

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
      else if constexpr (Way == load_way::relaxed)
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%0];" : "+l"(at)::"memory");
      else
        asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%0], 0;" : "+l"(at)::"memory");
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

// A nanosleep of 1000 ns again and again: nanoseconds of all.
__global__ void sleep_kernel(uint32_t times, uint32_t* nanoseconds) {
  uint64_t begin, end;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin)::"memory");
  for (uint32_t i = 0; i < times; ++i) asm volatile("nanosleep.u32 1000;" ::: "memory");
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end)::"memory");
  nanoseconds[0] = static_cast<uint32_t>(end - begin);
}

// Each block reads all of `from` in the second level, from a place of its own on; `count` is a power of two. Clocks of
// the slowest block.
__global__ void read_kernel(const uint4* from, uint32_t count, uint32_t* clocks) {
  const uint32_t begin = clock_now();
  uint32_t sum = 0, at = threadIdx.x + blockIdx.x * 8192;
#pragma unroll 8
  for (uint32_t i = 0; i < count; i += blockDim.x, at += blockDim.x) {
    const uint4 v = __ldcg(from + (at & (count - 1)));
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(clocks, clock_now() - begin);
  if (sum == 0x80000001u) clocks[1] = sum;
}

// Of each block its multiprocessor, and the clocks there of its begin and its end, some thousands later.
__global__ void life_kernel(uint64_t* lives) {
  uint32_t processor;
  uint64_t begin, now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(begin)::"memory");
  asm volatile("mov.u32 %0, %%smid;" : "=r"(processor));
  do asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  while (now - begin < 20000);
  if (threadIdx.x != 0) return;
  lives[3 * blockIdx.x] = processor;
  lives[3 * blockIdx.x + 1] = begin;
  lives[3 * blockIdx.x + 2] = now;
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
    walk<load_way::atomic>("atomic, second level", 8 << 20, 128, true);
    sleep();
    rates();
    lives();
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
  void sleep() {
    constexpr uint32_t times = 256;
    launch(sleep_kernel, 1, 1, times, words());
    s_.found(record("machine").add("what", "sleep").add("of_asked", fetch(1)[0] / (1000. * times)));
  }
  void rates() {
    constexpr uint32_t bytes = 8 << 20;
    const tools::device_memory memory(bytes);
    tools::require(cudaMemsetAsync(memory.all().data(), 0, bytes, stream_));
    int processors = 0;
    tools::require(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    for (const auto& [what, blocks] : {std::pair{"port", 1}, std::pair{"second level", 2 * processors}}) {
      double best = 0;
      for (int run = 0; run < 3; ++run) {
        clear();
        launch(read_kernel, static_cast<unsigned>(blocks), 1024, reinterpret_cast<const uint4*>(memory.all().data()),
               bytes / 16, words());
        best = std::max(best, static_cast<double>(bytes) * blocks / fetch(1)[0]);
      }
      s_.found(record("machine").add("what", what).add("bytes_a_clock", best));
    }
  }
  // Between the first blocks of a multiprocessor, and from a block's end to the begin of the next in its place.
  void lives() {
    constexpr uint32_t blocks = 8192, threads = 256;
    const tools::device_memory memory(blocks * 24);
    launch(life_kernel, blocks, threads, reinterpret_cast<uint64_t*>(memory.all().data()));
    int resident = 0;
    tools::require(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, life_kernel, threads, 0));
    std::vector<uint64_t> all(blocks * 3);
    memory.download(as_writable_bytes(span<uint64_t>(all)), stream_);
    std::map<uint64_t, std::pair<std::vector<uint64_t>, std::vector<uint64_t> > > by_processor;
    for (size_t i = 0; i < all.size(); i += 3) {
      by_processor[all[i]].first.push_back(all[i + 1]);
      by_processor[all[i]].second.push_back(all[i + 2]);
    }
    std::vector<double> between, next;
    for (auto& [processor, life] : by_processor) {
      auto& [begins, ends] = life;
      std::sort(begins.begin(), begins.end());
      std::sort(ends.begin(), ends.end());
      const auto places = static_cast<size_t>(resident);
      for (size_t i = 1; i < std::min(begins.size(), places); ++i)
        between.push_back(static_cast<double>(begins[i] - begins[i - 1]));
      for (size_t i = places; i < begins.size(); ++i)
        next.push_back(static_cast<double>(begins[i]) - static_cast<double>(ends[i - places]));
    }
    for (auto& [what, clocks] : {std::pair{"between the first blocks", &between}, std::pair{"next block", &next}}) {
      if (clocks->empty()) continue;
      std::sort(clocks->begin(), clocks->end());
      found(what, (*clocks)[clocks->size() / 2]);
    }
  }
  void found(const char* what, double latency) {
    s_.found(record("machine").add("what", what).add("latency_clocks", latency));
  }

  template <chain What> void chain_of(const char* what, int instructions) {
    clear();
    launch(chain_kernel<What>, 1, 32, words(), 3);
    const auto one = fetch(33);
    const double latency = one[0] / static_cast<double>(chain_steps);
    const double code = 32. * (one[32] - one[0]) / (chain_steps * instructions);
    launch(chain_kernel<What>, 1, 1024, words(), 3);
    const auto all = fetch(32);
    const double each = *std::max_element(all.begin(), all.end()) / (32. * chain_steps);
    s_.found(record("machine")
                 .add("what", what)
                 .add("instructions", static_cast<uint64_t>(instructions))
                 .add("latency_clocks", latency)
                 .add("clocks_each", each)
                 .add("first_code_clocks", code));
  }
  void chains() {
#define TUCK_CHAIN(name, instructions, text) chain_of<chain::name>(#name, instructions);
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
  tools::device_memory memory_{8192};
};
#undef TUCK_CHAINS

}  // namespace

std::span<const experiment> machine_experiments() {
  static const experiment all[] = {{"machine", "latencies and rates of instructions, of memory, and of messages",
                                    [](const experiment_settings& s) { machine_check(s).run(); }}};
  return all;
}
#else
std::span<const experiment> machine_experiments() { return {}; }
#endif

}  // namespace tuck::bench
