#include "bench/peers/peers.hpp"

#include <utility>

namespace tuck::bench {
namespace {

// TUCK_HOST_PEERS: the functions of peers.hpp whose libraries CMake found, maybe none, as in "zlib_peers,lz4_peers".
std::vector<peer> gathered() {
  const std::vector<std::vector<peer> (*)()> libraries{TUCK_HOST_PEERS};
  std::vector<peer> all;
  for (const auto of_library : libraries)
    for (peer& one : of_library()) all.push_back(std::move(one));
  return all;
}

}  // namespace

std::span<const peer> host_peers() {
  static const std::vector<peer> all = gathered();
  return all;
}

}  // namespace tuck::bench
