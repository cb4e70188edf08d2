#include "support/codecs.hpp"
#include "support/deltas.hpp"

namespace tuck::test {
namespace {

template <class C> class delta_frames : public ::testing::Test {
 public:
  // Applies a delta in place: all right, or refused and nothing changed.
  static outcome apply(const frame_bytes& frame, std::vector<value_t<C>>& base, const delta_options& options = {},
                       unsigned threads = 1) {
    return host::decode_delta(C{}, frame, base, base, options, {.threads = threads});
  }
  static void expect_refused(const frame_bytes& frame, const std::vector<value_t<C>>& base, status why) {
    auto same = base;
    const outcome o = apply(frame, same);
    EXPECT_EQ(o.code, why) << message(o.code);
    EXPECT_EQ(o.bytes, 0u);
    EXPECT_TRUE(same_bits(same, base));
    std::vector<value_t<C>> out(base.size(), __builtin_bit_cast(value_t<C>, bits_t<value_t<C>>{7}));
    const auto before = out;
    EXPECT_EQ(host::decode_delta(C{}, frame, base, out).code, why);
    EXPECT_TRUE(same_bits(out, before));
  }
};
TYPED_TEST_SUITE(delta_frames, tested_codecs, codec_names);

TYPED_TEST(delta_frames, restore_every_value) {
  using T = value_t<TypeParam>;
  if (is_lossy<TypeParam>) {
    const two_tensors<T> two(100, .1);
    frame_bytes frame(1 << 20);
    EXPECT_EQ(host::encode_delta(TypeParam{}, two.values, two.base, frame).code, status::lossy_delta);
    return;
  }
  constexpr uint64_t chunk = TypeParam::chunk_bytes / sizeof(T);
  for (const uint64_t size :
       {uint64_t{0}, uint64_t{1}, uint64_t{33}, chunk - 1, chunk, 3 * chunk + 7, uint64_t{50'003}})
    for (const double changed : {0., .001, .05, 1.})
      for (const unsigned threads : {1u, 3u}) {
        const two_tensors<T> two(size, changed, size + 1);
        const auto frame = delta_of<TypeParam>(two, {.chunk_values = size % 2 != 0 ? 0u : 256u}, threads);
        for (const bool chunk_by_chunk : {false, true}) {
          auto in_place = two.base;
          const outcome o = TestFixture::apply(frame, in_place, {chunk_by_chunk}, threads);
          ASSERT_EQ(o.code, status::ok) << size << ' ' << changed;
          ASSERT_EQ(o.bytes, size * sizeof(T));
          ASSERT_TRUE(same_bits(in_place, two.values));
          std::vector<T> out(size);
          ASSERT_TRUE(host::decode_delta(TypeParam{}, frame, two.base, out, {chunk_by_chunk}));
          ASSERT_TRUE(same_bits(out, two.values));
        }
      }
}

TYPED_TEST(delta_frames, are_refused_where_they_do_not_belong) {
  using T = value_t<TypeParam>;
  if (is_lossy<TypeParam>) return;
  const two_tensors<T> two(3000, .05);
  const auto frame = delta_of<TypeParam>(two, {.chunk_values = 256});
  // Twice, and to a base of one changed bit, or of another size.
  TestFixture::expect_refused(frame, two.values, status::wrong_base);
  auto other = two.base;
  other[2999] = __builtin_bit_cast(T, static_cast<bits_t<T>>(bits_of(other[2999]) ^ 1));
  TestFixture::expect_refused(frame, other, status::wrong_base);
  other = two.base;
  std::swap(other.front(), other.back());
  if (!same_bits(other, two.base)) TestFixture::expect_refused(frame, other, status::wrong_base);
  other.resize(2999);
  TestFixture::expect_refused(frame, other, status::wrong_base);
  // A frame that is none, and an output of another size.
  TestFixture::expect_refused(encoded(TypeParam{}, two.values, {.checksums = true}), two.base, status::not_a_delta);
  std::vector<T> shorter(2999);
  EXPECT_EQ(host::decode_delta(TypeParam{}, frame, two.base, shorter).code, status::bad_range);
  // Without a base.
  auto out = two.base;
  EXPECT_EQ(host::decode(TypeParam{}, frame, out).code, status::needs_base);
  EXPECT_EQ(host::decode(codec_list<TypeParam>{}, frame, as_writable_bytes(span<T>(out))).code, status::needs_base);
  frame_view view;
  ASSERT_EQ(frame_view::open(frame, view), status::ok);
  EXPECT_EQ(host::decode(TypeParam{}, view, out).code, status::needs_base);
  const decode_item<T> item{frame, out};
  outcome done;
  EXPECT_TRUE(host::decode_batch(TypeParam{}, span<const decode_item<T>>(&item, 1), span<outcome>(&done, 1)));
  EXPECT_EQ(done.code, status::needs_base);
  EXPECT_TRUE(same_bits(out, two.base));
  // Of too many values, and with null pointers.
  frame_bytes room(1 << 16);
  EXPECT_EQ(host::encode_delta(TypeParam{}, two.values, shorter, room).code, status::wrong_base);
  EXPECT_EQ(host::encode_delta(TypeParam{}, two.values, span<const T>(nullptr, 3000), room).code,
            status::invalid_argument);
  EXPECT_EQ(host::decode_delta(TypeParam{}, frame, span<const T>(nullptr, 3000), out).code, status::invalid_argument);
}

TYPED_TEST(delta_frames, damaged_change_nothing) {
  using T = value_t<TypeParam>;
  if (is_lossy<TypeParam>) return;
  const two_tensors<T> two(700, .1);
  const auto good = delta_of<TypeParam>(two, {.chunk_values = 64});
  std::mt19937_64 random(9);
  int refused = 0, harmless = 0;
  for (int round = 0; round < (brief ? 2000 : 20'000); ++round) {
    auto frame = good;
    for (uint64_t changes = 1 + random() % 3; changes != 0; --changes)
      frame[random() % frame.size()] ^= static_cast<std::byte>(1 << random() % 8);
    if (random() % 4 == 0) frame.resize(random() % frame.size());
    if (random() % 2 == 0) reseal(frame);
    auto base = two.base;
    if (const outcome o = TestFixture::apply(frame, base); !o) {
      ++refused;
      ASSERT_TRUE(same_bits(base, two.base)) << message(o.code);
    } else {
      ++harmless;
      ASSERT_TRUE(same_bits(base, two.values));
    }
  }
  EXPECT_GT(refused, harmless);
}

TEST(delta, is_what_the_header_says) {
  const two_tensors<bf16> two(5000, .02);
  const auto frame = delta_of<zvc<bf16>>(two);
  frame_info info;
  ASSERT_EQ(inspect(frame, info), status::ok);
  EXPECT_TRUE(info.delta && info.checksums);
  EXPECT_EQ(info.base_digest, tensor_digest(as_bytes(span<const bf16>(two.base)), info.chunk_values * 2));
  EXPECT_LT(frame.size(), 1500u);
  const auto forge = [&](auto change) {
    frame_header h = header_of(frame);
    change(h);
    return check_header(h, (h.header_digest = digest_of(h)));
  };
  EXPECT_EQ(forge([](auto&) {}), status::ok);
  EXPECT_EQ(forge([](auto& h) { h.flags = flag_delta; }), status::bad_header);
  EXPECT_EQ(forge([](auto& h) { h.flags = flag_checksums; }), status::bad_header);
  EXPECT_EQ(forge([](auto& h) { h.flags |= 4; }), status::bad_header);
  // No more than its count of bytes, as encode has it.
  frame_bytes room(frame.size());
  EXPECT_TRUE(host::encode_delta(zvc<bf16>{}, two.values, two.base, room));
  EXPECT_EQ(room, frame);
  room.pop_back();
  const outcome o = host::encode_delta(zvc<bf16>{}, two.values, two.base, room);
  EXPECT_EQ(o.code, status::output_too_small);
  EXPECT_EQ(o.bytes, frame.size());
}

TEST(delta, chunk_by_chunk_restores_the_good_chunks) {
  const two_tensors<float> two(1000, .3);
  auto frame = delta_of<zvc<float>>(two, {.chunk_values = 128});
  frame_view view;
  ASSERT_EQ(frame_view::open(frame, view), status::ok);
  chunk_view chunk;
  ASSERT_EQ(view.chunk(3, chunk), status::ok);
  frame[static_cast<size_t>(chunk.payload.data() - frame.data()) + 40] ^= std::byte{1};
  std::vector<float> out(1000, 1.f);
  const outcome o = host::decode_delta(zvc<float>{}, frame, two.base, out, {.chunk_by_chunk = true});
  EXPECT_EQ(o.code, status::bad_checksum);
  EXPECT_EQ(o.first_bad_chunk, 3u);
  auto expected = two.values;
  std::fill(expected.begin() + 3 * 128, expected.begin() + 4 * 128, 0.f);
  EXPECT_TRUE(same_bits(out, expected));
  // Of another base only the chunks that are the same.
  auto other = two.base;
  other[0] += 1;
  EXPECT_EQ(host::decode_delta(zvc<float>{}, delta_of<zvc<float>>(two), other, out, {.chunk_by_chunk = true}).code,
            status::wrong_base);
}

}  // namespace
}  // namespace tuck::test
