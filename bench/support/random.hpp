// Random numbers that are the same everywhere: the standard fixes its generators, but not its distributions.
#pragma once

#include <cstdint>
#include <random>

namespace tuck::bench {

using generator = std::mt19937_64;

// In [0, 1), a multiple of 2^-53.
inline double uniform(generator& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

inline double uniform(generator& random, double least, double beyond) {
  return least + (beyond - least) * uniform(random);
}

// In [0, beyond); what the remainder favours is not seen where `beyond` is small.
inline uint64_t below(generator& random, uint64_t beyond) { return random() % beyond; }

}  // namespace tuck::bench
