// Files that contain frames. A .tuck file is one frame. Its metadata is the header of the .npy file that was encoded. A
// safetensors file can contain one frame per tensor, and tensors stored raw.
#pragma once

#include "support/npy.hpp"
#include "support/safetensors.hpp"

#include <tuck/frame/reader.hpp>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tuck::tools {

// A file, or standard input.
struct input {
  std::string path;  // for messages
  byte_buffer content;
  bool is_safetensors;
};

// Reads an input. Its content says whether it is a safetensors file; with a name in .safetensors it must be one. `out`
// is the file to write, which is checked as check_output does, or empty. Throws file_error.
input read_input(const std::string& path, const std::string& out = {});

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

// Checks a file that contains one frame and nothing else. Throws file_error.
frame_file open_frame(input file);

// Returns the .npy header in the metadata. Without metadata, returns the header of an array of one dimension. Throws
// file_error if the metadata is not a .npy header, or is that of another array.
npy_header npy_header_of(const frame_file& frame, const std::string& path);

// Keys in the metadata of a safetensors file of frames: the unchanged header of the file that was encoded.
inline constexpr const char* original_header = "tuck.header";
inline constexpr const char* original_digest = "tuck.header.digest";  // and its digest, as digest_text prints it
// If tensors are stored raw: raw_tensors_digest of these. All frames of the file are then smaller than their tensors.
inline constexpr const char* raw_digest = "tuck.raw.digest";

// Tensors that are stored once for several: a JSON object in the metadata that has, by name, the file, "" for the same
// one, the tensor, and the digest of what is stored of it. They have no bytes of their own.
inline constexpr const char* same_tensors = "tuck.same";
struct same_tensor {
  std::string file, tensor, digest;
};
std::string same_text(const std::map<std::string, same_tensor>& same);

// Returns a digest as 16 hexadecimal digits.
std::string digest_text(uint64_t digest);

// A tensor of the original file, stored as a frame or raw.
struct stored_tensor {
  subject about;
  named_tensor tensor;  // the tensor in the original file
  const_bytes content;
  bool is_frame = true;
  frame_view view;                  // of the frame
  std::optional<same_tensor> same;  // another tensor, which has the content

  uint64_t raw_bytes() const noexcept { return tensor.end - tensor.begin; }
};

struct frames_file {
  safetensors_file content;
  safetensors_header original;
  std::vector<stored_tensor> tensors;  // in the order of `original`
  std::deque<byte_buffer> of_others;   // content that is in other files
};

// Checks a safetensors file with all tensors of the original file. Reads what is in other files beside it. Throws
// file_error about `path`.
frames_file open_frames(safetensors_file content, const std::string& path);

// The same of any safetensors file: tensors that are no frames count as stored raw. Checks these.
frames_file open_tensors(safetensors_file content, const std::string& path);

// Returns the digest of the values of tensors that are stored raw, in the order of the original file.
uint64_t raw_tensors_digest(const std::vector<const_bytes>& values);
// Throws file_error if the values of tensors that are stored raw fail their digest.
void check_raw_tensors(const frames_file& file, const std::string& path);

// Throws file_error if the base at `path` has another type, shape or order than `wanted`, which messages call `what`.
void check_base(const npy_header& base, const std::string& path, const npy_header& wanted, const std::string& what);

// Copies the base of a delta from the file `path` to `values`, which has the size of the tensor. `restored`: header of
// the array that the delta restores.
void read_base(const std::string& path, const npy_header& restored, bytes values);

// Returns the values that these tensors, which are those of the file `of`, have in the file `path`. Throws file_error
// if it has other tensors, or tensors of another type or shape. Messages call it `role`, such as "the base".
std::vector<const_bytes> values_in(const safetensors_file& file, const std::string& path,
                                   const std::vector<named_tensor>& tensors, const std::string& of,
                                   const std::string& role = "the base");

// Returns the values at an address that is aligned for the type. Copies them to `room` if necessary.
const_bytes aligned(const_bytes values, dtype type, byte_buffer& room);

// Returns why decoding failed. Names the first bad chunk if there is one.
std::string failure_text(const outcome& failed, const frame_view& frame);

// Returns whether the path is that of a folder: one that exists, or ends in "/".
bool is_folder(const std::string& path);

// Throws file_error if both are the same file, or if the name of the output does not say whether it is a safetensors
// file, as the input is, or says that it is a .npz archive: other programs would misread it.
void check_output(const std::string& in, bool is_safetensors, const std::string& out);

}  // namespace tuck::tools
