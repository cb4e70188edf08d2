// RLE by blocks against the scalar codec: its bytes for runs of any kind, its verdict on anything.
#include "support/device.hpp"

namespace tuck::test {
namespace {

// Runs of 1 to `longest` equal values, every third of zeros.
template <element T> std::vector<T> runs(uint64_t count, uint64_t longest, std::mt19937_64& random) {
  std::vector<T> values;
  while (values.size() < count)
    values.insert(values.end(), std::min<uint64_t>(1 + random() % longest, count - values.size()),
                  random() % 3 == 0 ? T{} : non_zero<T>(random));
  return values;
}

template <class C, int Threads>
__global__ void encode_chunk(const value_t<C>* values, uint32_t count, std::byte* out, uint32_t* size) {
  using encoder = block_encode<C, Threads>;
  using storage = typename encoder::TempStorage;
  TUCK_SHARED(storage, temp);
  const uint32_t used = encoder(temp)(C{}, values, count, out);
  if (threadIdx.x == 0) *size = used;
}

struct payload {
  uint64_t begin;
  uint32_t size, count;
};

template <class C, int Threads>
__global__ void decode_payloads(const payload* payloads, uint32_t number, const std::byte* encoded, value_t<C>* out,
                                status* statuses) {
  using coder = block_codec<C, Threads>;
  using storage = typename coder::TempStorage;
  TUCK_SHARED(storage, temp);
  for (uint32_t i = blockIdx.x; i < number; i += gridDim.x) {
    const payload p = payloads[i];
    block_output<value_t<C>, Threads> sink{
        out + uint64_t{i} * block_tile<value_t<C>, Threads>::capacity, 0, p.count, {}};
    const status s = coder(temp).decode(C{}, {encoded + p.begin, p.size}, p.count, sink);
    if (threadIdx.x == 0) statuses[i] = s;
    device::sync_block();
  }
}

template <class C> class rle_block : public ::testing::Test {
 protected:
  using T = value_t<C>;
  static constexpr uint32_t capacity = tile_bytes / sizeof(T);

  template <int Threads> static void expect_scalar_bytes(const std::vector<T>& values) {
    const device_stream stream;
    const device_array<T> in(values, stream);
    const device_array<std::byte> out(tile_bytes);
    const device_array<uint32_t> size(1);
    launch_on(stream, 1, Threads, encode_chunk<C, Threads>, static_cast<const T*>(in.data()),
              static_cast<uint32_t>(values.size()), out.data(), size.data());
    std::vector<std::byte> expected(C{}.max_chunk_bytes(static_cast<uint32_t>(values.size())));
    expected.resize(C{}.encode_chunk(values, expected));
    ASSERT_EQ(size.download(stream)[0], expected.size());
    ASSERT_EQ(out.download(expected.size(), stream), expected);
  }

  static std::vector<std::byte> encode(const std::vector<T>& values) {
    std::vector<std::byte> encoded(C{}.max_chunk_bytes(static_cast<uint32_t>(values.size())));
    encoded.resize(C{}.encode_chunk(values, encoded));
    return encoded;
  }

  // Decodes all payloads in one launch; each has the scalar codec's status and, if that is ok, its values.
  template <int Threads>
  static void expect_scalar_verdicts(const std::vector<std::vector<std::byte>>& encoded,
                                     const std::vector<uint32_t>& counts, int& accepted) {
    std::vector<payload> payloads;
    std::vector<std::byte> all;
    for (size_t i = 0; i < encoded.size(); ++i) {
      if (i % 2 == 0) all.resize((all.size() + 15) / 16 * 16);  // the others begin anywhere
      payloads.push_back({all.size(), static_cast<uint32_t>(encoded[i].size()), counts[i]});
      all.insert(all.end(), encoded[i].begin(), encoded[i].end());
    }
    const auto number = static_cast<uint32_t>(payloads.size());
    const device_stream stream;
    const device_array<payload> where(payloads, stream);
    const device_array<std::byte> in(all, stream);
    const device_array<T> out(uint64_t{number} * capacity);
    const device_array<status> statuses(number);
    launch_on(stream, 2, Threads, decode_payloads<C, Threads>, static_cast<const payload*>(where.data()), number,
              static_cast<const std::byte*>(in.data()), out.data(), statuses.data());
    const auto got = statuses.download(stream);
    const auto got_values = out.download(stream);
    for (uint32_t i = 0; i < number; ++i) {
      std::vector<T> expected(counts[i]);
      const status s = C{}.decode_chunk(encoded[i], expected);
      ASSERT_EQ(got[i], s) << "payload " << i << " of " << counts[i] << " values";
      if (s != status::ok) continue;
      ++accepted;
      ASSERT_EQ(std::memcmp(&got_values[uint64_t{i} * capacity], expected.data(), counts[i] * sizeof(T)), 0) << i;
    }
  }
};

using codecs = ::testing::Types<rle<uint8_t>, rle<f16>, rle<float>, rle<double>, rle_zero<uint8_t>, rle_zero<bf16>,
                                rle_zero<float>, rle_zero<int64_t>>;
TYPED_TEST_SUITE(rle_block, codecs);

TYPED_TEST(rle_block, encodes_runs_to_the_scalar_codec_s_bytes) {
  std::mt19937_64 random(21);
  for_schedules(2, [&] {
    for (const uint64_t longest : {1, 2, 4, 50, 3000})
      for (int round = 0; round < 4; ++round) {
        const uint64_t count = round == 0 ? this->capacity : 1 + random() % this->capacity;
        const auto values = runs<value_t<TypeParam>>(count, longest, random);
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << count << ' ' << longest;
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<256>(values)) << count << ' ' << longest;
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<512>(values)) << count << ' ' << longest;
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<1024>(values)) << count << ' ' << longest;
      }
  });
}

// A run that ends where a warp's part does, or the chunk.
TYPED_TEST(rle_block, knows_runs_across_warps) {
  using value = value_t<TypeParam>;
  constexpr uint32_t part = TestFixture::capacity / 8;
  for (const uint32_t count : {TestFixture::capacity, 3 * part, 3 * part + 1, 3 * part - 1})
    for (const uint32_t at : {part - 1, part, part + 1, 2 * part}) {
      std::vector<value> values(count, __builtin_bit_cast(value, bits_t<value>{5}));
      std::fill(values.begin(), values.begin() + at, __builtin_bit_cast(value, bits_t<value>{9}));
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<256>(values)) << count << ' ' << at;
    }
}

TYPED_TEST(rle_block, decodes_with_the_scalar_codec_s_verdict) {
  std::mt19937_64 random(22);
  std::vector<std::vector<std::byte>> encoded;
  std::vector<uint32_t> counts;
  for (int round = 0; round < (sanitized ? 400 : 2000); ++round) {
    const uint64_t most = round % 64 == 0 ? this->capacity : 300;
    const auto values = runs<value_t<TypeParam>>(1 + random() % most, uint64_t{1} << random() % 8, random);
    auto bytes = this->encode(values);
    const size_t in_front = std::min<size_t>(bytes.size(), 40);
    for (uint64_t changes = random() % 4; changes-- > 0 && !bytes.empty();) {
      const size_t at = random() % (random() % 4 != 0 ? in_front : bytes.size());
      bytes[at] =
          random() % 4 != 0 ? bytes[at] ^ static_cast<std::byte>(1 << random() % 8) : static_cast<std::byte>(random());
    }
    if (random() % 8 == 0) bytes.resize(random() % (values.size() * sizeof(values[0])));
    encoded.push_back(std::move(bytes));
    counts.push_back(static_cast<uint32_t>(values.size()));
  }
  for_schedules(2, [&] {
    int accepted = 0;
    ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<128>(encoded, counts, accepted));
    ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<256>(encoded, counts, accepted));
    ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<512>(encoded, counts, accepted));
    EXPECT_GT(accepted, static_cast<int>(encoded.size() / 2));
    EXPECT_LT(accepted, static_cast<int>(encoded.size() * 5 / 2));
  });
}

}  // namespace
}  // namespace tuck::test
