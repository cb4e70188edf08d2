// Files that contain frames. A .tuck file is one frame. Its metadata is the header of the .npy file that was encoded. A
// safetensors file can contain one frame per tensor.
#pragma once

#include "support/npy.hpp"
#include "support/safetensors.hpp"

#include <tuck/frame/reader.hpp>

#include <string>
#include <vector>

namespace tuck::tools {

// The subject of error messages: a file, or a tensor in a file.
struct subject {
  std::string file;
  std::string tensor;  // empty, or "tensor 'a': "

  file_error error(const std::string& reason) const { return file_error(file, tensor + reason); }
};

inline uint32_t value_bytes(const frame_view& frame) noexcept { return size_of(frame.header().type); }
inline uint64_t raw_bytes(const frame_view& frame) noexcept { return frame.header().value_count * value_bytes(frame); }

// Opens and checks the frame in `content`, after which there must be no other bytes. Throws file_error.
frame_view checked_frame(const_bytes content, const subject& about);

struct frame_file {
  byte_buffer content;
  frame_view view;

  const frame_header& header() const noexcept { return view.header(); }
};

// Reads and checks a file that contains one frame and nothing else. Throws file_error.
frame_file open_frame(const std::string& path);

// Returns the .npy header in the metadata. Without metadata, returns the header of an array of one dimension. Throws
// file_error if the metadata is not a .npy header, or is that of another array.
npy_header npy_header_of(const frame_file& frame, const std::string& path);

// Keys in the metadata of a safetensors file of frames: the unchanged header of the file that was encoded.
inline constexpr const char* original_header = "tuck.header";
inline constexpr const char* original_digest = "tuck.header.digest";  // and its digest, as digest_text prints it

// Returns a digest as 16 hexadecimal digits.
std::string digest_text(uint64_t digest);

struct framed_tensor {
  subject about;
  named_tensor tensor;  // the tensor in the original file
  const_bytes frame;
  frame_view view;
};

struct frames_file {
  safetensors_file content;
  safetensors_header original;
  std::vector<framed_tensor> tensors;  // in the order of `original`
};

// Returns whether the file name ends in .safetensors.
bool is_safetensors(const std::string& path);

// Reads and checks a safetensors file with one frame per tensor of the original file. Throws file_error.
frames_file open_frames(const std::string& path);

// Returns the values that these tensors, which are those of the file `of`, have in the base. Throws file_error if the
// base has other tensors, or tensors of another type or shape.
std::vector<const_bytes> values_in_base(const safetensors_file& base, const std::string& path,
                                        const std::vector<named_tensor>& tensors, const std::string& of);

// Returns why decoding failed. Names the first bad chunk if there is one.
std::string failure_text(const outcome& failed, const frame_view& frame);

// Throws file_error if both are the same file, or if the name of one alone ends in .safetensors: later commands would
// misread the output.
void check_output(const std::string& in, const std::string& out);

}  // namespace tuck::tools
