// Deltas on the device: the bytes of the host's, the tensor or nothing of it, under every schedule.
#include "support/codecs.hpp"
#include "support/deltas.hpp"
#include "support/device.hpp"

namespace tuck::test {
namespace {

using delta_codecs = ::testing::Types<zvc<uint8_t>, zvc<bf16>, zvc<float>, zvc<double>, rle<f16>, deflate<float>,
                                      bitpack<uint16_t>, zvc_huffman<bf16>, delta_rle_bitpack<int32_t>, gaps<uint8_t>,
                                      gaps<bf16>, gaps<float>, gaps<double>>;

template <class C> class device_deltas : public ::testing::Test {
 public:
  using value = value_t<C>;
  using values = std::vector<value>;

  device_queue queue;

  frame_bytes encode(const two_tensors<value>& of, const frame_options& options, const launch_options& how = {}) {
    const device_array<value> in(of.values, queue.stream), base(of.base, queue.stream);
    const device_array<std::byte> frame(max_delta_bytes(C{}, of.values.size(), options));
    const outcome o = queue.finish(tuck::encode_delta(C{}, in.all(), base.all(), frame.all(), queue.scratch(),
                                                      queue.written(), queue.stream, options, how));
    EXPECT_EQ(o.code, status::ok);
    return frame.download(o.bytes, queue.stream);
  }
  // `offset` values into its memory, in place or not.
  outcome decode(const frame_bytes& frame, const values& base, values& out, bool in_place, uint64_t offset = 0,
                 const delta_options& options = {}, const launch_options& how = {}) {
    const device_array<std::byte> in(frame, queue.stream);
    values room(offset);
    room.insert(room.end(), base.begin(), base.end());
    const device_array<value> old(room, queue.stream);
    std::copy(out.begin(), out.end(), room.begin() + static_cast<std::ptrdiff_t>(offset));
    const device_array<value> other(room, queue.stream);
    const span<value> to = (in_place ? old : other).all().subspan(offset);
    const outcome o = queue.finish(tuck::decode_delta(C{}, in.all(), old.all().subspan(offset), to, queue.scratch(),
                                                      queue.written(), queue.stream, options, how));
    const auto all = (in_place ? old : other).download(queue.stream);
    out.assign(all.begin() + static_cast<std::ptrdiff_t>(offset), all.end());
    return o;
  }
  void expect_refused(const frame_bytes& frame, const values& base, status why) {
    for (const bool in_place : {true, false}) {
      values out = in_place ? base : values(base.size(), __builtin_bit_cast(value, bits_t<value>{7}));
      const auto before = out;
      const outcome o = decode(frame, base, out, in_place);
      EXPECT_EQ(o.code, why) << message(o.code);
      EXPECT_EQ(o.bytes, 0u);
      EXPECT_TRUE(same_bits(out, before));
    }
  }
};
TYPED_TEST_SUITE(device_deltas, delta_codecs, codec_names);

TYPED_TEST(device_deltas, are_the_host_s_and_restore_every_value) {
  using V = typename TestFixture::value;
  constexpr uint32_t chunk = tile_bytes / sizeof(V);
  for_schedules(4, [&] {
    for (const uint64_t size : {0u, 1u, 33u, chunk, 3 * chunk + 7})
      for (const double changed : {0., .02, 1.}) {
        const two_tensors<V> two(size, changed, size + 1);
        const frame_options options{.chunk_values = size % 2 == 0 ? 256u : chunk};
        const auto frame = TestFixture::encode(two, options, {.max_blocks = size % 2 == 0 ? 3u : 0u});
        ASSERT_EQ(frame, delta_of<TypeParam>(two, options)) << size << ' ' << changed;
        for (const bool in_place : {true, false})
          for (const bool chunk_by_chunk : {false, true})
            for (const uint64_t offset : {0u, 1u}) {
              std::vector<V> out = in_place ? two.base : std::vector<V>(size);
              const outcome o = TestFixture::decode(frame, two.base, out, in_place, offset, {chunk_by_chunk});
              ASSERT_EQ(o.code, status::ok) << size << ' ' << changed << ' ' << message(o.code);
              ASSERT_EQ(o.bytes, size * sizeof(V));
              ASSERT_TRUE(same_bits(out, two.values));
            }
      }
  });
}

TYPED_TEST(device_deltas, are_refused_where_they_do_not_belong) {
  using V = typename TestFixture::value;
  const two_tensors<V> two(3000, .05);
  const auto frame = delta_of<TypeParam>(two, {.chunk_values = 256});
  TestFixture::expect_refused(frame, two.values, status::wrong_base);
  auto other = two.base;
  other[2999] = __builtin_bit_cast(V, static_cast<bits_t<V>>(bits_of(other[2999]) ^ 1));
  TestFixture::expect_refused(frame, other, status::wrong_base);
  other.resize(2999);
  TestFixture::expect_refused(frame, other, status::wrong_base);
  TestFixture::expect_refused(encoded(TypeParam{}, two.values, {.chunk_values = 256, .checksums = true}), two.base,
                              status::not_a_delta);
  // Without a base: alone and in a batch.
  auto out = two.base;
  EXPECT_EQ(this->queue.decode(TypeParam{}, frame, out).code, status::needs_base);
  EXPECT_TRUE(same_bits(out, two.base));
}

TYPED_TEST(device_deltas, damaged_change_nothing) {
  using V = typename TestFixture::value;
  const two_tensors<V> two(700, .1);
  const auto good = delta_of<TypeParam>(two, {.chunk_values = 64});
  std::mt19937_64 random(9);
  for (int round = 0; round < (brief ? 60 : 300); ++round) {
    auto frame = good;
    for (uint64_t changes = 1 + random() % 3; changes != 0; --changes)
      frame[random() % frame.size()] ^= static_cast<std::byte>(1 << random() % 8);
    if (random() % 4 == 0) frame.resize(random() % frame.size());
    if (random() % 2 == 0) reseal(frame);
    auto out = two.base, of_host = two.base;
    const outcome o = TestFixture::decode(frame, two.base, out, true);
    const outcome same = host::decode_delta(TypeParam{}, frame, of_host, of_host);
    if (o.code == status::unsupported) {  // longer chunks, which the host takes
      ASSERT_TRUE(same_bits(out, two.base));
      continue;
    }
    ASSERT_EQ(o.code, same.code);
    ASSERT_EQ(o.first_bad_chunk, same.first_bad_chunk);
    ASSERT_EQ(o.bytes, same.bytes);
    ASSERT_TRUE(same_bits(out, of_host));
  }
}

TEST(device_delta, chunk_by_chunk_restores_the_good_chunks) {
  const two_tensors<float> two(1000, .3);
  auto frame = delta_of<zvc<float>>(two, {.chunk_values = 128});
  frame_view view;
  ASSERT_EQ(frame_view::open(frame, view), status::ok);
  chunk_view chunk;
  ASSERT_EQ(view.chunk(3, chunk), status::ok);
  frame[static_cast<size_t>(chunk.payload.data() - frame.data()) + 40] ^= std::byte{1};
  device_queue queue;
  const device_array<std::byte> in(frame, queue.stream);
  const device_array<float> base(two.base, queue.stream);
  const outcome o = queue.finish(tuck::decode_delta(zvc<float>{}, in.all(), base.all(), base.all(), queue.scratch(),
                                                    queue.written(), queue.stream, {.chunk_by_chunk = true}));
  EXPECT_EQ(o.code, status::bad_checksum);
  EXPECT_EQ(o.first_bad_chunk, 3u);
  auto expected = two.values;
  std::fill(expected.begin() + 3 * 128, expected.begin() + 4 * 128, 0.f);
  EXPECT_TRUE(same_bits(base.download(queue.stream), expected));
}

TEST(device_delta, calls_that_cannot_be) {
  device_queue queue;
  const device_array<float> two(2000), one(1000);
  const device_array<std::byte> frame(1 << 16);
  const auto encode = [&](auto codec, span<const float> values, span<const float> base) {
    return tuck::encode_delta(codec, values, base, frame.all(), queue.scratch(), queue.written(), queue.stream).code;
  };
  EXPECT_EQ(encode(quantize<float>(error_bound::absolute(1)), two.all(), two.all()), status::lossy_delta);
  EXPECT_EQ(encode(zvc<float>{}, two.all(), one.all()), status::wrong_base);
  EXPECT_EQ(encode(zvc<float>{}, one.all(), {nullptr, 1000}), status::invalid_argument);
  EXPECT_EQ(tuck::decode_delta(zvc<float>{}, frame.all(), {nullptr, 1000}, one.all(), queue.scratch(), queue.written(),
                               queue.stream)
                .code,
            status::invalid_argument);
  EXPECT_EQ(tuck::decode_delta(quantize<float>{}, frame.all(), one.all(), one.all(), queue.scratch(), queue.written(),
                               queue.stream)
                .code,
            status::lossy_delta);
}

TEST(device_delta, is_refused_in_a_batch) {
  const two_tensors<float> two(5000, .02);
  device_queue queue;
  const device_array<std::byte> in(delta_of<zvc<float>>(two, {}), queue.stream);
  const device_array<float> out(two.base, queue.stream);
  const device_array<decode_item<float>> items({{in.all(), out.all()}}, queue.stream);
  EXPECT_EQ(queue
                .finish(tuck::decode_batch(zvc<float>{}, {items.data(), 1}, {1, 5000}, queue.scratch(),
                                           {queue.written(), 1}, queue.stream))
                .code,
            status::needs_base);
  EXPECT_TRUE(same_bits(out.download(queue.stream), two.base));
}

}  // namespace
}  // namespace tuck::test
