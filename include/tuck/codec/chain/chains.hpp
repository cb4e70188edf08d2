// SPDX-License-Identifier: Apache-2.0
// Names for useful chains.
#pragma once

#include <tuck/codec/bitpack/bitpack.hpp>
#include <tuck/codec/chain/chain.hpp>
#include <tuck/codec/huffman/huffman.hpp>
#include <tuck/codec/mask/rle.hpp>
#include <tuck/codec/quantize/quantize.hpp>
#include <tuck/codec/transform/differences.hpp>
#include <tuck/codec/transform/rows.hpp>

namespace tuck::inline TUCK_ABI {

/// For sparse activations. Lossless. The mask of the non-zero values compresses itself, and Huffman codes exponents and
/// signs of these values, but not the mantissas. -0.0 is a zero too: where that pays, a chunk has one bit for the sign
/// of each zero.
template <element T> using zvc_huffman = chain<packed_zvc<T>, huffman<T>>;

/// For sparse activations with repeated values, such as a background. Lossless. Like zvc_huffman, but of each run of
/// equal values only the first is kept.
template <element T> using zvc_rle_huffman = chain<packed_zvc<T>, rle<T>, huffman<T>>;

/// For rows that repeat, such as the gradient of mean pooling. Lossless. Like zvc_huffman, after the XOR with the row
/// above in the chunks where it makes zeros. Construct it with the row length in values: rows_zvc_huffman<T>(n).
template <element T> using rows_zvc_huffman = chain<rows<T>, packed_zvc<T>, huffman<T>>;

/// For tensors that tolerate an error. Quantizes values, takes differences of neighbours in the chunks where they are
/// smaller than the values, and Huffman-codes the non-zero results. Related to
/// cuSZ (Tian et al., PACT 2020) and COMET (Jin et al., VLDB 2022).
template <floating_element T>
using quantize_delta_huffman =
    chain<quantize_codes<T>, differences<bits_t<T>>, packed_zvc<bits_t<T>>, huffman<bits_t<T>>>;

/// For counters, indices and time stamps. Lossless. Takes differences where they are smaller, keeps the first of each
/// run of equal results, and packs these into as few bits as they need. Has the structure of nvCOMP's Cascaded.
template <element T> using delta_rle_bitpack = chain<differences<T>, rle<bits_t<T>>, bitpack<bits_t<T>>>;

}  // namespace tuck::inline TUCK_ABI
