// The front door of the GPU: encode and decode on a stream, and the block codecs for kernels of your own.
#pragma once

#include <tuck/codec/bitpack/bitpack_block.cuh>
#include <tuck/codec/chain/chain_block.cuh>
#include <tuck/codec/chain/chains.hpp>
#include <tuck/codec/deflate/deflate_block.cuh>
#include <tuck/codec/exponents/exponents_block.cuh>
#include <tuck/codec/gaps/gaps_block.cuh>
#include <tuck/codec/huffman/huffman_block.cuh>
#include <tuck/codec/quantize/codes_block.cuh>
#include <tuck/codec/quantize/quantize_block.cuh>
#include <tuck/codec/rle/rle_block.cuh>
#include <tuck/codec/transform/delta_block.cuh>
#include <tuck/codec/zvc/zvc_block.cuh>
#include <tuck/core/version.hpp>
#include <tuck/frame/batch.cuh>
#include <tuck/frame/block.cuh>
#include <tuck/frame/delta.cuh>
#include <tuck/frame/delta_batch.cuh>
#include <tuck/frame/device.cuh>
#include <tuck/frame/inflate_batch.cuh>
#include <tuck/frame/statistics.cuh>

#if defined(__cpp_exceptions)
#include <tuck/memory/frame_buffer.cuh>
#endif
