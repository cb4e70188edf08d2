#include "codecs.hpp"
#include "commands.hpp"
#include "frame_file.hpp"

#include <nlohmann/json.hpp>

#include <cinttypes>
#include <cstdio>
#include <iostream>

namespace tuck::tools {
namespace {

constexpr chunk_kind kinds[] = {chunk_kind::encoded, chunk_kind::raw, chunk_kind::uniform};

chunk_view checked_chunk(const frame_file& frame, uint64_t i, const std::string& path) {
  chunk_view chunk;
  if (const status s = frame.view.chunk(i, chunk); s != status::ok)
    throw file_error(path, failure_text({.code = s, .first_bad_chunk = static_cast<uint32_t>(i)}, frame));
  return chunk;
}

// The array's shape; all values in a row where the metadata is not ours.
std::vector<uint64_t> shape_of(const frame_file& frame, const std::string& path) {
  try {
    return npy_header_of(frame, path).shape;
  } catch (const file_error&) {
    return {frame.header().value_count};
  }
}

std::string digest_text(uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, digest);
  return text;
}

double ratio_of(const frame_file& frame) {
  return static_cast<double>(frame.raw_bytes()) / static_cast<double>(frame.header().frame_bytes);
}

void print_json(const frame_file& frame, const std::string& path) {
  const frame_header& h = frame.header();
  nlohmann::ordered_json bound;  // null: nothing is lost
  if (const auto b = bound_of(h.stages))
    bound = {{"mode", name(b->mode)}, {"value", b->requested}, {"effective", b->effective}};
  nlohmann::ordered_json chunks = nlohmann::ordered_json::array();
  for (uint64_t i = 0; i < frame.view.chunks(); ++i) {
    const chunk_view chunk = checked_chunk(frame, i, path);
    chunks.push_back({{"offset", chunk.payload.data() - frame.content.all().data()},
                      {"bytes", chunk.payload.size()},
                      {"kind", name(chunk.kind)},
                      {"values", chunk.values}});
  }
  nlohmann::ordered_json base, result;  // null: no delta
  if (frame.view.is_delta()) base = digest_text(h.base_digest), result = digest_text(frame.view.result_digest());
  const nlohmann::ordered_json about = {{"codec", stage_names(h.stages)},
                                        {"error_bound", std::move(bound)},
                                        {"dtype", name(h.type)},
                                        {"shape", shape_of(frame, path)},
                                        {"values", h.value_count},
                                        {"raw_bytes", frame.raw_bytes()},
                                        {"frame_bytes", h.frame_bytes},
                                        {"ratio", ratio_of(frame)},
                                        {"chunk_values", h.chunk_values},
                                        {"alignment", 1u << h.alignment_log2},
                                        {"checksums", frame.view.has_checksums()},
                                        {"base_digest", std::move(base)},
                                        {"result_digest", std::move(result)},
                                        {"metadata_bytes", h.metadata_bytes},
                                        {"chunks", std::move(chunks)}};
  std::cout << about.dump(2) << '\n';
}

// All chunks of a kind.
struct share {
  uint64_t chunks = 0;
  uint64_t raw_bytes = 0;
  uint64_t payload_bytes = 0;
};

share share_of(const frame_file& frame, chunk_kind kind, const std::string& path) {
  share sum;
  for (uint64_t i = 0; i < frame.view.chunks(); ++i) {
    const chunk_view chunk = checked_chunk(frame, i, path);
    if (chunk.kind != kind) continue;
    ++sum.chunks;
    sum.raw_bytes += uint64_t{chunk.values} * frame.value_bytes();
    sum.payload_bytes += chunk.payload.size();
  }
  return sum;
}

void print_field(const char* what, const std::string& text) { std::printf("%-12s %s\n", what, text.c_str()); }

// A number in as few digits as tell it from its neighbours in a float.
std::string shortest(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string bound_text(const stored_bound& b) {
  switch (b.mode) {
    case bound_mode::absolute: return shortest(b.effective) + ", absolute";
    case bound_mode::range_relative:
      if (b.effective == 0) return "relative to the range of values, of which there is none: nothing is lost";
      return shortest(b.requested) + " of the range of values, which is " + shortest(b.effective) + " absolute";
    case bound_mode::pointwise: return shortest(b.effective) + " of each value";
  }
  return "unknown";
}

void print_chunk_kinds(const frame_file& frame, const std::string& path) {
  std::printf("\n%-12s %14s %16s %16s\n", "chunk kind", "chunks", "bytes of values", "bytes in frame");
  uint64_t payload_bytes = 0;
  for (const chunk_kind kind : kinds) {
    const share s = share_of(frame, kind, path);
    payload_bytes += s.payload_bytes;
    std::printf("%-12s %14" PRIu64 " %16" PRIu64 " %16" PRIu64 "\n", name(kind), s.chunks, s.raw_bytes,
                s.payload_bytes);
  }
  std::printf("%-12s %14s %16s %16" PRIu64 "\n", "all else", "", "", frame.header().frame_bytes - payload_bytes);
}

void print_summary(const frame_file& frame, const std::string& path) {
  const frame_header& h = frame.header();
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.2f", ratio_of(frame));
  print_field("file", printable(path));
  print_field("codec", stage_names(h.stages));
  if (const auto b = bound_of(h.stages)) print_field("error bound", bound_text(*b));
  print_field("tensor", std::string(name(h.type)) + " " + shape_text(shape_of(frame, path)));
  print_field("values", std::to_string(h.value_count) + ", " + std::to_string(frame.raw_bytes()) + " bytes");
  print_field("frame", std::to_string(h.frame_bytes) + " bytes");
  print_field("ratio", ratio);
  print_field("chunks", std::to_string(frame.view.chunks()) + " of " + std::to_string(h.chunk_values) +
                            " values, payloads aligned to " + std::to_string(1u << h.alignment_log2) + " bytes");
  print_field("checksums", frame.view.has_checksums() ? "yes" : "no");
  if (frame.view.is_delta())
    print_field("delta", "against a base of digest " + digest_text(h.base_digest) + ", makes " +
                             digest_text(frame.view.result_digest()));
  print_field("metadata", std::to_string(h.metadata_bytes) + " bytes");
  print_chunk_kinds(frame, path);
}

}  // namespace

void info(const info_options& options) {
  const frame_file frame = open_frame(options.in);
  for (uint64_t i = 0; i < frame.view.chunks(); ++i) checked_chunk(frame, i, options.in);  // before a word is printed
  if (options.json)
    print_json(frame, options.in);
  else
    print_summary(frame, options.in);
}

}  // namespace tuck::tools
