// Chains by blocks against the scalar codec: its bytes, its verdict on anything; and stages of a user's own.
#include "support/batches.hpp"
#include "support/block_codec_suite.hpp"
#include "support/codec_suite.hpp"
#include "support/my_stages.cuh"

namespace tuck::test {

// What `halved` makes smaller: the upper halves of the values that `masked` makes are alike.
template <>
struct sample<chain<zvc<float>, mine::masked, mine::halved>>
    : usual_sample<chain<zvc<float>, mine::masked, mine::halved>> {
  static constexpr bool every_bit_counts = false;
  static std::vector<float> tensor(uint64_t count, double sparsity, pattern how = pattern::iid, uint64_t seed = 1) {
    auto values = sparse_tensor<float>(count, sparsity, how, seed);
    for (float& x : values)
      if (bits_of(x) != 0) x = __builtin_bit_cast(float, 0x3f800000 | (bits_of(x) & 0x7fff));
    return values;
  }
};
// Runs, every other one of zeros: rle leaves one value of each.
template <> struct sample<chain<rle<uint8_t>, zvc<uint8_t>>> : usual_sample<chain<rle<uint8_t>, zvc<uint8_t>>> {
  static constexpr bool every_bit_counts = false;
  static std::vector<uint8_t> tensor(uint64_t count, double sparsity, pattern how = pattern::iid, uint64_t seed = 1) {
    const auto some = sparse_tensor<uint8_t>(count, sparsity, how, seed);
    std::vector<uint8_t> values(count);
    for (uint64_t i = 0; i < count; ++i) values[i] = i / 8 % 2 == 0 ? 0 : some[i & ~uint64_t{7}];
    return values;
  }
};

namespace {

// Behind a splitter: as many values as it leaves, where others may be in the same word.
template <class Transforms> struct behind_zvc_of;
template <class... Xs> struct behind_zvc_of<::testing::Types<Xs...>> {
  using type = ::testing::Types<chain<zvc<typename Xs::value_type>, Xs, bitpack<typename Xs::result_type>>...>;
};
template <class Transforms> using behind_zvc = typename behind_zvc_of<Transforms>::type;

// Every kind of stage at every place it may have, over every width.
using all_chains =
    joined<::testing::Types<zvc_huffman<float>, zvc_huffman<double>, chain<differences<bf16>, huffman<uint16_t>>,
                            zvc_rle_huffman<f16>, delta_rle_bitpack<uint8_t>, delta_rle_bitpack<int32_t>,
                            delta_rle_bitpack<uint64_t>, chain<rle<uint8_t>, zvc<uint8_t>>,
                            chain<zvc<uint16_t>, rle<uint16_t>, huffman<uint16_t>>,
                            chain<rows<float>, rle<float>, huffman<float>>,
                            chain<zvc<float>, mine::masked, mine::halved>, chain<mine::masked, huffman<uint32_t>>>,
           behind_zvc<every_transform<uint8_t>>>;
using few_chains = ::testing::Types<zvc_huffman<double>, delta_rle_bitpack<int32_t>, chain<rle<uint8_t>, zvc<uint8_t>>,
                                    chain<zvc<float>, mine::masked, mine::halved>>;
using chains = std::conditional_t<slow, few_chains, all_chains>;
INSTANTIATE_TYPED_TEST_SUITE_P(chains, codec_suite, chains, codec_names);
INSTANTIATE_TYPED_TEST_SUITE_P(chains, block_codec_suite, chains, codec_names);

// -- forms of delta --------------------------------------------------------------------------------------------------

template <class C> class chain_forms : public block_against_scalar<C> {};
using chains_with_forms =
    ::testing::Types<chain<differences<int16_t>, huffman<uint16_t>>,
                     chain<differences<int32_t>, zvc<uint32_t>, huffman<uint32_t>>, delta_rle_bitpack<int64_t>,
                     chain<differences<uint8_t>, rle<uint8_t>, huffman<uint8_t>>>;
TYPED_TEST_SUITE(chain_forms, chains_with_forms, codec_names);

TYPED_TEST(chain_forms, are_the_scalar_codec_s) {
  using value = value_t<TypeParam>;
  constexpr uint32_t most = tile_bytes / sizeof(value);
  std::vector<std::vector<std::byte>> payloads;
  std::vector<uint32_t> counts;
  for (const uint32_t form : {0u, 1u, 2u})
    for (const uint32_t count : {100u, 1000u, most - 3, most})
      for (const bool sparse : {false, true}) {
        const auto values = values_for_form<value>(form, count, sparse);
        auto encoded = TestFixture::encode(values);
        if (encoded.empty() || encoded.size() >= count * sizeof(value)) continue;  // a block declines it
        SCOPED_TRACE(std::to_string(form) + ", " + std::to_string(count) + " values");
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values));
        if (count == most) {
          ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<512>(values));
        }
        for (uint32_t told = 0; told < 4; ++told) {  // form 3 is unknown
          std::byte& bits = encoded[encoded.size() - 3];
          bits = (bits & std::byte{0x3f}) | static_cast<std::byte>(told << 6);
          payloads.push_back(encoded);
          counts.push_back(count);
        }
      }
  int accepted = 0;
  ASSERT_GE(payloads.size(), 60u);
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<128>(payloads, counts, accepted));
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<256>(payloads, counts, accepted));
  EXPECT_EQ(accepted, static_cast<int>(payloads.size() / 4 * 6));
}

// -- negative zeros ---------------------------------------------------------------------------------------------------

template <class C> class chain_zeros : public block_against_scalar<C> {};
using chains_of_zvc = ::testing::Types<zvc_huffman<double>, zvc_huffman<f8e4m3>, zvc_rle_huffman<f16>,
                                       rows_zvc_huffman<float>, chain<packed_zvc<float>, mine::masked, mine::halved>>;
TYPED_TEST_SUITE(chain_zeros, chains_of_zvc, codec_names);

TYPED_TEST(chain_zeros, are_dropped_as_by_the_scalar_codec) {
  using value = value_t<TypeParam>;
  constexpr uint32_t most = tile_bytes / sizeof(value);
  std::vector<std::vector<std::byte>> payloads;
  std::vector<uint32_t> counts;
  for (const uint32_t count : {1u, 33u, 100u, 1000u, most - 3, most})
    for (const double negative : {0., .001, .5, 1.})
      for (const double sparsity : {.2, .8, 1.}) {
        auto values = tensor_with_negative_zeros<value>(count, sparsity, negative, count);
        auto encoded = TestFixture::encode(values);
        if (encoded.empty() || encoded.size() >= count * sizeof(value)) continue;  // a block declines it
        SCOPED_TRACE(std::to_string(count) + " values, " + std::to_string(negative));
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values));
        payloads.push_back(std::move(encoded));
        counts.push_back(count);
      }
  ASSERT_GE(payloads.size(), 30u);
  int accepted = 0;
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<128>(payloads, counts, accepted));
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<256>(payloads, counts, accepted));
  EXPECT_EQ(accepted, static_cast<int>(2 * payloads.size()));
}

TYPED_TEST(chain_zeros, decode_with_the_scalar_codec_s_verdict) {
  using value = value_t<TypeParam>;
  std::mt19937_64 random(7);
  std::vector<std::vector<std::byte>> payloads;
  std::vector<uint32_t> counts;
  for (int i = 0; i < (brief ? 100 : 400); ++i) {
    const uint64_t count = 1 + random() % 600;
    auto encoded = TestFixture::encode(tensor_with_negative_zeros<value>(count, .7, .5, random()));
    if (encoded.empty()) continue;  // it does not shrink
    for (uint64_t changes = random() % 3; changes-- > 0;)
      encoded[random() % encoded.size()] ^= static_cast<std::byte>(1 << random() % 8);
    payloads.push_back(encoded);
    counts.push_back(static_cast<uint32_t>(count));
  }
  int accepted = 0;
  TestFixture::template expect_scalar_verdicts<128>(payloads, counts, accepted);
  EXPECT_GE(accepted, brief ? 10 : 60);
  EXPECT_LE(accepted, brief ? 95 : 380);
}

// -- records that lie ------------------------------------------------------------------------------------------------

// A splitter that says its side is `Lie` bytes longer than it is; what is behind it is as much shorter.
template <class S, uint32_t Lie> struct lying : S {
  using S::S;
  explicit lying(const S& honest) : S(honest) {}
  static status from_stages(const stage_list& stages, lying& parsed) noexcept { return S::from_stages(stages, parsed); }
  static uint32_t side_bytes(const_bytes encoded, uint32_t count) noexcept {
    return S::side_bytes(encoded, count) + Lie;
  }
};

template <uint32_t Lie, class S, class... Rest>
void expect_found_out(const S& honest, const std::vector<value_t<S>>& values) {
  const auto frame = encoded(chain<lying<S, Lie>, Rest...>(lying<S, Lie>(honest), Rest{}...), values);
  std::vector<value_t<S>> on_host(values.size()), on_device(values.size());
  const chain<S, Rest...> reader;
  const outcome there = host::decode(reader, frame, on_host);
  const outcome here = device_queue().decode(reader, frame, on_device);
  EXPECT_EQ(there.code, Lie == 0 ? status::ok : status::bad_payload) << Lie;
  EXPECT_EQ(here.code, there.code) << Lie;
  EXPECT_TRUE(same_bits(on_device, on_host)) << Lie;
}
template <class S, class... Rest> void expect_all_found_out(const S& honest, const std::vector<value_t<S>>& values) {
  expect_found_out<0, S, Rest...>(honest, values);
  expect_found_out<4, S, Rest...>(honest, values);
  expect_found_out<8, S, Rest...>(honest, values);
  expect_found_out<1000, S, Rest...>(honest, values);
}

TEST(chain_records, that_lie_are_found_out) {
  const auto floats = sample<quantize<float>>::tensor(4000, .3);
  const auto halves = sample<quantize<f16>>::tensor(4000, .3);
  const quantize_codes<float> codes(error_bound::absolute(.01));
  const quantize_codes<f16> half_codes(error_bound::absolute(.01));
  expect_all_found_out<quantize_codes<float>, differences<uint32_t>, huffman<uint32_t>>(codes, floats);
  expect_all_found_out<quantize_codes<float>, zvc<uint32_t>, bitpack<uint32_t>>(codes, floats);
  expect_all_found_out<quantize_codes<f16>, huffman<uint16_t>>(half_codes, halves);
  const auto sparse = sparse_tensor<float>(4000, .7, pattern::clustered);
  expect_all_found_out<zvc<float>, huffman<float>>({}, sparse);
  expect_all_found_out<rle<float>, bitpack<float>>({}, sparse);
}

// -- stages of a user's own, in frames and alone --------------------------------------------------------------------

using own_chain = chain<mine::masked, mine::signs, mine::halved>;

std::vector<float> values_alike() {
  std::vector<float> values(6000);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = __builtin_bit_cast(float, 0x3f800000 + static_cast<uint32_t>(i * 7 % 9000));
  values[5000] = -1;  // its chunk does not shrink
  return values;
}

TEST(own_stages, make_the_host_s_frames) {
  const auto values = values_alike();
  for_schedules(4, [&] {
    device_queue queue;
    const own_chain codec(mine::masked{.key = 99}, {}, {});
    const auto frame = queue.encode(codec, values, {.chunk_values = 4096, .checksums = true});
    ASSERT_EQ(frame, encoded(codec, values, {.chunk_values = 4096, .checksums = true}));
    ASSERT_LT(frame.size(), 3 * values.size());
    std::vector<float> restored(values.size());
    ASSERT_EQ(queue.decode(own_chain{}, frame, restored).code, status::ok);
    ASSERT_TRUE(same_bits(restored, values));
  });
}

// zvc finds no zeros. Its record stands right behind what the last stage wrote, which may have written further.
TEST(own_stages, leave_the_records_of_skipped_stages_alone) {
  using codec = chain<zvc<float>, mine::masked, mine::halved>;
  for (uint32_t count = 2; count < 40; ++count) {
    auto values = values_alike();
    values.resize(count);
    for_schedules(4, [&] {
      device_queue queue;
      ASSERT_EQ(queue.encode(codec{}, values), encoded(codec{}, values)) << count;
    });
  }
}

TEST(own_stages, work_in_batches) {
  const own_chain codec(mine::masked{.key = 3}, {}, {});
  const auto values = values_alike();
  std::vector<std::vector<float>> tensors;
  for (const std::ptrdiff_t size : {0, 1, 100, 6000, 4096}) tensors.emplace_back(values.begin(), values.begin() + size);
  device_batch<own_chain> batch(tensors, codec, {.chunk_values = 1024});
  ASSERT_NO_FATAL_FAILURE(expect_round_trip(batch));
}

TEST(own_stages, work_in_kernels) {
  auto values = values_alike();
  values.resize(4000);
  const device_stream stream;
  const device_array<float> in(values, stream), back(values.size());
  const device_array<std::byte> out(4 * values.size());
  const device_array<uint32_t> size(1);
  launch_on(stream, 1, 256, encode_chunk<own_chain, 256>, own_chain{}, static_cast<const float*>(in.data()), 4000u,
            out.data(), size.data());
  const auto expected = bare_chunk(own_chain{}, span<const float>(values));
  ASSERT_EQ(size.download(stream)[0], expected.size());
  ASSERT_EQ(out.download(expected.size(), stream), expected);
}

}  // namespace
}  // namespace tuck::test
