// Deltas on the device: the bytes of the host's, the tensor or nothing of it, under every schedule.
#include "support/codecs.hpp"
#include "support/deltas.hpp"
#include "support/device.hpp"

#include <deque>
#include <optional>

namespace tuck::test {
namespace {

// The program's tests compare its deltas of every type with the host's.
using few_delta_codecs =
    std::conditional_t<threads_alone && !long_tests, ::testing::Types<zvc<uint8_t>, steps<bf16>>,
                       ::testing::Types<zvc<uint8_t>, deflate<float>, zvc_huffman<bf16>, steps<bf16>>>;
using some_delta_codecs =
    std::conditional_t<slow, few_delta_codecs,
                       ::testing::Types<zvc<uint8_t>, zvc<double>, rle<f16>, deflate<float>, bitpack<uint16_t>,
                                        zvc_huffman<bf16>, delta_rle_bitpack<int32_t>, steps<f8e4m3>, steps<bf16>>>;
using delta_codecs =
    std::conditional_t<long_tests && !slow,
                       ::testing::Types<zvc<uint8_t>, zvc<bf16>, zvc<float>, zvc<double>, rle<f16>, deflate<float>,
                                        bitpack<uint16_t>, zvc_huffman<bf16>, delta_rle_bitpack<int32_t>, steps<f8e4m3>,
                                        steps<f16>, steps<bf16>, steps<float>>,
                       some_delta_codecs>;

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
              if (slow && (offset != 0) == chunk_by_chunk) continue;
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
  // The kernel is that of all types of this size.
  using integer = std::make_signed_t<bits_t<V>>;
  const dtype another = dtype_of<V> == dtype_of<integer> ? dtype_of<bits_t<V>> : dtype_of<integer>;
  TestFixture::expect_refused(forged(frame, [=](frame_header& h) { h.type = another; }), two.base,
                              status::type_mismatch);
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
  for (int round = 0; round < (long_run() ? 20'000 : threads_alone && !long_tests ? 10 : brief ? 60 : 300); ++round) {
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

// Decoders get a base that the chunks were not made against, because the frame says that it is the one.
TYPED_TEST(device_deltas, of_another_base_are_decoded_as_by_the_host) {
  using V = typename TestFixture::value;
  const two_tensors<V> two(3000, .1);
  const auto good = delta_of<TypeParam>(two, {.chunk_values = 512});
  std::mt19937_64 random(11);
  for (int round = 0; round < (long_run() ? 5'000 : brief ? 20 : 100); ++round) {
    auto other = two.base;
    for (uint64_t changes = 1 + random() % 2000; changes != 0; --changes)
      other[random() % other.size()] = __builtin_bit_cast(V, static_cast<bits_t<V>>(random()));
    const auto frame = forged(good, [&](frame_header& h) {
      h.base_digest = tensor_digest(as_bytes(span<const V>(other)), uint64_t{h.chunk_values} * sizeof(V));
    });
    auto out = other, of_host = other;
    const outcome o = TestFixture::decode(frame, other, out, true);
    const outcome same = host::decode_delta(TypeParam{}, frame, of_host, of_host);
    ASSERT_EQ(o.code, same.code);
    ASSERT_EQ(o.first_bad_chunk, same.first_bad_chunk);
    ASSERT_TRUE(same_bits(out, of_host));
  }
}

// Weights before and after a step of training: every class and every row of steps.
template <class C> void expect_deltas_of_weights(device_deltas<C>& fixture) {
  using V = value_t<C>;
  using format = float_format<V>;
  for (const double rate : {1e-6, 1e-5, 1e-4, 1e-3}) {
    std::mt19937_64 random(7);
    std::normal_distribution<double> normal;
    two_tensors<V> two(0, 0);
    for (uint32_t i = 0; i < 2 * tile_bytes / sizeof(V) + 77; ++i) {
      const double w = .05 * normal(random);
      two.base.push_back(__builtin_bit_cast(V, format::narrow(static_cast<float>(w))));
      two.values.push_back(__builtin_bit_cast(V, format::narrow(static_cast<float>(w + rate * normal(random)))));
    }
    const auto frame = fixture.encode(two, {});
    ASSERT_EQ(frame, delta_of<C>(two)) << rate;
    auto out = two.base;
    ASSERT_TRUE(fixture.decode(frame, two.base, out, true));
    ASSERT_TRUE(same_bits(out, two.values));
  }
}
TYPED_TEST(device_deltas, of_weights) {
  if constexpr (uses_base<TypeParam>) expect_deltas_of_weights<TypeParam>(*this);
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

// Tensors with their bases on the device, and rooms for their deltas.
template <codec C> struct delta_batch {
  using T = value_t<C>;

  device_stream stream;
  std::vector<two_tensors<T>> tensors;
  frame_options options;
  batch_sizes sizes;
  std::deque<device_array<T>> values, bases, others;
  std::deque<device_array<std::byte>> frames;
  std::vector<encode_delta_item<T>> from;
  std::vector<decode_delta_item<T>> in_place, aside;
  device_array<outcome> outcomes;
  std::optional<device_array<std::byte>> scratch;

  delta_batch(const std::vector<uint64_t>& counts, const frame_options& how) : options(how), outcomes(counts.size()) {
    for (const uint64_t count : counts) {
      tensors.emplace_back(count, .03, count + 1);
      sizes.values += count;
      const auto& two = tensors.back();
      values.emplace_back(two.values, stream);
      bases.emplace_back(two.base, stream);
      others.emplace_back(std::vector<T>(count, __builtin_bit_cast(T, bits_t<T>{7})), stream);
      frames.emplace_back(max_delta_bytes(C{}, count, options));
      from.push_back({{values.back().all(), frames.back().all()}, bases.back().all()});
      in_place.push_back({{frames.back().all(), bases.back().all()}, bases.back().all()});
      aside.push_back({{frames.back().all(), others.back().all()}, bases.back().all()});
    }
    sizes.items = counts.size();
    scratch.emplace(scratch_bytes(C{}, sizes, options));
    EXPECT_EQ(initialize(scratch->scratch(), stream).code, status::ok);
  }
  std::vector<outcome> encode(const launch_options& how = {}) {
    const device_array<encode_delta_item<T>> table(from, stream);
    EXPECT_TRUE(encode_delta_batch(C{}, table.all(), sizes, scratch->scratch(), outcomes.all(), stream, options, how));
    return outcomes.download(stream);
  }
  std::vector<outcome> decode(const std::vector<decode_delta_item<T>>& to, const delta_options& passes = {},
                              const launch_options& how = {}) {
    const device_array<decode_delta_item<T>> table(to, stream);
    EXPECT_TRUE(decode_delta_batch(C{}, table.all(), sizes, scratch->scratch(), outcomes.all(), stream, passes, how));
    return outcomes.download(stream);
  }
  void expect_deltas(const std::vector<outcome>& written) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      ASSERT_EQ(written[i].code, status::ok) << i;
      ASSERT_EQ(frames[i].download(written[i].bytes, stream), delta_of<C>(tensors[i], options)) << i;
    }
  }
};

using batched_codecs = std::conditional_t<threads_alone && !long_tests, ::testing::Types<zvc<bf16>, steps<bf16>>,
                                          ::testing::Types<zvc<bf16>, zvc_huffman<float>, steps<bf16>>>;
template <class C> class device_delta_batches : public ::testing::Test {};
TYPED_TEST_SUITE(device_delta_batches, batched_codecs, codec_names);

TYPED_TEST(device_delta_batches, are_what_single_calls_make_of_them_under_every_schedule) {
  for_schedules(4, [] {
    for (const unsigned max_blocks : {0u, 3u}) {
      delta_batch<TypeParam> batch({3 * 256 + 7, 0, 1, 256, 31, 4097, 0, 10'000}, {.chunk_values = 256});
      ASSERT_NO_FATAL_FAILURE(batch.expect_deltas(batch.encode({.max_blocks = max_blocks})));
      for (const bool chunk_by_chunk : {true, false}) {
        const auto done = batch.decode(batch.aside, {chunk_by_chunk}, {.max_blocks = max_blocks});
        for (size_t i = 0; i < done.size(); ++i) {
          ASSERT_TRUE(done[i]) << i << message(done[i].code);
          ASSERT_TRUE(same_bits(batch.others[i].download(batch.stream), batch.tensors[i].values)) << i;
        }
      }
      for (const outcome& o : batch.decode(batch.in_place)) ASSERT_EQ(o.code, status::ok);
      const auto again = batch.decode(batch.in_place);
      for (size_t i = 0; i < again.size(); ++i) {
        const bool same = same_bits(batch.tensors[i].base, batch.tensors[i].values);
        ASSERT_EQ(again[i].code, same ? status::ok : status::wrong_base) << i;
        ASSERT_TRUE(same_bits(batch.bases[i].download(batch.stream), batch.tensors[i].values)) << i;
      }
    }
  });
}

TYPED_TEST(device_delta_batches, what_is_wrong_with_one_harms_no_other) {
  using T = value_t<TypeParam>;
  for_schedules(4, [] {
    delta_batch<TypeParam> batch({3000, 500, 4000, 700, 2000, 900, 600, 800}, {.chunk_values = 256});
    auto small = batch.from;
    batch.from[1].frame = batch.from[1].frame.subspan(0, 140);
    batch.from[3].base = batch.from[3].base.subspan(0, 699);
    batch.from[5].base = {nullptr, 900};
    const auto written = batch.encode();
    const status why[] = {status::ok, status::output_too_small, status::ok, status::wrong_base,
                          status::ok, status::invalid_argument, status::ok, status::ok};
    for (size_t i = 0; i < 8; ++i) ASSERT_EQ(written[i].code, why[i]) << i;
    batch.from = small;
    ASSERT_NO_FATAL_FAILURE(batch.expect_deltas(batch.encode()));
    // A wrong base, a damaged payload, a damaged directory, no delta, a wrong size and no base.
    std::vector<frame_bytes> frames;
    for (const auto& two : batch.tensors) frames.push_back(delta_of<TypeParam>(two, batch.options));
    auto base = batch.tensors[0].base;
    base[1] = __builtin_bit_cast(T, static_cast<bits_t<T>>(bits_of(base[1]) ^ 1));
    batch.bases[0].upload(base, batch.stream);
    batch.tensors[0].base = base;
    frames[2][layout_of(header_of(frames[2])).payloads + 2] ^= std::byte{4};
    frames[3][140] ^= std::byte{1};
    frames[4] = encoded(TypeParam{}, batch.tensors[4].values, {.chunk_values = 256, .checksums = true});
    for (const size_t i : {2u, 3u, 4u}) {
      frames[i].resize(std::min(frames[i].size(), batch.frames[i].all().size()));
      batch.frames[i].upload(frames[i], batch.stream);
    }
    batch.in_place[5].base = batch.in_place[5].base.subspan(0, 899);
    batch.in_place[6].base = {nullptr, 600};
    const auto done = batch.decode(batch.in_place);
    for (size_t i = 0; i < 8; ++i) {
      const bool sound = i == 1 || i == 7;
      ASSERT_EQ(bool(done[i]), sound) << i;
      ASSERT_EQ(done[i].bytes, sound ? batch.tensors[i].base.size() * sizeof(T) : 0) << i;
      ASSERT_TRUE(
          same_bits(batch.bases[i].download(batch.stream), sound ? batch.tensors[i].values : batch.tensors[i].base))
          << i;
    }
    ASSERT_EQ(done[0].code, status::wrong_base);
    ASSERT_EQ(done[3].code, status::bad_directory);
    ASSERT_EQ(done[4].code, status::not_a_delta);
    ASSERT_EQ(done[5].code, status::wrong_base);
    ASSERT_EQ(done[6].code, status::invalid_argument);
  });
}

TEST(device_delta_batch, a_thousand_tensors_are_one_launch_and_two_back) {
  std::vector<uint64_t> counts(slow ? 100 : 1000);
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = i % 7 == 0 ? 0 : i * 37 % (brief ? 300 : 9000);
  delta_batch<zvc_huffman<bf16>> batch(counts, {});
#if defined(TUCK_CUDASIM)
  cudasim::clear_counters();
#endif
  ASSERT_NO_FATAL_FAILURE(batch.expect_deltas(batch.encode()));
#if defined(TUCK_CUDASIM)
  EXPECT_EQ(cudasim::snapshot().launches, 1u);
  cudasim::clear_counters();
#endif
  for (const outcome& o : batch.decode(batch.in_place)) ASSERT_EQ(o.code, status::ok);
#if defined(TUCK_CUDASIM)
  EXPECT_EQ(cudasim::snapshot().launches, 2u);
#endif
  for (size_t i = 0; i < counts.size(); ++i)
    ASSERT_TRUE(same_bits(batch.bases[i].download(batch.stream), batch.tensors[i].values)) << i;
}

TEST(device_delta_batch, takes_no_lossy_codec) {
  device_queue queue;
  const quantize<float> lossy(error_bound::absolute(1));
  EXPECT_EQ(encode_delta_batch(lossy, {}, {}, queue.scratch(), {}, queue.stream).code, status::lossy_delta);
  EXPECT_EQ(decode_delta_batch(lossy, {}, {}, queue.scratch(), {}, queue.stream).code, status::lossy_delta);
}

TEST(device_delta, takes_a_codec_that_was_chosen_at_run_time) {
  using C = zvc_huffman<bf16>;
  const two_tensors<bf16> two(5000, .02);
  const auto expected = delta_of<C>(two, {});
  device_queue queue;
  const device_array<bf16> values(two.values, queue.stream), base(two.base, queue.stream);
  const const_bytes raw = as_bytes(span<const bf16>(values.all())), of_base = as_bytes(span<const bf16>(base.all()));
  const device_array<std::byte> frame(max_delta_bytes(C{}, 5000));
  any_codec<codec_list<C>> codec;
  const auto start = [&](const_bytes v, const_bytes b) {
    return encode_delta(codec, v, b, frame.all(), queue.scratch(), queue.written(), queue.stream);
  };
  EXPECT_EQ(start(raw, of_base).code, status::unknown_codec);
  codec = C{};
  EXPECT_EQ(start(raw, of_base.subspan(2)).code, status::wrong_base);
  EXPECT_EQ(start(raw.subspan(1), of_base).code, status::invalid_argument);
  const outcome o = queue.finish(start(raw, of_base));
  EXPECT_EQ(frame.download(o.bytes, queue.stream), expected);

  const device_array<encode_delta_item<bf16>> items(
      std::vector<encode_delta_item<bf16>>{{{values.all(), frame.all()}, base.all()}}, queue.stream);
  const batch_sizes sizes{1, 5000};
  const device_array<std::byte> scratch(scratch_bytes(codec, sizes));
  ASSERT_EQ(initialize(scratch.scratch(), queue.stream).code, status::ok);
  const device_array<outcome> outcomes(1);
  EXPECT_EQ(encode_delta_batch(codec, span<const encode_delta_item<bf16>>(items.all()), sizes, scratch.scratch(),
                               outcomes.all(), queue.stream)
                .code,
            status::ok);
  EXPECT_EQ(outcomes.download(queue.stream)[0].bytes, expected.size());
  EXPECT_EQ(frame.download(expected.size(), queue.stream), expected);
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
