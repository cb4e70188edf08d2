// Kernels as PTX: a stream keeps nothing of them.
#pragma once

namespace cudasim::detail {

struct kernel_runner {};

}  // namespace cudasim::detail
