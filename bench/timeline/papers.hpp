// What the papers report, beside what the replay gives, and whether their directions come out.
#pragma once

#include "bench/timeline/policies.hpp"

namespace tuck::bench {

struct comparison {
  std::string what = {}, paper = {}, here = {};
  std::string why = {};  // we differ
};

// `on_2080_ti` is of the papers' other GPU, and may be empty.
std::vector<comparison> beside_papers(const std::vector<network_outcome>& all,
                                      const std::vector<network_outcome>& on_2080_ti);

struct direction {
  std::string claim = {}, by = {};           // by how much
  std::vector<std::string> exceptions = {};  // and why
  bool holds() const noexcept { return exceptions.empty(); }
};

// Of the mean over the training, and of each epoch by itself.
std::vector<direction> check_directions(const std::vector<network_outcome>& all);

}  // namespace tuck::bench
