// The shared memory of one resident block: dynamic part first, then a slot for each TUCK_SHARED variable
// in the order of first use. Gaps lie between them: canaries in every build, poisoned under ASan.
#pragma once

#include "../sim/runtime.hpp"

#include <string>
#include <vector>

namespace cudasim::detail {

class shared_arena {
 public:
  static constexpr std::size_t static_limit = 48 * 1024;
  static constexpr std::size_t total_limit = 227 * 1024;

  shared_arena();
  ~shared_arena();
  shared_arena(const shared_arena&) = delete;
  shared_arena& operator=(const shared_arena&) = delete;

  void begin(std::size_t dynamic_bytes, std::uint8_t poison);  // of a block: nothing of the last one survives
  // Null when the static variables exceed the limit.
  void* slot(const void* key, std::size_t bytes, std::size_t alignment, const char* name, site where);
  std::byte* dynamic() const { return base_ + gap; }
  bool contains(const void* p) const {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(base_) < capacity;
  }
  std::string damage() const;  // names the variable next to a canary that was overwritten; empty if none was

 private:
  struct variable {
    const void* key;
    std::size_t offset, bytes;
    const char* name;
    site where;
  };
  static constexpr std::size_t gap = 64, capacity = 512 * 1024;

  std::byte* base_;
  std::size_t used_ = 0, static_bytes_ = 0;
  std::uint8_t poison_ = 0;
  std::vector<variable> variables_;
};

}  // namespace cudasim::detail
