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

// {"codecs": [{"codec", "type", "pattern", "where", "lossy", "points": held out and measured, "encode", "decode",
//              "ratio"}],
//  "decisions": [{"where", "among", "link_gb_per_s", "points", "right", "commonest", "regret", "regret_of_raw"}]}
//
// Each of encode, decode and ratio is {"median_error", "p90_error": of |predicted / measured - 1|,
// "within_two_deviations": the share of those that are no farther off, "refused": the share of all that had no
// deviation, and count in none of the others}.
//
// Decisions are of choose() by predictions, as judged by measurements: nothing hidden, and codecs that lose nothing.
// "among" is "all" codecs, or the one that is used or not; "right" the share of the points where the best way was
// chosen, and "commonest" what would have been by always going the way that is best most often. Regret is what a way
// costs over the best one, less 1, on average; that of raw, of never encoding.
nlohmann::ordered_json check(const std::vector<measurement>& measured, const check_options& options);

}  // namespace tuck::bench
