// The peers on the device of each library, in files of their own so that any of them may be left out.
#pragma once

#include "bench/micro/device.hpp"

#include <memory>
#include <stdexcept>
#include <vector>

namespace tuck::bench {

// A coder of unsigned integers as large as the request's values.
template <template <class> class Coder> std::unique_ptr<device_coder> make_of_words(const coder_request& request) {
  switch (size_of(request.type)) {
    case 1: return std::make_unique<Coder<uint8_t>>(request);
    case 2: return std::make_unique<Coder<uint16_t>>(request);
    case 4: return std::make_unique<Coder<uint32_t>>(request);
    case 8: return std::make_unique<Coder<uint64_t>>(request);
    default: throw std::runtime_error("a tensor of no known type");
  }
}

// Each is defined where CMake found its library: no others are called.
std::vector<device_peer> cub_peers();
std::vector<device_peer> nvcomp_peers();
std::vector<device_peer> thrust_peers();

}  // namespace tuck::bench
