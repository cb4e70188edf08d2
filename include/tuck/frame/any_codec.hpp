// SPDX-License-Identifier: Apache-2.0
// A codec that is chosen at run time, to encode with.
#pragma once

#include <tuck/frame/format.hpp>

#include <concepts>
#include <string_view>
#include <type_traits>
#include <variant>

namespace tuck::inline TUCK_ABI {

namespace detail {
// Returns whether `name` is the names of the stages, joined by "+".
constexpr bool has_name(const stage_list& stages, std::string_view name) noexcept {
  for (int i = 0; i < max_stages && stages.at[i].id != codec_id::none; ++i) {
    const std::string_view of_stage = tuck::name(stages.at[i].id);
    if (i != 0) {
      if (!name.starts_with('+')) return false;
      name.remove_prefix(1);
    }
    if (!name.starts_with(of_stage)) return false;
    name.remove_prefix(of_stage.size());
  }
  return name.empty();
}
}  // namespace detail

/// One codec of a list with its parameters, or none. encode, encode_delta, their batches, swap_stream::out,
/// max_frame_bytes and scratch_bytes take it in place of a codec. For all other calls `visit` has the codec itself:
///
///     tuck::any_codec<tuck::codec_list<tuck::zvc<float>, tuck::zvc<tuck::f16>, tuck::quantize<float>>> codec;
///     tuck::status s = codec.choose("quantize", tuck::dtype::f32, tuck::error_bound::absolute(1e-3));
template <codec... Cs> class any_codec<codec_list<Cs...>> {
 public:
  /// Has no codec: calls return unknown_codec, sizes are 0.
  any_codec() = default;
  /// Has `codec`, a codec of the list.
  /// @param type  type of the values; only codecs of `untyped` need it
  template <class C>
    requires(std::same_as<C, Cs> || ...)
  any_codec(const C& codec, dtype type = dtype_of<value_t<C>>) noexcept : codec_(codec), type_(type) {}

  /// Chooses the first codec of the list that has this name and takes values of this type.
  /// @param name        the names of the codec's stages, joined by "+", such as "zvc" or "zvc+huffman"
  /// @param parameters  arguments to construct the codec with, such as an error_bound. Codecs that cannot be
  ///                    constructed with them ignore them, as lossless codecs do
  /// @return ok; unknown_codec if no codec of the list has this name; unsupported_type if those that have it take other
  ///         types; what encode returns for the parameters of the codec, such as bad_bound, also if it needs others
  ///         than these. After an error there is no codec
  template <class... Parameters>
  status choose(std::string_view name, dtype type, const Parameters&... parameters) noexcept {
    return choose_if([&](const auto& codec, size_t) { return detail::has_name(codec.stages(), name); }, type,
                     parameters...);
  }
  /// Chooses the codec with this index in the list. Everything else is as for a name.
  template <class... Parameters> status choose(size_t index, dtype type, const Parameters&... parameters) noexcept {
    return choose_if([&](const auto&, size_t i) { return i == index; }, type, parameters...);
  }

  /// Returns whether there is a codec.
  explicit operator bool() const noexcept { return codec_.index() != 0; }
  /// Returns the type of the values; dtype::none if there is no codec.
  dtype type() const noexcept { return type_; }
  /// Returns `options` with the type of the values, if they have none.
  frame_options typed(frame_options options) const noexcept {
    if (options.type == dtype::none) options.type = type_;
    return options;
  }

  /// Calls visitor(codec). Pass typed(options) to calls that encode.
  /// @return ok, or unknown_codec if there is no codec
  template <class Visitor> status visit(Visitor&& visitor) const {
    return std::visit(
        [&]<class C>(const C& codec) {
          if constexpr (std::is_same_v<C, std::monostate>)
            return status::unknown_codec;
          else
            return visitor(codec), status::ok;
        },
        codec_);
  }
  /// Calls visitor(codec, elements) with `values` as a span of the codec's elements.
  /// @return ok; unknown_codec; invalid_argument if there are parts of elements; misaligned
  template <class Visitor> status visit(const_bytes values, Visitor&& visitor) const {
    return visit(values, {}, [&](const auto& codec, auto elements, auto) { visitor(codec, elements); });
  }
  /// Calls visitor(codec, elements, others) with both as spans of the codec's elements. Errors are the same.
  template <class Visitor> status visit(const_bytes values, const_bytes others, Visitor&& visitor) const {
    status answer = status::ok;
    const status found = visit([&]<class C>(const C& codec) {
      using T = value_t<C>;
      const auto of = [](const_bytes b) {
        return span<const T>(reinterpret_cast<const T*>(b.data()), b.size() / sizeof(T));
      };
      if (values.size() % sizeof(T) != 0 || others.size() % sizeof(T) != 0)
        answer = status::invalid_argument;
      else if (!tuck::aligned(values.data(), alignof(T)) || !tuck::aligned(others.data(), alignof(T)))
        answer = status::misaligned;
      else
        visitor(codec, of(values), of(others));
    });
    return found == status::ok ? answer : found;
  }

  /// Calls visitor(codec) if the codec takes values of type T.
  /// @return ok; unknown_codec; type_mismatch if they have another type
  template <class T, class Visitor> status visit_as(Visitor&& visitor) const {
    status answer = status::type_mismatch;
    const status found = visit([&]<class C>(const C& codec) {
      if constexpr (std::is_same_v<value_t<C>, T>) visitor(codec), answer = status::ok;
    });
    return found == status::ok ? answer : found;
  }

 private:
  template <class Is, class... Parameters>
  status choose_if(const Is& is, dtype type, const Parameters&... parameters) noexcept {
    *this = {};
    status answer = status::unknown_codec;
    size_t index = 0;
    [[maybe_unused]] const auto attempt = [&]<class C>(const C& codec) {
      if (!is(codec, index++)) return false;
      answer = status::unsupported_type;
      if (!holds<value_t<C>>(type)) return false;
      if constexpr (sizeof...(Parameters) != 0 && std::constructible_from<C, const Parameters&...>)
        *this = any_codec(C(parameters...), type);
      else
        *this = any_codec(codec, type);
      frame_header unused;
      static_cast<void>(visit([&](const auto& c) { answer = make_header(c, 0, frame_options{.type = type}, unused); }));
      if (answer != status::ok) *this = {};
      return true;
    };
    static_cast<void>((attempt(Cs{}) || ...));
    return answer;
  }

  std::variant<std::monostate, Cs...> codec_;
  dtype type_ = dtype::none;
};

/// Returns the maximum size of a frame of `count` values in bytes, as for a known codec; 0 also if there is no codec.
template <codec... Cs>
uint64_t max_frame_bytes(const any_codec<codec_list<Cs...>>& codec, uint64_t count,
                         const frame_options& options = {}) noexcept {
  uint64_t most = 0;
  codec.visit([&](const auto& chosen) { most = tuck::max_frame_bytes(chosen, count, codec.typed(options)); });
  return most;
}

}  // namespace tuck::inline TUCK_ABI
