#include "codecs.hpp"
#include "commands.hpp"
#include "frame_file.hpp"
#include "support/progress.hpp"

#include <algorithm>
#include <iostream>
#include <utility>

namespace tuck::tools {
namespace {

constexpr uint64_t part_bytes = 64 * 1024 * 1024;  // bytes of values that are decoded at a time

// Decodes all values, one part after the other, into the same memory. A part is a number of whole chunks.
void decode_in_parts(const_bytes frame, const frame_view& view, const subject& about) {
  if (view.is_delta()) throw about.error(std::string(message(status::needs_base)) + ": decode --base verifies both");
  const frame_header& h = view.header();
  const uint64_t chunks_a_part = std::max<uint64_t>(part_bytes / value_bytes(view) / h.chunk_values, 1);
  const uint64_t most = std::min(chunks_a_part * h.chunk_values, h.value_count);
  byte_buffer values(most * value_bytes(view));
  progress shown("verifying", view.chunks(), raw_bytes(view));
  uint64_t first = 0;
  do {
    const uint64_t count = std::min(most, h.value_count - first);
    const bytes part = values.all().subspan(0, count * value_bytes(view));
    const outcome done = decode_frame(frame, part, first, shown.execution(0));
    if (!done) throw about.error(failure_text(done, view));
    first += count;
  } while (first < h.value_count);
}

void print_sound(const std::string& path, const std::string& values, uint64_t chunks, bool has_checksums) {
  std::cout << printable(path) << ": ok, " << values << " in " << chunks << " chunks, "
            << (has_checksums ? "checksums verified" : "no checksums to verify") << '\n';
}

void verify_safetensors(input in) {
  const std::string path = in.path;
  const frames_file file = open_frames(parse_safetensors(std::move(in.content), path), path);
  check_raw_tensors(file, path);
  uint64_t values = 0, chunks = 0;
  bool has_checksums = true;
  for (const stored_tensor& t : file.tensors) {
    values += t.raw_bytes() / size_of(t.tensor.type());
    if (!t.is_frame || t.same) continue;
    decode_in_parts(t.content, t.view, t.about);
    chunks += t.view.chunks();
    has_checksums = has_checksums && t.view.has_checksums();
  }
  print_sound(path, std::to_string(values) + " values of " + std::to_string(file.tensors.size()) + " tensors", chunks,
              has_checksums);
}

}  // namespace

void verify(const verify_options& options) {
  input in = read_input(options.in);
  if (in.is_safetensors) return verify_safetensors(std::move(in));
  const std::string path = in.path;
  const frame_file frame = open_frame(std::move(in));
  decode_in_parts(frame.content.all(), frame.view, {path, {}});
  print_sound(path, std::to_string(frame.header().value_count) + " values", frame.view.chunks(),
              frame.view.has_checksums());
  try {
    static_cast<void>(npy_header_of(frame, path));
  } catch (const file_error& no_array) {
    std::cout << no_array.what() << ", so decode rejects it\n";
  }
}

}  // namespace tuck::tools
