// safetensors files. A file is the length of the header in eight little-endian bytes, the header in JSON, and the data.
// The header has the dtype, the shape and the offsets in the data of each tensor, and texts under "__metadata__".
#pragma once

#include "support/files.hpp"

#include <tuck/core/dtype.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tuck::tools {

struct named_tensor {
  std::string name;
  std::string dtype;  // the name in the file, such as "BF16"
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // offsets of its values in the data
  uint64_t end = 0;

  // The element type: u8, bytes, where the library has none, as for BOOL, F4, C64, and types that later files may have.
  tuck::dtype type() const noexcept;
};

// Returns the name that files have for a type.
std::string file_type_of(dtype type);

struct safetensors_header {
  std::string text;                   // the JSON, with its padding
  std::vector<named_tensor> tensors;  // in the order of their values, which fill the data without gaps
  std::vector<std::string> names;     // of the tensors, in the order of the text
  std::map<std::string, std::string> metadata;
  uint64_t data_bytes = 0;
};

// Throws file_error about `file` if the text is not a header, if values overlap or have gaps, or if their size does not
// match type and shape. Each value of an unknown type must have a whole number of bits.
safetensors_header parse_safetensors_header(std::string text, const std::string& file);

struct safetensors_file {
  safetensors_header header;
  byte_buffer content;
  uint64_t first = 0;  // offset of the data in `content`, a multiple of 8

  const_bytes data() const noexcept { return content.all().subspan(first, header.data_bytes); }
  const_bytes values(const named_tensor& t) const noexcept { return data().subspan(t.begin, t.end - t.begin); }
};

// Returns whether this is the begin of a safetensors file rather than of a .npy file or a frame.
bool looks_like_safetensors(const_bytes content) noexcept;

// Throws file_error if the file cannot be read, is not a safetensors file, or its size does not match its tensors.
safetensors_file read_safetensors(const std::string& path);
// The header of a file, whose data are not read; `first`: their offset in the file.
safetensors_header read_safetensors_header(const std::string& path, uint64_t& first);
// The same of content that has been read.
safetensors_file parse_safetensors(byte_buffer content, const std::string& file);

// Returns everything before the data: the length and `text`.
std::string safetensors_prelude(const std::string& text);

// Returns the header of these tensors, padded so that the data begin at a multiple of 64 in the file.
std::string make_safetensors_header(const std::vector<named_tensor>& tensors,
                                    const std::map<std::string, std::string>& metadata);

// Returns the header of these tensors, in this order. On input each has the place that it has alone: from 0 to its
// size. In the file, larger elements come first, so that all are aligned. Throws file_error about `file`.
safetensors_header header_of_tensors(std::vector<named_tensor> tensors, const std::string& file);

// Returns the beginning of messages about a tensor: "tensor 'a': ". Long names are shortened.
std::string about_tensor(const std::string& name);

}  // namespace tuck::tools
