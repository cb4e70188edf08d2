// The version of the library. The build reads it from here.
#pragma once

#include <tuck/core/config.hpp>

namespace tuck::inline TUCK_ABI {

inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;
inline constexpr int version_patch = 0;

}  // namespace tuck::inline TUCK_ABI
