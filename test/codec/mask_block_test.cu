// The masks of blocks beside those of a loop: their bits, the values at their ones, and the values that these restore.
#include "support/device_memory.hpp"
#include "support/tensors.hpp"

#include <tuck/codec/mask/block_masks.cuh>

#include <cstring>
#include <random>

namespace tuck::test {
namespace {

template <class T, int Threads> struct mask_storage {
  using masks = block_masks<T, Threads>;
  typename masks::TempStorage temp;
  alignas(16) std::byte mask[masks::most_bytes];
  alignas(16) std::byte packed[16 + tile_bytes + 16];
};

// Finds the mask, and packs the values at its ones; then reads both back.
template <class T, int Threads>
__global__ void mask_kernel(const T* values, uint32_t count, bool changes, std::byte* mask, std::byte* packed,
                            uint32_t* ones, T* restored) {
  using masks = block_masks<T, Threads>;
  using tile = typename masks::tile;
  using storage = mask_storage<T, Threads>;
  TUCK_SHARED(storage, shared);
  tile x;
  x.load(values, count);
  masks found;
  const uint32_t before_warp = tile::first_value(threadIdx.x / 32 * 32, 0);
  bits_t<T> last = 0;
  if (before_warp != 0 && before_warp <= count)
    last = device::load(reinterpret_cast<const bits_t<T>*>(values) + before_warp - 1);
  changes ? found.find_changes(x, last) : found.find_non_zeros(x);
  found.clip(count);
  found.store(shared.mask);
  masks::template prepare<true>(shared.temp);
  for (uint32_t i = threadIdx.x; i < sizeof shared.packed; i += Threads) shared.packed[i] = std::byte{};
  const auto sums = found.sum(shared.temp);
  found.put(shared.temp, x, found.find_positions(shared.packed + 16, sums.before));
  device::sync_block();
  for (uint32_t i = threadIdx.x; i < masks::most_bytes; i += Threads) device::store(mask + i, shared.mask[i]);
  for (uint32_t i = threadIdx.x; i < tile_bytes; i += Threads) device::store(packed + i, shared.packed[16 + i]);
  if (threadIdx.x == 0) device::store(ones, sums.all);
  masks read;
  read.template load<true>(shared.mask);
  masks::template prepare<false>(shared.temp);
  const auto positions = read.find_positions(shared.packed + 16, read.sum(shared.temp).before);
  block_output<T, Threads> out(restored, 0, count, count, false);
  detail::emit_rows<tile, false>(count, out, [&]<int R>() {
    const auto row = changes ? read.template get<true, R>(shared.temp, positions)
                             : read.template get<false, R>(shared.temp, positions);
    const uint32_t first = tile::first_value(R * tile::row_words);
    return tile::clip(row, count > first ? count - first : 0);
  });
}

template <class T, int Threads> void expect_mask(const std::vector<T>& values, bool changes) {
  using masks = block_masks<T, Threads>;
  const auto count = static_cast<uint32_t>(values.size());
  std::vector<std::byte> mask(masks::most_bytes), packed(tile_bytes);
  uint32_t ones = 0;
  bits_t<T> before{};
  for (uint32_t i = 0; i < count; ++i) {
    const auto x = bits_at(values.data(), i);
    if (x != (changes ? before : 0)) {
      mask[i / 8] |= static_cast<std::byte>(1 << i % 8);
      std::memcpy(packed.data() + ones++ * sizeof x, &x, sizeof x);
    }
    before = x;
  }
  const device_stream stream;
  const device_array<T> in(values, stream), restored(masks::tile::capacity);
  const device_array<std::byte> got_mask(mask.size()), got_packed(packed.size());
  const device_array<uint32_t> got_ones(1);
  launch_on(stream, 1, Threads, mask_kernel<T, Threads>, static_cast<const T*>(in.data()), count, changes,
            got_mask.data(), got_packed.data(), got_ones.data(), restored.data());
  ASSERT_EQ(got_ones.download(stream)[0], ones);
  ASSERT_EQ(got_mask.download(stream), mask);
  ASSERT_EQ(got_packed.download(stream), packed);
  ASSERT_TRUE(same_bits(restored.download(count, stream), values));
}

// Of no value, of one, of tails, and of full tiles; with no ones, with all, and with some.
template <class T> void expect_masks() {
  constexpr uint32_t capacity = tile_bytes / sizeof(T);
  std::mt19937_64 random(91);
  for_schedules(2, [&] {
    for (const uint32_t count : {0u, 1u, 33u, capacity / 2 + 1, capacity - 1, capacity})
      for (const uint64_t of_four : {0, 1, 4}) {
        if (count < capacity && of_four == 0) continue;
        std::vector<T> values(count);
        for (T& x : values) x = static_cast<T>(random() % 4 < of_four ? 1 + random() % 2 : 0);
        for (const bool changes : {false, true}) {
          ASSERT_NO_FATAL_FAILURE((expect_mask<T, 128>(values, changes))) << count << ' ' << of_four;
          if (count != capacity) continue;
          ASSERT_NO_FATAL_FAILURE((expect_mask<T, 512>(values, changes))) << count << ' ' << of_four;
        }
      }
  });
}
TEST(block_masks, bits_and_values) {
  expect_masks<uint8_t>();
  expect_masks<uint16_t>();
  expect_masks<float>();
  expect_masks<uint64_t>();
}

}  // namespace
}  // namespace tuck::test
