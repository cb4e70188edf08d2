// SPDX-License-Identifier: Apache-2.0
// How the kernels of a codec share a multiprocessor: how many blocks it holds, whether an encoded chunk waits for its
// offset while the next one is measured, and whether the next chunk is fetched while one is decoded.
//
// All of it follows from the registers and the shared memory that a block needs, and from what the multiprocessor has
// (core/architecture.hpp).
#pragma once

#include <tuck/codec/block_tile.cuh>
#include <tuck/core/architecture.hpp>

namespace tuck::inline TUCK_ABI {

inline constexpr int block_threads = 128;  ///< threads per block of the library's kernels

namespace detail {
// A block has 48 KiB on every architecture. Of these the kernels of the frame need some besides the codec. The system
// takes 1 KiB of the multiprocessor's memory for each block.
inline constexpr uint32_t most_shared_bytes = 46 * 1024, shared_of_kernel = 400, shared_of_system = 1024;

// Return how many blocks a multiprocessor has registers, or shared memory, for.
TUCK_HD constexpr int blocks_with(int registers) noexcept {
  return static_cast<int>(architecture::registers) / (block_threads * registers);
}
TUCK_HD constexpr int blocks_with_memory(uint64_t bytes) noexcept {  // at least 1
  const auto blocks = static_cast<int>(architecture::shared_bytes / (bytes + shared_of_kernel + shared_of_system));
  return blocks < 1 ? 1 : blocks;
}
TUCK_HD constexpr int fewer_of(int a, int b) noexcept { return a < b ? a : b; }

template <int Registers> TUCK_HD constexpr int blocks_with() noexcept {
  static_assert(Registers >= 64 && Registers <= 128, "tuck: registers of a block codec are 64, 80, 96 or 128");
  return detail::blocks_with(Registers);
}

// What a block codec or block decoder B declares.
template <class B> inline constexpr int blocks_of = blocks_with(64);
template <class B>
  requires(B::registers > 0)
inline constexpr int blocks_of<B> = blocks_with<B::registers>();

// The same for a kernel that encodes one tensor.
template <class B>
inline constexpr int encode_blocks_of =
    blocks_of<B> == blocks_with(80) ? blocks_with(architecture::registers_for_80) : blocks_of<B>;

template <class B> inline constexpr bool keeps_tile = true;
template <class B>
  requires(!B::keeps_tile)
inline constexpr bool keeps_tile<B> = false;

template <class B>
concept has_chunk = requires(B& block) { block.chunk(); };

// Shared memory of a block codec that encodes, with a buffer for its chunk. Apart: the buffer is not in TempStorage. A
// chunk of a splitter may have up to Growth bytes more than its values.
template <class B, bool Apart = !has_chunk<B>, uint32_t Growth = 0> struct encoder_storage {
  typename B::TempStorage codec;
  alignas(16) std::byte buffer[Apart ? tile_bytes + Growth : 16];

  // Where `block` writes.
  __device__ std::byte* chunk([[maybe_unused]] B& block) {
    if constexpr (Apart)
      return buffer;
    else
      return block.chunk();
  }
};
// The same for decoding, with a buffer for as many chunks.
template <class B, int Chunks = 1> struct decoder_storage {
  typename B::TempStorage codec;
  alignas(16) std::byte buffer[Chunks][tile_bytes + 32];
};

// A chunk waits in memory of its own: always if TempStorage has no buffer for it, else if there is memory for 5 blocks.
template <class B> struct encode_policy {
  static constexpr int with_memory = blocks_with_memory(sizeof(encoder_storage<B, true>));
  static constexpr bool waits = !has_chunk<B> || with_memory >= 5;
  static constexpr int blocks =
      fewer_of(encode_blocks_of<B>, waits ? with_memory : blocks_with_memory(sizeof(encoder_storage<B>)));
};
template <class B> inline constexpr bool may_fetch = true;
template <class B>
  requires(!B::fetches)
inline constexpr bool may_fetch<B> = false;

// The next chunk is fetched if there is memory for as many blocks as have registers, or for 6 of at most 36 KiB.
template <class B> struct decode_policy {
  static constexpr uint64_t bytes = sizeof(decoder_storage<B, 2>);
  static constexpr int fewer = fewer_of(blocks_of<B>, 6);
  static constexpr bool fetches = architecture::copies_in_background && may_fetch<B> &&
                                  bytes <= (blocks_of<B> > 6 ? 36u * 1024 : most_shared_bytes) &&
                                  fewer <= blocks_with_memory(bytes);
  static constexpr int blocks =
      fetches ? fewer : fewer_of(blocks_of<B>, blocks_with_memory(sizeof(decoder_storage<B>)));
};
// A block of a batch keeps values in registers from one item to the next. 64 are too few on some processors.
template <class B> inline constexpr int batch_blocks_of = fewer_of(blocks_of<B>, blocks_with(72));
// The values of a delta's base take registers too: at 5 blocks a thread has 96, at 4 it has 128.
template <class B> inline constexpr int delta_blocks_of = blocks_of<B> > 5 ? 5 : blocks_of<B> - 1;
// Of kernels that encode a delta.
template <class B> inline constexpr int delta_encode_blocks_of = delta_blocks_of<B>;
// The cursor of a batch that is encoded takes registers besides.
template <class B> inline constexpr int delta_batch_blocks_of = delta_blocks_of<B> - 1;

}  // namespace detail
}  // namespace tuck::inline TUCK_ABI
