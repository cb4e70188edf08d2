// The tuner on surfaces of which everything is known. Each is a wave-quantised occupancy curve with a random optimum:
//
//   t(b, t, c) = q(w / (b t)) (1 + p (log2 b/b*)^2) (1 + q (log2 t/t*)^2) (1 + r (log2 c/c*)^2)
//
// b blocks of t threads and chunks of c bytes; q(x) = ceil(x) / x is what the last wave, which is not full, costs of
// w = work / c pieces; curvatures p, q, r and the optimum are random. Each measurement has noise of 5 %.
#include <tuck/model.hpp>

#include <gtest/gtest.h>

#include <cstdlib>

namespace tuck {
namespace {

struct surface {
  launch_space space;
  std::vector<double> mean;  // of each point
  size_t expert, best;
};

double uniform(detail::split_mix& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }
double normal(detail::split_mix& random) {
  return std::sqrt(-2 * std::log(1 - uniform(random))) * std::cos(6.283185307179586 * uniform(random));
}

surface make_surface(uint64_t seed) {
  detail::split_mix random{seed};
  surface s;
  for (unsigned sixteenths = 0; sixteenths < 64; ++sixteenths)  // 16 to 4096 by eighths of a power of two
    s.space.blocks.push_back(static_cast<unsigned>(std::lround(16 * std::exp2(sixteenths / 8.))));
  s.space.threads = {64, 128, 256, 512};
  s.space.chunk_bytes = {8192, 16384, 32768, 65536};
  const double blocks = 16 * std::exp2(8 * uniform(random)), threads = 64 * std::exp2(3 * uniform(random)),
               chunk = 8192 * std::exp2(3 * uniform(random)), pieces = std::exp2(1 + 5 * uniform(random)),
               p = .01 + .09 * uniform(random), q = .02 + .18 * uniform(random), r = .02 + .18 * uniform(random);
  for (size_t i = 0; i < s.space.size(); ++i) {
    const launch_point x = s.space[i];
    const double waves = pieces * blocks / x.blocks * chunk / x.chunk_bytes;
    const auto bowl = [](double value, double at, double curvature) {
      return 1 + curvature * std::log2(value / at) * std::log2(value / at);
    };
    s.mean.push_back(std::ceil(waves) / waves * bowl(x.blocks, blocks, p) * bowl(x.threads, threads, q) *
                     bowl(x.chunk_bytes, chunk, r));
    if (x == launch_point{256, 256, 16384}) s.expert = i;
  }
  s.best = static_cast<size_t>(std::min_element(s.mean.begin(), s.mean.end()) - s.mean.begin());
  return s;
}

// How far the pick is above the best and above the expert's, noise left out.
struct outcome_of_search {
  double over_best, over_expert;
  size_t trials;
};
outcome_of_search search(const surface& s, tuner_options options) {
  options.expert = s.expert;
  detail::split_mix random{options.seed * 77 + 5};
  launch_tuner tuner(s.space, options);
  const auto number = [&](const launch_point& p) {
    size_t i = 0;
    while (!(s.space[i] == p)) ++i;
    return i;
  };
  while (const auto p = tuner.next()) tuner.add(s.mean[number(*p)] * std::exp(.05 * normal(random)) * 1e-4);
  const double found = s.mean[number(tuner.best())];
  return {found / s.mean[s.best] - 1, found / s.mean[s.expert] - 1, tuner.trials()};
}

TEST(launch_tuner, experiment) {
  const int seeds = std::getenv("SEEDS") ? std::atoi(std::getenv("SEEDS")) : 100;
  for (const auto how : {tuner_search::bayesian, tuner_search::random, tuner_search::expert}) {
    int within = 0, worse = 0;
    double sum = 0, most = 0;
    for (int seed = 1; seed <= seeds; ++seed) {
      const surface s = make_surface(static_cast<uint64_t>(seed));
      const auto r = search(s, {.search = how, .seed = static_cast<uint64_t>(seed)});
      EXPECT_LE(r.trials, 40u);
      within += r.over_best <= .05;
      worse += r.over_expert > .02;
      sum += r.over_best;
      most = std::max(most, r.over_best);
    }
    std::printf("search %d: within 5%% %d, worse than expert %d, mean %.3f, most %.3f\n", static_cast<int>(how), within,
                worse, sum / seeds, most);
  }
}

}  // namespace
}  // namespace tuck
