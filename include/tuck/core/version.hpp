// The version of the library. CMake reads it from this file.
#pragma once

#include <tuck/core/config.hpp>

/// The library. Its calls are for a CUDA stream; tuck::host has those for the CPU.
namespace tuck::inline TUCK_ABI {

inline constexpr int version_major = 1;  ///< major version
inline constexpr int version_minor = 0;  ///< minor version
inline constexpr int version_patch = 0;  ///< patch level

}  // namespace tuck::inline TUCK_ABI
