// Of the times of equal runs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace tuck::bench {

struct statistics {
  uint64_t runs = 0;
  double best = 0;
  double median = 0;
  double cv = 0;  // standard deviation / mean
};

inline statistics statistics_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  double mean = 0, squares = 0;
  for (const double v : values) mean += v / static_cast<double>(n);
  for (const double v : values) squares += (v - mean) * (v - mean);
  const double deviation = n > 1 ? std::sqrt(squares / static_cast<double>(n - 1)) : 0;
  return {n, values.front(), (values[(n - 1) / 2] + values[n / 2]) / 2, mean > 0 ? deviation / mean : 0};
}

}  // namespace tuck::bench
