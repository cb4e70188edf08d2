// Codecs of every kind behind one type, so that tests can choose among them at run time.
#pragma once

#include <tuck/swap.cuh>

#include <functional>
#include <string>
#include <vector>

namespace tuck::test {

struct swap_codec {
  std::string name;
  uint64_t value_bytes;
  bool slow;  // in the simulator
  std::function<std::vector<std::byte>(uint64_t values, uint64_t seed)> make;
  std::function<result(swap_stream&, const_bytes values, cudaStream_t, swap_handle&, swap_path)> out;
  // Are these what it may make of those?
  std::function<bool(const std::vector<std::byte>& values, const std::vector<std::byte>& restored)> allows;
  std::function<uint64_t(uint64_t values, bool checksums)> max_frame_bytes;  // in the pool
};

const std::vector<swap_codec>& swap_codecs();

}  // namespace tuck::test
