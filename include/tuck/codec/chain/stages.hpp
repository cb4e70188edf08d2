// The stages of a chain, and a chunk on its way through them: how many values reach each, what splitters put aside.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/huffman/huffman.hpp>

#include <tuple>
#include <utility>

namespace tuck::inline TUCK_ABI {

template <element T> struct deflate;

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

// Does a last stage code what splitters put aside, too?
template <class S> inline constexpr bool takes_sides = false;
template <element T> inline constexpr bool takes_sides<huffman<T>> = true;

template <class S> inline constexpr bool is_deflate = false;
template <element T> inline constexpr bool is_deflate<deflate<T>> = true;

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

// Only the first stage may depend on the whole tensor, and only it may lose something.
template <class S> constexpr bool lossless_stage() {
  if constexpr (codec<S>) return !is_lossy<S>;
  return true;
}
template <class First, class... Rest>
inline constexpr bool only_first_adapts = ((!adaptive_codec<Rest> && detail::lossless_stage<Rest>()) && ...);

template <class S> constexpr uint32_t growth_of() {
  if constexpr (splitter<S>) return S::max_growth;
  return 0;
}

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

namespace detail {

// What is known of a chunk on its way through the stages. A stage that is not a splitter has a record, too: none().
template <class Chain> struct chain_flow {
  static constexpr int last = Chain::size - 1;

  uint32_t values[Chain::size];  // that reach each stage
  split_record records[last];

  // From the values that reach stage i to those that reach the next.
  TUCK_HD constexpr void step(int i, split_record record) noexcept {
    records[i] = record;
    values[i + 1] = record.done_without() ? values[i] : record.kept();
  }
  TUCK_HD constexpr uint32_t bytes(int i) const noexcept { return values[i] * Chain::width; }  // of these values
  TUCK_HD constexpr uint32_t side(int i) const noexcept { return records[i].done_without() ? 0 : records[i].side(); }
  TUCK_HD constexpr uint32_t sides_before(int i) const noexcept {
    uint32_t sum = 0;
    while (--i >= 0) sum += side(i);
    return sum;
  }

  // The sections of the row that reaches the last stage.
  TUCK_HD constexpr void list_sections(section_list& list) const noexcept {
    list.count = 0;
    list.add(bytes(last));
    for (int i = last - 1; i >= 0; --i)
      if (Chain::splits(i)) list.add(side(i));
  }

  // The records of splitters, as they stand in the chunk.
  TUCK_HD constexpr void list_records(uint32_t* to) const noexcept {
    for (int i = 0; i < last; ++i)
      if (Chain::splits(i)) *to++ = records[i].word;
  }
  // Takes them from a chunk of values[0] values, behind the last stage's bytes and the sides. False where no chunk has
  // them.
  template <int I = 0> TUCK_HD bool read(const std::byte* from) noexcept {
    if constexpr (I < last) {
      using stage = typename Chain::template stage_type<I>;
      split_record record = split_record::none();
      if constexpr (splitter<stage>) {
        record.word = load_unaligned<uint32_t>(from);
        from += 4;
        if (!record.done_without() &&
            !(split_record::allows(bytes(I), stage::max_growth, record.kept() * Chain::width, record.side()) &&
              stage::side_fits(record.side(), record.kept(), values[I])))
          return false;
      }
      step(I, record);
      return read<I + 1>(from);
    }
    return true;
  }
};

}  // namespace detail
}  // namespace tuck::inline TUCK_ABI
