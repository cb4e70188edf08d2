#include "frame_file.hpp"

#include "codecs.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

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

frame_file open_frame(input file) {
  frame_file frame;
  frame.content = std::move(file.content);
  frame.view = checked_frame(frame.content.all(), {file.path, {}});
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

namespace {

bool has_safetensors_name(const std::string& path) { return path.ends_with(".safetensors"); }

}  // namespace

bool is_folder(const std::string& path) {
  std::error_code none;
  return path.ends_with('/') || std::filesystem::is_directory(path, none);
}

input read_input(const std::string& path, const std::string& out) {
  if (path.ends_with(".npz"))
    throw file_error(path,
                     "tuck takes no .npz archives; save each array as a .npy file, and encode these or their folder");
  input file{shown_input(path), read_file(path), {}};
  if (file.content.size() == 0) throw file_error(file.path, "the input is empty");
  file.is_safetensors = has_safetensors_name(path) || looks_like_safetensors(file.content.all());
  if (!out.empty()) check_output(path, file.is_safetensors, out);
  return file;
}

std::string same_text(const std::map<std::string, same_tensor>& same) {
  nlohmann::json all = nlohmann::json::object();
  for (const auto& [name, of] : same) all[name] = {of.file, of.tensor, of.digest};
  return all.dump();
}

namespace {

// Returns the tensors that are stored with others.
std::map<std::string, same_tensor> same_in(const safetensors_header& header, const std::string& path) {
  std::map<std::string, same_tensor> same;
  const auto text = header.metadata.find(same_tensors);
  if (text == header.metadata.end()) return same;
  const file_error invalid(path, std::string("the metadata's '") + same_tensors + "' is invalid");
  const nlohmann::json all = nlohmann::json::parse(text->second, nullptr, false);
  if (!all.is_object()) throw invalid;
  for (const auto& [name, of] : all.items()) {
    if (!of.is_array() || of.size() != 3 || !of[0].is_string() || !of[1].is_string() || !of[2].is_string())
      throw invalid;
    const same_tensor& there = same[name] = {of[0], of[1], of[2]};
    if (there.file.find('/') != std::string::npos || there.file.find('\0') != std::string::npos) throw invalid;
  }
  return same;
}

// Takes `content`, which is stored of a tensor, in a file that has_raw tensors or not.
void take_content(stored_tensor& t, const_bytes content, bool has_raw) {
  t.content = content;
  t.is_frame = !has_raw || content.size() != t.raw_bytes();
  if (!t.is_frame) return;
  t.view = checked_frame(content, t.about);
  const frame_header& h = t.view.header();
  if (h.type != t.tensor.type() || raw_bytes(t.view) != t.raw_bytes())
    throw t.about.error("the frame has " + std::to_string(h.value_count) + " values of " + name(h.type) +
                        ", the tensor is " + t.tensor.dtype + " " + shape_text(t.tensor.shape));
}

// Finds the content of a tensor that is stored with another.
void take_content_of_other(frames_file& file, stored_tensor& t, const std::string& path, bool has_raw) {
  const auto named = [&](const named_tensor& other) { return other.name == t.same->tensor; };
  if (t.same->file.empty()) {
    const std::vector<named_tensor>& here = file.content.header.tensors;
    const auto found = std::find_if(here.begin(), here.end(), named);
    if (found == here.end()) throw t.about.error("the tensor with its values is missing");
    take_content(t, file.content.values(*found), has_raw);
  } else {
    const std::string folder = path.substr(0, path.rfind('/') + 1), other = folder + t.same->file;
    uint64_t first = 0;
    std::error_code none;
    if (!std::filesystem::exists(other, none))
      throw t.about.error("its values are in '" + t.same->file + "', which is missing");
    const safetensors_header header = read_safetensors_header(other, first);
    const auto found = std::find_if(header.tensors.begin(), header.tensors.end(), named);
    if (found == header.tensors.end())
      throw t.about.error("its values are in '" + t.same->file + "', which does not have them");
    file.of_others.push_back(read_range(other, first + found->begin, found->end - found->begin));
    take_content(t, file.of_others.back().all(), header.metadata.contains(raw_digest));
  }
  if (digest_text(checksum(t.content)) != t.same->digest) throw t.about.error("the tensor with its values has changed");
}

}  // namespace

frames_file open_frames(safetensors_file content, const std::string& path) {
  frames_file file;
  file.content = std::move(content);
  const safetensors_header& header = file.content.header;
  const auto original = header.metadata.find(original_header);
  if (original == header.metadata.end())
    throw file_error(path, std::string("its tensors are not frames: no '") + original_header + "' in its metadata");
  const auto digest = header.metadata.find(original_digest);
  if (digest == header.metadata.end() || digest->second != digest_text(checksum(bytes_of(original->second))))
    throw file_error(path, std::string("the metadata's '") + original_header + "' fails its checksum");
  file.original = parse_safetensors_header(original->second, path);
  const bool has_raw = header.metadata.contains(raw_digest);
  const std::map<std::string, same_tensor> same = same_in(header, path);
  std::map<std::string, const named_tensor*> stored;
  for (const named_tensor& t : header.tensors) stored.emplace(t.name, &t);
  for (const named_tensor& t : file.original.tensors) {
    stored_tensor one{.about = {path, about_tensor(t.name)}, .tensor = t, .content = {}, .view = {}, .same = {}};
    const auto found = stored.extract(t.name);
    if (found.empty()) throw one.about.error("it has no frame");
    const named_tensor& there = *found.mapped();
    if (const auto with = same.find(t.name); with != same.end()) {
      one.same = with->second;
      take_content_of_other(file, one, path, has_raw);
    } else {
      take_content(one, file.content.values(there), has_raw);
      if (!one.is_frame && (there.dtype != t.dtype || there.shape != t.shape))
        throw one.about.error("it is stored as " + there.dtype + " " + shape_text(there.shape) + ", the tensor is " +
                              t.dtype + " " + shape_text(t.shape));
    }
    file.tensors.push_back(std::move(one));
  }
  if (!stored.empty())
    throw file_error(path,
                     about_tensor(stored.begin()->first) + "it is not in the metadata's '" + original_header + "'");
  return file;
}

uint64_t raw_tensors_digest(const std::vector<const_bytes>& values) {
  std::vector<uint64_t> digests;
  for (const const_bytes& v : values) digests.push_back(checksum(v));
  return checksum(as_bytes(span<const uint64_t>(digests)));
}

void check_raw_tensors(const frames_file& file, const std::string& path) {
  std::vector<const_bytes> raw;
  for (const stored_tensor& t : file.tensors)
    if (!t.is_frame && !t.same) raw.push_back(t.content);
  if (!raw.empty() && file.content.header.metadata.at(raw_digest) != digest_text(raw_tensors_digest(raw)))
    throw file_error(path, "the tensors that are stored raw fail their checksum");
}

frames_file open_tensors(safetensors_file content, const std::string& path) {
  frames_file file;
  if (content.header.metadata.contains(original_header)) {
    file = open_frames(std::move(content), path);
    check_raw_tensors(file, path);
    return file;
  }
  file.content = std::move(content);
  file.original = file.content.header;
  for (const named_tensor& t : file.original.tensors)
    file.tensors.push_back({.about = {path, about_tensor(t.name)},
                            .tensor = t,
                            .content = file.content.values(t),
                            .is_frame = false,
                            .view = {},
                            .same = {}});
  return file;
}

void check_base(const npy_header& base, const std::string& path, const npy_header& wanted, const std::string& what) {
  if (array_text(base) != array_text(wanted))
    throw file_error(path, "the base is " + array_text(base) + ", " + what + array_text(wanted));
}

void read_base(const std::string& path, const npy_header& restored, bytes values) {
  input from = read_input(path);
  const npy_file base = parse_npy(std::move(from.content), from.path);
  const const_bytes all = base.data();
  if (all.size() != values.size())
    throw file_error(from.path, "the base has " + std::to_string(all.size()) + " bytes of values, the delta needs " +
                                    std::to_string(values.size()));
  check_base(base.header, from.path, restored, "the delta restores ");
  std::copy(all.begin(), all.end(), values.begin());
}

std::vector<const_bytes> values_in(const safetensors_file& file, const std::string& path,
                                   const std::vector<named_tensor>& tensors, const std::string& of,
                                   const std::string& role) {
  std::map<std::string, const named_tensor*> there;
  for (const named_tensor& t : file.header.tensors) there.emplace(t.name, &t);
  std::vector<const_bytes> values;
  for (const named_tensor& t : tensors) {
    const subject about{path, about_tensor(t.name)};
    const auto found = there.extract(t.name);
    if (found.empty()) throw about.error("it is in " + of + " but not in " + role);
    const named_tensor& b = *found.mapped();
    if (b.dtype != t.dtype || b.shape != t.shape)
      throw about.error(b.dtype + " " + shape_text(b.shape) + " in " + role + ", " + t.dtype + " " +
                        shape_text(t.shape) + " in " + of);
    values.push_back(file.values(b));
  }
  if (!there.empty())
    throw file_error(path, about_tensor(there.begin()->first) + "it is in " + role + " but not in " + of);
  return values;
}

const_bytes aligned(const_bytes values, dtype type, byte_buffer& room) {
  if (reinterpret_cast<uintptr_t>(values.data()) % size_of(type) == 0) return values;
  room = byte_buffer(values.size());
  std::copy(values.begin(), values.end(), room.all().begin());
  return room.all();
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

void check_output(const std::string& in, bool is_safetensors, const std::string& out) {
  if (out == standard_stream) return;
  if (out.ends_with(".npz")) throw file_error(out, "the output is no .npz archive; choose another name");
  if (in != standard_stream && same_file(in, out)) throw file_error(out, "input and output are the same file");
  if (is_safetensors && !has_safetensors_name(out))
    throw file_error(out, "the output is a safetensors file, and its name must end in .safetensors");
  if (!is_safetensors && has_safetensors_name(out))
    throw file_error(out, "the output is no safetensors file, because the input is none; choose another name");
}

}  // namespace tuck::tools
