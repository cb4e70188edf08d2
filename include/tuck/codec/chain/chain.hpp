// A chain: up to four stages as one codec. Transforms and splitters prepare the values, each for the next, and the last
// stage, a codec, encodes what is left.
//
//   chain<zvc<float>, rle<float>, huffman<float>>
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
// huffman as the last stage encodes the values and then the sides, in the same order, empty ones too, and only records
// stand behind it (huffman/layout.hpp). deflate is no stage: its chunks are for other readers, which know of no others.
// The header has each stage's id, version and parameters, so that decoding needs but the type. The bytes are canonical
// where those of all stages are.
//
// On the CPU a chunk's rows are on the stack of the thread that encodes or decodes it: up to 600 KiB where the chain
// ends in huffman. Threads of your own must have as much; those of glibc have 8 MiB, those of musl 128 KiB.
#pragma once

#include <tuck/codec/chain/stages.hpp>

#include <bit>
#include <cstring>
#include <memory>
#include <new>

namespace tuck::inline TUCK_ABI {

template <class... Stages> struct chain;

namespace detail {

template <class S> inline constexpr bool is_chain = false;
template <class... Stages> inline constexpr bool is_chain<chain<Stages...>> = true;

// A chunk of up to 64 KiB of values on one thread: a row of the values that reach a stage, with the sides behind them.
template <class Chain> class host_chain {
  static constexpr int last = Chain::size - 1;
  template <int I> using stage = typename Chain::template stage_type<I>;
  template <int I> using value = typename stage<I>::value_type;

  static constexpr uint32_t max_raw = max_chunk_raw_bytes;
  static constexpr uint32_t growth = Chain::growth;

 public:
  explicit host_chain(const Chain& codec) noexcept : codec_(codec) {}

  static constexpr uint32_t max_bytes(const Chain& codec, uint32_t count) noexcept {
    const uint32_t raw = count * Chain::width;
    if constexpr (takes_sides<stage<last>>) return stage<last>::max_row_bytes(raw + growth) + Chain::record_bytes;
    // What the last stage wants beyond the values, it leaves to the sides.
    const uint32_t row = raw + growth + Chain::record_bytes;
    const uint32_t wanted = codec.template stage<last>().max_chunk_bytes(count);
    return wanted > row ? wanted : row;
  }

  uint32_t encode(span<const value<0>> values, bytes room) noexcept {
    if (values.empty() || values.size_bytes() > max_raw) return declined;
    std::memcpy(row_, values.data(), values.size_bytes());
    flow_.values[0] = static_cast<uint32_t>(values.size());
    prepare<0>();
    const uint32_t used = finish(room.data());
    uint32_t records[max_stages] = {};
    flow_.list_records(records);
    std::memcpy(room.data() + used, records, Chain::record_bytes);
    return used + Chain::record_bytes;
  }

  status decode(const_bytes encoded, span<value<0>> restored) noexcept {
    if (restored.size_bytes() > max_raw) return status::bad_payload;
    if constexpr (Chain::record_bytes != 0)  // else nvcc finds the comparison pointless
      if (encoded.size() < Chain::record_bytes) return status::bad_payload;
    const const_bytes body = encoded.subspan(0, encoded.size() - Chain::record_bytes);
    flow_.values[0] = static_cast<uint32_t>(restored.size());
    if (!flow_.read(body.data() + body.size())) return status::bad_payload;
    if (const status s = restore_row(body); s != status::ok) return s;
    if (const status s = undo<last - 1>(); s != status::ok) return s;
    std::memcpy(restored.data(), row_, restored.size_bytes());
    return status::ok;
  }

 private:
  template <int I> span<const value<I>> values() const noexcept {
    return {reinterpret_cast<const value<I>*>(row_), flow_.values[I]};
  }
  template <int I> const stage<I>& at() const noexcept { return codec_.template stage<I>(); }

  // Stages I and on, but the last.
  template <int I> void prepare() noexcept {
    if constexpr (I < last) {
      split_record record = split_record::none();
      if constexpr (splitter<stage<I>>) {
        record = split<I>();
      } else {
        at<I>().apply(values<I>(), {reinterpret_cast<value<I + 1>*>(other_), flow_.values[I]});
        std::memcpy(row_, other_, flow_.bytes(I));
      }
      flow_.step(I, record);
      prepare<I + 1>();
    }
  }

  template <int I> split_record split() noexcept {
    const uint32_t count = flow_.values[I], raw = flow_.bytes(I);
    if (count == 0) return split_record::none();
    // The library's own need no more than there is.
    const uint32_t wanted = at<I>().max_chunk_bytes(count);
    const std::unique_ptr<std::byte[]> more(wanted > sizeof other_ ? new (std::nothrow) std::byte[wanted] : nullptr);
    if (wanted > sizeof other_ && more == nullptr) return split_record::none();
    std::byte* const encoded = more != nullptr ? more.get() : other_;
    const uint32_t used = at<I>().encode_chunk(values<I>(), {encoded, wanted});
    if (used == declined) return split_record::none();
    const uint32_t side = stage<I>::side_bytes({encoded, used}, count), kept = used - side;
    if (!split_record::allows(raw, stage<I>::max_growth, kept, side)) return split_record::none();
    std::memmove(row_ + used, row_ + raw, flow_.sides_before(I));
    std::memcpy(row_, encoded + side, kept);
    std::memcpy(row_ + kept, encoded, side);
    return split_record::make(kept / Chain::width, side);
  }

  // The last stage, and the sides where it leaves them; the bytes of both.
  uint32_t finish(std::byte* to) noexcept {
    const uint32_t raw = flow_.bytes(last), sides = flow_.sides_before(last);
    if constexpr (takes_sides<stage<last>>) {
      section_list sections;
      flow_.list_sections(sections);
      return stage<last>::encode_row({row_, raw + sides}, sections, to);
    } else {
      uint32_t used = 0;
      if (raw != 0)
        used = at<last>().encode_chunk(values<last>(), {to, at<last>().max_chunk_bytes(flow_.values[last])});
      if (used == declined || used >= raw) std::memcpy(to, row_, used = raw);
      std::memcpy(to + used, row_ + raw, sides);
      return used + sides;
    }
  }

  status restore_row(const const_bytes body) noexcept {
    const uint32_t raw = flow_.bytes(last), sides = flow_.sides_before(last);
    if constexpr (takes_sides<stage<last>>) {
      section_list sections;
      flow_.list_sections(sections);
      return stage<last>::decode_row(body, sections, {row_, raw + sides});
    } else {
      if (body.size() < sides || body.size() - sides > raw) return status::bad_payload;
      const auto used = static_cast<uint32_t>(body.size()) - sides;
      std::memcpy(row_ + raw, body.data() + used, sides);
      if (used == raw) {
        std::memcpy(row_, body.data(), used);
        return status::ok;
      }
      return used == 0 ? status::bad_payload
                       : at<last>().decode_chunk(body.subspan(0, used),
                                                 {reinterpret_cast<value<last>*>(row_), flow_.values[last]});
    }
  }

  // From the values that reach stage I + 1 back to those that reached the first.
  template <int I> status undo() noexcept {
    if constexpr (splitter<stage<I>>) {
      if (const status s = join<I>(); s != status::ok) return s;
    } else {
      at<I>().invert(values<I + 1>(), {reinterpret_cast<value<I>*>(other_), flow_.values[I]});
      std::memcpy(row_, other_, flow_.bytes(I));
    }
    if constexpr (I > 0) return undo<I - 1>();
    return status::ok;
  }

  template <int I> status join() noexcept {
    if (flow_.records[I].done_without()) return status::ok;
    const uint32_t side = flow_.side(I), kept = flow_.bytes(I + 1);
    std::memcpy(other_, row_ + kept, side);
    std::memcpy(other_ + side, row_, kept);
    std::memmove(row_ + flow_.bytes(I), row_ + kept + side, flow_.sides_before(I));
    const const_bytes encoded(other_, side + kept);
    const uint32_t count = flow_.values[I];
    if (const status s = at<I>().decode_chunk(encoded, {reinterpret_cast<value<I>*>(row_), count}); s != status::ok)
      return s;
    return stage<I>::side_bytes(encoded, count) == side ? status::ok : status::bad_payload;
  }

  const Chain& codec_;
  chain_flow<Chain> flow_;
  alignas(16) std::byte row_[max_raw + growth];
  alignas(16) std::byte other_[max_raw + max_raw / 4];
};

}  // namespace detail

template <class... Stages> struct chain {
  static_assert(sizeof...(Stages) >= 2 && sizeof...(Stages) <= max_stages, "tuck: a chain has two to four stages");
  static_assert(((codec<Stages> || transform<Stages>) && ...),
                "tuck: stages are codecs and transforms; tuck/codec/concept.hpp says what these have");
  static_assert(((!detail::is_chain<Stages>) && ...), "tuck: a chain is no stage of another; name its stages instead");
  static_assert(((!detail::is_deflate<Stages>) && ...), "tuck: deflate is no stage of a chain; let it end in huffman");
  static_assert(
      detail::types_match<Stages...>,
      "tuck: all stages but the last are transforms or splitters, and each takes what the one before it gives");

  static constexpr int size = sizeof...(Stages);
  template <int I> using stage_type = std::tuple_element_t<I, std::tuple<Stages...>>;
  using first_stage = stage_type<0>;
  using last_stage = stage_type<size - 1>;
  static_assert(codec<last_stage>, "tuck: a chain's last stage is a codec");
  static_assert(detail::only_first_adapts<Stages...>, "tuck: only a chain's first stage is adaptive, or lossy");

  using value_type = typename first_stage::value_type;

  static constexpr uint32_t width = sizeof(value_type);  // of what reaches any stage
  static constexpr uint32_t chunk_bytes = 16 * 1024;
  // Is stage i a splitter, and not the last?
  TUCK_HD static constexpr bool splits(int i) noexcept { return (splitter_bits >> i & 1) != 0; }
  static constexpr uint32_t splitter_bits = [] {
    uint32_t bits = 0, bit = 1;
    ((bits |= splitter<Stages> ? bit : 0, bit *= 2), ...);
    return bits & ~(bit / 2);
  }();
  static constexpr int splitters = std::popcount(splitter_bits);
  static constexpr uint32_t record_bytes = 4 * splitters;
  // The most bytes that sides add to a chunk.
  static constexpr uint32_t growth = (0 + ... + detail::growth_of<Stages>()) - detail::growth_of<last_stage>();
  static_assert(growth <= 4096, "tuck: the splitters of a chain have a max_growth of up to 4 KiB together");
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

  TUCK_HD constexpr stage_list stages() const noexcept { return list(std::make_integer_sequence<int, size>{}); }
  TUCK_HD static constexpr status from_stages(const stage_list& stored, chain& parsed) noexcept {
    return parse(stored, parsed, std::make_integer_sequence<int, size>{});
  }

  constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept {
    return detail::host_chain<chain>::max_bytes(*this, count);
  }
  uint32_t encode_chunk(span<const value_type> values, bytes room) const noexcept {
    return detail::host_chain<chain>(*this).encode(values, room);
  }
  status decode_chunk(const_bytes encoded, span<value_type> restored) const noexcept {
    return detail::host_chain<chain>(*this).decode(encoded, restored);
  }

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

 private:
  template <int... I> TUCK_HD constexpr stage_list list(std::integer_sequence<int, I...>) const noexcept {
    const stage_list all{{detail::describe(stage<I>())...}};
    return ((all.at[I].id != codec_id::none) && ...) ? all : stage_list{};
  }
  // The ids first, so that frames of others are told from those of ours that are wrong.
  template <int... I>
  TUCK_HD static constexpr status parse(const stage_list& stored, chain& parsed,
                                        std::integer_sequence<int, I...>) noexcept {
    for (int i = size; i < max_stages; ++i)
      if (stored.at[i] != tuck::stage{}) return status::codec_mismatch;
    if (((stored.at[I].id != detail::describe(parsed.template stage<I>()).id) || ...)) return status::codec_mismatch;
    status s = status::ok;
    static_cast<void>((((s = detail::parse(stored.at[I], detail::stage_at<I>(parsed.row))) == status::ok) && ...));
    return s;
  }
};

}  // namespace tuck::inline TUCK_ABI
