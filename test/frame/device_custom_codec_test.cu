// A codec of the user's own with a block codec, written to what codec/concept.hpp and codec/block.cuh say.
#include "support/batches.hpp"
#include "support/block_payloads.hpp"

namespace mine {

// Values below 256 as bytes, and a byte at the end that says all is well; any other chunk is incompressible.
struct small_values {
  using value_type = uint32_t;
  static constexpr uint32_t chunk_bytes = 4096;
  static constexpr std::byte well{0xa5};
  uint32_t offset = 1;  // a parameter that the header stores
  uint32_t knob = 7;    // and one that it does not

  TUCK_HD tuck::stage_list stages() const noexcept {
    return {{{.id = tuck::codec_id::custom, .version = 1, .small_value = offset}}};
  }
  TUCK_HD static tuck::status from_stages(const tuck::stage_list& stages, small_values& codec) noexcept {
    if (stages.at[0].id != tuck::codec_id::custom || stages.at[1] != tuck::stage{}) return tuck::status::codec_mismatch;
    codec.offset = stages.at[0].small_value;
    return stages.at[0].version == 1 ? tuck::status::ok : tuck::status::bad_version;
  }
  TUCK_HD uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count + 1; }
  TUCK_HD uint32_t encode_chunk(tuck::span<const uint32_t> values, tuck::bytes room) const noexcept {
    for (uint64_t i = 0; i < values.size(); ++i) {
      if (values[i] >= 256) return tuck::incompressible;
      room[i] = static_cast<std::byte>(values[i] + offset);
    }
    room[values.size()] = well;
    return static_cast<uint32_t>(values.size()) + 1;
  }
  TUCK_HD tuck::status decode_chunk(tuck::const_bytes encoded, tuck::span<uint32_t> restored) const noexcept {
    if (encoded.size() != restored.size() + 1 || knob != 7) return tuck::status::bad_payload;
    for (uint64_t i = 0; i < restored.size(); ++i)
      restored[i] = static_cast<uint8_t>(static_cast<uint32_t>(encoded[i]) - offset);
    return encoded[restored.size()] == well ? tuck::status::ok : tuck::status::bad_payload;
  }
};
static_assert(tuck::codec<small_values>);

}  // namespace mine

template <int Threads> struct tuck::block_codec<mine::small_values, Threads> {
  using tile = block_tile<uint32_t, Threads>;
  struct TempStorage {};
  __device__ explicit block_codec(TempStorage&) {}

  __device__ uint32_t measure(const mine::small_values&, const tile& values) {
    bool large = false;
    for (int j = 0; j < tile::words; ++j) large |= values.w[j] >= 256;
    return device::sync_block_or(large) ? incompressible : values.count + 1;
  }
  __device__ void write(const mine::small_values& codec, const tile& values, std::byte* to) {
    for (int j = 0; j < tile::words; ++j)
      if (const uint32_t i = tile::first_value(j); i < values.count)
        to[i] = static_cast<std::byte>(values.w[j] + codec.offset);
    if (threadIdx.x == 0) to[values.count] = mine::small_values::well;
  }
  // Hands values over in another order than the frame's own, and finds out last that they were wrong.
  template <class Sink>
  __device__ status read(const mine::small_values& codec, const std::byte* from, uint32_t size, uint32_t count,
                         Sink& sink) {
    if (size != count + 1 || codec.knob != 7) return status::bad_payload;
    for (uint32_t i = 4 * (Threads - 1 - threadIdx.x); i < count; i += 4 * Threads) {
      device::vec128 four{};
      for (uint32_t k = 0; k < 4; ++k)
        if (i + k < count) four.w[k] = static_cast<uint8_t>(static_cast<uint32_t>(from[i + k]) - codec.offset);
      sink(i, four);
    }
    return from[count] == mine::small_values::well ? status::ok : status::bad_payload;
  }
};

namespace tuck::test {
namespace {

std::vector<uint32_t> values_below_256_but_for_one() {
  std::vector<uint32_t> values(5 * 1024 + 13);
  for (uint32_t i = 0; i < values.size(); ++i) values[i] = i * 7 % 256;
  values[2000] = 1000;
  return values;
}

TEST(device_custom_codec, makes_the_host_s_frames) {
  const auto values = values_below_256_but_for_one();
  for_schedules(8, [&] {
    device_queue queue;
    const mine::small_values codec{.offset = 5};
    const auto frame = queue.encode(codec, values, {.checksums = true});
    ASSERT_EQ(frame, encoded(codec, values, {.checksums = true}));
    std::vector<uint32_t> restored(values.size());
    ASSERT_EQ(queue.decode(mine::small_values{}, frame, restored).code, status::ok);
    ASSERT_EQ(restored, values);
  });
}

TEST(device_custom_codec, a_chunk_that_fails_late_is_zero) {
  const auto values = values_below_256_but_for_one();
  auto frame = encoded(mine::small_values{}, values);
  frame_view view;
  ASSERT_EQ(frame_view::open(frame, view), status::ok);
  chunk_view chunk;
  ASSERT_EQ(view.chunk(3, chunk), status::ok);
  frame[static_cast<size_t>(chunk.payload.data() - frame.data()) + chunk.payload.size() - 1] = std::byte{};
  std::vector<uint32_t> expected(values.size(), 77);
  const outcome on_host = host::decode(mine::small_values{}, frame, expected);
  EXPECT_EQ(on_host.first_bad_chunk, 3u);
  for_schedules(8, [&] {
    device_queue queue;
    std::vector<uint32_t> out(values.size(), 77);
    const outcome o = queue.decode(mine::small_values{}, frame, out);
    ASSERT_EQ(o.code, status::bad_payload);
    ASSERT_EQ(o.first_bad_chunk, 3u);
    ASSERT_EQ(out, expected);
  });
}

TEST(device_custom_codec, encodes_and_decodes_batches) {
  std::vector<std::vector<uint32_t>> tensors(7, values_below_256_but_for_one());
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].resize(i * 900);
  for_schedules(4, [&] {
    device_batch<mine::small_values> batch(tensors, {.offset = 5}, {.checksums = true});
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(batch));
  });
}

// The library's codecs in kernels of one's own; block_test.cu has more of that.
template <class C> class own_kernels : public chunks_by_blocks<C> {};
using own_kernels_codecs = ::testing::Types<zvc<float>, rle<float>, quantize<float>>;
TYPED_TEST_SUITE(own_kernels, own_kernels_codecs, codec_names);

TYPED_TEST(own_kernels, encode_and_decode_each_chunk_by_itself) {
  const auto values = sample<TypeParam>::tensor(4 * 1024 + 101, .5, pattern::clustered);
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values, 1024));
  const auto frame = encoded(sample<TypeParam>::codec(), values, {.chunk_values = 1024, .checksums = true});
  std::vector<float> out(5 * 1024);
  ASSERT_EQ(TestFixture::template decode<128>(frame, out), std::vector<status>(5, status::ok));
  out.resize(values.size());
  EXPECT_TRUE(same_bits(out, expected_values<TypeParam>(values, frame)));
}

}  // namespace
}  // namespace tuck::test
