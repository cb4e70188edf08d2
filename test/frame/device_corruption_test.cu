// Damaged frames on the device: the host's status, the host's output, every time.
#include "support/codecs.hpp"
#include "support/device.hpp"

#include <cstdlib>

namespace tuck::test {
namespace {

// Decodes on the device and on the host and compares all that either says and writes.
template <codec C> class comparison {
 public:
  using T = value_t<C>;

  explicit comparison(uint64_t frame_bytes, uint64_t values)
      : frame_(frame_bytes), out_(values), start_(noise<T>(values, 77)), scratch_(scratch_head_bytes), outcome_(1) {
    for_schedules(1, [] {});  // without pauses between the stream's tasks
    EXPECT_EQ(initialize(scratch_.scratch(), stream_).code, status::ok);
  }

  outcome decode(const frame_bytes& frame) {
    frame_.upload(frame, stream_);
    out_.upload(start_, stream_);
    const const_bytes source(frame_.data(), frame.size());
    const result started = tuck::decode(C{}, source, out_.all(), scratch_.scratch(), outcome_.data(), stream_);
    EXPECT_EQ(started.code, status::ok);
    const outcome device = outcome_.download(stream_)[0];
    if (device.code == status::unsupported) {  // the one status that only the device has
      EXPECT_GT(header_of(frame).chunk_values, max_device_chunk_values<C>);
      EXPECT_TRUE(same_bits(out_.download(stream_), start_));
      return device;
    }
    std::vector<T> expected = start_;
    const outcome host = host::decode(C{}, frame, expected, 0, {.threads = 1});
    EXPECT_EQ(device.code, host.code) << message(device.code) << " / " << message(host.code);
    EXPECT_EQ(device.bytes, host.bytes);
    EXPECT_EQ(device.first_bad_chunk, host.first_bad_chunk);
    EXPECT_TRUE(same_bits(out_.download(stream_), expected));
    return device;
  }

 private:
  device_stream stream_;
  device_array<std::byte> frame_;
  device_array<T> out_;
  std::vector<T> start_;
  device_array<std::byte> scratch_;
  device_array<outcome> outcome_;
};

template <class C> class device_corruption : public ::testing::Test {
 protected:
  static constexpr uint32_t chunk_values = 64;

  // Of all kinds of chunks.
  static std::vector<value_t<C>> mixed_values() {
    auto values = sample<C>::tensor(5 * chunk_values - 11, .5);
    std::fill_n(values.begin() + 64, 64, noise<value_t<C>>(1)[0]);
    std::fill_n(values.begin() + 128, 64, value_t<C>{});
    const auto incompressible = noise<value_t<C>>(64);
    std::copy(incompressible.begin(), incompressible.end(), values.begin() + 192);
    return values;
  }
};
TYPED_TEST_SUITE(device_corruption, corrupted_codecs, codec_names);

TYPED_TEST(device_corruption, every_changed_byte_of_header_or_directory_is_refused) {
  const auto values = TestFixture::mixed_values();
  auto frame = encoded(sample<TypeParam>::codec(), values, {.chunk_values = 64, .checksums = true});
  comparison<TypeParam> compare(frame.size(), values.size());
  ASSERT_EQ(compare.decode(frame).code, status::ok);
  for (uint64_t i = 0; i < layout_of(header_of(frame)).contents_end; ++i)
    for (const int change : {1, 0x80, 0xff}) {
      frame[i] ^= static_cast<std::byte>(change);
      ASSERT_NE(compare.decode(frame).code, status::ok) << i;
      ASSERT_FALSE(::testing::Test::HasFailure()) << i;
      frame[i] ^= static_cast<std::byte>(change);
    }
}

TYPED_TEST(device_corruption, every_truncation_is_refused) {
  const auto values = TestFixture::mixed_values();
  const auto frame = encoded(sample<TypeParam>::codec(), values, {.chunk_values = 64});
  comparison<TypeParam> compare(frame.size(), values.size());
  for (size_t size = 0; size < frame.size(); size += size < 140 ? 1 : 13) {
    ASSERT_EQ(compare.decode({frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size)}).code,
              status::truncated);
    ASSERT_FALSE(::testing::Test::HasFailure()) << size;
  }
}

// The codecs share the rounds. TUCK_LONG=1 in the environment runs a million. One block after the other has no races to
// find, so ThreadSanitizer, which takes 50 times as long, sees fewer.
TYPED_TEST(device_corruption, mutations_give_the_status_of_the_host) {
  const auto values = TestFixture::mixed_values();
  const frame_bytes originals[] = {encoded(sample<TypeParam>::codec(), values, {.chunk_values = 64}),
                                   encoded(sample<TypeParam>::codec(), values, {.chunk_values = 64, .checksums = true}),
                                   encoded(sample<TypeParam>::codec(), values, {.chunk_values = 256, .alignment = 16})};
#if defined(__SANITIZE_THREAD__)
  constexpr int usual_rounds = 1'000;
#else
  constexpr int usual_rounds = 20'000;
#endif
  const int rounds = (std::getenv("TUCK_LONG") != nullptr ? 1'000'000 : usual_rounds) / size_of(corrupted_codecs{});
  std::mt19937_64 random(12);
  comparison<TypeParam> compare(4096, values.size());
  for (int round = 0; round < rounds; ++round) {
    frame_bytes frame = originals[random() % 3];
    for (uint64_t changes = 1 + random() % 4; changes-- > 0;) {
      const size_t at = random() % (random() % 2 ? frame.size() : std::min<size_t>(frame.size(), 200));
      frame[at] =
          random() % 2 ? frame[at] ^ static_cast<std::byte>(1 << random() % 8) : static_cast<std::byte>(random());
    }
    if (random() % 16 == 0) frame.resize(random() % frame.size());
    if (random() % 4 != 0) reseal(frame);
    static_cast<void>(compare.decode(frame));
    ASSERT_FALSE(::testing::Test::HasFailure()) << "round " << round;
  }
}

}  // namespace
}  // namespace tuck::test
