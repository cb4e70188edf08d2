// Every bug that the simulator reports itself, and what the report says.
#include "support.hpp"

#include "planted.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace sim_test {
namespace {

using words = unsigned[64];

__global__ void barrier_for_some() {
  if (threadIdx.x < 40) dev::sync_block();
}
__global__ void two_barriers() {
  if (threadIdx.x == 33)
    dev::sync_block();
  else
    dev::sync_block();
}
__global__ void barrier_against_collective() {
  if (threadIdx.x == 0)
    dev::sync_block();
  else
    dev::sync_warp();
}
__global__ void different_masks() { dev::sync_warp(dev::lane_id() < 16 ? 0xffffu : dev::full_mask); }
__global__ void mask_without_me() { dev::ballot(true, 1u); }
__global__ void different_collectives() {
  if (dev::lane_id() == 3)
    dev::ballot(true);
  else
    dev::sync_warp();
}
__global__ void shuffle_outside_mask(unsigned* out) {
  if (dev::lane_id() < 8) out[dev::lane_id()] = dev::shfl(dev::lane_id(), 9, 0xffu);
}
__global__ void shuffle_from_exited(unsigned* out) {
  if (dev::lane_id() == 5) return;
  out[dev::lane_id()] = dev::shfl(dev::lane_id(), 5);
}
__global__ void shuffle_from_missing(unsigned* out) { out[dev::lane_id()] = dev::shfl(dev::lane_id(), 20); }
__global__ void wait_for_ever() {
  if (dev::lane_id() == 0)
    dev::sync_warp(3u);
  else if (dev::lane_id() == 1)
    dev::sync_warp(6u);
  else if (dev::lane_id() == 2)
    dev::sync_warp(5u);
}
__global__ void cannot_all_arrive(unsigned* out) {
  if (threadIdx.x < 32)
    out[threadIdx.x] = dev::ballot(threadIdx.x == 0 || true);
  else if (threadIdx.x < 48)
    dev::ballot(true);
  else
    dev::sync_block();
}
__global__ void overrun(unsigned count) {
  TUCK_SHARED(words, tile);
  volatile unsigned* p = tile;
  for (unsigned i = 0; i < count; ++i) p[i] = i;
}
__global__ void overrun_dynamic(unsigned count) {
  std::byte* p = cudasim::detail::dynamic_shared_memory();
  for (unsigned i = 0; i < count; ++i) p[i] = std::byte{1};
}
__global__ void too_much_shared(unsigned* out) {
  using large = unsigned char[40000];
  TUCK_SHARED(large, one);
  TUCK_SHARED(large, two);
  out[0] = one[0] + two[0];
}
__global__ void misaligned_load(const std::byte* p, unsigned* out) {
  *out = dev::load(reinterpret_cast<const dev::vec128*>(p + 8)).w[0];
}
__global__ void poll(const unsigned* flag) {
  while (dev::load_acquire(flag) == 0) dev::backoff(20);
}
__global__ void poll_together(const unsigned* flag) {
  while (!dev::sync_block_or(threadIdx.x == 0 && dev::load_acquire(flag) != 0)) {
  }
}
__global__ void take_lock(unsigned* lock) {
  while (atomicCAS(lock, 0u, 1u) != 0) {
  }  // nobody gives it back
}
// Each block waits for the one before it; without a ticket, that may not have been started.
__global__ void look_back(unsigned* state, unsigned* ticket) {
  const unsigned i = ticket ? dev::atomic_add(ticket, 1u) : blockIdx.x;
  while (i > 0 && dev::load_acquire(state + i - 1) == 0) {
  }
  dev::store_release(state + i, 1u);
}
__global__ void asserts(unsigned n) { assert(threadIdx.x != n); }
__global__ void traps() {
  if (threadIdx.x == 7) __trap();
}
__global__ void scan_twice(unsigned* out, bool synchronised) {
  using scan = dev::block_scan<64>;
  TUCK_SHARED(scan::TempStorage, temp);
  unsigned total = 0;
  const unsigned a = scan::exclusive_sum(temp, threadIdx.x, total);
  if (synchronised) dev::sync_block();
  out[threadIdx.x] = a + scan::sum(temp, 1u) + total;
}

// In two groups, of which it waits for the first, or for both; or not at all.
__global__ void copy_two(const unsigned* in, unsigned* out, int newest) {
  TUCK_SHARED(words, copied);
  const unsigned t = threadIdx.x;
  dev::copy_async(copied + t, in + t);
  dev::commit_copies();
  dev::copy_async(copied + 32 + t, in + 32 + t);
  dev::commit_copies();
  if (newest == 2) return;
  if (newest == 1) dev::wait_copies<1>();
  if (newest == 0) dev::wait_copies();
  for (unsigned i = t; i < 64; i += 32) out[i] = copied[i];
  dev::wait_copies();
}
__global__ void copy_misaligned(const std::byte* in) {
  TUCK_SHARED(words, copied);
  dev::copy_async(reinterpret_cast<std::uint64_t*>(copied + 1), reinterpret_cast<const std::uint64_t*>(in));
}

class device_error : public testing::Test {
 protected:
  void SetUp() override {
    cudasim::reset();
    use_seed(1);
  }
  void TearDown() override {
    cudasim::reset();
    use_seed(1);
  }
  // The launch fails, and the report contains all of the parts.
  template <class... P, class... A>
  void expect(std::initializer_list<const char*> parts, unsigned grid, unsigned block, void (*kernel)(P...), A&&... a) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(run(grid, block, kernel, std::forward<A>(a)...), cudaErrorLaunchFailure);
    const std::string printed = testing::internal::GetCapturedStderr(), report = cudasim::last_report();
    EXPECT_EQ(printed, report);
    for (const char* part : parts)
      EXPECT_NE(report.find(part), std::string::npos) << "no '" << part << "' in:\n" << report;
    cudasim::reset();
  }
  buffer<unsigned> out{64};
};

TEST_F(device_error, divergent_barrier) {
  expect({"divergent barrier", "barrier_for_some", "grid 2, block 64", "block ", "warp 1, lane ",
          "device_error_test.cpp:"},
         2, 64, barrier_for_some);
  expect({"divergent barrier", "threads wait at device_error_test.cpp:"}, 1, 64, two_barriers);
}

TEST_F(device_error, deadlock) {
  expect({"divergent barrier", "no thread of the block can go on",
          "lanes 0: wait at a block barrier at device_error_test.cpp:",
          "lanes 1-31: wait in a warp collective at device_error_test.cpp:"},
         1, 32, barrier_against_collective);
}

TEST_F(device_error, mismatched_mask) {
  expect(
      {"mismatched mask", "syncwarp with mask 0x0000ffff", "syncwarp with mask 0xffffffff", "block 0, warp 0, lane "},
      1, 32, different_masks);
  expect({"mask without the caller", "ballot with mask 0x00000001"}, 1, 32, mask_without_me);
  expect({"mismatched collective", "ballot with mask", "syncwarp with mask"}, 1, 32, different_collectives);
}

TEST_F(device_error, warp_deadlock) {
  run(1, 32, wait_for_ever);
  EXPECT_NE(cudasim::last_report(), "");
}

TEST_F(device_error, missing_lanes) {
  run(1, 64, cannot_all_arrive, out.get());
  EXPECT_NE(cudasim::last_report(), "");
}

TEST_F(device_error, shuffle_source) {
  expect({"shuffle from outside the mask", "shfl reads lane 9, mask 0x000000ff"}, 1, 32, shuffle_outside_mask,
         out.get());
  expect({"exited lane", "lane "}, 1, 32, shuffle_from_exited, out.get());
  expect({"shuffle from outside the mask", "shfl reads lane 20"}, 1, 16, shuffle_from_missing, out.get());
}

TEST_F(device_error, shared_overrun) {
  if (with_asan) GTEST_SKIP() << "AddressSanitizer ends the process; see planted_test";
  expect({"shared memory out of bounds", "the bytes behind tile (device_error_test.cpp:", "of 256 bytes", "block 0"}, 1,
         1, overrun, 65u);
  stream s;
  const cudaLaunchConfig_t c = config(s, 1, 1, 100);
  ASSERT_EQ(cudaLaunchKernelEx(&c, overrun_dynamic, 101u), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorLaunchFailure);
  EXPECT_NE(cudasim::last_report().find("dynamic shared memory, of 100 bytes"), std::string::npos);
}

TEST_F(device_error, too_much_static_shared_memory) {
  expect({"too much shared memory", "two does not fit"}, 1, 1, too_much_shared, out.get());
}

TEST_F(device_error, misaligned_load) {
  buffer<std::byte> in(64);
  expect({"misaligned access", "16 bytes at address"}, 1, 1, misaligned_load, in.get(), out.get());
}

TEST_F(device_error, never_published) {
  expect({"no progress", "poll at device_error_test.cpp:"}, 4, 1, poll, out.get());
  if (with_tsan) return;  // which takes long to wait
  expect({"no progress"}, 2, 64, poll_together, out.get());
  expect({"no progress"}, 2, 1, take_lock, out.get());
}

TEST_F(device_error, look_back_without_ticket) {
  int hung = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    use_seed(seed);
    buffer<unsigned> state(64), ticket(1);
    EXPECT_EQ(run(64, 1, look_back, state.get(), ticket.get()), cudaSuccess);
    std::fill(state.begin(), state.end(), 0u);
    hung += run(64, 1, look_back, state.get(), static_cast<unsigned*>(nullptr)) != cudaSuccess;
    cudasim::reset();
  }
  EXPECT_EQ(hung, 4);
}

TEST_F(device_error, assertion_and_trap) {
  expect({"assertion failed", "threadIdx.x != n", "lane 3", "device_error_test.cpp:"}, 1, 32, asserts, 3u);
  expect({"trap", "lane 7"}, 1, 32, traps);
}

TEST_F(device_error, temp_storage_reused) {
  EXPECT_EQ(run(1, 64, scan_twice, out.get(), true), cudaSuccess);
  EXPECT_EQ(out[5], 0u + 1 + 2 + 3 + 4 + 64 + 63 * 32);
  expect({"TempStorage reused", "no barrier since its last use"}, 1, 64, scan_twice, out.get(), false);
}

TEST_F(device_error, copies_are_waited_for) {
  buffer<unsigned> in(64);
  for (unsigned i = 0; i < 64; ++i) in[i] = i;
  expect({"unfinished copy", "device_error_test.cpp:"}, 1, 32, copy_two, in.get(), out.get(), 2);
  expect({"misaligned access", "8 bytes at address"}, 1, 1, copy_misaligned, reinterpret_cast<std::byte*>(in.get()));
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    use_seed(seed);
    EXPECT_EQ(run(1, 32, copy_two, in.get(), out.get(), 0), cudaSuccess);
    for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(out[i], i);
    if (with_asan) continue;  // it ends the process; see planted_test
    EXPECT_EQ(run(1, 32, copy_two, in.get(), out.get(), 1), cudaSuccess);
    for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(out[i], i < 32 ? i : 0xcdcdcdcdu);
  }
}

TEST_F(device_error, is_sticky_until_reset) {
  stream s;
  testing::internal::CaptureStderr();
  ASSERT_EQ(start(s, 1, 32, traps), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(start(s, 1, 32, traps), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  testing::internal::GetCapturedStderr();
  cudasim::reset();
  EXPECT_EQ(cudasim::last_report(), "");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(run(1, 32, poll, std::addressof(out[0] = 1)), cudaSuccess);
}

TEST_F(device_error, copies_read_too_early_are_poison) {
  if (with_asan || with_tsan) GTEST_SKIP() << "sanitizers report them; see planted_test";
  buffer<dev::vec128> in(64), reversed(64);
  for (unsigned i = 0; i < 64; ++i) in[i] = {{i, i, i, i}};
  const auto right = [&] {
    unsigned n = 0;
    for (unsigned i = 0; i < 64; ++i) n += reversed[i].w[3] == 63 - i;
    return n;
  };
  EXPECT_EQ(run(1, 64, reverse_copies, in.get(), reversed.get(), 64u, copy_bug::none), cudaSuccess);
  EXPECT_EQ(right(), 64u);
  EXPECT_EQ(run(1, 64, reverse_copies, in.get(), reversed.get(), 64u, copy_bug::read_before_the_wait), cudaSuccess);
  EXPECT_LT(right(), 64u);
}

// --- Bugs that show in the output -----------------------------------------------------------------------

// Only the first warp clears what all of them add to, each after many steps.
__global__ void count_late(unsigned* sum, bool synchronised) {
  TUCK_SHARED(words, tile);
  if (threadIdx.x == 0) tile[0] = 0;
  if (synchronised) dev::sync_block();
  unsigned x = threadIdx.x;
  for (int i = 0; i < 40; ++i) x = dev::shfl_xor(x, 1);
  dev::atomic_add(&tile[0], x < blockDim.x ? 1u : 0u);
  dev::sync_block();
  if (threadIdx.x == 0) dev::store(sum, tile[0]);
}

// Warps that take turns would all have begun before one is through.
TEST_F(device_error, a_missing_barrier_between_distant_steps_gives_wrong_output) {
  if (with_tsan) GTEST_SKIP() << "ThreadSanitizer reports races";
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 128; ++seed) {
    use_seed(seed);
    EXPECT_EQ(run(1, 128, count_late, out.get(), true), cudaSuccess);
    EXPECT_EQ(out[0], 128u);
    run(1, 128, count_late, out.get(), false);
    wrong += out[0] != 128;
  }
  EXPECT_GE(wrong, 2);
}

TEST_F(device_error, missing_barriers_give_wrong_output) {
  if (with_tsan) GTEST_SKIP() << "ThreadSanitizer reports them; see planted_test";
  int wrong_block = 0, wrong_warp = 0;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    use_seed(seed);
    const auto right = [&] {
      for (unsigned i = 0; i < 64; ++i)
        if (out[i] != 63 - i && out[i] != (i ^ 31)) return false;
      return true;
    };
    EXPECT_EQ(run(1, 64, reverse, out.get(), true), cudaSuccess);
    EXPECT_TRUE(right());
    run(1, 64, reverse, out.get(), false);
    wrong_block += !right();
    run(1, 64, reverse_warp, out.get(), true);
    EXPECT_TRUE(right());
    run(1, 64, reverse_warp, out.get(), false);
    wrong_warp += !right();
  }
  EXPECT_GE(wrong_block, 12);
  EXPECT_GE(wrong_warp, 12);
}

__global__ void copy_uninitialised(const unsigned* in, unsigned* result) {
  TUCK_SHARED(words, tile);
  result[0] = in[0];
  result[1] = tile[0];
}

TEST_F(device_error, uninitialised_memory_shows_the_poison) {
  for (const unsigned poison : {0xcdu, 0x3cu}) {
    cudasim::settings options;
    options.poison = static_cast<std::uint8_t>(poison);
    cudasim::configure(options);
    unsigned* fresh = nullptr;
    require(cudaMalloc(&fresh, 4));
    for (int block = 0; block < 3; ++block) {  // also when shared memory has been used before
      EXPECT_EQ(run(1, 1, copy_uninitialised, fresh, out.get()), cudaSuccess);
      EXPECT_EQ(out[0], poison * 0x01010101u);
      EXPECT_EQ(out[1], poison * 0x01010101u);
      EXPECT_EQ(run(1, 1, overrun, 64u), cudaSuccess);
    }
    require(cudaFree(fresh));
  }
}

}  // namespace
}  // namespace sim_test
