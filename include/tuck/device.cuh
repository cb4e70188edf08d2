// SPDX-License-Identifier: Apache-2.0
// Includes everything for the GPU except swapping: encode and decode on a stream, and block codecs for user kernels.
// NVRTC sees only the latter.
#pragma once

#include <tuck/codec/bitpack/bitpack_block.cuh>
#include <tuck/codec/chain/chain_block.cuh>
#include <tuck/codec/chain/chains.hpp>
#include <tuck/codec/codebooks/codebooks_block.cuh>
#include <tuck/codec/deflate/deflate_block.cuh>
#include <tuck/codec/huffman/huffman_block.cuh>
#include <tuck/codec/mask/mask_block.cuh>
#include <tuck/codec/quantize/quantize_block.cuh>
#include <tuck/codec/steps/steps_block.cuh>
#include <tuck/codec/transform/differences_block.cuh>
#include <tuck/codec/transform/rows_block.cuh>
#include <tuck/core/version.hpp>
#include <tuck/frame/block.cuh>

#if defined(TUCK_HOST)
#include <tuck/frame/batch.cuh>
#include <tuck/frame/delta.cuh>
#include <tuck/frame/device.cuh>
#include <tuck/frame/statistics.cuh>

#if defined(__cpp_exceptions)
#include <tuck/memory/frame_buffer.cuh>
#endif
#endif
