#include "codec_list.hpp"

#include <algorithm>
#include <charconv>

namespace tuck::tools {
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
  any_codec(program_codecs{}, [&](const auto& candidate) {
    const std::string mine = stage_names(candidate.stages());
    if (std::find(names.begin(), names.end(), mine) == names.end()) names.push_back(mine);
    return false;
  });
  return names;
}

bool is_lossy(std::string_view codec) {
  return any_codec(program_codecs{}, [&]<class C>(const C& candidate) {
    return tuck::is_lossy<C> && stage_names(candidate.stages()) == codec;
  });
}

std::string types_of(std::string_view codec) {
  std::string types;
  any_codec(program_codecs{}, [&]<class C>(const C& candidate) {
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

bool is_delta_codec(std::string_view codec) { return codec == name(codec_id::gaps) || codec == name(codec_id::steps); }

uint32_t most_chunk_values(std::string_view codec, dtype type) {
  return max_chunk_values(is_delta_codec(codec) ? gaps<uint8_t>{}.stages() : stage_list{}, size_of(type));
}

const char* delta_codec(dtype type) {
  const char* const steps = name(codec_id::steps);
  return choose_codec({steps, {}}, type) != nullptr ? steps : name(codec_id::gaps);
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

namespace {

template <codec C> class chosen final : public chosen_codec {
 public:
  chosen(const C& codec, dtype type) : codec_(codec), type_(type) {}

  frame_plan plan(uint64_t count, const frame_options& options) const override {
    frame_plan plan;
    frame_header header;
    plan.code = make_header(codec_, count, typed(options), header);
    if (plan.code != status::ok) return plan;
    plan.most_bytes = std::max(worst_case_bytes(header), max_delta_bytes(codec_, count, typed(options)));
    plan.chunks = layout_of(header).chunks;
    return plan;
  }
  outcome encode(const_bytes values, bytes frame, const frame_options& options, const host::execution& how,
                 const const_bytes* base) const override {
    const auto elements = [](const_bytes b) {
      return span<const T>(reinterpret_cast<const T*>(b.data()), b.size() / sizeof(T));
    };
    if (base == nullptr) return host::encode(codec_, elements(values), frame, typed(options), how);
    return host::encode_delta(codec_, elements(values), elements(*base), frame, typed(options), how);
  }
  outcome decode(const_bytes frame, bytes values, const host::execution& how) const override {
    return host::decode(codec_, frame, span<T>(reinterpret_cast<T*>(values.data()), values.size() / sizeof(T)), 0, how);
  }

 private:
  using T = value_t<C>;

  frame_options typed(frame_options options) const {
    options.type = type_;
    return options;
  }

  C codec_;
  dtype type_;
};

}  // namespace

std::unique_ptr<chosen_codec> choose_codec(const codec_choice& choice, dtype type) {
  std::unique_ptr<chosen_codec> found;
  with_codec(choice, type, [&]<codec C>(const C& codec) { found = std::make_unique<chosen<C>>(codec, type); });
  return found;
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
  return host::decode(program_codecs{}, frame, out, first_value, how);
}

outcome decode_delta_frame(const_bytes frame, const_bytes base, bytes out, const host::execution& how) {
  frame_header header;
  outcome answer{.code = inspect(frame, header)};
  if (!answer) return answer;
  const status found = visit(program_codecs{}, header, [&]<class C>(const C& codec) {
    using T = value_t<C>;
    answer = host::decode_delta(codec, frame, {reinterpret_cast<const T*>(base.data()), base.size() / sizeof(T)},
                                {reinterpret_cast<T*>(out.data()), out.size() / sizeof(T)}, {}, how);
  });
  return found == status::ok ? answer : outcome{.code = found};
}

uint64_t most_delta_bytes(const frame_header& delta, const_bytes metadata) {
  frame_header all = delta;
  all.metadata_bytes = metadata.size();
  return worst_case_bytes(all);
}

outcome compact_delta_frames(const std::vector<const_bytes>& deltas, const_bytes base, bytes frame,
                             const frame_options& options, const host::execution& how, uint64_t& which) {
  which = 0;
  frame_header header;
  outcome answer{.code = inspect(deltas.front(), header)};
  if (!answer) return answer;
  const status found = visit(program_codecs{}, header, [&]<class C>(const C& codec) {
    using T = value_t<C>;
    std::vector<T> room(header.value_count);
    const span<const T> values(reinterpret_cast<const T*>(base.data()), base.size() / sizeof(T));
    answer = host::compact_deltas(codec, deltas, values, room, frame, options, how, &which);
  });
  return found == status::ok ? answer : outcome{.code = found};
}

}  // namespace tuck::tools
