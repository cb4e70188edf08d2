// The option --as, which declares that the integers of a file stand for a type that NumPy does not have. NumPy saves
// such types of other modules, such as ml_dtypes, as values of a size. u8 and u16 are for types that the library lacks.
#pragma once

#include "support/npy.hpp"

namespace tuck::tools {

inline constexpr dtype declarable_types[] = {dtype::bf16, dtype::f8e4m3, dtype::f8e5m2, dtype::u8, dtype::u16};

// Whether the values in a file can stand for `type`. Those of dtypes such as <c8 are bytes, whose meaning is unknown.
inline bool may_be(const npy_header& header, dtype type) {
  if (header.element_bytes != 0) return type == dtype::u8;
  return header.type <= dtype::i64 && size_of(header.type) == size_of(type);
}

// Returns `as`, or the type in the header if `as` is none. Throws file_error unless the values may be `as`, or if the
// header has no type and `as` is none.
inline dtype declared_type(const npy_header& header, dtype as, const std::string& path) {
  if (as == dtype::none) {
    if (header.opaque.empty()) return header.type;
    std::string types;
    for (const dtype type : declarable_types)
      if (may_be(header, type)) types += (types.empty() ? "" : " or ") + std::string(name(type));
    throw file_error(path, "unsupported dtype '" + header.opaque + "'; pass --as " + types);
  }
  if (!may_be(header, as))
    throw file_error(path, std::string("--as ") + name(as) + " takes " + std::to_string(8 * size_of(as)) +
                               "-bit integers, not " + (header.element_bytes != 0 ? header.opaque : name(header.type)));
  return as;
}

}  // namespace tuck::tools
