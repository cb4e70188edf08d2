// SPDX-License-Identifier: Apache-2.0
// Includes everything for the CPU: codecs, frames, host::encode and host::decode. Plain C++20 without CUDA.
#pragma once

#include <tuck/codec/bitpack/bitpack.hpp>
#include <tuck/codec/chain/chains.hpp>
#include <tuck/codec/codebooks/codebooks.hpp>
#include <tuck/codec/deflate/deflate.hpp>
#include <tuck/codec/inflate/inflate.hpp>
#include <tuck/codec/mask/rle.hpp>
#include <tuck/codec/mask/zvc.hpp>
#include <tuck/codec/quantize/quantize.hpp>
#include <tuck/codec/steps/steps.hpp>
#include <tuck/core/version.hpp>
#include <tuck/frame/host.hpp>
#include <tuck/frame/host_delta.hpp>
