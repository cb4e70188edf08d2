// Codecs and element types that are known at run time only, on the device: for encoding, and of frames.
#include "support/codecs.hpp"
#include "support/device.hpp"

namespace tuck::test {
namespace {

using codecs = codec_list<zvc<float>, zvc<uint8_t>, rle<f16>, quantize<float>>;

struct answer {
  result started;
  outcome restored;
  std::vector<std::byte> out;
};

answer decode_any(const frame_bytes& frame, uint64_t out_bytes, uint64_t first_value = 0) {
  device_queue queue;
  frame_header header;
  EXPECT_EQ(inspect(const_bytes(frame).subspan(0, sizeof(frame_header)), header), status::ok);
  const device_array<std::byte> in(frame, queue.stream);
  const device_array<std::byte> out(std::vector<std::byte>(out_bytes, std::byte{0x77}), queue.stream);
  answer a;
  a.started =
      decode(codecs{}, header, in.all(), out.all(), queue.scratch(), queue.written(), queue.stream, first_value);
  if (a.started) a.restored = queue.finish(a.started);
  a.out = out.download(queue.stream);
  return a;
}

// The calls with the caller's memory and those with a resource, which write what the host writes.
template <codec C> frame_bytes encode_any(const C& codec, const std::vector<value_t<C>>& values) {
  using T = value_t<C>;
  const frame_options options{.checksums = true};
  const any_codec<codecs> any = codec;
  const device_queue queue;
  const device_array<T> in(values, queue.stream);
  const const_bytes raw = as_bytes(span<const T>(in.all()));
  EXPECT_EQ(max_frame_bytes(any, values.size(), options), max_frame_bytes(codec, values.size(), options));
  EXPECT_EQ(scratch_bytes(any, values.size(), options), scratch_bytes(codec, values.size(), options));
  const device_array<std::byte> frame(max_frame_bytes(any, values.size(), options));
  const outcome o =
      queue.finish(encode(any, raw, frame.all(), queue.scratch(), queue.written(), queue.stream, options));
  EXPECT_EQ(o.code, status::ok);
  const auto seen = frame.download(o.bytes, queue.stream);
  EXPECT_EQ(seen, encoded(codec, values, options));

  async_resource memory;
  auto packed = encode(any, raw, memory, queue.stream, options);
  EXPECT_EQ(packed.shrink_sync().bytes, seen.size());
  frame_bytes copy(packed.frame().size());
  check(cudaMemcpy(copy.data(), packed.frame().data(), copy.size(), cudaMemcpyDefault));
  EXPECT_EQ(copy, seen);
  frame_header header;
  EXPECT_EQ(inspect(copy, header), status::ok);
  const device_array<T> out(values.size());
  EXPECT_EQ(decode_sync(codecs{}, header, packed.frame(), as_writable_bytes(out.all()), memory, queue.stream).code,
            status::ok);
  EXPECT_TRUE(same_bits(out.download(queue.stream), expected_values<C>(values, seen)));
  return seen;
}

template <codec C> void expect_decodes() {
  using T = value_t<C>;
  const auto values = sample<C>::tensor(20'000, .5);
  const auto frame = encode_any(sample<C>::codec(), values);
  const auto expected = expected_values<C>(values, frame);
  const answer a = decode_any(frame, (values.size() - 7) * sizeof(T), 7);
  EXPECT_EQ(a.started.code, status::ok);
  EXPECT_EQ(a.restored.code, status::ok);
  EXPECT_EQ(a.restored.bytes, a.out.size());
  EXPECT_EQ(std::memcmp(a.out.data(), expected.data() + 7, a.out.size()), 0);
}

TEST(device_codec_list, encodes_and_decodes_each_of_the_list) {
  expect_decodes<zvc<float>>();
  expect_decodes<zvc<uint8_t>>();
  expect_decodes<rle<f16>>();
  expect_decodes<quantize<float>>();
}

TEST(device_codec_list, refuses_to_encode_by_name) {
  const device_queue queue;
  const device_array<float> in(100);
  const device_array<std::byte> frame(1 << 12);
  const const_bytes raw = as_bytes(span<const float>(in.all()));
  async_resource memory;
  any_codec<codecs> codec;
  const auto expect_refused = [&](const_bytes values, status expected) {
    EXPECT_EQ(encode(codec, values, frame.all(), queue.scratch(), queue.written(), queue.stream).code, expected);
    try {
      static_cast<void>(encode(codec, values, memory, queue.stream));
      ADD_FAILURE();
    } catch (const error& e) {
      EXPECT_EQ(e.code(), expected);
    }
  };
  EXPECT_EQ(scratch_bytes(codec, 100), 0u);
  expect_refused(raw, status::unknown_codec);
  EXPECT_EQ(codec.choose("rle", dtype::f32), status::unsupported_type);
  expect_refused(raw, status::unknown_codec);
  EXPECT_EQ(codec.choose("quantize", dtype::f32), status::bad_bound);
  expect_refused(raw, status::unknown_codec);
  codec = quantize<float>{};
  expect_refused(raw, status::bad_bound);
  EXPECT_EQ(codec.choose("zvc", dtype::f32), status::ok);
  expect_refused(raw.subspan(1), status::invalid_argument);
  expect_refused(raw.subspan(2, 8), status::misaligned);
  EXPECT_THROW(static_cast<void>(decode_sync(codecs{}, frame_header{}, frame.all(), {}, memory, queue.stream)), error);
}

TEST(device_codec_list, refuses_other_frames_and_rooms_by_name) {
  const auto expect_refused = [](const frame_bytes& frame, uint64_t out_bytes, status expected) {
    const answer a = decode_any(frame, out_bytes);
    EXPECT_EQ(a.started.code, expected);
    EXPECT_EQ(a.out, std::vector<std::byte>(out_bytes, std::byte{0x77}));
  };
  const auto of_floats = encoded(zvc<float>{}, sparse_tensor<float>(100, .5));
  expect_refused(encoded(zvc<double>{}, sparse_tensor<double>(100, .5)), 800, status::type_mismatch);
  expect_refused(encoded(huffman<float>{}, sparse_tensor<float>(100, .5)), 400, status::codec_mismatch);
  expect_refused(of_floats, 399, status::invalid_argument);
  expect_refused(forged(of_floats, [](frame_header& h) { h.stages.at[0].version = 9; }), 400, status::bad_version);
}

}  // namespace
}  // namespace tuck::test
