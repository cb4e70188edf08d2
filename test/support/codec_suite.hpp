// What every codec promises of one chunk on one thread. For a codec of your own, or a chain with it:
//
//   INSTANTIATE_TYPED_TEST_SUITE_P(mine, codec_suite, ::testing::Types<my_codec>, codec_names);
//
// Its values are those of sample<my_codec> (codecs.hpp).
#pragma once

#include "support/codecs.hpp"

#include <array>
#include <utility>

namespace tuck::test {

// A last stage that makes no chunk smaller, and the chain C with it in place of its last stage.
template <element T> struct no_gain : plain_codec<no_gain<T>, T, codec_id{0xfffe}> {
  static uint32_t encode_chunk(span<const T>, bytes) noexcept { return incompressible; }
  static status decode_chunk(const_bytes, span<T>) noexcept { return status::bad_payload; }
};
template <class C, size_t... I>
chain<typename C::template stage_type<I>..., no_gain<value_t<typename C::last_stage>>> without_gain(
    std::index_sequence<I...>);

template <codec C, codec... Cs> constexpr bool is_chain_or_listed(codec_list<Cs...>) {
  return tuck::detail::is_chain<C> || (std::is_same_v<by_width<C>, by_width<Cs>> || ...);
}

template <class C> class codec_suite : public ::testing::Test {
 protected:
  // Exactly as long as it must be, so that sanitizers see any step outside.
  static std::vector<std::byte> encode(const std::vector<value_t<C>>& values) {
    const C codec = sample<C>::codec();
    std::vector<std::byte> room(codec.max_chunk_bytes(static_cast<uint32_t>(values.size())));
    const uint32_t used = codec.encode_chunk(values, room);
    EXPECT_LE(used, room.size());
    return {room.begin(), room.begin() + used};
  }

  static constexpr std::array<uint32_t, 9> sizes{1, 2, 31, 32, 33, 63, 100, 1024, 4096};
  static constexpr std::array<double, 6> sparsities{0, .1, .5, .9, .99, 1};
};

TYPED_TEST_SUITE_P(codec_suite);

TYPED_TEST_P(codec_suite, restores_every_value) {
  const auto codec = sample<TypeParam>::codec();
  int encoded_chunks = 0;
  for (const uint32_t size : this->sizes)
    for (const double sparsity : this->sparsities)
      for (const pattern how : {pattern::iid, pattern::clustered}) {
        const auto values = sample<TypeParam>::tensor(size, sparsity, how, size);
        const auto encoded = this->encode(values);
        if (encoded.empty()) continue;  // incompressible
        ++encoded_chunks;
        auto restored = sparse_tensor<value_t<TypeParam>>(size, 0, how, 99);
        ASSERT_EQ(codec.decode_chunk(encoded, restored), status::ok) << size << ' ' << sparsity;
        ASSERT_TRUE(restores(codec, values, restored)) << size << ' ' << sparsity;
      }
  EXPECT_GE(encoded_chunks, sample<TypeParam>::least_chunks);
}

// A chain skips a stage that gains nothing, and all that is restored is right nevertheless.
TYPED_TEST_P(codec_suite, last_stages_of_chains_are_used) {
  if constexpr (tuck::detail::is_chain<TypeParam>) {
    using other = decltype(without_gain<TypeParam>(std::make_index_sequence<TypeParam::size - 1>{}));
    other codec;
    stage_list stages = sample<TypeParam>::codec().stages();
    stages.at[other::size - 1] = no_gain<value_t<typename TypeParam::last_stage>>::description();
    ASSERT_EQ(other::from_stages(stages, codec), status::ok);
    int smaller = 0;
    for (const double sparsity : this->sparsities)
      for (const pattern how : {pattern::iid, pattern::clustered}) {
        const auto values = sample<TypeParam>::tensor(4096, sparsity, how);
        const size_t size = this->encode(values).size();
        std::vector<std::byte> room(codec.max_chunk_bytes(4096));
        const uint32_t without = codec.encode_chunk(values, room);
        smaller += size != 0 && (without == 0 || size < without);
      }
    EXPECT_GE(smaller, 2);
  }
}

TYPED_TEST_P(codec_suite, equal_input_gives_equal_bytes) {
  const auto values = sample<TypeParam>::tensor(1000, .6);
  EXPECT_EQ(this->encode(values), this->encode(values));
}

TYPED_TEST_P(codec_suite, refuses_other_lengths) {
  const auto codec = sample<TypeParam>::codec();
  const auto values = sample<TypeParam>::tensor(500, .6);
  auto encoded = this->encode(values);
  ASSERT_FALSE(encoded.empty());
  std::vector<value_t<TypeParam>> restored(values.size());
  for (size_t size = 0; size < encoded.size(); ++size) {
    const std::vector<std::byte> shorter(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_TRUE(is_payload_error(codec.decode_chunk(shorter, restored))) << size;
  }
  encoded.push_back({});
  EXPECT_TRUE(is_payload_error(codec.decode_chunk(encoded, restored)));
}

TYPED_TEST_P(codec_suite, any_bytes_end_in_a_status) {
  const auto codec = sample<TypeParam>::codec();
  std::mt19937_64 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::vector<value_t<TypeParam>> values(1 + random() % 100);
    auto encoded = this->encode(sample<TypeParam>::tensor(values.size(), .5, pattern::iid, random()));
    if (round % 4 == 0) encoded.resize(random() % 600);
    for (uint64_t changes = random() % 8; changes-- > 0 && !encoded.empty();)
      encoded[random() % encoded.size()] = static_cast<std::byte>(random());
    const status s = codec.decode_chunk(encoded, values);
    ASSERT_TRUE(s == status::ok || is_payload_error(s));
  }
}

TYPED_TEST_P(codec_suite, knows_its_own_stages_and_no_others) {
  auto codec = sample<TypeParam>::codec();
  stage_list stages = codec.stages();
  if constexpr (!is_chain_or_listed<TypeParam>(all_codecs{})) {
    EXPECT_GE(stages.at[0].id, codec_id::custom) << "the ids before are the library's";
  }
  EXPECT_EQ(TypeParam::from_stages(stages, codec), status::ok);
  ++stages.at[0].version;
  EXPECT_EQ(TypeParam::from_stages(stages, codec), status::bad_version);
  stages = codec.stages();
  stages.at[0].id = codec_id::custom;
  EXPECT_EQ(TypeParam::from_stages(stages, codec), status::codec_mismatch);
  stages = codec.stages();
  stages.at[3].id = codec_id::custom;
  EXPECT_NE(TypeParam::from_stages(stages, codec), status::ok);
}

REGISTER_TYPED_TEST_SUITE_P(codec_suite, restores_every_value, last_stages_of_chains_are_used,
                            equal_input_gives_equal_bytes, refuses_other_lengths, any_bytes_end_in_a_status,
                            knows_its_own_stages_and_no_others);

}  // namespace tuck::test
