// Which launch options are fastest, found in a few trials: the tuner of CSWAP, by Bayesian optimisation. A Gaussian
// process learns the logarithm of the time over the logarithms of the options, and what is measured next is what
// promises the largest expected improvement (Jones, Schonlau and Welch, 1998). The options to try, the measuring and
// the clock are the caller's:
//
//   tuck::launch_tuner tuner(space, {.expert = the default's number in space});
//   while (const auto options = tuner.next()) tuner.add(seconds_with(*options));
//   use(tuner.best());
//
// The expert's choice is measured first, and at the end again unless it is far behind; it is given up only for what
// neither the process nor its own measurements call slower. On surfaces of waves (bench/support/wave_surface.hpp) and
// with noise of 5 % that ends within 5 % of the best in nine of ten searches; narrow optima far from all others are
// found by luck only. Random and exhaustive search and the expert alone are there to compare with.
#pragma once

#include <tuck/core/span.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace tuck::inline TUCK_ABI {

struct launch_point {
  unsigned blocks = 0, threads = 0;
  uint32_t chunk_bytes = 0;

  friend bool operator==(const launch_point&, const launch_point&) = default;
};

// All combinations of some values of each option; none is 0, and there is one of each at least.
struct launch_space {
  std::vector<unsigned> blocks, threads;
  std::vector<uint32_t> chunk_bytes;

  size_t size() const noexcept { return blocks.size() * threads.size() * chunk_bytes.size(); }
  launch_point operator[](size_t i) const {
    const size_t per_chunk = blocks.size() * threads.size();
    return {blocks[i % blocks.size()], threads[i % per_chunk / blocks.size()], chunk_bytes[i / per_chunk]};
  }
};

enum class tuner_search : uint8_t { bayesian, random, exhaustive, expert };

struct tuner_options {
  tuner_search search = tuner_search::bayesian;
  size_t trials = 40;
  uint64_t seed = 1;
  size_t expert = 0;  // the default's number in the space
};

namespace detail {

// 64 random bits a call, the same everywhere (Steele, Lea and Flood: SplitMix64, OOPSLA 2014).
struct split_mix {
  uint64_t state;
  uint64_t operator()() noexcept {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  size_t below(size_t n) noexcept { return static_cast<size_t>((*this)() % n); }
};

// Where a point lies: its three options, each from 0 to 1 as their logarithms go, and the logarithms themselves, in
// octaves.
struct tuner_place {
  std::array<double, 3> options, octaves;
};

// A Gaussian process of the logarithm of a launch's time: constant mean, noise, and a covariance that is a sum of one
// of each option, one of the waves of blocks that the work takes, and one of all options together; each is Matern's of
// smoothness 5/2. What fills a wave - blocks, their threads, their chunks -, lengths and weights are those of a coarse
// grid under which what was measured is likeliest, where noise of 5 % is expected.
class launch_process {
 public:
  struct measurement {
    tuner_place at;
    double value;
    double count;  // of which the value is the mean
  };
  struct belief {
    double mean = 0, deviation = 0;  // of the value itself, without noise
  };

  void fit(std::vector<measurement> seen) {
    seen_ = std::move(seen);
    double best = -std::numeric_limits<double>::infinity();
    shape likeliest;
    const auto try_noises = [&] {
      for (const double together : {.05, .3})
        for (const double noise : {3e-4, 1e-3, 3e-3, 1e-2, 1e-1}) {
          shape_.together = together;
          shape_.noise = noise;
          if (const double l = learn(); l > best) {
            best = l;
            likeliest = shape_;
          }
        }
    };
    for (const double length : {.3, .6, 1.2}) {
      shape_ = {};
      shape_.length = length;
      measure_distances();
      try_noises();
      for (const auto& fills : {wave{1, 0, 0}, wave{1, 1, 0}, wave{1, 0, 1}})
        for (const double wave_length : {.4, .8, 1.6}) {
          shape_.wave_length = wave_length;
          shape_.fills = fills;
          measure_distances();
          for (const double waves : {.03, .1, .3}) {
            shape_.waves = waves;
            try_noises();
          }
        }
    }
    shape_ = likeliest;
    measure_distances();
    learn();
  }

  double noise() const { return std::sqrt(variance_ * shape_.noise); }  // of one measurement, its deviation

  belief at(const tuner_place& x) const {
    std::vector<double> k(seen_.size());
    for (size_t i = 0; i < k.size(); ++i) k[i] = covariance(x, seen_[i].at);
    const double mean = mean_ + std::inner_product(k.begin(), k.end(), weights_.begin(), 0.);
    solve(k);
    const double left = covariance(x, x) - std::inner_product(k.begin(), k.end(), k.begin(), 0.);
    return {mean, std::sqrt(variance_ * std::max(left, 1e-12))};
  }

 private:
  using wave = std::array<double, 3>;  // which options it is a product of
  struct shape {
    double length = 1, wave_length = 1;  // of the options' range, octaves
    wave fills = {};
    double waves = 0, together = 0;  // weights, where that of an option is 1
    double noise = 0;                // its variance, over the process's
  };

  static double matern(double distance) {
    const double r = std::sqrt(5.) * distance;
    return (1 + r + r * r / 3) * std::exp(-r);
  }
  // What two places have in common, part by part.
  struct likeness {
    double options, waves, together;
  };
  likeness compare(const tuner_place& a, const tuner_place& b) const {
    double sum = 0, square = 0, octaves = 0;
    for (size_t i = 0; i < a.options.size(); ++i) {
      const double d = std::fabs(a.options[i] - b.options[i]) / shape_.length;
      sum += matern(d);
      square += d * d;
      octaves += shape_.fills[i] * (a.octaves[i] - b.octaves[i]);
    }
    return {sum, matern(std::fabs(octaves) / shape_.wave_length), matern(std::sqrt(square))};
  }
  double covariance(const likeness& l) const {
    return l.options + shape_.waves * l.waves + shape_.together * l.together;
  }
  double covariance(const tuner_place& a, const tuner_place& b) const { return covariance(compare(a, b)); }

  // Of all pairs, for the shape's lengths and waves.
  void measure_distances() {
    pairs_.clear();
    for (size_t i = 0; i < seen_.size(); ++i)
      for (size_t j = 0; j <= i; ++j) pairs_.push_back(compare(seen_[i].at, seen_[j].at));
  }

  // With the shape as it is: how likely it and what was measured are, the logarithm, up to a constant.
  double learn() {
    const size_t n = seen_.size();
    root_.resize(n * n);
    double likelihood = 0;
    auto pair = pairs_.begin();
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j <= i; ++j) {  // Cholesky's decomposition
        double sum = covariance(*pair++) + (i == j ? shape_.noise / seen_[i].count : 0);
        for (size_t k = 0; k < j; ++k) sum -= root_[i * n + k] * root_[j * n + k];
        if (i != j) {
          root_[i * n + j] = sum / root_[j * n + j];
        } else {
          root_[i * n + i] = std::sqrt(std::max(sum, 1e-12));
          likelihood -= std::log(root_[i * n + i]);
        }
      }
    // The likeliest mean and variance.
    std::vector<double> ones(n, 1), y(n);
    for (size_t i = 0; i < n; ++i) y[i] = seen_[i].value;
    solve(ones);
    solve(y);
    mean_ = std::inner_product(ones.begin(), ones.end(), y.begin(), 0.) /
            std::inner_product(ones.begin(), ones.end(), ones.begin(), 0.);
    for (size_t i = 0; i < n; ++i) y[i] -= mean_ * ones[i];
    const auto count = static_cast<double>(n);
    variance_ = std::max(std::inner_product(y.begin(), y.end(), y.begin(), 0.) / count, 1e-12);
    for (size_t i = n; i-- > 0;) {
      for (size_t k = i + 1; k < n; ++k) y[i] -= root_[k * n + i] * y[k];
      y[i] /= root_[i * n + i];
    }
    weights_ = std::move(y);
    const double octaves_from_5_percent = std::log2(std::sqrt(variance_ * shape_.noise) / .05);
    return likelihood - count / 2 * std::log(variance_) - octaves_from_5_percent * octaves_from_5_percent / 4;
  }

  // b := b / root.
  void solve(std::vector<double>& b) const {
    const size_t n = b.size();
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < i; ++k) b[i] -= root_[i * n + k] * b[k];
      b[i] /= root_[i * n + i];
    }
  }

  std::vector<measurement> seen_;
  std::vector<likeness> pairs_;  // the lower half of the matrix, row by row
  std::vector<double> root_, weights_;
  double mean_ = 0, variance_ = 1;
  shape shape_;
};

}  // namespace detail

class launch_tuner {
 public:
  // The expert's number must be one of the space's, which must outlive the tuner.
  explicit launch_tuner(const launch_space& space, const tuner_options& options = {})
      : space_(space), options_(options), random_{options.seed}, order_(space.size()), seen_(space.size()) {
    assert(options.expert < space.size());
    for (size_t i = 0; i < space.size(); ++i) places_.push_back(place(space[i]));
    std::iota(order_.begin(), order_.end(), size_t{0});
    if (options.search != tuner_search::exhaustive)
      for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.below(i)]);
  }

  // What to measure next; nothing once the trials are used up, or there is nothing left to try.
  std::optional<launch_point> next() {
    if (trial_ >= options_.trials) return std::nullopt;
    switch (options_.search) {
      case tuner_search::expert: current_ = options_.expert; break;
      case tuner_search::random:
      case tuner_search::exhaustive:
        if (trial_ >= order_.size()) return std::nullopt;
        current_ = order_[trial_];
        break;
      case tuner_search::bayesian: current_ = guided(); break;
    }
    return space_[current_];
  }

  // How long what `next` said last took; infinity, or no number: it cannot be launched.
  void add(double seconds) {
    ++trial_;
    measurements& m = seen_[current_];
    if (seconds > 0 && std::isfinite(seconds))
      m.add(std::log(seconds));
    else
      m.failed = true;
    learnt_ = false;
  }

  size_t trials() const noexcept { return trial_; }

  // The best so far; before there was a trial, the expert's.
  launch_point best() { return space_[choice()]; }

 private:
  static constexpr size_t none = ~size_t{0};
  static constexpr double doubts = 3;  // standard deviations that the expert's choice is given up for

  // Of one point: of logarithms of seconds.
  struct measurements {
    size_t count = 0;
    double sum = 0;
    bool failed = false;

    void add(double value) {
      ++count;
      sum += value;
    }
    double mean() const { return sum / static_cast<double>(count); }
    bool tried() const { return count != 0 || failed; }
    bool worked() const { return count != 0 && !failed; }
  };

  detail::tuner_place place(const launch_point& p) const {
    const auto along = [](const auto& axis, double value) {
      const auto [low, high] = std::minmax_element(axis.begin(), axis.end());
      return *low == *high ? 0. : std::log(value / *low) / std::log(static_cast<double>(*high) / *low);
    };
    return {
        {along(space_.blocks, p.blocks), along(space_.threads, p.threads), along(space_.chunk_bytes, p.chunk_bytes)},
        {std::log2(p.blocks), std::log2(p.threads), std::log2(p.chunk_bytes)}};
  }

  // First the expert's choice and some far from each other, a sixth of the trials; then what promises most, until a
  // third is left. These tell what was good from what was lucky, and the last fifth the best from the expert's.
  size_t guided() {
    const size_t left = options_.trials - trial_;
    if (trial_ == 0) return options_.expert;
    if (3 * left > options_.trials) {
      const size_t i = 6 * trial_ <= options_.trials ? farthest() : most_promising();
      if (i != none) return i;
    }
    if (5 * left > options_.trials || is_beyond_doubt(leader(), doubts + 1)) return likely_best();
    const size_t l = leader();
    return l != none && seen_[l].count < seen_[options_.expert].count ? l : options_.expert;
  }

  // Of some that were not tried, the one farthest from those that were.
  size_t farthest() {
    size_t best = none;
    double distance = -1;
    for (int tries = 0; tries < 64; ++tries) {
      const size_t i = random_.below(space_.size());
      if (seen_[i].tried()) continue;
      double nearest = std::numeric_limits<double>::infinity();
      for (size_t j = 0; j < space_.size(); ++j) {
        if (!seen_[j].tried()) continue;
        double square = 0;
        for (size_t axis = 0; axis < 3; ++axis) {
          const double d = places_[i].options[axis] - places_[j].options[axis];
          square += d * d;
        }
        nearest = std::min(nearest, square);
      }
      if (nearest > distance) {
        distance = nearest;
        best = i;
      }
    }
    return best;
  }

  // Of those that were not tried, the one from which the largest improvement is expected.
  size_t most_promising() {
    learn();
    double lowest = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < space_.size(); ++i)
      if (seen_[i].worked()) lowest = std::min(lowest, process_.at(places_[i]).mean);
    size_t best = none;
    double most = -1;
    for (const size_t i : order_) {
      if (seen_[i].tried()) continue;
      const auto [mean, deviation] = process_.at(places_[i]);
      const double z = (lowest - mean) / deviation;
      constexpr double root_of_2 = 1.4142135623730951, root_of_2_pi = 2.5066282746310002;
      const double below = std::erfc(-z / root_of_2) / 2, density = std::exp(-z * z / 2) / root_of_2_pi;
      if (const double improvement = deviation * (z * below + density); improvement > most) {
        most = improvement;
        best = i;
      }
    }
    return best;
  }

  // Of those that were tried, the one that may well be the best; the expert's where none worked.
  size_t likely_best() { return lowest(1, none).value_or(options_.expert); }
  // The one that is expected to be, but for the expert's.
  size_t leader() { return lowest(0, options_.expert).value_or(none); }

  // Of those that were tried, the one whose mean less so many deviations is lowest.
  std::optional<size_t> lowest(double deviations, size_t but) {
    learn();
    std::optional<size_t> best;
    double low = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < space_.size(); ++i) {
      if (i == but || !seen_[i].worked()) continue;
      const auto [mean, deviation] = process_.at(places_[i]);
      if (mean - deviations * deviation >= low) continue;
      low = mean - deviations * deviation;
      best = i;
    }
    return best;
  }

  // Is it slower than the expert's choice by a fiftieth at most, even so many deviations from what is expected?
  bool is_beyond_doubt(size_t i, double deviations) {
    if (i == none) return false;
    if (!seen_[options_.expert].worked()) return true;
    learn();
    const auto a = process_.at(places_[i]), expert = process_.at(places_[options_.expert]);
    const double most = std::log(1.02);
    if (a.mean - expert.mean + deviations * std::hypot(a.deviation, expert.deviation) >= most) return false;
    // The process believes in smoothness. What was measured of the two alone must not speak against it.
    const measurements &of_a = seen_[i], &of_expert = seen_[options_.expert];
    const double noise =
        process_.noise() * std::sqrt(1 / static_cast<double>(of_a.count) + 1 / static_cast<double>(of_expert.count));
    return of_a.mean() - of_expert.mean() + 2 * noise < most;
  }

  // Teaches the process what was measured; what failed was as slow as the slowest.
  void learn() {
    if (learnt_) return;
    double worst = 0;
    bool any = false;
    for (const measurements& m : seen_)
      if (m.worked()) {
        worst = any ? std::max(worst, m.mean()) : m.mean();
        any = true;
      }
    std::vector<detail::launch_process::measurement> seen;
    for (size_t i = 0; i < space_.size(); ++i)
      if (seen_[i].tried())
        seen.push_back({places_[i], seen_[i].worked() ? seen_[i].mean() : worst,
                        static_cast<double>(std::max<size_t>(seen_[i].count, 1))});
    process_.fit(std::move(seen));
    learnt_ = true;
  }

  size_t choice() {
    size_t best = options_.expert;
    if (options_.search == tuner_search::bayesian) {
      if (const size_t l = leader(); is_beyond_doubt(l, doubts)) best = l;
      return best;
    }
    for (size_t i = 0; i < space_.size(); ++i)
      if (seen_[i].worked() && (!seen_[best].worked() || seen_[i].mean() < seen_[best].mean())) best = i;
    return best;
  }

  const launch_space& space_;
  tuner_options options_;
  detail::split_mix random_;
  std::vector<detail::tuner_place> places_;
  std::vector<size_t> order_;  // in which points are looked at: shuffled, but for exhaustive search
  std::vector<measurements> seen_;
  detail::launch_process process_;
  bool learnt_ = false;  // has the process been taught the last measurement?
  size_t trial_ = 0, current_ = 0;
};

// The whole search: the best of the space by `measure`, which takes a launch_point and returns seconds.
template <class Measure>
launch_point tune_launch(const launch_space& space, const tuner_options& options, Measure&& measure) {
  launch_tuner tuner(space, options);
  while (const auto options_to_try = tuner.next()) tuner.add(measure(*options_to_try));
  return tuner.best();
}

}  // namespace tuck::inline TUCK_ABI
