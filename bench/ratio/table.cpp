#include "table.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace tuck::bench {

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return values.empty() ? 0 : std::exp(sum / static_cast<double>(values.size()));
}

std::string ratio_text(double ratio) {
  if (ratio == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", ratio < 9.995 ? 2 : ratio < 99.95 ? 1 : 0, ratio);
  return text;
}

void show_progress(const std::string& what) {
  if (::isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\x1b[K%s", what.c_str());
}

}  // namespace tuck::bench
