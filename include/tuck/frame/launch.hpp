// SPDX-License-Identifier: Apache-2.0
// What calls on a stream take besides data. Plain C++, for files that do not launch kernels themselves.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/span.hpp>
#include <tuck/core/status.hpp>

namespace tuck::inline TUCK_ABI {

/// Says how a call uses the GPU. What the call writes does not depend on it.
struct launch_options {
  unsigned max_blocks = 0;  ///< maximum number of blocks to launch; 0: as many as fit on the GPU
  /// Values in a chunk of the frame that decode or decode_delta reads; 0: not known. These calls launch one block for
  /// each chunk. If it is not known, they launch a block for each 16 KiB of values, or one for each 2 KiB up to two on
  /// each multiprocessor. A wrong number only costs time. Encoders and batches ignore it
  uint32_t chunk_values = 0;
};

inline constexpr uint64_t device_alignment = 16;  ///< bytes; of frames, scratch and outcomes on the device

/// Working memory of a call, in device memory. It is a type of its own so that it cannot be confused with a frame.
/// `scratch_bytes` says how much a call needs. `initialize` prepares it for the first use.
class scratch_span {
 public:
  constexpr scratch_span() = default;                                          ///< no memory
  constexpr explicit scratch_span(bytes memory) noexcept : memory_(memory) {}  ///< scratch in `memory`

  constexpr bytes memory() const noexcept { return memory_; }  ///< the memory
  /// Checks scratch of which a call needs `size` bytes.
  /// @return ok, invalid_argument, misaligned or scratch_too_small
  status check(uint64_t size) const noexcept {
    if (memory_.data() == nullptr) return status::invalid_argument;
    if (!tuck::aligned(memory_.data(), device_alignment)) return status::misaligned;
    return memory_.size() < size ? status::scratch_too_small : status::ok;
  }

 private:
  bytes memory_;
};

namespace detail {

// Where the frame starts in its buffer: at `*used`, or at 0 if `used` is null. With `used`, the kernel writes the start
// to `*offset`.
struct append_target {
  uint64_t* used = nullptr;
  uint64_t* offset = nullptr;
};

}  // namespace detail
}  // namespace tuck::inline TUCK_ABI
