// SPDX-License-Identifier: Apache-2.0
// What .cpp files need of swap.cuh: classes that have a swap_stream, swap_handle or frame_buffer as a member are
// declared and used with it. Needs the headers of CUDA's runtime, but no nvcc.
#pragma once

#include <tuck/memory/frame_buffer.hpp>
#include <tuck/swap/swap_stream.hpp>
