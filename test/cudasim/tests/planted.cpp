#include "planted.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
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

// Block 0 gives a value to block 1.
__global__ void publish(unsigned* value, unsigned* flag, unsigned* out, bool release) {
  if (blockIdx.x == 0) {
    *value = 7;
    if (release)
      dev::store_release(flag, 1u);
    else
      dev::store_relaxed(flag, 1u);
  } else {
    while (dev::load_acquire(flag) == 0) dev::backoff(20);
    *out = *value;
  }
}

__global__ void fenced(unsigned* values, unsigned* counter, unsigned* out) {
  values[blockIdx.x] = blockIdx.x;
  __threadfence();
  if (dev::atomic_add(counter, 1u) == gridDim.x - 1) {
    __threadfence();
    unsigned sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += values[i];
    *out = sum;
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
__global__ void raw_misaligned(const std::byte* p, unsigned* out) { *out = reinterpret_cast<const uint4*>(p + 4)->x; }
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

template <class... P, class... A> void run_or_throw(unsigned grid, unsigned block, void (*kernel)(P...), A&&... a) {
  require(run(grid, block, kernel, std::forward<A>(a)...));
}

void copy_and_reverse(copy_bug bug, unsigned values = 64) {
  buffer<dev::vec128> in(values), out(64);
  run_or_throw(1, 64, reverse_copies, in.get(), out.get(), 64u, bug);
}

const std::map<std::string, std::function<void()>>& scenarios() {
  static const std::map<std::string, std::function<void()>> all = {
      {"missing block barrier",
       [] {
         buffer<unsigned> out(256);
         run_or_throw(4, 64, reverse, out.get(), false);
       }},
      {"block barrier",
       [] {
         buffer<unsigned> out(256);
         run_or_throw(4, 64, reverse, out.get(), true);
       }},
      {"missing warp barrier",
       [] {
         buffer<unsigned> out(64);
         run_or_throw(1, 64, reverse_warp, out.get(), false);
       }},
      {"warp barrier",
       [] {
         buffer<unsigned> out(64);
         run_or_throw(1, 64, reverse_warp, out.get(), true);
       }},
      {"shuffle for a barrier",
       [] {
         buffer<unsigned> out(32);
         run_or_throw(1, 32, shuffle_is_no_barrier, out.get());
       }},
      {"relaxed publish",
       [] {
         buffer<unsigned> m(3);
         run_or_throw(2, 1, publish, &m[0], &m[1], &m[2], false);
       }},
      {"released publish",
       [] {
         buffer<unsigned> m(3);
         run_or_throw(2, 1, publish, &m[0], &m[1], &m[2], true);
       }},
      {"fenced publish",
       [] {
         buffer<unsigned> m(18);
         run_or_throw(16, 1, fenced, &m[0], &m[16], &m[17]);
       }},
      {"race between blocks",
       [] {
         buffer<unsigned> out(1);
         run_or_throw(8, 1, every_block_writes, out.get());
       }},
      {"unordered kernels", [] { two_streams(false); }},
      {"ordered kernels", [] { two_streams(true); }},
      {"unordered free", [] { free_elsewhere(false); }},
      {"ordered free", [] { free_elsewhere(true); }},
      {"use after free", use_after_free},
      {"host reads early", [] { read_before_synchronising(false); }},
      {"host reads in time", [] { read_before_synchronising(true); }},
      {"host writes early", [] { overwrite_input(false); }},
      {"host writes in time", [] { overwrite_input(true); }},
      {"unordered nodes", [] { parallel_nodes(false); }},
      {"ordered nodes", [] { parallel_nodes(true); }},
      {"storage used again",
       [] {
         buffer<unsigned> out(64);
         run_or_throw(1, 64, block_totals, out.get(), true);
       }},
      {"storage used in turn",
       [] {
         buffer<unsigned> out(64);
         run_or_throw(1, 64, block_totals, out.get(), false);
       }},
      {"copies", [] { copy_and_reverse(copy_bug::none); }},
      {"copy read before the wait", [] { copy_and_reverse(copy_bug::read_before_the_wait); }},
      {"copy without a barrier", [] { copy_and_reverse(copy_bug::no_barrier); }},
      {"copy over what is read", [] { copy_and_reverse(copy_bug::copied_over_early); }},
      {"copy from behind the end", [] { copy_and_reverse(copy_bug::none, 63); }},
      {"global overrun",
       [] {
         buffer<unsigned> out(30);
         run_or_throw(1, 32, set, out.get(), 32u);
       }},
      {"shared overrun",
       [] {
         buffer<unsigned> out(32);
         run_or_throw(1, 32, shared_overrun, out.get());
       }},
      {"misaligned",
       [] {
         buffer<std::byte> in(64);
         buffer<unsigned> out(1);
         run_or_throw(1, 1, raw_misaligned, in.get(), out.get());
       }},
      {"wild pointer",
       [] {
         buffer<unsigned> p(1);
         run_or_throw(2, 32, wild_pointer, p.get());
       }},
      {"stack overflow",
       [] {
         buffer<unsigned> p(1);
         run_or_throw(1, 32, recursion, p.get());
       }},
      {"endless loop", spin_for_ever},
      {"wide shift",
       [] {
         buffer<unsigned> out(1);
         run_or_throw(1, 1, wide_shift, out.get(), 32u);
       }},
  };
  return all;
}

}  // namespace

bool run_planted(const std::string& name) {
  const auto found = scenarios().find(name);
  if (found == scenarios().end()) return false;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    use_seed(seed);
    found->second();
  }
  return true;
}

}  // namespace sim_test
