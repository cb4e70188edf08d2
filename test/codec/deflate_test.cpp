// deflate-lite on the host: zlib reads what it writes, it keeps to its limits, and it refuses all else.
#include "support/deflate_chunks.hpp"
#include "support/effort.hpp"
#include "support/frames.hpp"
#include "support/npy.hpp"

#include <cmath>
#include <filesystem>
#include <map>

namespace tuck::test {
namespace {

using namespace deflate_format;

template <class T> class deflate_suite : public ::testing::Test {
 protected:
  // The stream is one that zlib reads to its last byte, and so is the one that is written without an index.
  static void expect_readable(const std::vector<T>& values) {
    const byte_vector encoded = encoded_chunk(values);
    if (!encoded.empty()) {
      ASSERT_LT(encoded.size(), values.size() * sizeof(T));
      expect_inflates(deflate<T>::stream_of(encoded), values);
      std::vector<T> restored(values.size());
      ASSERT_EQ(deflate<T>{}.decode_chunk(encoded, restored), status::ok);
      ASSERT_TRUE(same_bits(restored, values));
    }
    byte_vector stream(deflate<T>::max_stream_bytes(static_cast<uint32_t>(values.size())));
    const uint64_t size = deflate<T>::encode_stream(values, stream);
    ASSERT_LE(size, stream.size());
    expect_inflates(const_bytes(stream).subspan(0, size), values);
  }
  static void expect_inflates(const_bytes stream, const std::vector<T>& values) {
    std::vector<T> inflated(values.size());
    const auto room = as_writable_bytes(span<T>(inflated));
    zlib_inflater zlib;
    const auto v = zlib.inflate(stream, room);
    ASSERT_TRUE(v.accepted);
    ASSERT_EQ(v.consumed, stream.size());
    ASSERT_EQ(v.produced, room.size());
    ASSERT_TRUE(same_bits(inflated, values));
  }
};
using widths = ::testing::Types<uint8_t, f16, float, double>;
TYPED_TEST_SUITE(deflate_suite, widths);

TYPED_TEST(deflate_suite, zlib_reads_every_chunk) {
  std::mt19937_64 random(1);
  for (const chunk_content what : chunk_contents)
    for (int round = 0; round < (brief ? 8 : 40); ++round) {
      const uint64_t size = round == 0 ? 65536 : 1 + random() % (uint64_t{1} << (1 + round % 16));
      SCOPED_TRACE(std::to_string(static_cast<int>(what)) + " of " + std::to_string(size));
      const auto data = chunk_of(what, std::max<uint64_t>(size, sizeof(TypeParam)), static_cast<uint64_t>(round));
      ASSERT_NO_FATAL_FAILURE(TestFixture::expect_readable(values_of<TypeParam>(data)));
    }
}

TYPED_TEST(deflate_suite, every_small_size) {
  for (const chunk_content what : {chunk_content::sparse_floats, chunk_content::runs, chunk_content::noise})
    for (uint64_t count = 1; count <= 300; ++count)
      ASSERT_NO_FATAL_FAILURE(
          TestFixture::expect_readable(values_of<TypeParam>(chunk_of(what, count * sizeof(TypeParam), count))))
          << count;
}

TEST(deflate, stores_what_does_not_shrink) {
  for (const uint64_t size : {0, 1, 100, 65535, 65536}) {
    const auto values = values_of<uint8_t>(chunk_of(chunk_content::noise, size));
    byte_vector stream(deflate<uint8_t>::max_stream_bytes(static_cast<uint32_t>(size)));
    const uint64_t used = deflate<uint8_t>::encode_stream(values, stream);
    EXPECT_EQ(used, size + (size > 65535 ? 10 : 5));
    zlib_inflater zlib;
    std::vector<uint8_t> inflated(size);
    const auto v = zlib.inflate(const_bytes(stream).subspan(0, used), as_writable_bytes(span<uint8_t>(inflated)));
    EXPECT_TRUE(v.accepted && v.produced == size && v.consumed == used);
    EXPECT_EQ(inflated, values);
  }
}

TEST(deflate, more_than_a_chunk_is_declined_or_stored) {
  const std::vector<float> values(16'385, 1);
  byte_vector room(deflate<float>::max_stream_bytes(values.size()));
  EXPECT_EQ(deflate<float>{}.encode_chunk(values, room), declined);
  EXPECT_EQ(deflate<float>{}.encode_chunk({}, room), declined);
  EXPECT_EQ(deflate<float>::encode_stream(values, room), room.size());
  std::vector<float> inflated(values.size());
  zlib_inflater zlib;
  EXPECT_TRUE(zlib.inflate(room, as_writable_bytes(span<float>(inflated))).accepted);
  EXPECT_EQ(inflated, values);
  EXPECT_GT(deflate<double>::max_stream_bytes(1u << 29), uint64_t{1} << 32);
}

// -- recorded tensors ----------------------------------------------------------------------------------------------

struct recorded {
  std::string name;
  std::vector<float> values;
};

// Of examples/data, and of the directory that TUCK_MORE_DATA names.
std::vector<recorded> recorded_tensors() {
  std::vector<std::filesystem::path> directories{TUCK_DATA};
  if (const char* more = std::getenv("TUCK_MORE_DATA")) directories.emplace_back(more);
  std::vector<recorded> tensors;
  for (const auto& directory : directories)
    for (const auto& path : tools::npy_files(directory.string())) {
      const tools::npy_file file = tools::read_npy(path.string());
      EXPECT_EQ(file.header.type, dtype::f32) << path;
      tensors.push_back({path.stem().string(), std::vector<float>(file.header.values)});
      std::memcpy(tensors.back().values.data(), file.data().data(), file.data().size());
    }
  EXPECT_GE(tensors.size(), 13u);
  return tensors;
}

template <class Visit> void for_chunks(const std::vector<float>& values, const Visit& visit) {
  constexpr uint64_t chunk = deflate<float>::chunk_bytes / sizeof(float);
  for (uint64_t first = 0; first < values.size(); first += chunk)
    visit(std::vector<float>(values.begin() + static_cast<std::ptrdiff_t>(first),
                             values.begin() + static_cast<std::ptrdiff_t>(std::min(values.size(), first + chunk))));
}

uint64_t encoded_or_raw(const std::vector<float>& chunk) {
  const byte_vector encoded = encoded_chunk(chunk);
  return encoded.empty() ? chunk.size() * sizeof(float) : encoded.size();
}

TEST(deflate, keeps_up_with_zlib_s_runs_on_recorded_tensors) {
  double all = 0;
  const auto tensors = recorded_tensors();
  for (const auto& t : tensors) {
    uint64_t ours = 0, zlib = 0;
    for_chunks(t.values, [&](const std::vector<float>& chunk) {
      ours += encoded_or_raw(chunk);
      zlib += zlib_deflated(as_bytes(span<const float>(chunk)), {6, Z_RLE}).size();
    });
    const double share = static_cast<double>(zlib) / static_cast<double>(ours);
    all += std::log(share) / static_cast<double>(tensors.size());
    EXPECT_GE(share, .97) << t.name;
    std::printf("    %-26s %.3f of zlib -6's ratio with Z_RLE\n", t.name.c_str(), share);
  }
  EXPECT_GE(std::exp(all), 1.05);
  std::printf("    geometric mean %.3f\n", std::exp(all));
}

TEST(deflate, zlib_reads_every_chunk_of_recorded_tensors) {
  for (const auto& t : recorded_tensors())
    for_chunks(t.values, [&](const std::vector<float>& chunk) {
      byte_vector encoded = encoded_chunk(chunk);
      ASSERT_FALSE(encoded.empty()) << t.name;
      std::vector<float> inflated(chunk.size());
      zlib_inflater zlib;
      const const_bytes stream = deflate<float>::stream_of(encoded);
      const auto v = zlib.inflate(stream, as_writable_bytes(span<float>(inflated)));
      ASSERT_TRUE(v.accepted && v.consumed == stream.size()) << t.name;
      ASSERT_TRUE(same_bits(inflated, chunk)) << t.name;
    });
}

// -- lanes ---------------------------------------------------------------------------------------------------------

// How evenly the index shares out a chunk's symbols: the mean of the sub-blocks' over their most.
struct balance {
  uint64_t lanes = 0, most = 0, symbols = 0;

  struct counter {
    static constexpr bool takes_literals_at_once = true;
    uint64_t symbols = 0;
    void put(uint32_t) { ++symbols; }
    void repeat(uint32_t, uint32_t) { ++symbols; }
  };

  explicit balance(const_bytes encoded, uint32_t size) {
    lanes = static_cast<uint8_t>(encoded[encoded.size() - 1]);
    chunk_parts parts;
    EXPECT_TRUE(split(encoded, static_cast<uint32_t>(lanes), parts));
    bit_input in(parts.stream);
    code_lengths lengths;
    precode_memory memory;
    EXPECT_EQ(read_block_header(in, true, lengths, memory), status::ok);
    decode_tables tables;
    build_tables(lengths, tables);
    sub_block part{static_cast<uint32_t>(in.position()), 0, 0, 0, true, false};
    for (uint32_t i = 0; i < lanes; ++i) {
      const index_entry entry = read_entry(parts.index, i);
      part.end_bit = part.first_bit + entry.bits;
      part.end_byte = std::min(part.first_byte + entry.groups * group_bytes, size);
      counter count;
      EXPECT_EQ(decode_sub_block(tables, part, in, count), status::ok);
      most = std::max(most, count.symbols);
      symbols += count.symbols;
      part.first_bit = part.end_bit;
      part.first_byte = part.end_byte;
    }
  }
  double evenness() const { return lanes == 0 ? 1 : static_cast<double>(symbols) / static_cast<double>(lanes * most); }
};

double mean_evenness(const std::vector<float>& values, const char* name) {
  double sum = 0, lanes = 0;
  int chunks = 0;
  for_chunks(values, [&](const std::vector<float>& chunk) {
    const byte_vector encoded = encoded_chunk(chunk);
    ASSERT_FALSE(encoded.empty());
    const balance b(encoded, static_cast<uint32_t>(chunk.size() * sizeof(float)));
    sum += b.evenness();
    lanes += static_cast<double>(b.lanes);
    ++chunks;
  });
  std::printf("    %-26s %5.1f lanes, balance %.3f\n", name, lanes / chunks, sum / chunks);
  return sum / chunks;
}

std::vector<float> gaussian_relu(double sparsity) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<float> values(1 << 17);
  for (float& x : values) x = uniform(random) < sparsity ? 0 : std::abs(normal(random));
  return values;
}

TEST(deflate, lanes_have_equal_shares) {
  EXPECT_GE(mean_evenness(gaussian_relu(0), "dense"), .9);
  EXPECT_GE(mean_evenness(gaussian_relu(.5), "50 % zeros"), .89);
  EXPECT_GE(mean_evenness(gaussian_relu(.9), "90 % zeros"), .9);
  for (const auto& t : recorded_tensors()) EXPECT_GE(mean_evenness(t.values, t.name.c_str()), .8) << t.name;
}

TEST(deflate, the_index_is_a_fortieth_at_most) {
  for (const chunk_content what : chunk_contents)
    for (const uint64_t size : {500, 5000, 16384, 30000, 65536}) {
      const auto encoded = encoded_chunk(values_of<uint8_t>(chunk_of(what, size)));
      if (encoded.empty()) continue;
      const uint32_t n = static_cast<uint8_t>(encoded.back());
      if (n == 0) continue;
      EXPECT_NE(n, 1u);
      EXPECT_LE(index_bytes(n) * index_share, encoded.size());
    }
  for (const double sparsity : {0., .5, .9, .99, .999}) {
    const std::vector<float> values = gaussian_relu(sparsity);
    uint64_t index = 0;
    for_chunks(values, [&](const std::vector<float>& chunk) {
      const byte_vector encoded = encoded_chunk(chunk);
      index += encoded.empty() ? 0 : index_bytes(static_cast<uint8_t>(encoded.back()));
    });
    const uint64_t frame = encoded(deflate<float>{}, values).size();
    EXPECT_LE(static_cast<double>(index), .025 * static_cast<double>(frame)) << sparsity;
  }
}

TEST(deflate, codes_have_eleven_bits_at_most) {
  const auto encoded = encoded_chunk(values_of<uint8_t>(chunk_of(chunk_content::fibonacci, 60'000)));
  ASSERT_FALSE(encoded.empty());
  bit_input in(deflate<uint8_t>::stream_of(encoded));
  code_lengths lengths;
  precode_memory memory;
  ASSERT_EQ(read_block_header(in, true, lengths, memory), status::ok);
  EXPECT_EQ(*std::max_element(lengths.of, lengths.of + lengths.literals), max_literal_bits);
}

// -- what chunks refuse
// ------------------------------------------------------------------------------------------------

// Chunks written by hand: two groups of literals, a sub-block each.
class forged_chunk : public ::testing::Test {
 protected:
  static constexpr uint32_t size = 128;
  static const std::vector<uint32_t>& literals() {
    static const auto code = code_with(286, {{'a', 2}, {'b', 2}, {256, 2}, {260, 3}, {284, 3}});
    return code;
  }
  static deflate_writer begin() {
    deflate_writer w;
    w.begin_dynamic(true, literals(), {2, 2, 2, 2});
    return w;
  }
  static std::string half(char c) { return std::string(64, c); }
  static deflate_writer sound() {
    deflate_writer w = begin();
    w.text(half('a')).text(half('b')).end();
    return w;
  }

  struct entry {
    uint32_t groups, bits;
  };
  static byte_vector with_index(byte_vector stream, const std::vector<entry>& index) {
    for (const entry& e : index)
      for (const uint32_t byte : {e.groups - 1, e.bits & 255, e.bits >> 8})
        stream.push_back(static_cast<std::byte>(byte));
    stream.push_back(static_cast<std::byte>(index.size()));
    return stream;
  }
  static status decode(const byte_vector& encoded, uint32_t values = size) {
    std::vector<uint8_t> restored(values);
    return deflate<uint8_t>{}.decode_chunk(encoded, restored);
  }
};

TEST_F(forged_chunk, is_read_with_and_without_index) {
  EXPECT_EQ(decode(with_index(sound(), {})), status::ok);
  EXPECT_EQ(decode(with_index(sound(), {{2, 256}})), status::ok);
  EXPECT_EQ(decode(with_index(sound(), {{1, 128}, {1, 128}})), status::ok);
  EXPECT_EQ(decode(with_index(begin()
                                  .text("ab")
                                  .match(6, 2)
                                  .match(6, 1)
                                  .match(6, 4)
                                  .text("bbbb")
                                  .match(6, 4)
                                  .text(std::string(96, 'a'))
                                  .end(),
                              {}),
                   126),
            status::ok);
}
TEST_F(forged_chunk, nothing_at_all) {
  EXPECT_EQ(decode({}), status::deflate_ends_early);
  EXPECT_EQ(decode({std::byte{0}}), status::deflate_index);
}
TEST_F(forged_chunk, trailing_bytes) {
  byte_vector stream = sound();
  stream.push_back({});
  EXPECT_EQ(decode(with_index(stream, {})), status::deflate_trailing);
  EXPECT_EQ(decode(with_index(stream, {{1, 128}, {1, 128}})), status::deflate_trailing);
}
TEST_F(forged_chunk, too_short) {
  EXPECT_EQ(decode(with_index(sound(), {}), size + 1), status::deflate_too_short);
  EXPECT_EQ(decode(with_index(sound(), {{1, 128}, {2, 130}}), size + 1), status::deflate_too_short);
}
TEST_F(forged_chunk, too_long) {
  EXPECT_EQ(decode(with_index(sound(), {}), size - 1), status::deflate_too_long);
  EXPECT_EQ(decode(with_index(sound(), {{1, 128}, {1, 126}}), size - 1), status::deflate_too_long);
  EXPECT_EQ(decode(with_index(begin().text(half('a')).text(std::string(60, 'b')).match(6, 1).end(), {})),
            status::deflate_too_long);
}
TEST_F(forged_chunk, ends_early) {
  const byte_vector stream = sound();
  for (size_t n = 1; n < stream.size(); ++n)
    ASSERT_EQ(decode(with_index({stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(n)}, {})),
              status::deflate_ends_early)
        << n;
}
TEST_F(forged_chunk, no_final_block) {
  deflate_writer w;
  w.begin_dynamic(false, literals(), {1}).text(half('a')).text(half('b')).end();
  EXPECT_EQ(decode(with_index(w, {})), status::deflate_not_indexed);
}
TEST_F(forged_chunk, blocks_of_other_types) {
  deflate_writer fixed, stored, unknown;
  fixed.begin_fixed(true).text(half('a')).text(half('b')).end();
  stored.stored(true, bytes_of(half('a') + half('b')));
  unknown.bits(7, 3).bits(0, 29);
  EXPECT_EQ(decode(with_index(fixed, {})), status::deflate_not_indexed);
  EXPECT_EQ(decode(with_index(stored, {})), status::deflate_not_indexed);
  EXPECT_EQ(decode(with_index(unknown, {})), status::deflate_block_type);
}
TEST_F(forged_chunk, codes_that_are_too_long) {
  std::vector<uint32_t> steep(257);  // codes of 1 to 12 bits
  for (uint32_t i = 0; i < 12; ++i) steep['a' + i] = i + 1;
  steep[256] = 12;
  deflate_writer literal, distance;
  literal.begin_dynamic(true, steep, {1}).text(half('a')).text(half('b')).end();
  EXPECT_EQ(decode(with_index(literal, {})), status::deflate_not_indexed);
  std::vector<uint32_t> distances;
  for (uint32_t i = 1; i <= 8; ++i) distances.push_back(i);
  distances.push_back(8);
  distance.begin_dynamic(true, literals(), distances).text(half('a')).text(half('b')).end();
  EXPECT_EQ(decode(with_index(distance, {})), status::deflate_not_indexed);
}
TEST_F(forged_chunk, distances_that_are_no_element_s) {
  EXPECT_EQ(decode(with_index(begin().text(half('a')).match(6, 3).text(std::string(58, 'b')).end(), {})),
            status::deflate_not_indexed);
}
TEST_F(forged_chunk, a_match_that_leaves_its_sub_block) {
  const auto stream = begin().text(half('a')).match(6, 1).text(std::string(58, 'a')).end();
  EXPECT_EQ(decode(with_index(stream, {})), status::ok);  // of one sub-block
  EXPECT_EQ(decode(with_index(stream, {{1, 128}, {1, 3 + 2 + 116}})), status::deflate_distance);
}
TEST_F(forged_chunk, a_match_across_the_begin_of_a_sub_block) {
  const auto stream = begin().text(std::string(60, 'a')).match(6, 1).text(std::string(62, 'a')).end();
  EXPECT_EQ(decode(with_index(stream, {})), status::ok);
  EXPECT_EQ(decode(with_index(stream, {{1, 125}, {1, 124}})), status::deflate_index);
}
TEST_F(forged_chunk, indexes_that_do_not_fit) {
  const byte_vector stream = sound();
  const auto answer = [&](const std::vector<entry>& index) { return decode(with_index(stream, index)); };
  EXPECT_EQ(answer({{1, 128}}), status::deflate_index);              // a group is missing
  EXPECT_EQ(answer({{2, 128}, {1, 128}}), status::deflate_index);    // one too many
  EXPECT_EQ(answer({{1, 126}, {1, 130}}), status::deflate_index);    // shifted by a symbol
  EXPECT_EQ(answer({{1, 130}, {1, 126}}), status::deflate_index);    // the other way
  EXPECT_EQ(answer({{1, 127}, {1, 129}}), status::deflate_index);    // and by half of one
  EXPECT_EQ(answer({{1, 128}, {1, 126}}), status::deflate_index);    // too short
  EXPECT_EQ(answer({{1, 128}, {1, 60000}}), status::deflate_index);  // more bits than there are
  byte_vector endless = stream;
  endless.push_back(std::byte{255});
  EXPECT_EQ(decode(endless), status::deflate_index);  // more index than there is chunk
}
TEST_F(forged_chunk, an_end_before_the_last_sub_block) {
  const auto stream = begin().text(half('a')).end().text(half('b')).end();
  EXPECT_EQ(decode(with_index(stream, {{1, 128}, {1, 130}})), status::deflate_too_short);
}
TEST_F(forged_chunk, no_end) {
  EXPECT_EQ(decode(with_index(begin().text(half('a')).text(half('b')).text("a").end(), {})), status::deflate_too_long);
}
TEST_F(forged_chunk, a_codeword_that_is_none) {
  deflate_writer w;
  w.begin_dynamic(true, code_with(257, {{256, 1}}), {0}).bits(1, 1).bits(0, 20);
  EXPECT_EQ(decode(with_index(w, {})), status::deflate_codeword);
}

// -- anything ------------------------------------------------------------------------------------------------------

// Whatever decode_chunk accepts, zlib does, with the same bytes; and what zlib accepts is refused for what chunks ask
// beyond RFC 1951, or for the index.
TEST(deflate_fuzz, a_million_damaged_chunks) {
  std::mt19937_64 random(41);
  std::vector<std::pair<byte_vector, uint64_t>> sources;
  for (int i = 0; i < 400; ++i) {
    const auto what = chunk_contents[random() % std::size(chunk_contents)];
    const auto values = values_of<f16>(chunk_of(what, 2 + random() % (i % 8 == 0 ? 6000 : 600), random()));
    const byte_vector encoded = encoded_chunk(values);
    if (!encoded.empty()) sources.emplace_back(encoded, values.size());
  }
  zlib_inflater zlib;
  std::map<status, int> answers;
  byte_vector encoded;
  std::vector<f16> restored, inflated;
  for (int round = 0; round < (brief && !long_run() ? 100'000 : 1'000'000); ++round) {
    const auto& [source, count] = sources[random() % sources.size()];
    encoded = source;
    damage(encoded, random);
    restored.assign(count, {});
    inflated.assign(count, {});
    const status s = deflate<f16>{}.decode_chunk(encoded, restored);
    ASSERT_TRUE(s == status::ok || is_payload_error(s));
    ++answers[s];
    const const_bytes stream = deflate<f16>::stream_of(encoded);
    const auto v = zlib.inflate(stream, as_writable_bytes(span<f16>(inflated)));
    if (s == status::ok) {
      ASSERT_TRUE(v.accepted && v.consumed == stream.size() && v.produced == 2 * count);
      ASSERT_TRUE(same_bits(restored, inflated));
    } else if (v.accepted && v.consumed == stream.size() && v.produced == 2 * count) {
      ASSERT_TRUE(s == status::deflate_index || s == status::deflate_not_indexed ||
                  (s == status::deflate_distance && static_cast<uint8_t>(encoded.back()) != 0))
          << message(s);
    }
  }
  EXPECT_GT(answers[status::ok], 1000);
  EXPECT_GE(answers.size(), 12u);
}

}  // namespace
}  // namespace tuck::test
