#include "support/codecs.hpp"

#include <array>

extern thread_local int allocations_left;  // failing_new.cpp

namespace tuck::test {
namespace {

template <class C> class frame_suite : public ::testing::Test {
 protected:
  static constexpr uint64_t chunk_values = C::chunk_bytes / sizeof(value_t<C>);
};
TYPED_TEST_SUITE(frame_suite, framed_codecs, codec_names);

TYPED_TEST(frame_suite, restores_every_value_of_every_size) {
  constexpr uint64_t chunk = TestFixture::chunk_values;
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{31}, uint64_t{32}, uint64_t{33}, chunk - 1, chunk,
                              chunk + 1, 3 * chunk + 7, uint64_t{brief ? 100'003u : 1'000'013u}})
    for (const double sparsity : {0., .1, .5, .9, .99, 1.})
      for (const pattern how : {pattern::iid, pattern::clustered}) {
        const auto values = sample<TypeParam>::tensor(size, sparsity, how, size);
        const auto frame = encoded(sample<TypeParam>::codec(), values, {}, 2);
        ASSERT_TRUE(same_bits(decoded(TypeParam{}, frame, 2), expected_values<TypeParam>(values, frame)))
            << size << ' ' << sparsity;
      }
}

TYPED_TEST(frame_suite, bytes_do_not_depend_on_threads) {
  const auto values = sample<TypeParam>::tensor(1'000'013, .7, pattern::clustered);
  const frame_options options{.chunk_values = 1024, .checksums = true};
  const auto frame = encoded(sample<TypeParam>::codec(), values, options, 1);
  const auto restored = expected_values<TypeParam>(values, frame);
  for (const unsigned threads : {2u, 3u, 8u}) {
    ASSERT_EQ(encoded(sample<TypeParam>::codec(), values, options, threads), frame);
    ASSERT_TRUE(same_bits(decoded(TypeParam{}, frame, threads), restored));
  }
}

TYPED_TEST(frame_suite, any_range_decodes_alone) {
  constexpr uint64_t chunk = TestFixture::chunk_values;
  const auto values = sample<TypeParam>::tensor(3 * chunk + 7, .5);
  const auto frame = encoded(sample<TypeParam>::codec(), values, {.checksums = true});
  const auto restored = expected_values<TypeParam>(values, frame);
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    const uint64_t first = random() % (values.size() + 1);
    const uint64_t count = random() % (values.size() - first + 1) >> random() % 16;
    std::vector<value_t<TypeParam>> out(count);
    const outcome o = host::decode(TypeParam{}, frame, out, first);
    ASSERT_EQ(o.code, status::ok);
    ASSERT_EQ(o.bytes, count * sizeof(value_t<TypeParam>));
    ASSERT_TRUE(std::equal(out.begin(), out.end(), restored.begin() + static_cast<std::ptrdiff_t>(first),
                           [](auto a, auto b) { return bits_of(a) == bits_of(b); }));
  }
}

TYPED_TEST(frame_suite, ranges_outside_are_refused_and_nothing_is_written) {
  const auto values = sample<TypeParam>::tensor(100, 0);
  const auto frame = encoded(sample<TypeParam>::codec(), values);
  auto out = sparse_tensor<value_t<TypeParam>>(50, 0, pattern::iid, 8);
  const auto before = out;
  for (const uint64_t first : {uint64_t{51}, uint64_t{101}, ~uint64_t{0}})
    EXPECT_EQ(host::decode(TypeParam{}, frame, out, first).code, status::bad_range);
  EXPECT_TRUE(same_bits(out, before));
  EXPECT_EQ(host::decode(TypeParam{}, frame, span<value_t<TypeParam>>(), 100).code, status::ok);
}

TYPED_TEST(frame_suite, constant_and_zero_tensors_all_but_vanish) {
  using T = value_t<TypeParam>;
  const std::vector<T> zeros(1'000'000), ones(1'000'000, __builtin_bit_cast(T, bits_t<T>{1}));
  const uint64_t chunks = ceil_div(uint64_t{1'000'000}, TestFixture::chunk_values);
  EXPECT_LE(encoded(sample<TypeParam>::codec(), zeros).size(), 128 + 8 * chunks + 31);
  EXPECT_LE(encoded(sample<TypeParam>::codec(), ones).size(), 128 + (8 + 32) * chunks + 31);
  EXPECT_TRUE(same_bits(decoded(TypeParam{}, encoded(sample<TypeParam>::codec(), ones)), ones));
}

TYPED_TEST(frame_suite, noise_grows_by_header_and_directory_only) {
  const auto values = sample<TypeParam>::noise(4 * TestFixture::chunk_values);
  const auto frame = encoded(sample<TypeParam>::codec(), values);
  EXPECT_EQ(frame.size(), values.size() * sizeof(values[0]) + 128 + 4 * 8);
  EXPECT_TRUE(same_bits(decoded(TypeParam{}, frame), values));
}

TYPED_TEST(frame_suite, encoded_bytes_is_exact_and_enough) {
  const auto values = sample<TypeParam>::tensor(20000, .8);
  const outcome needed = host::encoded_bytes(sample<TypeParam>::codec(), values);
  ASSERT_EQ(needed.code, status::ok);
  frame_bytes frame(needed.bytes);
  const outcome written = host::encode(sample<TypeParam>::codec(), values, frame);
  ASSERT_EQ(written.code, status::ok);
  EXPECT_EQ(written.bytes, needed.bytes);
  EXPECT_TRUE(same_bits(decoded(TypeParam{}, frame), expected_values<TypeParam>(values, frame)));
}

TYPED_TEST(frame_suite, too_small_an_output_is_refused_and_holds_no_frame) {
  const auto values = sample<TypeParam>::tensor(3 * TestFixture::chunk_values, .5);
  const auto good = encoded(sample<TypeParam>::codec(), values);
  for (const size_t size :
       {good.size() - 1, good.size() / 2, size_t{200}, size_t{128}, size_t{127}, size_t{1}, size_t{0}}) {
    auto room = good;  // a stale frame where the new one does not fit
    room.resize(size);
    room.shrink_to_fit();
    const outcome o = host::encode(sample<TypeParam>::codec(), values, room);
    ASSERT_EQ(o.code, status::output_too_small);
    ASSERT_EQ(o.bytes, good.size());
    frame_header header;
    ASSERT_NE(inspect(room, header), status::ok);
  }
}

TEST(host, frames_may_begin_anywhere) {
  const auto values = sparse_tensor<double>(5000, .5);
  const auto frame = encoded(zvc<double>{}, values, {.checksums = true});
  frame_bytes shifted(frame.size() + 3);
  ASSERT_EQ(host::encode(zvc<double>{}, values, bytes(shifted).subspan(3), {.checksums = true}).code, status::ok);
  EXPECT_EQ(std::memcmp(shifted.data() + 3, frame.data(), frame.size()), 0);
  std::vector<double> out(5000);
  EXPECT_EQ(host::decode(zvc<double>{}, const_bytes(shifted).subspan(3), out).code, status::ok);
  EXPECT_TRUE(same_bits(out, values));
}

TEST(host, chunk_payloads_follow_the_formula) {
  const auto values = sparse_tensor<float>(3 * 4096 + 7, .6);
  const auto frame = encoded(zvc<float>{}, values);
  frame_view view;
  ASSERT_EQ(frame_view::open(frame, view), status::ok);
  ASSERT_EQ(view.chunks(), 4u);
  for (uint64_t i = 0; i < 4; ++i) {
    chunk_view chunk;
    ASSERT_EQ(view.chunk(i, chunk), status::ok);
    const std::vector<float> part(values.begin() + static_cast<std::ptrdiff_t>(i * 4096),
                                  values.begin() + static_cast<std::ptrdiff_t>(i * 4096 + chunk.values));
    ASSERT_EQ(chunk.kind, chunk_kind::encoded);
    EXPECT_EQ(chunk.payload.size(), 4 * ((part.size() + 31) / 32) + 4 * count_non_zeros(part));
  }
}

TEST(host, an_opened_frame_decodes_without_being_opened_again) {
  const auto values = sparse_tensor<float>(5000, .5);
  const auto frame = encoded(zvc<float>{}, values);
  frame_view view;
  ASSERT_EQ(frame_view::open(frame, view), status::ok);
  std::vector<float> out(100);
  ASSERT_EQ(host::decode(zvc<float>{}, view, out, 4200).code, status::ok);
  EXPECT_EQ(std::memcmp(out.data(), values.data() + 4200, 400), 0);
  EXPECT_EQ(host::decode(zvc<float>{}, view, out, 4950).code, status::bad_range);
}

// What the README promises of the worst case.
TEST(host, no_tensor_grows_by_more_than_its_tables_and_64_bytes) {
  for (const uint64_t size : {1u, 2u, 33u, 4097u, 100013u}) {
    const auto noise = sparse_tensor<uint8_t>(size, 0);
    const uint64_t chunks = ceil_div<uint64_t>(size, 16384);
    EXPECT_LT(encoded(zvc<uint8_t>{}, noise).size(), size + 128 + 8 * chunks + 64) << size;
  }
}

TEST(host, metadata_comes_back_verbatim) {
  const std::vector<float> values(100, 1.f);
  for (size_t size = 0; size < 20; ++size) {
    const std::vector<std::byte> metadata(size, std::byte{0xab});
    const auto frame = encoded(zvc<float>{}, values, {.metadata = metadata});
    frame_view view;
    ASSERT_EQ(frame_view::open(frame, view), status::ok);
    ASSERT_EQ(view.metadata().size(), size);
    ASSERT_TRUE(std::equal(metadata.begin(), metadata.end(), view.metadata().begin()));
    ASSERT_TRUE(same_bits(decoded(zvc<float>{}, frame), values));
  }
}

TEST(host, alignments_hold) {
  const auto values = sparse_tensor<uint8_t>(5 * 64 - 3, .5);
  for (uint32_t alignment = 16; alignment <= 4096; alignment *= 2) {
    const auto frame = encoded(zvc<uint8_t>{}, values, {.chunk_values = 64, .alignment = alignment});
    frame_view view;
    ASSERT_EQ(frame_view::open(frame, view), status::ok);
    for (uint64_t i = 0; i < view.chunks(); ++i) {
      chunk_view chunk;
      ASSERT_EQ(view.chunk(i, chunk), status::ok);
      ASSERT_EQ((chunk.payload.data() - frame.data()) % alignment, 0);
    }
    ASSERT_EQ(frame.size() % alignment, 0u);
    ASSERT_TRUE(same_bits(decoded(zvc<uint8_t>{}, frame), values));
  }
}

// A call allocates for a thread, not for a chunk; only a chunk of which a part is wanted is decoded elsewhere.
TEST(host, chunks_need_no_memory_of_their_own) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers allocate arrays by themselves";
#endif
  const auto values = sparse_tensor<float>(40 * 4096, .5);
  frame_bytes frame(max_frame_bytes(zvc_huffman<float>{}, values.size()));
  const auto allocations_of = [](const auto& call) {
    allocations_left = 1000;
    call();
    return 1000 - std::exchange(allocations_left, -1);
  };
  EXPECT_LT(allocations_of([&] { EXPECT_TRUE(host::encode(zvc_huffman<float>{}, values, frame)); }), 10);
  std::vector<float> out(values.size());
  const auto decode = [&](span<float> to, uint64_t first) {
    return allocations_of([&] { EXPECT_TRUE(host::decode(zvc_huffman<float>{}, frame, to, first)); });
  };
  const int whole = decode(out, 0);
  EXPECT_LT(whole, 10);
  EXPECT_EQ(decode(span<float>(out).subspan(1), 1), whole + 1);
  EXPECT_EQ(allocations_left, -1);
}

TEST(host, progress_counts_all_chunks) {
  const auto values = sparse_tensor<float>(100 * 4096 + 1, .5);
  std::atomic<uint64_t> done{0};
  frame_bytes frame(max_frame_bytes(zvc<float>{}, values.size()));
  ASSERT_EQ(host::encode(zvc<float>{}, values, frame, {}, {.chunks_done = &done}).code, status::ok);
  EXPECT_EQ(done, 101u);
  std::vector<float> out(values.size());
  ASSERT_EQ(host::decode(zvc<float>{}, frame, out, 0, {.chunks_done = &done}).code, status::ok);
  EXPECT_EQ(done, 202u);
}

TEST(host, types_known_at_run_time) {
  using codecs = codec_list<zvc<float>, zvc<bf16>, zvc<f16>>;
  const auto values = sparse_tensor<bf16>(5000, .5);
  const auto frame = encoded(zvc<bf16>{}, values);
  std::vector<bf16> out(5000);
  const auto room = as_writable_bytes(span<bf16>(out));
  ASSERT_EQ(host::decode(codecs{}, frame, room).code, status::ok);
  EXPECT_TRUE(same_bits(out, values));
  std::vector<bf16> some(100);
  ASSERT_EQ(host::decode(codecs{}, frame, as_writable_bytes(span<bf16>(some)), 4321).code, status::ok);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), values.begin() + 4321));
  EXPECT_EQ(host::decode(codec_list<zvc<float>>{}, frame, room).code, status::type_mismatch);
  EXPECT_EQ(host::decode(codec_list<>{}, frame, room).code, status::codec_mismatch);
  EXPECT_EQ(host::decode(codecs{}, frame, room.subspan(1)).code, status::invalid_argument);
  EXPECT_EQ(host::decode(codecs{}, frame, room.subspan(1, 2)).code, status::misaligned);
  EXPECT_TRUE(same_bits(out, values));
}

// The choice of the name, the type and the parameters; and bytes that are those of the codec itself.
TEST(host, codecs_chosen_at_run_time) {
  using codecs = codec_list<zvc<untyped<4>>, zvc<f16>, rle<float>, huffman<float>, zvc_huffman<float>, quantize<float>,
                            quantize_delta_huffman<float>>;
  const auto values = sparse_tensor<float>(5000, .5);
  const const_bytes raw = as_bytes(span<const float>(values));
  const auto bound = error_bound::absolute(.01);
  any_codec<codecs> codec;
  frame_bytes room(1 << 16);
  const auto expect_writes = [&](status chosen, const frame_bytes& expected, const frame_options& options = {}) {
    EXPECT_EQ(chosen, status::ok);
    EXPECT_TRUE(codec);
    EXPECT_EQ(codec.type(), dtype::f32);
    const outcome o = host::encode(codec, raw, room, options);
    ASSERT_EQ(o.code, status::ok);
    EXPECT_LE(o.bytes, max_frame_bytes(codec, values.size(), options));
    EXPECT_EQ(frame_bytes(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(o.bytes)), expected);
  };
  expect_writes(codec.choose("zvc", dtype::f32), encoded(zvc<float>{}, values));
  EXPECT_EQ(max_frame_bytes(codec, values.size()), max_frame_bytes(zvc<float>{}, values.size()));
  expect_writes(codec.choose("rle", dtype::f32, bound), encoded(rle<float>{}, values));
  expect_writes(codec.choose("huffman", dtype::f32), encoded(huffman<float>{}, values));
  expect_writes(codec.choose("zvc+huffman", dtype::f32), encoded(zvc_huffman<float>{}, values));
  expect_writes(codec.choose("quantize", dtype::f32, bound), encoded(quantize<float>(bound), values));
  expect_writes(codec.choose("quantize+delta+zvc+huffman", dtype::f32, bound),
                encoded(quantize_delta_huffman<float>(bound), values));
  expect_writes(codec.choose(3, dtype::f32), encoded(huffman<float>{}, values));
  codec = rle<float>{};
  expect_writes(status::ok, encoded(rle<float>{}, values, {.checksums = true}), {.checksums = true});
  codec = {zvc<untyped<4>>{}, dtype::f32};
  expect_writes(status::ok, encoded(zvc<float>{}, values));
  EXPECT_EQ(codec.visit([](const auto& c) { EXPECT_EQ(c.stages(), zvc<float>{}.stages()); }), status::ok);

  EXPECT_EQ(host::encode(codec, raw.subspan(1), room).code, status::invalid_argument);
  EXPECT_EQ(host::encode(codec, raw.subspan(2, 8), room).code, status::misaligned);
  EXPECT_EQ(host::encode(codec, raw, room, {.type = dtype::f16}).code, status::unsupported_type);
  EXPECT_EQ(host::encode(any_codec<codecs>(rle<float>{}, dtype::u32), raw, room).code, status::unsupported_type);
  EXPECT_EQ(host::encode(any_codec<codecs>(zvc<untyped<4>>{}), raw, room).code, status::unsupported_type);
  // A codec that lacks what it is to be constructed with.
  for (const char* const name : {"quantize", "quantize+delta+zvc+huffman"}) {
    for (const status chosen : {codec.choose(name, dtype::f32), codec.choose(name, dtype::f32, 1e-3),
                                codec.choose(name, dtype::f32, bound, 1), codec.choose(name, dtype::f32, "1e-3"),
                                codec.choose(name, dtype::f32, error_bound::absolute(-1))}) {
      EXPECT_EQ(chosen, status::bad_bound) << name;
      EXPECT_FALSE(codec);
    }
  }
  EXPECT_EQ(codec.choose(5, dtype::f32, 1e-3), status::bad_bound);
  EXPECT_EQ(codec.choose("zvc+huffman", dtype::f32, 1e-3), status::ok);
  for (const char* const name : {"", "zv", "zvcx", "zvc+", "+zvc", "zvc+huffman+", "bitpack", "rle-", "unknown"}) {
    EXPECT_EQ(codec.choose(name, dtype::f32), status::unknown_codec) << name;
    EXPECT_FALSE(codec);
    EXPECT_EQ(host::encode(codec, raw, room).code, status::unknown_codec);
    EXPECT_EQ(max_frame_bytes(codec, values.size()), 0u);
    EXPECT_EQ(codec.visit([](const auto&) { FAIL(); }), status::unknown_codec);
  }
  EXPECT_EQ(codec.choose(7, dtype::f32), status::unknown_codec);
  for (const dtype type : {dtype::none, dtype::f64, dtype::bf16, dtype{200}}) {
    EXPECT_EQ(codec.choose("zvc", type), status::unsupported_type) << name(type);
    EXPECT_EQ(codec.choose(0, type), status::unsupported_type) << name(type);
    EXPECT_FALSE(codec);
  }
  EXPECT_EQ(codec.choose("zvc", dtype::f16), status::ok);
  EXPECT_EQ(any_codec<codec_list<>>{}.choose("zvc", dtype::f32), status::unknown_codec);
}

// One codec for all types of a size, which writes what theirs would.
TEST(host, untyped_elements_are_of_any_type_of_their_size) {
  const auto values = sparse_tensor<float>(5000, .5);
  std::vector<untyped<4>> bits(values.size()), restored(values.size());
  std::memcpy(bits.data(), values.data(), 4 * values.size());
  using codec = zvc_huffman<untyped<4>>;
  const auto frame = encoded(zvc_huffman<float>{}, values);
  EXPECT_EQ(encoded(codec{}, bits, {.type = dtype::f32}), frame);
  EXPECT_TRUE(same_bits(decoded(zvc_huffman<float>{}, frame), values));
  EXPECT_EQ(host::decode(codec{}, frame, restored).code, status::ok);
  EXPECT_TRUE(same_bits(restored, bits));
  EXPECT_EQ(
      host::decode(codec_list<zvc<untyped<4>>, codec>{}, frame, as_writable_bytes(span<untyped<4>>(restored))).code,
      status::ok);

  // But it must be told which, and of no other size; and what has a type keeps it.
  frame_bytes room(1 << 20);
  for (const dtype type : {dtype::none, dtype::f16, dtype::f64, dtype{200}})
    EXPECT_EQ(host::encode(codec{}, bits, room, {.type = type}).code, status::unsupported_type);
  EXPECT_EQ(host::encode(zvc<float>{}, values, room, {.type = dtype::u32}).code, status::unsupported_type);
  EXPECT_EQ(host::encode(zvc<float>{}, values, room, {.type = dtype::f32}).code, status::ok);
  std::vector<untyped<2>> halves(values.size());
  EXPECT_EQ(host::decode(zvc_huffman<untyped<2>>{}, frame, halves).code, status::type_mismatch);
  std::vector<uint32_t> words(values.size());
  EXPECT_EQ(host::decode(zvc_huffman<uint32_t>{}, frame, words).code, status::type_mismatch);
}

}  // namespace
}  // namespace tuck::test
