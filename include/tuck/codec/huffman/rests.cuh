// SPDX-License-Identifier: Apache-2.0
// Rests of numbers, as planes, on one thread. layout.hpp describes them.
#pragma once

#include <tuck/codec/huffman/numbers.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// The planes of a chunk. Word is uint32_t, or const uint32_t to read.
template <uint32_t Width, class Word> class rest_planes {
  using quad = number_quad<Width>;
  using group = number_group<Width>;

 public:
  // `shift` is that of the shape, perhaps known when kernels are compiled.
  __device__ rest_planes(const shape& s, uint32_t shift, Word* begin)
      : first_(begin),
        shift_(shift),
        bytes_(shift / 8),
        plane_(s.plane_words(8)),
        of_four_words_(s.plane_words(4)),
        of_two_words_(s.plane_words(2)),
        of_one_words_(s.plane_words(1)) {
    of_four_ = first_ + bytes_ * plane_;
    of_two_ = of_four_ + (shift & 4) / 4 * of_four_words_;
    of_one_ = of_two_ + (shift & 2) / 2 * of_two_words_;
  }

  // Writes the rests of group g. Behind the last group, one of zeros is written too if its words are in the planes. All
  // lanes of a warp call it, with groups in their order.
  __device__ void store(const group& x, uint32_t g) const {
    Word* to = first_;
#pragma unroll
    for (uint32_t b = 0; b + 1 < Width; ++b)
      if (b < bytes_) {
        x.store_bytes(to, plane_, g, b);
        to += plane_;
      }
    if (shift_ % 8 == 0) return;
    uint32_t part[group::quads];
#pragma unroll
    for (uint32_t i = 0; i < group::quads; ++i) part[i] = x.at[i].bytes(bytes_);
    store_partial(part, g);
  }
  // Writes only the shift % 8 bits of the rests that are not in planes of bytes: the lowest of each byte.
  __device__ void store_partial(const uint32_t (&part)[group::quads], uint32_t g) const {
    if ((shift_ & 4) != 0) group::template store_bits<4>(of_four_, of_four_words_, g, part, 0);
    if ((shift_ & 2) != 0) group::template store_bits<2>(of_two_, of_two_words_, g, part, shift_ & 4);
    if ((shift_ & 1) != 0) group::template store_bits<1>(of_one_, of_one_words_, g, part, shift_ & 6);
  }

  // Adds the rests of quad q.
  __device__ void add(quad& x, uint32_t q) const {
    Word* from = first_ + q;
#pragma unroll
    for (uint32_t b = 0; b + 1 < Width; ++b)
      if (b < bytes_) {
        or_bytes(x, *from, b);
        from += plane_;
      }
    if (shift_ % 8 == 0) return;
    const uint32_t rest = partial(q);
#pragma unroll
    for (uint32_t b = 0; b < Width; ++b)
      if (b == bytes_) or_bytes(x, rest, b);
  }
  // Returns what store_partial wrote of group g. The planes are at a multiple of 8.
  __device__ void load_partial(uint32_t (&part)[group::quads], uint32_t g) const {
#pragma unroll
    for (uint32_t i = 0; i < group::quads; ++i) part[i] = 0;
    if ((shift_ & 4) != 0) group::template add_bits<4>(of_four_, g, 0, part);
    if ((shift_ & 2) != 0) group::template add_bits<2>(of_two_, g, shift_ & 4, part);
    if ((shift_ & 1) != 0) group::template add_bits<1>(of_one_, g, shift_ & 6, part);
  }
  // Returns what it wrote of quad q.
  __device__ uint32_t partial(uint32_t q) const {
    uint32_t rest = 0;
    if ((shift_ & 4) != 0) rest = group::template load_bits<4>(of_four_, q);
    if ((shift_ & 2) != 0) rest |= group::template load_bits<2>(of_two_, q) << (shift_ & 4);
    if ((shift_ & 1) != 0) rest |= group::template load_bits<1>(of_one_, q) << (shift_ & 6);
    return rest;
  }

 private:
  // Adds four bytes as byte b of the numbers.
  __device__ static void or_bytes(quad& x, uint32_t bytes, uint32_t b) {
    quad y;
    y.set_bytes(bytes);
#pragma unroll
    for (uint32_t i = 0; i < quad::words; ++i) x.set(i, x.at(i) | y.at(i) << 8 * b);
  }

  Word *first_, *of_four_, *of_two_, *of_one_;
  uint32_t shift_, bytes_;
  uint32_t plane_, of_four_words_, of_two_words_, of_one_words_;
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
