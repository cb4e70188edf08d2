#include "codecs.hpp"
#include "commands.hpp"
#include "frame_file.hpp"
#include "support/progress.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

namespace tuck::tools {
namespace {

namespace fs = std::filesystem;

struct tensor_to_decode {
  subject about;
  const_bytes frame;
  frame_view view;
  bytes values;  // output; for a delta it holds the values of the base
};

outcome decode_values(const decode_options& options, const tensor_to_decode& t, bytes values, progress& shown) {
  if (options.on == machine::device) return decode_on_device(t.frame, values);
  if (t.view.is_delta()) return decode_delta_frame(t.frame, values, values, shown.execution(options.threads));
  return decode_frame(t.frame, values, 0, shown.execution(options.threads));
}

void decode_one(const decode_options& options, const tensor_to_decode& t, progress& shown) {
  const std::string codec = stage_names(t.view.header().stages);
  if (options.on == machine::device && t.view.is_delta() && !has_device_deltas(codec))
    throw t.about.error("--on device decodes no deltas of " + codec + "; pass --on host");
  outcome done;
  if (reinterpret_cast<uintptr_t>(t.values.data()) % value_bytes(t.view) == 0) {
    done = decode_values(options, t, t.values, shown);
  } else {  // misaligned for this type
    byte_buffer room(t.values.size());
    std::copy(t.values.begin(), t.values.end(), room.all().begin());
    done = decode_values(options, t, room.all(), shown);
    std::copy(room.all().begin(), room.all().end(), t.values.begin());
  }
  if (done.code == status::wrong_base)
    throw subject{shown_input(options.base), t.about.tensor}.error(message(done.code));
  if (!done) throw t.about.error(failure_text(done, t.view));
}

void decode_all(const decode_options& options, const std::vector<tensor_to_decode>& tensors) {
  uint64_t chunks = 0, bytes = 0;
  for (const tensor_to_decode& t : tensors) {
    chunks += t.view.chunks() * (t.view.is_delta() ? 2 : 1);
    bytes += t.values.size();
  }
  progress shown(options.verb, options.on == machine::device ? 0 : chunks, bytes);
  for (const tensor_to_decode& t : tensors) decode_one(options, t, shown);
}

void check_needs_base(const decode_options& options, const frame_view& frame, const subject& about) {
  if (frame.is_delta() && options.base.empty())
    throw about.error(std::string(message(status::needs_base)) + ": pass it with --base");
  if (!frame.is_delta() && !options.base.empty())
    throw about.error(std::string(message(status::not_a_delta)) + " and takes no --base");
}

void decode_npy(const decode_options& options, input in) {
  const subject about{in.path, {}};
  const frame_file frame = open_frame(std::move(in));
  check_needs_base(options, frame.view, about);
  const npy_header header = npy_header_of(frame, about.file);
  byte_buffer values(raw_bytes(frame.view));
  if (frame.view.is_delta()) read_base(options.base, header, values.all());
  decode_all(options, {{about, frame.content.all(), frame.view, values.all()}});
  output_file out(options.out);
  out.write(bytes_of(header.prelude));
  out.write(values.all());
  out.commit();
}

// Writes a tensor as a .npy file. Types that NumPy does not have become bytes.
void write_npy_file(const std::string& path, const named_tensor& t, const_bytes values) {
  const bool is_boolean = t.dtype == "BOOL", has_type = is_boolean || file_type_of(t.type()) == t.dtype;
  output_file out(path);
  out.write(bytes_of(make_npy_prelude(t.type(), has_type ? t.shape : std::vector{values.size()}, is_boolean)));
  out.write(values);
  out.commit();
}

// Returns the files of tensors in a folder: folder/a/b.npy for "a/b", the name that encode gives to this file. Checks
// all before one is written.
std::vector<fs::path> files_in(const std::string& folder, const std::vector<stored_tensor>& tensors,
                               const std::string& in) {
  std::vector<fs::path> files;
  std::set<fs::path> folders{folder};
  for (const stored_tensor& t : tensors) {
    const fs::path file = t.tensor.name + ".npy";
    const bool is_inside =
        file.is_relative() && *file.begin() != ".." && file.lexically_normal().native() == file.native();
    const bool is_long =
        std::any_of(file.begin(), file.end(), [](const fs::path& p) { return p.native().size() > NAME_MAX; });
    if (!is_inside || is_long || file.extension() != ".npy" || file.native().find('\0') != std::string::npos)
      throw t.about.error("no file in a folder can have this name; pass --tensor and a name for the file");
    files.push_back(folder / file);
    for (fs::path p = file.parent_path(); !p.empty(); p = p.parent_path()) folders.insert(folder / p);
  }
  for (size_t i = 0; i < files.size(); ++i) {
    std::error_code error;
    const fs::file_type there = fs::status(files[i], error).type();
    if (folders.contains(files[i]))
      throw tensors[i].about.error("its file would be the folder of another tensor; pass --tensor");
    if (there == fs::file_type::directory) throw file_error(files[i].native(), EISDIR);
    if (there == fs::file_type::none) throw file_error(files[i].native(), error.value());
    if (same_file(in, files[i])) throw file_error(files[i].native(), "input and output are the same file");
  }
  for (const fs::path& p : folders) {
    std::error_code error;
    fs::create_directories(p, error);
    if (error) throw file_error(p.native(), error.value());
  }
  return files;
}

// Decodes all tensors to memory that has the places of the original file.
byte_buffer decode_tensors(const decode_options& options, const frames_file& in, const values_in_base& values_of) {
  byte_buffer values(in.original.data_bytes);
  for (const stored_tensor& t : in.tensors)
    if (t.is_frame) check_needs_base(options, t.view, t.about);
  const std::vector<const_bytes> of_base = values_of(in.original.tensors);
  std::vector<tensor_to_decode> tensors;
  for (size_t i = 0; i < in.tensors.size(); ++i) {
    const stored_tensor& t = in.tensors[i];
    const bytes place = values.all().subspan(t.tensor.begin, t.raw_bytes());
    const const_bytes from_file = t.is_frame ? of_base[i] : t.content;
    std::copy(from_file.begin(), from_file.end(), place.begin());
    if (t.is_frame) tensors.push_back({t.about, t.content, t.view, place});
  }
  decode_all(options, tensors);
  return values;
}

void write_original(const std::string& path, const frames_file& in, const byte_buffer& values) {
  output_file out(path);
  out.write(bytes_of(safetensors_prelude(in.original.text)));
  out.write(values.all());
  out.commit();
}

void decode_safetensors(const decode_options& options, input from) {
  const std::string path = from.path;
  safetensors_file content = parse_safetensors(std::move(from.content), path);
  const bool to_folder = is_folder(options.out);
  const frames_file in = to_folder ? open_tensors(std::move(content), path) : open_frames(std::move(content), path);
  if (!to_folder) check_raw_tensors(in, path);
  safetensors_file base;
  const byte_buffer values = decode_tensors(options, in, [&](const std::vector<named_tensor>& tensors) {
    if (options.base.empty()) return std::vector<const_bytes>(tensors.size());
    input old = read_input(options.base);
    base = parse_safetensors(std::move(old.content), old.path);
    return values_in(base, old.path, tensors, path);
  });
  if (!to_folder) return write_original(options.out, in, values);
  const std::vector<fs::path> files = files_in(options.out, in.tensors, options.in);
  for (size_t i = 0; i < files.size(); ++i) {
    const named_tensor& t = in.tensors[i].tensor;
    write_npy_file(files[i], t, values.all().subspan(t.begin, t.end - t.begin));
  }
}

// Decodes one tensor of a safetensors file to a .npy file.
void decode_tensor(const decode_options& options, input from) {
  const std::string path = from.path;
  if (!from.is_safetensors) throw file_error(path, "not a safetensors file, and --tensor is for these");
  const frames_file in = open_tensors(parse_safetensors(std::move(from.content), path), path);
  size_t i = 0;
  while (i < in.tensors.size() && in.tensors[i].tensor.name != options.tensor) ++i;
  if (i == in.tensors.size()) throw file_error(path, "it has no tensor '" + options.tensor + "'; see 'tuck info'");
  const stored_tensor& t = in.tensors[i];
  const_bytes first = t.content;
  safetensors_file base;
  if (t.is_frame) check_needs_base(options, t.view, t.about);
  if (t.is_frame && t.view.is_delta()) {
    input old = read_input(options.base);
    base = parse_safetensors(std::move(old.content), old.path);
    first = values_in(base, old.path, in.original.tensors, path)[i];
  }
  byte_buffer values(t.raw_bytes());
  if (!t.is_frame || t.view.is_delta()) std::copy(first.begin(), first.end(), values.all().begin());
  if (t.is_frame) decode_all(options, {{t.about, t.content, t.view, values.all()}});
  write_npy_file(options.out, t.tensor, values.all());
}

}  // namespace

void decode_shard(const decode_options& options, input from, const values_in_base& of_base) {
  const std::string path = from.path;
  const frames_file in = open_frames(parse_safetensors(std::move(from.content), path), path);
  check_raw_tensors(in, path);
  write_original(options.out, in, decode_tensors(options, in, of_base));
}

void decode(const decode_options& options) {
  const bool to_folder = is_folder(options.out);
  if (!options.tensor.empty()) {
    if (to_folder) throw file_error(options.out, "a folder is for all tensors; with --tensor, name a .npy file");
    check_output(options.in, false, options.out);
    return decode_tensor(options, read_input(options.in));
  }
  input in = read_input(options.in);
  if (to_folder && !in.is_safetensors)
    throw file_error(options.out, "a folder is for the tensors of a safetensors file; name a .npy file for this frame");
  if (in.is_safetensors && !to_folder && options.out != standard_stream && !options.out.ends_with(".safetensors"))
    throw file_error(options.out,
                     "all tensors of the input need a name in .safetensors, or a folder, which ends in "
                     "'/'; one needs --tensor");
  if (!to_folder) check_output(options.in, in.is_safetensors, options.out);
  in.is_safetensors ? decode_safetensors(options, std::move(in)) : decode_npy(options, std::move(in));
}

}  // namespace tuck::tools
