#include "codecs.hpp"
#include "commands.hpp"
#include "frame_file.hpp"

#include <nlohmann/json.hpp>

#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <utility>

namespace tuck::tools {
namespace {

constexpr chunk_kind kinds[] = {chunk_kind::encoded, chunk_kind::raw, chunk_kind::uniform};

chunk_view checked_chunk(const frame_view& frame, uint64_t i, const subject& about) {
  chunk_view chunk;
  if (const status s = frame.chunk(i, chunk); s != status::ok)
    throw about.error(failure_text({.code = s, .first_bad_chunk = static_cast<uint32_t>(i)}, frame));
  return chunk;
}

// Checks all chunks before anything is printed.
void check_chunks(const frame_view& frame, const subject& about) {
  for (uint64_t i = 0; i < frame.chunks(); ++i) checked_chunk(frame, i, about);
}

// Returns the shape of the array. Returns one dimension if the metadata is not a .npy header.
std::vector<uint64_t> shape_of(const frame_file& frame, const std::string& path) {
  try {
    return npy_header_of(frame, path).shape;
  } catch (const file_error&) {
    return {frame.header().value_count};
  }
}

double ratio_of(uint64_t raw_bytes, uint64_t frame_bytes) {
  return static_cast<double>(raw_bytes) / static_cast<double>(frame_bytes);
}
double ratio_of(const frame_file& frame) { return ratio_of(raw_bytes(frame.view), frame.header().frame_bytes); }

// Both return null if the frame is not a delta.
nlohmann::ordered_json base_digest_json(const frame_view& frame) {
  return frame.is_delta() ? nlohmann::ordered_json(digest_text(frame.header().base_digest)) : nullptr;
}
nlohmann::ordered_json result_digest_json(const frame_view& frame) {
  return frame.is_delta() ? nlohmann::ordered_json(digest_text(frame.result_digest())) : nullptr;
}

// Returns the row length in values, or 0 if the codec is no chain with rows.
uint32_t row_of(const frame_header& h) { return h.stages.at[0].id == codec_id::rows ? h.stages.at[0].small_value : 0; }

void print_json(const frame_file& frame, const std::string& path) {
  const frame_header& h = frame.header();
  nlohmann::ordered_json bound;  // null: lossless
  if (const auto b = bound_of(h.stages))
    bound = {{"mode", name(b->mode)}, {"value", b->requested}, {"effective", b->effective}};
  nlohmann::ordered_json chunks = nlohmann::ordered_json::array();
  for (uint64_t i = 0; i < frame.view.chunks(); ++i) {
    const chunk_view chunk = checked_chunk(frame.view, i, {path, {}});
    chunks.push_back({{"offset", chunk.payload.data() - frame.content.all().data()},
                      {"bytes", chunk.payload.size()},
                      {"kind", name(chunk.kind)},
                      {"values", chunk.values}});
  }
  const nlohmann::ordered_json about = {{"codec", stage_names(h.stages)},
                                        {"error_bound", std::move(bound)},
                                        {"row", row_of(h) != 0 ? nlohmann::ordered_json(row_of(h)) : nullptr},
                                        {"dtype", name(h.type)},
                                        {"shape", shape_of(frame, path)},
                                        {"values", h.value_count},
                                        {"raw_bytes", raw_bytes(frame.view)},
                                        {"frame_bytes", h.frame_bytes},
                                        {"ratio", ratio_of(frame)},
                                        {"chunk_values", h.chunk_values},
                                        {"alignment", 1u << h.alignment_log2},
                                        {"checksums", frame.view.has_checksums()},
                                        {"base_digest", base_digest_json(frame.view)},
                                        {"result_digest", result_digest_json(frame.view)},
                                        {"metadata_bytes", h.metadata_bytes},
                                        {"chunks", std::move(chunks)}};
  std::cout << about.dump(2) << '\n';
}

// Sums over all chunks of one kind.
struct share {
  uint64_t chunks = 0;
  uint64_t raw_bytes = 0;
  uint64_t payload_bytes = 0;
};

share share_of(const frame_file& frame, chunk_kind kind, const std::string& path) {
  share sum;
  for (uint64_t i = 0; i < frame.view.chunks(); ++i) {
    const chunk_view chunk = checked_chunk(frame.view, i, {path, {}});
    if (chunk.kind != kind) continue;
    ++sum.chunks;
    sum.raw_bytes += uint64_t{chunk.values} * value_bytes(frame.view);
    sum.payload_bytes += chunk.payload.size();
  }
  return sum;
}

void print_field(const char* what, const std::string& text) { std::printf("%-12s %s\n", what, text.c_str()); }

// Returns a number as text with at most six significant digits.
std::string shortest(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string bound_text(const stored_bound& b) {
  switch (b.mode) {
    case bound_mode::absolute: return shortest(b.effective) + ", absolute";
    case bound_mode::range_relative:
      if (b.effective == 0) return "relative to the range of values, but there is none: nothing is lost";
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
  std::printf("%-12s %14s %16s %16" PRIu64 "\n", "other", "", "", frame.header().frame_bytes - payload_bytes);
}

void print_summary(const frame_file& frame, const std::string& path) {
  const frame_header& h = frame.header();
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.2f", ratio_of(frame));
  print_field("file", printable(path));
  print_field("codec", stage_names(h.stages));
  if (const auto b = bound_of(h.stages)) print_field("error bound", bound_text(*b));
  if (row_of(h) != 0) print_field("row", std::to_string(row_of(h)) + " values");
  print_field("tensor", std::string(name(h.type)) + " " + shape_text(shape_of(frame, path)));
  print_field("values", std::to_string(h.value_count) + ", " + std::to_string(raw_bytes(frame.view)) + " bytes");
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

void print_json(const std::vector<stored_tensor>& tensors) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const stored_tensor& t : tensors) {
    list.push_back(
        {{"name", t.tensor.name}, {"dtype", t.tensor.dtype}, {"shape", t.tensor.shape}, {"raw_bytes", t.raw_bytes()}});
    if (t.same) list.back()["same_as"] = {{"file", t.same->file}, {"tensor", t.same->tensor}};
    if (!t.is_frame) continue;
    const frame_header& h = t.view.header();
    list.back().update({{"codec", stage_names(h.stages)},
                        {"frame_bytes", h.frame_bytes},
                        {"ratio", ratio_of(t.raw_bytes(), h.frame_bytes)},
                        {"checksums", t.view.has_checksums()},
                        {"base_digest", base_digest_json(t.view)}});
  }
  std::cout << nlohmann::ordered_json{{"tensors", std::move(list)}}.dump(2) << '\n';
}

void print_row(const std::string& type, const std::string& codec, uint64_t raw, uint64_t in_file,
               const std::string& name) {
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.2f", in_file == 0 ? 1 : ratio_of(raw, in_file));
  std::printf("%-24s %-24s %14" PRIu64 " %14" PRIu64 " %8s  %s\n", printable(type).c_str(), codec.c_str(), raw, in_file,
              ratio, printable(name).c_str());
}

void print_summary(const std::vector<stored_tensor>& tensors, const std::string& path) {
  uint64_t raw = 0, in_file = 0;
  print_field("file", printable(path));
  std::printf("\n%-24s %-24s %14s %14s %8s  %s\n", "tensor", "codec", "bytes", "in file", "ratio", "name");
  for (const stored_tensor& t : tensors) {
    const uint64_t here = t.same ? 0 : t.is_frame ? t.view.header().frame_bytes : t.raw_bytes();
    const std::string codec = t.same ? "stored with another" : t.is_frame ? stage_names(t.view.header().stages) : "raw";
    print_row(t.tensor.dtype + " " + shape_text(t.tensor.shape),
              codec + (t.is_frame && t.view.is_delta() ? ", a delta" : ""), t.raw_bytes(), here, t.tensor.name);
    raw += t.raw_bytes();
    in_file += here;
  }
  print_row("all", "", raw, in_file, std::to_string(tensors.size()) + (tensors.size() == 1 ? " tensor" : " tensors"));
}

void info_safetensors(const info_options& options, input in) {
  const std::string path = in.path;
  safetensors_file file = parse_safetensors(std::move(in.content), path);
  frames_file listed;
  if (file.header.metadata.contains(original_header)) {
    listed = open_frames(std::move(file), path);
    for (const stored_tensor& t : listed.tensors)
      if (t.is_frame) check_chunks(t.view, t.about);
  } else {
    for (const named_tensor& t : file.header.tensors)
      listed.tensors.push_back({.about = {}, .tensor = t, .content = {}, .is_frame = false, .view = {}, .same = {}});
  }
  options.json ? print_json(listed.tensors) : print_summary(listed.tensors, path);
}

}  // namespace

void info(const info_options& options) {
  input in = read_input(options.in);
  if (in.is_safetensors) return info_safetensors(options, std::move(in));
  const std::string path = in.path;
  const frame_file frame = open_frame(std::move(in));
  check_chunks(frame.view, {path, {}});
  if (options.json)
    print_json(frame, path);
  else
    print_summary(frame, path);
}

}  // namespace tuck::tools
