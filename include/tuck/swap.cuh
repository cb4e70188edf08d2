// SPDX-License-Identifier: Apache-2.0
// Includes everything for swapping: tensors are offloaded to pinned host memory and restored while the GPU computes.
#pragma once

#include <tuck/device.cuh>
#include <tuck/swap/pinned_pool.cuh>
#include <tuck/swap/swap_stream.cuh>
