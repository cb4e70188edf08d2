// quantize_codes: quantize as the first stage of a chain, whose next stages compress the codes. Values are coded as in
// quantize.hpp, with the same bounds and stage parameters. A chunk of n values has
//
//   side     the side stream (side.hpp); empty if there are no exceptions and no exponent
//   code[n]  the residual values: codes as wide as T in two's complement; exceptions have code 0. Unless the bound is
//            pointwise, decoders use the low 24 bits of an f32 code and the low 31 bits of an f64 code, sign-extended
//
// The size s of the side stream is that of the chunk minus n sizeof(T). The number of exceptions is
// floor((s - p) / (2 + sizeof(T))), where p = 2 if the side stream has an exponent and 0 otherwise. s must be the size
// of a side stream with this number of exceptions. At most 1024 / (2 + sizeof(T)) - 1 exceptions are allowed, so that a
// side stream has at most 1024 bytes. A chunk with more is incompressible. Host and device write the same bytes.
#pragma once

#include <tuck/codec/quantize/quantize.hpp>

namespace tuck::inline TUCK_ABI {

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
  explicit quantize_codes(error_bound bound) noexcept : rule_(bound, predictor::none) {}
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
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept;
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

  TUCK_HD static constexpr uint32_t side_bytes(const_bytes encoded, uint32_t count) noexcept {
    return static_cast<uint32_t>(encoded.size()) - count * uint32_t{sizeof(T)};
  }
  TUCK_HD static constexpr bool side_fits(uint32_t side_bytes, uint32_t kept, uint32_t count) noexcept {
    return kept == count && (is_side({0}, side_bytes) || is_side({2}, side_bytes));
  }
  TUCK_HD static constexpr bool is_side(const side& form, uint32_t size) noexcept {
    return form.exceptions(size) <= max_exceptions && size == form.bytes(form.exceptions(size));
  }

 private:
  quantize<T> rule_{};
};

template <floating_element T> uint32_t quantize_codes<T>::encode_chunk(span<const T> values, bytes out) const noexcept {
  if (!rule_.is_usable() || values.size_bytes() > max_chunk_raw_bytes) return incompressible;
  const uint32_t exponent = rule_.find_exponent(values);
  uint32_t fails[max_chunk_raw_bytes / sizeof(T) / 32];
  std::byte codes[max_chunk_raw_bytes];
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

static_assert(adaptive_codec<quantize_codes<float>> && splitter<quantize_codes<float>>);

}  // namespace tuck::inline TUCK_ABI
