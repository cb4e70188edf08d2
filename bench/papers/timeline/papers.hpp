// What the papers report, beside what the replay gives, and whether their directions come out.
#pragma once

#include "bench/papers/timeline/policies.hpp"

namespace tuck::bench {

// On the papers' GPUs, whichever else is replayed.
struct paper_outcomes {
  std::vector<network_outcome> titan_x = {}, v100 = {}, rtx_2080_ti = {};
};

// [{"what", "paper", "replay", "why": we differ}]
nlohmann::ordered_json beside_papers(const paper_outcomes& of);

// [{"claim", "asked": is there a network that it is about?, "holds", "by": how much, "exceptions": [and why]}], of the
// mean over the training, and of each epoch by itself.
nlohmann::ordered_json check_directions(const std::vector<network_outcome>& all);

}  // namespace tuck::bench
