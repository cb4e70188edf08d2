#include "shared_arena.hpp"

#include "../host/sanitizers.hpp"
#include "engine.hpp"

#include <sys/mman.h>

#include <cstdlib>

namespace cudasim::detail {
namespace {

constexpr std::byte canary{0xa5};

// Not memset: ThreadSanitizer intercepts it, and would see the first thread that names a variable write it.
void fill(std::byte* p, std::size_t n, std::byte value) {
  for (std::size_t i = 0; i < n; ++i) {
    p[i] = value;
    asm volatile("" ::: "memory");
  }
}

void map(std::byte*& base, std::size_t bytes) {
  const int fixed = base != nullptr ? MAP_FIXED : 0;
  void* p = mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  if (p == MAP_FAILED) std::abort();
  base = static_cast<std::byte*>(p);
}

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

shared_arena::shared_arena() : base_(nullptr) { map(base_, capacity); }

shared_arena::~shared_arena() {
  unhide(base_, capacity);
  munmap(base_, capacity);
}

void shared_arena::begin(std::size_t dynamic_bytes, std::uint8_t poison) {
  // A new mapping makes ThreadSanitizer forget the accesses of the block that was here before.
  if (tsan() && used_ > 0) map(base_, round_up(used_, 4096));
  unhide(base_, capacity);
  poison_ = poison;
  variables_.clear();
  static_bytes_ = 0;
  const std::size_t room = round_up(dynamic_bytes, 16);
  fill(base_, gap, canary);
  fill(base_ + gap, dynamic_bytes, std::byte{poison});
  fill(base_ + gap + dynamic_bytes, room - dynamic_bytes + gap, canary);
  variables_.push_back({nullptr, gap, dynamic_bytes, "dynamic shared memory", {"", 0}});
  used_ = gap + room + gap;
  hide(base_, gap);
  hide(base_ + gap + dynamic_bytes, capacity - gap - dynamic_bytes);
}

void* shared_arena::slot(const void* key, std::size_t bytes, std::size_t alignment, const char* name, site where) {
  for (const variable& v : variables_)
    if (v.key == key) return base_ + v.offset;
  static_bytes_ = round_up(static_bytes_, alignment) + bytes;
  if (static_bytes_ > static_limit || static_bytes_ + variables_[0].bytes > total_limit) return nullptr;
  const std::size_t offset = round_up(used_, alignment), end = offset + bytes;
  unhide(base_ + used_, end + gap - used_);
  fill(base_ + used_, offset - used_, canary);
  fill(base_ + offset, bytes, std::byte{poison_});
  fill(base_ + end, gap, canary);
  hide(base_ + used_, offset - used_);
  hide(base_ + end, gap);
  used_ = end + gap;
  variables_.push_back({key, offset, bytes, name, where});
  return base_ + offset;
}

std::string shared_arena::damage() const {
  if (asan()) return {};  // which stops at the access itself
  const auto intact = [this](std::size_t from, std::size_t to) {
    for (; from < to; ++from)
      if (base_[from] != canary) return false;
    return true;
  };
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const variable& v = variables_[i];
    const std::size_t end = v.offset + v.bytes;
    const std::string name = i == 0 ? std::string(v.name) : std::string(v.name) + " (" + describe(v.where) + ")";
    if (!intact(end, i + 1 < variables_.size() ? variables_[i + 1].offset : used_))
      return "the bytes behind " + name + ", of " + std::to_string(v.bytes) + " bytes, were overwritten";
    if (i == 0 && !intact(0, v.offset)) return "the bytes before " + name + " were overwritten";
  }
  return {};
}

}  // namespace cudasim::detail
