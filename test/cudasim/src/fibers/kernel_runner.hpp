// Kernels on fibers: what a stream keeps of them.
#pragma once

#include "engine.hpp"

#include <memory>
#include <vector>

namespace cudasim::detail {

using kernel_runner = std::vector<std::unique_ptr<engine>>;

}  // namespace cudasim::detail
