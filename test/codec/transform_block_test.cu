// Transforms by blocks against those of one thread: the same bytes both ways, and none behind them.
#include "support/codecs.hpp"
#include "support/device.hpp"
#include "support/my_stages.cuh"

#include <tuck/codec/transform/differences_block.cuh>
#include <tuck/codec/transform/rows_block.cuh>

#include <algorithm>

namespace tuck::test {
namespace {

// The first `count` values of a tile's bytes, transformed in shared memory; `out` gets the whole tile. Chains call
// `apply` without a form. If there are several, this test calls choose_form, and apply with one, which block.cuh does
// not ask for.
template <class X, int Threads>
__global__ void transform_tile(X x, const std::byte* in, std::byte* out, uint32_t count, uint32_t form, bool inverse,
                               uint32_t* chosen) {
  using block = block_transform<X, Threads>;
  using storage = typename block::TempStorage;
  struct alignas(16) tile {
    std::byte bytes[tile_bytes];
  };
  TUCK_SHARED(storage, temp);
  TUCK_SHARED(tile, shared);
  copy_to_shared<Threads>(shared.bytes, {in, tile_bytes});
  device::sync_block();
  uint32_t best = 0;
  if constexpr (X::forms > 1) best = block(temp).choose_form(x, shared.bytes, count);
  device::sync_block();
  if (inverse)
    block(temp).invert(x, shared.bytes, count, form);
  else if constexpr (X::forms > 1)
    block(temp).apply(x, shared.bytes, count, form);
  else
    best = block(temp).apply(x, shared.bytes, count);
  chosen[threadIdx.x] = best;
  device::sync_block();
  copy_from_shared<Threads>({out, tile_bytes}, shared.bytes, tile_bytes);
}

template <class X> class block_transforms : public ::testing::Test {
 protected:
  using T = typename X::value_type;
  using result = typename X::result_type;
  static constexpr uint32_t capacity = tile_bytes / sizeof(T);

  // `from` becomes `to`; all behind it is `behind` and stays. All threads choose the form that the host chooses.
  template <int Threads>
  static void expect_bytes(const X& x, const void* from, const void* to, uint32_t count, uint32_t form, bool inverse,
                           uint8_t behind) {
    const uint32_t used = count * uint32_t{sizeof(T)}, touched = (used + 3) / 4 * 4;
    std::vector<std::byte> in(tile_bytes, std::byte{behind});
    std::memcpy(in.data(), from, used);
    const device_stream stream;
    const device_array<std::byte> input(in, stream), output(tile_bytes);
    const device_array<uint32_t> chosen(Threads);
    launch_on(stream, 1, Threads, transform_tile<X, Threads>, x, static_cast<const std::byte*>(input.data()),
              output.data(), count, form, inverse, chosen.data());
    const auto out = output.download(stream);
    uint32_t expected = 0;
    if constexpr (X::forms > 1) expected = x.choose_form(span<const T>(reinterpret_cast<const T*>(in.data()), count));
    ASSERT_EQ(chosen.download(stream), std::vector<uint32_t>(Threads, expected));
    ASSERT_EQ(std::memcmp(out.data(), to, used), 0);
    for (uint32_t i = touched; i < tile_bytes; ++i) ASSERT_EQ(out[i], std::byte{behind}) << i;
  }

  template <int Threads> static void expect_scalar_bytes(const std::vector<T>& values) {
    const X x = next();
    SCOPED_TRACE(std::to_string(values.size()) + " values, " + std::to_string(Threads) + " threads, parameter " +
                 std::to_string(x.stages().at[0].small_value));
    const auto count = static_cast<uint32_t>(values.size());
    std::vector<result> results(count * sizeof(T) / sizeof(result));
    for (uint32_t form = 0; form < X::forms; ++form) {
      x.apply(values, results, form);
      ASSERT_NO_FATAL_FAILURE(expect_bytes<Threads>(x, values.data(), results.data(), count, form, false, 0xa7));
      ASSERT_NO_FATAL_FAILURE(expect_bytes<Threads>(x, results.data(), values.data(), count, form, true, 0xff));
    }
  }
  // Rows of each length in turn: within a word, a thread's words and a chunk, and longer.
  static X next() {
    static uint32_t i = 0;
    constexpr uint32_t lengths[] = {1, 2, 3, 5, 31, 32, 384, 1023, 4096, ~0u};
    if constexpr (std::is_same_v<X, rows<T>>)
      return X(lengths[i++ % std::size(lengths)]);
    else
      return X{};
  }
  static void expect_scalar_bytes(const std::vector<T>& values) {
    ASSERT_NO_FATAL_FAILURE(expect_scalar_bytes<128>(values));
    ASSERT_NO_FATAL_FAILURE(expect_scalar_bytes<256>(values));
    ASSERT_NO_FATAL_FAILURE(expect_scalar_bytes<512>(values));
  }
};

using block_transformed = std::conditional_t<
    slow,
    joined<every_transform<uint8_t>,
           ::testing::Types<differences<bf16>, differences<float>, differences<int64_t>, mine::masked>>,
    joined<every_transform<uint8_t>, every_transform<bf16>, every_transform<float>, every_transform<double>,
           ::testing::Types<differences<int8_t>, differences<int32_t>, mine::masked>>>;
TYPED_TEST_SUITE(block_transforms, block_transformed);

TYPED_TEST(block_transforms, give_the_scalar_transform_s_bytes) {
  using value = typename TestFixture::T;
  std::mt19937_64 random(41);
  for_schedules(3, [&] {
    for (const uint32_t count : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 31u, 32u, 33u, 127u, 130u, 515u, 1000u, 2047u})
      ASSERT_NO_FATAL_FAILURE(
          TestFixture::expect_scalar_bytes(noise<value>(std::min(count, this->capacity), random())));
    for (const uint32_t less : {0u, 1u, 2u, 3u, 4u, 13u})
      ASSERT_NO_FATAL_FAILURE(TestFixture::expect_scalar_bytes(noise<value>(this->capacity - less, random())));
    for (int round = 0; round < (brief ? 3 : 12); ++round) {
      const uint64_t count = 1 + random() % this->capacity;
      ASSERT_NO_FATAL_FAILURE(
          TestFixture::expect_scalar_bytes(sparse_tensor<value>(count, .4, pattern::clustered, random())));
    }
  });
}

// Carries that would go from value to value, and sums that go round.
TYPED_TEST(block_transforms, keep_neighbours_apart) {
  using value = typename TestFixture::T;
  for (const uint64_t one : {uint64_t{1}, ~uint64_t{0}, uint64_t{0x8080808080808080}, uint64_t{0x7f7f7f7f7f7f7f7f}})
    for (const uint64_t other : {uint64_t{0}, ~uint64_t{0}, uint64_t{0x8000800080008000}}) {
      const value of[] = {__builtin_bit_cast(value, static_cast<bits_t<value>>(one)),
                          __builtin_bit_cast(value, static_cast<bits_t<value>>(other))};
      std::vector<value> values(this->capacity - 5);
      for (size_t i = 0; i < values.size(); ++i) values[i] = of[i % 3 != 0];
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values));
    }
}

}  // namespace
}  // namespace tuck::test
