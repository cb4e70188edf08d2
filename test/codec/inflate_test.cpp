// Raw DEFLATE streams on the host, with zlib as the judge: what is wrong with them, what is not, and what they hold.
#include "support/deflate_samples.hpp"
#include "support/effort.hpp"
#include "support/npy.hpp"

#include <tuck/codec/inflate/inflate.hpp>

#include <chrono>
#include <filesystem>

namespace tuck::test {
namespace {

// inflate and zlib on a copy of the stream with nothing behind it: equal verdicts, and equal bytes.
inflate_result inflate_like_zlib(const byte_vector& bytes_of_stream, uint64_t room, byte_vector& out) {
  constexpr std::byte untouched{0xee};
  static zlib_inflater zlib;
  const byte_vector stream(bytes_of_stream.begin(), bytes_of_stream.end());
  byte_vector expected(room);
  out.assign(room + 16, untouched);
  const inflate_result r = inflate(stream, {out.data(), room});
  const auto v = zlib.inflate(stream, expected);
  EXPECT_EQ(bool(r), v.accepted) << message(r.code);
  EXPECT_LE(r.bytes, room);
  for (uint64_t i = room; i < out.size(); ++i) EXPECT_EQ(out[i], untouched);
  if (r && v.accepted) {
    EXPECT_EQ(r.consumed, v.consumed);
    EXPECT_EQ(r.bytes, v.produced);
  } else {
    EXPECT_EQ(r.consumed, 0u);
  }
  const uint64_t both = std::min(r.bytes, v.produced);
  EXPECT_TRUE(both == 0 || std::memcmp(out.data(), expected.data(), both) == 0);
  out.resize(r.bytes);
  return r;
}

void expect_rejected(status expected, const byte_vector& stream, std::string_view produced = "", uint64_t room = 1000) {
  byte_vector out;
  const inflate_result r = inflate_like_zlib(stream, room, out);
  EXPECT_EQ(r.code, expected) << message(r.code);
  EXPECT_EQ(out, bytes_of(produced));
}

// With more room than it needs and with no more, and with bytes behind it.
void expect_accepted(const byte_vector& stream, const byte_vector& expected) {
  for (uint64_t more : {0, 1, 300}) {
    byte_vector out;
    const inflate_result r = inflate_like_zlib(stream, expected.size() + more, out);
    EXPECT_EQ(r.code, status::ok) << message(r.code);
    EXPECT_EQ(r.consumed, stream.size());
    EXPECT_EQ(out, expected);
    byte_vector longer = stream;
    longer.resize(longer.size() + 1 + more, std::byte{0xff});
    EXPECT_EQ(inflate_like_zlib(longer, expected.size() + more, out).consumed, stream.size());
    EXPECT_EQ(out, expected);
  }
  if (expected.empty()) return;
  byte_vector out;
  EXPECT_EQ(inflate_like_zlib(stream, expected.size() - 1, out).code, status::deflate_too_long);
}
void expect_accepted(const byte_vector& stream, std::string_view expected) {
  expect_accepted(stream, bytes_of(expected));
}

const auto two_literals = code_with(257, {{'a', 2}, {'b', 2}, {256, 1}});

// -- streams that are wrong ----------------------------------------------------------------------------------------

TEST(inflate_results, zeroed_memory_that_no_kernel_has_written_is_no_success) {
  const std::array<std::byte, sizeof(inflate_result)> zeros{};
  EXPECT_FALSE(std::bit_cast<inflate_result>(zeros));
}

TEST(inflate_rejects, a_stream_without_an_end) {
  expect_rejected(status::deflate_ends_early, {});
  expect_rejected(status::deflate_ends_early, deflate_writer().stored(false, bytes_of("abc")), "abc");
  expect_rejected(status::deflate_ends_early, deflate_writer().begin_fixed(false).text("ab").end(), "ab");
  expect_rejected(status::deflate_ends_early, deflate_writer().begin_fixed(true).text("ab"), "ab");
  expect_rejected(status::deflate_ends_early, deflate_writer().stored_header(true, 3, ~3u).raw(bytes_of("ab")), "ab");
}

TEST(inflate_rejects, block_type_3) {
  expect_rejected(status::deflate_block_type, deflate_writer().bits(1, 1).bits(3, 2).bits(0, 30));
  expect_rejected(status::deflate_block_type, deflate_writer().stored(false, bytes_of("a")).bits(6, 3), "a");
}

TEST(inflate_rejects, stored_lengths_that_do_not_match) {
  for (uint32_t bit = 0; bit < 16; ++bit)
    expect_rejected(status::deflate_stored_length,
                    deflate_writer().stored_header(true, 3, ~3u ^ 1u << bit).raw(bytes_of("abc")));
}

TEST(inflate_rejects, more_codes_than_there_are_symbols) {
  for (uint32_t hlit : {30, 31})
    expect_rejected(status::deflate_code_counts, deflate_writer().begin_dynamic(true, {.hlit = hlit}).bits(0, 30));
  for (uint32_t hdist : {30, 31})
    expect_rejected(status::deflate_code_counts, deflate_writer().begin_dynamic(true, {.hdist = hdist}).bits(0, 30));
}

TEST(inflate_rejects, precodes_that_are_no_codes) {
  const auto reject = [](const std::vector<uint32_t>& precode) {
    deflate_writer w;
    w.begin_dynamic(true, dynamic_header{.precode = precode});
    for (int i = 0; i < 100; ++i) w.bits(0, 32);
    expect_rejected(status::deflate_precode, w);
  };
  reject(std::vector<uint32_t>(19));
  reject(code_with(19, {{0, 1}}));
  reject(code_with(19, {{0, 1}, {1, 2}}));
  reject(code_with(19, {{0, 1}, {1, 1}, {2, 7}}));
  reject(std::vector<uint32_t>(19, 7));
  reject(std::vector<uint32_t>(19, 1));
}

TEST(inflate_rejects, a_repeat_of_nothing) {
  deflate_writer w;
  expect_rejected(status::deflate_first_repeat, w.begin_dynamic(true, {.lengths = {{16, 0}}}).bits(0, 30));
}

TEST(inflate_rejects, repeats_beyond_the_last_code) {
  const auto reject = [](dynamic_header::run last, uint32_t left) {
    dynamic_header header;
    for (uint32_t i = 0; i < 258 - left; ++i) header.lengths.push_back({i == 0 || i == 256 ? 1u : 0u});
    header.lengths.push_back(last);
    expect_rejected(status::deflate_long_repeat, deflate_writer().begin_dynamic(true, header).bits(0, 30));
  };
  reject({16, 0}, 2);
  reject({16, 3}, 5);
  reject({17, 0}, 2);
  reject({17, 7}, 9);
  reject({18, 0}, 10);
  reject({18, 127}, 137);
}

TEST(inflate_rejects, a_block_that_cannot_end) {
  expect_rejected(status::deflate_no_end_code,
                  deflate_writer().begin_dynamic(true, code_with(257, {{'a', 1}, {'b', 1}}), {1}).text("aaaa"));
  expect_rejected(status::deflate_no_end_code,
                  deflate_writer().begin_dynamic(true, std::vector<uint32_t>(286), {1}).bits(0, 30));
}

TEST(inflate_rejects, literal_sets_that_are_no_codes) {
  const auto reject = [](const std::vector<symbol_length>& some) {
    deflate_writer w;
    expect_rejected(status::deflate_literal_code, w.begin_dynamic(true, code_with(257, some), {1}).bits(0, 30));
  };
  reject({{'a', 1}, {'b', 1}, {256, 1}});
  reject({{'a', 1}, {'b', 1}, {256, 15}});
  reject({{'a', 1}, {256, 2}});
  reject({{256, 2}});
  reject({{256, 15}});
}

TEST(inflate_rejects, distance_sets_that_are_no_codes) {
  const auto reject = [](const std::vector<uint32_t>& distances) {
    expect_rejected(status::deflate_distance_code,
                    deflate_writer().begin_dynamic(true, two_literals, distances).end().bits(0, 30));
  };
  reject({1, 1, 1});
  reject({1, 1, 15});
  reject({1, 2});
  reject({2});
  reject({15});
}

TEST(inflate_rejects, codewords_of_no_symbol) {
  const auto matching = code_with(258, {{'a', 2}, {256, 2}, {257, 1}});
  const auto reject = [](const deflate_writer& w, std::string_view produced) {
    expect_rejected(status::deflate_codeword, deflate_writer(w).bits(0, 30), produced);
  };
  reject(deflate_writer().begin_dynamic(true, code_with(257, {{256, 1}}), {1}).bits(1, 1), "");
  reject(deflate_writer().begin_dynamic(true, matching, {1}).text("a").symbol(257).bits(1, 1), "a");
  reject(deflate_writer().begin_dynamic(true, matching, {0, 0, 1}).text("a").symbol(257).bits(1, 1), "a");
  reject(deflate_writer().begin_dynamic(true, matching, {0}).text("a").symbol(257), "a");
  reject(deflate_writer().begin_dynamic(true, matching, {0}).text("a").symbol(257).bits(1, 1), "a");
}

TEST(inflate_rejects, length_symbols_286_and_287) {
  for (uint32_t symbol : {286, 287})
    expect_rejected(status::deflate_length_symbol,
                    deflate_writer().begin_fixed(true).text("ab").symbol(symbol).bits(0, 30), "ab");
}

TEST(inflate_rejects, distance_symbols_30_and_31) {
  for (uint32_t symbol : {30, 31})
    expect_rejected(status::deflate_distance_symbol,
                    deflate_writer().begin_fixed(true).text("ab").symbol(257).distance_symbol(symbol).bits(0, 30),
                    "ab");
}

TEST(inflate_rejects, matches_that_begin_before_the_output) {
  const auto reject = [](uint32_t distance, std::string_view before) {
    expect_rejected(status::deflate_distance,
                    deflate_writer().begin_fixed(true).text(before).match(3, distance).end().bits(0, 30), before);
  };
  reject(1, "");
  reject(32768, "");
  reject(4, "abc");
  expect_rejected(status::deflate_distance,
                  deflate_writer().stored(false, bytes_of("abc")).begin_fixed(true).match(3, 4).end(), "abc");
}

TEST(inflate_rejects, more_output_than_there_is_room_for) {
  const auto reject = [](const byte_vector& stream, std::string_view produced) {
    expect_rejected(status::deflate_too_long, stream, produced, produced.size());
  };
  reject(deflate_writer().begin_fixed(true).text("abc").end(), "");
  reject(deflate_writer().begin_fixed(true).text("abc").end(), "ab");
  reject(deflate_writer().begin_fixed(true).text("abc").match(258, 3).end(), "abc");
  reject(deflate_writer().begin_fixed(true).text("abc").match(258, 3).end(), "abcabcab");
  reject(deflate_writer().stored(true, bytes_of("abc")), "");
  reject(deflate_writer().stored(true, bytes_of("abc")), "ab");
}

TEST(inflate_rejects, every_beginning_of_a_stream) {
  for (const content what : contents)
    for (const zlib_settings& how : {zlib_settings{0}, {1}, {9}, {6, Z_FIXED}, {6, Z_HUFFMAN_ONLY}, {6, Z_RLE, 1}}) {
      const byte_vector stream = zlib_deflated(data_of(what, 700), how);
      for (size_t size = 0; size < stream.size(); ++size) {
        byte_vector out;
        const inflate_result r = inflate_like_zlib({stream.begin(), stream.begin() + std::ptrdiff_t(size)}, 700, out);
        ASSERT_EQ(r.code, status::deflate_ends_early) << size;
      }
    }
}

// -- odd streams that are right ------------------------------------------------------------------------------------

TEST(inflate_accepts, empty_blocks) {
  expect_accepted(deflate_writer().stored(true, {}), "");
  expect_accepted(deflate_writer().begin_fixed(true).end(), "");
  expect_accepted(deflate_writer().begin_dynamic(true, two_literals, {0}).end(), "");
  deflate_writer w;
  for (int i = 0; i < 10; ++i)
    w.stored(false, {}).begin_fixed(false).end().begin_dynamic(false, two_literals, {1}).end();
  expect_accepted(w.begin_fixed(true).text("end").end(), "end");
}

TEST(inflate_accepts, no_distances_where_none_is_used) {
  expect_accepted(deflate_writer().begin_dynamic(true, two_literals, {0}).text("abba").end(), "abba");
  expect_accepted(deflate_writer().begin_dynamic(true, two_literals, std::vector<uint32_t>(30)).text("b").end(), "b");
}

TEST(inflate_accepts, a_single_literal_code_of_one_bit) {
  for (const auto& distances : {std::vector<uint32_t>{0}, {1}, {1, 1}})
    expect_accepted(deflate_writer().begin_dynamic(true, code_with(257, {{256, 1}}), distances).end(), "");
}

TEST(inflate_accepts, a_single_distance_code_of_one_bit) {
  const auto matching = code_with(258, {{'a', 2}, {256, 2}, {257, 1}});
  expect_accepted(deflate_writer().begin_dynamic(true, matching, {1}).text("a").match(3, 1).end(), "aaaa");
  expect_accepted(deflate_writer().begin_dynamic(true, matching, {0, 1}).text("aa").match(3, 2).end(), "aaaaa");
}

TEST(inflate_accepts, repeats_across_both_sets) {
  // Code 18 for the last literal length and all distances.
  dynamic_header across{.hlit = 1, .hdist = 29};
  for (uint32_t i = 0; i < 257; ++i) across.lengths.push_back({i == 'a' ? 1u : i == 256 ? 1u : 0u});
  across.lengths.push_back({18, 31 - 11});
  expect_accepted(
      deflate_writer().begin_dynamic(true, across).codes(code_with(257, {{'a', 1}, {256, 1}}), {0}).text("a").end(),
      "a");
  // Code 16 for two literal lengths and four distances.
  dynamic_header repeated{.hlit = 2, .hdist = 3};
  for (uint32_t i = 0; i < 257; ++i) repeated.lengths.push_back({i == 'a' || i == 256 ? 2u : 0u});
  repeated.lengths.push_back({16, 3});
  expect_accepted(deflate_writer()
                      .begin_dynamic(true, repeated)
                      .codes(code_with(259, {{'a', 2}, {256, 2}, {257, 2}, {258, 2}}), {2, 2, 2, 2})
                      .text("a")
                      .match(4, 1)
                      .match(3, 4)
                      .end(),
                  "aaaaaaaa");
}

TEST(inflate_accepts, length_258_written_in_two_ways) {
  const byte_vector expected(1 + 258 + 258, std::byte{'x'});
  deflate_writer w;
  w.begin_fixed(true).text("x").symbol(284).bits(31, 5).distance_symbol(0);
  expect_accepted(w.symbol(285).distance_symbol(0).end(), expected);
}

TEST(inflate_accepts, codes_of_all_lengths) {
  std::vector<uint32_t> literals(257);
  for (uint32_t i = 0; i < 15; ++i) literals['a' + i] = i + 1;
  literals[256] = 15;
  std::vector<uint32_t> distances(30);
  for (uint32_t i = 0; i < 15; ++i) distances[14 - i] = i + 1;
  distances[15] = 15;
  literals['o'] = 0;
  literals.resize(258);
  literals[257] = 15;  // a match of 3
  std::string expected = "abcdefghijklmn";
  deflate_writer w;
  w.begin_dynamic(true, literals, distances).text(expected);
  for (int i = 0; i < 7; ++i) {
    for (uint32_t distance = 1; distance <= expected.size() && distance <= 256; ++distance) {
      w.match(3, distance);
      for (int k = 0; k < 3; ++k) expected.push_back(expected[expected.size() - distance]);
    }
  }
  expect_accepted(w.end(), expected);
}

TEST(inflate_accepts, matches_of_every_length_and_distance) {
  byte_vector expected = data_of(content::random, 33000);
  deflate_writer w;
  w.stored(false, expected).begin_fixed(true);
  const auto match = [&](uint32_t length, uint32_t distance) {
    w.match(length, distance);
    for (uint32_t i = 0; i < length; ++i) expected.push_back(expected[expected.size() - distance]);
  };
  for (uint32_t distance = 1; distance <= 40; ++distance)
    for (uint32_t length = 3; length <= 258; ++length) match(length, distance);
  for (uint32_t distance = 1; distance <= 32768; distance += 1 + distance / 8) match(3 + distance % 256, distance);
  match(258, 32768);
  match(3, 32767);
  expect_accepted(w.end(), expected);
}

TEST(inflate_accepts, matches_into_earlier_blocks) {
  deflate_writer w;
  w.stored(false, bytes_of("abc")).begin_fixed(false).text("def").end();
  w.begin_dynamic(true, code_with(258, {{'a', 2}, {256, 2}, {257, 1}}), {0, 0, 0, 0, 1}).symbol(257).distance_symbol(4);
  expect_accepted(w.bits(1, 1).end(), "abcdefabc");
}

// -- encoders ------------------------------------------------------------------------------------------------------

void expect_restored(const byte_vector& data, const zlib_settings& how) {
  byte_vector stream = zlib_deflated(data, how);
  const uint64_t size = stream.size();
  for (const uint64_t trailing : {0, 9}) {
    stream.resize(size + trailing, std::byte{0xa5});
    byte_vector out(data.size());
    const inflate_result r = inflate(stream, out);
    ASSERT_EQ(r.code, status::ok) << message(r.code);
    ASSERT_EQ(r.consumed, size);
    ASSERT_EQ(r.bytes, data.size());
    ASSERT_TRUE(out == data);
  }
}

TEST(inflate, restores_what_zlib_deflated) {
  for (const content what : contents)
    for (const uint64_t size : {0, 1, 2, 100, 65535, 65536, 300000})
      for (const int level : {0, 1, 6, 9})
        for (const int strategy : zlib_strategies) {
          SCOPED_TRACE(std::to_string(int(what)) + ": " + std::to_string(size) + " bytes, level " +
                       std::to_string(level) + ", strategy " + std::to_string(strategy));
          expect_restored(data_of(what, size), {level, strategy});
        }
}

TEST(inflate, restores_recorded_tensors) {
  int tensors = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TUCK_DATA)) {
    if (entry.path().extension() != ".npy") continue;
    const tools::npy_file file = tools::read_npy(entry.path().string());
    for (const int strategy : zlib_strategies)
      expect_restored({file.data().begin(), file.data().end()}, {6, strategy, strategy == Z_RLE ? 1 : 8});
    ++tensors;
  }
  EXPECT_EQ(tensors, 13);
}

// -- time ----------------------------------------------------------------------------------------------------------

double seconds(const auto& work) {
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

// Blocks that are mostly header, beside zlib on the same stream and machine: its tables cost it about the same.
void expect_bounded_time(const char* what, deflate_writer& (*block)(deflate_writer&)) {
  deflate_writer w;
  while (w.stream().size() < 100000) block(w);
  const byte_vector& stream = w.begin_fixed(true).end();
  byte_vector out(100);
  zlib_inflater zlib;
  ASSERT_EQ(inflate(stream, out).code, status::ok);
  const double ours = seconds([&] { EXPECT_TRUE(inflate(stream, out)); });
  const double theirs = seconds([&] { EXPECT_TRUE(zlib.inflate(stream, out).accepted); });
  std::printf("    %s: %.1f ns a byte, zlib %.1f\n", what, ours * 1e9 / double(stream.size()),
              theirs * 1e9 / double(stream.size()));
  if (!brief) {
    EXPECT_LT(ours, 10 * theirs);
  }
}

// 255 codes of 8 bits and two of 9 in a header of 27 bytes.
deflate_writer& large_code(deflate_writer& w) {
  dynamic_header header{.precode = code_with(19, {{0, 2}, {8, 2}, {9, 2}, {16, 2}})};
  header.lengths.push_back({8});
  for (int i = 0; i < 42; ++i) header.lengths.push_back({16, 3});
  for (const uint32_t length : {8, 8, 9, 9, 0}) header.lengths.push_back({length});
  std::vector<uint32_t> literals(255, 8);
  literals.insert(literals.end(), {9, 9});
  return w.begin_dynamic(false, header).codes(literals, {0}).end();
}

// And a code of one bit in a header of 12.
deflate_writer& small_code(deflate_writer& w) {
  dynamic_header header{.precode = code_with(19, {{0, 2}, {1, 2}, {18, 1}})};
  header.lengths = {{18, 127}, {18, 107}, {1}, {0}};
  return w.begin_dynamic(false, header).codes(code_with(257, {{256, 1}}), {0}).end();
}

TEST(inflate, takes_time_in_proportion_to_its_input) {
  using writer = deflate_writer;
  expect_bounded_time("stored blocks", [](writer& w) -> writer& { return w.stored(false, {}); });
  expect_bounded_time("fixed blocks", [](writer& w) -> writer& { return w.begin_fixed(false).end(); });
  expect_bounded_time("small codes", small_code);
  expect_bounded_time("large codes", large_code);
  expect_bounded_time("fixed blocks and small codes",
                      [](writer& w) -> writer& { return small_code(w.begin_fixed(false).end()); });
}

TEST(inflate, null_pointers_are_refused) {
  std::byte room[8];
  EXPECT_EQ(inflate({nullptr, 5}, room).code, status::invalid_argument);
  EXPECT_EQ(inflate({room, 5}, {nullptr, 8}).code, status::invalid_argument);
}

}  // namespace
}  // namespace tuck::test
