// Threads that run blocks next to a stream's own thread.
#pragma once

#include "engine.hpp"

#include <atomic>
#include <memory>

namespace cudasim::detail {

// One request. Whoever moves it on from `asked` decides: a helper takes it, or the stream takes it back.
struct help {
  enum : std::uint32_t { asked, taken, finished, withdrawn };
  launch* job;
  engine* with;
  int index;
  std::atomic<std::uint32_t> state{asked};
  void finish();
};

void provide_helpers(int workers);
std::shared_ptr<help> ask_for_help(launch& job, engine& with, int index);

}  // namespace cudasim::detail
