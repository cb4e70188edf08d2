// The front door of swapping: tensors out to pinned host memory and back, beside what the GPU computes.
#pragma once

#include <tuck/device.cuh>
#include <tuck/swap/pinned_pool.cuh>
#include <tuck/swap/swap_stream.cuh>
