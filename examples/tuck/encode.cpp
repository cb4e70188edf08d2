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

}  // namespace

void encode(const encode_options& options) {
  refuse_same_file(options.in, options.out);
  const npy_file in = read_npy(options.in);
  const dtype type = declared_type(in.header, options.as_bf16, options.in);
  check_chunk_values(options, type);
  check_type(options, type);
  const frame_options shape{.chunk_values = options.chunk_values,
                            .checksums = !options.no_checksums,
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
    done = encode_frame(options.codec, type, in.data(), frame.all(), shape, shown.execution(options.threads));
  }
  if (!done) throw file_error(options.in, message(done.code));
  out.write(frame.all().subspan(0, done.bytes));
  out.commit();
}

}  // namespace tuck::tools
