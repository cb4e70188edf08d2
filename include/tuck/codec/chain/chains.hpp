// The chains that are known to be worth it, by name.
#pragma once

#include <tuck/codec/bitpack/bitpack.hpp>
#include <tuck/codec/chain/chain.hpp>
#include <tuck/codec/huffman/huffman.hpp>
#include <tuck/codec/quantize/codes.hpp>
#include <tuck/codec/rle/rle.hpp>
#include <tuck/codec/transform/delta.hpp>
#include <tuck/codec/zvc/zvc.hpp>

namespace tuck::inline TUCK_ABI {

// Sparse activations, without loss: of what is not zero, exponents and masks have a code each, mantissas are stored.
template <element T> using zvc_huffman = chain<zvc<T>, huffman<T>>;

// The same where values repeat, as those of a background do: of what is not zero, only the heads of runs are kept.
template <element T> using zvc_rle_huffman = chain<zvc<T>, rle<T>, huffman<T>>;

// Smooth tensors within an error bound, coded by differences: the family of cuSZ (Tian et al., PACT 2020) and COMET
// (Jin et al., PPoPP 2021). Where differences are not 0 has a code of its own.
template <floating_element T>
using quantize_delta_huffman = chain<quantize_codes<T>, delta<bits_t<T>>, zvc<bits_t<T>>, huffman<bits_t<T>>>;

// Counters, indices, time stamps: runs of equal steps, the rest by as many bits as it takes. The shape of nvCOMP's
// Cascaded.
template <element T> using delta_rle_bitpack = chain<delta<T>, rle<bits_t<T>>, bitpack<bits_t<T>>>;

}  // namespace tuck::inline TUCK_ABI
