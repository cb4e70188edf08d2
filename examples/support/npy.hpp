// NumPy's .npy files: one array behind a textual header (numpy.lib.format, versions 1.0 to 3.0).
#pragma once

#include "support/files.hpp"

#include <tuck/core/dtype.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tuck::tools {

struct npy_header {
  dtype type = dtype::none;     // booleans are u8
  bool is_boolean = false;      // whether the values are booleans
  std::string opaque;           // the dtype where it is none of tuck's, such as "<V2" or "<c8"; `type` is then unsigned
  uint32_t element_bytes = 0;   // of an opaque dtype that is neither V1, V2 nor f1; they are the last dimension, as u8
  std::vector<uint64_t> shape;  // empty: one value, without dimensions
  bool fortran_order = false;   // whether neighbours differ in the first index; false with one dimension
  uint64_t values = 1;          // product of the shape; bytes of `values` elements fit 63 bits
  std::string prelude;          // all that comes before the values, verbatim
};

// Parses what `content` begins with; there may be anything behind. Types without a fixed size are refused, and so
// are structured ones. Throws file_error about `file`.
npy_header parse_npy_header(const_bytes content, const std::string& file);

struct npy_file {
  npy_header header;
  byte_buffer content;
  uint64_t first = 0;  // where in `content` the values begin, aligned for them

  const_bytes data() const noexcept { return content.all().subspan(first, header.values * size_of(header.type)); }
};

// Throws file_error where the file cannot be read, is no .npy file, has not exactly the bytes of its shape, or has
// element_bytes.
npy_file read_npy(const std::string& path);
// The same of content that has been read, of any type.
npy_file parse_npy(byte_buffer content, const std::string& file);

// The header of an array in C order as NumPy writes it, values beginning at a multiple of 64. NumPy has no bf16, which
// becomes <u2, nor 8-bit floats, which become |u1. is_boolean: u8 are booleans.
std::string make_npy_prelude(dtype type, const std::vector<uint64_t>& shape, bool is_boolean = false);

// Writes an array in C order. `data` has the bytes of the shape.
void write_npy(const std::string& path, dtype type, const std::vector<uint64_t>& shape, const_bytes data);

// The .npy files of a directory, and with `deep` of those in it, by name. Throws file_error where there is none.
std::vector<std::filesystem::path> npy_files(const std::string& directory, bool deep = false);

// The values that lie next to each other in one row of an array: 1 or more. Rows of 2^32 - 1 values or more are longer
// than any chunk, and count as so many.
uint32_t row_length(const std::vector<uint64_t>& shape, bool fortran_order = false);

// A shape as one shows it: "16x32x32x32", "scalar" where there are no dimensions.
std::string shape_text(const std::vector<uint64_t>& shape);
// An array as one shows it: "f32 16x32", "f32 16x32 in Fortran order".
std::string array_text(const npy_header& header);

}  // namespace tuck::tools
