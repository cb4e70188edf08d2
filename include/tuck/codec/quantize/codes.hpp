// quantize_codes: quantize as the first stage of a chain, which leaves it to the others to make its codes small. The
// values are coded as in quantize.hpp, with the same bounds and the same promises; what differs is only how the codes
// are kept:
//
//   u16 exponent            of 16-bit types: the biased one of the chunk's largest value; of others nothing
//   u16 position[m]         of the values that no code holds, ascending
//   T   exception[m]        these, bit for bit; before them and behind them zeros, to a multiple of sizeof(T) and of 4
//   code[n]                 as wide as T, whole numbers in two's complement: q, or -1 - q of negative ones, so that
//                           neighbouring values have neighbouring codes and -0.0 has its own; exceptions have 0
//
// The side is all before the codes; its size, which that of the chunk tells, says what m is. That is at most
// 1024 / (2 + sizeof(T)) - 1, so that the side has at most 1024 bytes; chunks with more exceptions are declined. The
// bytes are canonical. Decoders refuse sides of other sizes, and exponents and positions as quantize does.
#pragma once

#include <tuck/codec/quantize/quantize.hpp>

namespace tuck::inline TUCK_ABI {

// What host and device must agree upon.
template <floating_element T> struct codes_layout {
  static constexpr uint32_t width = sizeof(T);
  static constexpr uint32_t max_side = 1024;
  static constexpr uint32_t positions = sizeof(T) == 2 ? 2 : 0;  // where they begin

  TUCK_HD static constexpr uint32_t values(uint32_t exceptions) noexcept {
    return ceil_div(positions + 2 * exceptions, width) * width;
  }
  TUCK_HD static constexpr uint32_t side(uint32_t exceptions) noexcept {
    return exceptions == 0 && positions == 0 ? 0 : ceil_div(values(exceptions) + exceptions * width, 4u) * 4;
  }
  // The exceptions of a side that has so many bytes; if none has, such as have another.
  TUCK_HD static constexpr uint32_t exceptions(uint32_t side) noexcept {
    if constexpr (positions > 0)
      if (side < positions) return 0;
    return (side - positions) / (2 + width);
  }
  static constexpr uint32_t max_exceptions = max_side / (2 + width) - 1;
  static_assert(side(max_exceptions) <= max_side);

  // quantizer.hpp's codes, 2 q + s, as whole numbers and back.
  TUCK_HD static constexpr bits_t<T> whole_of(bits_t<T> code) noexcept {
    return static_cast<bits_t<T>>(code >> 1 ^ (0 - (code & 1)));
  }
  TUCK_HD static constexpr bits_t<T> code_of(bits_t<T> whole) noexcept {
    const auto sign = static_cast<bits_t<T>>(whole >> (8 * sizeof(T) - 1));
    return static_cast<bits_t<T>>(static_cast<bits_t<T>>(whole ^ (0 - sign)) << 1 | sign);
  }
};

template <floating_element T> class quantize_codes {
 public:
  using value_type = T;
  using kept_type = bits_t<T>;
  using layout = codes_layout<T>;

  static constexpr uint32_t chunk_bytes = 16 * 1024;
  static constexpr bool lossy = true;
  static constexpr uint32_t max_growth = layout::max_side + 4;

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
  TUCK_HD uint32_t encode_chunk(span<const T> values, bytes room) const noexcept;
  TUCK_HD status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

  TUCK_HD static constexpr uint32_t side_bytes(const_bytes encoded, uint32_t count) noexcept {
    return static_cast<uint32_t>(encoded.size()) - count * uint32_t{sizeof(T)};
  }
  TUCK_HD static constexpr bool side_fits(uint32_t side, uint32_t kept, uint32_t count) noexcept {
    const uint32_t exceptions = layout::exceptions(side);
    return kept == count && exceptions <= layout::max_exceptions && side == layout::side(exceptions);
  }

 private:
  using bits = bits_t<T>;

  template <class Quantizer>
  TUCK_HD static uint32_t encode_with(const Quantizer& quantizer, uint32_t exponent, span<const T> values,
                                      bytes room) noexcept;
  template <class Quantizer>
  TUCK_HD static void restore_with(const Quantizer& quantizer, const_bytes codes, span<T> restored) noexcept;

  quantize<T> rule_{};
};

namespace detail {

// What a code stands for, by either quantizer; of anything.
template <floating_element T>
TUCK_HD bits_t<T> value_of_code(const step_quantizer<T>& quantizer, bits_t<T> code) noexcept {
  return quantizer.value(static_cast<uint32_t>(code));
}
template <floating_element T>
TUCK_HD bits_t<T> value_of_code(const mantissa_quantizer<T>& quantizer, bits_t<T> code) noexcept {
  return quantizer.value(static_cast<bits_t<T>>(code >> 1), (code & 1) != 0);
}

}  // namespace detail

template <floating_element T>
TUCK_HD uint32_t quantize_codes<T>::encode_chunk(span<const T> values, bytes room) const noexcept {
  if (!rule_.is_usable()) return declined;
  const uint32_t exponent = rule_.largest_exponent(values);
  return rule_.pointwise() ? encode_with(rule_.mantissas(), exponent, values, room)
                           : encode_with(rule_.steps(exponent), exponent, values, room);
}

template <floating_element T>
template <class Quantizer>
TUCK_HD uint32_t quantize_codes<T>::encode_with(const Quantizer& quantizer, uint32_t exponent, span<const T> values,
                                                bytes room) noexcept {
  uint32_t exceptions = 0;
  for (const T& value : values) exceptions += quantizer.code(tuck::bits_of(value)).holds ? 0 : 1;
  if (exceptions > layout::max_exceptions) return declined;
  const uint32_t side = layout::side(exceptions);
  std::memset(room.data(), 0, side);
  if constexpr (sizeof(T) == 2) store_unaligned(room.data(), static_cast<uint16_t>(exponent));
  std::byte* next_position = room.data() + layout::positions;
  std::byte* next_value = room.data() + layout::values(exceptions);
  for (uint32_t i = 0; i < values.size(); ++i) {
    const coded<T> one = quantizer.code(tuck::bits_of(values[i]));
    store_unaligned(room.data() + side + i * sizeof(T), layout::whole_of(one.code));
    if (one.holds) continue;
    store_unaligned(next_position, static_cast<uint16_t>(i));
    tuck::store_unaligned(next_value, values[i]);
    next_position += 2;
    next_value += sizeof(T);
  }
  return side + static_cast<uint32_t>(values.size_bytes());
}

template <floating_element T>
TUCK_HD status quantize_codes<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  if (!rule_.is_usable() || encoded.size() < restored.size_bytes()) return status::bad_payload;
  const auto count = static_cast<uint32_t>(restored.size());
  const uint32_t side = side_bytes(encoded, count);
  if (!side_fits(side, count, count)) return status::bad_payload;
  const uint32_t exceptions = layout::exceptions(side);
  uint32_t exponent = 0;
  if constexpr (sizeof(T) == 2) exponent = load_unaligned<uint16_t>(encoded.data());
  if (!rule_.header_is_sound(0, exponent, exceptions, count)) return status::bad_payload;

  const const_bytes codes = encoded.subspan(side, restored.size_bytes());
  if (rule_.pointwise())
    restore_with(rule_.mantissas(), codes, restored);
  else
    restore_with(rule_.steps(exponent), codes, restored);
  uint32_t next = 0;  // the lowest position that the next exception may have
  for (uint32_t i = 0; i < exceptions; ++i) {
    const uint32_t position = load_unaligned<uint16_t>(encoded.data() + layout::positions + 2 * i);
    if (position < next || position >= count) return status::bad_payload;
    next = position + 1;
    std::memcpy(&restored[position], encoded.data() + layout::values(exceptions) + i * sizeof(T), sizeof(T));
  }
  return status::ok;
}

template <floating_element T>
template <class Quantizer>
TUCK_HD void quantize_codes<T>::restore_with(const Quantizer& quantizer, const_bytes codes, span<T> restored) noexcept {
  for (uint32_t i = 0; i < restored.size(); ++i) {
    const bits code = layout::code_of(load_unaligned<bits>(codes.data() + i * sizeof(T)));
    store_unaligned(reinterpret_cast<std::byte*>(&restored[i]), detail::value_of_code(quantizer, code));
  }
}

static_assert(adaptive_codec<quantize_codes<float>> && splitter<quantize_codes<float>>);

}  // namespace tuck::inline TUCK_ABI
