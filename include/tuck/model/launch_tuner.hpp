// Which launch options are fastest, found in a few trials: the tuner of CSWAP, by Bayesian optimisation. A Gaussian
// process learns the logarithm of the time over the logarithms of the options, and what is measured next is what
// promises the largest expected improvement (Jones, Schonlau and Welch, 1998). The options to try, the measuring and
// the clock are the caller's:
//
//   tuck::launch_tuner tuner(space, {.expert = the default's number in space});
//   while (const auto options = tuner.next()) tuner.add(seconds_with(*options));
//   use(tuner.best());
//
// The expert's choice is measured first and again at the end, beside the best that was found, and given up only for
// what is faster beyond doubt. Random and exhaustive search and the expert alone are there to compare with.
#pragma once

#include <tuck/core/span.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
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

// A Gaussian process over points of the unit cube: a constant mean, Matern covariance of smoothness 5/2 with a length
// for each axis, and noise. Lengths and noise are those of a coarse grid under which what was measured is likeliest.
class gaussian_process {
 public:
  static constexpr size_t axes = 3;
  using point = std::array<double, axes>;

  struct belief {
    double mean = 0, deviation = 0;  // of the value itself, without noise
  };

  void fit(std::vector<point> at, std::vector<double> values) {
    at_ = std::move(at);
    values_ = std::move(values);
    double best = -std::numeric_limits<double>::infinity();
    shape likeliest;
    for (const double noise : {1e-3, 1e-2, 1e-1})
      for (const double a : lengths)
        for (const double b : lengths)
          for (const double c : lengths)
            if (const double l = learn({{a, b, c}, noise}); l > best) {
              best = l;
              likeliest = shape_;
            }
    learn(likeliest);
  }

  belief at(const point& x) const {
    const size_t n = at_.size();
    std::vector<double> k(n);
    for (size_t i = 0; i < n; ++i) k[i] = covariance(x, at_[i]);
    double mean = mean_;
    for (size_t i = 0; i < n; ++i) mean += k[i] * weights_[i];
    forward(k);
    const double explained = std::inner_product(k.begin(), k.end(), k.begin(), 0.);
    return {mean, std::sqrt(variance_ * std::max(1 - explained, 1e-12))};
  }

 private:
  static constexpr double lengths[] = {.1, .2, .4, .8, 1.6};
  struct shape {
    point length = {};
    double noise = 0;  // its variance over the process's
  };

  double covariance(const point& a, const point& b) const {
    double square = 0;
    for (size_t i = 0; i < axes; ++i) square += (a[i] - b[i]) * (a[i] - b[i]) / (shape_.length[i] * shape_.length[i]);
    const double r = std::sqrt(5 * square);
    return (1 + r + r * r / 3) * std::exp(-r);
  }

  // With such a shape: the log likelihood of what was measured, up to a constant.
  double learn(const shape& s) {
    shape_ = s;
    const size_t n = at_.size();
    root_.assign(n * n, 0);
    double log_root = 0;
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j <= i; ++j) {  // Cholesky
        double sum = covariance(at_[i], at_[j]) + (i == j ? s.noise : 0);
        for (size_t k = 0; k < j; ++k) sum -= root_[i * n + k] * root_[j * n + k];
        if (i != j) {
          root_[i * n + j] = sum / root_[j * n + j];
        } else {
          root_[i * n + i] = std::sqrt(std::max(sum, 1e-12));
          log_root += std::log(root_[i * n + i]);
        }
      }
    // The likeliest mean and variance.
    std::vector<double> ones(n, 1), y = values_;
    forward(ones);
    forward(y);
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
    return -log_root - count / 2 * std::log(variance_);
  }

  // Solves root x = b in place.
  void forward(std::vector<double>& b) const {
    const size_t n = b.size();
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < i; ++k) b[i] -= root_[i * n + k] * b[k];
      b[i] /= root_[i * n + i];
    }
  }

  std::vector<point> at_;
  std::vector<double> values_, root_, weights_;
  double mean_ = 0, variance_ = 1;
  shape shape_;
};

}  // namespace detail

class launch_tuner {
 public:
  // The expert's number must be one of the space's, which must outlive the tuner.
  explicit launch_tuner(const launch_space& space, const tuner_options& options = {})
      : space_(space), options_(options), random_{options.seed}, seen_(space.size()), again_(space.size()) {
    for (size_t i = 0; i < space.size(); ++i) places_.push_back(place(space[i]));
    order_.resize(space.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    if (options.search != tuner_search::exhaustive)
      for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.below(i)]);
  }

  // What to measure next; nothing once the trials are used up, or nothing is left to be learnt.
  std::optional<launch_point> next() {
    if (trial_ >= options_.trials) return std::nullopt;
    switch (options_.search) {
      case tuner_search::expert: current_ = options_.expert; break;
      case tuner_search::exhaustive:
      case tuner_search::random:
        if (trial_ >= order_.size()) return std::nullopt;
        current_ = order_[trial_];
        break;
      case tuner_search::bayesian: current_ = guided(); break;
    }
    return space_[current_];
  }

  // How long what `next` said took; infinity, or no number: it cannot be launched.
  void add(double seconds) {
    ++trial_;
    measurements& m = seen_[current_];
    if (!(seconds > 0) || !std::isfinite(seconds)) {
      m.failed = true;
      return;
    }
    m.add(std::log(seconds));
    if (comparing() || current_ == options_.expert) again_[current_].add(std::log(seconds));
  }

  size_t trials() const noexcept { return trial_; }

  // The best so far.
  launch_point best() const { return space_[choice()]; }

 private:
  // Of one point.
  struct measurements {
    size_t count = 0;
    double sum = 0, squares = 0;
    bool failed = false;

    void add(double value) {
      ++count;
      sum += value;
      squares += value * value;
    }
    double mean() const { return sum / static_cast<double>(count); }
    bool worked() const { return count != 0 && !failed; }
  };

  // The unit cube's axes are the options' logarithms.
  detail::gaussian_process::point place(const launch_point& p) const {
    const auto along = [](const auto& axis, auto value) {
      const auto [low, high] = std::minmax_element(axis.begin(), axis.end());
      return *low == *high ? 0. : std::log(double(value) / double(*low)) / std::log(double(*high) / double(*low));
    };
    return {along(space_.blocks, p.blocks), along(space_.threads, p.threads), along(space_.chunk_bytes, p.chunk_bytes)};
  }

  // A quarter of the trials is spread out, the next are guided, and the last three eighths compare the best of those
  // with the expert's choice: three of them at first, then the one that leads.
  size_t spread() const { return std::max<size_t>(options_.trials / 4, 1); }
  size_t compared() const { return options_.trials * 3 / 8; }
  bool comparing() const { return options_.search == tuner_search::bayesian && trial_ > options_.trials - compared(); }

  size_t guided() {
    if (trial_ == 0) return options_.expert;
    if (trial_ < options_.trials - compared()) {
      const size_t i = trial_ < spread() ? farthest() : most_promising();
      if (i != none) return i;
    }
    if (challengers_.empty()) challengers_ = fastest(3);
    if (challengers_.size() > 1 && 2 * (options_.trials - trial_) <= compared()) challengers_ = {leader()};
    size_t next = options_.expert;
    for (const size_t i : challengers_)
      if (again_[i].count < again_[next].count) next = i;
    return next;
  }

  // Of some that were not tried, the one farthest from those that were.
  size_t farthest() {
    size_t best = none;
    double distance = -1;
    for (int tries = 0; tries < 64; ++tries) {
      const size_t i = random_.below(space_.size());
      if (tried(i)) continue;
      double nearest = std::numeric_limits<double>::infinity();
      for (size_t j = 0; j < space_.size(); ++j) {
        if (!tried(j)) continue;
        double square = 0;
        for (size_t axis = 0; axis < places_[i].size(); ++axis)
          square += (places_[i][axis] - places_[j][axis]) * (places_[i][axis] - places_[j][axis]);
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
    if (!learn()) return farthest();
    double lowest = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < space_.size(); ++i)
      if (seen_[i].worked()) lowest = std::min(lowest, process_.at(places_[i]).mean);
    size_t best = none;
    double most = -1;
    for (const size_t i : order_) {
      if (tried(i)) continue;
      const auto [mean, deviation] = process_.at(places_[i]);
      const double z = (lowest - mean) / deviation;
      const double improvement = deviation * (z * .5 * std::erfc(-z / std::sqrt(2.)) +
                                              std::exp(-z * z / 2) / std::sqrt(2 * 3.14159265358979323846));
      if (improvement > most) {
        most = improvement;
        best = i;
      }
    }
    return best;
  }

  // What the process expects to be fastest of those that were tried, but for the expert's.
  std::vector<size_t> fastest(size_t count) {
    std::vector<std::pair<double, size_t>> all;
    if (learn())
      for (size_t i = 0; i < space_.size(); ++i)
        if (i != options_.expert && seen_[i].worked()) all.emplace_back(process_.at(places_[i]).mean, i);
    std::sort(all.begin(), all.end());
    std::vector<size_t> first;
    for (const auto& [mean, i] : all)
      if (first.size() < count) first.push_back(i);
    return first;
  }

  // Teaches the process all that was measured; what failed was as slow as the slowest.
  bool learn() {
    std::vector<detail::gaussian_process::point> at;
    std::vector<double> values;
    double worst = -std::numeric_limits<double>::infinity();
    for (const measurements& m : seen_)
      if (m.worked()) worst = std::max(worst, m.mean());
    if (std::isinf(worst)) return false;
    for (size_t i = 0; i < space_.size(); ++i) {
      if (!tried(i)) continue;
      at.push_back(places_[i]);
      values.push_back(seen_[i].worked() ? seen_[i].mean() : worst);
    }
    process_.fit(std::move(at), std::move(values));
    return true;
  }

  // The fastest of the challengers, as measured again: how it looked when it was chosen was better than it is.
  size_t leader() const {
    size_t best = challengers_.front();
    for (const size_t i : challengers_)
      if (again_[i].worked() && (!again_[best].worked() || again_[i].mean() < again_[best].mean())) best = i;
    return best;
  }

  size_t choice() const {
    if (options_.search == tuner_search::bayesian && !challengers_.empty()) return doubted(leader());
    // As the searches do that are there to compare with: what was fastest when it was measured.
    size_t best = options_.expert;
    for (size_t i = 0; i < space_.size(); ++i)
      if (seen_[i].worked() && (!seen_[best].worked() || seen_[i].mean() < seen_[best].mean())) best = i;
    return best;
  }

  // The challenger if it is faster than the expert's choice beyond doubt, which then is slower by a fiftieth at most;
  // else the expert's choice.
  size_t doubted(size_t challenger) const {
    const measurements &c = again_[challenger], &e = again_[options_.expert];
    if (seen_[options_.expert].failed) return challenger;
    if (!c.worked() || c.count < 2 || e.count < 2) return options_.expert;
    double squares = 0, freedom = 0;
    for (const measurements& m : again_) {
      if (m.count < 2) continue;
      squares += m.squares - m.sum * m.mean();
      freedom += static_cast<double>(m.count - 1);
    }
    const double deviation =
        std::sqrt(squares / freedom * (1 / static_cast<double>(c.count) + 1 / static_cast<double>(e.count)));
    return c.mean() - e.mean() + doubts * deviation < std::log(1.02) ? challenger : options_.expert;
  }

  bool tried(size_t i) const { return seen_[i].count != 0 || seen_[i].failed; }

  static constexpr size_t none = ~size_t{0};
  static constexpr double doubts = 3.5;  // standard deviations

  const launch_space& space_;
  tuner_options options_;
  detail::split_mix random_;
  std::vector<detail::gaussian_process::point> places_;
  std::vector<size_t> order_;  // shuffled
  std::vector<measurements> seen_, again_;
  std::vector<size_t> challengers_;
  detail::gaussian_process process_;
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
