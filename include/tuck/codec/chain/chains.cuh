// What kernels need of the chains that have names.
#pragma once

#include <tuck/codec/bitpack/bitpack_block.cuh>
#include <tuck/codec/chain/chain_block.cuh>
#include <tuck/codec/chain/chains.hpp>
#include <tuck/codec/huffman/huffman_block.cuh>
#include <tuck/codec/quantize/codes_block.cuh>
#include <tuck/codec/rle/rle_block.cuh>
#include <tuck/codec/transform/delta_block.cuh>
#include <tuck/codec/zvc/zvc_block.cuh>
