// A .tuck file: one frame, whose metadata is the header of the .npy file that it was made of.
#pragma once

#include "support/npy.hpp"

#include <tuck/frame/reader.hpp>

#include <string>

namespace tuck::tools {

struct frame_file {
  byte_buffer content;
  frame_view view;

  const frame_header& header() const noexcept { return view.header(); }
  uint32_t value_bytes() const noexcept { return size_of(header().type); }
  uint64_t raw_bytes() const noexcept { return header().value_count * value_bytes(); }
};

// Reads and checks a file that holds a frame and nothing else. Throws file_error.
frame_file open_frame(const std::string& path);

// The .npy header in the metadata, or that of one dimension where there is no metadata. Throws file_error where the
// metadata is something else, or the header of another array.
npy_header npy_header_of(const frame_file& frame, const std::string& path);

// Why decoding failed, the chunk named if it was one.
std::string failure_text(const outcome& failed, const frame_file& frame);

void refuse_same_file(const std::string& in, const std::string& out);

}  // namespace tuck::tools
