// The element type of an input file as --as declares it.
#pragma once

#include "support/npy.hpp"

namespace tuck::tools {

// Throws file_error where the values cannot be bf16.
inline dtype declared_type(const npy_header& header, bool as_bf16, const std::string& path) {
  if (!as_bf16) return header.type;
  if (header.type != dtype::u16 && header.type != dtype::i16)
    throw file_error(path, std::string("--as bf16 takes 16-bit integers, not ") + name(header.type));
  return dtype::bf16;
}

}  // namespace tuck::tools
