// What to deflate, and streams that are nearly right: short ones of all kinds of encoders, damaged here and there.
#pragma once

#include "support/tensors.hpp"
#include "support/zlib.hpp"

#include <cstring>

namespace tuck::test {

enum class content { text, random, constant, sparse_floats };
inline constexpr content contents[] = {content::text, content::random, content::constant, content::sparse_floats};

inline byte_vector data_of(content what, uint64_t size, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  byte_vector data(size);
  switch (what) {
    case content::text: {
      constexpr std::string_view words[] = {"the ", "gradient ", "of ",    "a ",  "tensor ",
                                            "is ",  "one ",      "more\n", "and "};
      for (uint64_t i = 0; i < size;)
        for (char c : words[random() % std::size(words)])
          if (i < size) data[i++] = static_cast<std::byte>(c);
      break;
    }
    case content::random:
      for (auto& byte : data) byte = static_cast<std::byte>(random());
      break;
    case content::constant: std::fill(data.begin(), data.end(), std::byte{0x5a}); break;
    case content::sparse_floats: {
      std::normal_distribution<float> normal(-0.5f, 1);
      for (uint64_t i = 0; i < size; i += 4) {
        const float x = std::max(normal(random), 0.0f);
        std::memcpy(data.data() + i, &x, std::min<uint64_t>(4, size - i));
      }
      break;
    }
  }
  return data;
}

inline constexpr int zlib_strategies[] = {Z_DEFAULT_STRATEGY, Z_FILTERED, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED};

// Streams of 1 to about 400 bytes, most of them wrong, each with a room for its output: the same ones for a seed.
class damaged_streams {
 public:
  struct specimen {
    byte_vector stream;
    uint64_t room;
  };

  explicit damaged_streams(uint64_t seed) : random_(seed) {
    for (uint64_t i = 0; i < 400; ++i) {
      const uint64_t size = i % 3 == 0 ? below(2000) : below(400);
      const zlib_settings how{std::array{0, 1, 6, 9}[i % 4], zlib_strategies[i % std::size(zlib_strategies)],
                              i % 7 == 0 ? 1 : 8};
      byte_vector stream = zlib_deflated(data_of(contents[below(std::size(contents))], size, i), how);
      if (stream.size() <= 400) sources_.push_back({std::move(stream), size});
    }
    for (int i = 0; i < 10; ++i) add_odd_ones();
  }

  specimen next() {
    specimen s = source();
    for (uint64_t times = below(8); times > 4; --times) damage(s.stream);
    if (below(16) != 0) damage(s.stream);
    switch (below(8)) {
      case 0: s.room = below(s.room + 1); break;
      case 1: s.room += below(3000); break;
      default: s.room += below(4) * 16; break;
    }
    return s;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  const specimen& source() { return sources_[below(sources_.size())]; }

  // What zlib's encoder never writes.
  void add_odd_ones() {
    std::vector<uint32_t> steep(257);  // codes of 1 to 15 bits
    for (uint32_t i = 0; i < 15; ++i) steep[i == 14 ? 256 : i + 'a'] = i + 1;
    steep['z'] = 15;
    deflate_writer w;
    w.begin_dynamic(false, steep, {2, 2, 2, 2}).text("abcdefghijklmnzznmlkjihgfedcba").end();
    w.stored(false, {}).begin_fixed(false).text("hello ").match(258, 6).match(3, 36).end();
    w.begin_dynamic(true, code_with(286, {{'x', 2}, {256, 2}, {284, 2}, {285, 2}}), {1});
    sources_.push_back(
        {w.symbol('x').symbol(284).bits(31, 5).distance_symbol(0).match(258, 1).end(), 30 + 6 + 261 + 517});
    deflate_writer empty;
    for (int i = 0; i < 20; ++i)
      empty.begin_fixed(false).end().stored(false, {}).begin_dynamic(false, code_with(257, {{256, 1}}), {0}).end();
    sources_.push_back({deflate_writer(empty).begin_fixed(true).end(), 0});
  }

  void damage(byte_vector& s) {
    if (s.empty()) return;
    const auto at = static_cast<std::ptrdiff_t>(below(s.size()));
    const auto any = static_cast<std::byte>(random_());
    switch (below(8)) {
      case 0: s.resize(static_cast<size_t>(at)); break;
      case 1: s[static_cast<size_t>(at)] = any; break;
      case 2: s.insert(s.begin() + at, any); break;
      case 3: s.erase(s.begin() + at); break;
      case 4: {
        const byte_vector& other = source().stream;
        const auto from = static_cast<std::ptrdiff_t>(below(other.size()));
        s.resize(static_cast<size_t>(at));
        s.insert(s.end(), other.begin() + from, other.end());
        break;
      }
      case 5: s.push_back(any); break;
      default: {
        const uint64_t bit = below(3) == 0 ? below(std::min<uint64_t>(8 * s.size(), 64)) : below(8 * s.size());
        s[bit / 8] ^= std::byte{1} << (bit % 8);
      }
    }
  }

  std::mt19937_64 random_;
  std::vector<specimen> sources_;
};

}  // namespace tuck::test
