// A line on the terminal that says how far a long operation is.
#pragma once

#include <tuck/frame/host.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

namespace tuck::tools {

// While it lives, rewrites a line on stderr with percent and GB/s - from the first second on, and only where stderr is
// a terminal. Leaves the line clear.
class progress {
 public:
  progress(std::string verb, uint64_t chunks, uint64_t bytes);

  // How a call runs whose chunks are to be counted here. Several calls may add up.
  host::execution execution(unsigned threads) noexcept { return {threads, &chunks_done_}; }
  // Counts chunks that something else has done.
  void add(uint64_t chunks) noexcept { chunks_done_.fetch_add(chunks, std::memory_order_relaxed); }

 private:
  void show(std::stop_token stop) const;
  std::string line(std::chrono::duration<double> elapsed) const;

  std::string verb_;
  uint64_t chunks_;
  uint64_t bytes_;
  std::atomic<uint64_t> chunks_done_{0};
  std::jthread display_;  // the last member: ends before what it reads does
};

}  // namespace tuck::tools
