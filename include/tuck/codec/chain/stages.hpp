// SPDX-License-Identifier: Apache-2.0
// The stages of a chain, and the state of a chunk between them: the number of values, and the sizes of side streams.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/standard.hpp>

namespace tuck::inline TUCK_ABI {

namespace detail {

// Stage Index of a chain. (std::tuple is not trivially copyable.)
template <int Index, class S> struct stage_at {
  S stage;
};
template <class Indices, class... Stages> struct stage_tuple;
template <int... Index, class... Stages>
struct stage_tuple<std::integer_sequence<int, Index...>, Stages...> : stage_at<Index, Stages>... {};
template <int Index, class S> TUCK_HD S stage_in(const stage_at<Index, S>&);  // only for its type

// Whether a codec cannot be a stage of a chain.
template <class S> inline constexpr bool stands_alone = false;
template <class S>
  requires(S::stands_alone)
inline constexpr bool stands_alone<S> = true;

// Whether a stage passes values of the type that the next one encodes.
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
  ((static_cast<void>(bits |= splitter<Stages> ? bit : 0), bit *= 2), ...);
  return bits & ~(bit / 2);
}

// Number of forms of a stage, 1 if it has no choice.
template <class S> TUCK_HD constexpr uint32_t forms_of() {
  if constexpr (transform<S>) {
    static_assert(S::forms >= 1 && S::forms <= 4, "tuck: a transform has one to four forms");
    return S::forms;
  }
  return 1;
}
// Returns a word that has the number of forms of stage i, minus 1, in bits 2 i and 2 i + 1.
template <class... Stages> TUCK_HD constexpr uint32_t form_counts_of() {
  uint32_t counts = 0, one = 1;
  ((counts += (detail::forms_of<Stages>() - 1) * one, one *= 4), ...);
  return counts;
}
// Returns the size of the split_records of a chunk in bytes.
template <class... Stages> TUCK_HD constexpr uint32_t record_bytes_of() {
  const uint32_t splitters = detail::splitters_of<Stages...>(), counts = detail::form_counts_of<Stages...>();
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < sizeof...(Stages); ++i) {
    const bool has_forms = (counts >> 2 * i & 3) != 0, before_splitter = (splitters >> (i + 1) & 1) != 0;
    bytes += (splitters >> i & 1) != 0 || (has_forms && !before_splitter) ? 4 : 0;
  }
  return bytes;
}

}  // namespace detail

/// The sizes that a splitter produced for a chunk, and the form of the transform before it. The encoded chunk ends with
/// one record per splitter, and one per transform with forms that no splitter follows, as of a skipped splitter:
///
///    31                        16 15  14 13                          0
///   +----------------------------+------+-----------------------------+
///   | number of residual values  | form | bytes of the side stream    |   all ones but the form: the splitter was
///   +----------------------------+------+-----------------------------+   skipped
///
/// The form is 0 if the stage before has no forms. Decoders reject a form that the transform does not have.
///
/// Let n be the bytes of the values that reach the splitter. Decoders reject a record if n is 0, if the residual values
/// or the side stream have more than n bytes, or if both together have n + max_growth bytes or more. max_growth is 1028
/// for quantize_codes and 0 for the other splitters of the library.
struct split_record {
  /// The record as stored in the chunk.
  uint32_t word;

  static constexpr uint32_t max_side = (1u << 14) - 1;  ///< largest side stream in bytes

  /// Returns whether residual values and a side stream of these sizes may replace values of `raw` bytes.
  /// @param growth the max_growth of the splitter
  /// @param width size of a value in bytes
  TUCK_HD static constexpr bool allows(uint32_t raw, uint32_t growth, uint32_t residual_bytes, uint32_t side,
                                       uint32_t width) noexcept {
    return raw != 0 && residual_bytes <= raw && residual_bytes < width << 16 && side <= raw && side <= max_side &&
           residual_bytes + side < raw + growth;
  }

  /// Returns the record of a skipped splitter after a transform of this form.
  TUCK_HD static constexpr split_record none(uint32_t form = 0) noexcept { return {~(3u << 14) | form << 14}; }
  /// Makes the record of `residuals` residual values and a side stream of `side` bytes.
  TUCK_HD static constexpr split_record make(uint32_t residuals, uint32_t side) noexcept {
    return {residuals << 16 | side};
  }
  /// Returns whether the splitter was skipped: it has no side stream and passes on all values.
  TUCK_HD constexpr bool skipped() const noexcept { return with_form(3).word == ~0u; }
  /// Returns the number of residual values.
  TUCK_HD constexpr uint32_t residuals() const noexcept { return word >> 16; }
  /// Returns the form of the transform before the splitter.
  TUCK_HD constexpr uint32_t form() const noexcept { return word >> 14 & 3; }
  /// Returns the record with another form.
  TUCK_HD constexpr split_record with_form(uint32_t form) const noexcept { return {(word & ~(3u << 14)) | form << 14}; }
  /// Returns the size of the side stream in bytes.
  TUCK_HD constexpr uint32_t side() const noexcept { return word & max_side; }
};

namespace detail {

// The sizes of a chunk between stages. The record of a transform is none(form), that of a splitter has form 0.
template <class Chain> struct chain_flow {
  static constexpr int last = Chain::size - 1;

  uint32_t values[Chain::size];  // number of values that reach each stage
  split_record records[size_t{last}];

  // Sets the number of values that reach stage i + 1, from those that reach stage i.
  TUCK_HD constexpr void step(int i, split_record record) noexcept {
    records[i] = record;
    values[i + 1] = record.skipped() ? values[i] : record.residuals();
  }
  TUCK_HD constexpr uint32_t bytes(int i) const noexcept { return values[i] * Chain::width; }
  TUCK_HD constexpr uint32_t side(int i) const noexcept { return records[i].skipped() ? 0 : records[i].side(); }
  // Returns the bytes of the side streams of the first i stages: each as it is, as strips on the CPU have them, or
  // padded to a multiple of 4, as encoded chunks and strips of blocks have them.
  TUCK_HD constexpr uint32_t sides_before(int i) const noexcept {
    uint32_t sum = 0;
    while (--i >= 0) sum += side(i);
    return sum;
  }
  TUCK_HD constexpr uint32_t padded_sides(int i = last) const noexcept {
    uint32_t sum = 0;
    while (--i >= 0) sum += round_up_pow2(side(i), 2);
    return sum;
  }

  // Lists the records in the order in which the chunk stores them.
  TUCK_HD constexpr void list_records(uint32_t* to) const noexcept {
    for (int i = 0; i < last; ++i)
      if (Chain::has_record(i))
        *to++ = i > 0 && Chain::splits(i) && !Chain::splits(i - 1) ? records[i].with_form(records[i - 1].form()).word
                                                                   : records[i].word;
  }
  // Reads the records at the end of a chunk of values[0] values: Chain::record_bytes, which callers have checked.
  // Returns false if no chunk has these records.
  template <int Index = 0> TUCK_HD bool read(const std::byte* from) noexcept {
    if constexpr (Index < last) {
      using stage = typename Chain::template stage_type<Index>;
      split_record record = split_record::none();
      if constexpr (Chain::has_record(Index)) {
        record.word = load_unaligned<uint32_t>(from);
        from += 4;
      }
      if constexpr (splitter<stage>) {
        constexpr uint32_t forms = Index > 0 ? Chain::forms(Index - 1) : 1;
        if (record.form() >= forms) return false;
        if constexpr (Index > 0 && forms > 1) records[Index - 1] = split_record::none(record.form());
        record = record.with_form(0);
        if (!record.skipped() &&
            (!split_record::allows(bytes(Index), stage::max_growth, record.residuals() * Chain::width, record.side(),
                                   Chain::width) ||
             !stage::side_fits(record.side(), record.residuals(), values[Index])))
          return false;
      } else if (!record.skipped() || record.form() >= Chain::forms(Index)) {
        return false;
      }
      step(Index, record);
      return read<Index + 1>(from);
    }
    return true;
  }
};

}  // namespace detail
}  // namespace tuck::inline TUCK_ABI
