#include "codecs.hpp"
#include "commands.hpp"
#include "declared_type.hpp"
#include "frame_file.hpp"
#include "support/progress.hpp"

namespace tuck::tools {
namespace {

// The option parser has seen to the rest; how many are too many depends on the input's type.
void check_chunk_values(const encode_options& options, dtype type) {
  const uint32_t most = max_chunk_raw_bytes / size_of(type);
  if (options.chunk_values > most)
    throw usage_error("--chunk-values: at most " + std::to_string(most) + " for " + name(type));
}

void check_type(const encode_options& options, dtype type) {
  if (plan_frame(options.codec, type, 0, {}).code == status::codec_mismatch)
    throw file_error(options.in, options.codec.name + " takes " + types_of(options.codec.name) + ", not " + name(type));
}

// What a delta is made against.
npy_file read_base(const encode_options& options, const npy_file& in) {
  npy_file base = read_npy(options.base);
  const npy_header &a = in.header, &b = base.header;
  if (a.type != b.type || a.shape != b.shape)
    throw file_error(options.base, std::string("the base is ") + name(b.type) + " " + shape_text(b.shape) +
                                       ", the array " + name(a.type) + " " + shape_text(a.shape));
  return base;
}

}  // namespace

void encode(const encode_options& asked) {
  encode_options options = asked;
  refuse_same_file(options.in, options.out);
  const npy_file in = read_npy(options.in);
  const dtype type = declared_type(in.header, options.as, options.in);
  if (options.chooses_codec) {
    options.codec.name = delta_codec;
    if (options.chunk_values == 0) options.chunk_values = delta_chunk_bytes / size_of(type);
  }
  check_chunk_values(options, type);
  check_type(options, type);
  const bool is_delta = !options.base.empty();
  const npy_file base = is_delta ? read_base(options, in) : npy_file{};
  const const_bytes base_values = is_delta ? base.data() : const_bytes{};
  const frame_options shape{.chunk_values = options.chunk_values,
                            .alignment = options.chooses_codec ? delta_alignment : frame_options{}.alignment,
                            .checksums = !options.no_checksums || is_delta,
                            .metadata = bytes_of(in.header.prelude)};

  const frame_plan plan = plan_frame(options.codec, type, in.header.values, shape);
  if (plan.code != status::ok) throw file_error(options.in, message(plan.code));
  byte_buffer frame(plan.most_bytes);
  output_file out(options.out);
  outcome done;
  if (options.on == machine::device) {
    done = encode_on_device(options.codec, type, in.data(), frame.all(), shape);
  } else {
    progress shown("encoding", plan.chunks, in.data().size());
    done = encode_frame(options.codec, type, in.data(), frame.all(), shape, shown.execution(options.threads),
                        is_delta ? &base_values : nullptr);
  }
  if (!done) throw file_error(options.in, message(done.code));
  out.write(frame.all().subspan(0, done.bytes));
  out.commit();
}

}  // namespace tuck::tools
