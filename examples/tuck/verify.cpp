#include "codecs.hpp"
#include "commands.hpp"
#include "frame_file.hpp"
#include "support/progress.hpp"

#include <algorithm>
#include <iostream>

namespace tuck::tools {
namespace {

constexpr uint64_t part_bytes = 64 * 1024 * 1024;  // restored at a time

// Restores all values, a part of whole chunks after the other in the same memory.
void decode_in_parts(const frame_file& frame, const std::string& path) {
  const frame_header& h = frame.header();
  const uint64_t chunks_a_part = std::max<uint64_t>(part_bytes / frame.value_bytes() / h.chunk_values, 1);
  const uint64_t most = std::min(chunks_a_part * h.chunk_values, h.value_count);
  byte_buffer values(most * frame.value_bytes());
  progress shown("verifying", frame.view.chunks(), frame.raw_bytes());
  uint64_t first = 0;
  do {
    const uint64_t count = std::min(most, h.value_count - first);
    const bytes part = values.all().subspan(0, count * frame.value_bytes());
    const outcome done = decode_frame(frame.content.all(), part, first, shown.execution(0));
    if (!done) throw file_error(path, failure_text(done, frame));
    first += count;
  } while (first < h.value_count);
}

}  // namespace

void verify(const verify_options& options) {
  const frame_file frame = open_frame(options.in);
  if (frame.view.is_delta())
    throw file_error(options.in, std::string(message(status::needs_base)) + ": decode --base verifies both");
  decode_in_parts(frame, options.in);
  std::cout << printable(options.in) << ": ok, " << frame.header().value_count << " values in " << frame.view.chunks()
            << " chunks, " << (frame.view.has_checksums() ? "checksums verified" : "no checksums to verify") << '\n';
  try {
    static_cast<void>(npy_header_of(frame, options.in));
  } catch (const file_error& no_array) {
    std::cout << no_array.what() << ", so that decode refuses it\n";
  }
}

}  // namespace tuck::tools
