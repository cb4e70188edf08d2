// Launch surfaces of which everything is known. Each is a wave-quantised occupancy curve with a random optimum:
//
//   time(b, t, c) = waste(w f* / f) (1 + p (log2 b/b*)^2) (1 + q (log2 t/t*)^2) (1 + r (log2 c/c*)^2)
//
// for b blocks of t threads and chunks of c bytes. waste(x) = ceil(x) / x is what the last of x waves costs, which is
// not full; at the optimum there are w of them, 4 to 256, and what fills them, f, is b c, b t or b. w, the optimum and
// the curvatures p, q, r are random.
#pragma once

#include "bench/papers/tuner/surface.hpp"

#include <cmath>

namespace tuck::bench {

inline double uniform(detail::split_mix& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }
inline double normal(detail::split_mix& random) {
  return std::sqrt(-2 * std::log(1 - uniform(random))) * std::cos(6.283185307179586 * uniform(random));
}

enum class wave_of : uint8_t { chunks, threads, blocks };

inline surface make_wave_surface(uint64_t seed, wave_of fills = wave_of::chunks) {
  detail::split_mix random{seed};
  surface s;
  for (unsigned eighths = 0; eighths < 64; ++eighths)  // from 16 to 4096 by eighths of a power of two
    s.space.blocks.push_back(static_cast<unsigned>(std::lround(16 * std::exp2(eighths / 8.))));
  s.space.threads = {64, 128, 256, 512};
  s.space.chunk_bytes = {8192, 16384, 32768, 65536};
  s.expert = s.number_of({256, 256, 16384});
  const double blocks = 16 * std::exp2(8 * uniform(random)), threads = 64 * std::exp2(3 * uniform(random)),
               chunk = 8192 * std::exp2(3 * uniform(random)), pieces = std::exp2(2 + 6 * uniform(random)),
               p = .01 + .09 * uniform(random), q = .02 + .18 * uniform(random), r = .02 + .18 * uniform(random);
  for (size_t i = 0; i < s.space.size(); ++i) {
    const launch_point x = s.space[i];
    double waves = pieces * blocks / x.blocks;
    if (fills == wave_of::chunks) waves *= chunk / x.chunk_bytes;
    if (fills == wave_of::threads) waves *= threads / x.threads;
    const auto bowl = [](double value, double at, double curvature) {
      return 1 + curvature * std::log2(value / at) * std::log2(value / at);
    };
    s.truth.push_back(std::ceil(waves) / waves * bowl(x.blocks, blocks, p) * bowl(x.threads, threads, q) *
                      bowl(x.chunk_bytes, chunk, r));
  }
  return s;
}

}  // namespace tuck::bench
