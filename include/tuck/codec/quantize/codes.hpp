// quantize_codes: quantize as the first stage of a chain, which leaves it to the others to make its codes small. The
// values are coded as in quantize.hpp, with the same bounds; what differs is only how the codes are kept:
//
//   side (side.hpp), empty where there are no exceptions and no exponent
//   code[n]  as wide as T, integers in two's complement; exceptions have 0. Where the bound is not pointwise, decoders
//            take the low 24 bits of f32's, and the low 31 of f64's
//
// The side's size, which that of the chunk tells, says how many exceptions there are: at most
// 1024 / (2 + sizeof(T)) - 1, so that the side has at most 1024 bytes; chunks with more are declined. The bytes are
// canonical.
#pragma once

#include <tuck/codec/quantize/quantize.hpp>

namespace tuck::inline TUCK_ABI {

template <floating_element T> class quantize_codes {
 public:
  using value_type = T;
  using kept_type = bits_t<T>;
  using side = quantize_side<T>;

  static constexpr uint32_t chunk_bytes = 16 * 1024;
  static constexpr bool lossy = true;
  static constexpr uint32_t max_side = 1024;
  static constexpr uint32_t max_exceptions = max_side / (2 + sizeof(T)) - 1;
  static_assert(side{2}.bytes(max_exceptions) <= max_side);
  static constexpr uint32_t max_growth = max_side + 4;

  // As quantize.
  quantize_codes() = default;
  explicit quantize_codes(error_bound bound) noexcept : rule_(bound, predictor::none) {}
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
  TUCK_HD status prepare(const tensor_survey& seen, quantize_codes& prepared) const noexcept {
    return rule_.prepare(seen, prepared.rule_);
  }

  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept {
    return count * uint32_t{sizeof(T)} + max_growth;
  }
  uint32_t encode_chunk(span<const T> values, bytes room) const noexcept;
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

template <floating_element T>
uint32_t quantize_codes<T>::encode_chunk(span<const T> values, bytes room) const noexcept {
  if (!rule_.is_usable() || values.size_bytes() > max_chunk_raw_bytes) return declined;
  const uint32_t exponent = rule_.find_exponent(values);
  uint32_t fails[max_chunk_raw_bytes / sizeof(T) / 32];
  std::byte codes[max_chunk_raw_bytes];
  const uint32_t exceptions = rule_.codes_of(exponent, values, codes, fails), size = rule_.side().bytes(exceptions);
  if (exceptions > max_exceptions) return declined;
  rule_.side().write(room.data(), exponent, exceptions, fails, values);
  std::memcpy(room.data() + size, codes, values.size_bytes());
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
