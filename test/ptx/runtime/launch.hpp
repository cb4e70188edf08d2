// A kernel with its arguments.
#pragma once

#include "ptx.hpp"

#include <cstddef>
#include <vector>

namespace cudasim::detail {

struct kernel_call {
  const ptx::kernel* code;
  std::vector<std::byte> arguments;
};

}  // namespace cudasim::detail
