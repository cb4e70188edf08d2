// What a codec is: it turns one chunk of values into fewer bytes, alone, and back.
//
// All else - offsets, raw fallback, checksums, threads, streams - is the frame's and is written once. A codec
// is a small value that carries its parameters (`zvc<float>{}`); one folder under codec/ holds each.
//
//   codec      values -> fewer bytes; may decline, then the frame stores the chunk raw
//   splitter   a codec that keeps some of the values as they are, for another stage of a chain
//   transform  values -> as many values of the same size (differences); never declines
//
// All names that they may have, here and in the files named (test/build/hooks.py compares):
//
//   codec             value_type, chunk_bytes, stages, from_stages, max_chunk_bytes, encode_chunk, decode_chunk, lossy
//   adaptive codec    check, needs_range, device_parameter, prepare
//   splitter          kept_type, max_growth, side_bytes, side_fits
//   transform         value_type, result_type, describe, from_stage, apply, invert
//   block codec       TempStorage, measure, pack, take, decode, blocks_a_processor   block.cuh
//   ... of splitters  side_bytes, encoded, assemble, decode_assembled
//   block transform   TempStorage, apply, invert                                     block.cuh
#pragma once

#include <tuck/core/dtype.hpp>
#include <tuck/core/span.hpp>
#include <tuck/core/status.hpp>
#include <tuck/core/value_range.hpp>

#include <concepts>
#include <type_traits>

namespace tuck::inline TUCK_ABI {

// Stored in frame headers: append, never renumber. From `custom` on, ids belong to the users.
enum class codec_id : uint16_t {
  none = 0,
  zvc = 1,
  rle = 2,
  rle_zero = 3,
  quantize = 4,
  deflate = 5,
  delta = 7,  // 6 was none that is left
  bitpack = 8,
  quantize_codes = 9,  // the first stage of a chain
  huffman = 10,
  gaps = 11,
  exponents = 12,
  custom = 0x8000,
};

TUCK_HD constexpr const char* name(codec_id id) noexcept {
  switch (id) {
    case codec_id::none: return "none";
    case codec_id::zvc: return "zvc";
    case codec_id::rle: return "rle";
    case codec_id::rle_zero: return "rle-zero";
    case codec_id::quantize: return "quantize";
    case codec_id::deflate: return "deflate";
    case codec_id::delta: return "delta";
    case codec_id::bitpack: return "bitpack";
    case codec_id::huffman: return "huffman";
    case codec_id::gaps: return "gaps";
    case codec_id::exponents: return "exponents";
    case codec_id::quantize_codes: return "quantize";  // which it is, in chains
    case codec_id::custom: break;
  }
  return static_cast<uint16_t>(id) >= static_cast<uint16_t>(codec_id::custom) ? "custom" : "unknown";
}

// One step of a codec as the header stores it, these fields without gaps: who, in which format version, with which
// parameters. What the parameters mean is the codec's business; those it does not use are zero. All versions are 1, and
// of the library's codecs only quantize (quantize/quantize.hpp) and bitpack have parameters.
struct stage {
  codec_id id = codec_id::none;
  uint8_t version = 0;
  uint8_t mode = 0;
  uint32_t small = 0;
  uint64_t large = 0;

  friend constexpr bool operator==(const stage&, const stage&) = default;
};
static_assert(sizeof(stage) == 16);

inline constexpr int max_stages = 4;

// The stages of a codec in the order in which encoding applies them; unused ones are at the end.
struct stage_list {
  stage at[max_stages] = {};

  friend constexpr bool operator==(const stage_list&, const stage_list&) = default;
};

// What an adaptive codec may learn before it encodes.
struct tensor_survey {
  range_keys range;        // of the whole tensor
  uint64_t parameter = 0;  // the bits of the double in device memory
};

inline constexpr uint32_t max_chunk_raw_bytes = 64 * 1024;  // of the values of a chunk

// encode_chunk's answer when it would not shrink the chunk or prefers not to try.
inline constexpr uint32_t declined = 0;

// clang-format off
template <class C>
concept codec =
    std::is_trivially_copyable_v<C> && std::is_default_constructible_v<C> &&
    requires { typename C::value_type; } && element<typename C::value_type> &&
    requires(const C& c, C& parsed, const stage_list& stages, uint32_t count,
             span<const typename C::value_type> values, span<typename C::value_type> restored,
             const_bytes encoded, bytes room) {
      // Bytes of values that a chunk should have by default: a multiple of 32 values, at most 64 KiB.
      { C::chunk_bytes } -> std::convertible_to<uint32_t>;

      // What the header stores of this codec, at least one stage, and the codec that a header's stages describe:
      // codec_mismatch, bad_version or bad_parameters where they describe none, and `parsed` then is anything.
      { c.stages() } noexcept -> std::same_as<stage_list>;
      { C::from_stages(stages, parsed) } noexcept -> std::same_as<status>;

      // The most bytes that encode_chunk writes for `count` values; never less for more values, and at most four times
      // max_chunk_raw_bytes.
      { c.max_chunk_bytes(count) } noexcept -> std::same_as<uint32_t>;

      // Encodes values.size() >= 1 values into room.size() >= max_chunk_bytes(values.size()) bytes and
      // returns how many it used, or `declined`. Equal input gives equal bytes. Nothing may alias, and bytes have
      // no alignment.
      { c.encode_chunk(values, room) } noexcept -> std::same_as<uint32_t>;

      // Restores restored.size() >= 1 values from exactly encoded.size() untrusted bytes: any bytes end in
      // a status, no access leaves the two spans. Where it is not ok, `restored` holds anything.
      { c.decode_chunk(encoded, restored) } noexcept -> std::same_as<status>;
    };

// A codec with parameters that the caller may have got wrong, or that depend on the whole tensor or on device memory.
// Chunks are encoded by what `prepare` makes of it, and that one's stages are stored; from_stages gives such a one.
// Kernels call `stages` and these too, all but `check`: they are TUCK_HD.
template <class C>
concept adaptive_codec =
    codec<C> && requires(const C& c, const tensor_survey& seen, C& prepared) {
      // What is wrong with the parameters, as far as the host can know.
      { c.check() } noexcept -> std::same_as<status>;

      // What `prepare` wants to be told: the range of all values, which floating-point elements have (value_range.hpp
      // reads it; 0, 0: none is finite); a double in device memory, if not null, which encoding on the host refuses.
      { c.needs_range() } noexcept -> std::same_as<bool>;
      { c.device_parameter() } noexcept -> std::same_as<const double*>;
      { c.prepare(seen, prepared) } noexcept -> std::same_as<status>;
    };

// A codec whose encoded chunk is some bytes about the values - its side - and behind them the values that it keeps, at
// most as many as there are, or what stands for these: a chain hands them on to its next stage. It may be given a chunk
// of any number of values, but not of none.
template <class C>
concept splitter =
    codec<C> && element<typename C::kept_type> && sizeof(typename C::kept_type) == sizeof(typename C::value_type) &&
    requires(const_bytes encoded, uint32_t count) {
      // What it keeps and its side may together have up to so many bytes more than the values; all splitters of a chain
      // have up to 4 KiB of this. A chain does without the stage where they have more, or as many, where it declines,
      // where either has more bytes than the values, and where the side has more than 32767.
      { C::max_growth } -> std::convertible_to<uint32_t>;

      // The bytes of the side of a chunk of `count` values by encode_chunk, or that decode_chunk has found sound.
      { C::side_bytes(encoded, count) } noexcept -> std::same_as<uint32_t>;

      // Can a chunk of `count` values have a side of so many bytes, and keep so many values? Asked of what a damaged
      // chunk says, before anything is decoded; kernels ask too, so it is TUCK_HD.
      { C::side_fits(count, count, count) } noexcept -> std::same_as<bool>;
    };

template <class X>
concept transform =
    std::is_trivially_copyable_v<X> && std::is_default_constructible_v<X> &&
    element<typename X::value_type> && element<typename X::result_type> &&
    sizeof(typename X::value_type) == sizeof(typename X::result_type) &&
    requires(const X& x, X& parsed, const stage& described,
             span<const typename X::value_type> values, span<typename X::result_type> results,
             span<const typename X::result_type> stored, span<typename X::value_type> restored) {
      { x.describe() } noexcept -> std::same_as<stage>;
      { X::from_stage(described, parsed) } noexcept -> std::same_as<status>;

      // Both spans have the same size, maybe 0; invert undoes apply, bit for bit. Nothing may alias.
      { x.apply(values, results) } noexcept -> std::same_as<void>;
      { x.invert(stored, restored) } noexcept -> std::same_as<void>;
    };
// clang-format on

template <codec C> using value_t = typename C::value_type;

namespace detail {
template <class C> constexpr bool lossy_of() {
  if constexpr (requires { C::lossy; }) {
    static_assert(std::is_same_v<decltype(C::lossy), const bool>, "tuck: lossy is a static constexpr bool");
    return C::lossy;
  }
  return false;
}
template <class C>
concept half_adaptive = (requires { &C::prepare; } || requires { &C::check; } || requires { &C::needs_range; });
}  // namespace detail

// Does decoding give other values than were encoded? A codec of that kind says so by `static constexpr bool lossy =
// true`, for chunk checksums are of what decoding gives: without it decoders will find them wrong.
template <codec C> inline constexpr bool is_lossy = detail::lossy_of<C>();

// The codecs that a program is ready to meet at run time.
template <codec... Cs> struct codec_list {};

namespace detail {
template <class X> inline constexpr bool is_codec_list = false;
template <codec... Cs> inline constexpr bool is_codec_list<codec_list<Cs...>> = true;
}  // namespace detail

// What the functions that take a codec refuse with TUCK_NO_CODEC, instead of a list of candidates.
template <class X>
concept no_codec = std::is_class_v<X> && !codec<X> && !detail::is_codec_list<X> && !detail::is_span<X>;

// For stages without parameters: is this the expected one?
TUCK_HD constexpr status match_stage(const stage& described, const stage& expected) noexcept {
  if (described.id != expected.id) return status::codec_mismatch;
  if (described.version != expected.version) return status::bad_version;
  return described == expected ? status::ok : status::bad_parameters;
}

// For codecs of one stage without parameters: is this list that stage, alone?
TUCK_HD constexpr status match_single_stage(const stage_list& stages, const stage& expected) noexcept {
  if (stages.at[0].id != expected.id) return status::codec_mismatch;
  for (int i = 1; i < max_stages; ++i)
    if (stages.at[i] != stage{}) return status::codec_mismatch;
  return match_stage(stages.at[0], expected);
}

}  // namespace tuck::inline TUCK_ABI
