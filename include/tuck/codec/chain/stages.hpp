// The stages of a chain, one after the other: what each is and what goes from one to the next.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/sections.hpp>

namespace tuck::inline TUCK_ABI {

// A codec that, as the last stage of a chain, gets what splitters put aside too: a row of sections (sections.hpp), of
// which the values are the first.
template <class C>
concept sections_codec =
    codec<C> && requires(const_bytes row, const section_list& sections, std::byte* to, bytes restored, uint32_t size) {
      // The most bytes of a row of so many, and these bytes, whose number it returns: any row can be encoded.
      { C::max_sections_bytes(size) } noexcept -> std::same_as<uint32_t>;
      { C::encode_sections(row, sections, to) } noexcept -> std::same_as<uint32_t>;
      // Back, from untrusted bytes.
      { C::decode_sections(row, sections, restored) } noexcept -> std::same_as<status>;
    };

namespace detail {

// Stages in the order in which encoding applies them. (std::tuple is not trivially copyable.)
template <class First, class... Rest> struct stage_row {
  First first;
  stage_row<Rest...> rest;
};
template <class Last> struct stage_row<Last> {
  Last first;
};

template <class First, class... Rest> constexpr auto make_row(const First& first, const Rest&... rest) noexcept {
  if constexpr (sizeof...(Rest) == 0)
    return stage_row<First>{first};
  else
    return stage_row<First, Rest...>{first, detail::make_row(rest...)};
}

template <int I, class Row> TUCK_HD constexpr auto& stage_at(Row& row) noexcept {
  if constexpr (I == 0)
    return row.first;
  else
    return detail::stage_at<I - 1>(row.rest);
}

template <int I, class First, class... Rest> struct stage_type : stage_type<I - 1, Rest...> {};
template <class First, class... Rest> struct stage_type<0, First, Rest...> {
  using type = First;
};

// What a stage that is not the last gives to the next.
template <class S> struct result_of_stage {
  using type = void;
};
template <transform S> struct result_of_stage<S> {
  using type = typename S::result_type;
};
template <splitter S> struct result_of_stage<S> {
  using type = typename S::kept_type;
};

template <class... Stages> inline constexpr bool types_match = true;
template <class First, class Second, class... Rest>
inline constexpr bool types_match<First, Second, Rest...> =
    std::is_same_v<typename result_of_stage<First>::type, typename Second::value_type> && types_match<Second, Rest...>;

template <class... Stages> inline constexpr bool can_go_before = true;
template <class First, class Second, class... Rest>
inline constexpr bool can_go_before<First, Second, Rest...> =
    (splitter<First> || transform<First>) && can_go_before<Second, Rest...>;

template <class S> constexpr bool divides_values() {
  if constexpr (transform<S>) return sizeof(typename S::value_type) % sizeof(typename S::result_type) == 0;
  return true;
}

// Only the first stage may depend on the whole tensor, and only it may lose something.
template <class S> constexpr bool lossless_stage() {
  if constexpr (codec<S>) return !is_lossy<S>;
  return true;
}
template <class First, class... Rest>
inline constexpr bool only_first_adapts = ((!adaptive_codec<Rest> && detail::lossless_stage<Rest>()) && ...);

// A codec that has several stages itself is none of a chain: its description is empty, which plan_header refuses.
template <class S> TUCK_HD constexpr stage describe(const S& s) noexcept {
  if constexpr (transform<S>) {
    return s.describe();
  } else {
    const stage_list own = s.stages();
    return own.at[1] == stage{} ? own.at[0] : stage{};
  }
}
template <class S> TUCK_HD constexpr status parse(const stage& stored, S& s) noexcept {
  if constexpr (transform<S>) {
    return S::from_stage(stored, s);
  } else {
    const stage_list alone{{stored}};
    return S::from_stages(alone, s);
  }
}

template <int I, class Row> TUCK_HD constexpr void describe_all(const Row& row, stage_list& stages) noexcept {
  stages.at[I] = detail::describe(row.first);
  if constexpr (requires { row.rest; }) detail::describe_all<I + 1>(row.rest, stages);
}

// The ids first, so that frames of others are told from those of ours that are wrong.
template <int I, class Row> TUCK_HD constexpr bool ids_match(const Row& row, const stage_list& stored) noexcept {
  if (stored.at[I].id != detail::describe(row.first).id) return false;
  if constexpr (requires { row.rest; }) {
    return detail::ids_match<I + 1>(row.rest, stored);
  } else {
    for (int i = I + 1; i < max_stages; ++i)
      if (stored.at[i] != stage{}) return false;
    return true;
  }
}
template <int I, class Row> TUCK_HD constexpr status parse_all(const stage_list& stored, Row& row) noexcept {
  if (const status s = detail::parse(stored.at[I], row.first); s != status::ok) return s;
  if constexpr (requires { row.rest; })
    return detail::parse_all<I + 1>(stored, row.rest);
  else
    return status::ok;
}

// Of the stages of a chain: do its last stage's sections suffice?
template <class First, class... Rest> constexpr bool sections_fit(uint32_t sections = 1) {
  if constexpr (sizeof...(Rest) == 0) {
    if constexpr (sections_codec<First>) return sections <= section_list::capacity;
    return true;
  } else {
    if constexpr (splitter<First>) ++sections;
    return detail::sections_fit<Rest...>(sections);
  }
}

}  // namespace detail

// How a chunk went through a splitter, as the chunk's end has it: what it kept and put aside; or nothing of the kind
// where it was done without.
//   // [31:15] kept values / [14:0] bytes of the side; all ones: done without
// Kept values have no more bytes than the values; these and the side have fewer together, but for quantize_codes, whose
// side is on top of them. Decoders refuse others.
struct split_record {
  uint32_t word;

  static constexpr uint32_t max_side = (1u << 15) - 1;

  // May so many bytes of kept values and of the side stand for values of `raw` bytes?
  TUCK_HD static constexpr bool allows(uint32_t raw, uint32_t growth, uint32_t kept, uint32_t side) noexcept {
    return kept <= raw && side <= raw && side <= max_side && kept + side < raw + growth;
  }

  TUCK_HD static constexpr split_record none() noexcept { return {~0u}; }
  TUCK_HD static constexpr split_record make(uint32_t kept, uint32_t side) noexcept { return {kept << 15 | side}; }
  TUCK_HD constexpr bool done_without() const noexcept { return word == ~0u; }
  TUCK_HD constexpr uint32_t kept() const noexcept { return word >> 15; }
  TUCK_HD constexpr uint32_t side() const noexcept { return word & max_side; }
};

}  // namespace tuck::inline TUCK_ABI
