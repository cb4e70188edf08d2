#include "codecs.hpp"
#include "commands.hpp"
#include "declared_type.hpp"
#include "frame_file.hpp"
#include "support/progress.hpp"

#include <algorithm>

namespace tuck::tools {
namespace {

struct tensor_to_encode {
  subject about;
  dtype type = dtype::none;
  const_bytes values;
  const_bytes base;  // base of a delta; else empty
  const_bytes metadata;
};

struct planned_frame {
  codec_choice codec;
  frame_options shape;
  frame_plan needs;
};

struct encoded_frame {
  byte_buffer room;  // worst-case size; the unused end is never written
  uint64_t used = 0;

  const_bytes all() const noexcept { return room.all().subspan(0, used); }
};

// Checks the maximum, which depends on codec and type. The option parser has checked everything else.
void check_chunk_values(uint32_t chunk_values, std::string_view codec, dtype type) {
  const uint32_t most = most_chunk_values(codec, type);
  if (chunk_values > most) throw usage_error("--chunk-values: at most " + std::to_string(most) + " for " + name(type));
}

planned_frame plan(const encode_options& options, const tensor_to_encode& t) {
  planned_frame plan{options.codec, {}, {}};
  plan.shape = {.chunk_values = options.chunk_values, .checksums = !options.no_checksums, .metadata = t.metadata};
  if (options.chooses_codec) {
    plan.codec.name = delta_codec;
    plan.shape.alignment = delta_alignment;
    if (options.chunk_values == 0) plan.shape.chunk_values = most_chunk_values(delta_codec, t.type);
  }
  check_chunk_values(options.chunk_values, plan.codec.name, t.type);
  if (plan_frame(plan.codec, t.type, 0, {}).code == status::codec_mismatch)
    throw t.about.error(plan.codec.name + " takes " + types_of(plan.codec.name) + ", not " + name(t.type));
  plan.needs = plan_frame(plan.codec, t.type, t.values.size() / size_of(t.type), plan.shape);
  if (plan.needs.code != status::ok) throw t.about.error(message(plan.needs.code));
  return plan;
}

// Returns the values at an address that is aligned for the type. Copies them to `room` if necessary.
const_bytes aligned(const_bytes values, dtype type, byte_buffer& room) {
  if (reinterpret_cast<uintptr_t>(values.data()) % size_of(type) == 0) return values;
  room = byte_buffer(values.size());
  std::copy(values.begin(), values.end(), room.all().begin());
  return room.all();
}

encoded_frame encode_one(const encode_options& options, const tensor_to_encode& t, const planned_frame& plan,
                         progress& shown) {
  byte_buffer values_room, base_room;
  const const_bytes values = aligned(t.values, t.type, values_room), base = aligned(t.base, t.type, base_room);
  encoded_frame frame{byte_buffer(plan.needs.most_bytes)};
  outcome done;
  if (options.on == machine::device)
    done = encode_on_device(plan.codec, t.type, values, frame.room.all(), plan.shape);
  else
    done = encode_frame(plan.codec, t.type, values, frame.room.all(), plan.shape, shown.execution(options.threads),
                        options.base.empty() ? nullptr : &base);
  if (!done) throw t.about.error(message(done.code));
  frame.used = done.bytes;
  return frame;
}

std::vector<encoded_frame> encode_all(const encode_options& options, const std::vector<tensor_to_encode>& tensors) {
  std::vector<planned_frame> plans;
  uint64_t chunks = 0, bytes = 0;
  for (const tensor_to_encode& t : tensors) {
    plans.push_back(plan(options, t));
    chunks += plans.back().needs.chunks;
    bytes += t.values.size();
  }
  progress shown("encoding", options.on == machine::device ? 0 : chunks, bytes);
  std::vector<encoded_frame> frames;
  for (size_t i = 0; i < tensors.size(); ++i) frames.push_back(encode_one(options, tensors[i], plans[i], shown));
  return frames;
}

// Reads the base of a delta. `a` is the header of the array to encode.
npy_file read_base(const encode_options& options, const npy_header& a) {
  npy_file base = read_npy(options.base);
  const npy_header& b = base.header;
  if (a.type != b.type || a.shape != b.shape)
    throw file_error(options.base, std::string("the base is ") + name(b.type) + " " + shape_text(b.shape) +
                                       ", the array " + name(a.type) + " " + shape_text(a.shape));
  return base;
}

void encode_npy(const encode_options& options) {
  const npy_file in = read_npy(options.in);
  tensor_to_encode tensor{.about = {options.in, {}},
                          .type = declared_type(in.header, options.as, options.in),
                          .values = in.data(),
                          .base = {},
                          .metadata = bytes_of(in.header.prelude)};
  npy_file base;
  if (!options.base.empty()) {
    base = read_base(options, in.header);
    tensor.base = base.data();
  }
  const std::vector<encoded_frame> frames = encode_all(options, {tensor});
  output_file out(options.out);
  out.write(frames[0].all());
  out.commit();
}

void encode_safetensors(const encode_options& options) {
  if (options.as != dtype::none) throw usage_error("--as is for .npy files; safetensors files store their types");
  const safetensors_file in = read_safetensors(options.in);
  if (in.header.metadata.contains(original_header)) throw file_error(options.in, "its tensors are frames already");
  safetensors_file base;
  std::vector<const_bytes> of_base(in.header.tensors.size());
  if (!options.base.empty()) {
    base = read_safetensors(options.base);
    of_base = values_in_base(base, options.base, in.header.tensors, options.in);
  }
  std::vector<tensor_to_encode> tensors;
  for (const named_tensor& t : in.header.tensors)
    tensors.push_back({.about = {options.in, about_tensor(t.name)},
                       .type = t.type(),
                       .values = in.values(t),
                       .base = of_base[tensors.size()],
                       .metadata = {}});
  const std::vector<encoded_frame> frames = encode_all(options, tensors);

  std::vector<named_tensor> described;
  uint64_t end = 0;
  for (const encoded_frame& frame : frames) {
    described.push_back({in.header.tensors[described.size()].name, "U8", {frame.used}, end, end + frame.used});
    end += frame.used;
  }
  std::map<std::string, std::string> metadata = in.header.metadata;
  metadata[original_header] = in.header.text;
  metadata[original_digest] = digest_text(checksum(bytes_of(in.header.text)));
  output_file out(options.out);
  out.write(bytes_of(safetensors_prelude(make_safetensors_header(described, metadata))));
  for (const encoded_frame& frame : frames) out.write(frame.all());
  out.commit();
}

}  // namespace

void encode(const encode_options& options) {
  check_output(options.in, options.out);
  if (!options.base.empty() && same_file(options.base, options.out))
    throw file_error(options.out, "base and output are the same file");
  is_safetensors(options.in) ? encode_safetensors(options) : encode_npy(options);
}

}  // namespace tuck::tools
