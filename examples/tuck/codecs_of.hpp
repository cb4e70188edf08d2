// Calls of the host for a list of codecs. They take minutes to compile, so there is a source for each list.
#pragma once

#include "codec_list.hpp"

namespace tuck::tools {

template <class List> struct codecs_of {
  // As the functions of codecs.hpp, for codecs of the list. Return null or codec_mismatch for all others.
  static std::unique_ptr<chosen_codec> choose(const codec_choice& choice, dtype type);
  static outcome decode(const_bytes frame, bytes out, uint64_t first_value, const host::execution& how);
  static outcome decode_delta(const_bytes frame, const_bytes base, bytes out, const host::execution& how,
                              const delta_options& options);
  static outcome compact(const std::vector<const_bytes>& deltas, const_bytes base, bytes frame,
                         const frame_options& options, const host::execution& how, uint64_t& which);
};
extern template struct codecs_of<single_codecs>;
extern template struct codecs_of<chain_codecs>;

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

template <class List> std::unique_ptr<chosen_codec> codecs_of<List>::choose(const codec_choice& choice, dtype type) {
  std::unique_ptr<chosen_codec> found;
  with_codec<List>(choice, type, [&]<codec C>(const C& codec) { found = std::make_unique<chosen<C>>(codec, type); });
  return found;
}

template <class List>
outcome codecs_of<List>::decode(const_bytes frame, bytes out, uint64_t first_value, const host::execution& how) {
  return host::decode(List{}, frame, out, first_value, how);
}

template <class List>
outcome codecs_of<List>::decode_delta(const_bytes frame, const_bytes base, bytes out, const host::execution& how,
                                      const delta_options& options) {
  frame_header header;
  outcome answer{.code = inspect(frame, header)};
  if (!answer) return answer;
  const status found = visit(List{}, header, [&]<class C>(const C& codec) {
    using T = value_t<C>;
    answer = host::decode_delta(codec, frame, {reinterpret_cast<const T*>(base.data()), base.size() / sizeof(T)},
                                {reinterpret_cast<T*>(out.data()), out.size() / sizeof(T)}, options, how);
  });
  return found == status::ok ? answer : outcome{.code = found};
}

template <class List>
outcome codecs_of<List>::compact(const std::vector<const_bytes>& deltas, const_bytes base, bytes frame,
                                 const frame_options& options, const host::execution& how, uint64_t& which) {
  which = 0;
  frame_header header;
  outcome answer{.code = inspect(deltas.front(), header)};
  if (!answer) return answer;
  const status found = visit(List{}, header, [&]<class C>(const C& codec) {
    using T = value_t<C>;
    std::vector<T> restored(header.value_count);
    const span<const T> values(reinterpret_cast<const T*>(base.data()), base.size() / sizeof(T));
    answer = host::compact_deltas(codec, deltas, values, restored, frame, options, how, &which);
  });
  return found == status::ok ? answer : outcome{.code = found};
}

}  // namespace tuck::tools
