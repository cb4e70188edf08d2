// A chain: up to four stages as one codec. Transforms and splitters prepare the values, each for the next, and the last
// stage, a codec, encodes what is left.
//
//   chain<zvc<float>, byte_planes<float>, deflate<uint8_t>>
//
// A splitter hands on the values that it keeps and puts its side aside. A chunk is, of n values:
//
//   what the last stage makes of the values that reach it (these themselves, where it makes them no smaller)
//   the sides, the last splitter's first
//   u32 split_record, one a splitter, in the stages' order
//
// A side and the values kept are a chunk of the splitter, as its own header has it, cut in two; that of quantize is
// quantize_codes. Where the record says that a splitter was done without, it has no side and hands on what it got.
//
// The last stage may be one that takes sections, as huffman and deflate: it encodes the values and then the sides, in
// the same order, empty ones too, and only records stand behind it (huffman/layout.hpp, deflate/layout.hpp). The header
// has each stage's id, version and parameters, so that decoding needs but the type. The bytes are canonical where those
// of all stages are.
//
// On the CPU a chunk's rows are on the stack of the thread that encodes or decodes it: about 400 KiB where the chain
// ends in deflate, 600 KiB in huffman. Threads of your own must have as much; those of glibc have 8 MiB, those of musl
// 128 KiB.
#pragma once

#include <tuck/codec/chain/host_chain.hpp>

namespace tuck::inline TUCK_ABI {

template <class... Stages> struct chain;

namespace detail {
template <class S> inline constexpr bool is_chain = false;
template <class... Stages> inline constexpr bool is_chain<chain<Stages...>> = true;
}  // namespace detail

template <class... Stages> struct chain {
  static_assert(sizeof...(Stages) >= 2 && sizeof...(Stages) <= max_stages, "tuck: a chain has two to four stages");
  static_assert(((codec<Stages> || transform<Stages>) && ...),
                "tuck: stages are codecs and transforms; tuck/codec/concept.hpp says what these have");
  static_assert(((!detail::is_chain<Stages>) && ...), "tuck: a chain is no stage of another; name its stages instead");
  static_assert(detail::can_go_before<Stages...>, "tuck: all stages but the last are transforms or splitters");
  static_assert((detail::divides_values<Stages>() && ...),
                "tuck: in a chain, the size of a transform's values is a multiple of that of its results");
  static_assert(detail::types_match<Stages...>, "tuck: a stage's values are those that the stage before it gives");

  static constexpr int size = sizeof...(Stages);
  template <int I> using stage_type = typename detail::stage_type<I, Stages...>::type;
  using first_stage = stage_type<0>;
  using last_stage = stage_type<size - 1>;
  static_assert(codec<last_stage>, "tuck: a chain's last stage is a codec");
  static_assert(detail::only_first_adapts<Stages...>, "tuck: only a chain's first stage is adaptive, or lossy");

  static_assert(detail::sections_fit<Stages...>(),
                "tuck: this chain has more parts and sides than its last stage has sections for");

  using value_type = typename first_stage::value_type;

  static constexpr uint32_t chunk_bytes = 16 * 1024;
  static constexpr int splitters = (0 + ... + (splitter<Stages> ? 1 : 0)) - (splitter<last_stage> ? 1 : 0);
  static constexpr uint32_t record_bytes = 4 * splitters;
  static constexpr bool lossy = !detail::lossless_stage<first_stage>();

  constexpr chain() = default;
  constexpr explicit chain(const Stages&... stages) : row{detail::make_row(stages...)} {}
  // Of what the first stage is made of, which is often the only one with parameters.
  template <class Parameter>
    requires(std::is_constructible_v<first_stage, const Parameter&>)
  constexpr explicit chain(const Parameter& of_first) {
    row.first = first_stage(of_first);
  }

  template <int I> TUCK_HD constexpr const stage_type<I>& stage() const noexcept { return detail::stage_at<I>(row); }

  TUCK_HD constexpr stage_list stages() const noexcept {
    stage_list all;
    detail::describe_all<0>(row, all);
    for (int i = 0; i < size; ++i)
      if (all.at[i].id == codec_id::none) return stage_list{};
    return all;
  }
  TUCK_HD static constexpr status from_stages(const stage_list& stored, chain& parsed) noexcept {
    if (!detail::ids_match<0>(parsed.row, stored)) return status::codec_mismatch;
    return detail::parse_all<0>(stored, parsed.row);
  }

  constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept;
  uint32_t encode_chunk(span<const value_type> values, bytes room) const noexcept;
  status decode_chunk(const_bytes encoded, span<value_type> restored) const noexcept;

  // As concept.hpp wants them of adaptive codecs, where the first stage is one.
  constexpr status check() const noexcept
    requires adaptive_codec<first_stage>
  {
    return row.first.check();
  }
  TUCK_HD constexpr bool needs_range() const noexcept
    requires adaptive_codec<first_stage>
  {
    return row.first.needs_range();
  }
  TUCK_HD constexpr const double* device_parameter() const noexcept
    requires adaptive_codec<first_stage>
  {
    return row.first.device_parameter();
  }
  TUCK_HD status prepare(const tensor_survey& seen, chain& prepared) const noexcept
    requires adaptive_codec<first_stage>
  {
    prepared = *this;
    return row.first.prepare(seen, prepared.row.first);
  }

  detail::stage_row<Stages...> row;
};

template <class... Stages> constexpr uint32_t chain<Stages...>::max_chunk_bytes(uint32_t count) const noexcept {
  return detail::host_chain<chain>::max_bytes(*this, count);
}

template <class... Stages>
uint32_t chain<Stages...>::encode_chunk(span<const value_type> values, bytes room) const noexcept {
  return detail::host_chain<chain>(*this).encode(values, room);
}

template <class... Stages>
status chain<Stages...>::decode_chunk(const_bytes encoded, span<value_type> restored) const noexcept {
  return detail::host_chain<chain>(*this).decode(encoded, restored);
}

}  // namespace tuck::inline TUCK_ABI
