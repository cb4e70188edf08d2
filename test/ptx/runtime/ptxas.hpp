// What ptxas makes of a kernel, which the model of time needs.
#pragma once

#include "ptx.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace cudaptx {

// The module with one of its kernels alone, so that ptxas has little to do.
std::string only_kernel(std::string_view module, std::string_view kernel_name);

// The registers of a thread, by the ptxas beside the build's nvcc. Answers are kept in files of the build's folder.
// Throws std::runtime_error if there is no ptxas, or if it fails.
std::uint32_t registers_of(std::string_view module, std::string_view kernel_name, int arch);

// Throws std::runtime_error if there is no ptxas.
void require_ptxas();

}  // namespace cudaptx
