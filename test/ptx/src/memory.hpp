// The allocations that kernels may touch, and which of their bytes have been written.
#pragma once

#include "../ptx.hpp"

#include <atomic>
#include <memory>
#include <vector>

namespace ptx {

// A bit for each byte of device memory. Shared by all that know of the allocation.
class written_bytes {
 public:
  explicit written_bytes(std::size_t bytes) : bits_(std::make_unique<std::atomic<uint64_t>[]>(bytes / 64 + 2)) {}
  void mark(uint64_t first, uint64_t count);
  // The first byte of the range that has not been written, or `count`.
  uint64_t first_unwritten(uint64_t first, uint64_t count) const;
  bool complete() const { return complete_.load(std::memory_order_relaxed); }
  void set_complete() { complete_.store(true, std::memory_order_relaxed); }

 private:
  std::unique_ptr<std::atomic<uint64_t>[]> bits_;
  std::atomic<bool> complete_{false};
};

struct allocation {
  uint64_t begin = 0, end = 0;
  std::shared_ptr<written_bytes> written;  // null where all is initialised

  bool holds(uint64_t address, uint64_t bytes) const {
    return address >= begin && address <= end && bytes <= end - address;
  }
};

// A launch's view of all allocations: a snapshot that is renewed when memory comes or goes.
class memory_map {
 public:
  // The allocation that holds these bytes; null where there is none.
  const allocation* find(uint64_t address, uint64_t bytes) {
    if (version_ != current_version.load(std::memory_order_acquire)) renew();
    if (last_ != nullptr && last_->holds(address, bytes)) return last_;
    return search(address, bytes);
  }
  // "4 bytes beyond the end of an allocation of 1024 bytes"
  std::string explain(uint64_t address, uint64_t bytes);

 private:
  friend void add_memory(const void*, std::size_t, memory_kind);
  friend void remove_memory(const void*);
  using table = std::vector<allocation>;  // by address

  void renew();
  const allocation* search(uint64_t address, uint64_t bytes);

  static std::atomic<uint64_t> current_version;
  std::shared_ptr<const table> table_;
  const allocation* last_ = nullptr;
  uint64_t version_ = 0;
};

}  // namespace ptx
