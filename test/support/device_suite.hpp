// Frames on the device: the same bytes as on the host, whatever the schedule. For a codec of your own, or a chain with
// it:
//
//   INSTANTIATE_TYPED_TEST_SUITE_P(mine, device_suite, ::testing::Types<my_codec>, codec_names);
//
// Its values are those of sample<my_codec> (codecs.hpp).
#pragma once

#include "support/codecs.hpp"
#include "support/device.hpp"

namespace tuck::test {

template <class C> class device_suite : public ::testing::Test {
 protected:
  // Under sanitizers, chunks of 64 KiB take too long where there are many.
  static constexpr uint32_t chunk_bytes = slow ? std::min(C::chunk_bytes, tile_bytes) : C::chunk_bytes;
  static constexpr uint32_t chunk_values = chunk_bytes / sizeof(value_t<C>);

  // Both frames equal, and each side decodes them.
  static void expect_same(device_queue& queue, const std::vector<value_t<C>>& values, const frame_options& options = {},
                          launch_options how = {}) {
    const C codec = sample<C>::codec();
    const auto frame = queue.encode(codec, values, options, how);
    ASSERT_EQ(frame, encoded(codec, values, options)) << values.size() << " values";
    auto restored = sparse_tensor<value_t<C>>(values.size(), 0, pattern::iid, 99);
    const outcome o = queue.decode(C{}, frame, restored, 0, how);
    ASSERT_EQ(o.code, status::ok);
    ASSERT_EQ(o.bytes, values.size() * sizeof(value_t<C>));
    ASSERT_TRUE(same_bits(restored, expected_values<C>(values, frame))) << values.size() << " values";
  }
};
TYPED_TEST_SUITE_P(device_suite);

TYPED_TEST_P(device_suite, frames_are_those_of_the_host_under_every_schedule) {
  constexpr uint32_t chunk = TestFixture::chunk_values;
  for_schedules(8, [] {
    device_queue queue;
    for (const uint64_t size : {0u, 1u, 31u, 32u, 33u, chunk - 1, chunk, chunk + 1, 3 * chunk + 7})
      for (const double sparsity : {0., .1, .5, .9, .99, 1.})
        for (const pattern how : {pattern::iid, pattern::clustered}) {
          if (how == pattern::clustered && sparsity != .5 && sparsity != .9) continue;
          if (slow && (sparsity == .1 || sparsity == .99)) continue;
          const auto values = sample<TypeParam>::tensor(size, sparsity, how, size);
          ASSERT_NO_FATAL_FAILURE(TestFixture::expect_same(queue, values, {.chunk_values = chunk})) << sparsity;
        }
  });
}

TYPED_TEST_P(device_suite, a_million_values) {
  device_queue queue;
  for (const double sparsity : {0., .1, .5, .9, .99, 1.}) {
    if (sparsity != .1 && sparsity != .9 && !long_run()) continue;
    const auto values = sample<TypeParam>::tensor(brief ? 200'013 : 1'000'013, sparsity, pattern::clustered);
    ASSERT_NO_FATAL_FAILURE(TestFixture::expect_same(queue, values)) << sparsity;
  }
}

TYPED_TEST_P(device_suite, options_make_the_host_s_bytes_too) {
  const auto values = sample<TypeParam>::tensor(7 * 256 + 5, .6, pattern::clustered);
  const std::vector<std::byte> metadata(77, std::byte{0x5a});
  device_queue queue;
  for (const bool checksums : {false, true})
    for (const uint32_t alignment : {16u, 32u, 4096u})
      for (const uint32_t length : {256u, 1024u})
        ASSERT_NO_FATAL_FAILURE(TestFixture::expect_same(
            queue, values, {length, alignment, checksums, const_bytes(metadata).subspan(0, checksums ? 77 : 1)}))
            << alignment << ' ' << length << ' ' << checksums;
}

TYPED_TEST_P(device_suite, many_small_chunks_under_every_schedule) {
  const auto values = sample<TypeParam>::tensor((brief ? 40 : 100) * 32 + 5, .6);
  for_schedules(8, [&] {
    device_queue queue;
    for (const launch_options how : {launch_options{.chunk_values = 32}, launch_options{.max_blocks = 3}})
      ASSERT_NO_FATAL_FAILURE(TestFixture::expect_same(queue, values, {.chunk_values = 32, .checksums = true}, how));
  });
}

TYPED_TEST_P(device_suite, any_range_decodes_alone) {
  const auto values = sample<TypeParam>::tensor(2 * 1024 + 7, .5);
  const auto frame = encoded(sample<TypeParam>::codec(), values, {.chunk_values = 1024, .checksums = true});
  const auto restored = expected_values<TypeParam>(values, frame);
  device_queue queue;
  std::mt19937_64 random(5);
  for (int round = 0; round < 40; ++round) {
    const uint64_t first = random() % (values.size() + 1);
    const uint64_t count = random() % (values.size() - first + 1) >> random() % 12;
    std::vector<value_t<TypeParam>> out(count);
    const outcome o = queue.decode(TypeParam{}, frame, out, first);
    ASSERT_EQ(o.code, status::ok);
    ASSERT_EQ(o.bytes, count * sizeof(value_t<TypeParam>));
    ASSERT_TRUE(std::equal(out.begin(), out.end(), restored.begin() + static_cast<std::ptrdiff_t>(first),
                           [](auto a, auto b) { return bits_of(a) == bits_of(b); }))
        << first << ' ' << count;
  }
}

TYPED_TEST_P(device_suite, encoded_bytes_is_exact_and_enough) {
  const auto values = sample<TypeParam>::tensor(3 * TestFixture::chunk_values, .8);
  device_queue queue;
  const device_array<value_t<TypeParam>> in(values, queue.stream);
  const span<const value_t<TypeParam>> all = in.all();
  const outcome needed =
      queue.finish(encoded_bytes(sample<TypeParam>::codec(), all, queue.scratch(), queue.written(), queue.stream));
  ASSERT_EQ(needed.code, status::ok);
  const auto expected = encoded(sample<TypeParam>::codec(), values);
  ASSERT_EQ(needed.bytes, expected.size());
  const device_array<std::byte> room(needed.bytes);
  ASSERT_EQ(
      queue.finish(encode(sample<TypeParam>::codec(), all, room.all(), queue.scratch(), queue.written(), queue.stream))
          .code,
      status::ok);
  EXPECT_EQ(room.download(queue.stream), expected);
}

TYPED_TEST_P(device_suite, a_frame_that_does_not_fit_is_none) {
  const auto values = sample<TypeParam>::tensor(3 * TestFixture::chunk_values, .5);
  const auto expected = encoded(sample<TypeParam>::codec(), values);
  device_queue queue;
  const device_array<value_t<TypeParam>> in(values, queue.stream);
  const span<const value_t<TypeParam>> all = in.all();
  const device_array<std::byte> room(expected, queue.stream);  // holds a stale frame
  const uint64_t size = expected.size() - 32;
  const outcome o = queue.finish(encode(sample<TypeParam>::codec(), all, room.all().subspan(0, size), queue.scratch(),
                                        queue.written(), queue.stream));
  EXPECT_EQ(o.code, status::output_too_small);
  EXPECT_EQ(o.bytes, expected.size());
  const auto after = room.download(queue.stream);
  frame_header header;
  EXPECT_NE(inspect(after, header), status::ok);
  EXPECT_TRUE(std::equal(after.begin() + static_cast<std::ptrdiff_t>(size), after.end(),
                         expected.begin() + static_cast<std::ptrdiff_t>(size)));  // nothing beyond the room
  ASSERT_NO_FATAL_FAILURE(TestFixture::expect_same(queue, values));               // and the scratch is as it should be
}

TYPED_TEST_P(device_suite, a_captured_graph_follows_its_data) {
  using value = value_t<TypeParam>;
  const auto codec = sample<TypeParam>::codec();
  device_queue queue;
  constexpr uint64_t count = 20'009;
  device_array<value> in(count);
  const device_array<value> out(count);
  const device_array<std::byte> frame(max_frame_bytes(codec, count));
  const device_array<outcome> decoded(1);
  const span<const value> values = in.all();

  cudaGraph_t graph;
  cudaGraphExec_t replay;
  ASSERT_EQ(cudaStreamBeginCapture(queue.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(encode(codec, values, frame.all(), queue.scratch(), queue.written(), queue.stream).code, status::ok);
  ASSERT_EQ(decode(TypeParam{}, frame.all(), out.all(), queue.scratch(), decoded.data(), queue.stream).code,
            status::ok);
  ASSERT_EQ(cudaStreamEndCapture(queue.stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
  for (const double sparsity : {.2, .95, .6}) {
    const auto data = sample<TypeParam>::tensor(count, sparsity, pattern::clustered);
    in.upload(data, queue.stream);
    ASSERT_EQ(cudaGraphLaunch(replay, queue.stream), cudaSuccess);
    queue.stream.wait();
    const auto expected = encoded(codec, data);
    EXPECT_EQ(frame.download(expected.size(), queue.stream), expected);
    EXPECT_EQ(decoded.download(queue.stream)[0].code, status::ok);
    EXPECT_TRUE(same_bits(out.download(queue.stream), expected_values<TypeParam>(data, expected)));
  }
  ASSERT_EQ(cudaGraphExecDestroy(replay), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

REGISTER_TYPED_TEST_SUITE_P(device_suite, frames_are_those_of_the_host_under_every_schedule, a_million_values,
                            options_make_the_host_s_bytes_too, many_small_chunks_under_every_schedule,
                            any_range_decodes_alone, encoded_bytes_is_exact_and_enough,
                            a_frame_that_does_not_fit_is_none, a_captured_graph_follows_its_data);

}  // namespace tuck::test
