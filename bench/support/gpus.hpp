// What gpus.json has of the walls that bound a kernel.
#pragma once

#include "bench/support/json_file.hpp"
#include "bench/support/roofline.hpp"

#include <vector>

namespace tuck::bench {

// Throws std::domain_error or nlohmann's exceptions about what cannot be.
inline gpu_rates rates_of(const ordered_json& gpu, const ordered_json& assumed) {
  return {gpu.at("name"), above_0(gpu, "processors"), above_0(gpu, "clock_hz"),
          above_0(assumed, "copy_efficiency") * above_0(gpu, "bytes_per_second")};
}

// The GPUs that bounds are given for. Throws tools::file_error.
inline std::vector<gpu_rates> read_bounded_gpus(const std::string& path) {
  return read_json(path, "tuck-gpus/1", [](const ordered_json& file) {
    std::vector<gpu_rates> found;
    for (const auto& gpu : file.at("gpus"))
      for (const char* name : {"V100-SXM2", "A100-SXM4-80GB", "H100 80GB HBM3", "H200", "B200"})
        if (gpu.at("name") == name) found.push_back(rates_of(gpu, file.at("assumed")));
    return found;
  });
}

}  // namespace tuck::bench
