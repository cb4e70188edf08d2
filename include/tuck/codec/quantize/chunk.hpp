// A chunk of quantize on the host: values to codes, codes to groups of 32 in their shapes, and these to the bytes of
// layout.hpp; and back, from bytes that nobody vouches for. Groups are coded twice, for their sizes and then for their
// bytes, which costs less than keeping all codes.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/quantize/layout.hpp>
#include <tuck/codec/quantize/quantizer.hpp>
#include <tuck/core/bit_stream.hpp>
#include <tuck/core/masks.hpp>

namespace tuck::inline TUCK_ABI::detail {

// By either quantizer; that of mantissas is the pointwise one.
template <floating_element T, class Quantizer> class quantize_chunk {
 public:
  TUCK_HD quantize_chunk(const Quantizer& quantizer, bool predicts) noexcept
      : quantizer_(quantizer), predicts_(predicts) {}

  // Returns the size, or `declined`.
  TUCK_HD uint32_t encode(uint32_t exponent, span<const T> values, bytes room) const noexcept;
  // What begins with four bytes that quantize takes for sound.
  TUCK_HD status decode(const_bytes encoded, span<T> restored) const noexcept;

 private:
  using bits = bits_t<T>;
  using shape = quantize_layout::shape;
  using offsets = quantize_layout::offsets;

  static constexpr bool pointwise = std::is_same_v<Quantizer, mantissa_quantizer<T>>;
  static constexpr uint32_t group = quantize_layout::group;
  static constexpr uint32_t max_groups = 64 * 1024 / sizeof(T) / group;

  struct coded_group {
    uint32_t code[group];
    uint32_t exceptions;  // a bit each
    uint64_t base;
    bool fits;
  };
  // What is kept of a group until the shapes can be chosen.
  struct group_summary {
    uint32_t all_codes;
    uint32_t non_zeros;  // a bit each
    uint32_t delta_width;

    TUCK_HD shape form(uint32_t base_bits) const noexcept {
      return quantize_layout::choose(all_codes, popcount(non_zeros), delta_width, base_bits);
    }
  };

  TUCK_HD coded_group code_group(span<const T> values, uint32_t first) const noexcept;
  TUCK_HD uint32_t summarize(const coded_group& coded, group_summary& summary) const noexcept;
  TUCK_HD static void put_codes(bit_writer& payload, const coded_group& coded, shape form, uint32_t base_bits) noexcept;

  TUCK_HD static bool find_parts(const_bytes encoded, uint32_t count, offsets& at) noexcept;
  TUCK_HD void take_codes(bit_reader& payload, shape form, uint32_t mask, uint32_t base_bits,
                          span<T> restored) const noexcept;

  const Quantizer& quantizer_;
  bool predicts_;
};

// -- encoding ------------------------------------------------------------------------------------------------------

// The codes of 32 values from `first`, zeros past the end. In loops of known length, which compilers turn into vectors.
template <floating_element T, class Quantizer>
TUCK_HD auto quantize_chunk<T, Quantizer>::code_group(span<const T> values, uint32_t first) const noexcept
    -> coded_group {
  bits in[group] = {}, codes[group];
  uint8_t fails[group];
  const uint32_t count = values.size() - first < group ? static_cast<uint32_t>(values.size()) - first : group;
  std::memcpy(in, values.data() + first, count * sizeof(T));
  for (uint32_t i = 0; i < group; ++i) {
    const coded<T> one = quantizer_.code(in[i]);
    codes[i] = one.code;
    fails[i] = !one.holds;
  }
  coded_group g{{}, mask_of_flags(fails), 0, true};
  if constexpr (pointwise) {
    bits smallest_less_one = static_cast<bits>(~bits{0});
    for (uint32_t i = 0; i < group; ++i) {
      const bits less_one = static_cast<bits>((codes[i] >> 1) - 1);  // of zero: the largest
      smallest_less_one = less_one < smallest_less_one ? less_one : smallest_less_one;
    }
    if (smallest_less_one != static_cast<bits>(~bits{0})) g.base = smallest_less_one;
    bits highest = 0;
    for (uint32_t i = 0; i < group; ++i) {
      codes[i] = static_cast<bits>(codes[i] - (codes[i] >> 1 != 0 ? g.base << 1 : 0));
      highest |= codes[i];
    }
    g.fits = highest >> 1 >> Quantizer::code_bits == 0;
  }
  for (uint32_t i = 0; i < group; ++i) g.code[i] = static_cast<uint32_t>(codes[i]);
  return g;
}

// Returns the bits that the group's base would take.
template <floating_element T, class Quantizer>
TUCK_HD uint32_t quantize_chunk<T, Quantizer>::summarize(const coded_group& coded,
                                                         group_summary& summary) const noexcept {
  using namespace quantize_layout;
  uint32_t all_codes = 0, differences = 0;
  uint8_t non_zeros[group];
  bool negative_zero = false;
  for (uint32_t i = 0; i < group; ++i) {
    all_codes |= coded.code[i];
    non_zeros[i] = coded.code[i] != 0;
    negative_zero |= coded.code[i] == 1;
  }
  for (uint32_t i = 1; i < group; ++i) differences |= zigzag(whole_of(coded.code[i]) - whole_of(coded.code[i - 1]));
  summary = {all_codes, mask_of_flags(non_zeros), no_delta};
  if (summary.non_zeros == 0) return 0;
  if (pointwise) return bit_width(coded.base);
  if (!predicts_) return 0;
  if (!negative_zero) summary.delta_width = bit_width(differences);
  return bit_width(coded.code[0]);
}

template <floating_element T, class Quantizer>
TUCK_HD uint32_t quantize_chunk<T, Quantizer>::encode(uint32_t exponent, span<const T> values,
                                                      bytes room) const noexcept {
  using namespace quantize_layout;
  const auto count = static_cast<uint32_t>(values.size());
  const uint32_t groups = ceil_div(count, group);
  if (groups > max_groups) return declined;
  group_summary summaries[max_groups];
  uint32_t base_bits = 0, exceptions = 0;
  for (uint32_t i = 0; i < groups; ++i) {
    const coded_group coded = code_group(values, group * i);
    if (!coded.fits) return declined;
    const uint32_t own = summarize(coded, summaries[i]);
    base_bits = own > base_bits ? own : base_bits;
    exceptions += popcount(coded.exceptions);
  }

  uint32_t non_zero_groups = 0, sparse_groups = 0, payload_bits = 0;
  for (uint32_t i = 0; i < groups; ++i) {
    const group_summary& s = summaries[i];
    if (s.non_zeros == 0) continue;
    const shape form = s.form(base_bits);
    ++non_zero_groups;
    sparse_groups += form.is_sparse() ? 1 : 0;
    payload_bits += form.payload_bits(popcount(s.non_zeros), base_bits, pointwise);
  }
  const offsets at = offsets_of(groups, non_zero_groups, sparse_groups, payload_bits, exceptions, sizeof(T));
  if (at.end > most_bytes(count * uint32_t{sizeof(T)})) return declined;

  std::byte* const out = room.data();
  std::memset(out, 0, at.payload);
  out[0] = static_cast<std::byte>(base_bits);
  out[1] = static_cast<std::byte>(exponent);
  store_unaligned(out + 2, static_cast<uint16_t>(exceptions));
  std::memset(out + at.positions, 0, at.values - at.positions);
  bit_writer payload(out + at.payload);
  std::byte* next_shape = out + at.shapes;
  std::byte* next_mask = out + at.masks;
  std::byte* next_position = out + at.positions;
  std::byte* next_value = out + at.values;
  for (uint32_t i = 0; i < groups; ++i) {
    const coded_group coded = code_group(values, group * i);
    for (uint32_t left = coded.exceptions; left != 0; left &= left - 1) {
      const uint32_t position = group * i + trailing_zeros(left);
      store_unaligned(next_position, static_cast<uint16_t>(position));
      store_unaligned(next_value, values[position]);
      next_position += 2;
      next_value += sizeof(T);
    }
    const group_summary& s = summaries[i];
    if (s.non_zeros == 0) continue;
    std::byte& non_zero = out[non_zero_at + i / 8];  // whose operators are the host's
    non_zero = static_cast<std::byte>(static_cast<uint32_t>(non_zero) | 1u << i % 8);
    const shape form = s.form(base_bits);
    *next_shape++ = static_cast<std::byte>(form.byte);
    if (form.is_sparse()) {
      store_unaligned(next_mask, s.non_zeros);
      next_mask += 4;
    }
    put_codes(payload, coded, form, base_bits);
  }
  payload.finish();
  return at.end;
}

template <floating_element T, class Quantizer>
TUCK_HD void quantize_chunk<T, Quantizer>::put_codes(bit_writer& payload, const coded_group& coded, shape form,
                                                     uint32_t base_bits) noexcept {
  using namespace quantize_layout;
  if (form.is_delta()) {
    payload.put(coded.code[0], base_bits);
    for (uint32_t k = 1; k < group; ++k)
      payload.put(zigzag(whole_of(coded.code[k]) - whole_of(coded.code[k - 1])), form.width());
    return;
  }
  if (pointwise) payload.put_wide(coded.base, base_bits);
  for (uint32_t k = 0; k < group; ++k)
    if (!form.is_sparse() || coded.code[k] != 0)
      payload.put(form.is_signed() ? coded.code[k] : coded.code[k] >> 1, form.width());
}

// -- decoding ------------------------------------------------------------------------------------------------------

// Sizes first: nothing is read before it is known to be there. False: they are not what the bytes say.
template <floating_element T, class Quantizer>
TUCK_HD bool quantize_chunk<T, Quantizer>::find_parts(const_bytes encoded, uint32_t count, offsets& at) noexcept {
  using namespace quantize_layout;
  const std::byte* const in = encoded.data();
  const uint32_t groups = ceil_div(count, group), base_bits = static_cast<uint32_t>(in[0]);
  const uint32_t exceptions = load_unaligned<uint16_t>(in + 2);
  const uint32_t shapes_at = non_zero_at + 4 * ceil_div(groups, group);
  if (encoded.size() < shapes_at) return false;
  uint32_t non_zero_groups = 0, last = 0;
  for (uint32_t i = non_zero_at; i < shapes_at; i += 4) {
    last = load_unaligned<uint32_t>(in + i);
    non_zero_groups += popcount(last);
  }
  if (groups % group != 0 && (last & ~low_mask(groups % group)) != 0) return false;
  const uint32_t masks_at = offsets_of(groups, non_zero_groups, 0, 0, 0, 0).masks;
  if (encoded.size() < masks_at) return false;
  uint32_t sparse_groups = 0;
  for (uint32_t i = 0; i < non_zero_groups; ++i)
    sparse_groups += shape{static_cast<uint8_t>(in[shapes_at + i])}.is_sparse() ? 1 : 0;
  if (encoded.size() < masks_at + 4 * uint64_t{sparse_groups}) return false;
  uint32_t payload_bits = 0, mask_at = masks_at;
  for (uint32_t i = 0; i < non_zero_groups; ++i) {
    const shape form{static_cast<uint8_t>(in[shapes_at + i])};
    if (!form.is_sound(Quantizer::code_bits, pointwise)) return false;
    uint32_t non_zeros = 0;
    if (form.is_sparse()) {
      non_zeros = popcount(load_unaligned<uint32_t>(in + mask_at));
      mask_at += 4;
    }
    payload_bits += form.payload_bits(non_zeros, base_bits, pointwise);
  }
  at = offsets_of(groups, non_zero_groups, sparse_groups, payload_bits, exceptions, sizeof(T));
  return encoded.size() == at.end;
}

template <floating_element T, class Quantizer>
TUCK_HD status quantize_chunk<T, Quantizer>::decode(const_bytes encoded, span<T> restored) const noexcept {
  using namespace quantize_layout;
  const std::byte* const in = encoded.data();
  const auto count = static_cast<uint32_t>(restored.size());
  offsets at;
  if (!find_parts(encoded, count, at)) return status::bad_payload;

  bit_reader payload(in + at.payload, at.positions - at.payload);
  const std::byte* next_shape = in + at.shapes;
  const std::byte* next_mask = in + at.masks;
  for (uint32_t i = 0; i < ceil_div(count, group); ++i) {
    const uint32_t first = group * i, length = count - first < group ? count - first : group;
    if ((static_cast<uint32_t>(in[non_zero_at + i / 8]) >> i % 8 & 1) == 0) {
      std::memset(restored.data() + first, 0, length * sizeof(T));
      continue;
    }
    const shape form{static_cast<uint8_t>(*next_shape++)};
    uint32_t mask = ~0u;
    if (form.is_sparse()) {
      mask = load_unaligned<uint32_t>(next_mask);
      next_mask += 4;
    }
    take_codes(payload, form, mask, static_cast<uint32_t>(in[0]), restored.subspan(first, length));
  }

  const uint32_t exceptions = load_unaligned<uint16_t>(in + 2);
  uint32_t next = 0;  // the lowest position that the next exception may have
  for (uint32_t i = 0; i < exceptions; ++i) {
    const uint32_t position = load_unaligned<uint16_t>(in + at.positions + 2 * i);
    if (position < next || position >= count) return status::bad_payload;
    next = position + 1;
    std::memcpy(restored.data() + position, in + at.values + i * sizeof(T), sizeof(T));
  }
  return status::ok;
}

// A group always has 32 codes; `restored` takes as many as there are values.
template <floating_element T, class Quantizer>
TUCK_HD void quantize_chunk<T, Quantizer>::take_codes(bit_reader& payload, shape form, uint32_t mask,
                                                      uint32_t base_bits, span<T> restored) const noexcept {
  using namespace quantize_layout;
  uint64_t base = 0;
  if (pointwise) base = payload.take_wide(base_bits);
  uint32_t sum = form.is_delta() ? static_cast<uint32_t>(whole_of(payload.take(base_bits))) : 0;
  for (uint32_t k = 0; k < group; ++k) {
    uint32_t code = 0;
    if (form.is_delta()) {
      if (k > 0) sum += unzigzag(payload.take(form.width()));
      code = code_of(sum);
    } else if ((mask >> k & 1) != 0) {
      code = payload.take(form.width()) << (form.is_signed() ? 0 : 1);
    }
    if (k >= restored.size()) continue;
    bits value;
    if constexpr (pointwise)
      value = quantizer_.value(code >> 1 == 0 ? bits{0} : static_cast<bits>((code >> 1) + base), (code & 1) != 0);
    else
      value = quantizer_.value(code);
    store_unaligned(reinterpret_cast<std::byte*>(restored.data() + k), value);
  }
}

}  // namespace tuck::inline TUCK_ABI::detail
