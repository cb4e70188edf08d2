// Named chains that are known to be useful.
#pragma once

#include <tuck/codec/bitpack/bitpack.hpp>
#include <tuck/codec/chain/chain.hpp>
#include <tuck/codec/huffman/huffman.hpp>
#include <tuck/codec/quantize/codes.hpp>
#include <tuck/codec/rle/rle.hpp>
#include <tuck/codec/transform/delta.hpp>
#include <tuck/codec/zvc/zvc.hpp>

namespace tuck::inline TUCK_ABI {

/// For sparse activations, lossless: exponents of non-zero values and masks are entropy-coded, mantissas are stored.
template <element T> using zvc_huffman = chain<zvc<T>, huffman<T>>;

/// For sparse activations with repeated values, such as a background, lossless: zvc_huffman that keeps only the heads
/// of runs.
template <element T> using zvc_rle_huffman = chain<zvc<T>, rle<T>, huffman<T>>;

/// For smooth tensors within an error bound: codes differences, with a separate code for the mask of those that are not
/// 0. The family of cuSZ (Tian et al., PACT 2020) and COMET (Jin et al., PPoPP 2021).
template <floating_element T>
using quantize_delta_huffman = chain<quantize_codes<T>, delta<bits_t<T>>, zvc<bits_t<T>>, huffman<bits_t<T>>>;

/// For counters, indices and time stamps: runs of equal steps, and other steps in as few bits as needed. Has the
/// structure of nvCOMP's Cascaded.
template <element T> using delta_rle_bitpack = chain<delta<T>, rle<bits_t<T>>, bitpack<bits_t<T>>>;

}  // namespace tuck::inline TUCK_ABI
