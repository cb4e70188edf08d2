// Files of frames: a .tuck file is one, whose metadata is the header of the .npy file that it was made of. In a
// safetensors file each tensor is one.
#pragma once

#include "support/npy.hpp"
#include "support/safetensors.hpp"

#include <tuck/frame/reader.hpp>

#include <string>
#include <vector>

namespace tuck::tools {

// What messages are about: a file, or a tensor in it.
struct subject {
  std::string file;
  std::string tensor;  // empty, or "tensor 'a': "

  file_error error(const std::string& reason) const { return file_error(file, tensor + reason); }
};

inline uint32_t value_bytes(const frame_view& frame) noexcept { return size_of(frame.header().type); }
inline uint64_t raw_bytes(const frame_view& frame) noexcept { return frame.header().value_count * value_bytes(frame); }

// The frame that `content` is, with nothing behind it. Throws file_error.
frame_view checked_frame(const_bytes content, const subject& about);

struct frame_file {
  byte_buffer content;
  frame_view view;

  const frame_header& header() const noexcept { return view.header(); }
};

// Reads and checks a file that holds a frame and nothing else. Throws file_error.
frame_file open_frame(const std::string& path);

// The .npy header in the metadata, or that of one dimension where there is no metadata. Throws file_error where the
// metadata is something else, or the header of another array.
npy_header npy_header_of(const frame_file& frame, const std::string& path);

// Among the metadata of a file of frames: the header of the file that it was made of, as it was.
inline constexpr const char* original_header = "tuck.header";
inline constexpr const char* original_digest = "tuck.header.digest";  // of that header, as digest_text has it

// 16 hexadecimal digits.
std::string digest_text(uint64_t digest);

struct framed_tensor {
  subject about;
  named_tensor tensor;  // the original
  const_bytes frame;
  frame_view view;
};

struct frames_file {
  safetensors_file content;
  safetensors_header original;
  std::vector<framed_tensor> tensors;  // as in `original`
};

// By its name.
bool is_safetensors(const std::string& path);

// Reads and checks a safetensors file of frames, one for each tensor of the original. Throws file_error.
frames_file open_frames(const std::string& path);

// The values of these tensors of `of` in the base, which has no others, nor others of a name. Throws file_error about
// the base.
std::vector<const_bytes> values_in_base(const safetensors_file& base, const std::string& path,
                                        const std::vector<named_tensor>& tensors, const std::string& of);

// Why decoding failed, the chunk named if it was one.
std::string failure_text(const outcome& failed, const frame_view& frame);

void refuse_same_file(const std::string& in, const std::string& out);

}  // namespace tuck::tools
