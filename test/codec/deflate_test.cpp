// deflate-lite on the host: zlib reads what it writes, it keeps to its limits, and it refuses all else.
#include "support/deflate_chunks.hpp"
#include "support/effort.hpp"
#include "support/frames.hpp"
#include "support/npy.hpp"

#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include <tuck/codec/inflate/inflate.hpp>

namespace tuck::test {
namespace {

using namespace deflate_format;

template <class T> class deflate_suite : public ::testing::Test {
 protected:
  // The stream is one that zlib reads to its last byte.
  static void expect_readable(const std::vector<T>& values) {
    const byte_vector encoded = encoded_chunk(values);
    if (!encoded.empty()) {
      ASSERT_LT(encoded.size(), values.size() * sizeof(T));
      expect_inflates(deflate<T>::stream_of(encoded), values);
      std::vector<T> restored(values.size());
      ASSERT_EQ(deflate<T>{}.decode_chunk(encoded, restored), status::ok);
      ASSERT_TRUE(same_bits(restored, values));
    }
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

TEST(deflate, noise_and_more_than_a_chunk_are_declined) {
  for (const uint64_t size : {1, 100, 65535, 65536}) {
    const auto noise = values_of<uint8_t>(chunk_of(chunk_content::noise, size));
    EXPECT_TRUE(encoded_chunk(noise).empty()) << size;
  }
  const std::vector<float> values(16'385, 1);
  byte_vector room(4 * values.size());
  EXPECT_EQ(deflate<float>{}.encode_chunk(values, room), incompressible);
  EXPECT_EQ(deflate<float>{}.encode_chunk({}, room), incompressible);
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
    EXPECT_GE(share, .94) << t.name;
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

// What the index of an encoded chunk says.
struct chunk_index {
  chunk_footer footer;
  std::vector<uint32_t> cells, bits;

  explicit chunk_index(const_bytes encoded)
      : footer(chunk_footer::of(load_unaligned<uint32_t>(encoded.data() + encoded.size() - 4))) {
    EXPECT_EQ(encoded.size(), footer.begin() + 4);
    bit_reader in(encoded.subspan(footer.stream));
    for (uint32_t i = 0; i < whole_segments; ++i) {
      in.refill();
      in.read_bits(segment_bits);
    }
    for (uint32_t i = 0; i < footer.sub_blocks; ++i) {
      in.refill();
      cells.push_back(in.read_bits(footer.cell_bits) + 1);
      bits.push_back(in.read_bits(footer.size_bits));
    }
  }
  // How evenly bits are shared out, which take about as long each.
  double evenness() const {
    const double sum = std::accumulate(bits.begin(), bits.end(), 0.);
    return sum / (static_cast<double>(bits.size()) * *std::max_element(bits.begin(), bits.end()));
  }
};

double mean_evenness(const std::vector<float>& values, const char* name, double& lanes) {
  double sum = 0;
  int chunks = 0;
  lanes = 0;
  for_chunks(values, [&](const std::vector<float>& chunk) {
    if (chunk.size() != 4096) return;
    const byte_vector encoded = encoded_chunk(chunk);
    ASSERT_FALSE(encoded.empty());
    const chunk_index index(encoded);
    sum += index.evenness();
    lanes += index.footer.sub_blocks;
    ++chunks;
  });
  lanes /= chunks;
  std::printf("    %-26s %5.1f lanes, balance %.3f\n", name, lanes, sum / chunks);
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
  double lanes = 0;
  EXPECT_GE(mean_evenness(gaussian_relu(0), "dense", lanes), .9);
  EXPECT_EQ(lanes, 64);
  EXPECT_GE(mean_evenness(gaussian_relu(.6), "60 % zeros", lanes), .85);
  EXPECT_GE(lanes, 58);
  EXPECT_GE(mean_evenness(gaussian_relu(.9), "90 % zeros", lanes), .85);
  for (const auto& t : recorded_tensors()) EXPECT_GE(mean_evenness(t.values, t.name.c_str(), lanes), .75) << t.name;
}

TEST(deflate, the_index_is_small) {
  for (const double sparsity : {0., .5, .9, .99}) {
    uint64_t index = 0, all = 0;
    for_chunks(gaussian_relu(sparsity), [&](const std::vector<float>& chunk) {
      const byte_vector encoded = encoded_chunk(chunk);
      if (encoded.empty()) return;
      index += encoded.size() - deflate<float>::stream_of(encoded).size();
      all += encoded.size();
    });
    EXPECT_LE(static_cast<double>(index), (sparsity > .95 ? .07 : .03) * static_cast<double>(all)) << sparsity;
  }
}

TEST(deflate, codes_have_ten_bits_at_most) {
  const auto encoded = encoded_chunk(values_of<uint8_t>(chunk_of(chunk_content::fibonacci, 16'000)));
  ASSERT_FALSE(encoded.empty());
  bit_reader in(deflate<uint8_t>::stream_of(encoded));
  block codes;
  ASSERT_EQ(codes.read(in, false), status::ok);
  EXPECT_TRUE(codes.is_final);
  EXPECT_EQ(codes.type, dynamic);
  EXPECT_EQ(codes.literal_count, coded_symbols);
  EXPECT_EQ(*std::max_element(codes.length, codes.length + coded_symbols), max_length);
}

// -- the format ------------------------------------------------------------------------------------------------------

// Tokens as layout.hpp has them, found the long way: literals 1, near matches their length, far ones minus it.
std::vector<int> tokens_of(const byte_vector& data, uint32_t width, const std::vector<uint32_t>& begins) {
  std::vector<int> kind(data.size());        // 0 literal, 1 near, 2 far
  std::vector<bool> begin(data.size() + 1);  // of a run
  std::vector<uint32_t> part(data.size());
  for (uint32_t i = 0, p = 0; i < data.size(); ++i) {
    if (p + 1 < begins.size() && i == begins[p + 1]) ++p;
    part[i] = p;
  }
  for (const int wanted : {1, 2}) {
    if (wanted == 2 && width == 1) break;
    const uint32_t distance = wanted == 1 ? 1 : width;
    const auto is = [&](uint32_t i) {
      return kind[i] != 1 && i >= distance && part[i - distance] == part[i] && data[i] == data[i - distance];
    };
    const auto is_full = [&](uint32_t from) {
      uint32_t k = from;
      while (k < from + 128 && k < data.size() && is(k)) ++k;
      return k == from + 128;
    };
    const auto ends_before = [&](uint32_t i) {
      return i % 1024 == 0 || part[i] != part[i - 1] || (i % 256 == 0 && (is_full(i - 128) || is_full(i)));
    };
    std::vector<std::pair<uint32_t, uint32_t>> runs;
    for (uint32_t i = 0; i < data.size(); ++i) {
      uint32_t k = i;
      while (k < data.size() && is(k) && (k == i || !ends_before(k))) ++k;
      if (k - i >= 3) runs.emplace_back(i, k);
      if (k != i) i = k - 1;
    }
    for (const auto& [from, to] : runs) {
      std::fill(kind.begin() + from, kind.begin() + to, wanted);
      begin[from] = true;
    }
  }
  std::vector<int> tokens;
  for (uint32_t i = 0; i < data.size();) {
    uint32_t k = i + 1;
    while (kind[i] != 0 && k < data.size() && kind[k] == kind[i] && !begin[k]) ++k;
    tokens.push_back(kind[i] == 0 ? 1 : static_cast<int>(k - i) * (kind[i] == 1 ? 1 : -1));
    i = k;
  }
  return tokens;
}

TEST(deflate, tokens_are_those_of_the_layout) {
  std::mt19937_64 random(7);
  for (const chunk_content what : chunk_contents)
    for (int round = 0; round < 6; ++round) {
      const byte_vector data = chunk_of(what, 4 * (1 + random() % 3000), random());
      const auto values = values_of<float>(data);
      const byte_vector encoded = encoded_chunk(values);
      if (encoded.empty()) continue;
      const chunk_index index(encoded);
      std::vector<uint32_t> begins{0};
      for (const uint32_t cells : index.cells) begins.push_back(begins.back() + cells * cell_bytes);
      begins.pop_back();
      bit_reader in(deflate<float>::stream_of(encoded));
      block codes;
      ASSERT_EQ(codes.read(in, false), status::ok);
      codes.fill(0, 1);
      for (const int expected : tokens_of(data, 4, begins)) {
        const token t = read_token(in, codes);
        ASSERT_TRUE(t.is_literal() || t.is_match());
        ASSERT_EQ(t.is_literal() ? 1 : static_cast<int>(t.length()) * (t.distance() == 1 ? 1 : -1), expected);
      }
    }
}

TEST(deflate, the_header_is_that_of_the_layout) {
  const auto expect_prefix = []<uint32_t Width>(std::integral_constant<uint32_t, Width>) {
    std::byte room[16] = {};
    bit_writer out(room);
    out.put(1 | dynamic << 1, 3);
    out.put(coded_symbols - first_length_symbol, 5);
    out.put((Width == 8 ? 6 : Width) - 1, 5);
    out.put(18 - 4, 4);
    for (uint32_t k = 0; k < 18; ++k) {
      const uint32_t symbol = precode_order(k);
      out.put(symbol < 11 || symbol > 16 ? precode::length(precode::rank(symbol)) : 0, 3);
    }
    EXPECT_EQ(out.position(), prefix_bits);
    out.finish();
    for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(load_unaligned<uint32_t>(room + 4 * i), prefix_word<Width>(i));
  };
  expect_prefix(std::integral_constant<uint32_t, 1>{});
  expect_prefix(std::integral_constant<uint32_t, 2>{});
  expect_prefix(std::integral_constant<uint32_t, 4>{});
  expect_prefix(std::integral_constant<uint32_t, 8>{});
}

TEST(deflate, the_header_s_code_is_complete) {
  uint32_t space = 0;
  for (uint32_t rank = 0; rank < 13; ++rank) {
    EXPECT_EQ(precode::code(rank), space);
    EXPECT_EQ(precode::rank(precode::symbol(rank)), rank);
    for (uint32_t bits = space; bits < space + (128 >> precode::length(rank)); ++bits)
      EXPECT_EQ(precode::rank_at(bits), rank);
    space += 128 >> precode::length(rank);
  }
  EXPECT_EQ(space, 128u);
}

// -- what chunks refuse ----------------------------------------------------------------------------------------------

TEST(deflate, refuses_what_is_not_its_own) {
  const auto values = gaussian_relu(.6);
  const std::vector<float> chunk(values.begin(), values.begin() + 4096);
  const byte_vector sound = encoded_chunk(chunk);
  const chunk_index index(sound);
  const auto decode = [&](const byte_vector& encoded, size_t count = 4096) {
    std::vector<float> restored(count);
    return deflate<float>{}.decode_chunk(encoded, restored);
  };
  const auto flipped = [&](size_t bit) {
    byte_vector encoded = sound;
    encoded[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    return encoded;
  };
  ASSERT_EQ(decode(sound), status::ok);
  EXPECT_EQ(decode({}), status::bad_payload);
  EXPECT_EQ(decode(sound, 4095), status::bad_payload);
  EXPECT_EQ(decode(sound, 1000), status::bad_payload);
  for (size_t size = 0; size < sound.size(); size += 4)
    ASSERT_EQ(decode({sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(size)}), status::bad_payload) << size;
  const chunk_footer& footer = index.footer;
  const auto expect_refused = [&](uint32_t first, uint32_t last) {
    for (uint32_t bit = first; bit < last; ++bit) EXPECT_EQ(decode(flipped(bit)), status::bad_payload) << bit;
  };
  expect_refused(0, prefix_bits);
  expect_refused(footer.segment(0), footer.segment(whole_segments));    // where lengths are
  expect_refused(footer.entry(0), footer.entry(footer.sub_blocks));     // cells and bits of sub-blocks
  expect_refused(footer.entry(footer.sub_blocks), 8 * footer.begin());  // padding
  expect_refused(8 * footer.begin(), 8 * footer.begin() + 32);          // where all of this is
}

// Wider fields and a single sub-block of all cells are as good.
TEST(deflate, accepts_other_widths_of_entries) {
  const std::vector<float> values(200, 1.f);
  const byte_vector sound = encoded_chunk(values);
  const chunk_index index(sound);
  ASSERT_EQ(index.footer.sub_blocks, 1u);
  for (const uint32_t cell_bits : {index.footer.cell_bits, max_cell_bits, max_cell_bits + 1})
    for (const uint32_t size_bits : {index.footer.size_bits, max_size_bits, max_size_bits + 1}) {
      const chunk_footer footer{index.footer.stream, cell_bits, size_bits, 1};
      byte_vector encoded(footer.begin() + 8);
      std::copy_n(sound.begin(), footer.stream, encoded.begin());
      bit_writer out(encoded.data() + footer.stream);
      for (uint32_t i = 0; i < whole_segments; ++i)
        out.put(bit_window(sound.data(), index.footer.segment(i)) & low_mask(segment_bits), segment_bits);
      out.put(index.cells[0] - 1, cell_bits);
      out.put(index.bits[0], size_bits);
      out.finish();
      encoded.resize(footer.begin() + 4);
      store_unaligned(encoded.data() + footer.begin(), footer.packed());
      std::vector<float> restored(values.size());
      const bool is_sound = cell_bits <= max_cell_bits && size_bits <= max_size_bits;
      EXPECT_EQ(deflate<float>{}.decode_chunk(encoded, restored), is_sound ? status::ok : status::bad_payload);
      EXPECT_EQ(restored == values, is_sound);
    }
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
      ASSERT_EQ(s, status::bad_payload) << message(s);
    }
  }
  EXPECT_GT(answers[status::ok], 1000);
}

}  // namespace
}  // namespace tuck::test
