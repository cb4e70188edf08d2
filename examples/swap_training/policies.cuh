// How tensors travel: a policy for each of the published systems.
#pragma once

#include <tuck/swap.cuh>

namespace swap_training {

enum class rule {
  as_is,
  zvc,      // every tensor
  advised,  // the way that costs least, by the advisor
  bounded,  // quantize where values may be lossy, with a bound for each layer, else zvc; images as they are
};

struct policy {
  const char* name;
  const char* system;
  rule decides;
  tuck::swap_path path;
  size_t codecs = 0;  // that the advisor has to choose from
};

// The cost model has the codec and the link work one after the other: staged, not direct.
inline constexpr policy policies[] = {{"raw", "vDNN", rule::as_is, tuck::swap_path::raw},
                                      {"cpu", "vDNN++", rule::zvc, tuck::swap_path::cpu},
                                      {"always", "cDMA", rule::zvc, tuck::swap_path::direct},
                                      {"cswap", "CSWAP", rule::advised, tuck::swap_path::staged, 1},
                                      {"cswap+", "CSWAP+", rule::advised, tuck::swap_path::staged, 3},
                                      {"comet", "COMET", rule::bounded, tuck::swap_path::direct}};

}  // namespace swap_training
