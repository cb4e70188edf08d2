#include "codecs.hpp"
#include "commands.hpp"
#include "frame_file.hpp"
#include "support/progress.hpp"

#include <algorithm>

namespace tuck::tools {
namespace {

// Of a delta, its base in `values`, which has the bytes of the tensor.
void read_base(const decode_options& options, const frame_file& frame, bytes values) {
  const npy_file base = read_npy(options.base);
  const const_bytes all = base.data();
  if (all.size() != values.size())
    throw file_error(options.base, "the base has " + std::to_string(all.size()) + " bytes of values, the delta is of " +
                                       std::to_string(frame.raw_bytes()));
  std::copy(all.begin(), all.end(), values.begin());
}

}  // namespace

void decode(const decode_options& options) {
  refuse_same_file(options.in, options.out);
  const frame_file frame = open_frame(options.in);
  if (frame.view.is_delta() && options.base.empty())
    throw file_error(options.in, std::string(message(status::needs_base)) + ": give it by --base");
  if (!frame.view.is_delta() && !options.base.empty())
    throw file_error(options.in, std::string(message(status::not_a_delta)) + " and takes no --base");
  const npy_header header = npy_header_of(frame, options.in);
  byte_buffer values(frame.raw_bytes());
  if (frame.view.is_delta()) read_base(options, frame, values.all());
  output_file out(options.out);
  outcome done;
  if (options.on == machine::device) {
    done = decode_on_device(frame.content.all(), values.all());
  } else {
    const bool is_delta = frame.view.is_delta();
    progress shown("decoding", frame.view.chunks() * (is_delta ? 2 : 1), values.size());
    if (is_delta)
      done = decode_delta_frame(frame.content.all(), values.all(), values.all(), shown.execution(options.threads));
    else
      done = decode_frame(frame.content.all(), values.all(), 0, shown.execution(options.threads));
  }
  if (done.code == status::wrong_base) throw file_error(options.base, failure_text(done, frame));
  if (!done) throw file_error(options.in, failure_text(done, frame));
  out.write(bytes_of(header.prelude));
  out.write(values.all());
  out.commit();
}

}  // namespace tuck::tools
