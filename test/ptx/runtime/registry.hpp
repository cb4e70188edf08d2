// The program's modules and kernels, as nvcc's host code registers them when the program, or a library of it, starts.
#pragma once

#include "ptx.hpp"
#include "ptxas.hpp"
#include "time.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

namespace cudaptx {

// The kernel of the module that registered this host function. A module is loaded when the first of its kernels is
// wanted; what is wrong with it goes to stderr once, and into cudasim::last_report() each time.
cudaError_t find(const void* host, const ptx::kernel*& kernel);

// The registers of a thread of this kernel on sm_ARCH. Throws std::runtime_error: see ptxas.hpp.
std::uint32_t registers_of(const ptx::kernel& kernel, int arch);

// The model of time on this GPU, for these kernels. Lines of helper functions count as those that call them.
std::shared_ptr<ptx::time::model> model_of(const ptx::time::machine& gpu);

int target();  // of the first module that has PTX, 75 where none has

}  // namespace cudaptx
