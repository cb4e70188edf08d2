// The element type of an input file as --as declares it: of those that NumPy has not.
#pragma once

#include "support/npy.hpp"

namespace tuck::tools {

inline constexpr dtype declarable_types[] = {dtype::bf16, dtype::f8e4m3, dtype::f8e5m2};

// `as` is one of these, or none. Throws file_error where the values are no integers of its size.
inline dtype declared_type(const npy_header& header, dtype as, const std::string& path) {
  if (as == dtype::none) return header.type;
  if (header.type > dtype::i64 || size_of(header.type) != size_of(as))
    throw file_error(path, std::string("--as ") + name(as) + " takes " + std::to_string(8 * size_of(as)) +
                               "-bit integers, not " + name(header.type));
  return as;
}

}  // namespace tuck::tools
