#include "frame_file.hpp"

#include "codecs.hpp"

namespace tuck::tools {

frame_file open_frame(const std::string& path) {
  frame_file frame;
  frame.content = read_file(path);
  const const_bytes content = frame.content.all();
  const uint64_t there = content.size();
  const status s = frame_view::open(content, frame.view);
  frame_header header;
  if (s == status::truncated) {
    const bool has_header = frame_view::read_header(content, header) == status::ok;
    const uint64_t needed = has_header ? header.frame_bytes : sizeof header;
    throw file_error(path, std::string(message(s)) + ": " + std::to_string(there) + " bytes are there and " +
                               (has_header ? "" : "at least ") + std::to_string(needed) + " are needed");
  }
  if (s != status::ok) throw file_error(path, message(s));
  if (const uint64_t rest = there - frame.header().frame_bytes; rest != 0)
    throw file_error(path, std::to_string(rest) + (rest == 1 ? " byte" : " bytes") + " after the frame");
  return frame;
}

npy_header npy_header_of(const frame_file& frame, const std::string& path) {
  const frame_header& h = frame.header();
  npy_header described;
  if (h.metadata_bytes == 0) {
    described.type = h.type;
    described.shape = {h.value_count};
    described.values = h.value_count;
    described.prelude = make_npy_prelude(h.type, described.shape);
    return described;
  }
  try {
    described = parse_npy_header(frame.view.metadata(), path);
  } catch (const file_error&) {
    throw file_error(path, "the frame's metadata is not a .npy header");
  }
  if (described.prelude.size() != h.metadata_bytes)
    throw file_error(path, "the frame's metadata is not a .npy header alone");
  if (described.values != h.value_count || size_of(described.type) != size_of(h.type))
    throw file_error(path, "the frame's metadata is the .npy header of another array: " +
                               std::to_string(described.values) + " values of " + name(described.type) +
                               ", the frame has " + std::to_string(h.value_count) + " of " + name(h.type));
  return described;
}

std::string failure_text(const outcome& failed, const frame_file& frame) {
  std::string text = message(failed.code);
  if (failed.code == status::codec_mismatch) text += ": " + stage_names(frame.header().stages);
  if (failed.first_bad_chunk == no_chunk) return text;
  return "chunk " + std::to_string(failed.first_bad_chunk + uint64_t{1}) + " of " +
         std::to_string(frame.view.chunks()) + ": " + text;
}

void refuse_same_file(const std::string& in, const std::string& out) {
  if (same_file(in, out)) throw file_error(out, "input and output are the same file");
}

}  // namespace tuck::tools
