#include "codecs.hpp"
#include "commands.hpp"
#include "frame_file.hpp"
#include "support/progress.hpp"

namespace tuck::tools {

void decode(const decode_options& options) {
  refuse_same_file(options.in, options.out);
  const frame_file frame = open_frame(options.in);
  const npy_header header = npy_header_of(frame, options.in);
  byte_buffer values(frame.raw_bytes());
  output_file out(options.out);
  outcome done;
  if (options.on == machine::device) {
    done = decode_on_device(frame.content.all(), values.all());
  } else {
    progress shown("decoding", frame.view.chunks(), values.size());
    done = decode_frame(frame.content.all(), values.all(), 0, shown.execution(options.threads));
  }
  if (!done) throw file_error(options.in, failure_text(done, frame));
  out.write(bytes_of(header.prelude));
  out.write(values.all());
  out.commit();
}

}  // namespace tuck::tools
