#include "planted.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>

namespace sim_test {

using words = unsigned[256];

__global__ void reverse(unsigned* reversed, bool synchronised) {
  TUCK_SHARED(words, tile);
  tile[threadIdx.x] = threadIdx.x;
  if (synchronised) dev::sync_block();
  dev::store(reversed + blockIdx.x * blockDim.x + threadIdx.x, tile[blockDim.x - 1 - threadIdx.x]);
}

__global__ void reverse_warp(unsigned* reversed, bool synchronised) {
  TUCK_SHARED(words, tile);
  tile[threadIdx.x] = threadIdx.x;
  if (synchronised) dev::sync_warp();
  dev::store(reversed + threadIdx.x, tile[threadIdx.x ^ 31]);
}

__global__ void reverse_copies(const dev::vec128* in, dev::vec128* reversed, unsigned count, copy_bug bug) {
  using tile = dev::vec128[64];
  TUCK_SHARED(tile, copied);
  const unsigned t = threadIdx.x;
  for (int turn = 0; turn < 2; ++turn) {
    if (t < count) dev::copy_async(copied + t, in + t);
    if (bug != copy_bug::read_before_the_wait) dev::wait_copies();
    if (bug != copy_bug::no_barrier) dev::sync_block();
    dev::store(reversed + t, copied[63 - t]);
    if (bug == copy_bug::read_before_the_wait) dev::wait_copies();
    if (bug != copy_bug::copied_over_early) dev::sync_block();
  }
}

namespace {

__global__ void shuffle_is_no_barrier(unsigned* out) {
  TUCK_SHARED(words, tile);
  tile[threadIdx.x] = threadIdx.x;
  dev::shfl(threadIdx.x, 0);
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

// Block 0 gives a value to block 1: value, flag, what block 1 found.
__global__ void publish(unsigned* m, bool release) {
  if (blockIdx.x == 0) {
    m[0] = 7;
    if (release)
      dev::store_release(m + 1, 1u);
    else
      dev::store_relaxed(m + 1, 1u);
  } else {
    while (dev::load_acquire(m + 1) == 0) dev::backoff(20);
    m[2] = m[0];
  }
}

// A value of each block, a counter, and their sum.
__global__ void fenced(unsigned* m) {
  m[blockIdx.x] = blockIdx.x;
  __threadfence();
  if (dev::atomic_add(m + gridDim.x, 1u) == gridDim.x - 1) {
    __threadfence();
    unsigned sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += m[i];
    m[gridDim.x + 1] = sum;
  }
}

__global__ void every_block_writes(unsigned* out) { *out = blockIdx.x; }
__global__ void set(unsigned* out, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = i;
}
__global__ void add_one(unsigned* p, unsigned n) {
  if (threadIdx.x < n) p[threadIdx.x] += 1;
}
__global__ void shared_overrun(unsigned* out) {
  TUCK_SHARED(words, tile);
  volatile unsigned* p = tile;
  p[threadIdx.x + 225] = 1;  // 32 lanes: one past the end
  out[0] = p[225];
}
__global__ void raw_misaligned(unsigned* m) { m[0] = reinterpret_cast<const uint4*>(m + 1)->x; }
__global__ void wide_shift(unsigned* out, unsigned by) { out[0] = 1u << by; }
__global__ void block_totals(unsigned* out, bool misuse) {
  using scan = dev::block_scan<64>;
  union both {
    scan::TempStorage temp;
    unsigned char bytes[64];
  };
  TUCK_SHARED(both, shared);
  const unsigned total = scan::sum(shared.temp, 1u);
  if (!misuse) dev::sync_block();
  shared.bytes[63 - threadIdx.x] = 1;  // another use of the storage
  out[threadIdx.x] = total;
}
__global__ void nothing() {}

__global__ void wild_pointer(unsigned* p) {
  if (threadIdx.x == 9) p[std::size_t{1} << 40] = 1;
}
__global__ void recursion(volatile unsigned* p) {
  volatile unsigned frame[1024];
  frame[threadIdx.x] = p[0];
  if (p[0] != 1) recursion(frame);
  p[0] = frame[1] + 1;
}
__global__ void endless(const volatile unsigned* p) {
  while (*p == 0) {
  }
}

void spin_for_ever() {
  cudasim::settings options;
  options.watchdog_ms = 300;
  cudasim::configure(options);
  buffer<unsigned> p(1);
  run(1, 1, endless, p.get());
}

void two_streams(bool ordered) {
  buffer<unsigned> p(32);
  stream a, b;
  event e;
  start(a, 1, 32, add_one, p.get(), 32u);
  if (ordered) {
    cudaEventRecord(e, a);
    cudaStreamWaitEvent(b, e);
  }
  start(b, 1, 32, add_one, p.get(), 32u);
  cudaDeviceSynchronize();
}

void free_elsewhere(bool ordered) {
  stream a, b;
  event e;
  unsigned* p = nullptr;
  require(cudaMallocAsync(&p, 128, a));
  start(a, 1, 32, add_one, p, 32u);
  if (ordered) {
    cudaEventRecord(e, a);
    cudaStreamWaitEvent(b, e);
  }
  cudaFreeAsync(p, b);
  cudaDeviceSynchronize();
}

void use_after_free() {
  stream s;
  unsigned* p = nullptr;
  require(cudaMallocAsync(&p, 128, s));
  cudaFreeAsync(p, s);
  start(s, 1, 32, add_one, p, 32u);
  cudaStreamSynchronize(s);
}

void read_before_synchronising(bool synchronised) {
  buffer<unsigned> p(32);
  stream s;
  start(s, 1, 32, add_one, p.get(), 32u);
  if (synchronised)
    s.wait();
  else
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  volatile unsigned seen = p[0];
  static_cast<void>(seen);
  s.wait();
}

void overwrite_input(bool synchronised) {
  buffer<unsigned> from(32), to(32);
  stream s;
  cudaMemcpyAsync(to.get(), from.get(), 128, cudaMemcpyDefault, s);
  if (synchronised) s.wait();
  from[3] = 1;
  start(s, 1, 32, nothing);  // a later task must not order the write before the copy
  s.wait();
}

void parallel_nodes(bool ordered) {
  buffer<unsigned> p(32);
  stream a, b;
  event fork, join;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  require(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  require(cudaEventRecord(fork, a));
  require(cudaStreamWaitEvent(b, fork));
  start(a, 1, 32, add_one, p.get(), 32u);
  if (ordered) {
    require(cudaEventRecord(fork, a));
    require(cudaStreamWaitEvent(b, fork));
  }
  start(b, 1, 32, add_one, p.get(), 32u);
  require(cudaEventRecord(join, b));
  require(cudaStreamWaitEvent(a, join));
  require(cudaStreamEndCapture(a, &graph));
  require(cudaGraphInstantiate(&exec, graph));
  require(cudaGraphLaunch(exec, a));
  a.wait();
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

// Launches a kernel on so many words.
template <class First, class... P, class... A>
std::function<void()> on(unsigned words, unsigned grid, unsigned block, void (*kernel)(First*, P...), A... a) {
  return [=] {
    buffer<unsigned> all(words);
    require(run(grid, block, kernel, all.get(), a...));
  };
}

std::function<void()> copies(copy_bug bug, unsigned values = 64) {
  return [=] {
    buffer<dev::vec128> in(values), out(64);
    require(run(1, 64, reverse_copies, in.get(), out.get(), 64u, bug));
  };
}

}  // namespace

const std::vector<planted>& all_planted() {
  static constexpr const char* race = "WARNING: ThreadSanitizer: data race";
  static const std::vector<planted> all = {
      {"block barrier", on(256, 4, 64, reverse, true)},
      {"missing block barrier", on(256, 4, 64, reverse, false), nullptr, race},
      {"warp barrier", on(64, 1, 64, reverse_warp, true)},
      {"missing warp barrier", on(64, 1, 64, reverse_warp, false), nullptr, race},
      {"shuffle for a barrier", on(32, 1, 32, shuffle_is_no_barrier), nullptr, race},
      {"released publish", on(3, 2, 1, publish, true)},
      {"relaxed publish", on(3, 2, 1, publish, false), nullptr, race},
      {"fenced publish", on(18, 16, 1, fenced)},
      {"race between blocks", on(1, 8, 1, every_block_writes), nullptr, race},
      {"ordered kernels", [] { two_streams(true); }},
      {"unordered kernels", [] { two_streams(false); }, nullptr, race},
      {"ordered free", [] { free_elsewhere(true); }},
      {"unordered free", [] { free_elsewhere(false); }, nullptr, "WARNING: ThreadSanitizer: "},
      {"use after free", use_after_free, "heap-use-after-free", "heap-use-after-free"},
      {"host reads in time", [] { read_before_synchronising(true); }},
      {"host reads early", [] { read_before_synchronising(false); }, nullptr, race},
      {"host writes in time", [] { overwrite_input(true); }},
      {"host writes early", [] { overwrite_input(false); }, nullptr, race},
      {"ordered nodes", [] { parallel_nodes(true); }},
      {"unordered nodes", [] { parallel_nodes(false); }, nullptr, race},
      {"storage used in turn", on(64, 1, 64, block_totals, false)},
      {"storage used again", on(64, 1, 64, block_totals, true), nullptr, race},
      {"copies", copies(copy_bug::none)},
      {"copy read before the wait", copies(copy_bug::read_before_the_wait), "use-after-poison"},
      {"copy without a barrier", copies(copy_bug::no_barrier), nullptr, race},
      {"copy over what is read", copies(copy_bug::copied_over_early), nullptr, race},
      {"copy from behind the end", copies(copy_bug::none, 63), "heap-buffer-overflow"},
      {"global overrun", on(30, 1, 32, set, 32u), "heap-buffer-overflow"},
      {"shared overrun", on(32, 1, 32, shared_overrun), "use-after-poison", "overwritten"},
      {"misaligned", on(16, 1, 1, raw_misaligned), "misaligned address"},
      {"wild pointer", on(1, 2, 32, wild_pointer), "SEGV", "SEGV", "invalid access at address"},
      {"stack overflow", on(1, 1, 32, recursion), "stack-overflow", nullptr, "stack overflow at address"},
      {"endless loop", spin_for_ever, "has not given way for", "has not given way for", "has not given way for"},
      {"wide shift", on(1, 1, 1, wide_shift, 32u), "shift exponent 32 is too large"},
  };
  return all;
}

bool run_planted(const std::string& name) {
  const auto found =
      std::find_if(all_planted().begin(), all_planted().end(), [&](const planted& p) { return name == p.name; });
  if (found == all_planted().end()) return false;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    use_seed(seed);
    found->run();
  }
  return true;
}

}  // namespace sim_test
