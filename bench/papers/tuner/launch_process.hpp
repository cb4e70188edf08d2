// What the launch tuner believes of launches that it has not measured, from those that it has.
#pragma once

#include <tuck/core/config.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace tuck::bench::detail {

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

}  // namespace tuck::bench::detail
