// The kernels of a program that nvcc compiled: what its fat binaries registered.
#pragma once

#include "../ptx.hpp"

#include <string>

namespace cudasim::detail {

// The kernel that a host function stands for, its module parsed at first use; null where there is none or its module
// is not executable, and then `why` says so.
const ptx::kernel* registered_kernel(const void* host_function, std::string& why);

}  // namespace cudasim::detail
