// Of the times of equal runs, and when there are enough of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace tuck::bench {

// Rows are measured until their medians are known to this share.
inline constexpr double wanted_precision = .03;
// Of fewer runs, the median has no interval of 95 %.
inline constexpr uint32_t least_known_runs = 6;

struct statistics {
  uint64_t runs = 0;
  double best = 0;
  double median = 0;
  double low = 0, high = 0;  // the interval that has the true median, with 95 %; of few runs: least and greatest
  double cv = 0;             // standard deviation / mean

  // How far the interval goes from the median, as a share of it.
  double error() const { return median > 0 ? std::max(high - median, median - low) / median : 0; }
  bool known(double precision) const { return runs >= least_known_runs && error() <= precision; }
};

// The interval of the median of n values goes from the k-th least to the k-th greatest. The number of values below the
// true median is binomial, so k is the largest with P(fewer than k) <= 2.5 %. At least 1; n is less than
// 1000.
inline size_t interval_rank(size_t n) {
  double term = std::ldexp(1., -static_cast<int>(n)), below = term;  // P(exactly k), P(at most k)
  size_t k = 0;
  while (below <= .025) {
    ++k;
    term *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    below += term;
  }
  return std::max<size_t>(k, 1);
}

inline double median_of_sorted(std::span<const double> values) {
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

// The medians of so many parts of the values, sorted. What disturbs a machine lasts for many runs, and these are alike:
// they count as one. Few values are parts themselves.
inline std::vector<double> medians_of_parts(std::vector<double> values) {
  constexpr size_t parts = 20;  // of five values at least
  const size_t n = values.size();
  if (n < 5 * parts) {
    std::sort(values.begin(), values.end());
    return values;
  }
  std::vector<double> medians;
  for (size_t p = 0; p < parts; ++p) {
    const std::span<double> part(values.data() + p * n / parts, values.data() + (p + 1) * n / parts);
    std::sort(part.begin(), part.end());
    medians.push_back(median_of_sorted(part));
  }
  std::sort(medians.begin(), medians.end());
  return medians;
}

// values: in the order of their runs.
inline statistics statistics_of(std::vector<double> values) {
  if (values.empty()) return {};
  const std::vector<double> parts = medians_of_parts(values);
  const size_t n = values.size(), k = interval_rank(parts.size());
  std::sort(values.begin(), values.end());
  double mean = 0, squares = 0;
  for (const double v : values) mean += v / static_cast<double>(n);
  for (const double v : values) squares += (v - mean) * (v - mean);
  const double deviation = n > 1 ? std::sqrt(squares / static_cast<double>(n - 1)) : 0;
  const double median = median_of_sorted(values);
  return {.runs = n,
          .best = values.front(),
          .median = median,
          .low = std::min(parts[k - 1], median),
          .high = std::max(parts[parts.size() - k], median),
          .cv = mean > 0 ? deviation / mean : 0};
}

// How long to go on: at least `least_runs`, then until the medians are known to `precision` (0: that is not asked),
// until `seconds` have passed, or until there are `most_runs`. Medians are not looked at before `least_seconds`: what
// disturbs a machine lasts for milliseconds, and all runs of such a time may be alike.
struct run_limits {
  uint32_t least_runs, most_runs;
  double seconds;
  double least_seconds = 0;
  double precision = 0;
};

// Whether runs are enough. Looks at the medians ever less often: whoever looks often enough finds a narrow interval by
// chance.
class enough_runs {
 public:
  explicit enough_runs(const run_limits& limits) : limits_(limits) {}

  // To be asked after each run. passed: seconds since the first began. series: times of what runs in turn.
  bool operator()(double passed, std::span<const std::vector<double>> series) {
    const size_t runs = series.front().size();
    if (runs < limits_.least_runs) return false;
    if (runs >= limits_.most_runs || passed >= limits_.seconds) return true;
    if (limits_.precision == 0 || passed < limits_.least_seconds || runs < next_look_) return false;
    next_look_ = runs + runs / 4 + 1;
    return std::all_of(series.begin(), series.end(),
                       [&](const std::vector<double>& of) { return statistics_of(of).known(limits_.precision); });
  }

 private:
  run_limits limits_;
  size_t next_look_ = 0;
};

}  // namespace tuck::bench
