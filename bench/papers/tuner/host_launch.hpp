// The launch that is recorded on a CPU. A tensor is cut into `blocks` pieces, which `threads` threads take in turn;
// each becomes a frame of its own in chunks of `chunk_bytes`, and comes back. A device's, by events, would be another
// launch_timer beside it.
#pragma once

#include "bench/micro/tensors.hpp"
#include "bench/papers/tuner/surface.hpp"

#include "tuck/codecs.hpp"

#include <memory>

namespace tuck::bench {

class host_launch {
 public:
  // Of a codec that loses nothing; the tensor must outlive it. A run is disturbed where its threads waited for a core
  // for more than a fiftieth of its time, and is repeated, up to `tries` in all. Only Linux tells; and where there are
  // more threads than cores they wait for each other. Throws std::runtime_error where the codec is not for the tensor.
  host_launch(const std::string& codec, const tensor& t, unsigned tries);

  // Of encoding and decoding all of it: CSWAP's objective. The first time that a point is asked for, it is made sure
  // that what comes back is what went in. Throws std::runtime_error.
  double operator()(const launch_point& p);

  // Runs that were disturbed even at the last try.
  uint64_t disturbed() const noexcept { return disturbed_; }

  // What a person would choose: a thread a core, four pieces a thread so that none waits long, the codec's own chunks.
  launch_point expert() const;

 private:
  struct run {
    double seconds = 0, waited = 0;  // of which threads were ready, but others had the cores
  };
  run once(const launch_point& p);

  const tensor& tensor_;
  unsigned tries_;
  uint64_t disturbed_ = 0;
  std::unique_ptr<tools::chosen_codec> codec_;
  std::vector<std::byte> frames_, restored_;
  std::vector<launch_point> sure_;
};

// 1 to 256 blocks by eighths of a power of two, a thread to one a core, or 4; chunks of 1 to 64 KiB by halves of a
// power of two.
launch_space default_host_space();

}  // namespace tuck::bench
