// Frames whose codec and element type are known at run time only, decoded on the device.
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

template <codec C> void expect_decodes() {
  using T = value_t<C>;
  const auto values = sample<C>::tensor(20'000, .5);
  const auto frame = encoded(sample<C>::codec(), values);
  const auto expected = expected_values<C>(values, frame);
  const answer a = decode_any(frame, (values.size() - 7) * sizeof(T), 7);
  EXPECT_EQ(a.started.code, status::ok);
  EXPECT_EQ(a.restored.code, status::ok);
  EXPECT_EQ(a.restored.bytes, a.out.size());
  EXPECT_EQ(std::memcmp(a.out.data(), expected.data() + 7, a.out.size()), 0);
}

TEST(device_codec_list, decodes_each_of_the_list) {
  expect_decodes<zvc<float>>();
  expect_decodes<zvc<uint8_t>>();
  expect_decodes<rle<f16>>();
  expect_decodes<quantize<float>>();
}

TEST(device_codec_list, refuses_other_frames_and_rooms_by_name) {
  const auto expect_refused = [](const frame_bytes& frame, uint64_t out_bytes, status expected) {
    const answer a = decode_any(frame, out_bytes);
    EXPECT_EQ(a.started.code, expected);
    EXPECT_EQ(a.out, std::vector<std::byte>(out_bytes, std::byte{0x77}));
  };
  const auto of_floats = encoded(zvc<float>{}, sparse_tensor<float>(100, .5));
  expect_refused(encoded(zvc<double>{}, sparse_tensor<double>(100, .5)), 800, status::type_mismatch);
  expect_refused(encoded(rle_zero<float>{}, sparse_tensor<float>(100, .5)), 400, status::codec_mismatch);
  expect_refused(of_floats, 399, status::invalid_argument);
  expect_refused(forged(of_floats, [](frame_header& h) { h.stages.at[0].version = 9; }), 400, status::bad_version);
}

}  // namespace
}  // namespace tuck::test
