#include "frame_file.hpp"

#include "codecs.hpp"

#include <cinttypes>
#include <cstdio>

namespace tuck::tools {

frame_view checked_frame(const_bytes content, const subject& about) {
  frame_view view;
  const uint64_t there = content.size();
  const status s = frame_view::open(content, view);
  frame_header header;
  if (s == status::truncated) {
    const bool has_header = inspect(content, header) == status::ok;
    const uint64_t needed = has_header ? header.frame_bytes : sizeof header;
    throw about.error(std::string(message(s)) + ": " + std::to_string(there) + " bytes are there and " +
                      (has_header ? "" : "at least ") + std::to_string(needed) + " are needed");
  }
  if (s != status::ok) throw about.error(message(s));
  if (const uint64_t rest = there - view.header().frame_bytes; rest != 0)
    throw about.error(std::to_string(rest) + (rest == 1 ? " byte" : " bytes") + " after the frame");
  return view;
}

frame_file open_frame(const std::string& path) {
  frame_file frame;
  frame.content = read_file(path);
  frame.view = checked_frame(frame.content.all(), {path, {}});
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
    throw file_error(path, "the frame's metadata has bytes after the .npy header");
  if (described.values != h.value_count || size_of(described.type) != size_of(h.type))
    throw file_error(path, "the frame's metadata is the .npy header of another array: " +
                               std::to_string(described.values) + " values of " + name(described.type) +
                               ", the frame has " + std::to_string(h.value_count) + " of " + name(h.type));
  return described;
}

bool is_safetensors(const std::string& path) { return path.ends_with(".safetensors"); }

frames_file open_frames(const std::string& path) {
  frames_file file;
  file.content = read_safetensors(path);
  const safetensors_header& header = file.content.header;
  const auto original = header.metadata.find(original_header);
  if (original == header.metadata.end())
    throw file_error(path, std::string("its tensors are not frames: no '") + original_header + "' in its metadata");
  const auto digest = header.metadata.find(original_digest);
  if (digest == header.metadata.end() || digest->second != digest_text(checksum(bytes_of(original->second))))
    throw file_error(path, std::string("the metadata's '") + original_header + "' fails its checksum");
  file.original = parse_safetensors_header(original->second, path);
  std::map<std::string, const named_tensor*> frames;
  for (const named_tensor& t : header.tensors) frames.emplace(t.name, &t);
  for (const named_tensor& t : file.original.tensors) {
    framed_tensor framed{.about = {path, about_tensor(t.name)}, .tensor = t, .frame = {}, .view = {}};
    const auto found = frames.extract(t.name);
    if (found.empty()) throw framed.about.error("it has no frame");
    framed.frame = file.content.values(*found.mapped());
    framed.view = checked_frame(framed.frame, framed.about);
    const frame_header& h = framed.view.header();
    if (h.type != t.type() || raw_bytes(framed.view) != t.end - t.begin)
      throw framed.about.error("the frame has " + std::to_string(h.value_count) + " values of " + name(h.type) +
                               ", the tensor is " + t.dtype + " " + shape_text(t.shape));
    file.tensors.push_back(std::move(framed));
  }
  if (!frames.empty())
    throw file_error(path,
                     about_tensor(frames.begin()->first) + "it is not in the metadata's '" + original_header + "'");
  return file;
}

std::vector<const_bytes> values_in_base(const safetensors_file& base, const std::string& path,
                                        const std::vector<named_tensor>& tensors, const std::string& of) {
  std::map<std::string, const named_tensor*> there;
  for (const named_tensor& t : base.header.tensors) there.emplace(t.name, &t);
  std::vector<const_bytes> values;
  for (const named_tensor& t : tensors) {
    const subject about{path, about_tensor(t.name)};
    const auto found = there.extract(t.name);
    if (found.empty()) throw about.error("it is in " + of + " but not in the base");
    const named_tensor& b = *found.mapped();
    if (b.dtype != t.dtype || b.shape != t.shape)
      throw about.error(b.dtype + " " + shape_text(b.shape) + " in the base, " + t.dtype + " " + shape_text(t.shape) +
                        " in " + of);
    values.push_back(base.values(b));
  }
  if (!there.empty()) throw file_error(path, about_tensor(there.begin()->first) + "it is in the base but not in " + of);
  return values;
}

std::string digest_text(uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, digest);
  return text;
}

std::string failure_text(const outcome& failed, const frame_view& frame) {
  std::string text = message(failed.code);
  if (failed.code == status::codec_mismatch) text += ": " + stage_names(frame.header().stages);
  if (failed.first_bad_chunk == no_chunk) return text;
  return "chunk " + std::to_string(failed.first_bad_chunk + uint64_t{1}) + " of " + std::to_string(frame.chunks()) +
         ": " + text;
}

void check_output(const std::string& in, const std::string& out) {
  if (same_file(in, out)) throw file_error(out, "input and output are the same file");
  if (is_safetensors(in) && !is_safetensors(out))
    throw file_error(out, "the output is a safetensors file, and its name must end in .safetensors");
  if (is_safetensors(out) && !is_safetensors(in))
    throw file_error(out, "the output is no safetensors file, because the input is none; choose another name");
}

}  // namespace tuck::tools
