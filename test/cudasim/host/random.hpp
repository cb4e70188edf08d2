// The random choices of both simulators, which a seed repeats.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace cudasim::detail {

// splitmix64: any two seeds give unrelated sequences, and one step is a few instructions.
class random {
 public:
  explicit random(std::uint64_t seed = 0) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  unsigned below(std::size_t n) { return static_cast<unsigned>(((next() >> 32) * n) >> 32); }  // n < 2^32

 private:
  std::uint64_t state_;
};

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return random(a ^ (b * 0xd6e8feb86659fd93ull)).next(); }

// The block that starts at this position, of so many: in an order that is permuted within windows.
inline std::uint64_t shuffled_block(std::uint64_t position, std::uint64_t blocks, std::uint64_t seed) {
  constexpr std::uint64_t window = 16;
  const std::uint64_t first = position / window * window;
  std::array<std::uint64_t, window> order;
  std::iota(order.begin(), order.end(), first);
  random shuffle(mix(seed, first + 1));
  for (auto i = static_cast<std::size_t>(std::min(window, blocks - first)); i > 1; --i)
    std::swap(order[i - 1], order[shuffle.below(i)]);
  return order[position - first];
}

}  // namespace cudasim::detail
