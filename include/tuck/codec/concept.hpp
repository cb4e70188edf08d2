// SPDX-License-Identifier: Apache-2.0
// What a codec is. It encodes one chunk of values into fewer bytes and decodes it again.
//
// The frame does everything else: offsets, raw fallback, checksums, threads and streams. A codec is a small value that
// holds its parameters, such as `zvc<float>{}`. Each codec has a folder under codec/.
//
//   codec      encodes values into fewer bytes. The frame stores incompressible chunks raw
//   splitter   a codec that passes residual values on to the next stage of a chain
//   transform  maps values to as many values of the same size, such as differences. It always succeeds
//
// The lists below name all members that templates of the library use of their parameters. In brackets: the names that
// such a type has there, as a template parameter or as a template that is specialised for it. A block codec is the form
// that one thread block runs.
// test/build/hooks.py checks the lists. The kinds of which there are types only in the library stand at the end.
//
//   codec (C, S, Next, Stages, stage_type)   value_type, chunk_bytes, stages, from_stages, max_chunk_bytes,
//       encode_chunk, decode_chunk, lossy
//   adaptive codec (C, stage_type)           check, needs_range, device_parameter, prepare
//   codec that depends on the type (C, S, stage_type)   of_type
//   codec with a workspace (C)   workspace_bytes
//   codec that is no stage of chains (S)     stands_alone
//   codec or transform of any type (S)       rebind
//   splitter (C, S, stage_type)              residual_type, max_growth, side_bytes, side_fits
//   transform (X, S, Stages, stage_type)     value_type, result_type, stages, from_stages, forms, choose_form, apply,
//       invert
//   block codec (B, block_codec, block_decoder)              TempStorage, measure, write, read, approximate, chunk,
//       use_base, keeps_tile, of_strip, fetches, registers
//   block codec of a splitter (block_codec, block_decoder)   side_bytes, read_parts
//   block transform (block_transform, transform_of)          TempStorage, apply, invert
//   memory resource (R)                      allocate, deallocate, allocate_async, deallocate_async
//   decision of swap_stream (Decision)       how, mode, codec
//   pointer or stream (P, S)                 get
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/dtype.hpp>
#include <tuck/core/floating.hpp>
#include <tuck/core/span.hpp>
#include <tuck/core/standard.hpp>
#include <tuck/core/status.hpp>

#if defined(TUCK_HOST)
#include <tuck/codec/workspace.hpp>
#endif

namespace tuck::inline TUCK_ABI {

/// Identifies a codec in frame headers. Append, never renumber, nor take one that is unused; the next is 16. Ids from
/// `custom` on are for users.
enum class codec_id : uint16_t {
  none = 0,
  zvc = 1,
  rle = 2,
  quantize = 4,  ///< 3 is unused
  deflate = 5,
  differences = 7,  ///< its name is "delta"; 6 is unused
  bitpack = 8,
  quantize_codes = 9,  ///< quantize as the first stage of a chain
  huffman = 10,        ///< 11 and 12 are unused
  steps = 13,
  rows = 14,
  codebooks = 15,
  custom = 0x8000,
};

/// Returns the name of a codec, as the program `tuck` takes it; "custom" or "unknown" for other ids.
TUCK_HD constexpr const char* name(codec_id id) noexcept {
  switch (id) {  // an id without a name is a warning of the compiler
    case codec_id::none: return "none";
    case codec_id::zvc: return "zvc";
    case codec_id::rle: return "rle";
    case codec_id::quantize:
    case codec_id::quantize_codes: return "quantize";
    case codec_id::deflate: return "deflate";
    case codec_id::differences: return "delta";
    case codec_id::bitpack: return "bitpack";
    case codec_id::huffman: return "huffman";
    case codec_id::steps: return "steps";
    case codec_id::rows: return "rows";
    case codec_id::codebooks: return "codebooks";
    case codec_id::custom: return "custom";
  }
  return id > codec_id::custom ? "custom" : "unknown";
}

/// One stage of a codec, as frame headers store it, without gaps between the fields. The codec defines what its
/// parameters mean; unused parameters are zero. All versions are 1.
struct stage {
  codec_id id = codec_id::none;  ///< which codec
  uint8_t version = 0;           ///< version of the codec's format
  uint8_t mode = 0;              ///< first parameter
  uint32_t small_value = 0;      ///< second parameter
  uint64_t large = 0;            ///< third parameter

  TUCK_HD friend constexpr bool operator==(const stage&, const stage&) = default;
};
static_assert(sizeof(stage) == 16);

inline constexpr int max_stages = 4;  ///< maximum number of stages of a codec

/// The stages of a codec, in the order in which encoding applies them. Unused stages are at the end.
struct stage_list {
  stage at[max_stages] = {};  ///< the stages

  TUCK_HD friend constexpr bool operator==(const stage_list&, const stage_list&) = default;
};

/// What an adaptive codec may learn about the tensor before it encodes.
struct prepass_result {
  range_keys range;        ///< range of the finite values
  uint64_t parameter = 0;  ///< bits of the double at device_parameter()
};

/// maximum size of a chunk's values in bytes; steps may have twice as many, see max_chunk_values
inline constexpr uint32_t max_chunk_raw_bytes = 64 * 1024;

/// Returns the maximum number of values in a chunk of a codec with these stages: 64 KiB of values, or 128 KiB if steps
/// is the only stage. It is never more than 65536 values.
TUCK_HD constexpr uint32_t max_chunk_values(const stage_list& stages, uint32_t value_bytes) noexcept {
  const bool is_steps = stages.at[0].id == codec_id::steps && stages.at[1].id == codec_id::none;
  const uint32_t per_unit = is_steps && value_bytes > 1 ? value_bytes / 2 : value_bytes;
  const uint32_t log2 = per_unit / 2 - per_unit / 8;  // of 1, 2, 4 or 8, without intrinsics, for constants under nvcc
  return max_chunk_raw_bytes >> log2;
}

/// What encode_chunk returns for a chunk that does not shrink, or that it does not try to encode.
inline constexpr uint32_t incompressible = 0;

// clang-format off
/// Encodes chunks of values and decodes them again. See the comments at each requirement.
template <class C>
concept codec =
    std::is_trivially_copyable_v<C> && std::is_default_constructible_v<C> &&
    requires { typename C::value_type; } && element<typename C::value_type> &&
    requires(const C& c, C& parsed, const stage_list& stages, uint32_t count,
             span<const typename C::value_type> values, span<typename C::value_type> restored,
             const_bytes encoded, bytes out) {
      // Default size of a chunk's values in bytes: a multiple of 32 values, at most 64 KiB.
      { C::chunk_bytes } -> std::convertible_to<uint32_t>;

      // stages: returns what the frame header stores of this codec, at least one stage. from_stages: sets `parsed` to
      // the codec that a header describes and returns ok, or returns codec_mismatch, bad_version or bad_parameters.
      // After an error `parsed` is unspecified.
      { c.stages() } noexcept -> std::same_as<stage_list>;
      { C::from_stages(stages, parsed) } noexcept -> std::same_as<status>;

#if defined(TUCK_HOST)
      // Returns the maximum number of bytes that encode_chunk writes for `count` values: monotonic in `count`, at most
      // four times max_chunk_raw_bytes.
      { c.max_chunk_bytes(count) } noexcept -> std::same_as<uint32_t>;

      // Needs little of the stack, as decode_chunk does; see uses_workspace.
      // Encodes values.size() >= 1 values into `out`, which has at least max_chunk_bytes(values.size()) bytes. Returns
      // the size of the result in bytes, or `incompressible`. Equal input gives equal bytes. The spans do not overlap.
      // `out` and `encoded` may have any alignment.
      { c.encode_chunk(values, out) } noexcept -> std::same_as<uint32_t>;

      // Restores restored.size() >= 1 values from exactly encoded.size() bytes. The bytes are untrusted: whatever they
      // are, the function returns a status and accesses no memory outside the spans. After an error `restored` is
      // unspecified.
      { c.decode_chunk(encoded, restored) } noexcept -> std::same_as<status>;
#endif
    };

/// A codec that codes the changes of values from a base. In a delta, the frame calls these members. In other frames
/// there is no base: all its values are 0. Decoding may be called with any base.
template <class C>
concept uses_base =
    codec<C> && requires(const C& c, span<const typename C::value_type> values, span<typename C::value_type> restored,
                         const_bytes encoded, bytes out) {
#if defined(TUCK_HOST)
      // Like encode_chunk(values, out) and decode_chunk(encoded, restored). The values are the bits of the tensor's
      // values XOR those of as many values of the base, the second argument.
      { c.encode_chunk(values, values, out) } noexcept -> std::same_as<uint32_t>;
      { c.decode_chunk(encoded, values, restored) } noexcept -> std::same_as<status>;
#else
      requires sizeof(C) == 0;  // there are no deltas
#endif
    };

/// A codec whose parameters can be invalid, or depend on the whole tensor or on device memory. `prepare` makes a
/// second codec, which encodes the chunks and whose stages the frame stores. A codec from from_stages is already
/// prepared. Kernels call `stages`, needs_range, device_parameter and `prepare`: declare them TUCK_HD.
template <class C>
concept adaptive_codec =
    codec<C> && requires(const C& c, const prepass_result& seen, C& prepared) {
      // Returns what is wrong with the parameters, as far as the host can know.
      { c.check() } noexcept -> std::same_as<status>;

      // Say what `prepare` needs. needs_range: whether it needs the range of the finite values of a floating-point
      // tensor (range_keys, floating.hpp); lowest and highest are both 0 if no value is finite. device_parameter: the
      // address of a double in device memory, which host calls reject; or null.
      { c.needs_range() } noexcept -> std::same_as<bool>;
      { c.device_parameter() } noexcept -> std::same_as<const double*>;
      { c.prepare(seen, prepared) } noexcept -> std::same_as<status>;
    };

/// A codec whose encoded chunk is a side stream (bytes, such as the masks of zvc) followed by residual values (such as
/// the non-zero ones), at most as many as the chunk has. A chain passes the residual values to its next stage. A chunk
/// has at least one value.
template <class C>
concept splitter =
    codec<C> && element<typename C::residual_type> &&
    sizeof(typename C::residual_type) == sizeof(typename C::value_type) &&
    requires(const_bytes encoded, uint32_t count) {
      // In bytes. A chain skips the stage for a chunk that is incompressible, or if both parts together have at least
      // as many bytes as the values plus max_growth, or if either part has more bytes than the values, or if the side
      // stream has more than 16383 bytes. The sum of max_growth over the splitters of a chain is at most 4 KiB.
      { C::max_growth } -> std::convertible_to<uint32_t>;

#if defined(TUCK_HOST)
      // Returns the bytes of the side stream of a chunk of `count` values that encode_chunk wrote or decode_chunk
      // accepted.
      { C::side_bytes(encoded, count) } noexcept -> std::same_as<uint32_t>;
#endif

      // side_fits(side bytes, number of residual values, count): returns whether a chunk of `count` values can have
      // these. Called with numbers from a chunk that may be damaged, before it is decoded. Kernels call it: declare it
      // TUCK_HD.
      { C::side_fits(count, count, count) } noexcept -> std::same_as<bool>;
    };

/// Maps values to as many values of the same size and back, without loss. There may be several forms of it. A chain
/// applies to each chunk the one that the transform chooses, and stores which.
template <class X>
concept transform =
    std::is_trivially_copyable_v<X> && std::is_default_constructible_v<X> &&
    element<typename X::value_type> && element<typename X::result_type> &&
    sizeof(typename X::value_type) == sizeof(typename X::result_type) &&
    requires(const X& x, X& parsed, const stage_list& stages, uint32_t form,
             span<const typename X::value_type> values, span<typename X::result_type> results,
             span<const typename X::result_type> stored, span<typename X::value_type> restored) {
      // The same as of a codec. The list has one stage.
      { x.stages() } noexcept -> std::same_as<stage_list>;
      { X::from_stages(stages, parsed) } noexcept -> std::same_as<status>;

      // Number of forms, 1 to 4.
      { X::forms } -> std::convertible_to<uint32_t>;

      // Returns the form for these values, less than `forms`: that which should make the chunk smallest.
      requires X::forms == 1 || requires { { x.choose_form(values) } noexcept -> std::same_as<uint32_t>; };

      // Both spans have the same size, possibly 0, and do not overlap. invert restores the input of apply, bit for bit.
      // form < forms
      { x.apply(values, results, form) } noexcept -> std::same_as<void>;
      { x.invert(stored, restored, form) } noexcept -> std::same_as<void>;
    };
// clang-format on

/// The element type of a codec.
template <codec C> using value_t = typename C::value_type;

#if defined(TUCK_HOST)
/// A codec that needs more memory for a chunk than the stack of a thread may have, which is 128 KiB with musl.
/// workspace_bytes(count) returns the size of that memory in bytes for a chunk of `count` values, monotonic in `count`.
/// There are then a second encode_chunk, a second decode_chunk, or both, with one more parameter at the end: a
/// `workspace` of this size. The frame calls these. Those without it allocate the memory, and return `incompressible`
/// or out_of_memory if there is none.
template <class C>
concept uses_workspace = codec<C> && requires(uint32_t count) {
  { C::workspace_bytes(count) } noexcept -> std::same_as<uint32_t>;
};

namespace detail {
template <codec C> constexpr uint32_t workspace_bytes_of([[maybe_unused]] uint32_t count) noexcept {
  if constexpr (uses_workspace<C>) return C::workspace_bytes(count);
  return 0;
}
// Calls encode_chunk(args...) or decode_chunk(args...), with the workspace if the codec takes it.
template <codec C, class... Args>
uint32_t encode_chunk_in([[maybe_unused]] workspace memory, const C& codec, const Args&... args) noexcept {
  if constexpr (requires { codec.encode_chunk(args..., memory); })
    return codec.encode_chunk(args..., memory);
  else
    return codec.encode_chunk(args...);
}
template <codec C, class... Args>
status decode_chunk_in([[maybe_unused]] workspace memory, const C& codec, const Args&... args) noexcept {
  if constexpr (requires { codec.decode_chunk(args..., memory); })
    return codec.decode_chunk(args..., memory);
  else
    return codec.decode_chunk(args...);
}
}  // namespace detail
#endif

namespace detail {
template <class C> TUCK_HD constexpr bool lossy_of() {
  if constexpr (requires { C::lossy; }) {
    static_assert(std::is_same_v<decltype(C::lossy), const bool>, "tuck: lossy is a static constexpr bool");
    return C::lossy;
  }
  return false;
}
template <class C>
concept half_adaptive = (requires { &C::prepare; } || requires { &C::check; } || requires { &C::needs_range; });
}  // namespace detail

/// Whether decoding may give other values than were encoded. A lossy codec must have `static constexpr bool lossy =
/// true`. Chunk checksums are then those of the decoded values. Without the member, decoding would fail with
/// bad_checksum.
template <codec C> inline constexpr bool is_lossy = detail::lossy_of<C>();

/// The codecs among which a program chooses at run time: for decoding by the frame, for encoding by an any_codec
/// (frame/any_codec.hpp).
template <codec... Cs> struct codec_list {};
template <class List> class any_codec;

namespace detail {
template <class X> inline constexpr bool is_codec_list = false;
template <codec... Cs> inline constexpr bool is_codec_list<codec_list<Cs...>> = true;
template <class List> inline constexpr bool is_codec_list<any_codec<List>> = true;
}  // namespace detail

/// A class type that is not a codec. encode and decode reject it with one readable error.
template <class X>
concept no_codec = std::is_class_v<X> && !codec<X> && !detail::is_codec_list<X> && !detail::is_span<X>;

/// What encode and decode return for a type that is not a codec: the call does not compile.
template <no_codec X> struct codec_missing {
  static_assert(
      codec<X>,
      "tuck: this type is no codec; tuck/codec/concept.hpp says what a codec has, the notes below what is missing");
};

/// Compares a stage from a frame header with the expected stage, parameters included.
/// @return ok, codec_mismatch, bad_version or bad_parameters
TUCK_HD constexpr status match_stage(const stage& described, const stage& expected) noexcept {
  if (described.id != expected.id) return status::codec_mismatch;
  if (described.version != expected.version) return status::bad_version;
  return described == expected ? status::ok : status::bad_parameters;
}

/// The same for a codec of a single stage: the list must be that stage alone.
TUCK_HD constexpr status match_single_stage(const stage_list& stages, const stage& expected) noexcept {
  if (stages.at[0].id != expected.id) return status::codec_mismatch;
  for (int i = 1; i < max_stages; ++i)
    if (stages.at[i] != stage{}) return status::codec_mismatch;
  return match_stage(stages.at[0], expected);
}

/// A codec whose chunks depend on the type of the values, which `untyped` elements do not tell: of_type(t) returns the
/// codec for values of type t.
template <class C>
concept typed_codec = codec<C> && requires(const C& c, dtype t) {
  { c.of_type(t) } -> std::same_as<C>;
};
/// Returns the codec for values of type t. For the XOR of two values, t is the unsigned integer of their size.
template <codec C> TUCK_HD constexpr C codec_of_type(const C& codec, [[maybe_unused]] dtype t) noexcept {
  if constexpr (typed_codec<C>)
    return codec.of_type(t);
  else
    return codec;
}

namespace detail {
// Whether S has a rebind, and not from a base class.
template <class S>
concept rebinds = requires {
  typename S::template rebind<typename S::value_type>;
  typename S::template rebind<untyped<sizeof(typename S::value_type)>>;
} && std::is_same_v<typename S::template rebind<typename S::value_type>, S>;

template <class C> struct codec_by_width {
  using type = C;
};
template <rebinds S> struct codec_by_width<S> {
  using type = typename S::template rebind<untyped<sizeof(typename S::value_type)>>;
};
}  // namespace detail
/// The codec that does the work of C on the device, so that kernels are compiled once for all types of a size. That
/// is C itself, unless C says `template <element U> using rebind = my_codec<U>;`: then it is
/// rebind<untyped<sizeof(T)>>. Such a codec is not adaptive and writes the same bytes for both. Kernels get its
/// parameters by from_stages, from its stages; of_type may add what follows from the type. A chain of such stages is
/// one too (chain/chain.hpp).
template <codec C> using by_width = typename detail::codec_by_width<C>::type;

/// Base of a codec or transform S that has no parameters and is a single stage.
template <class S, codec_id Id> struct plain_stage {
  TUCK_HD static constexpr stage description() noexcept { return stage{.id = Id, .version = 1}; }
  TUCK_HD constexpr stage_list stages() const noexcept { return {{description()}}; }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, S&) noexcept {
    return match_single_stage(stages, description());
  }
};

/// Base of a codec C of T that has no parameters, is a single stage, and whose chunks are smaller than their values.
template <class C, element T, codec_id Id> struct plain_codec : plain_stage<C, Id> {
  using value_type = T;

  static constexpr uint32_t chunk_bytes = 16 * 1024;

  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count * uint32_t{sizeof(T)}; }
};

}  // namespace tuck::inline TUCK_ABI

// Types of these kinds are only in the library:
//
//   element (dtype_of)
//   sink of decoders (Sink)
//   codec of a packed mask (C)               floats, has_runs, kind_of_zeros, sign_bytes, takes_runs, values_begin
//   mask format (Format)                     TempStorage, has_runs, has_signs, kind, measure, read, signs_begin,
//       values_begin, write
//   last stage (strip_encoder)                 TempStorage, measure, chunk, write, registers
//   quantizer (Quantizer)                    code, value, wide_value
//   values of a chunk (Values)               value_of, visit
//   instructions (Cpu)                       add_differences, find_range, gather_bits, mask_of, merge, pack, popcount,
//       row, shift, spread, spread_bits, subtract, sum_words, unpack_fields
//   bits of inflate (Input)                  align, drop, overrun, peek, read_bits, refill, refilled_bits
//   job of a kernel (Job, ItemJob)           at, base, base_values, capacity, codec, count, first_value, frame,
//       frame_capacity, has_prepass, head, header, item, items, metadata, offset, out, out_values, outcomes, result,
//       state_count, states, to_draw, type, used, value, values, verified, writes
//   item of a batch (Item)                   base, frame, values
//   block of a kernel (Worker)               TempStorage
//   output of decoders (Output)              summed, writes, sums, of_base, add_base, sum_base, bytes,
//       base_of_chunk
//   values of a base (Base)                  at, row
//   always chain (Chain)                     forms, growth, has_record, record_bytes,
//       size, splits, splitter_bits, stage, stage_type, width
//   always block_tile (Tile)                 capacity, clip, count, first_value, lane_values, row, row_values,
//       row_words, rows, set_row
