#include "codecs_of.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

namespace tuck::tools {
namespace {

// The codec that a frame names, or why there is none.
struct opened {
  opened(const_bytes frame, frame_header& header) : code(inspect(frame, header)) {
    if (code != status::ok) return;
    codec = codecs_of<single_codecs>::of_frame(header, code);
    if (code == status::codec_mismatch) codec = codecs_of<chain_codecs>::of_frame(header, code);
  }
  const chosen_codec* operator->() const { return codec.get(); }

  status code;
  std::unique_ptr<chosen_codec> codec;
};

}  // namespace

std::string stage_names(const stage_list& stages) {
  std::string names;
  for (const stage& s : stages.at) {
    if (s.id == codec_id::none) break;
    if (!names.empty()) names += '+';
    names += name(s.id);
    if (s.id >= codec_id::custom) names += '(' + std::to_string(static_cast<uint16_t>(s.id)) + ')';
  }
  return names;
}

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  any_codec(all_codecs{}, [&](const auto& candidate) {
    const std::string mine = stage_names(candidate.stages());
    if (std::find(names.begin(), names.end(), mine) == names.end()) names.push_back(mine);
    return false;
  });
  return names;
}

bool is_lossy(std::string_view codec) {
  return any_codec(all_codecs{}, [&]<class C>(const C& candidate) {
    return tuck::is_lossy<C> && stage_names(candidate.stages()) == codec;
  });
}

std::string types_of(std::string_view codec) {
  std::string types;
  any_codec(all_codecs{}, [&]<class C>(const C& candidate) {
    if (stage_names(candidate.stages()) != codec) return false;
    for (uint8_t t = 1; size_of(dtype{t}) != 0; ++t) {
      const dtype type{t};
      if (!holds<value_t<C>>(type)) continue;
      if (!types.empty()) types += ", ";
      types += name(type);
    }
    return false;
  });
  return types;
}

constexpr const char* steps_name = name(codec_id::steps);
constexpr const char* other_delta_codec = "zvc+huffman";  // of types that steps does not take

bool is_delta_codec(std::string_view codec) { return codec == steps_name || codec == other_delta_codec; }

uint32_t most_chunk_values(std::string_view codec, dtype type) {
  return max_chunk_values(codec == steps_name ? steps<bf16>{}.stages() : stage_list{}, size_of(type));
}

const char* delta_codec(dtype type) {
  return choose_codec({steps_name, {}}, type) != nullptr ? steps_name : other_delta_codec;
}

std::optional<stored_bound> bound_of(const stage_list& stages) {
  // Quantize is the only codec or the first stage of a chain. Its parameters do not depend on the type.
  stage_list alone{{stages.at[0]}};
  if (alone.at[0].id == codec_id::quantize_codes) alone.at[0].id = codec_id::quantize;
  quantize<float> stored;
  if (quantize<float>::from_stages(alone, stored) != status::ok) return {};
  double requested = stored.requested_bound();
  if (stored.mode() == bound_mode::range_relative) {
    // The bound is stored as an f32. The shortest decimal number that rounds to it is likely what the user wrote.
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, static_cast<float>(requested)).ptr;
    std::from_chars(text, end, requested);
  }
  return stored_bound{stored.mode(), requested, stored.effective_bound()};
}

std::unique_ptr<chosen_codec> choose_codec(const codec_choice& choice, dtype type) {
  auto found = codecs_of<single_codecs>::choose(choice, type);
  return found != nullptr ? std::move(found) : codecs_of<chain_codecs>::choose(choice, type);
}

frame_plan plan_frame(const codec_choice& choice, dtype type, uint64_t count, const frame_options& options) {
  const auto codec = choose_codec(choice, type);
  return codec == nullptr ? frame_plan{} : codec->plan(count, options);
}

outcome encode_frame(const codec_choice& choice, dtype type, const_bytes values, bytes frame,
                     const frame_options& options, const host::execution& how, const const_bytes* base) {
  const auto codec = choose_codec(choice, type);
  return codec == nullptr ? outcome{.code = status::codec_mismatch} : codec->encode(values, frame, options, how, base);
}

outcome decode_frame(const_bytes frame, bytes out, uint64_t first_value, const host::execution& how) {
  if (frame.is_null() || out.is_null()) return outcome{.code = status::invalid_argument};
  frame_header header;
  const opened codec(frame, header);
  if (codec.code != status::ok) {
    if (!is_mismatch(codec.code) && !out.empty()) std::memset(out.data(), 0, out.size());  // as host::decode does
    return {is_mismatch(codec.code) ? 0 : out.size(), codec.code};
  }
  const uint32_t size = size_of(header.type);
  if (out.size() % size != 0) return outcome{.code = status::invalid_argument};
  if (reinterpret_cast<uintptr_t>(out.data()) % size != 0) return outcome{.code = status::misaligned};
  return codec->decode(frame, out, first_value, how);
}

outcome decode_delta_frame(const_bytes frame, const_bytes base, bytes out, const host::execution& how,
                           const delta_options& options) {
  frame_header header;
  const opened codec(frame, header);
  if (codec.code != status::ok) return outcome{.code = codec.code};
  return codec->decode_delta(frame, base, out, how, options);
}

outcome compact_delta_frames(const std::vector<const_bytes>& deltas, const_bytes base, bytes frame,
                             const frame_options& options, const host::execution& how, uint64_t& which) {
  which = 0;
  frame_header header;
  const opened codec(deltas.front(), header);
  if (codec.code != status::ok) return outcome{.code = codec.code};
  return codec->compact(deltas, base, frame, options, how, which);
}

uint64_t most_delta_bytes(const frame_header& delta, const_bytes metadata) {
  frame_header all = delta;
  all.metadata_bytes = metadata.size();
  return worst_case_bytes(all);
}

}  // namespace tuck::tools
