// The share of zeros and the mean magnitude of tensors on the device.
#include "support/device.hpp"

#include <tuck/frame/statistics.cuh>

namespace tuck::test {
namespace {

template <element T>
tensor_statistics statistics_of(const std::vector<T>& values, const statistics_options& options = {},
                                const launch_options& how = {}) {
  const device_stream stream;
  const device_array<T> from(values, stream);
  const device_array<tensor_statistics> seen(1);
  const device_array<std::byte> scratch(statistics_scratch_bytes);
  EXPECT_EQ(initialize(scratch.scratch(), stream).code, status::ok);
  EXPECT_EQ(gather_statistics(span<const T>(from.all()), seen.data(), scratch.scratch(), stream, options, how).code,
            status::ok);
  // No sums are left there: encode takes what it finds for the states of chunks.
  EXPECT_EQ(scratch.download(stream), std::vector<std::byte>(statistics_scratch_bytes));
  return seen.download(stream)[0];
}

// With this share of zeros, small values of both signs else.
template <element T> std::vector<T> some_values(uint64_t count, double sparsity, uint64_t seed) {
  std::vector<T> values = sparse_tensor<T>(count, sparsity, pattern::iid, seed);
  if constexpr (floating_element<T>) {
    using format = float_format<T>;
    std::mt19937_64 random(seed);
    for (T& v : values) {
      const auto small = static_cast<typename format::real>(static_cast<int>(random() % 2000) - 1000) / 256;
      if (bits_of(v) != 0) v = __builtin_bit_cast(T, small == 0 ? format::sign : format::narrow(small));
    }
  }
  return values;
}

template <class T> class statistics_suite : public ::testing::Test {};
using types = ::testing::Types<uint8_t, f16, bf16, int32_t, float, double, f8e4m3>;
TYPED_TEST_SUITE(statistics_suite, types, element_names);

TYPED_TEST(statistics_suite, are_those_of_the_host) {
  constexpr uint64_t piece = tile_bytes / sizeof(TypeParam);
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{31}, piece - 1, piece, piece + 1, 9 * piece + 77})
    for (const double sparsity : {0., .5, .9, 1.}) {
      const auto values = some_values<TypeParam>(count, sparsity, 3);
      uint64_t zeros = 0;
      double magnitudes = 0;
      for (const TypeParam v : values) {
        zeros += bits_of(v) == 0;
        if constexpr (floating_element<TypeParam>)
          magnitudes += std::fabs(static_cast<double>(float_format<TypeParam>::widen(bits_of(v))));
      }
      for (const unsigned max_blocks : {0u, 1u, 3u}) {
        const tensor_statistics seen = statistics_of(values, {}, {.max_blocks = max_blocks});
        ASSERT_EQ(seen.count, count);
        ASSERT_EQ(seen.zeros, zeros);
        ASSERT_NEAR(seen.magnitudes, magnitudes, 1e-6 * magnitudes);
      }
    }
}

TEST(statistics, negative_zeros_are_none_and_what_is_not_finite_has_no_magnitude) {
  const float infinity = std::numeric_limits<float>::infinity();
  const tensor_statistics seen =
      statistics_of<float>({0, -0.f, 1, -2, infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 0});
  EXPECT_EQ(seen.count, 8u);
  EXPECT_EQ(seen.zeros, 2u);
  EXPECT_EQ(seen.magnitudes, 3);
  EXPECT_EQ(seen.sparsity(), .25);
  EXPECT_EQ(seen.mean_magnitude(), 3. / 8);
  EXPECT_EQ(statistics_of<float>({}).sparsity(), 0);
}

TEST(statistics, are_the_same_bits_under_every_schedule) {
  const auto values = some_values<float>(20 * 4096, .3, 5);
  const tensor_statistics once = statistics_of(values);
  for_schedules(8, [&] {
    const tensor_statistics again = statistics_of(values);
    ASSERT_EQ(std::memcmp(&once, &again, sizeof once), 0);
  });
}

TEST(statistics, a_sample_is_near_the_whole) {
  const auto values = some_values<float>(200 * 4096 + 5, .7, 7);
  const tensor_statistics whole = statistics_of(values), sample = statistics_of(values, {.sample_every = 10});
  EXPECT_LE(sample.count, 21u * 4096);
  EXPECT_GE(sample.count, 20u * 4096);
  EXPECT_NEAR(sample.sparsity(), whole.sparsity(), .01);
  EXPECT_NEAR(sample.mean_magnitude(), whole.mean_magnitude(), .01);
  EXPECT_EQ(statistics_of(values, {.sample_every = 0}).count, values.size());
  // Whole channels of zeros, which come again and again.
  for (const uint64_t period : {2, 4, 8, 16, 12})
    for (const uint32_t every : {4u, 8u, 16u}) {
      std::vector<uint8_t> channels(256 * tile_bytes, 1);
      for (uint64_t i = 0; i < channels.size(); ++i)
        if (i / tile_bytes % period < period / 2) channels[i] = 0;
      const double n = 256. / every, deviation = .5 / std::sqrt(n);
      EXPECT_NEAR(statistics_of(channels, {.sample_every = every}).sparsity(), .5, 3 * deviation)
          << period << " pieces, every " << every;
    }
  EXPECT_GT(statistics_of(values, {.sample_every = 1000000}).count, 0u);
}

#if defined(TUCK_CUDASIM)
TEST(statistics, read_the_tensor_once) {
  const auto values = some_values<float>(100 * 4096, .7, 7);
  const device_stream stream;
  const device_array<float> from(values, stream);
  const device_array<tensor_statistics> seen(1);
  const device_array<std::byte> scratch(statistics_scratch_bytes);
  ASSERT_EQ(initialize(scratch.scratch(), stream).code, status::ok);
  for (const uint32_t every : {1u, 10u}) {
    stream.wait();
    cudasim::clear_counters();
    ASSERT_EQ(gather_statistics(span<const float>(from.all()), seen.data(), scratch.scratch(), stream,
                                {.sample_every = every})
                  .code,
              status::ok);
    stream.wait();
    const cudasim::counters c = cudasim::snapshot();
    EXPECT_EQ(c.launches, 1u);
    EXPECT_EQ(c.allocations + c.memcpys + c.memsets + c.get_last_error, 0u);
    EXPECT_LE(static_cast<double>(c.tensor_bytes_read), 1.05 * 4 * static_cast<double>(values.size()) / every);
  }
}
#endif

TEST(statistics, misuse_is_named) {
  const device_stream stream;
  const device_array<float> from(std::vector<float>(64), stream);
  const device_array<tensor_statistics> seen(1);
  const device_array<std::byte> scratch(statistics_scratch_bytes);
  const span<const float> values(from.all());
  const auto code = [&](span<const float> v, tensor_statistics* to, scratch_span room, cudaStream_t on) {
    return gather_statistics(v, to, room, on).code;
  };
  EXPECT_EQ(code(values, nullptr, scratch.scratch(), stream), status::invalid_argument);
  EXPECT_EQ(code({nullptr, 3}, seen.data(), scratch.scratch(), stream), status::invalid_argument);
  EXPECT_EQ(code(values, seen.data(), {}, stream), status::invalid_argument);
  EXPECT_EQ(code(values, seen.data(), scratch_span(scratch.all().subspan(0, 64)), stream), status::scratch_too_small);
  EXPECT_EQ(code(values, seen.data(), scratch_span(scratch.all().subspan(8)), stream), status::misaligned);
}

}  // namespace
}  // namespace tuck::test
