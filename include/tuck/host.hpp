// SPDX-License-Identifier: Apache-2.0
// Includes everything for the CPU: codecs, frames, host::encode and host::decode. Plain C++20 without CUDA.
#pragma once

#include <tuck/all_codecs.hpp>
#include <tuck/codec/inflate/inflate.hpp>
#include <tuck/core/version.hpp>
#include <tuck/frame/host.hpp>
#include <tuck/frame/host_delta.hpp>
