// SPDX-License-Identifier: Apache-2.0
// Error-bounded quantization. All lossy codecs of the library are based on it. Each finite value is restored with an
// error within the bound. The error is measured after the restored value has been rounded to type T. NaN, infinities,
// and values that no code restores within the bound are exceptions. Exceptions are stored bit for bit. The encoder
// decodes each code and compares the result with the value. Encoded chunks restore zeros as +0.0; raw and uniform
// chunks keep -0.0.
//
// Values become integer codes. With an absolute or a range-relative bound, code q stands for q steps, and a step is
// less than twice the bound. With a pointwise bound, a code is a rounded bit pattern (quantizer.hpp). Groups of 32
// codes are stored with the fewest bits that hold them. The method is related to cuSZ (Tian et al., PACT 2020) and
// cuSZp (Huang et al., SC 2023). A chunk of n values has
//
//   groups   the n codes in the format of bitpack/groups.hpp. The field `extra` of that format is the number of
//            exceptions. quantizer.hpp has the widths that decoders accept
//   side     the side stream: exponent and exceptions (quantizer.hpp)
//
// Let B = n sizeof(T). If the encoded chunk would have more than B - floor(B / 8) bytes, the chunk is incompressible:
// saving less than an eighth is not worth the time to decode. Decoders reject larger chunks, and chunks whose size is
// not the sum of the two parts. Host and device write the same bytes.
//
// In the frame header, the stage of quantize has these parameters. quantize_codes, the variant of quantize for chains,
// has the same:
//
//   mode    bits 0 to 3: bound_mode; bits 4 to 7: predictor (bitpack/groups.hpp), 0 in chains
//   small   range-relative bound: the factor as the bits of an f32, rounded to nearest, from 2^-125 to 2^120, or 0 if
//           the factor is less than 2^-125. Other bounds: 0
//   large   the bound that holds for each value, as the bits of a double: the absolute or pointwise bound. For a
//           range-relative bound, it is the absolute bound computed from factor and range. It is positive and finite,
//           but 0 if the tensor has no range or if the product is too small. If it is 0, no chunk is encoded
#pragma once

#include <tuck/codec/bitpack/groups.hpp>
#include <tuck/codec/quantize/quantizer.hpp>

#if defined(TUCK_HOST)
#include <tuck/codec/bitpack/host_groups.hpp>
#endif

namespace tuck::inline TUCK_ABI {

/// Codec for floating-point values within an error bound. Lossy; models `adaptive_codec`.
/// concept.hpp documents the members that are not described here.
/// @tparam T floating-point element type
template <floating_element T> class quantize {
  static_assert(sizeof(T) >= 2, "tuck: quantize<T> needs a floating-point type T of 2, 4 or 8 bytes");

 public:
  using value_type = T;
  /// @cond
  using bits = bits_t<T>;
  using format = float_format<T>;
  using real = typename format::real;
  using real_format = float_format<real>;
  using word = bits_t<real>;
#if defined(TUCK_HOST)
  using groups = detail::host_groups<sizeof(T)>;
#endif
  /// @endcond

  static constexpr uint32_t chunk_bytes = 16 * 1024;
  static constexpr bool lossy = true;

  /// Constructs a codec without a bound. It decodes frames of quantize<T> with any bound. Encoding fails: bad_bound.
  quantize() = default;
  /// Constructs a codec with a bound.
  /// @param prediction whether groups of codes may be stored as differences of neighbouring codes
  TUCK_HD explicit quantize(error_bound bound, predictor prediction = predictor::automatic) noexcept
      : mode_(bound.mode), predictor_(prediction), requested_(bits_of(bound.value)), on_device_(bound.on_device) {
    if (mode_ != bound_mode::range_relative && on_device_ == nullptr && detail::is_bound(requested_))
      set_effective(requested_);
  }

  /// Returns whether the bound is absolute, range-relative or pointwise.
  TUCK_HD constexpr bound_mode mode() const noexcept { return mode_; }
  /// Returns the bound as requested. If the codec was read from a frame with a range-relative bound, the value has been
  /// rounded to f32.
  TUCK_HD constexpr double requested_bound() const noexcept { return __builtin_bit_cast(double, requested_); }
  /// Returns the bound that holds for each value: an absolute or a pointwise bound. Returns 0 if the codec has no valid
  /// bound, if a range-relative bound has not been multiplied by the range of the tensor, if the product is too small,
  /// or if a kernel has not yet read the bound in device memory. Nothing is quantized then.
  TUCK_HD constexpr double effective_bound() const noexcept { return __builtin_bit_cast(double, effective_); }

  TUCK_HD constexpr stage_list stages() const noexcept {
    const bool of_range = mode_ == bound_mode::range_relative;
    return {{{.id = codec_id::quantize,
              .version = 1,
              .mode = static_cast<uint8_t>(static_cast<uint32_t>(mode_) | static_cast<uint32_t>(predictor_) << 4),
              .small_value = of_range && detail::is_bound(requested_) ? bits_of(detail::nearest_f32(requested_)) : 0,
              .large = effective_}}};
  }
  TUCK_HD static status from_stages(const stage_list& stages, quantize& parsed) noexcept;

  // -- members of an adaptive codec, see codec/concept.hpp
  TUCK_HD constexpr status check() const noexcept {
    if (mode_ > bound_mode::pointwise || predictor_ > predictor::automatic) return status::invalid_argument;
    return on_device_ != nullptr || detail::is_bound(requested_) ? status::ok : status::bad_bound;
  }
  TUCK_HD constexpr bool needs_range() const noexcept { return mode_ == bound_mode::range_relative; }
  TUCK_HD constexpr const double* device_parameter() const noexcept { return on_device_; }
  TUCK_HD status prepare(const prepass_result& seen, quantize& prepared) const noexcept;

  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count * uint32_t{sizeof(T)}; }
#if defined(TUCK_HOST)
  static constexpr uint32_t workspace_bytes(uint32_t count) noexcept {
    return codes_bytes(count) + groups::workspace_bytes(count);
  }
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept {
    return detail::with_workspace(workspace_bytes(static_cast<uint32_t>(values.size())), incompressible,
                                  [&](workspace memory) { return encode_chunk(values, out, memory); });
  }
  uint32_t encode_chunk(span<const T> values, bytes out, workspace memory) const noexcept;
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;
#endif

  /// @cond
  // -- for the block codec and for quantize_codes
  TUCK_HD static constexpr uint32_t limit(uint32_t count) noexcept {  // size of the largest chunk in bytes
    return count * uint32_t{sizeof(T)} - count * uint32_t{sizeof(T)} / 8;
  }
  TUCK_HD constexpr bool pointwise() const noexcept { return mode_ == bound_mode::pointwise; }
  TUCK_HD constexpr bool predicts() const noexcept { return predictor_ == predictor::automatic; }
  /// Returns whether the codec has a bound that is large enough to quantize with.
  TUCK_HD constexpr bool is_usable() const noexcept { return pointwise() ? effective_ != 0 : steps_.tolerance > 0; }
  TUCK_HD constexpr bool has_exponent() const noexcept { return sizeof(T) == 2 || pointwise(); }
  TUCK_HD constexpr quantize_side<T> side() const noexcept { return {has_exponent() ? 2u : 0u}; }
  /// The rank orders values so that the value with the largest rank determines the exponent of its chunk.
  TUCK_HD constexpr bits rank(bits x) const noexcept {
    const bits magnitude = format::magnitude(x), limit = pointwise() ? bits{0} : format::infinity;
    const bits rank = pointwise() ? static_cast<bits>(format::magnitude(static_cast<bits>(~magnitude))) : magnitude;
    return select(pointwise() ? magnitude != limit : magnitude < limit, rank, bits{0});
  }
  TUCK_HD constexpr uint32_t exponent_of(bits largest_rank) const noexcept {
    const auto exponent = static_cast<uint32_t>(largest_rank >> format::mantissa_bits);
    return pointwise() && exponent != 0 ? exponents - exponent : exponent;
  }
  /// Returns whether a chunk can have this exponent.
  TUCK_HD constexpr bool exponent_is_sound(uint32_t exponent) const noexcept {
    return exponent < (has_exponent() ? exponents : 1);
  }
  TUCK_HD step_quantizer<T> steps(uint32_t exponent) const noexcept {
    if constexpr (sizeof(T) == 2) return step_quantizer<T>::make(steps_.tolerance, exponent);
    return steps_;
  }
  TUCK_HD constexpr mantissa_quantizer<T> mantissas(uint32_t exponent) const noexcept {
    return mantissas_.from(exponent);
  }
#if defined(TUCK_HOST)
  /// Calls visit(quantizer). The codec must be usable.
  template <class Visit> auto with_quantizer(uint32_t exponent, const Visit& visit) const noexcept {
    return pointwise() ? visit(mantissas(exponent)) : visit(steps(exponent));
  }
  /// Returns the bytes of the codes of `count` values, and of the bits of exceptions.
  static constexpr uint32_t codes_bytes(uint32_t count) noexcept {
    constexpr uint32_t most = max_chunk_raw_bytes / sizeof(T);
    const uint32_t values = count < most ? count : most;
    return workspace::bytes_of<T>(values) + workspace::bytes_of<uint32_t>(mask_words(values));
  }
  uint32_t find_exponent(span<const T> values) const noexcept;
  /// Writes the codes of the values, as wide as T, to `codes`. Sets a bit in `fails` for each value that is an
  /// exception and clears the others. Returns the number of exceptions.
  uint32_t codes_of(uint32_t exponent, span<const T> values, std::byte* codes, uint32_t* fails) const noexcept;
  /// Replaces the codes in `restored` by the values that they stand for.
  /// @tparam FromChain whether the codes come from the next stage of a chain and may be any bit patterns
  template <bool FromChain> void restore(uint32_t exponent, span<T> restored) const noexcept;
#endif
  /// @endcond

 private:
#if defined(TUCK_HOST)
  // Calls visit(i, from, x) for each block i of 32 values. `from` points to the block; the last block is padded with
  // zeros. `visit` fills x. If `to` is not null, x is then copied to block i of `to`. Loops inside `visit` have a known
  // length, so compilers vectorize them.
  template <class Visit> static void in_blocks(span<const T> values, std::byte* to, const Visit& visit) noexcept {
    detail::vectorized([&] {
      constexpr uint64_t block = 32 * sizeof(T);
      const std::byte* const from = as_bytes(values).data();
      bits x[32];
      uint64_t i = 0;
      for (; (i + 1) * block <= values.size_bytes(); ++i) {
        visit(i, from + i * block, x);
        if (to != nullptr) std::memcpy(to + i * block, x, block);
      }
      if (const uint64_t rest = values.size_bytes() - i * block; rest != 0) {
        std::byte padded[block] = {};
        std::memcpy(padded, from + i * block, rest);
        visit(i, padded, x);
        if (to != nullptr) std::memcpy(to + i * block, x, rest);
      }
    });
  }
  static bits bits_in(const std::byte* block, uint32_t i) noexcept {
    return load_unaligned<bits>(block + i * sizeof(T));
  }

  // Sets to[i] to visit(value i of from) for 32 values, 16 bytes at a time.
  template <class Visit> static void in_lanes(const std::byte* from, bits (&to)[32], const Visit& visit) noexcept {
    using lanes = exact::lanes<word>;
    for (size_t at = 0; at < sizeof to; at += sizeof(lanes)) {
      auto x = load_unaligned<lanes>(from + at);
      if constexpr (sizeof(T) == 2)
        x = (visit(x & 0xffffu) & 0xffffu) | visit(x >> 16) << 16;
      else
        x = visit(x);
      store_unaligned(reinterpret_cast<std::byte*>(to) + at, x);
    }
  }
#endif

  static constexpr uint32_t exponents = (1u << format::exponent_bits) - 1;  // number of exponents of finite values

  TUCK_HD void set_effective(uint64_t bound) noexcept;
  TUCK_HD static uint64_t scaled_by_range(uint64_t factor, const range_keys& range) noexcept;
  TUCK_HD static bool is_negative(real x) noexcept { return (bits_of(x) & real_format::sign) != 0; }

  bound_mode mode_ = bound_mode::absolute;
  predictor predictor_ = predictor::automatic;
  uint64_t requested_ = 0;  // bits of a double: kernels copy them but never compute with them
  uint64_t effective_ = 0;
  const double* on_device_ = nullptr;
  step_quantizer<T> steps_;          // 16-bit types have only the tolerance here: their step depends on the chunk
  mantissa_quantizer<T> mantissas_;  // mantissas() adds the exponent of the chunk
};

template <floating_element T> TUCK_HD void quantize<T>::set_effective(uint64_t bound) noexcept {
  effective_ = bound;
  if (pointwise()) {
    mantissas_ = mantissa_quantizer<T>::make(bound);
    return;
  }
  steps_.tolerance = detail::tolerance_of<real>(bound);
  if constexpr (sizeof(T) != 2)
    if (steps_.tolerance > 0) steps_ = step_quantizer<T>::make(steps_.tolerance, 0);
}

template <floating_element T>
TUCK_HD status quantize<T>::from_stages(const stage_list& stages, quantize& parsed) noexcept {
  const stage& s = stages.at[0];
  if (s.id != codec_id::quantize) return status::codec_mismatch;
  for (int i = 1; i < max_stages; ++i)
    if (stages.at[i] != stage{}) return status::codec_mismatch;
  if (s.version != 1) return status::bad_version;
  quantize read;
  read.mode_ = static_cast<bound_mode>(s.mode & 15);
  read.predictor_ = static_cast<predictor>(s.mode >> 4);
  if (read.mode_ > bound_mode::pointwise || read.predictor_ > predictor::automatic) return status::bad_parameters;
  const bool of_range = read.needs_range();
  if (!detail::is_bound(s.large) && !(of_range && s.large == 0)) return status::bad_parameters;
  if (of_range ? !detail::is_nearest_f32(s.small_value) : s.small_value != 0) return status::bad_parameters;
  read.requested_ = of_range ? detail::f64_bits_of(__builtin_bit_cast(float, s.small_value)) : s.large;
  read.set_effective(s.large);
  parsed = read;
  return status::ok;
}

template <floating_element T>
TUCK_HD status quantize<T>::prepare(const prepass_result& seen, quantize& prepared) const noexcept {
  quantize made = *this;
  if (on_device_ != nullptr) made.requested_ = seen.parameter;
  if (!detail::is_bound(made.requested_)) return status::bad_bound;
  made.set_effective(needs_range() ? scaled_by_range(made.requested_, seen.range) : made.requested_);
  prepared = made;
  return status::ok;
}

// Returns slightly less than factor * (highest - lowest). Returns 0 if there are no finite values, if all values are
// equal, or if their difference is less than twice the least normal number. The result does not depend on denormal
// flushing.
template <floating_element T>
TUCK_HD uint64_t quantize<T>::scaled_by_range(uint64_t factor, const range_keys& range) noexcept {
  if (range.highest == 0) return 0;
  constexpr real least = sizeof(T) == 8 ? real(0x1p-1021) : real(0x1p-125);
  const real high = value_range<T>::highest_of(range), low = value_range<T>::lowest_of(range);
  // `top` and `bottom` are the ends of the range. If |top| < least, top becomes 0 if it is positive, and -least if it
  // is negative. If |bottom| < least, bottom becomes least if it is positive, and 0 if it is negative. The sign bit
  // decides, also for zeros.
  const real top = real_format::magnitude(bits_of(high)) >= bits_of(least) ? high
                   : is_negative(high)                                     ? -least
                                                                           : real(0);
  const real bottom = real_format::magnitude(bits_of(low)) >= bits_of(least) ? low : is_negative(low) ? real(0) : least;
  if (!(bottom < top)) return 0;
  // Computes with half of the range, because the whole range may overflow `real`. Each operation may round up. The last
  // factor is slightly less than 2. This reduces the result by more than the roundings can add.
  const real half = exact::sub(exact::mul(top, real(.5)), exact::mul(bottom, real(.5)));
  if (bits_of(half) < bits_of(least) / 2) return 0;
  const real bound = exact::mul(exact::mul(detail::tolerance_of<real>(factor), half), real(2) - real(0x1p-19));
  return detail::f64_bits_of(detail::tolerance_of<real>(detail::f64_bits_of(bound)));
}

#if defined(TUCK_HOST)
/// @cond
template <floating_element T> uint32_t quantize<T>::find_exponent(span<const T> values) const noexcept {
  if (!has_exponent()) return 0;
  bits largest = 0;
  in_blocks(values, nullptr, [&](uint64_t, const std::byte* from, bits(&)[32]) {
    bits largest_here = 0;
    for (uint32_t i = 0; i < 32; ++i) {
      const bits here = rank(bits_in(from, i));
      largest_here = here > largest_here ? here : largest_here;
    }
    largest = largest_here > largest ? largest_here : largest;
  });
  return exponent_of(largest);
}

template <floating_element T>
uint32_t quantize<T>::codes_of(uint32_t exponent, span<const T> values, std::byte* codes,
                               uint32_t* fails) const noexcept {
  return with_quantizer(exponent, [&](const auto quantizer) {
    uint32_t exceptions = 0;
    in_blocks(values, codes, [&](uint64_t block, const std::byte* from, bits(&code)[32]) {
      constexpr exact::lanes<word> all = ~exact::lanes<word>{};
      exact::lanes<word> holds = all;
      in_lanes(from, code, [&](auto x) {
        const auto one = quantizer.code(x);
        holds &= one.holds;
        return one.code;
      });
      fails[block] = 0;
      if (std::memcmp(&holds, &all, sizeof all) == 0) return;
      for (uint32_t i = 0; i < 32; ++i)
        fails[block] |= (quantizer.code(word{bits_in(from, i)}).holds == 0 ? 1u : 0u) << i;
      exceptions += popcount(fails[block]);
    });
    return exceptions;
  });
}

template <floating_element T>
template <bool FromChain>
void quantize<T>::restore(uint32_t exponent, span<T> restored) const noexcept {
  with_quantizer(exponent, [&](const auto quantizer) {
    in_blocks(span<const T>(restored), as_writable_bytes(restored).data(),
              [&](uint64_t, const std::byte* from, bits(&x)[32]) {
                in_lanes(from, x, [&](auto code) {
                  return quantizer.value(FromChain || sizeof(T) == 2 ? quantizer.from_chain(code) : code);
                });
              });
  });
}

/// @endcond

template <floating_element T>
uint32_t quantize<T>::encode_chunk(span<const T> values, bytes out, workspace memory) const noexcept {
  if (!is_usable() || values.size_bytes() > max_chunk_raw_bytes) return incompressible;
  const auto count = static_cast<uint32_t>(values.size());
  const uint32_t exponent = find_exponent(values);
  auto* const codes = memory.take<std::byte>(count * uint32_t{sizeof(T)});
  auto* const fails = memory.take<uint32_t>(mask_words(count));
  const uint32_t exceptions = codes_of(exponent, values, codes, fails), side_bytes = side().bytes(exceptions);
  if (side_bytes > limit(count)) return incompressible;
  const uint32_t size =
      groups::encode(codes, count, predicts(), exceptions, limit(count) - side_bytes, out.data(), memory);
  if (size == incompressible) return incompressible;
  side().write(out.data() + size, exponent, exceptions, fails, values);
  return size + side_bytes;
}

template <floating_element T> status quantize<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  const auto count = static_cast<uint32_t>(restored.size());
  if (!is_usable() || encoded.size() < 4 || encoded.size() > limit(count)) return status::bad_payload;
  const uint32_t exceptions = load_unaligned<uint16_t>(encoded.data() + 2);
  const uint32_t max_width = pointwise() ? mantissa_quantizer<T>::max_width : step_quantizer<T>::max_width;
  uint32_t end;
  if (!groups::decode(encoded, count, max_width, as_writable_bytes(restored).data(), end) ||
      end + side().bytes(exceptions) != encoded.size())
    return status::bad_payload;
  const uint32_t exponent = side().exponent(encoded.data() + end);
  if (!exponent_is_sound(exponent)) return status::bad_payload;
  restore<false>(exponent, restored);
  return side().patch(encoded.data() + end, exceptions, restored) ? status::ok : status::bad_payload;
}

#endif

static_assert(adaptive_codec<quantize<float>>);

/// @cond
// -- the variant for chains ------------------------------------------------------------------------------------------

// quantize_codes: quantize as the first stage of a chain, whose next stages compress the codes. Values are coded as in
// quantize, with the same bounds and stage parameters. A chunk of n values has
//
//   side     the side stream (quantizer.hpp); empty if there are no exceptions and no exponent
//   code[n]  the residual values: codes as wide as T in two's complement; exceptions have code 0. Unless the bound is
//            pointwise, decoders use the low 24 bits of an f32 code and the low 31 bits of an f64 code, sign-extended
//
// The size s of the side stream is that of the chunk minus n sizeof(T). The number of exceptions is
// floor((s - p) / (2 + sizeof(T))), where p = 2 if the side stream has an exponent and 0 otherwise. s must be the size
// of a side stream with this number of exceptions. At most 1024 / (2 + sizeof(T)) - 1 exceptions are allowed, so that a
// side stream has at most 1024 bytes. A chunk with more is incompressible. Host and device write the same bytes.

/// First stage of a chain for floating-point values within an error bound. Lossy; models `splitter`.
/// In chains the residual values are the codes; the side stream has the exponent and the exceptions.
/// concept.hpp documents the members that are not described here.
/// @tparam T floating-point element type
template <floating_element T> class quantize_codes {
 public:
  using value_type = T;
  using residual_type = bits_t<T>;
  using side = quantize_side<T>;

  static constexpr uint32_t chunk_bytes = 16 * 1024;
  static constexpr bool lossy = true;
  static constexpr uint32_t max_side = 1024;
  static constexpr uint32_t max_exceptions = max_side / (2 + sizeof(T)) - 1;
  static_assert(side{2}.bytes(max_exceptions) <= max_side);
  static constexpr uint32_t max_growth = max_side + 4;

  /// Constructs a codec without a bound. It decodes any frame; encoding with it fails with bad_bound.
  quantize_codes() = default;
  /// Constructs a codec with a bound.
  TUCK_HD explicit quantize_codes(error_bound bound) noexcept : rule_(bound, predictor::none) {}
  /// Returns the quantizer that makes the codes.
  TUCK_HD constexpr const quantize<T>& rule() const noexcept { return rule_; }

  TUCK_HD constexpr stage_list stages() const noexcept {
    stage_list stages = rule_.stages();
    stages.at[0].id = codec_id::quantize_codes;
    return stages;
  }
  TUCK_HD static status from_stages(const stage_list& stages, quantize_codes& parsed) noexcept {
    if (stages.at[0].id != codec_id::quantize_codes) return status::codec_mismatch;
    stage_list of_rule = stages;
    of_rule.at[0].id = codec_id::quantize;
    if (stages.at[0].mode >> 4 != 0 && stages.at[0].version == 1) return status::bad_parameters;
    return quantize<T>::from_stages(of_rule, parsed.rule_);
  }
  TUCK_HD constexpr status check() const noexcept { return rule_.check(); }
  TUCK_HD constexpr bool needs_range() const noexcept { return rule_.needs_range(); }
  TUCK_HD constexpr const double* device_parameter() const noexcept { return rule_.device_parameter(); }
  TUCK_HD status prepare(const prepass_result& seen, quantize_codes& prepared) const noexcept {
    return rule_.prepare(seen, prepared.rule_);
  }

  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept {
    return count * uint32_t{sizeof(T)} + max_growth;
  }
#if defined(TUCK_HOST)
  static constexpr uint32_t workspace_bytes(uint32_t count) noexcept { return quantize<T>::codes_bytes(count); }
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept {
    return detail::with_workspace(workspace_bytes(static_cast<uint32_t>(values.size())), incompressible,
                                  [&](workspace memory) { return encode_chunk(values, out, memory); });
  }
  uint32_t encode_chunk(span<const T> values, bytes out, workspace memory) const noexcept;
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;
#endif

  TUCK_HD static constexpr uint32_t side_bytes(const_bytes encoded, uint32_t count) noexcept {
    return static_cast<uint32_t>(encoded.size()) - count * uint32_t{sizeof(T)};
  }
  TUCK_HD static constexpr bool side_fits(uint32_t side_bytes, uint32_t residuals, uint32_t count) noexcept {
    return residuals == count && (is_side({0}, side_bytes) || is_side({2}, side_bytes));
  }
  TUCK_HD static constexpr bool is_side(const side& layout, uint32_t size) noexcept {
    return layout.exceptions(size) <= max_exceptions && size == layout.bytes(layout.exceptions(size));
  }

 private:
  quantize<T> rule_{};
};

#if defined(TUCK_HOST)
template <floating_element T>
uint32_t quantize_codes<T>::encode_chunk(span<const T> values, bytes out, workspace memory) const noexcept {
  if (!rule_.is_usable() || values.size_bytes() > max_chunk_raw_bytes) return incompressible;
  const uint32_t exponent = rule_.find_exponent(values);
  const auto count = static_cast<uint32_t>(values.size());
  auto* const codes = memory.take<std::byte>(count * uint32_t{sizeof(T)});
  auto* const fails = memory.take<uint32_t>(mask_words(count));
  const uint32_t exceptions = rule_.codes_of(exponent, values, codes, fails), size = rule_.side().bytes(exceptions);
  if (exceptions > max_exceptions) return incompressible;
  rule_.side().write(out.data(), exponent, exceptions, fails, values);
  std::memcpy(out.data() + size, codes, values.size_bytes());
  return size + static_cast<uint32_t>(values.size_bytes());
}

template <floating_element T>
status quantize_codes<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  if (!rule_.is_usable() || encoded.size() < restored.size_bytes()) return status::bad_payload;
  const uint32_t size = side_bytes(encoded, static_cast<uint32_t>(restored.size()));
  if (!is_side(rule_.side(), size)) return status::bad_payload;
  const uint32_t exponent = rule_.side().exponent(encoded.data());
  if (!rule_.exponent_is_sound(exponent)) return status::bad_payload;
  std::memcpy(restored.data(), encoded.data() + size, restored.size_bytes());
  rule_.template restore<true>(exponent, restored);
  const uint32_t exceptions = rule_.side().exceptions(size);
  return rule_.side().patch(encoded.data(), exceptions, restored) ? status::ok : status::bad_payload;
}

#endif

static_assert(adaptive_codec<quantize_codes<float>> && splitter<quantize_codes<float>>);
/// @endcond

}  // namespace tuck::inline TUCK_ABI
