// Frames that nobody vouches for: damaged, cut, forged.
#include "support/frames.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace tuck::test {
namespace {

struct sample {
  std::vector<float> values;
  frame_bytes frame;
};

// Chunks of every kind: encoded, raw, uniform, zero, and a short last one.
sample mixed_sample(bool checksums) {
  auto values = sparse_tensor<float>(5 * 64 - 11, .5);
  std::fill_n(values.begin() + 64, 64, 2.5f);
  std::fill_n(values.begin() + 128, 64, 0.f);
  std::fill_n(values.begin() + 192, 64, 1.f);
  for (size_t i = 192; i < 256; ++i) values[i] += static_cast<float>(i);
  const auto metadata = std::vector<std::byte>(11, std::byte{'x'});
  return {values, encoded(zvc<float>{}, values, {.chunk_values = 64, .checksums = checksums, .metadata = metadata})};
}

// Decodes into exactly as much room as there is and returns the status; checks that the rest is zero or right.
status decode_untrusted(const frame_bytes& frame, uint64_t count, unsigned threads = 1) {
  static std::vector<float> out;
  out.assign(count, 77.f);
  return host::decode(zvc<float>{}, frame, out, 0, {.threads = threads}).code;
}

TEST(corruption, every_changed_byte_of_header_or_directory_is_refused) {
  using enum status;
  const std::set<status> fitting_header{bad_magic, bad_version, bad_header};
  for (const bool checksums : {false, true}) {
    sample s = mixed_sample(checksums);
    const frame_layout at = layout_of(header_of(s.frame));
    for (uint64_t i = 0; i < at.contents_end; ++i)
      for (int change = 1; change < 256; ++change) {
        s.frame[i] ^= static_cast<std::byte>(change);
        const status answer = decode_untrusted(s.frame, s.values.size());
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

TEST(corruption, every_changed_byte_of_a_payload_is_refused_with_checksums) {
  sample s = mixed_sample(true);
  frame_view view;
  ASSERT_EQ(frame_view::open(s.frame, view), status::ok);
  for (uint64_t c = 0; c < view.chunks(); ++c) {
    chunk_view chunk;
    ASSERT_EQ(view.chunk(c, chunk), status::ok);
    const auto begin = static_cast<size_t>(chunk.payload.data() - s.frame.data());
    for (size_t i = begin; i < begin + chunk.payload.size(); ++i)
      for (const int change : {1, 2, 16, 128, 255}) {
        s.frame[i] ^= static_cast<std::byte>(change);
        std::vector<float> out(s.values.size(), 77.f);
        const outcome o = host::decode(zvc<float>{}, s.frame, out);
        ASSERT_TRUE(o.code == status::bad_checksum || o.code == status::bad_payload) << c << ' ' << i;
        ASSERT_EQ(o.first_bad_chunk, c);
        auto expected = s.values;  // the bad chunk is zero, all others are there
        for (uint64_t v = c * 64; v < std::min<uint64_t>(c * 64 + 64, expected.size()); ++v) expected[v] = 0;
        ASSERT_TRUE(same_bits(out, expected));
        s.frame[i] ^= static_cast<std::byte>(change);
      }
  }
}

TEST(corruption, every_truncation_is_refused) {
  for (const bool checksums : {false, true}) {
    const sample s = mixed_sample(checksums);
    for (size_t size = 0; size < s.frame.size(); ++size) {
      const frame_bytes shorter(s.frame.begin(), s.frame.begin() + static_cast<std::ptrdiff_t>(size));
      std::vector<float> out(s.values.size(), 77.f);
      ASSERT_EQ(host::decode(zvc<float>{}, shorter, out).code, status::truncated) << size;
      ASSERT_TRUE(std::all_of(out.begin(), out.end(), [](float v) { return bits_of(v) == 0; }));
    }
  }
}

TEST(corruption, forged_headers_are_refused) {
  const sample s = mixed_sample(true);
  const auto forge = [&](auto change) { return decode_untrusted(forged(s.frame, change), s.values.size()); };
  using enum status;
  EXPECT_EQ(forge([](auto&) {}), ok);
  EXPECT_EQ(forge([](auto& h) { h.type = dtype::none; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.type = static_cast<dtype>(77); }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.type = dtype::i32; }), type_mismatch);
  EXPECT_EQ(forge([](auto& h) { h.alignment_log2 = 13; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.alignment_log2 = 255; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.flags |= 2; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.reserved = 1; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.chunk_values = 0; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.chunk_values = 48; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.chunk_values = 1u << 31; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.value_count = ~uint64_t{0}; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.value_count = ~uint64_t{0} / 4; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.metadata_bytes = ~uint64_t{0}; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.metadata_bytes = ~uint64_t{0} - 200; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.frame_bytes = 0; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.frame_bytes += 1; }), truncated);
  EXPECT_EQ(forge([](auto& h) { h.frame_bytes = ~uint64_t{0}; }), truncated);
  EXPECT_EQ(forge([](auto& h) { h.value_count -= 1; }), bad_range);
  EXPECT_EQ(forge([](auto& h) { h.value_count += 1; }), bad_checksum);  // of a longer last chunk
  EXPECT_EQ(forge([](auto& h) { h.stages.at[0].id = codec_id::none; }), bad_header);
  EXPECT_EQ(forge([](auto& h) { h.stages.at[0].id = codec_id::custom; }), codec_mismatch);
  EXPECT_EQ(forge([](auto& h) { h.stages.at[0].version = 2; }), bad_version);
  EXPECT_EQ(forge([](auto& h) { h.stages.at[0].large = 2; }), bad_parameters);
  EXPECT_EQ(forge([](auto& h) { h.stages.at[1].id = codec_id::zvc; }), codec_mismatch);
}

// Statuses about the call leave the output alone; statuses about the frame leave zeros.
TEST(corruption, a_frame_that_cannot_be_read_leaves_zeros) {
  const sample s = mixed_sample(false);
  const auto forge = [&](auto change) {
    const auto frame = forged(s.frame, change);
    std::vector<float> out(s.values.size(), 77.f);
    const outcome o = host::decode(zvc<float>{}, frame, out);
    EXPECT_EQ(o.bytes, is_mismatch(o.code) ? 0 : 4 * out.size());
    for (const float v : out) EXPECT_EQ(bits_of(v), is_mismatch(o.code) ? bits_of(77.f) : 0u);
    std::vector<float> again(s.values.size(), 77.f);
    const outcome listed = host::decode(codec_list<zvc<float>>{}, frame, as_writable_bytes(span<float>(again)));
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

TEST(corruption, forged_directory_entries_are_refused) {
  const sample s = mixed_sample(false);
  const frame_layout at = layout_of(header_of(s.frame));
  const auto forge = [&](uint64_t chunk, auto change) {
    auto frame = s.frame;
    directory_entry entry{load_unaligned<uint64_t>(frame.data() + at.directory + 8 * chunk)};
    entry = change(entry);
    store_unaligned(frame.data() + at.directory + 8 * chunk, entry.word);
    reseal(frame);
    std::vector<float> out(s.values.size());
    const outcome o = host::decode(zvc<float>{}, frame, out);
    EXPECT_EQ(o.first_bad_chunk, o ? no_chunk : chunk);
    return o.code;
  };
  using e = directory_entry;
  EXPECT_EQ(forge(0, [](e x) { return x; }), status::ok);
  EXPECT_EQ(forge(0, [](e) { return e{}; }), status::bad_chunk_entry);
  EXPECT_EQ(forge(0, [](e) { return e{~uint64_t{0}}; }), status::bad_chunk_entry);
  for (uint64_t kind = 3; kind < 16; ++kind)
    EXPECT_EQ(forge(0, [&](e x) { return e{x.word | kind << 60}; }), status::bad_chunk_entry);
  EXPECT_EQ(forge(0, [](e x) { return e::make(x.kind(), x.bytes(), 0); }), status::bad_chunk_entry);
  EXPECT_EQ(forge(0, [](e x) { return e::make(x.kind(), x.bytes(), e::max_start); }), status::bad_chunk_entry);
  EXPECT_EQ(forge(0, [](e x) { return e::make(x.kind(), 256, x.start()); }), status::bad_chunk_entry);
  EXPECT_EQ(forge(0, [](e x) { return e::make(chunk_kind::raw, x.bytes(), x.start()); }), status::bad_chunk_entry);
  EXPECT_EQ(forge(1, [](e x) { return e::make(x.kind(), 3, x.start()); }), status::bad_chunk_entry);
  EXPECT_EQ(forge(4, [](e x) { return e::make(x.kind(), x.bytes(), x.start() + 4); }), status::bad_chunk_entry);
}

// Flips, overwrites, cuts and splices; half of the frames get digests that fit, so that what is behind them is
// reached. TUCK_LONG=1 runs ten times as many.
TEST(corruption, a_million_mutations_stay_in_bounds) {
  const sample samples[] = {mixed_sample(false), mixed_sample(true)};
  const int rounds = std::getenv("TUCK_LONG") != nullptr ? 10'000'000 : 1'000'000;
  std::mt19937_64 random(11);
  int accepted = 0;
  std::set<status> seen;
  frame_bytes frame;
  for (int round = 0; round < rounds; ++round) {
    const sample& s = samples[random() % 2];
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
    const status answer = decode_untrusted(frame, s.values.size());
    accepted += answer == status::ok;
    seen.insert(answer);
  }
  EXPECT_GT(accepted, 0);  // padding, or a value without a checksum
  EXPECT_GE(seen.size(), 10u);
}

}  // namespace
}  // namespace tuck::test
