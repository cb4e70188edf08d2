// What a launch asks of the host side.
#pragma once

#include "host_api.hpp"

#include <memory>

namespace cudasim::detail {

// A place in the source. A last parameter `site where = {}` is the place of the call.
struct site {
  const char* file = __builtin_FILE();
  int line = __builtin_LINE();
};

struct kernel_call;  // a kernel with its arguments, copied at the launch

cudaError_t submit_launch(const cudaLaunchConfig_t& config, const void* kernel, std::shared_ptr<const kernel_call> call,
                          site where);

}  // namespace cudasim::detail
