// Batches on the device: each item what a single call makes of it, in one launch, whatever the schedule.
#include "support/batches.hpp"

namespace tuck::test {
namespace {

// One of each codec and width: what a batch adds does not look at values.
using batch_codecs = std::conditional_t<
    long_tests,
    ::testing::Types<zvc<uint8_t>, zvc<float>, rle<f16>, rle<double>, deflate<uint8_t>, deflate<float>, quantize<f16>,
                     quantize<double>, zvc_huffman<float>, quantize_delta_huffman<float>>,
    std::conditional_t<threads_alone, ::testing::Types<zvc<float>, quantize<f16>>,
                       ::testing::Types<zvc<float>, rle<double>, deflate<uint8_t>, quantize<f16>, zvc_huffman<float>>>>;

template <class C> class device_batch_suite : public ::testing::Test {
 protected:
  // Items of several chunks, of one, of none.
  static std::vector<std::vector<value_t<C>>> some_tensors(uint64_t chunk) {
    return tensors_of<C>({3 * chunk + 7, 0, 1, chunk, 31, chunk + 1, 0, 2 * chunk, 64, 5});
  }
};
TYPED_TEST_SUITE(device_batch_suite, batch_codecs, codec_names);

TYPED_TEST(device_batch_suite, frames_are_those_of_the_host_under_every_schedule) {
  for_schedules(4, [] {
    device_batch<TypeParam> batch(TestFixture::some_tensors(1024), sample<TypeParam>::codec(), {.chunk_values = 1024});
    for (const unsigned max_blocks : {0u, 1u, 3u})  // and the scratch serves one call after the other
      ASSERT_NO_FATAL_FAILURE(expect_round_trip(batch, {.max_blocks = max_blocks}));
  });
}

// Each draws several slots of it, in turns.
TEST(device_batch, a_large_tensor_is_shared_by_few_blocks) {
  for_schedules(4, [] {
    device_batch<zvc<float>> batch(tensors_of<zvc<float>>({50'000}));
    for (const unsigned max_blocks : {1u, 2u, 3u})
      ASSERT_NO_FATAL_FAILURE(expect_round_trip(batch, {.max_blocks = max_blocks}));
  });
}

TYPED_TEST(device_batch_suite, options_make_the_host_s_bytes_too) {
  const std::vector<std::byte> metadata(13, std::byte{0x5a});
  device_stream stream;
  const device_array<std::byte> on_device(metadata, stream);
  const frame_options options{.chunk_values = 256, .alignment = 16, .checksums = true, .metadata = metadata};
  auto there = options;
  there.metadata = {};
  there.metadata_on_device = on_device.all();
  device_batch<TypeParam> batch(TestFixture::some_tensors(256), sample<TypeParam>::codec(), there);
  const auto written = batch.encode();
  for (uint64_t i = 0; i < batch.size(); ++i)
    ASSERT_EQ(batch.frame(i, written[i].bytes), encoded(batch.codec(), batch.tensor(i), options)) << i;
  for (const outcome& o : batch.decode()) ASSERT_EQ(o.code, status::ok);
}

// The sizes that batches are for: at zero to 256 KiB most tensors are done before a launch of their own would begin.
// One codec has them so large, the others, for the test's time, smaller.
TYPED_TEST(device_batch_suite, a_thousand_tensors_are_one_launch_each_way) {
  const bool whole = !brief && (std::is_same_v<TypeParam, zvc<float>> || long_run());
  const uint64_t items = brief ? 100 : 1000, largest = whole ? 256 * 1024 : brief ? 16 * 1024 : 32 * 1024;
  device_batch<TypeParam> batch(tensors_of<TypeParam>(batch_sizes_of(items, sizeof(value_t<TypeParam>), largest)));
#if defined(TUCK_CUDASIM)
  const device_array<encode_item<value_t<TypeParam>>> from(batch.encode_items, batch.stream());
  const device_array<decode_item<value_t<TypeParam>>> to(batch.decode_items, batch.stream());
  const auto expect_one_launch = [](const result& started) {
    const cudasim::counters c = cudasim::snapshot();
    EXPECT_EQ(started.code, status::ok);
    EXPECT_EQ(c.launches, 1u);
    EXPECT_EQ(c.allocations + c.synchronisations + c.memcpys + c.memsets + c.get_last_error, 0u);
  };
  cudasim::clear_counters();
  expect_one_launch(
      encode_batch(batch.codec(), from.all(), batch.sizes(), batch.scratch(), batch.outcomes(), batch.stream()));
  batch.stream().wait();
  cudasim::clear_counters();
  expect_one_launch(
      decode_batch(TypeParam{}, to.all(), batch.sizes(), batch.scratch(), batch.outcomes(), batch.stream()));
  batch.stream().wait();
#endif
  ASSERT_NO_FATAL_FAILURE(expect_round_trip(batch));
}

TEST(device_batch, a_thousand_single_calls_write_the_same) {
  const uint64_t items = brief ? 50 : 1000;
  device_batch<zvc<float>> batch(tensors_of<zvc<float>>(batch_sizes_of(items, 4, 256 * 1024)));
  const auto written = batch.encode();
  device_queue queue;
  for (uint64_t i = 0; i < items; ++i)
    ASSERT_EQ(batch.frame(i, written[i].bytes), queue.encode(zvc<float>{}, batch.tensor(i))) << i;
}

TEST(device_batch, takes_a_codec_that_was_chosen_at_run_time) {
  using codecs = codec_list<zvc<float>, quantize<f16>>;
  const frame_options options{.checksums = true};
  device_batch<zvc<float>> batch(tensors_of<zvc<float>>({5000, 0, 7}), {}, options);
  const device_array<encode_item<float>> table(batch.encode_items, batch.stream());
  any_codec<codecs> codec;
  const auto start = [&] {
    return encode_batch(codec, span<const encode_item<float>>(table.all()), batch.sizes(), batch.scratch(),
                        batch.outcomes(), batch.stream(), options)
        .code;
  };
  EXPECT_EQ(scratch_bytes(codec, batch.sizes(), options), 0u);
  EXPECT_EQ(start(), status::unknown_codec);
  codec = quantize<f16>(error_bound::absolute(1));
  EXPECT_EQ(start(), status::type_mismatch);
  codec = zvc<float>{};
  EXPECT_EQ(scratch_bytes(codec, batch.sizes(), options), scratch_bytes(zvc<float>{}, batch.sizes(), options));
  EXPECT_EQ(start(), status::ok);
  const auto written = batch.outcomes_now();
  for (uint64_t i = 0; i < batch.size(); ++i)
    EXPECT_EQ(batch.frame(i, written[i].bytes), encoded(zvc<float>{}, batch.tensor(i), options)) << i;
}

TYPED_TEST(device_batch_suite, a_room_that_is_too_small_harms_no_other) {
  for_schedules(4, [] {
    device_batch<TypeParam> batch(TestFixture::some_tensors(256), sample<TypeParam>::codec(), {.chunk_values = 256});
    std::vector<frame_bytes> expected;
    for (uint64_t i = 0; i < batch.size(); ++i)
      expected.push_back(encoded(batch.codec(), batch.tensor(i), batch.options()));
    static_cast<void>(batch.encode());  // leaves frames that must not be taken for the next ones
    const auto whole = batch.encode_items;
    batch.encode_items[0].frame = {whole[0].frame.data(), expected[0].size() - 32};  // all but the last chunk
    batch.encode_items[3].frame = {whole[3].frame.data(), 130};                      // not even the directory
    batch.encode_items[5].frame = {};
    batch.encode_items[6].frame = {whole[6].frame.data(), 127};
    batch.encode_items[7].frame = {nullptr, 1 << 20};
    const auto written = batch.encode();
    for (uint64_t i = 0; i < batch.size(); ++i) {
      const bool small = i == 0 || i == 3 || (i >= 5 && i <= 7);
      ASSERT_EQ(written[i].code, small ? status::output_too_small : status::ok) << i;
      ASSERT_EQ(written[i].bytes, expected[i].size()) << i;
      frame_header header;
      const auto after = batch.frame(i, expected[i].size());
      if (!small) {
        ASSERT_EQ(after, expected[i]) << i;
      } else if (i == 0 || i == 3) {
        ASSERT_EQ(inspect(after, header), status::bad_magic) << i;
      }
    }
    batch.encode_items = whole;
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(batch));
  });
}

TYPED_TEST(device_batch_suite, a_corrupt_frame_harms_no_other) {
  using T = value_t<TypeParam>;
  for_schedules(4, [] {
    device_batch<TypeParam> batch(TestFixture::some_tensors(256), sample<TypeParam>::codec(),
                                  {.chunk_values = 256, .checksums = true});
    const auto written = batch.encode();
    std::vector<frame_bytes> frames;
    for (uint64_t i = 0; i < batch.size(); ++i) frames.push_back(batch.frame(i, written[i].bytes));
    frames[0][sizeof(frame_header) + 4 * 16 + 5] ^= std::byte{1};  // the checksum of a chunk, and with it the contents'
    frames[3][40] ^= std::byte{1};
    frames[4][0] = std::byte{};
    frames[5] = forged(frames[5], [](frame_header& h) { h.stages.at[0].id = codec_id::custom; });
    const frame_layout at = layout_of(header_of(frames[7]));
    store_unaligned(frames[7].data() + at.directory + 8, ~uint64_t{0});
    reseal(frames[7]);
    for (uint64_t i = 0; i < batch.size(); ++i) batch.put_frame(i, frames[i]);
    const decode_item<T> whole = batch.decode_items[8];
    batch.decode_items[8].frame = {whole.frame.data(), written[8].bytes - 1};
    T before;
    std::memset(&before, 0x77, sizeof before);
    batch.fill_restored(before);
    const auto restored = batch.decode();
    for (uint64_t i = 0; i < batch.size(); ++i) {
      std::vector<T> expected(batch.tensor(i).size(), before);
      const auto& frame = frames[i];
      const outcome o =
          host::decode(TypeParam{}, const_bytes(frame).subspan(0, i == 8 ? frame.size() - 1 : frame.size()), expected);
      ASSERT_EQ(restored[i].code, o.code) << i;
      ASSERT_EQ(restored[i].bytes, o.bytes) << i;
      ASSERT_EQ(restored[i].first_bad_chunk, o.first_bad_chunk) << i;
      ASSERT_TRUE(same_bits(batch.restored(i), expected)) << i;
      ASSERT_EQ(!o, i == 0 || (i >= 3 && i <= 5) || i == 7 || i == 8) << i;
    }
    batch.decode_items[8] = whole;
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(batch));
  });
}

TYPED_TEST(device_batch_suite, a_captured_graph_follows_its_table) {
  using T = value_t<TypeParam>;
  device_batch<TypeParam> batch(TestFixture::some_tensors(256), sample<TypeParam>::codec(), {.chunk_values = 256});
  device_array<encode_item<T>> from(batch.size());
  device_array<decode_item<T>> to(batch.size());
  const device_array<outcome> decoded(batch.size());
  const device_stream& stream = batch.stream();
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(
      encode_batch(batch.codec(), from.all(), batch.sizes(), batch.scratch(), batch.outcomes(), stream, batch.options())
          .code,
      status::ok);
  ASSERT_EQ(decode_batch(TypeParam{}, to.all(), batch.sizes(), batch.scratch(), decoded.all(), stream).code,
            status::ok);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
  for (uint64_t round = 0; round < 3; ++round) {
    auto items = batch.encode_items;
    auto rooms = batch.decode_items;
    for (uint64_t i = 0; i < items.size(); ++i) {  // other sizes, and other tensors
      const uint64_t size = items[i].values.size() * (3 - round) / 3;
      items[i].values = {items[i].values.data(), size};
      rooms[i].values = {rooms[i].values.data(), size};
    }
    std::reverse(items.begin(), items.end());
    std::reverse(rooms.begin(), rooms.end());
    from.upload(items, stream);
    to.upload(rooms, stream);
    ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess);
    stream.wait();
    const auto written = batch.outcomes_now(), restored = decoded.download(stream);
    for (uint64_t i = 0; i < batch.size(); ++i) {
      const uint64_t j = batch.size() - 1 - i, size = items[j].values.size();
      const std::vector<T> values(batch.tensor(i).begin(), batch.tensor(i).begin() + static_cast<std::ptrdiff_t>(size));
      const auto expected = encoded(batch.codec(), values, batch.options());
      ASSERT_EQ(written[j].code, status::ok);
      ASSERT_EQ(batch.frame(i, written[j].bytes), expected) << i;
      ASSERT_EQ(restored[j].code, status::ok);
      auto back = batch.restored(i);
      back.resize(size);
      ASSERT_TRUE(same_bits(back, expected_values<TypeParam>(values, expected))) << i;
    }
  }
  ASSERT_EQ(cudaGraphExecDestroy(replay), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace tuck::test
