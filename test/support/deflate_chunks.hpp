// What is hard for deflate-lite: chunks of all that its encoder decides on, and indexes that are wrong.
#pragma once

#include "support/deflate_samples.hpp"

#include <tuck/codec/deflate/deflate.hpp>

namespace tuck::test {

enum class chunk_content {
  text,
  noise,
  sparse_floats,
  all_but_one,  // equal
  two_symbols,
  fibonacci,        // counts of symbols that want codes of more than 10 bits
  few_kinds,        // of short runs of zeros, so that literals are cheaper
  runs,             // of lengths about the longest match
  long_runs,        // across units and sub-blocks
  elements,         // repeated, 8 bytes each, and halves and quarters of them
  dense_then_zero,  // a tensor that ends early
};
inline constexpr chunk_content chunk_contents[] = {
    chunk_content::text,        chunk_content::noise,     chunk_content::sparse_floats,  chunk_content::all_but_one,
    chunk_content::two_symbols, chunk_content::fibonacci, chunk_content::few_kinds,      chunk_content::runs,
    chunk_content::long_runs,   chunk_content::elements,  chunk_content::dense_then_zero};

inline byte_vector chunk_of(chunk_content what, uint64_t size, uint64_t seed = 1) {
  std::mt19937_64 random(seed * 977 + static_cast<uint64_t>(what));
  const auto below = [&](uint64_t n) { return random() % n; };
  byte_vector data;
  const auto run = [&](uint64_t length, uint64_t byte) {
    data.insert(data.end(), std::min(length, size - data.size()), static_cast<std::byte>(byte));
  };
  while (data.size() < size) switch (what) {
      case chunk_content::text: return data_of(content::text, size, seed);
      case chunk_content::noise: return data_of(content::random, size, seed);
      case chunk_content::sparse_floats: return data_of(content::sparse_floats, size, seed);
      case chunk_content::all_but_one:
        run(size, 7);
        data[below(size)] = std::byte{9};
        break;
      case chunk_content::two_symbols: run(1, below(2)); break;
      case chunk_content::fibonacci:
        for (uint64_t a = 1, b = 1, symbol = 0; symbol < 25; ++symbol) {
          for (uint64_t i = 0; i < a; ++i) run(1, symbol);
          b += a;
          a = b - a;
        }
        std::shuffle(data.begin(), data.end(), random);
        break;
      case chunk_content::few_kinds:
        run(1 + below(10), 0);
        run(1, 1 + below(3));
        break;
      case chunk_content::runs: run(256 * below(4) + below(6), below(3)); break;
      case chunk_content::long_runs:
        run(below(20'000), below(2) * 77);
        run(below(40), below(256));
        break;
      case chunk_content::elements: {
        const uint64_t period = uint64_t{1} << below(4), first = data.size();
        for (uint64_t i = 0; i < period; ++i) run(1, below(256));
        for (uint64_t left = below(60); left-- != 0 && data.size() < size;)
          data.push_back(data[std::max(first, data.size() - std::min<uint64_t>(period, data.size()))]);
        break;
      }
      case chunk_content::dense_then_zero:
        while (data.size() < size / 3) run(1, below(40));
        run(size, 0);
        break;
    }
  return data;
}

// As many whole values as there are.
template <element T> std::vector<T> values_of(const byte_vector& data) {
  std::vector<T> values(data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), data.data(), values.size() * sizeof(T));
  return values;
}

template <element T> byte_vector encoded_chunk(const std::vector<T>& values) {
  const deflate<T> codec;
  byte_vector encoded(codec.max_chunk_bytes(static_cast<uint32_t>(values.size())));
  encoded.resize(codec.encode_chunk(values, encoded));
  return encoded;
}

// Damages an encoded chunk: the stream, the index or what joins them.
inline void damage(byte_vector& encoded, std::mt19937_64& random) {
  if (encoded.empty()) return;
  const size_t index = std::min<size_t>(encoded.size(), 24 + 2 * static_cast<uint8_t>(encoded.back()));
  for (uint64_t changes = 1 + random() % 3; changes-- != 0;) {
    size_t at = random() % encoded.size();
    if (random() % 2 == 0) at = encoded.size() - 1 - random() % index;
    if (random() % 8 == 0) at = random() % std::min<size_t>(encoded.size(), 100);
    encoded[at] =
        random() % 4 == 0 ? static_cast<std::byte>(random()) : encoded[at] ^ static_cast<std::byte>(1 << random() % 8);
  }
  if (random() % 16 == 0) encoded.resize(random() % encoded.size());
  if (random() % 16 == 0) encoded.insert(encoded.end(), 4, {});
  if (random() % 16 == 0) encoded.push_back(static_cast<std::byte>(random() % 4));
}

}  // namespace tuck::test
