// How good predictions are of what they were not fitted on: errors, and what deciding by them costs.
#pragma once

#include "bench/papers/predict/measurements.hpp"

#include <string>
#include <vector>

namespace tuck::bench {

struct check_options {
  double hold_out = .25;  // the share of each kind's (size, sparsity) points
  uint64_t seed = 1;
  unsigned splits = 100;              // seeds, one after the other; what they hold out is counted together
  std::vector<double> gb_per_s = {};  // of a link, either way; none: those of default_links
};

// GB/s: from links so slow that the smallest frame wins to those on which the fastest codec just pays, or not.
std::vector<double> default_links(const std::string& where);

struct error_summary {
  double median = 0, p90 = 0;  // |predicted / measured - 1|
  double within = 0;           // share of those no more than two predicted deviations off
  double refused = 0;          // share of all that had no deviation, and count in none of the others
};

struct accuracy {
  coder_key of;
  size_t points = 0;  // held out and measured
  error_summary encode, decode, ratio;
};

// Of choose() by predictions, as judged by measurements: nothing hidden, and codecs that lose nothing. Regret is what a
// way costs over the best one, less 1, on average.
struct decisions {
  std::string where, among;  // among: "all" codecs, or the one that is used or not
  double gb_per_s = 0;
  size_t points = 0;
  double right = 0;      // share of the points where the best way was chosen
  double commonest = 0;  // and would have been by always going the way that is best most often
  double regret = 0;
  double regret_of_raw = 0;  // of never encoding
};

struct check_report {
  std::vector<accuracy> codecs;
  std::vector<decisions> choices;
};

check_report check(const std::vector<measurement>& measured, const check_options& options);

nlohmann::ordered_json as_json(const check_report& report);

}  // namespace tuck::bench
