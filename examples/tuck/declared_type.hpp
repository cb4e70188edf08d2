// Element types that NumPy does not have. The option --as declares that the integers of a file stand for such a type.
#pragma once

#include "support/npy.hpp"

namespace tuck::tools {

inline constexpr dtype declarable_types[] = {dtype::bf16, dtype::f8e4m3, dtype::f8e5m2};

// Returns `as`, or the type in the header if `as` is none. Throws file_error unless the values are integers of the size
// of `as`.
inline dtype declared_type(const npy_header& header, dtype as, const std::string& path) {
  if (as == dtype::none) return header.type;
  if (header.type > dtype::i64 || size_of(header.type) != size_of(as))
    throw file_error(path, std::string("--as ") + name(as) + " takes " + std::to_string(8 * size_of(as)) +
                               "-bit integers, not " + name(header.type));
  return as;
}

}  // namespace tuck::tools
