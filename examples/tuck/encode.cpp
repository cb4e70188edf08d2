#include "codecs.hpp"
#include "commands.hpp"
#include "declared_type.hpp"
#include "frame_file.hpp"
#include "support/npy.hpp"
#include "support/progress.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <numeric>
#include <utility>

namespace tuck::tools {
namespace {

struct tensor_to_encode {
  subject about;
  dtype type = dtype::none;
  const_bytes values;
  const_bytes base;  // base of a delta; else empty
  const_bytes metadata;
  uint32_t row = 1;      // values per row
  bool is_same = false;  // stored with another tensor
};

struct planned_frame {
  codec_choice codec;
  frame_options shape;
  frame_plan needs;
};

// A tensor as the output stores it: its frame, or its values as they are.
struct encoded_tensor {
  byte_buffer room;  // of a frame; worst-case size, whose unused end is never written
  const_bytes content;
  bool is_frame = false;
  bool is_same = false;  // stored with another tensor
};

// Checks the maximum, which depends on codec, type and machine. The option parser has checked everything else.
void check_chunk_values(const encode_options& options, std::string_view codec, dtype type) {
  const bool on_device = options.on == machine::device;
  const uint32_t most = on_device ? most_device_chunk_bytes / size_of(type) : most_chunk_values(codec, type);
  if (options.chunk_values > most)
    throw usage_error("--chunk-values: at most " + std::to_string(most) + " for " + name(type) +
                      (on_device ? " with --on device" : ""));
}

planned_frame plan(const encode_options& options, const tensor_to_encode& t) {
  if (t.is_same) return {};
  const uint32_t row = options.row != 0 ? options.row : t.row;
  planned_frame plan{{std::string(options.codecs.codec_of(t.type)), options.bound, row}, {}, {}};
  plan.shape = {.chunk_values = options.chunk_values, .checksums = !options.no_checksums, .metadata = t.metadata};
  if (options.chooses_codec) {
    plan.codec.name = delta_codec(t.type);
    plan.shape.alignment = delta_alignment;
    // Chunks of the device have at most the default size.
    if (options.chunk_values == 0 && options.on == machine::host)
      plan.shape.chunk_values = most_chunk_values(plan.codec.name, t.type);
  }
  if (plan.codec.name.empty()) return plan;
  check_chunk_values(options, plan.codec.name, t.type);
  plan.needs = plan_frame(plan.codec, t.type, t.values.size() / size_of(t.type), plan.shape);
  if (plan.needs.code != status::ok) throw t.about.error(message(plan.needs.code));
  return plan;
}

encoded_tensor encode_one(const encode_options& options, const tensor_to_encode& t, const planned_frame& plan,
                          progress& shown) {
  if (t.is_same) return {.room = {}, .content = {}, .is_same = true};
  if (plan.codec.name.empty()) return {.room = {}, .content = t.values};
  byte_buffer values_room, base_room;
  const const_bytes values = aligned(t.values, t.type, values_room), base = aligned(t.base, t.type, base_room);
  const const_bytes* const relative_to = options.base.empty() ? nullptr : &base;
  byte_buffer room(plan.needs.most_bytes);
  const outcome done = options.on == machine::device
                           ? encode_on_device(plan.codec, t.type, values, room.all(), plan.shape, relative_to)
                           : encode_frame(plan.codec, t.type, values, room.all(), plan.shape,
                                          shown.execution(options.threads), relative_to);
  if (!done) throw t.about.error(message(done.code));
  const const_bytes content = room.all().subspan(0, done.bytes);
  return {std::move(room), content, true};
}

std::vector<encoded_tensor> encode_all(const encode_options& options, const std::vector<tensor_to_encode>& tensors,
                                       bool keeps_small) {
  std::vector<planned_frame> plans;
  uint64_t chunks = 0, bytes = 0;
  for (const tensor_to_encode& t : tensors) {
    plans.push_back(plan(options, t));
    chunks += plans.back().needs.chunks;
    bytes += t.values.size();
  }
  progress shown(options.verb, options.on == machine::device || options.is_silent ? 0 : chunks, bytes);
  std::vector<encoded_tensor> encoded;
  for (size_t i = 0; i < tensors.size(); ++i) {
    encoded.push_back(encode_one(options, tensors[i], plans[i], shown));
    if (keeps_small && encoded.back().content.size() >= tensors[i].values.size())
      encoded.back() = {.room = {}, .content = tensors[i].values};
  }
  return encoded;
}

// Reads the base of a delta. `a` is the header of the array to encode.
npy_file read_base(const encode_options& options, const npy_header& a) {
  input from = read_input(options.base);
  npy_file base = parse_npy(std::move(from.content), from.path);
  if (options.as != dtype::none) base.header.type = declared_type(base.header, options.as, from.path);
  check_base(base.header, from.path, a, "the array ");
  return base;
}

void encode_npy(const encode_options& options, input from) {
  npy_file in = parse_npy(std::move(from.content), from.path);
  in.header.type = declared_type(in.header, options.as, from.path);
  tensor_to_encode tensor{.about = {from.path, {}},
                          .type = in.header.type,
                          .values = in.data(),
                          .base = {},
                          .metadata = bytes_of(in.header.prelude),
                          .row = row_length(in.header.shape, in.header.fortran_order)};
  if (options.codecs.codec_of(tensor.type).empty()) throw tensor.about.error(options.codecs.why_none(tensor.type));
  npy_file base;
  if (!options.base.empty()) {
    base = read_base(options, in.header);
    tensor.base = base.data();
  }
  if (options.out.ends_with(".npy"))
    throw file_error(options.out, "the output is a frame and no .npy file; choose another name, such as in .tuck");
  const std::vector<encoded_tensor> frames = encode_all(options, {tensor}, false);
  output_file out(options.out);
  out.write(frames[0].content);
  out.commit();
}

// Prints a line about what was done, to standard error if the file went to standard output.
void print_note(const encode_options& options, const std::string& path, const std::string& text) {
  const bool is_taken = options.out == standard_stream || same_file(options.out, "/dev/stdout");
  (is_taken ? std::cerr << "tuck: " : std::cout) << printable(path + ": " + text) << '\n';
}

// Names the tensors that no codec takes.
void print_left_out(const encode_options& options, const std::string& path, const std::vector<named_tensor>& tensors) {
  constexpr size_t most = 120;  // bytes of names
  if (tensors.empty()) return;
  const auto shown = [&](size_t i) {
    return tensors[i].name.substr(0, 80) + " (" + tensors[i].dtype.substr(0, 20) + ")";
  };
  std::string list = shown(0);
  size_t named = 1;
  for (; named < tensors.size() && list.size() + shown(named).size() < most; ++named) list += ", " + shown(named);
  if (named < tensors.size()) list += ", and " + std::to_string(tensors.size() - named) + " more";
  print_note(options, path, "stored raw, because --codec has no codec for their type: " + list);
}

// Writes frames, then raw tensors, those whose size is a multiple of 8 first. So all begin aligned for their type.
// Returns the size of the file.
uint64_t write_safetensors(const encode_options& options, const safetensors_header& in,
                           const std::vector<encoded_tensor>& encoded, const std::map<std::string, same_tensor>& same) {
  const std::vector<named_tensor>& tensors = in.tensors;
  std::vector<const_bytes> raw;
  std::vector<size_t> order;
  for (size_t i = 0; i < encoded.size(); ++i) {
    order.push_back(i);
    if (!encoded[i].is_frame && !encoded[i].is_same) raw.push_back(encoded[i].content);
  }
  const auto unit = [&](size_t i) { return encoded[i].is_frame ? 16 : std::gcd(encoded[i].content.size(), 8u); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return unit(a) > unit(b); });
  std::vector<named_tensor> described;
  uint64_t end = 0;
  for (const size_t i : order) {
    described.push_back(tensors[i]);
    const uint64_t size = encoded[i].content.size();
    if (encoded[i].is_frame || encoded[i].is_same) described.back().dtype = "U8", described.back().shape = {size};
    described.back().begin = end;
    described.back().end = end += size;
  }
  std::map<std::string, std::string> metadata = in.metadata;
  metadata[original_header] = in.text;
  metadata[original_digest] = digest_text(checksum(bytes_of(in.text)));
  metadata.erase(raw_digest);
  if (!raw.empty()) metadata[raw_digest] = digest_text(raw_tensors_digest(raw));
  metadata.erase(same_tensors);
  if (!same.empty()) metadata[same_tensors] = same_text(same);
  const std::string prelude = safetensors_prelude(make_safetensors_header(described, metadata));
  output_file out(options.out);
  out.write(bytes_of(prelude));
  for (const size_t i : order) out.write(encoded[i].content);
  out.commit();
  return prelude.size() + end;
}

// Encodes the arrays of a folder as the tensors of a safetensors file. folder/a/b.npy is the tensor "a/b".
void encode_folder(const encode_options& options) {
  if (!options.base.empty() || options.as != dtype::none)
    throw usage_error("--base and --as are not for a folder of .npy files");
  if (options.once) throw usage_error(once_is_without_base);
  const std::vector<std::filesystem::path> paths = npy_files(options.in, true);
  if (options.out != standard_stream && !options.out.ends_with(".safetensors"))
    throw file_error(options.out, "a folder becomes a safetensors file, whose name must end in .safetensors");
  check_output(options.in, true, options.out);
  std::vector<npy_file> arrays;
  std::vector<named_tensor> tensors;
  std::map<std::string, const_bytes> by_name;
  for (const std::filesystem::path& path : paths) {
    arrays.push_back(read_npy(path));
    const npy_header& h = arrays.back().header;
    const std::string file = path.lexically_relative(options.in), name = file.substr(0, file.rfind('.'));
    if (!h.opaque.empty() || h.fortran_order)
      throw file_error(path.native(),
                       "safetensors files have no " +
                           (h.opaque.empty() ? "Fortran order; save numpy.ascontiguousarray(x)" : h.opaque));
    tensors.push_back({.name = name, .dtype = h.is_boolean ? "BOOL" : file_type_of(h.type), .shape = h.shape});
    tensors.back().end = arrays.back().data().size();
    by_name.emplace(name, arrays.back().data());
  }
  const safetensors_header header = header_of_tensors(std::move(tensors), options.out);
  std::vector<const_bytes> values;
  for (const named_tensor& t : header.tensors) values.push_back(by_name.at(t.name));
  const written_tensors written =
      encode_tensors(options, options.in, header, values, std::vector<const_bytes>(values.size()));
  print_left_out(options, options.in, written.left_out);
}

void encode_safetensors(const encode_options& options, input from) {
  if (options.as != dtype::none) throw usage_error("--as is for .npy files; safetensors files store their types");
  const std::string path = from.path;
  safetensors_file base;
  equal_tensors equal;
  encode_shard(
      options, std::move(from),
      [&](const std::vector<named_tensor>& tensors) {
        if (options.base.empty()) return std::vector<const_bytes>(tensors.size());
        input old = read_input(options.base);
        base = parse_safetensors(std::move(old.content), old.path);
        return values_in(base, old.path, tensors, path);
      },
      options.once ? &equal : nullptr);
}

// Compares the values of a file at an offset with these, part by part.
bool has_values(const std::string& path, uint64_t first, const_bytes values) {
  constexpr uint64_t part_bytes = 1 << 20;
  input_file file(path);
  file.skip(first);
  byte_buffer room(std::min(values.size(), part_bytes));
  for (uint64_t done = 0; done < values.size();) {
    const bytes part = room.all().subspan(0, std::min(values.size() - done, room.size()));
    file.read(part);
    if (!std::equal(part.begin(), part.end(), values.begin() + done)) return false;
    done += part.size();
  }
  return true;
}

}  // namespace

const equal_tensors::place* equal_tensors::find(const safetensors_file& file, place here) {
  const const_bytes values = file.values(here.tensor);
  if (values.empty()) return nullptr;
  const auto folder_of = [](const std::string& path) { return path.substr(0, path.rfind('/') + 1); };
  const uint64_t digest = checksum(values);
  for (auto [next, end] = by_digest_.equal_range(digest); next != end; ++next) {
    const place& earlier = *next->second;
    if (earlier.tensor.dtype != here.tensor.dtype || earlier.tensor.end - earlier.tensor.begin != values.size() ||
        folder_of(earlier.path) != folder_of(here.path))
      continue;
    const const_bytes in_memory = earlier.path == here.path ? file.values(earlier.tensor) : const_bytes{};
    if (earlier.path == here.path ? std::equal(values.begin(), values.end(), in_memory.begin())
                                  : has_values(earlier.path, earlier.first, values))
      return &earlier;
  }
  places_.push_back(std::move(here));
  by_digest_.emplace(digest, &places_.back());
  return nullptr;
}

void encode_shard(const encode_options& options, input from, const values_in_base& of_base, equal_tensors* equal) {
  const std::string path = from.path;
  const safetensors_file in = parse_safetensors(std::move(from.content), path);
  if (in.header.metadata.contains(original_header))
    throw file_error(
        path, std::string("its metadata has '") + original_header + "', which marks tensors that are frames already");
  std::vector<const_bytes> values;
  for (const named_tensor& t : in.header.tensors) values.push_back(in.values(t));
  const written_tensors written =
      encode_tensors(options, path, in.header, values, of_base(in.header.tensors), &in, equal);
  if (const uint64_t before = in.content.size(); written.file_bytes > before)
    print_note(
        options, path,
        "the output is larger, " + std::to_string(written.file_bytes) + " bytes instead of " + std::to_string(before));
  print_left_out(options, path, written.left_out);
}

written_tensors encode_tensors(const encode_options& options, const std::string& path, const safetensors_header& header,
                               const std::vector<const_bytes>& values, const std::vector<const_bytes>& of_base,
                               const safetensors_file* file, equal_tensors* equal) {
  std::vector<tensor_to_encode> tensors;
  std::vector<std::pair<size_t, const equal_tensors::place*>> same;
  std::map<std::string, equal_tensors::place*> own;
  written_tensors written;
  const uint64_t values_begin = safetensors_prelude(header.text).size();
  for (const named_tensor& t : header.tensors) {
    const size_t i = tensors.size();
    tensors.push_back({.about = {path, about_tensor(t.name)},
                       .type = t.type(),
                       .values = values[i],
                       .base = of_base[i],
                       .metadata = {},
                       .row = row_length(t.shape)});
    if (equal != nullptr && !values[i].empty()) {
      const auto* const earlier =
          equal->find(*file, {path, path.substr(path.rfind('/') + 1), t, values_begin + t.begin});
      if (earlier == nullptr)
        own[t.name] = &equal->places().back();
      else
        same.emplace_back(i, earlier);
      tensors.back().is_same = earlier != nullptr;
    }
    if (!tensors.back().is_same && options.codecs.codec_of(t.type()).empty()) written.left_out.push_back(t);
  }
  const std::vector<encoded_tensor> encoded = encode_all(options, tensors, true);
  std::map<std::string, same_tensor> same_names;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (const auto found = own.find(header.tensors[i].name); found != own.end())
      found->second->digest = digest_text(checksum(encoded[i].content));
  for (const auto& [i, place] : same)
    same_names[header.tensors[i].name] = {place->path == path ? "" : place->file, place->tensor.name, place->digest};
  written.file_bytes = write_safetensors(options, header, encoded, same_names);
  return written;
}

void encode(const encode_options& options) {
  if (!options.base.empty() && options.out != standard_stream && same_file(options.base, options.out))
    throw file_error(options.out, "base and output are the same file");
  if (is_folder(options.in)) return encode_folder(options);
  if (options.in.ends_with(".safetensors.index.json"))
    throw file_error(options.in, "an index of several files; encode its folder");
  input in = read_input(options.in, options.out);
  if (options.once && (!in.is_safetensors || !options.base.empty())) throw usage_error(once_is_without_base);
  in.is_safetensors ? encode_safetensors(options, std::move(in)) : encode_npy(options, std::move(in));
}

}  // namespace tuck::tools
