// Frames on the device.
#include "support/device_suite.hpp"

namespace tuck::test {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(framed, device_suite, framed_codecs, codec_names);

// Each with work before it that it must wait for.
TEST(device, takes_default_streams) {
  const auto values = sparse_tensor<float>(3 * 4096, .6);
  const zvc<float> codec;
  const auto expected = encoded(codec, values);
  for (const cudaStream_t s : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
    const device_array<float> in(values, s), out(values.size());
    const device_array<std::byte> frame(max_frame_bytes(codec, values.size())),
        scratch(scratch_bytes(codec, values.size()));
    const device_array<outcome> done(std::vector<outcome>(2), s);
    ASSERT_TRUE(initialize(scratch.scratch(), s));
    ASSERT_TRUE(encode(codec, span<const float>(in.all()), frame.all(), scratch.scratch(), done.data(), s));
    ASSERT_TRUE(decode(codec, frame.all(), out.all(), scratch.scratch(), done.data() + 1, s));
    EXPECT_TRUE(same_bits(out.download(s), values));
    const auto outcomes = done.download(s);
    EXPECT_TRUE(outcomes[0]);
    EXPECT_TRUE(outcomes[1]);
    EXPECT_EQ(frame.download(outcomes[0].bytes, s), expected);
  }
}

// Blocks without a chunk change nothing, nor do blocks with many.
TEST(device, decode_launches_blocks_for_the_chunks_that_it_knows_of) {
  const zvc<float> codec;
  const uint64_t count = 32 * 512;
  const auto values = sparse_tensor<float>(count, .6);
  const auto frame = encoded(codec, values, {.chunk_values = 512});
  const std::vector<float> middle(values.begin() + 100, values.begin() + 613);
  device_queue queue;
  const auto expect_blocks = [&]([[maybe_unused]] uint64_t blocks, const std::vector<float>& expected,
                                 uint64_t first_value, const launch_options& how) {
    std::vector<float> out(expected.size(), -1);
#if defined(TUCK_CUDASIM)
    cudasim::clear_counters();
#endif
    ASSERT_EQ(queue.decode(codec, frame, out, first_value, how).code, status::ok);
    EXPECT_TRUE(same_bits(out, expected));
#if defined(TUCK_CUDASIM)
    int processors = 0, resident = 0;
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, decode_kernel<decode_job<zvc<float>>, block_threads>,
                                                        block_threads, 0));
    const int most = how.chunk_values == 0 && blocks > 4 ? std::min(2, resident) : resident;
    EXPECT_EQ(cudasim::snapshot().largest_grid, std::min<uint64_t>(blocks, static_cast<uint64_t>(most * processors)));
#endif
  };
  expect_blocks(32, values, 0, {.chunk_values = 512});
  expect_blocks(512, values, 0, {.chunk_values = 32});  // more than there are chunks
  expect_blocks(1, values, 0, {.chunk_values = ~0u});
  expect_blocks(32, values, 0, {});
  expect_blocks(3, values, 0, {.max_blocks = 3, .chunk_values = 512});
  expect_blocks(2, middle, 100, {.chunk_values = 512});
  expect_blocks(1, middle, 100, {});

  // With the header, the caller need not say it.
  frame_header header;
  ASSERT_EQ(inspect(frame, header), status::ok);
  const device_array<std::byte> in(frame, queue.stream);
  const device_array<float> out(count);
#if defined(TUCK_CUDASIM)
  cudasim::clear_counters();
#endif
  ASSERT_EQ(queue
                .finish(decode(codec_list<zvc<float>>{}, header, in.all(), as_writable_bytes(out.all()),
                               queue.scratch(), queue.written(), queue.stream))
                .code,
            status::ok);
  EXPECT_TRUE(same_bits(out.download(queue.stream), values));
#if defined(TUCK_CUDASIM)
  EXPECT_GT(cudasim::snapshot().largest_grid, count * sizeof(float) / tile_bytes);
#endif
}

// The epoch tells the words of earlier calls apart. Where it wraps, they are cleared: those of the first call here,
// which the second, of fewer chunks, leaves there, would else be taken for the third's.
TEST(device, the_epoch_wraps) {
  const frame_options small_chunks{.chunk_values = 32};
  const auto before = sparse_tensor<float>(60 * 32, .1), after = sparse_tensor<float>(60 * 32, .8);
  const auto few = sparse_tensor<float>(5 * 32, .1);
  for_schedules(8, [&] {
    device_queue queue;
    static_cast<void>(queue.encode(zvc<float>{}, before, small_chunks));
    scratch_head head{};
    head.epoch = scratch_epochs - 1;
    check(cudaMemcpyAsync(queue.scratch().memory().data(), &head, sizeof head, cudaMemcpyDefault, queue.stream));
    queue.stream.wait();
    ASSERT_EQ(queue.encode(zvc<float>{}, few, small_chunks), encoded(zvc<float>{}, few, small_chunks));
    for (int call = 0; call < 3; ++call)
      ASSERT_EQ(queue.encode(zvc<float>{}, after, small_chunks), encoded(zvc<float>{}, after, small_chunks));
  });
}

// Chunks of zeros, as many as have 2^32 values, put before those of a small frame.
TEST(device, what_lies_behind_more_than_2_to_the_32_values_is_found) {
  constexpr uint32_t chunk = 16384;
  constexpr uint64_t far = uint64_t{1} << 32, moved = far / chunk * 8;  // values, bytes
  const auto values = sparse_tensor<uint8_t>(3 * chunk + 5, .5);
  auto frame = encoded(zvc<uint8_t>{}, values, {.chunk_values = chunk});
  frame.insert(frame.begin() + sizeof(frame_header), moved, std::byte{});
  std::byte* const directory = frame.data() + sizeof(frame_header);
  for (uint64_t i = 0; i < far / chunk; ++i)
    store_unaligned(directory + 8 * i, directory_entry::make(chunk_kind::uniform, 0, 0).word);
  for (uint64_t i = far / chunk; i < far / chunk + 4; ++i)  // of payloads aligned to 32 bytes
    store_unaligned(directory + 8 * i, load_unaligned<uint64_t>(directory + 8 * i) + moved / 32);
  frame = forged(frame, [&](frame_header& h) { h.value_count += far, h.frame_bytes += moved; });
  device_queue queue;
  for (const uint64_t skipped : {0u, 20'000u}) {
    std::vector<uint8_t> before(100), out(10'100, 9);
    if (skipped != 0) before.assign(values.begin() + skipped - 100, values.begin() + skipped);
    ASSERT_EQ(queue.decode(zvc<uint8_t>{}, frame, out, far + skipped - 100).code, status::ok);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), out.begin())) << skipped;
    EXPECT_TRUE(std::equal(out.begin() + 100, out.end(), values.begin() + skipped)) << skipped;
  }
}

TEST(device, misuse_is_named_and_nothing_is_written) {
  device_queue queue;
  const auto values = sparse_tensor<float>(1000, .5);
  const device_array<float> in(values, queue.stream);
  const std::vector<std::byte> before(max_frame_bytes(zvc<float>{}, 1000) + 16, std::byte{0x77});
  const device_array<std::byte> room(before, queue.stream);
  const device_array<outcome> outcomes(2);
  const zvc<float> codec;
  const span<const float> all = in.all();
  const bytes frame = room.all();
  const scratch_span scratch = queue.scratch();
  static_assert(!std::is_convertible_v<bytes, scratch_span> && !std::is_convertible_v<scratch_span, bytes>);
  const auto part = [&](uint64_t first, uint64_t size) { return scratch_span(scratch.memory().subspan(first, size)); };
  outcome* const o = queue.written();
  const auto* odd = reinterpret_cast<const float*>(reinterpret_cast<const char*>(in.data()) + 1);
  auto* odd_outcome = reinterpret_cast<outcome*>(reinterpret_cast<char*>(outcomes.data()) + 8);

  using enum status;
  EXPECT_EQ(encode(codec, {odd, 10}, frame, scratch, o, queue.stream).code, misaligned);
  EXPECT_EQ(encode(codec, all, frame.subspan(8), scratch, o, queue.stream).code, misaligned);
  EXPECT_EQ(encode(codec, all, frame, part(8, scratch.memory().size() - 8), o, queue.stream).code, misaligned);
  EXPECT_EQ(encode(codec, all, frame, scratch, odd_outcome, queue.stream).code, misaligned);
  EXPECT_EQ(encode(codec, all, frame, scratch, nullptr, queue.stream).code, invalid_argument);
  EXPECT_EQ(encode(codec, {nullptr, 10}, frame, scratch, o, queue.stream).code, invalid_argument);
  EXPECT_EQ(encode(codec, all, frame, {}, o, queue.stream).code, invalid_argument);
  EXPECT_EQ(encode(codec, all, {}, scratch, o, queue.stream).code, output_too_small);
  EXPECT_EQ(encode(codec, all, {}, {}, o, queue.stream, {.chunk_values = 33}).code, invalid_argument);
  EXPECT_EQ(encode(codec, all, frame.subspan(0, 128), scratch, o, queue.stream).code, output_too_small);
  EXPECT_EQ(encode(codec, all, frame, part(0, 64), o, queue.stream).code, scratch_too_small);
  EXPECT_EQ(encode(codec, all, frame, scratch, o, queue.stream, {.chunk_values = 33}).code, invalid_argument);
  EXPECT_EQ(encode(codec, all, frame, scratch, o, queue.stream, {.chunk_values = 8192}).code, unsupported);
  EXPECT_EQ(encode(codec, all, frame, scratch, o, queue.stream, {.metadata = frame}).code, wrong_metadata);
  EXPECT_EQ(room.download(queue.stream), before);

  const const_bytes source = frame;
  const device_array<float> out(values, queue.stream);
  auto* odd_out = reinterpret_cast<float*>(reinterpret_cast<char*>(out.data()) + 1);
  EXPECT_EQ(decode(codec, source.subspan(8), out.all(), scratch, o, queue.stream).code, misaligned);
  EXPECT_EQ(decode(codec, source, {odd_out, 10}, scratch, o, queue.stream).code, misaligned);
  EXPECT_EQ(decode(codec, source, out.all(), part(8, scratch.memory().size() - 8), o, queue.stream).code, misaligned);
  EXPECT_EQ(decode(codec, source, out.all(), part(0, 32), o, queue.stream).code, scratch_too_small);
  EXPECT_EQ(decode(codec, source, out.all(), scratch, nullptr, queue.stream).code, invalid_argument);
  EXPECT_EQ(initialize({}, queue.stream).code, invalid_argument);
  EXPECT_EQ(initialize(part(8, scratch.memory().size() - 8), queue.stream).code, misaligned);
  EXPECT_EQ(initialize(part(0, 32), queue.stream).code, scratch_too_small);
  EXPECT_TRUE(same_bits(out.download(queue.stream), values));
}

TEST(device, frames_for_others_leave_the_output_alone) {
  device_queue queue;
  const auto values = sparse_tensor<float>(1000, .5);
  const std::vector<int32_t> before(1000, 7);
  const auto attempt = [&](const frame_bytes& frame, uint64_t first, uint64_t count) {
    std::vector<int32_t> out(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(count));
    const outcome o = queue.decode(zvc<int32_t>{}, frame, out, first);
    EXPECT_EQ(o.bytes, 0u);
    EXPECT_TRUE(std::equal(out.begin(), out.end(), before.begin()));
    return o.code;
  };
  const auto integers = encoded(zvc<int32_t>{}, sparse_tensor<int32_t>(1000, .5));
  EXPECT_EQ(attempt(encoded(zvc<float>{}, values), 0, 1000), status::type_mismatch);
  EXPECT_EQ(attempt(integers, 1, 1000), status::bad_range);
  EXPECT_EQ(attempt(integers, 2000, 0), status::bad_range);
  const auto other = forged(integers, [](frame_header& h) { h.stages.at[0].id = codec_id::custom; });
  EXPECT_EQ(attempt(other, 0, 1000), status::codec_mismatch);
  EXPECT_EQ(attempt(encoded(zvc<int32_t>{}, sparse_tensor<int32_t>(9000, .5), {.chunk_values = 8192}), 0, 1000),
            status::unsupported);
}

}  // namespace
}  // namespace tuck::test
