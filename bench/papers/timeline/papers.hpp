// What the papers report, beside what the replay gives, and whether their directions come out.
#pragma once

#include "bench/papers/timeline/policies.hpp"

namespace tuck::bench {

struct comparison {
  std::string what = {}, paper = {}, here = {};
  std::string why = {};  // we differ
};

// On the papers' GPUs, whichever else is replayed.
struct paper_outcomes {
  std::vector<network_outcome> titan_x = {}, v100 = {}, rtx_2080_ti = {};
};
std::vector<comparison> beside_papers(const paper_outcomes& of);

struct direction {
  std::string claim = {}, by = {};           // by how much
  std::vector<std::string> exceptions = {};  // and why
  bool asked = false;                        // is there a network that it is about?
  bool holds() const noexcept { return exceptions.empty(); }
};

// Of the mean over the training, and of each epoch by itself.
std::vector<direction> check_directions(const std::vector<network_outcome>& all);

}  // namespace tuck::bench
