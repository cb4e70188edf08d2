// Frames that nobody vouches for: damaged, cut, forged.
#include "support/codecs.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace tuck::test {
namespace {

template <class C> class corruption : public ::testing::Test {
 protected:
  using T = value_t<C>;
  static constexpr uint32_t chunk_values = 64;

  struct victim {
    std::vector<T> values;  // as decoding must restore them
    frame_bytes frame;
  };

  // Chunks of every kind: encoded, uniform, zero, raw, and a short last one.
  static victim mixed(bool checksums) {
    auto values = sample<C>::tensor(5 * chunk_values - 3, .7);
    std::fill_n(values.begin() + 64, 64, filler());
    std::fill_n(values.begin() + 128, 64, T{});
    const auto incompressible = sample<C>::noise(64);
    std::copy(incompressible.begin(), incompressible.end(), values.begin() + 192);
    const auto metadata = std::vector<std::byte>(11, std::byte{'x'});
    const auto frame = encoded(sample<C>::codec(), values,
                               {.chunk_values = chunk_values, .checksums = checksums, .metadata = metadata});
    EXPECT_EQ(kinds_of(frame), (std::vector{chunk_kind::encoded, chunk_kind::uniform, chunk_kind::uniform,
                                            chunk_kind::raw, chunk_kind::encoded}));
    return {expected_values<C>(values, frame), frame};
  }

  static T filler() { return __builtin_bit_cast(T, static_cast<bits_t<T>>(0x4a5b4a5b4a5b4a5bu)); }

  // Decodes into exactly as much room as there is.
  static outcome decode_into(const frame_bytes& frame, std::vector<T>& out, uint64_t count) {
    out.assign(count, filler());
    return host::decode(C{}, frame, out, 0, {.threads = 1});
  }
  static status decode_untrusted(const frame_bytes& frame, uint64_t count) {
    static std::vector<T> out;
    return decode_into(frame, out, count).code;
  }
};
TYPED_TEST_SUITE(corruption, corrupted_codecs, codec_names);

TYPED_TEST(corruption, every_changed_byte_of_header_or_directory_is_refused) {
  using enum status;
  for (const bool checksums : {false, true}) {
    auto s = TestFixture::mixed(checksums);
    const frame_layout at = layout_of(header_of(s.frame));
    for (uint64_t i = 0; i < at.contents_end; ++i)
      for (int change = 1; change < 256; ++change) {
        s.frame[i] ^= static_cast<std::byte>(change);
        const status answer = TestFixture::decode_untrusted(s.frame, s.values.size());
        if (i < 4)
          ASSERT_EQ(answer, bad_magic) << i;
        else if (i < 6)
          ASSERT_EQ(answer, bad_version) << i;
        else if (i < sizeof(frame_header))
          ASSERT_EQ(answer, bad_header) << i;
        else
          ASSERT_EQ(answer, bad_directory) << i;
        s.frame[i] ^= static_cast<std::byte>(change);
      }
  }
}

TYPED_TEST(corruption, every_changed_byte_of_a_payload_is_refused_with_checksums) {
  auto s = TestFixture::mixed(true);
  std::vector<value_t<TypeParam>> out;
  int changes = 0, harmless = 0;  // bits of padding
  frame_view view;
  ASSERT_EQ(frame_view::open(s.frame, view), status::ok);
  for (uint64_t c = 0; c < view.chunks(); ++c) {
    chunk_view chunk;
    ASSERT_EQ(view.chunk(c, chunk), status::ok);
    const auto begin = static_cast<size_t>(chunk.payload.data() - s.frame.data());
    for (size_t i = begin; i < begin + chunk.payload.size(); ++i)
      for (const int change : {1, 2, 16, 128, 255}) {
        s.frame[i] ^= static_cast<std::byte>(change);
        const outcome o = TestFixture::decode_into(s.frame, out, s.values.size());
        s.frame[i] ^= static_cast<std::byte>(change);
        ++changes;
        auto expected = s.values;
        if (o) {
          ++harmless;
        } else {
          ASSERT_TRUE(o.code == status::bad_checksum || is_payload_error(o.code)) << c << ' ' << i;
          ASSERT_EQ(o.first_bad_chunk, c);
          // The bad chunk is zero, all others are there.
          for (uint64_t v = c * 64; v < std::min<uint64_t>(c * 64 + 64, expected.size()); ++v) expected[v] = {};
        }
        ASSERT_TRUE(same_bits(out, expected));
      }
  }
  EXPECT_LE(harmless, sample<TypeParam>::every_bit_counts ? 0 : changes / 10);
}

TYPED_TEST(corruption, every_truncation_is_refused) {
  for (const bool checksums : {false, true}) {
    const auto s = TestFixture::mixed(checksums);
    for (size_t size = 0; size < s.frame.size(); ++size) {
      const frame_bytes shorter(s.frame.begin(), s.frame.begin() + static_cast<std::ptrdiff_t>(size));
      std::vector<value_t<TypeParam>> out;
      ASSERT_EQ(TestFixture::decode_into(shorter, out, s.values.size()).code, status::truncated) << size;
      ASSERT_EQ(count_non_zeros(out), 0u);
    }
  }
}

TYPED_TEST(corruption, forged_headers_are_refused) {
  const auto s = TestFixture::mixed(true);
  const auto forge = [&](auto change) {
    return TestFixture::decode_untrusted(forged(s.frame, change), s.values.size());
  };
  using enum status;
  EXPECT_EQ(forge([](auto&) {}), ok);
  EXPECT_EQ(forge([](auto& h) { h.type = dtype::none; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.type = static_cast<dtype>(77); }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.type = dtype::i32; }), type_mismatch);
  EXPECT_EQ(forge([](auto& h) { h.alignment_log2 = 3; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.alignment_log2 = 13; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.alignment_log2 = 255; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.flags |= 4; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.base_digest = 1; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.chunk_values = 0; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.chunk_values = 48; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.chunk_values = 1u << 31; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.value_count = ~uint64_t{0}; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.value_count = ~uint64_t{0} / 4; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.metadata_bytes = ~uint64_t{0}; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.metadata_bytes = ~uint64_t{0} - 200; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.frame_bytes = 0; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.frame_bytes += 16; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.frame_bytes += 32; }), truncated);
  EXPECT_EQ(forge([](auto& h) { h.frame_bytes = ~uint64_t{0}; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.frame_bytes = ~uint64_t{31}; }), truncated);
  EXPECT_EQ(forge([](auto& h) { h.value_count -= 1; }), bad_range);
  const status longer = forge([](auto& h) { h.value_count += 1; });  // the last chunk
  EXPECT_TRUE(longer == bad_checksum || is_payload_error(longer)) << message(longer);
  EXPECT_EQ(forge([](auto& h) { h.stages.at[0].id = codec_id::none; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.stages.at[0].id = codec_id::custom; }), codec_mismatch);
  EXPECT_EQ(forge([](auto& h) { h.stages.at[0].version = 2; }), bad_version);
  EXPECT_EQ(forge([](auto& h) { h.stages.at[0].large = ~uint64_t{0}; }), bad_parameters);
  EXPECT_EQ(forge([](auto& h) { h.stages.at[1].id = codec_id::zvc; }), codec_mismatch);
}

// Statuses about the call leave the output alone; statuses about the frame leave zeros.
TYPED_TEST(corruption, a_frame_that_cannot_be_read_leaves_zeros) {
  using value = value_t<TypeParam>;
  const auto s = TestFixture::mixed(false);
  const auto forge = [&](auto change) {
    const auto frame = forged(s.frame, change);
    std::vector<value> out;
    const outcome o = TestFixture::decode_into(frame, out, s.values.size());
    EXPECT_EQ(o.bytes, is_mismatch(o.code) ? 0 : sizeof(value) * out.size());
    const std::vector<value> left(s.values.size(), is_mismatch(o.code) ? TestFixture::filler() : value{});
    EXPECT_TRUE(same_bits(out, left));
    std::vector<value> again(s.values.size(), TestFixture::filler());
    const outcome listed = host::decode(codec_list<TypeParam>{}, frame, as_writable_bytes(span<value>(again)));
    EXPECT_EQ(listed.code, o.code);
    EXPECT_EQ(listed.bytes, o.bytes);
    EXPECT_TRUE(same_bits(again, out));
    return o.code;
  };
  EXPECT_EQ(forge([](auto& h) { h.version = 2; }), status::bad_version);
  EXPECT_EQ(forge([](auto& h) { h.stages.at[0].version = 2; }), status::bad_version);
  EXPECT_EQ(forge([](auto& h) { h.stages.at[0].mode = 3; }), status::bad_parameters);
  EXPECT_EQ(forge([](auto& h) { h.stages.at[0].id = codec_id::custom; }), status::codec_mismatch);
  EXPECT_EQ(forge([](auto& h) { h.type = dtype::u32; }), status::type_mismatch);
}

TYPED_TEST(corruption, forged_directory_entries_are_refused) {
  const auto s = TestFixture::mixed(false);
  const frame_layout at = layout_of(header_of(s.frame));
  const auto forge = [&](uint64_t chunk, auto change) {
    auto frame = s.frame;
    directory_entry entry{load_unaligned<uint64_t>(frame.data() + at.directory + 8 * chunk)};
    entry = change(entry);
    store_unaligned(frame.data() + at.directory + 8 * chunk, entry.word);
    reseal(frame);
    std::vector<value_t<TypeParam>> out;
    const outcome o = TestFixture::decode_into(frame, out, s.values.size());
    EXPECT_EQ(o.first_bad_chunk, o ? no_chunk : chunk);
    return o.code;
  };
  using e = directory_entry;
  constexpr uint32_t raw_bytes = TestFixture::chunk_values * sizeof(value_t<TypeParam>);
  EXPECT_EQ(forge(0, [](e x) { return x; }), status::ok);
  EXPECT_EQ(forge(0, [](e) { return e{}; }), status::bad_chunk_entry);
  EXPECT_EQ(forge(0, [](e) { return e{~uint64_t{0}}; }), status::bad_chunk_entry);
  for (uint64_t kind = 3; kind < 16; ++kind)
    EXPECT_EQ(forge(0, [&](e x) { return e{x.word | kind << 60}; }), status::bad_chunk_entry);
  EXPECT_EQ(forge(0, [](e x) { return e::make(x.kind(), x.bytes(), 0); }), status::bad_chunk_entry);
  EXPECT_EQ(forge(0, [](e x) { return e::make(x.kind(), x.bytes(), e::max_start); }), status::bad_chunk_entry);
  EXPECT_EQ(forge(0, [](e x) { return e::make(x.kind(), raw_bytes, x.start()); }), status::bad_chunk_entry);
  EXPECT_EQ(forge(0, [](e x) { return e::make(chunk_kind::raw, x.bytes(), x.start()); }), status::bad_chunk_entry);
  EXPECT_EQ(forge(1, [](e x) { return e::make(x.kind(), 3, x.start()); }), status::bad_chunk_entry);
  EXPECT_EQ(forge(4, [](e x) { return e::make(x.kind(), x.bytes(), x.start() + 4); }), status::bad_chunk_entry);
}

// Flips, overwrites, cuts and splices; half of the frames get digests that fit, so that what is behind them is
// reached. The codecs share the rounds; TUCK_LONG=1 runs ten times as many.
TYPED_TEST(corruption, a_million_mutations_stay_in_bounds) {
  const typename TestFixture::victim victims[] = {TestFixture::mixed(false), TestFixture::mixed(true)};
  const int rounds = (std::getenv("TUCK_LONG") != nullptr ? 10'000'000 : 1'000'000) / size_of(corrupted_codecs{});
  std::mt19937_64 random(11);
  int accepted = 0;
  std::set<status> seen;
  frame_bytes frame;
  for (int round = 0; round < rounds; ++round) {
    const auto& s = victims[random() % 2];
    frame = s.frame;
    for (uint64_t changes = 1 + random() % 4; changes-- > 0;) {
      const size_t at = random() % (random() % 2 ? frame.size() : std::min<size_t>(frame.size(), 200));
      if (random() % 2)
        frame[at] ^= static_cast<std::byte>(1 << random() % 8);
      else
        frame[at] = static_cast<std::byte>(random());
    }
    if (random() % 16 == 0) frame.resize(random() % frame.size());
    if (random() % 2) reseal(frame);
    frame.shrink_to_fit();
    const status answer = TestFixture::decode_untrusted(frame, s.values.size());
    accepted += answer == status::ok;
    seen.insert(answer);
  }
  EXPECT_GT(accepted, 0);  // padding, or a value without a checksum
  EXPECT_GE(seen.size(), 10u);
}

}  // namespace
}  // namespace tuck::test
