// Calls of the host for a list of codecs. They take minutes to compile, so there is a source for each list.
#pragma once

#include "codec_list.hpp"

namespace tuck::tools {

template <class List> struct codecs_of {
  // Return null if the list has no such codec.
  static std::unique_ptr<chosen_codec> choose(const codec_choice& choice, dtype type);
  // `found`: what tuck::visit returns.
  static std::unique_ptr<chosen_codec> of_frame(const frame_header& header, status& found);
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
    if (base == nullptr) return host::encode(codec_, elements(values), frame, typed(options), how);
    return host::encode_delta(codec_, elements(values), elements(*base), frame, typed(options), how);
  }
  outcome decode(const_bytes frame, bytes values, uint64_t first_value, const host::execution& how) const override {
    return host::decode(codec_, frame, elements(values), first_value, how);
  }
  outcome decode_delta(const_bytes frame, const_bytes base, bytes values, const host::execution& how,
                       const delta_options& options) const override {
    return host::decode_delta(codec_, frame, elements(base), elements(values), options, how);
  }
  outcome compact(const std::vector<const_bytes>& deltas, const_bytes base, bytes frame, const frame_options& options,
                  const host::execution& how, uint64_t& which) const override {
    std::vector<T> restored(base.size() / sizeof(T));
    return host::compact_deltas(codec_, deltas, elements(base), restored, frame, options, how, &which);
  }

 private:
  using T = value_t<C>;

  static span<const T> elements(const_bytes b) { return {reinterpret_cast<const T*>(b.data()), b.size() / sizeof(T)}; }
  static span<T> elements(bytes b) { return {reinterpret_cast<T*>(b.data()), b.size() / sizeof(T)}; }
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
std::unique_ptr<chosen_codec> codecs_of<List>::of_frame(const frame_header& header, status& found) {
  std::unique_ptr<chosen_codec> codec;
  found = visit(List{}, header,
                [&]<class C>(const C& stored) { codec = std::make_unique<chosen<C>>(stored, header.type); });
  return codec;
}

}  // namespace tuck::tools
