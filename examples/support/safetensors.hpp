// safetensors files: named tensors behind a header in JSON. Eight bytes are the header's length, little-endian. The
// header has a dtype, a shape and the place in the data of each tensor, and texts under "__metadata__".
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
  std::string dtype;  // as the file calls it, "BF16" for instance
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // where its values are in the data
  uint64_t end = 0;

  // The element type: u8 where the library has none, as for booleans and floats of 8 bits.
  tuck::dtype type() const noexcept;
};

struct safetensors_header {
  std::string text;                   // the JSON, with what pads it
  std::vector<named_tensor> tensors;  // in the order of their values, which fill the data without gaps
  std::map<std::string, std::string> metadata;
  uint64_t data_bytes = 0;
};

// Throws file_error about `file` where the text is no header, and where values overlap, have gaps or are not as many as
// the shape says.
safetensors_header parse_safetensors_header(std::string text, const std::string& file);

struct safetensors_file {
  safetensors_header header;
  byte_buffer content;
  uint64_t first = 0;  // where in `content` the data begin: a multiple of 8

  const_bytes data() const noexcept { return content.all().subspan(first, header.data_bytes); }
  const_bytes values(const named_tensor& t) const noexcept { return data().subspan(t.begin, t.end - t.begin); }
};

// Throws file_error where the file cannot be read, is no safetensors file, or has not exactly the bytes of its tensors.
safetensors_file read_safetensors(const std::string& path);

// All that comes before the data: the length and `text`.
std::string safetensors_prelude(const std::string& text);

// The header of these tensors, padded so that the data begin at a multiple of 64 in the file.
std::string make_safetensors_header(const std::vector<named_tensor>& tensors,
                                    const std::map<std::string, std::string>& metadata);

// How messages begin that are about a tensor: "tensor 'a': ", a long name shortened.
std::string about_tensor(const std::string& name);

}  // namespace tuck::tools
