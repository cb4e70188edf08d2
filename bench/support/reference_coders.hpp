// What the quantize codec is measured by: the shapes of two well-known compressors, as far as sizes go. Plain functions
// that favour neither speed nor space; they count bytes and write none.
//
// A bound of eb turns a value x into the code q = round(x / (2 eb)), which stands for 2 eb q.
#pragma once

#include <tuck/core/span.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace tuck::bench {

// Ties away from zero. Values are finite and less than 2^62 bounds from zero, and the bound is not 0.
inline std::vector<int64_t> quantized(span<const float> values, double bound) {
  std::vector<int64_t> codes;
  codes.reserve(values.size());
  for (const float value : values) codes.push_back(std::llround(value / (2 * bound)));
  return codes;
}

inline float restored(int64_t code, double bound) { return static_cast<float>(2 * bound * static_cast<double>(code)); }

// The largest |x - x'|, with x' rounded to the element as it would be stored. Both have the same size.
inline double max_error(span<const float> values, span<const int64_t> codes, double bound) {
  double most = 0;
  for (uint64_t i = 0; i < values.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(values[i]) - restored(codes[i], bound)));
  return most;
}

inline uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// cuSZp's shape. A block of 32 codes: a byte for the width of the largest difference from the code before, the first
// code of a block being its own difference; unless the width is 0, 32 signs and 32 magnitudes of that width. The last
// block is as long as any other.
inline uint64_t plain_difference_bytes(span<const int64_t> codes) {
  constexpr uint64_t block = 32;
  uint64_t total = 0;
  for (uint64_t begin = 0; begin < codes.size(); begin += block) {
    uint64_t any = 0;
    int64_t before = 0;
    for (uint64_t i = begin; i < std::min(begin + block, codes.size()); ++i) {
      any |= magnitude(codes[i] - before);
      before = codes[i];
    }
    const auto width = static_cast<uint64_t>(std::bit_width(any));
    total += 1 + (width == 0 ? 0 : block / 8 * (1 + width));
  }
  return total;
}

// Code lengths of an optimal prefix code; 0 where the frequency is 0. Where there is only one symbol, it takes a bit.
inline std::vector<uint32_t> huffman_lengths(span<const uint64_t> frequencies) {
  using weighted = std::pair<uint64_t, size_t>;  // and the node's number
  std::priority_queue<weighted, std::vector<weighted>, std::greater<>> roots;
  for (size_t symbol = 0; symbol < frequencies.size(); ++symbol)
    if (frequencies[symbol] != 0) roots.emplace(frequencies[symbol], symbol);
  std::vector<uint32_t> lengths(frequencies.size(), 0);
  if (roots.size() == 1) lengths[roots.top().second] = 1;
  if (roots.size() <= 1) return lengths;

  // Inner nodes get the numbers after the symbols; a parent's is above its children's, so depths follow from above.
  std::vector<size_t> parent(frequencies.size());
  while (roots.size() > 1) {
    uint64_t weight = 0;
    for (int child = 0; child < 2; ++child) {
      weight += roots.top().first;
      parent[roots.top().second] = parent.size();
      roots.pop();
    }
    roots.emplace(weight, parent.size());
    parent.push_back(0);
  }
  std::vector<uint32_t> depth(parent.size(), 0);
  for (size_t node = parent.size() - 1; node-- > 0;)
    if (node >= frequencies.size() || frequencies[node] != 0) depth[node] = depth[parent[node]] + 1;
  std::copy_n(depth.begin(), lengths.size(), lengths.begin());
  return lengths;
}

// cuSZ's shape. Differences from the code before, over the whole tensor, by one Huffman code: 1024 symbols centred on
// zero, and an escape with 32 bits behind it for the others. The table of code lengths takes a byte a symbol, from the
// first that occurs to the last.
inline uint64_t huffman_difference_bytes(span<const int64_t> codes) {
  constexpr uint64_t symbols = 1024, escape = symbols, escape_bits = 32;
  std::vector<uint64_t> frequencies(symbols + 1, 0);
  int64_t before = 0;
  for (const int64_t code : codes) {
    const auto symbol = static_cast<uint64_t>(code - before) + symbols / 2;  // wraps far above where below
    ++frequencies[symbol < symbols ? symbol : escape];
    before = code;
  }
  const std::vector<uint32_t> lengths = huffman_lengths(frequencies);
  uint64_t bits = escape_bits * frequencies[escape];
  for (size_t symbol = 0; symbol < lengths.size(); ++symbol) bits += frequencies[symbol] * lengths[symbol];
  const auto occurs = [](uint32_t length) { return length != 0; };
  const auto first = std::find_if(lengths.begin(), lengths.end(), occurs);
  const auto last = std::find_if(lengths.rbegin(), lengths.rend(), occurs).base();
  return (bits + 7) / 8 + (first < last ? static_cast<uint64_t>(last - first) : 0);
}

}  // namespace tuck::bench
