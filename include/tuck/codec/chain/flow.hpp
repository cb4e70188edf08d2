// A chunk on its way through the stages of a chain: how many values reach each, and what splitters put aside.
#pragma once

#include <tuck/codec/chain/stages.hpp>
#include <tuck/core/bits.hpp>

namespace tuck::inline TUCK_ABI::detail {

// What is known of a chunk on its way through the stages.
template <class Chain> struct chain_flow {
  uint32_t values[Chain::size];       // that reach each stage
  split_record records[Chain::size];  // of splitters that are not the last stage

  // From the values that reach stage I to those that reach the next.
  template <int I> TUCK_HD constexpr void step() noexcept {
    using stage = typename Chain::template stage_type<I>;
    if constexpr (splitter<stage>)
      values[I + 1] = records[I].done_without() ? values[I] : records[I].kept();
    else
      values[I + 1] = bytes<I>() / uint32_t{sizeof(typename stage::result_type)};
  }
  template <int I> TUCK_HD constexpr uint32_t side() const noexcept {
    if constexpr (splitter<typename Chain::template stage_type<I>>)
      return records[I].done_without() ? 0 : records[I].side();
    return 0;
  }
  // Of the splitters before stage I.
  template <int I> TUCK_HD constexpr uint32_t sides_before() const noexcept {
    if constexpr (I == 0)
      return 0;
    else
      return side<I - 1>() + sides_before<I - 1>();
  }
  // Of the values that reach stage I.
  template <int I> TUCK_HD constexpr uint32_t bytes() const noexcept {
    return values[I] * uint32_t{sizeof(typename Chain::template stage_type<I>::value_type)};
  }

  // The sections of the row that reaches the last stage.
  TUCK_HD constexpr void list_sections(section_list& list) const noexcept {
    list.add(bytes<Chain::size - 1>());
    list_sides<Chain::size - 2>(list);
  }
  template <int I> TUCK_HD constexpr void list_sides(section_list& list) const noexcept {
    if constexpr (splitter<typename Chain::template stage_type<I>>) list.add(side<I>());
    if constexpr (I > 0) list_sides<I - 1>(list);
  }

  // Those of splitters, as they stand in the chunk.
  template <int I = 0> TUCK_HD constexpr void list_records(uint32_t* to) const noexcept {
    if constexpr (I + 1 < Chain::size) {
      if constexpr (splitter<typename Chain::template stage_type<I>>) *to++ = records[I].word;
      list_records<I + 1>(to);
    }
  }

  // Takes the records from a chunk of `count` values, behind the last stage's bytes and the sides. False where no chunk
  // has them.
  template <int I = 0> TUCK_HD bool read(const std::byte* records_of_chunk) noexcept {
    if constexpr (I + 1 < Chain::size) {
      using stage = typename Chain::template stage_type<I>;
      if constexpr (splitter<stage>) {
        records[I].word = load_unaligned<uint32_t>(records_of_chunk);
        records_of_chunk += 4;
        const uint32_t kept = records[I].kept() * uint32_t{sizeof(typename stage::value_type)};
        if (!records[I].done_without() &&
            !(split_record::allows(bytes<I>(), stage::max_growth, kept, records[I].side()) &&
              stage::side_fits(records[I].side(), records[I].kept(), values[I])))
          return false;
      }
      step<I>();
      return read<I + 1>(records_of_chunk);
    }
    return true;
  }
};

// The most bytes that the sides of stages I and on add to a chunk.
template <class Chain, int I = 0> constexpr uint32_t growth_of() {
  if constexpr (I + 1 < Chain::size) {
    uint32_t growth = detail::growth_of<Chain, I + 1>();
    if constexpr (splitter<typename Chain::template stage_type<I>>) growth += Chain::template stage_type<I>::max_growth;
    return growth;
  } else {
    return 0;
  }
}

}  // namespace tuck::inline TUCK_ABI::detail
