// When what a warp asks of memory is there: shared memory, L1, L2, DRAM, atomics.
#pragma once

#include "byte_pipe.hpp"
#include "operation.hpp"

#include "../src/launch_run.hpp"

#include <array>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

namespace ptx::time {

// A line may be in any place, so that hits do not depend on where the host has the buffers.
class l1_cache {
 public:
  explicit l1_cache(std::size_t lines) : room_(lines) {}

  // Is the sector there? It is then. A line that comes drives out the one that was used longest ago.
  bool hits(uint64_t sector);

 private:
  struct line {
    uint64_t number;
    uint8_t sectors;  // those that are there, as bits
  };
  std::size_t room_;
  std::list<line> lines_;  // the last used first
  std::unordered_map<uint64_t, std::list<line>::iterator> places_;
};

// What the schedulers of one multiprocessor share.
struct memory_port {
  double busy = 0;  // until when it takes loads, stores and shuffles
  double out = 0;   // until when its requests to L2 have left
  l1_cache l1;

  explicit memory_port(std::size_t lines) : l1(lines) {}
};

class memory_system {
 public:
  explicit memory_system(const machine& m) : m_(m), dram_(m.dram_bytes), l2_(m.l2_bytes) {}

  struct answer {
    cycle known;  // when the result is there
    wait kind;
  };
  // Of an instruction that issues `now` and did what `a` says. polls: it waits for what other blocks write.
  answer access(memory_port& port, const access_record& a, const instruction& i, const operation& o, cycle now,
                bool polls);

  // A bulk copy that issues `now`: when its bytes are in shared memory.
  cycle bulk_copy(memory_port& port, uint64_t from, uint32_t bytes, cycle now);

 private:
  cycle shared(memory_port& port, const access_record& a, const instruction& i, const operation& o, cycle now) const;
  cycle atomic(const access_record& a, cycle begun);
  void write(memory_port& port, const access_record& a, cycle begun);
  // Reads sectors past the L1 cache, from `at` on, when the request has been accepted. Returns when they are at the
  // multiprocessor.
  cycle read(memory_port& port, std::span<const uint64_t> sectors, cycle at);
  cycle load(memory_port& port, const access_record& a, const operation& o, cycle begun);
  bool touch(uint64_t sector);
  cycle leave(memory_port& port, cycle at, std::size_t sectors) const;

  const machine& m_;
  byte_pipe dram_, l2_;
  std::unordered_map<uint64_t, std::unique_ptr<std::array<uint64_t, 64>>> pages_;  // sectors that L2 has, as bits
  uint64_t last_page_ = ~uint64_t{0};
  std::array<uint64_t, 64>* last_ = nullptr;
  std::unordered_map<uint64_t, double> atomics_;  // until when a sector is busy with them
  std::vector<uint64_t> missing_;
};

}  // namespace ptx::time
