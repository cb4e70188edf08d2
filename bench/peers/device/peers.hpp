// The peers on the device of each library, in files of their own so that any of them may be left out.
#pragma once

#include "bench/micro/device.hpp"

#include <vector>

namespace tuck::bench {

// Each is defined where CMake found its library: no others are called.
std::vector<device_peer> cub_peers();
std::vector<device_peer> nvcomp_peers();
std::vector<device_peer> thrust_peers();

}  // namespace tuck::bench
