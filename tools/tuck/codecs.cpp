#include "codecs.hpp"

#include <tuck/host.hpp>

#include <algorithm>

namespace tuck::tools {
namespace {

template <template <class> class Codec>
using over_all_types =
    codec_list<Codec<uint8_t>, Codec<int8_t>, Codec<uint16_t>, Codec<int16_t>, Codec<uint32_t>, Codec<int32_t>,
               Codec<uint64_t>, Codec<int64_t>, Codec<f16>, Codec<bf16>, Codec<float>, Codec<double>>;

template <class...> struct joined_lists;
template <codec... Cs> struct joined_lists<codec_list<Cs...>> { using type = codec_list<Cs...>; };
template <codec... As, codec... Bs, class... Others>
struct joined_lists<codec_list<As...>, codec_list<Bs...>, Others...>
    : joined_lists<codec_list<As..., Bs...>, Others...> {};

// A codec of the library becomes one of the program by a line here.
// clang-format off
using all_codecs = joined_lists<
    over_all_types<zvc>
>::type;
// clang-format on

// Calls visitor with each codec of the list until it answers true; whether it did.
template <codec... Cs, class Visitor> bool any_codec(codec_list<Cs...>, const Visitor& visitor) {
  return (visitor(Cs{}) || ...);
}

// Calls visitor with the codec of that name for elements of `type`, if there is one.
template <class Visitor> bool with_codec(std::string_view name, dtype type, const Visitor& visitor) {
  return any_codec(all_codecs{}, [&]<codec C>(const C& candidate) {
    if (dtype_of<value_t<C>> != type || stage_names(candidate.stages()) != name) return false;
    visitor(candidate);
    return true;
  });
}

}  // namespace

std::string stage_names(const stage_list& stages) {
  std::string names;
  for (const stage& s : stages.at) {
    if (s.id == codec_id::none) break;
    if (!names.empty()) names += '+';
    names += name(s.id);
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

frame_plan plan_frame(std::string_view codec, dtype type, uint64_t count, const frame_options& options) {
  frame_plan plan;
  with_codec(codec, type, [&](const auto& chosen) {
    frame_header header;
    plan.code = make_header(chosen, count, options, header);
    if (plan.code != status::ok) return;
    plan.most_bytes = worst_case_bytes(header);
    plan.chunks = layout_of(header).chunks;
  });
  return plan;
}

outcome encode_frame(std::string_view codec, dtype type, const_bytes values, bytes frame, const frame_options& options,
                     const host::execution& how) {
  outcome answer{.code = status::codec_mismatch};
  with_codec(codec, type, [&]<class C>(const C& chosen) {
    using T = value_t<C>;
    const span<const T> typed(reinterpret_cast<const T*>(values.data()), values.size() / sizeof(T));
    answer = host::encode(chosen, typed, frame, options, how);
  });
  return answer;
}

outcome decode_frame(const_bytes frame, bytes out, uint64_t first_value, const host::execution& how) {
  return host::decode(all_codecs{}, frame, out, first_value, how);
}

}  // namespace tuck::tools
