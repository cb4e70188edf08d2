// SPDX-License-Identifier: Apache-2.0
// Working memory of the functions that encode and decode a chunk on one thread. Some threads have small stacks, so
// callers bring it: a call of the host allocates it once for each of its threads.
#pragma once

#include <tuck/core/bits.hpp>

#include <memory>
#include <new>
#include <type_traits>

namespace tuck::inline TUCK_ABI {

/// Refers to working memory, which begins at a multiple of 64 bytes. Who takes a part of it gets the part at its
/// beginning; the copies of a workspace do not know of that.
class workspace {
 public:
  static constexpr unsigned alignment_log2 = 6;  ///< of the memory and of all parts

  workspace() = default;  ///< without memory: nothing may be taken from it
  /// @param memory  begins at a multiple of 64 bytes
  explicit workspace(std::byte* memory) noexcept : memory_(memory) {}

  /// Returns the size in bytes of a part that has `count` objects.
  template <class T> static constexpr uint32_t bytes_of(uint32_t count = 1) noexcept {
    return round_up_pow2(count * uint32_t{sizeof(T)}, alignment_log2);
  }
  /// Takes a part with `count` objects, uninitialized.
  template <class T> T* take(uint32_t count) noexcept {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 1u << alignment_log2);
    T* const objects = reinterpret_cast<T*>(memory_);
    memory_ += bytes_of<T>(count);
    return objects;
  }
  /// Takes a part and constructs an object there, whose members without initializers are uninitialized.
  template <class T, class... Args> T& make(const Args&... args) noexcept {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 1u << alignment_log2);
    std::byte* const to = memory_;
    memory_ += bytes_of<T>();
    if constexpr (sizeof...(Args) == 0)
      return *new (to) T;  // with () all of it would be set to 0
    else
      return *new (to) T(args...);
  }

 private:
  std::byte* memory_ = nullptr;
};

namespace detail {

// The workspaces of several threads, each of `bytes` bytes. Small ones are members of this object.
class workspaces {
 public:
  workspaces(unsigned threads, uint32_t bytes) noexcept
      : bytes_(round_up_pow2(uint64_t{bytes}, workspace::alignment_log2)) {
    memory_ = small_;
    if (threads * bytes_ > sizeof small_) [[unlikely]]
      allocate(threads * bytes_);
  }
  workspaces(const workspaces&) = delete;
  ~workspaces() {
    if (large_ != nullptr) [[unlikely]]
      delete[] large_;
  }

  explicit operator bool() const noexcept { return memory_ != nullptr; }  // Is there enough memory?
  workspace of(unsigned thread) const noexcept { return workspace(memory_ + thread * bytes_); }

 private:
  [[gnu::__noinline__, gnu::__cold__]] void allocate(uint64_t bytes) noexcept {
    constexpr uint64_t alignment = uint64_t{1} << workspace::alignment_log2;
    memory_ = large_ = new (std::nothrow) std::byte[bytes + alignment];
    if (memory_ != nullptr) memory_ += -reinterpret_cast<uintptr_t>(memory_) % alignment;
  }

  uint64_t bytes_;
  std::byte* memory_;
  std::byte* large_ = nullptr;
  alignas(1u << workspace::alignment_log2) std::byte small_[16 * 1024];
};

// Returns work(workspace), with a workspace of this size in bytes, or `failed` if there is no memory.
template <class Answer, class Work> Answer with_workspace(uint32_t bytes, Answer failed, const Work& work) noexcept {
  const workspaces memory(1, bytes);
  return memory ? work(memory.of(0)) : failed;
}

}  // namespace detail
}  // namespace tuck::inline TUCK_ABI
