// Batches on the CPU: each item what a single call makes of it, however many threads there are.
#include "support/codecs.hpp"

namespace tuck::test {
namespace {

template <class C> class host_batch : public ::testing::Test {};
TYPED_TEST_SUITE(host_batch, framed_codecs, codec_names);

TYPED_TEST(host_batch, items_are_what_single_calls_make_of_them) {
  using T = value_t<TypeParam>;
  const TypeParam codec = sample<TypeParam>::codec();
  std::vector<std::vector<T>> tensors, restored;
  std::vector<frame_bytes> rooms;
  for (const uint64_t bytes :
       {0, 8, 100'000, 1, 300, slow ? 2'000'000 : 5'000'000, 16'384, 0, 65'544, 24}) {  // one of several threads'
    tensors.push_back(sample<TypeParam>::tensor(bytes / sizeof(T), .5, pattern::clustered, bytes));
    restored.emplace_back(tensors.back().size());
    rooms.emplace_back(max_frame_bytes(codec, tensors.back().size()));
  }
  for (const unsigned threads : {1u, 3u, 0u}) {
    std::vector<encode_item<T>> from;
    std::vector<decode_item<T>> to;
    for (size_t i = 0; i < tensors.size(); ++i) {
      from.push_back({tensors[i], rooms[i]});
      to.push_back({rooms[i], restored[i]});
    }
    from[3].frame = from[3].frame.subspan(0, 100);
    std::vector<outcome> written(tensors.size()), back(tensors.size());
    ASSERT_TRUE(host::encode_batch(codec, from, written, {}, {.threads = threads}));
    ASSERT_TRUE(host::decode_batch(TypeParam{}, to, back, {.threads = threads}));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto expected = encoded(codec, tensors[i]);
      ASSERT_EQ(written[i].code, i == 3 ? status::output_too_small : status::ok) << i;
      ASSERT_EQ(written[i].bytes, expected.size()) << i;
      if (i == 3) continue;
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), rooms[i].begin())) << i;
      ASSERT_EQ(back[i].code, status::ok) << i;
      ASSERT_EQ(back[i].bytes, restored[i].size() * sizeof(T)) << i;
      ASSERT_TRUE(same_bits(restored[i], expected_values<TypeParam>(tensors[i], expected))) << i;
    }
    ASSERT_FALSE(back[3]);
  }
}

TEST(batch, too_few_outcomes_are_refused_and_no_items_are_fine) {
  const std::vector<float> values(100, 1.f);
  frame_bytes room(max_frame_bytes(zvc<float>{}, 100), std::byte{0x77});
  const frame_bytes before = room;
  const std::vector<encode_item<float>> from(2, {values, room});
  const std::vector<decode_item<float>> to(2);
  std::vector<outcome> outcomes(1);
  EXPECT_EQ(host::encode_batch(zvc<float>{}, from, outcomes).code, status::output_too_small);
  EXPECT_EQ(host::decode_batch(zvc<float>{}, to, outcomes).code, status::output_too_small);
  EXPECT_EQ(room, before);
  EXPECT_TRUE(host::encode_batch(zvc<float>{}, span<const encode_item<float>>{}, outcomes));
  EXPECT_TRUE(host::decode_batch(zvc<float>{}, span<const decode_item<float>>{}, {}));
}

TEST(batch, null_lists_are_refused) {
  const zvc<float> codec;
  const auto code = [](result r) { return r.code; };
  std::vector<outcome> of_two(2);
  const std::vector<encode_item<float>> from(2);
  const std::vector<decode_item<float>> to(2);
  const span<outcome> nowhere(nullptr, 2);
  const auto none = []<class Item>(std::type_identity<Item>) { return span<const Item>(nullptr, 2); };
  const auto refused = status::invalid_argument;
  EXPECT_EQ(code(host::encode_batch(codec, none(std::type_identity<encode_item<float>>{}), of_two)), refused);
  EXPECT_EQ(code(host::decode_batch(codec, none(std::type_identity<decode_item<float>>{}), of_two)), refused);
  EXPECT_EQ(code(host::encode_batch(codec, from, nowhere)), refused);
  EXPECT_EQ(code(host::decode_batch(codec, to, nowhere)), refused);
  EXPECT_EQ(code(host::encode_delta_batch(codec, none(std::type_identity<encode_delta_item<float>>{}), of_two)),
            refused);
  EXPECT_EQ(code(host::decode_delta_batch(codec, none(std::type_identity<decode_delta_item<float>>{}), of_two)),
            refused);
  EXPECT_EQ(host::compact_deltas(codec, {nullptr, 2}, {}, {}, {}).code, refused);
}

TEST(batch, takes_a_codec_that_was_chosen_at_run_time) {
  const auto values = sparse_tensor<float>(5000, .5);
  frame_bytes room(max_frame_bytes(zvc<float>{}, 5000));
  const encode_item<float> item{values, room};
  const span<const encode_item<float>> items{&item, 1};
  outcome o;
  any_codec<codec_list<zvc<float>, rle<double>>> codec;
  EXPECT_EQ(host::encode_batch(codec, items, {&o, 1}).code, status::unknown_codec);
  codec = rle<double>{};
  EXPECT_EQ(host::encode_batch(codec, items, {&o, 1}).code, status::type_mismatch);
  codec = zvc<float>{};
  EXPECT_EQ(host::encode_batch(codec, items, {&o, 1}).code, status::ok);
  EXPECT_EQ(frame_bytes(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(o.bytes)),
            encoded(zvc<float>{}, values));
}

TEST(batch, bounds_relative_to_the_range_are_each_item_s_own) {
  const quantize<float> codec(error_bound::range_relative(1e-3));
  std::vector<std::vector<float>> tensors;
  std::vector<frame_bytes> rooms;
  std::vector<encode_item<float>> items;
  for (int i = 0; i < 5; ++i) {
    tensors.push_back(sample<quantize<float>>::tensor(3000, .1, pattern::iid, static_cast<uint64_t>(i)));
    for (float& x : tensors.back()) x *= std::exp2(static_cast<float>(4 * i));
    rooms.emplace_back(max_frame_bytes(codec, 3000));
  }
  for (size_t i = 0; i < tensors.size(); ++i) items.push_back({tensors[i], rooms[i]});
  std::vector<outcome> written(items.size());
  ASSERT_TRUE(host::encode_batch(codec, items, written));
  for (size_t i = 0; i < items.size(); ++i) {
    rooms[i].resize(written[i].bytes);
    EXPECT_EQ(rooms[i], encoded(codec, tensors[i])) << i;
  }
}

TEST(host_batch, progress_counts_the_chunks_of_all_items) {
  const auto large = sparse_tensor<float>(1'200'000, .5), small = sparse_tensor<float>(3 * 4096 + 1, .5);
  frame_bytes rooms[2]{frame_bytes(max_frame_bytes(zvc<float>{}, large.size())),
                       frame_bytes(max_frame_bytes(zvc<float>{}, small.size()))};
  std::vector<float> restored[2]{std::vector<float>(large.size()), std::vector<float>(small.size())};
  const std::vector<encode_item<float>> from{{large, rooms[0]}, {small, rooms[1]}};
  const std::vector<decode_item<float>> to{{rooms[0], restored[0]}, {rooms[1], restored[1]}};
  std::vector<outcome> outcomes(2);
  std::atomic<uint64_t> done{0};
  ASSERT_TRUE(host::encode_batch(zvc<float>{}, from, outcomes, {}, {.chunks_done = &done}));
  EXPECT_EQ(done, 293u + 4);
  ASSERT_TRUE(host::decode_batch(zvc<float>{}, to, outcomes, {.chunks_done = &done}));
  EXPECT_EQ(done, 2u * (293 + 4));
}

TEST(host_batch, null_pointers_are_their_items_affair) {
  const auto values = sparse_tensor<float>(1000, .5);
  frame_bytes room(max_frame_bytes(zvc<float>{}, 1000));
  const std::vector<encode_item<float>> items{{{nullptr, 10}, room}, {values, {nullptr, 100}}, {values, room}};
  std::vector<outcome> outcomes(3);
  ASSERT_TRUE(host::encode_batch(zvc<float>{}, items, outcomes, {}, {.threads = 1}));
  EXPECT_EQ(outcomes[0].code, status::invalid_argument);
  EXPECT_EQ(outcomes[1].code, status::output_too_small);
  EXPECT_EQ(outcomes[1].bytes, outcomes[2].bytes);
  EXPECT_EQ(outcomes[2].code, status::ok);
  std::vector<float> restored(1000);
  const std::vector<decode_item<float>> frames{{{nullptr, 10}, restored}, {room, {nullptr, 10}}, {room, restored}};
  ASSERT_TRUE(host::decode_batch(zvc<float>{}, frames, outcomes, {.threads = 1}));
  EXPECT_EQ(outcomes[0].code, status::invalid_argument);
  EXPECT_EQ(outcomes[1].code, status::invalid_argument);
  EXPECT_EQ(outcomes[2].code, status::ok);
  EXPECT_TRUE(same_bits(restored, values));
}

}  // namespace
}  // namespace tuck::test
