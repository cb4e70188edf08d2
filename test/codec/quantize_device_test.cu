// What quantize alone asks of the device: the range of a tensor, bounds in device memory.
#include "support/block_payloads.hpp"
#include "support/codecs.hpp"
#include "support/device.hpp"

#include <cmath>
#include <limits>

namespace tuck::test {
namespace {

template <class E> class quantize_device : public ::testing::Test {
 protected:
  static std::vector<E> tensor(uint64_t count, uint64_t seed = 1) {
    return sample<quantize<E>>::tensor(count, .3, pattern::clustered, seed);
  }
};
using floats = ::testing::Types<f16, bf16, float, double>;
TYPED_TEST_SUITE(quantize_device, floats);

// As the first stage of a chain: the host's frames and values, of whole chunks and parts of them, with and without
// exceptions.
TYPED_TEST(quantize_device, in_chains_makes_the_host_s_frames_and_values) {
  using codes = bits_t<TypeParam>;
  constexpr uint64_t tile = tile_bytes / sizeof(TypeParam);
  device_queue queue;
  for (const error_bound bound : {error_bound::absolute(.01), error_bound::pointwise(.01)}) {
    const chain<quantize_codes<TypeParam>, huffman<codes>> codec(bound);
    for (const uint64_t count : {tile, tile + 5, 3 * tile + tile / 2 + 1}) {
      auto values = TestFixture::tensor(count, count);
      for (const bool exceptions : {false, true}) {
        if (exceptions)
          for (uint64_t i = 7; i < count; i += 501)
            values[i] = __builtin_bit_cast(TypeParam, float_format<TypeParam>::infinity);
        const auto frame = queue.encode(codec, values, {.checksums = true});
        ASSERT_EQ(frame, encoded(codec, values, {.checksums = true})) << count << exceptions;
        std::vector<TypeParam> restored(count), expected(count);
        ASSERT_EQ(queue.decode(codec, frame, restored).code, status::ok);
        ASSERT_EQ(host::decode(codec, frame, expected).code, status::ok);
        ASSERT_TRUE(same_bits(restored, expected)) << count << exceptions;
      }
    }
  }
}

TYPED_TEST(quantize_device, finds_the_range_that_the_host_finds) {
  constexpr uint64_t tile = tile_bytes / sizeof(TypeParam);
  const quantize<TypeParam> codec(error_bound::range_relative(1e-3));
  for_schedules(4, [&] {
    device_queue queue;
    for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{33}, tile - 1, tile + 1, 9 * tile + 5}) {
      const auto values = TestFixture::tensor(count, count);
      ASSERT_EQ(queue.encode(codec, values), encoded(codec, values)) << count;
      ASSERT_EQ(queue.encode(codec, values, {.checksums = true}, {.max_blocks = 2}),
                encoded(codec, values, {.checksums = true}));
    }
  });
}

TYPED_TEST(quantize_device, a_range_of_nothing_or_of_everything) {
  using format = float_format<TypeParam>;
  const auto of = [](bits_t<TypeParam> bits) { return __builtin_bit_cast(TypeParam, bits); };
  const auto largest = static_cast<bits_t<TypeParam>>(format::infinity - 1);
  const quantize<TypeParam> codec(error_bound::range_relative(1e-2));
  device_queue queue;
  for (const auto& [a, b] : {std::pair{largest, largest},
                             {largest, static_cast<bits_t<TypeParam>>(largest ^ format::sign)},
                             {format::infinity, static_cast<bits_t<TypeParam>>(format::infinity + 1)},
                             {bits_t<TypeParam>{0}, format::sign},
                             {bits_t<TypeParam>{1}, bits_t<TypeParam>{2}}}) {
    std::vector<TypeParam> values(5000, of(a));
    for (size_t i = 0; i < values.size(); i += 3) values[i] = of(b);
    const auto frame = queue.encode(codec, values);
    ASSERT_EQ(frame, encoded(codec, values)) << +a << ' ' << +b;
    std::vector<TypeParam> restored(values.size());
    ASSERT_EQ(queue.decode(quantize<TypeParam>{}, frame, restored).code, status::ok);
    EXPECT_TRUE(same_bits(restored, expected_values<quantize<TypeParam>>(values, frame)));
  }
}

// Warps that have few words each see one another's codes all the same.
template <class C> using quantize_threads = block_against_scalar<C>;
using quantizers = ::testing::Types<quantize<f16>, quantize<bf16>, quantize<float>, quantize<double>>;
TYPED_TEST_SUITE(quantize_threads, quantizers);

TYPED_TEST(quantize_threads, any_number_of_them_makes_the_scalar_bytes) {
  using value = value_t<TypeParam>;
  const TypeParam codec(error_bound::absolute(1e-3));
  for (const uint32_t count : {1000u, static_cast<uint32_t>(max_device_chunk_values<TypeParam>)}) {
    const std::vector<value> values = sample<TypeParam>::tensor(count, .3, pattern::clustered, count);
    for_schedules(3, [&] {
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values, codec));
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<512>(values, codec));
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<1024>(values, codec));
    });
  }
}

// The last call's range is forgotten: a smaller tensor after a larger one.
TYPED_TEST(quantize_device, ranges_do_not_leak_from_call_to_call) {
  const quantize<TypeParam> codec(error_bound::range_relative(1e-3));
  device_queue queue;
  for (const double scale : {1000., 1., 10.}) {
    auto values = TestFixture::tensor(3000);
    for (auto& v : values) {
      using format = float_format<TypeParam>;
      const double x = static_cast<double>(format::widen(bits_of(v)));
      v = __builtin_bit_cast(TypeParam, std::isfinite(x) && std::fabs(x) < 30
                                            ? format::narrow(static_cast<typename format::real>(x * scale))
                                            : bits_t<TypeParam>{0});
    }
    ASSERT_EQ(queue.encode(codec, values), encoded(codec, values)) << scale;
  }
}

TYPED_TEST(quantize_device, the_bound_may_be_in_device_memory) {
  device_queue queue;
  const auto values = TestFixture::tensor(9000);
  for (const bound_mode mode : {bound_mode::absolute, bound_mode::range_relative, bound_mode::pointwise})
    for (const double value : {.5, 1e-3}) {
      const device_array<double> there(std::vector<double>{value}, queue.stream);
      const quantize<TypeParam> by_pointer(error_bound{mode, 0, there.data()});
      const quantize<TypeParam> by_value(error_bound{mode, value});
      EXPECT_EQ(queue.encode(by_pointer, values, {.checksums = true}), encoded(by_value, values, {.checksums = true}));
    }
}

TYPED_TEST(quantize_device, a_bound_in_device_memory_that_is_none_is_refused) {
  device_queue queue;
  const auto values = TestFixture::tensor(9000);
  const device_array<TypeParam> in(values, queue.stream);
  const span<const TypeParam> all = in.all();
  for (const double value : {0., -1., std::nan(""), HUGE_VAL}) {
    const device_array<double> there(std::vector<double>{value}, queue.stream);
    const quantize<TypeParam> codec(error_bound{bound_mode::absolute, 0, there.data()});
    const std::vector<std::byte> stale(max_frame_bytes(codec, values.size()), std::byte{0x77});
    const device_array<std::byte> room(stale, queue.stream);
    const outcome o = queue.finish(encode(codec, all, room.all(), queue.scratch(), queue.written(), queue.stream));
    EXPECT_EQ(o.code, status::bad_bound) << value;
    EXPECT_EQ(o.bytes, 0u);
    frame_header header;
    EXPECT_NE(inspect(room.download(queue.stream), header), status::ok);
    const outcome counted = queue.finish(encoded_bytes(codec, all, queue.scratch(), queue.written(), queue.stream));
    EXPECT_EQ(counted.code, status::bad_bound);
  }
  const quantize<TypeParam> sound(error_bound::range_relative(1e-2));
  EXPECT_EQ(queue.encode(sound, values), encoded(sound, values));  // the scratch is as it should be
}

TEST(quantize_device_misuse, is_named) {
  device_queue queue;
  const auto values = sample<quantize<float>>::tensor(1000, .3);
  const device_array<float> in(values, queue.stream);
  const device_array<std::byte> room(8192);
  const span<const float> all = in.all();
  const auto attempt = [&](const error_bound& bound) {
    return encode(quantize<float>(bound), all, room.all(), queue.scratch(), queue.written(), queue.stream).code;
  };
  for (const double value : {0., -1., std::nan(""), HUGE_VAL}) {
    EXPECT_EQ(attempt(error_bound::absolute(value)), status::bad_bound);
    EXPECT_EQ(attempt(error_bound::range_relative(value)), status::bad_bound);
    EXPECT_EQ(attempt(error_bound::pointwise(value)), status::bad_bound);
  }
  EXPECT_EQ(attempt({static_cast<bound_mode>(3), 1.}), status::invalid_argument);
  const auto* odd = reinterpret_cast<const double*>(reinterpret_cast<const char*>(in.data()) + 4);
  EXPECT_EQ(attempt({bound_mode::absolute, 0, odd}), status::misaligned);
}

TEST(quantize_device_graph, a_captured_graph_follows_its_bound_and_its_range) {
  device_queue queue;
  constexpr uint64_t count = 5 * 4096 + 9;
  device_array<float> in(count);
  device_array<double> bound(1);
  const quantize<float> codec(error_bound{bound_mode::range_relative, 0, bound.data()});
  const device_array<std::byte> frame(max_frame_bytes(codec, count));
  const span<const float> values = in.all();

  cudaGraph_t graph;
  cudaGraphExec_t replay;
  ASSERT_EQ(cudaStreamBeginCapture(queue.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(encode(codec, values, frame.all(), queue.scratch(), queue.written(), queue.stream).code, status::ok);
  ASSERT_EQ(cudaStreamEndCapture(queue.stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
  for (const double value : {1e-2, 1e-4, 1e-3}) {
    const auto data = sample<quantize<float>>::tensor(count, .5, pattern::clustered, static_cast<uint64_t>(1 / value));
    in.upload(data, queue.stream);
    bound.upload({value}, queue.stream);
    ASSERT_EQ(cudaGraphLaunch(replay, queue.stream), cudaSuccess);
    queue.stream.wait();
    const auto expected = encoded(quantize<float>(error_bound::range_relative(value)), data);
    EXPECT_EQ(frame.download(expected.size(), queue.stream), expected);
  }
  ASSERT_EQ(cudaGraphExecDestroy(replay), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

#if defined(TUCK_CUDASIM)
TYPED_TEST(quantize_device, a_range_costs_one_more_launch_and_one_more_reading) {
  device_queue queue;
  const auto values = TestFixture::tensor(12 * (tile_bytes / sizeof(TypeParam)));
  const device_array<TypeParam> in(values, queue.stream);
  const quantize<TypeParam> codec(error_bound::range_relative(1e-3));
  const device_array<std::byte> frame(max_frame_bytes(codec, values.size()));
  const span<const TypeParam> all = in.all();
  auto settings = cudasim::current_settings();
  settings.count_traffic = true;
  cudasim::configure(settings);
  cudasim::tag_tensor(all.data(), all.size_bytes());
  cudasim::clear_counters();
  ASSERT_EQ(encode(codec, all, frame.all(), queue.scratch(), queue.written(), queue.stream).code, status::ok);
  const cudasim::counters host_side = cudasim::snapshot();
  queue.stream.wait();
  const cudasim::counters c = cudasim::snapshot();
  cudasim::untag(all.data());
  settings.count_traffic = false;
  cudasim::configure(settings);
  EXPECT_EQ(host_side.launches, 2u);
  EXPECT_EQ(host_side.allocations + host_side.synchronisations + host_side.memcpys + host_side.memsets, 0u);
  EXPECT_LE(static_cast<double>(c.tensor_bytes_read), 2.02 * static_cast<double>(all.size_bytes()));
  // Exceptions are read again one by one.
  EXPECT_GE(static_cast<double>(c.tensor_bytes_read), 32 * .93 * static_cast<double>(c.tensor_sectors_read));
}
#endif

}  // namespace
}  // namespace tuck::test
