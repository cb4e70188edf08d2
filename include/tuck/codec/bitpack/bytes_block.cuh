// Groups of unsigned bytes on one thread block, four bytes in a word. groups_block.cuh and groups_block_reader.cuh use
// these functions.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/core/bit_lanes.cuh>

namespace tuck::inline TUCK_ABI::detail {

// The number of words that `Count` bytes fill.
template <uint32_t Count> inline constexpr uint32_t bytes_words = (Count + 3) / 4;

// Returns a mask of the non-zero bytes of `Words` words.
template <uint32_t Words> __device__ uint32_t find_non_zeros(const device::vec128* own) {
  uint32_t bits = 0;
#pragma unroll
  for (uint32_t i = 0; i < Words; ++i) bits |= non_zero_nibble(own[i / 4].w[i % 4]) << 4 * i;
  return bits;
}

// Writes each byte of `Words` words minus `base`, in `width` bits. `Together` bytes are written at once. A product
// joins two fields of 8 bits, then two fields of 16 bits.
template <uint32_t Together, uint32_t Words>
__device__ __forceinline__ void put_bytes(device::shared_bit_writer& out, const device::vec128* own, uint32_t width,
                                          uint32_t base) {
  const uint32_t room = 1u << width, closer = room - 256, much_closer = room * room - (1u << 16);
  const uint32_t bases = base * (room + 1) * (room * room + 1);
#pragma unroll
  for (uint32_t i = 0; i < Words; i += Together / 4) {
    uint32_t piece = 0;
#pragma unroll
    for (uint32_t k = Together / 4; k-- > 0;) {
      const uint32_t x = own[(i + k) / 4].w[(i + k) % 4];
      const uint32_t pairs = device::byte_perm<0x4341>(x, 0) * closer + x;
      if (k + 1 < Together / 4) piece <<= 4 * width;  // A single word may have fields of 8 bits.
      piece += (pairs >> 16) * much_closer + pairs - bases;
    }
    out.put(piece, Together * width);
  }
}

// Reads `Words` words of bytes, from byte `column` of the group whose bytes begin at `bit`. `fields` and `bases` hold
// four bytes each. The sum of a field and a base must fit in a byte.
template <uint32_t Together, uint32_t Words>
__device__ __forceinline__ void take_bytes(uint32_t (&words)[Words], const uint32_t* payload, uint32_t bit,
                                           uint32_t column, uint32_t width, uint32_t fields, uint32_t bases) {
  const uint32_t two = 2 * width, four = 4 * width;
  bit += column * width;
#pragma unroll
  for (uint32_t i = 0; i < Words; i += Together / 4, bit += Together * width) {
    uint32_t bits = device::shared_window(payload, bit);
#pragma unroll
    for (uint32_t k = 0; k < Together / 4; ++k) {
      if (k > 0) bits >>= four;
      const uint32_t pairs = device::byte_perm<0x5410>(bits, bits >> two);
      words[i + k] = (device::byte_perm<0x6240>(pairs, pairs >> width) & fields) + bases;
    }
  }
}

// The lowest bytes of integers, four in a word.
template <uint32_t Words> struct byte_words {
  uint32_t w[Words];
};
template <uint32_t Count> __device__ byte_words<bytes_words<Count>> bytes_of(const uint32_t (&x)[Count]) {
  byte_words<bytes_words<Count>> made;
#pragma unroll
  for (uint32_t i = 0; i < Count; i += 4) {
    const uint32_t low = device::byte_perm<0x0040>(x[i], x[i + 1]);
    const uint32_t high = device::byte_perm<0x0040>(x[i + 2], x[i + 3]);
    made.w[i / 4] = device::byte_perm<0x5410>(low, high);
  }
  return made;
}

}  // namespace tuck::inline TUCK_ABI::detail
