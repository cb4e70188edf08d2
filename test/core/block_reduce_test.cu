// core/block_reduce.cuh: what each lane of each warp gets.
#include "support/device_memory.hpp"

#include <tuck/core/block_reduce.cuh>

namespace tuck::test {
namespace {

constexpr uint32_t reduce_threads = 96, reduce_warps = reduce_threads / 32;

struct answer {
  uint64_t exchanged, before, largest;
};

template <class T> __global__ void __launch_bounds__(reduce_threads) reduce_kernel(uint32_t lane, answer* out) {
  using reduce = device::block_reduce<reduce_threads, T>;
  using storage = typename reduce::TempStorage;
  TUCK_SHARED(storage, temp);
  TUCK_SHARED(storage, of_largest);
  // Other lanes have other numbers, which nobody must see.
  const T mine = device::lane_id() == lane ? T{10} << device::warp_id() : T{1000};
  const T of_warp = reduce::exchange(temp, mine, lane);
  answer& mine_out = out[threadIdx.x];
  mine_out.exchanged = of_warp;
  mine_out.before = reduce::sum_before(reduce::get(temp));
  mine_out.largest = reduce::largest(of_largest, static_cast<T>(threadIdx.x * 7919 % reduce_threads));
}

template <class T> void expect_answers() {
  for (const uint32_t lane : {0u, 5u, 31u}) {
    const device_stream stream;
    device_array<answer> out(reduce_threads);
    launch_on(stream, 1, reduce_threads, reduce_kernel<T>, lane, out.data());
    const auto found = out.download(stream);
    for (uint32_t t = 0; t < reduce_threads; ++t) {
      EXPECT_EQ(found[t].exchanged, t % 32 < reduce_warps ? 10u << t % 32 : 0u) << t;
      EXPECT_EQ(found[t].before, 10 * ((1u << t / 32) - 1)) << t;
      EXPECT_EQ(found[t].largest, reduce_threads - 1) << t;
    }
  }
}
TEST(block_reduce, words_of_4_and_of_8_bytes) {
  expect_answers<uint32_t>();
  expect_answers<uint64_t>();
}

}  // namespace
}  // namespace tuck::test
