#include "bench/peers/device/peers.hpp"

#include <utility>

namespace tuck::bench {
namespace {

// TUCK_DEVICE_PEERS: the functions of peers.hpp whose libraries CMake found, maybe none, as in "cub_peers".
std::vector<device_peer> gathered() {
  const std::vector<std::vector<device_peer> (*)()> libraries{TUCK_DEVICE_PEERS};
  std::vector<device_peer> all;
  for (const auto of_library : libraries)
    for (device_peer& one : of_library()) all.push_back(std::move(one));
  return all;
}

}  // namespace

std::span<const device_peer> device_peers() {
  static const std::vector<device_peer> all = gathered();
  return all;
}

}  // namespace tuck::bench
