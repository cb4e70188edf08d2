// huffman by one thread block: the bytes of layout.hpp, of a chunk alone and of a chain's row.
#pragma once

#include <tuck/codec/huffman/decoder.cuh>
#include <tuck/codec/huffman/encoder.cuh>
#include <tuck/codec/huffman/huffman.hpp>
#include <tuck/codec/row_block.cuh>

namespace tuck::inline TUCK_ABI {

template <element T, int Threads, uint32_t RowBytes> struct row_block<huffman<T>, Threads, RowBytes> {
  using encoder = huffman_format::block_encoder<T, Threads, RowBytes>;
  using decoder = huffman_format::block_decoder<T, Threads, RowBytes>;
};

template <element T, int Threads>
class block_codec<huffman<T>, Threads> : public detail::row_block_codec<huffman<T>, Threads> {
  using detail::row_block_codec<huffman<T>, Threads>::row_block_codec;
};
template <element T, int Threads>
class block_decoder<huffman<T>, Threads> : public detail::row_block_decoder<huffman<T>, Threads> {
  using detail::row_block_decoder<huffman<T>, Threads>::row_block_decoder;
};

}  // namespace tuck::inline TUCK_ABI
