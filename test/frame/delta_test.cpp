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
TYPED_TEST_SUITE(delta_frames, framed_codecs, codec_names);

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

// Also with another base. A frame may even say that it is the one: then the values must be that base with the changes.
TYPED_TEST(delta_frames, damaged_change_nothing) {
  using T = value_t<TypeParam>;
  if (is_lossy<TypeParam>) return;
  const two_tensors<T> two(700, .1);
  const auto good = delta_of<TypeParam>(two, {.chunk_values = 64});
  std::mt19937_64 random(9);
  int refused = 0, harmless = 0;
  for (int round = 0; round < (long_run() ? 1'000'000 : brief ? 2000 : 20'000); ++round) {
    auto frame = good;
    if (random() % 4 == 0) {  // a piece from elsewhere
      const uint64_t size = 1 + random() % 64, room = frame.size() - size;
      std::memmove(frame.data() + random() % room, good.data() + random() % room, size);
    }
    for (uint64_t changes = random() % 4; changes != 0; --changes)
      frame[random() % frame.size()] ^= static_cast<std::byte>(1 << random() % 8);
    if (random() % 4 == 0) frame.resize(random() % frame.size());
    auto base = two.base;
    if (random() % 4 == 0)
      for (uint64_t changes = 1 + random() % 4; changes != 0; --changes)
        base[random() % base.size()] = __builtin_bit_cast(T, static_cast<bits_t<T>>(random()));
    const bool forge = random() % 2 == 0 && frame.size() >= sizeof(frame_header);
    if (forge) {
      frame_header h = header_of(frame);
      h.base_digest = tensor_digest(as_bytes(span<const T>(base)), uint64_t{header_of(good).chunk_values} * sizeof(T));
      store_unaligned(frame.data(), h);
    }
    if (forge || random() % 2 == 0) reseal(frame);
    auto out = base;
    if (const outcome o = TestFixture::apply(frame, out); !o) {
      ++refused;
      ASSERT_TRUE(same_bits(out, base)) << message(o.code);
    } else {
      ++harmless;
      ASSERT_TRUE(forge || same_bits(base, two.base));
      for (size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(bits_of(out[i]) ^ bits_of(base[i]), bits_of(two.values[i]) ^ bits_of(two.base[i])) << i;
    }
  }
  EXPECT_GT(refused, harmless);
}

// Several steps in a row, of few changes each.
template <element T> std::vector<std::vector<T>> steps_of(uint64_t count, int steps) {
  const two_tensors<T> first(count, .02);
  std::vector<std::vector<T>> tensors{first.base, first.values};
  std::mt19937_64 random(4);
  for (int i = 2; i <= steps; ++i) {
    tensors.push_back(tensors.back());
    for (T& v : tensors.back())
      if (random() % 64 == 0) v = __builtin_bit_cast(T, static_cast<bits_t<T>>(bits_of(v) ^ (1 + random() % 60)));
  }
  return tensors;
}
template <codec C>
frame_bytes delta_between(const std::vector<value_t<C>>& base, const std::vector<value_t<C>>& values,
                          const frame_options& options = {}) {
  two_tensors<value_t<C>> two(0, 0);
  two.base = base, two.values = values;
  return delta_of<C>(two, options);
}
template <codec C>
outcome compact(const std::vector<frame_bytes>& deltas, const std::vector<value_t<C>>& base, frame_bytes& to,
                uint64_t* which = nullptr, const frame_options& options = {}, unsigned threads = 1) {
  const std::vector<const_bytes> frames(deltas.begin(), deltas.end());
  std::vector<value_t<C>> room(base.size());
  return host::compact_deltas(C{}, frames, base, room, to, options, {.threads = threads}, which);
}

TYPED_TEST(delta_frames, of_several_steps_become_one) {
  using C = TypeParam;
  using T = value_t<C>;
  if (is_lossy<C>) return;
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{5003}}) {
    const auto tensors = steps_of<T>(size, 3);
    const frame_options options{.chunk_values = 256, .alignment = 16};
    std::vector<frame_bytes> deltas;
    for (size_t i = 1; i < tensors.size(); ++i) deltas.push_back(delta_between<C>(tensors[i - 1], tensors[i], options));
    for (const unsigned threads : {1u, 3u}) {
      frame_bytes all(max_delta_bytes(C{}, size, options));
      const outcome o = compact<C>(deltas, tensors.front(), all, nullptr, {.alignment = 16}, threads);
      ASSERT_EQ(o.code, status::ok) << message(o.code);
      all.resize(o.bytes);
      ASSERT_EQ(all, delta_between<C>(tensors.front(), tensors.back(), options)) << size;
      auto base = tensors.front();
      ASSERT_TRUE(TestFixture::apply(all, base));
      ASSERT_TRUE(same_bits(base, tensors.back()));
    }
  }
}

TEST(delta, compaction_names_what_does_not_follow) {
  using C = zvc<bf16>;
  const auto tensors = steps_of<bf16>(3000, 3);
  std::vector<frame_bytes> deltas;
  for (size_t i = 1; i < tensors.size(); ++i) deltas.push_back(delta_between<C>(tensors[i - 1], tensors[i]));
  const auto expect_from = [&](const std::vector<bf16>& base, std::vector<frame_bytes> of, status why, uint64_t where) {
    frame_bytes all(1 << 16, std::byte{0x54});
    uint64_t which = 99;
    const outcome o = compact<C>(of, base, all, &which);
    EXPECT_EQ(o.code, why) << message(o.code);
    EXPECT_EQ(which, where);
    EXPECT_EQ(o.bytes, 0u);
    frame_header header;
    EXPECT_EQ(inspect(all, header), status::bad_magic);
  };
  const auto expect = [&](std::vector<frame_bytes> of, status why, uint64_t where) {
    expect_from(tensors.front(), std::move(of), why, where);
  };
  expect({deltas[0], deltas[2]}, status::not_consecutive, 1);
  expect({deltas[0], deltas[1], deltas[1]}, status::not_consecutive, 2);
  expect_from(tensors[1], {deltas[1], deltas[0]}, status::not_consecutive, 1);
  expect({deltas[0], delta_between<C>(tensors[1], tensors[2], {.chunk_values = 64})}, status::not_consecutive, 1);
  const auto other = steps_of<bf16>(2999, 1);
  expect({deltas[0], delta_between<C>(other[0], other[1])}, status::not_consecutive, 1);
  expect({deltas[0], delta_between<rle<bf16>>(tensors[1], tensors[2])}, status::codec_mismatch, 1);
  expect({deltas[0], forged(deltas[1], [](frame_header& h) { h.type = dtype::f16; })}, status::type_mismatch, 1);
  expect({encoded(C{}, tensors[0], {.checksums = true}), deltas[0]}, status::not_a_delta, 0);
  expect_from({tensors[0].begin(), tensors[0].end() - 1}, {deltas[0]}, status::bad_range, 0);
  expect_from(tensors[1], {deltas[0]}, status::wrong_base, 0);
  auto bad = deltas;
  bad[1].resize(bad[1].size() - 1);
  expect(bad, status::truncated, 1);
  bad = deltas;
  frame_view view;
  ASSERT_EQ(frame_view::open(bad[2], view), status::ok);
  bad[2][view.layout().payloads + 300] ^= std::byte{1};
  frame_bytes all(1 << 16);
  uint64_t which = 0;
  EXPECT_FALSE(compact<C>(bad, tensors.front(), all, &which));
  EXPECT_EQ(which, 2u);
  EXPECT_EQ(compact<C>({}, tensors.front(), all).code, status::invalid_argument);
  frame_bytes small(200);
  const outcome o = compact<C>(deltas, tensors.front(), small);
  EXPECT_EQ(o.code, status::output_too_small);
  EXPECT_EQ(o.bytes, delta_between<C>(tensors.front(), tensors.back()).size());
}

// Changes that sums of values and of values times their places do not see.
TEST(delta, of_changes_that_cancel_is_not_applied_twice) {
  for (const int step : {1, 2, 5, 4096})
    for (const bool eight : {false, true}) {
      std::vector<float> base(40'000, 1.f);
      auto values = base;
      for (int i = 0; i < (eight ? 8 : 4); ++i) {
        const bool up = std::popcount(static_cast<unsigned>(i)) % 2 == 0;
        float& x = values[static_cast<size_t>(100 + step * i)];
        x = __builtin_bit_cast(float, bits_of(x) + (up ? 1 : -1));
      }
      const auto frame = delta_between<zvc_huffman<float>>(base, values);
      ASSERT_TRUE(host::decode_delta(zvc_huffman<float>{}, frame, base, base));
      EXPECT_TRUE(same_bits(base, values));
      EXPECT_EQ(host::decode_delta(zvc_huffman<float>{}, frame, base, base).code, status::wrong_base);
      EXPECT_TRUE(same_bits(base, values));
    }
}

TEST(delta, takes_a_codec_that_was_chosen_at_run_time) {
  using C = zvc_huffman<float>;
  const two_tensors<float> two(5000, .02);
  const const_bytes values = as_bytes(span<const float>(two.values)), base = as_bytes(span<const float>(two.base));
  frame_bytes expected(max_delta_bytes(C{}, 5000)), seen(expected.size());
  const outcome o = host::encode_delta(C{}, two.values, two.base, expected);
  any_codec<codec_list<zvc<double>, C, quantize<float>>> codec;
  EXPECT_EQ(host::encode_delta(codec, values, base, seen).code, status::unknown_codec);
  codec = quantize<float>(error_bound::absolute(1));
  EXPECT_EQ(host::encode_delta(codec, values, base, seen).code, status::lossy_delta);
  codec = C{};
  EXPECT_EQ(host::encode_delta(codec, values, base.subspan(4), seen).code, status::wrong_base);
  EXPECT_EQ(host::encode_delta(codec, values, base.subspan(2), seen).code, status::invalid_argument);
  EXPECT_EQ(host::encode_delta(codec, values, base.subspan(2, 8), seen).code, status::misaligned);
  EXPECT_EQ(host::encode_delta(codec, values, base, seen).bytes, o.bytes);
  EXPECT_EQ(seen, expected);

  const encode_delta_item<float> item{{two.values, seen}, two.base};
  outcome of_item;
  seen.assign(seen.size(), {});
  EXPECT_EQ(host::encode_delta_batch(codec, span<const encode_delta_item<float>>(&item, 1), {&of_item, 1}).code,
            status::ok);
  EXPECT_EQ(of_item.bytes, o.bytes);
  EXPECT_EQ(seen, expected);
  codec = zvc<double>{};
  EXPECT_EQ(host::encode_delta_batch(codec, span<const encode_delta_item<float>>(&item, 1), {&of_item, 1}).code,
            status::type_mismatch);
}

TEST(delta, batches_are_what_single_calls_make_of_them) {
  using C = zvc_huffman<float>;
  std::vector<two_tensors<float>> tensors;
  std::vector<frame_bytes> rooms;
  for (const uint64_t count : {0, 2, 25'000, 1, 75, 1'200'000, 4096, 0, 16'386, 6}) {
    tensors.emplace_back(count, .03, count + 1);
    rooms.emplace_back(max_delta_bytes(C{}, count));
  }
  for (const unsigned threads : {1u, 3u}) {
    std::vector<encode_delta_item<float>> from;
    for (size_t i = 0; i < tensors.size(); ++i) from.push_back({{tensors[i].values, rooms[i]}, tensors[i].base});
    from[3].frame = from[3].frame.subspan(0, 100);
    from[4].base = from[4].base.subspan(1);
    std::vector<outcome> written(tensors.size()), back(tensors.size());
    ASSERT_TRUE(host::encode_delta_batch(C{}, from, written, {}, {.threads = threads}));
    std::vector<std::vector<float>> restored;
    std::vector<decode_delta_item<float>> to;
    for (const auto& two : tensors) restored.push_back(two.base);
    restored[2][7] += 1;  // a wrong base
    for (size_t i = 0; i < tensors.size(); ++i) to.push_back({{rooms[i], restored[i]}, restored[i]});
    const auto before = restored;
    ASSERT_TRUE(host::decode_delta_batch(C{}, to, back, {}, {.threads = threads}));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const bool none = i == 3 || i == 4;
      ASSERT_EQ(written[i].code, i == 3 ? status::output_too_small : i == 4 ? status::wrong_base : status::ok) << i;
      if (!none) {
        const frame_bytes expected = delta_of<C>(tensors[i]);
        ASSERT_EQ(written[i].bytes, expected.size()) << i;
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), rooms[i].begin())) << i;
      }
      ASSERT_EQ(bool(back[i]), !none && i != 2) << i;
      ASSERT_TRUE(same_bits(restored[i], back[i] ? tensors[i].values : before[i])) << i;
    }
    ASSERT_EQ(back[2].code, status::wrong_base);
  }
  std::vector<outcome> few(1);
  const std::vector<encode_delta_item<float>> two(2);
  EXPECT_EQ(host::encode_delta_batch(C{}, two, few).code, status::output_too_small);
  EXPECT_EQ(host::decode_delta_batch(C{}, std::vector<decode_delta_item<float>>(2), few).code,
            status::output_too_small);
}

// Items by their values, base and frame.
class DeltaBatch : public ::testing::Test {
 protected:
  using C = zvc_huffman<float>;
  using item = decode_delta_item<float>;

  DeltaBatch() : frame(delta_of<C>(two)), same_frame(frame), other_frame(delta_of<C>(other)) {}

  // Nothing is written.
  void expect_overlapping(std::vector<item> items) {
    const auto before = w, before_v = v;
    for (const bool chunk_by_chunk : {false, true}) {
      EXPECT_EQ(run(items, {chunk_by_chunk}).code, status::overlapping);
      std::reverse(items.begin(), items.end());
    }
    EXPECT_TRUE(same_bits(w, before) && same_bits(v, before_v));
  }
  result run(const std::vector<item>& items, const delta_options& options = {}) {
    outcomes.assign(items.size(), {});
    return host::decode_delta_batch(C{}, items, outcomes, options, {.threads = 2});
  }
  std::vector<status> codes() const {
    std::vector<status> all;
    for (const outcome& o : outcomes) all.push_back(o.code);
    return all;
  }

  two_tensors<float> two{5000, .03, 1}, other{5000, .03, 2};
  std::vector<float> w = two.base, v = other.base;
  frame_bytes frame, same_frame, other_frame;
  std::vector<outcome> outcomes;
};

TEST_F(DeltaBatch, the_same_values_are_written_once) {
  for (const bool chunk_by_chunk : {false, true}) {
    w = two.base;
    v = other.base;
    ASSERT_TRUE(run({{{frame, w}, w}, {{other_frame, v}, v}, {{same_frame, w}, w}}, {chunk_by_chunk}));
    EXPECT_EQ(codes(), std::vector<status>(3, status::ok));
    EXPECT_TRUE(same_bits(w, two.values) && same_bits(v, other.values));
  }
  // Not in place, also from two bases, and items that share only what they read.
  std::vector<float> out(5000), more(5000);
  const auto base = two.base;
  ASSERT_TRUE(run({{{frame, out}, two.base}, {{frame, out}, base}, {{frame, more}, two.base}}));
  EXPECT_EQ(codes(), std::vector<status>(3, status::ok));
  EXPECT_TRUE(same_bits(out, two.values) && same_bits(more, two.values));
}

TEST_F(DeltaBatch, memory_of_other_items_is_not_written) {
  const span<float> all(w), first = all.subspan(0, 4000), last = all.subspan(1000);
  expect_overlapping({{{frame, w}, w}, {{other_frame, w}, w}});  // two deltas of one tensor
  expect_overlapping({{{frame, w}, w}, {{other_frame, v}, v}, {{frame, first}, first}});
  expect_overlapping({{{frame, first}, first}, {{frame, last}, last}});
  expect_overlapping({{{frame, w}, w}, {{frame, v}, w}});  // one reads what the other writes
  expect_overlapping({{{frame, v}, two.base}, {{other_frame, other.values}, last}, {{frame, w}, two.base}});
  const span<const std::byte> in_values = tuck::as_bytes(span<const float>(v)).subspan(64, 600);
  expect_overlapping({{{frame, w}, w}, {{other_frame, v}, v}, {{in_values, other.values}, other.base}});
}

TEST_F(DeltaBatch, everything_is_verified_before_anything_is_written) {
  w[7] += 1;
  const auto before = w;
  const std::vector<item> items{{{other_frame, v}, v}, {{frame, w}, w}, {{same_frame, w}, w}};
  const std::vector<status> expected{status::ok, status::wrong_base, status::wrong_base};
  ASSERT_TRUE(run(items, {.passes = delta_passes::verify}));
  EXPECT_EQ(codes(), expected);
  EXPECT_TRUE(same_bits(v, other.base) && same_bits(w, before));
  const auto seen = outcomes;
  ASSERT_TRUE(host::decode_delta_batch(C{}, items, outcomes, {.passes = delta_passes::write}));
  EXPECT_EQ(codes(), expected);
  EXPECT_EQ(outcomes[0].bytes, seen[0].bytes);
  EXPECT_TRUE(same_bits(v, other.values) && same_bits(w, before));
  EXPECT_EQ(run(items, {.chunk_by_chunk = true, .passes = delta_passes::verify}).code, status::invalid_argument);
}

// It fails for all who have its values, and for nobody else.
TEST_F(DeltaBatch, one_of_several_deltas_of_the_same_values_is_damaged) {
  for (const size_t at : {size_t{20}, size_t{130}, frame.size() / 2})  // in header, directory, payload
    for (const bool chunk_by_chunk : {false, true})
      for (const bool is_last : {false, true}) {
        auto damaged = frame;
        damaged[at] ^= std::byte{1};
        w = two.base;
        v = other.base;
        const auto &first = is_last ? frame : damaged, &last = is_last ? damaged : frame;
        ASSERT_TRUE(run({{{first, w}, w}, {{other_frame, v}, v}, {{last, w}, w}}, {chunk_by_chunk})) << at;
        EXPECT_FALSE(outcomes[0] || outcomes[2]);
        EXPECT_EQ(outcomes[0].code, outcomes[2].code);
        EXPECT_TRUE(outcomes[1] && same_bits(v, other.values));
        if (!chunk_by_chunk || is_last || at < 200) {
          EXPECT_TRUE(same_bits(w, two.base));
        }
      }
  // Or it has another base.
  auto wrong = two.base;
  wrong[7] += 1;
  w = two.base;
  ASSERT_TRUE(run({{{frame, w}, w}, {{same_frame, w}, wrong}}, {.chunk_by_chunk = true}));
  EXPECT_EQ(codes(), std::vector<status>(2, status::wrong_base));
  EXPECT_TRUE(same_bits(w, two.base));
}

template <codec C> void expect_large_chunks() {
  using T = value_t<C>;
  constexpr uint32_t most = max_chunk_values(C{}.stages(), sizeof(T));
  static_assert(most == (sizeof(T) < 2 ? 65536 : 131072 / sizeof(T)));
  for (const double changed : {0., .001, .02, .25, 1.}) {
    const two_tensors<T> two(2 * most + 77, changed);
    const auto frame = delta_of<C>(two, {.chunk_values = most});
    auto out = two.base;
    ASSERT_TRUE(host::decode_delta(C{}, frame, out, out));
    ASSERT_TRUE(same_bits(out, two.values)) << changed;
    // No chunk is longer, nor that long with another codec.
    frame_header h = header_of(frame);
    EXPECT_EQ(check_header(h, digest_of(h)), status::ok);
    h.chunk_values += 32;
    EXPECT_EQ(check_header(h, h.header_digest = digest_of(h)), status::bad_header);
    h.chunk_values = 65536 / sizeof(T) + 32;
    h.stages = zvc<T>{}.stages();
    EXPECT_EQ(check_header(h, h.header_digest = digest_of(h)), status::bad_header);
  }
  EXPECT_EQ(max_delta_bytes(C{}, 1, {.chunk_values = most + 32}), 0u);
  EXPECT_EQ(max_delta_bytes(zvc<T>{}, 1, {.chunk_values = 65536 / sizeof(T) + 32}), 0u);
}

TEST(delta, of_steps_may_have_larger_chunks) {
  expect_large_chunks<steps<f8e4m3>>();
  expect_large_chunks<steps<bf16>>();
  expect_large_chunks<steps<float>>();
}

TEST(delta, is_what_the_header_says) {
  const two_tensors<bf16> two(5000, .02);
  const auto frame = delta_of<zvc<bf16>>(two);
  frame_header header;
  ASSERT_EQ(inspect(frame, header), status::ok);
  EXPECT_TRUE((header.flags & flag_delta) != 0 && (header.flags & flag_checksums) != 0);
  EXPECT_EQ(header.base_digest, tensor_digest(as_bytes(span<const bf16>(two.base)), header.chunk_values * 2));
  EXPECT_LT(frame.size(), 1500u);
  frame_view view;
  ASSERT_EQ(frame_view::open(frame, view), status::ok);
  EXPECT_EQ(view.result_digest(), tensor_digest(as_bytes(span<const bf16>(two.values)), header.chunk_values * 2));
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
