// What the papers report, beside what the replay gives, and whether their directions come out.
#pragma once

#include "bench/papers/timeline/policies.hpp"

namespace tuck::bench {

// On the papers' GPUs, whichever else is replayed.
struct paper_outcomes {
  std::vector<network_outcome> titan_x = {}, v100 = {}, rtx_2080_ti = {};
};

// [{"what", "gpu", "paper": its figures, and of the replay's networks "mean", "most" and the "network" of the latter}].
// The last two are numbers, in % unless "what" says otherwise; null where no network is asked.
nlohmann::ordered_json beside_papers(const paper_outcomes& of);

// [{"claim", "holds", "least", "most": what is saved of the time, % of the networks' means, null where no network is
//   asked, "exceptions": where it fails}]. Each network is asked on the mean over the training, and at each epoch.
nlohmann::ordered_json check_directions(const std::vector<network_outcome>& all);

}  // namespace tuck::bench
