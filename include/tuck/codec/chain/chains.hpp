// The chains that are known to be worth it, by name.
#pragma once

#include <tuck/codec/bitpack/bitpack.hpp>
#include <tuck/codec/chain/chain.hpp>
#include <tuck/codec/deflate/deflate.hpp>
#include <tuck/codec/quantize/codes.hpp>
#include <tuck/codec/rle/rle.hpp>
#include <tuck/codec/transform/byte_planes.hpp>
#include <tuck/codec/transform/delta.hpp>
#include <tuck/codec/zvc/zvc.hpp>

namespace tuck::inline TUCK_ABI {

// Sparse activations, without loss: only what is not zero is coded, its upper bytes, its lower ones and the masks each
// by a code of their own.
template <element T> using zvc_planes_deflate = chain<zvc<T>, byte_planes<T>, deflate<uint8_t>>;

// The same where values repeat, as those of a background do: of what is not zero, only the heads of runs are kept. With
// elements of 8 bytes for the host alone: its five codes are more than a block has shared memory for.
template <element T> using zvc_rle_planes_deflate = chain<zvc<T>, rle<T>, byte_planes<T>, deflate<uint8_t>>;

// Weights: exponents compress, mantissas are stored. The case of ZipNN (Hershcovitch et al., 2024) and DFloat11 (Zhang
// et al., 2025).
template <element T> using planes_deflate = chain<byte_planes<T>, deflate<uint8_t>>;

// Smooth tensors within an error bound, coded by differences: the family of cuSZ (Tian et al., PACT 2020) and COMET
// (Jin et al., PPoPP 2021). With byte planes the code is of differences, as theirs; without, of single bytes of them.
template <floating_element T>
using quantize_delta_planes_deflate =
    chain<quantize_codes<T>, delta<bits_t<T>>, byte_planes<bits_t<T>>, deflate<uint8_t>>;
template <floating_element T>
using quantize_delta_deflate = chain<quantize_codes<T>, delta<bits_t<T>>, deflate<bits_t<T>>>;

// Counters, indices, time stamps: runs of equal steps, the rest by as many bits as it takes. The shape of nvCOMP's
// Cascaded.
template <element T> using delta_rle_bitpack = chain<delta<T>, rle<bits_t<T>>, bitpack<bits_t<T>>>;

}  // namespace tuck::inline TUCK_ABI
