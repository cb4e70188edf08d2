#include "codecs.hpp"
#include "commands.hpp"
#include "frame_file.hpp"
#include "support/progress.hpp"

#include <utility>

namespace tuck::tools {
namespace {

frame_file open_delta(const std::string& path, const std::string& out) {
  input in = read_input(path, out);
  if (in.is_safetensors) throw file_error(in.path, "compact takes .tuck files only");
  frame_file frame = open_frame(std::move(in));
  if (!frame.view.is_delta()) throw file_error(shown_input(path), message(status::not_a_delta));
  return frame;
}

}  // namespace

void compact(const compact_options& options) {
  if (options.others.empty()) throw usage_error("compact needs deltas and the file to write");
  std::vector<std::string> paths{options.in};
  paths.insert(paths.end(), options.others.begin(), options.others.end() - 1);
  std::vector<frame_file> deltas;
  std::vector<const_bytes> frames;
  deltas.reserve(paths.size());
  for (const std::string& path : paths) {
    deltas.push_back(open_delta(path, options.others.back()));
    frames.push_back(deltas.back().content.all());
  }
  const frame_file& last = deltas.back();
  const frame_options shape{.alignment = 1u << deltas.front().header().alignment_log2,
                            .metadata = last.view.metadata()};
  byte_buffer base(raw_bytes(deltas.front().view));
  read_base(options.base, npy_header_of(deltas.front(), shown_input(options.in)), base.all());
  byte_buffer frame(most_delta_bytes(deltas.front().header(), shape.metadata));
  output_file out(options.others.back());
  uint64_t which = 0;
  outcome done;
  {
    progress shown("compacting", deltas.front().view.chunks() * (deltas.size() + 1), raw_bytes(last.view));
    done = compact_delta_frames(frames, base.all(), frame.all(), shape, shown.execution(options.threads), which);
  }
  if (done.code == status::wrong_base && which == 0) throw file_error(shown_input(options.base), message(done.code));
  if (!done) throw file_error(shown_input(paths[which]), failure_text(done, deltas[which].view));
  out.write(frame.all().subspan(0, done.bytes));
  out.commit();
}

}  // namespace tuck::tools
