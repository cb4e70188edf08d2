#include "codecs.hpp"
#include "commands.hpp"
#include "frame_file.hpp"
#include "support/progress.hpp"

#include <algorithm>
#include <utility>

namespace tuck::tools {
namespace {

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
  progress shown("decoding", options.on == machine::device ? 0 : chunks, bytes);
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

void decode_safetensors(const decode_options& options, input from) {
  const std::string path = from.path;
  const frames_file in = open_frames(parse_safetensors(std::move(from.content), path), path);
  check_raw_tensors(in, path);
  byte_buffer values(in.original.data_bytes);
  safetensors_file base;
  std::vector<const_bytes> of_base(in.tensors.size());
  for (const stored_tensor& t : in.tensors)
    if (t.is_frame) check_needs_base(options, t.view, t.about);
  if (!options.base.empty()) {
    input old = read_input(options.base);
    base = parse_safetensors(std::move(old.content), old.path);
    of_base = values_in(base, old.path, in.original.tensors, path);
  }
  std::vector<tensor_to_decode> tensors;
  for (size_t i = 0; i < in.tensors.size(); ++i) {
    const stored_tensor& t = in.tensors[i];
    const bytes place = values.all().subspan(t.tensor.begin, t.raw_bytes());
    const const_bytes from_file = t.is_frame ? of_base[i] : t.content;
    std::copy(from_file.begin(), from_file.end(), place.begin());
    if (t.is_frame) tensors.push_back({t.about, t.content, t.view, place});
  }
  decode_all(options, tensors);
  output_file out(options.out);
  out.write(bytes_of(safetensors_prelude(in.original.text)));
  out.write(values.all());
  out.commit();
}

// Decodes one tensor of a safetensors file to a .npy file. Types that NumPy does not have become bytes.
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
  const bool is_boolean = t.tensor.dtype == "BOOL";
  const bool has_type = is_boolean || file_type_of(t.tensor.type()) == t.tensor.dtype;
  output_file out(options.out);
  out.write(
      bytes_of(make_npy_prelude(t.tensor.type(), has_type ? t.tensor.shape : std::vector{t.raw_bytes()}, is_boolean)));
  out.write(values.all());
  out.commit();
}

}  // namespace

void decode(const decode_options& options) {
  if (!options.tensor.empty()) {
    check_output(options.in, false, options.out);
    return decode_tensor(options, read_input(options.in));
  }
  input in = read_input(options.in, options.out);
  in.is_safetensors ? decode_safetensors(options, std::move(in)) : decode_npy(options, std::move(in));
}

}  // namespace tuck::tools
