// SPDX-License-Identifier: Apache-2.0
// A chain: up to four stages as one codec. Transforms and splitters prepare the values, each for the next stage. The
// last stage is a codec and encodes the remaining values.
//
//   chain<zvc<float>, rle<float>, huffman<float>>
//
// A splitter divides its chunk into a side stream and residual values, and passes the residual values on. A chunk has
//
//   the values that reach the last stage, encoded by it, or raw if the last stage does not make them smaller
//   the side streams, beginning with that of the last splitter, each padded with zeros to a multiple of 4 bytes
//   u32 split_record (stages.hpp) of each splitter that is not the last stage, and of each transform with forms that no
//   such splitter follows, in the order of the stages
//
// All sizes except that of the first part follow from the records and the number of values of the chunk. The first part
// has the remaining bytes. If it is as large as the values that reach the last stage, they are stored raw. A side
// stream followed by its residual values is a chunk of the splitter, as the header of the splitter describes it (for
// quantize this is quantize/quantize.hpp). A splitter that would not help is skipped: it has no side stream, and all
// its values reach the next stage. A transform with several forms has one for each chunk; the record says which.
//
// A codec that stands alone cannot be a stage: other programs must be able to read the chunks of deflate. The frame
// header has the id, version and parameters of each stage, so decoding needs only the type.
// Host and device write the same bytes if all stages do.
//
// On the CPU the strips of a chunk are in the workspace of the thread that encodes or decodes it.
#pragma once

#include <tuck/codec/chain/stages.hpp>
#include <tuck/core/floating.hpp>
#include <tuck/core/standard.hpp>

#if defined(TUCK_HOST)
#include <memory>
#include <new>
#endif

namespace tuck::inline TUCK_ABI {

template <class... Stages> struct chain;

namespace detail {

template <class S> inline constexpr bool is_chain = false;
template <class... Stages> inline constexpr bool is_chain<chain<Stages...>> = true;

#if defined(TUCK_HOST)
// Encodes and decodes a chunk of up to 64 KiB of values on one thread. A strip has the side streams, that of the first
// splitter first, and directly after them the values that reach a stage, at a multiple of 16 bytes. So each side stream
// is followed by its residual values.
template <class Chain> class host_chain {
  static constexpr int last = Chain::size - 1;
  template <int Index> using stage = typename Chain::template stage_type<Index>;
  template <int Index> using value = typename stage<Index>::value_type;

  static constexpr uint32_t max_raw = max_chunk_raw_bytes;
  static constexpr uint32_t growth = Chain::growth;

 public:
  // `memory`: the rest of the workspace, for the stages.
  host_chain(const Chain& codec, workspace memory) noexcept : codec_(codec), memory_(memory) {}

  // Calls work(chain) with a chain in the workspace.
  template <class Work> static auto in(workspace memory, const Chain& codec, const Work& work) noexcept {
    workspace rest = memory;
    static_cast<void>(rest.take<std::byte>(workspace::bytes_of<host_chain>()));
    return work(memory.make<host_chain>(codec, rest));
  }
  static constexpr uint32_t workspace_bytes(uint32_t count) noexcept {
    return workspace::bytes_of<host_chain>() + bytes_of_stages(count, std::make_integer_sequence<int, Chain::size>{});
  }

  static constexpr uint32_t max_bytes(const Chain& codec, uint32_t count) noexcept {
    // The last stage may use the bytes of the side streams, which are written after it.
    const uint32_t strip = count * Chain::width + growth + Chain::record_bytes + 4 * max_stages;
    const uint32_t wanted = codec.template stage<last>().max_chunk_bytes(count);
    return wanted > strip ? wanted : strip;
  }

  uint32_t encode(span<const value<0>> values, bytes out) noexcept {
    if (values.empty() || values.size_bytes() > max_raw) return incompressible;
    std::memcpy(strip_, values.data(), values.size_bytes());
    flow_.values[0] = static_cast<uint32_t>(values.size());
    prepare<0>();
    const uint32_t used = finish(out.data());
    if (used + Chain::record_bytes >= flow_.bytes(0)) return incompressible;
    uint32_t records[max_stages] = {};
    flow_.list_records(records);
    std::memcpy(out.data() + used, records, Chain::record_bytes);
    return used + Chain::record_bytes;
  }

  status decode(const_bytes encoded, span<value<0>> restored) noexcept {
    if (restored.size_bytes() > max_raw || encoded.size() >= restored.size_bytes()) return status::bad_payload;
    if constexpr (Chain::record_bytes != 0)  // otherwise nvcc warns about the comparison
      if (encoded.size() < Chain::record_bytes) return status::bad_payload;
    const const_bytes body = encoded.subspan(0, encoded.size() - Chain::record_bytes);
    flow_.values[0] = static_cast<uint32_t>(restored.size());
    if (!flow_.read(body.data() + body.size())) return status::bad_payload;
    const status s = restore_strip(body);
    return s == status::ok ? undo<last - 1>(strip_, other_, restored) : s;
  }

 private:
  template <int Index> static constexpr uint32_t bytes_of_stage([[maybe_unused]] uint32_t count) noexcept {
    if constexpr (codec<stage<Index>>) return workspace_bytes_of<stage<Index>>(count);
    return 0;
  }
  template <int... Index>
  static constexpr uint32_t bytes_of_stages(uint32_t count, std::integer_sequence<int, Index...>) noexcept {
    uint32_t most = 0;
    ((most = bytes_of_stage<Index>(count) > most ? bytes_of_stage<Index>(count) : most), ...);
    return most;
  }

  // Returns the values of a strip, after `sides` bytes of side streams.
  static std::byte* values_in(std::byte* strip, uint32_t sides) noexcept { return strip + round_up_pow2(sides, 4); }
  // Returns the values that reach stage I.
  template <int Index> span<value<Index>> values() noexcept {
    return {reinterpret_cast<value<Index>*>(values_in(strip_, flow_.sides_before(Index))), flow_.values[Index]};
  }
  template <int Index> const stage<Index>& at() const noexcept { return codec_.template stage<Index>(); }

  // Applies stage I and the following ones, except the last.
  template <int Index> void prepare() noexcept {
    if constexpr (Index < last) {
      split_record record = split_record::none();
      if constexpr (splitter<stage<Index>>) {
        record = split<Index>();
      } else {
        const span<value<Index + 1>> results(reinterpret_cast<value<Index + 1>*>(other_), flow_.values[Index]);
        if constexpr (Chain::forms(Index) > 1) record = split_record::none(at<Index>().choose_form(values<Index>()));
        at<Index>().apply(values<Index>(), results, record.form());
        std::memcpy(values<Index>().data(), other_, flow_.bytes(Index));
      }
      flow_.step(Index, record);
      prepare<Index + 1>();
    }
  }

  template <int Index> split_record split() noexcept {
    const uint32_t count = flow_.values[Index], raw = flow_.bytes(Index);
    if (count == 0) return split_record::none();
    // The codecs of the library fit in `other_`.
    const uint32_t wanted = at<Index>().max_chunk_bytes(count);
    const std::unique_ptr<std::byte[]> heap(wanted > sizeof other_ ? new (std::nothrow) std::byte[wanted] : nullptr);
    if (wanted > sizeof other_ && heap == nullptr) return split_record::none();
    std::byte* const encoded = heap != nullptr ? heap.get() : other_;
    const uint32_t used =
        encode_chunk_in(memory_, at<Index>(), span<const value<Index>>(values<Index>()), bytes(encoded, wanted));
    if (used == incompressible) return split_record::none();
    const uint32_t side = stage<Index>::side_bytes({encoded, used}, count), residual_bytes = used - side;
    if (!split_record::allows(raw, stage<Index>::max_growth, residual_bytes, side, Chain::width))
      return split_record::none();
    const uint32_t before = flow_.sides_before(Index);
    std::byte* const to = values_in(strip_, before + side) - side;
    std::memmove(to - before, values_in(strip_, before) - before, before);
    std::memcpy(to, encoded, used);
    return split_record::make(residual_bytes / Chain::width, side);
  }

  // Applies the last stage, and appends the side streams. Returns the size in bytes.
  uint32_t finish(std::byte* to) noexcept {
    const std::byte* const from = as_bytes(values<last>()).data();
    const uint32_t raw = flow_.bytes(last);
    uint32_t used = 0;
    if (raw != 0)
      used = encode_chunk_in(memory_, at<last>(), span<const value<last>>(values<last>()),
                             bytes(to, at<last>().max_chunk_bytes(flow_.values[last])));
    if (used == incompressible || used >= raw) std::memcpy(to, from, used = raw);
    for (int i = last - 1; i >= 0; --i) {
      const uint32_t size = flow_.side(i), padded = round_up_pow2(size, 2);
      std::memcpy(to + used, side_before(from, i), size);
      std::memset(to + used + size, 0, padded - size);
      used += padded;
    }
    return used;
  }
  // Returns where the side stream of stage i is before these values.
  template <class Byte> Byte* side_before(Byte* of_last, int i) const noexcept {
    return of_last - flow_.sides_before(last) + flow_.sides_before(i);
  }

  status restore_strip(const const_bytes body) noexcept {
    std::byte* const to = as_writable_bytes(values<last>()).data();
    const uint32_t raw = flow_.bytes(last), sides = flow_.padded_sides();
    if (body.size() < sides || body.size() - sides > raw) return status::bad_payload;
    const auto used = static_cast<uint32_t>(body.size()) - sides;
    uint32_t from = used;
    for (int i = last - 1; i >= 0; --i) {
      const uint32_t size = flow_.side(i), padded = round_up_pow2(size, 2);
      std::memcpy(side_before(to, i), body.data() + from, size);
      for (uint32_t k = size; k < padded; ++k)
        if (body[from + k] != std::byte{}) return status::bad_payload;
      from += padded;
    }
    if (used == raw) {
      std::memcpy(to, body.data(), used);
      return status::ok;
    }
    return used == 0 ? status::bad_payload
                     : decode_chunk_in(memory_, at<last>(), body.subspan(0, used), values<last>());
  }

  // Restores the values of the chunk from a strip of those that reach stage I + 1.
  template <int Index> status undo(std::byte* strip, std::byte* other, span<value<0>> restored) noexcept {
    const uint32_t before = flow_.sides_before(Index), side = flow_.side(Index);
    const std::byte* const from = values_in(strip, before + side);
    std::byte* const to = Index == 0 ? as_writable_bytes(restored).data() : values_in(other, before);
    const span<value<Index>> target(reinterpret_cast<value<Index>*>(to), flow_.values[Index]);
    if constexpr (!splitter<stage<Index>>) {
      const span<const value<Index + 1>> stored(reinterpret_cast<const value<Index + 1>*>(from), target.size());
      at<Index>().invert(stored, target, flow_.records[Index].form());
    } else if (flow_.records[Index].skipped()) {
      if constexpr (Index > 0) return undo<Index - 1>(strip, other, restored);
      std::memcpy(to, from, target.size_bytes());
    } else {
      const const_bytes encoded(from - side, side + flow_.bytes(Index + 1));
      if (const status s = decode_chunk_in(memory_, at<Index>(), encoded, target); s != status::ok) return s;
      if (stage<Index>::side_bytes(encoded, flow_.values[Index]) != side) return status::bad_payload;
    }
    if constexpr (Index > 0) {
      std::memcpy(to - before, from - side - before, before);
      return undo<Index - 1>(other, strip, restored);
    }
    return status::ok;
  }

  const Chain& codec_;
  workspace memory_;
  chain_flow<Chain> flow_;
  alignas(16) std::byte strip_[max_raw + growth + 16];
  alignas(16) std::byte other_[max_raw + max_raw / 4];
};
#endif

}  // namespace detail

/// Codec of two to four stages. Each stage works on the results of the stage before it.
/// All stages but the last are transforms or splitters; the last is a codec. Only the first may be adaptive or lossy.
/// concept.hpp documents the members that are not described here.
/// @tparam Stages stage types in the order in which encoding applies them
template <class... Stages> struct chain {
  static_assert(sizeof...(Stages) >= 2 && sizeof...(Stages) <= max_stages, "tuck: a chain has two to four stages");
  static_assert(((codec<Stages> || transform<Stages>) && ...),
                "tuck: every stage must be a codec or a transform; see tuck/codec/concept.hpp");
  static_assert(((!detail::is_chain<Stages>) && ...),
                "tuck: a chain cannot be a stage of another chain; list its stages instead");
  static_assert(((!detail::stands_alone<Stages>) && ...),
                "tuck: this codec, such as deflate, cannot be a stage of a chain; use huffman as the last stage");
  static_assert(
      detail::types_match<Stages...>,
      "tuck: all stages but the last must be transforms or splitters, and the value_type of each stage must be the "
      "result_type or residual_type of the one before");

  static constexpr int size = sizeof...(Stages);  ///< number of stages
 private:
  using indices = std::make_integer_sequence<int, size>;
  using stage_tuple = detail::stage_tuple<indices, Stages...>;

 public:
  /// Type of stage I.
  template <int Index> using stage_type = decltype(detail::stage_in<Index>(std::declval<const stage_tuple&>()));
  /// Type of the first stage.
  using first_stage = stage_type<0>;
  /// Type of the last stage.
  using last_stage = stage_type<size - 1>;
  static_assert(codec<last_stage>, "tuck: the last stage of a chain must be a codec");
  static_assert(detail::only_first_adapts<Stages...>, "tuck: only the first stage of a chain may be adaptive or lossy");

  using value_type = typename first_stage::value_type;

  static constexpr uint32_t width = sizeof(value_type);  ///< size of a value in bytes, the same for all stages
  static constexpr uint32_t chunk_bytes = 16 * 1024;
  /// Returns whether stage i is a splitter and not the last stage.
  TUCK_HD static constexpr bool splits(int i) noexcept { return (splitter_bits >> i & 1) != 0; }
  /// Bit i is set if splits(i).
  static constexpr uint32_t splitter_bits = detail::splitters_of<Stages...>();
  /// Returns the number of forms of stage i, 1 if it has no choice.
  TUCK_HD static constexpr uint32_t forms(int i) noexcept { return 1 + (form_counts >> 2 * i & 3); }
  /// forms(i) - 1 of all stages, 0 to 3: [7:6] of stage 3, [5:4] of stage 2, [3:2] of stage 1, [1:0] of stage 0.
  static constexpr uint32_t form_counts = detail::form_counts_of<Stages...>();
  /// Returns whether a chunk has a split_record of stage i: of a splitter, or for the form of a transform.
  TUCK_HD static constexpr bool has_record(int i) noexcept { return splits(i) || (forms(i) > 1 && !splits(i + 1)); }
  /// Size of the split_records of a chunk in bytes.
  static constexpr uint32_t record_bytes = detail::record_bytes_of<Stages...>();
  /// Maximum number of bytes by which side streams can make a chunk larger than its values.
  static constexpr uint32_t growth = (0 + ... + detail::growth_of<Stages>()) - detail::growth_of<last_stage>();
  static_assert(growth <= 4096, "tuck: the max_growth of all splitters of a chain must not exceed 4 KiB in total");
  static constexpr bool lossy = !detail::lossless_stage<first_stage>();

  /// Constructs a chain of default-constructed stages, for decoding.
  constexpr chain() = default;
  /// Constructs a chain of these stages.
  TUCK_HD constexpr explicit chain(const Stages&... stages) : stages_{{stages}...} {}
  /// Constructs a chain from the parameter of its first stage, which is often the only parameter.
  template <class Parameter>
    requires(std::is_constructible_v<first_stage, const Parameter&>)
  TUCK_HD constexpr explicit chain(const Parameter& of_first) {
    at<0>(stages_) = first_stage(of_first);
  }

  /// Returns stage I.
  template <int Index> TUCK_HD constexpr const stage_type<Index>& stage() const noexcept { return at<Index>(stages_); }

  TUCK_HD constexpr stage_list stages() const noexcept { return list(indices{}); }
  TUCK_HD static constexpr status from_stages(const stage_list& stored, chain& parsed) noexcept {
    return parse(stored, parsed, indices{});
  }

#if defined(TUCK_HOST)
  constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept {
    return detail::host_chain<chain>::max_bytes(*this, count);
  }
  static constexpr uint32_t workspace_bytes(uint32_t count) noexcept {
    return detail::host_chain<chain>::workspace_bytes(count);
  }
  uint32_t encode_chunk(span<const value_type> values, bytes out) const noexcept {
    return detail::with_workspace(workspace_bytes(static_cast<uint32_t>(values.size())), incompressible,
                                  [&](workspace memory) { return encode_chunk(values, out, memory); });
  }
  status decode_chunk(const_bytes encoded, span<value_type> restored) const noexcept {
    return detail::with_workspace(workspace_bytes(static_cast<uint32_t>(restored.size())), status::out_of_memory,
                                  [&](workspace memory) { return decode_chunk(encoded, restored, memory); });
  }
  uint32_t encode_chunk(span<const value_type> values, bytes out, workspace memory) const noexcept {
    return detail::host_chain<chain>::in(memory, *this, [&](auto& chunk) { return chunk.encode(values, out); });
  }
  status decode_chunk(const_bytes encoded, span<value_type> restored, workspace memory) const noexcept {
    return detail::host_chain<chain>::in(memory, *this, [&](auto& chunk) { return chunk.decode(encoded, restored); });
  }
#endif

  /// Returns the chain for values of type t: its stages that take values of the same type, for type t.
  TUCK_HD constexpr chain of_type(dtype t) const noexcept
    requires((typed_codec<Stages> && std::is_same_v<value_type, typename Stages::value_type>) || ...)
  {
    chain typed = *this;
    typed.set_type(t, indices{});
    return typed;
  }

  // -- members of an adaptive codec, if the first stage is adaptive; see codec/concept.hpp
  TUCK_HD constexpr status check() const noexcept
    requires adaptive_codec<first_stage>
  {
    return stage<0>().check();
  }
  TUCK_HD constexpr bool needs_range() const noexcept
    requires adaptive_codec<first_stage>
  {
    return stage<0>().needs_range();
  }
  TUCK_HD constexpr const double* device_parameter() const noexcept
    requires adaptive_codec<first_stage>
  {
    return stage<0>().device_parameter();
  }
  TUCK_HD status prepare(const prepass_result& seen, chain& prepared) const noexcept
    requires adaptive_codec<first_stage>
  {
    prepared = *this;
    return stage<0>().prepare(seen, at<0>(prepared.stages_));
  }

 private:
  template <int Index, class S> TUCK_HD static constexpr S& at(detail::stage_at<Index, S>& x) noexcept {
    return x.stage;
  }
  template <int Index, class S> TUCK_HD static constexpr const S& at(const detail::stage_at<Index, S>& x) noexcept {
    return x.stage;
  }
  template <int... Index> TUCK_HD constexpr void set_type(dtype t, std::integer_sequence<int, Index...>) noexcept {
    (set_type_of(t, at<Index>(stages_)), ...);
  }
  template <class S>
  TUCK_HD static constexpr void set_type_of([[maybe_unused]] dtype t, [[maybe_unused]] S& x) noexcept {
    if constexpr (typed_codec<S> && std::is_same_v<value_type, typename S::value_type>) x = x.of_type(t);
  }
  // A codec that has several stages itself cannot be a stage of a chain. The list is then empty, and plan_header
  // rejects it.
  template <int... Index> TUCK_HD constexpr stage_list list(std::integer_sequence<int, Index...>) const noexcept {
    const stage_list lists[] = {stage<Index>().stages()...};
    return ((lists[Index].at[0].id != codec_id::none && lists[Index].at[1] == tuck::stage{}) && ...)
               ? stage_list{{lists[Index].at[0]...}}
               : stage_list{};
  }
  // Compares the ids first: frames of other codecs give codec_mismatch, invalid frames of this codec another status.
  template <int... Index>
  TUCK_HD static constexpr status parse(const stage_list& stored, chain& parsed,
                                        std::integer_sequence<int, Index...>) noexcept {
    for (int i = size; i < max_stages; ++i)
      if (stored.at[i] != tuck::stage{}) return status::codec_mismatch;
    if (((stored.at[Index].id != parsed.template stage<Index>().stages().at[0].id) || ...))
      return status::codec_mismatch;
    status s = status::ok;
    static_cast<void>(
        (((s = Stages::from_stages({{stored.at[Index]}}, at<Index>(parsed.stages_))) == status::ok) && ...));
    return s;
  }

  stage_tuple stages_;
};

namespace detail {
// The same stages for other values: T reaches the first of Rest.
template <class...> struct stage_types;
template <class T, class Done, class... Rest> struct chain_for;
template <class T, class... Done> struct chain_for<T, stage_types<Done...>> {
  using type = chain<Done...>;
};
template <class S> struct passed_on {
  using type = void;
};
template <splitter S> struct passed_on<S> {
  using type = typename S::residual_type;
};
template <class S>
  requires requires { typename S::result_type; }
struct passed_on<S> {
  using type = typename S::result_type;
};
template <class T, class... Done, class S, class... Rest>
struct chain_for<T, stage_types<Done...>, S, Rest...>
    : chain_for<typename passed_on<typename S::template rebind<T>>::type,
                stage_types<Done..., typename S::template rebind<T>>, Rest...> {};

template <class... Stages>
  requires(rebinds<Stages> && ...)
struct codec_by_width<chain<Stages...>> : chain_for<untyped<chain<Stages...>::width>, stage_types<>, Stages...> {};
}  // namespace detail

}  // namespace tuck::inline TUCK_ABI
