// deflate as the last stage of a chain, by one thread block.
#pragma once

#include <tuck/codec/chain/chain_block.cuh>
#include <tuck/codec/deflate/deflate.hpp>
#include <tuck/codec/deflate/sections_decoder.cuh>
#include <tuck/codec/deflate/sections_encoder.cuh>

namespace tuck::inline TUCK_ABI {

template <element T, int Threads, uint32_t Sections, uint32_t RowBytes>
struct block_sections<deflate<T>, Threads, Sections, RowBytes> {
  using sections = deflate_format::row_sections;
  using encoder = deflate_format::sections_encoder<deflate<T>::sections_width, Threads, Sections, RowBytes>;
  using decoder = deflate_format::sections_decoder<Threads, Sections>;
};

}  // namespace tuck::inline TUCK_ABI
