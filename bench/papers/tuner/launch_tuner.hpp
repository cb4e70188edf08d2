// Which launch options are fastest, found in a few trials: the tuner of CSWAP, by Bayesian optimisation. A Gaussian
// process learns the logarithm of the time over the logarithms of the options, and what is measured next is what
// promises the largest expected improvement (Jones, Schonlau and Welch, 1998). The options to try, the measuring and
// the clock are the caller's:
//
//   launch_tuner tuner(space, {.expert = the default's number in space});
//   while (const auto options = tuner.next()) tuner.add(seconds_with(*options));
//   use(tuner.best());
//
// The expert's choice is measured first, and at the end again unless it is far behind; it is given up only for what
// neither the process nor its own measurements call slower. On surfaces of waves (wave_surface.hpp) and with noise of
// 5 % that ends within 5 % of the best in nine of ten searches; narrow optima far from all others are found by luck
// only. Random and exhaustive search and the expert alone are there to compare with.
#pragma once

#include "bench/papers/tuner/launch_process.hpp"

#include <tuck/core/bits.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace tuck::bench {

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

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): 64 random bits a call, the same everywhere.
struct split_mix {
  uint64_t state;
  uint64_t operator()() noexcept {
    uint64_t x = state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
  }
  size_t below(size_t n) noexcept { return static_cast<size_t>((*this)() % n); }
};

}  // namespace detail

class launch_tuner {
 public:
  // The expert's number must be one of the space's, which must outlive the tuner.
  explicit launch_tuner(launch_space&&, const tuner_options& = {}) = delete;
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

}  // namespace tuck::bench
