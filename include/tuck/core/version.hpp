// SPDX-License-Identifier: Apache-2.0
// The version of the library. CMake, Conan and the Python packages read it from this file. The recipes of conda and
// vcpkg have it too.
#pragma once

#include <tuck/core/config.hpp>

#define TUCK_VERSION_MAJOR 1
#define TUCK_VERSION_MINOR 0
#define TUCK_VERSION_PATCH 0
/// One number, for `#if TUCK_VERSION >= 10200`: 10000 * major + 100 * minor + patch.
#define TUCK_VERSION (TUCK_VERSION_MAJOR * 10000 + TUCK_VERSION_MINOR * 100 + TUCK_VERSION_PATCH)

/// The library. Its calls are for a CUDA stream; tuck::host has those for the CPU.
namespace tuck::inline TUCK_ABI {

inline constexpr int version_major = TUCK_VERSION_MAJOR;  ///< major version
inline constexpr int version_minor = TUCK_VERSION_MINOR;  ///< minor version
inline constexpr int version_patch = TUCK_VERSION_PATCH;  ///< patch level

}  // namespace tuck::inline TUCK_ABI
