// The stages of a chain, and the state of a chunk between them: the number of values, and the sizes of side streams.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/huffman/huffman.hpp>
#include <tuck/core/standard.hpp>

namespace tuck::inline TUCK_ABI {

template <element T> struct deflate;

namespace detail {

// Stage I of a chain. (std::tuple is not trivially copyable.)
template <int I, class S> struct stage_at {
  S stage;
};
template <class Indices, class... Stages> struct stage_row;
template <int... I, class... Stages>
struct stage_row<std::integer_sequence<int, I...>, Stages...> : stage_at<I, Stages>... {};
template <int I, class S> TUCK_HD S stage_in(const stage_at<I, S>&);  // only for its type

// Whether a last stage also encodes the side streams.
template <class S> inline constexpr bool takes_sides = false;
template <element T> inline constexpr bool takes_sides<huffman<T>> = true;

template <class S> inline constexpr bool is_deflate = false;
template <element T> inline constexpr bool is_deflate<deflate<T>> = true;

// Whether a stage passes values of the type that the next one takes.
template <class S, class Next> TUCK_HD constexpr bool passes_to() {
  if constexpr (transform<S>) return std::is_same_v<typename S::result_type, typename Next::value_type>;
  if constexpr (splitter<S>) return std::is_same_v<typename S::residual_type, typename Next::value_type>;
  return false;
}
template <class... Stages> inline constexpr bool types_match = true;
template <class First, class Second, class... Rest>
inline constexpr bool types_match<First, Second, Rest...> = passes_to<First, Second>() && types_match<Second, Rest...>;

// Only the first stage may depend on the whole tensor or be lossy.
template <class S> TUCK_HD constexpr bool lossless_stage() {
  if constexpr (codec<S>) return !is_lossy<S>;
  return true;
}
template <class First, class... Rest>
inline constexpr bool only_first_adapts = ((!adaptive_codec<Rest> && detail::lossless_stage<Rest>()) && ...);

template <class S> TUCK_HD constexpr uint32_t growth_of() {
  if constexpr (splitter<S>) return S::max_growth;
  return 0;
}

// Returns a word whose bit i is set if stage i is a splitter and not the last stage.
template <class... Stages> TUCK_HD constexpr uint32_t splitters_of() {
  uint32_t bits = 0, bit = 1;
  ((bits |= splitter<Stages> ? bit : 0, bit *= 2), ...);
  return bits & ~(bit / 2);
}

}  // namespace detail

/// The sizes that a splitter produced for a chunk. The encoded chunk ends with one record per splitter:
///
///    31                        15 14                             0
///   +----------------------------+--------------------------------+
///   | number of residual values  | bytes of the side stream       |   all ones: the splitter was skipped
///   +----------------------------+--------------------------------+
///
/// Let n be the bytes of the values that reach the splitter. Decoders reject a record if n is 0, if the residual values
/// or the side stream have more than n bytes, or if both together have n + max_growth bytes or more. max_growth is 1028
/// for quantize_codes and 0 for the other splitters of the library.
struct split_record {
  /// The record as stored in the chunk.
  uint32_t word;

  static constexpr uint32_t max_side = (1u << 15) - 1;  ///< largest side stream in bytes

  /// Returns whether residual values and a side stream of these sizes may replace values of `raw` bytes.
  /// @param growth the max_growth of the splitter
  TUCK_HD static constexpr bool allows(uint32_t raw, uint32_t growth, uint32_t kept, uint32_t side) noexcept {
    return raw != 0 && kept <= raw && side <= raw && side <= max_side && kept + side < raw + growth;
  }

  /// Returns the record of a skipped splitter.
  TUCK_HD static constexpr split_record none() noexcept { return {~0u}; }
  /// Makes the record of `kept` residual values and a side stream of `side` bytes.
  TUCK_HD static constexpr split_record make(uint32_t kept, uint32_t side) noexcept { return {kept << 15 | side}; }
  /// Returns whether the splitter was skipped: it has no side stream and passes on all values.
  TUCK_HD constexpr bool skipped() const noexcept { return word == ~0u; }
  /// Returns the number of residual values.
  TUCK_HD constexpr uint32_t kept() const noexcept { return word >> 15; }
  /// Returns the size of the side stream in bytes.
  TUCK_HD constexpr uint32_t side() const noexcept { return word & max_side; }
};

namespace detail {

// The sizes of a chunk between stages. The record of a stage that is not a splitter is none().
template <class Chain> struct chain_flow {
  static constexpr int last = Chain::size - 1;

  uint32_t values[Chain::size];  // number of values that reach each stage
  split_record records[size_t{last}];

  // Sets the number of values that reach stage i + 1, from those that reach stage i.
  TUCK_HD constexpr void step(int i, split_record record) noexcept {
    records[i] = record;
    values[i + 1] = record.skipped() ? values[i] : record.kept();
  }
  TUCK_HD constexpr uint32_t bytes(int i) const noexcept { return values[i] * Chain::width; }
  TUCK_HD constexpr uint32_t side(int i) const noexcept { return records[i].skipped() ? 0 : records[i].side(); }
  TUCK_HD constexpr uint32_t sides_before(int i) const noexcept {
    uint32_t sum = 0;
    while (--i >= 0) sum += side(i);
    return sum;
  }

  // Lists the sections of the row that reaches the last stage.
  TUCK_HD constexpr void list_sections(section_list& list) const noexcept {
    list.count = 0;
    list.add(bytes(last));
    for (int i = last - 1; i >= 0; --i)
      if (Chain::splits(i)) list.add(side(i));
  }

  // Lists the records of the splitters in the order in which the chunk stores them.
  TUCK_HD constexpr void list_records(uint32_t* to) const noexcept {
    for (int i = 0; i < last; ++i)
      if (Chain::splits(i)) *to++ = records[i].word;
  }
  // Reads the records at the end of a chunk of values[0] values. Returns false if no chunk has these records.
  template <int I = 0> TUCK_HD bool read(const std::byte* from) noexcept {
    if constexpr (I < last) {
      using stage = typename Chain::template stage_type<I>;
      split_record record = split_record::none();
      if constexpr (splitter<stage>) {
        record.word = load_unaligned<uint32_t>(from);
        from += 4;
        if (!record.skipped() &&
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
