// Error-bounded quantization: the only lossy codec. Each finite value comes back within the bound, counted after
// rounding to its type; zeros come back as they were, sign included, and NaN, infinities and whatever else the bound
// cannot hold bit for bit. That is verified value by value while encoding.
//
// Steps of twice the bound, kept in groups of 32 values by the fewest bits that hold them: the family of cuSZ (Tian et
// al., PACT 2020) and cuSZp (Huang et al., SC 2023). layout.hpp says where things are, quantizer.hpp how they are
// computed. The bytes are canonical: host and device write the same.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/quantize/layout.hpp>
#include <tuck/codec/quantize/quantizer.hpp>
#include <tuck/core/bit_stream.hpp>

namespace tuck::inline TUCK_ABI {

template <floating_element T> class quantize {
 public:
  using value_type = T;
  using bits = bits_t<T>;
  using format = float_format<T>;
  using real = typename format::real;
  using real_format = float_format<real>;

  static constexpr uint32_t chunk_bytes = 16 * 1024;
  static constexpr bool lossy = true;

  // Without a bound, which encoding refuses: for decoding, where the frame knows it.
  quantize() = default;
  explicit quantize(error_bound bound, predictor prediction = predictor::automatic) noexcept
      : mode_(bound.mode), predictor_(prediction), requested_(bits_of(bound.value)), on_device_(bound.on_device) {
    if (mode_ != bound_mode::range_relative && on_device_ == nullptr && detail::is_bound(requested_))
      set_effective(requested_);
  }

  TUCK_HD constexpr bound_mode mode() const noexcept { return mode_; }
  // As asked for; of a frame with a range-relative bound to within a float's precision.
  constexpr double requested_bound() const noexcept { return __builtin_bit_cast(double, requested_); }
  // What holds for each value: the absolute bound, or the pointwise one. 0 before a range-relative bound has met its
  // tensor, or where that has no range; then only values that compress without loss do.
  constexpr double effective_bound() const noexcept { return __builtin_bit_cast(double, effective_); }

  TUCK_HD constexpr stage_list stages() const noexcept {
    const bool of_range = mode_ == bound_mode::range_relative;
    return {{{.id = codec_id::quantize,
              .version = 1,
              .mode = static_cast<uint8_t>(static_cast<uint32_t>(mode_) | static_cast<uint32_t>(predictor_) << 4),
              .small = of_range && detail::is_bound(requested_) ? bits_of(detail::nearest_f32(requested_)) : 0,
              .large = effective_}}};
  }
  TUCK_HD static status from_stages(const stage_list& stages, quantize& parsed) noexcept;

  // -- what an adaptive codec has, see codec/concept.hpp
  TUCK_HD constexpr status check() const noexcept {
    if (mode_ > bound_mode::pointwise || predictor_ > predictor::automatic) return status::invalid_argument;
    return on_device_ != nullptr || detail::is_bound(requested_) ? status::ok : status::bad_bound;
  }
  TUCK_HD constexpr bool needs_range() const noexcept { return mode_ == bound_mode::range_relative; }
  TUCK_HD constexpr const double* device_parameter() const noexcept { return on_device_; }
  TUCK_HD status prepare(const tensor_survey& seen, quantize& prepared) const noexcept;

  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count * uint32_t{sizeof(T)}; }
  TUCK_HD uint32_t encode_chunk(span<const T> values, bytes room) const noexcept;
  TUCK_HD status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

  // -- for the block codec, and for quantize_codes
  TUCK_HD uint32_t largest_exponent(span<const T> values) const noexcept;
  TUCK_HD constexpr bool pointwise() const noexcept { return mode_ == bound_mode::pointwise; }
  TUCK_HD constexpr bool predicts() const noexcept { return !pointwise() && predictor_ == predictor::automatic; }
  // Whether there is a step to quantize by.
  TUCK_HD constexpr bool is_usable() const noexcept { return pointwise() ? effective_ != 0 : steps_.tolerance > 0; }
  TUCK_HD step_quantizer<T> steps(uint32_t exponent) const noexcept {
    if constexpr (sizeof(T) == 2) return step_quantizer<T>::make(steps_.tolerance, exponent);
    return steps_;
  }
  TUCK_HD constexpr mantissa_quantizer<T> mantissas() const noexcept { return mantissas_; }
  // Of a chunk of `count` untrusted values: can its first four bytes be so?
  TUCK_HD constexpr bool header_is_sound(uint32_t base_bits, uint32_t exponent, uint32_t exceptions,
                                         uint32_t count) const noexcept {
    const uint32_t most_bits = pointwise() ? 8 * sizeof(T) - 1 : step_quantizer<T>::code_bits + 1;
    const uint32_t exponents = sizeof(T) == 2 && !pointwise() ? 1u << format::exponent_bits : 2;
    return base_bits <= most_bits && exponent < exponents - 1 && exceptions <= count;
  }

 private:
  static constexpr uint32_t max_groups = 64 * 1024 / sizeof(T) / quantize_layout::group;

  struct coded_group {
    uint32_t code[quantize_layout::group];
    uint32_t exceptions;  // a bit each
    uint64_t base;
    bool fits;
  };
  // What is kept of a group until the shapes can be chosen.
  struct group_summary {
    uint32_t all_codes;
    uint32_t non_zeros;  // a bit each
    uint32_t delta_width;
  };

  // Bit i: flags[i], which is 0 or 1.
  TUCK_HD static uint32_t mask_of_flags(const uint8_t (&flags)[quantize_layout::group]) noexcept {
    uint32_t mask = 0;
    for (uint32_t b = 0; b < 4; ++b)
      mask |=
          static_cast<uint32_t>(
              load_unaligned<uint64_t>(reinterpret_cast<const std::byte*>(flags) + 8 * b) * 0x0102040810204080u >> 56)
          << (8 * b);
    return mask;
  }

  TUCK_HD void set_effective(uint64_t bound) noexcept;
  TUCK_HD static uint64_t scaled_by_range(uint64_t factor, const range_keys& range) noexcept;
  TUCK_HD static bool is_negative(real x) noexcept { return (bits_of(x) & real_format::sign) != 0; }
  // A double's bits of a bound that was computed: 0 where it is too small for steps, and at most what tolerance_f32 and
  // tolerance_f64 give.
  TUCK_HD static uint64_t bounded_bits(real bound) noexcept {
    constexpr real least = sizeof(T) == 8 ? real(0x1p-1000) : real(0x1p-125);
    constexpr real most = sizeof(T) == 8 ? real(0x1p1000) : real(0x1p120);
    if (bits_of(bound) < bits_of(least)) return 0;
    const real kept = bits_of(bound) < bits_of(most) ? bound : most;
    if constexpr (sizeof(T) == 8)
      return bits_of(kept);
    else
      return detail::f64_bits_of(kept);
  }

  template <class Quantizer>
  TUCK_HD static coded_group code_group(const Quantizer& quantizer, span<const T> values, uint32_t first) noexcept;
  TUCK_HD uint32_t summarize(const coded_group& coded, group_summary& summary) const noexcept;
  template <class Quantizer>
  TUCK_HD uint32_t encode_with(const Quantizer& quantizer, uint32_t exponent, span<const T> values,
                               bytes room) const noexcept;
  template <class Quantizer>
  TUCK_HD status decode_with(const Quantizer& quantizer, const_bytes encoded, span<T> restored) const noexcept;

  bound_mode mode_ = bound_mode::absolute;
  predictor predictor_ = predictor::automatic;
  uint64_t requested_ = 0;  // doubles as bits: kernels carry them and never compute with them
  uint64_t effective_ = 0;
  const double* on_device_ = nullptr;
  step_quantizer<T> steps_;  // of 16-bit types only the tolerance: their step depends on the chunk
  mantissa_quantizer<T> mantissas_;
};

template <floating_element T> TUCK_HD void quantize<T>::set_effective(uint64_t bound) noexcept {
  effective_ = bound;
  if (pointwise()) {
    mantissas_ = mantissa_quantizer<T>::make(bound);
    return;
  }
  real tolerance;
  if constexpr (sizeof(T) == 8)
    tolerance = detail::tolerance_f64(bound);
  else
    tolerance = detail::tolerance_f32(bound);
  steps_.tolerance = tolerance;
  if constexpr (sizeof(T) != 2)
    if (tolerance > 0) steps_ = step_quantizer<T>::make(tolerance, 0);
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
  if (of_range ? !detail::is_nearest_f32(s.small) : s.small != 0) return status::bad_parameters;
  read.requested_ = of_range ? detail::f64_bits_of(__builtin_bit_cast(float, s.small)) : s.large;
  read.set_effective(s.large);
  parsed = read;
  return status::ok;
}

template <floating_element T>
TUCK_HD status quantize<T>::prepare(const tensor_survey& seen, quantize& prepared) const noexcept {
  quantize made = *this;
  if (on_device_ != nullptr) made.requested_ = seen.parameter;
  if (!detail::is_bound(made.requested_)) return status::bad_bound;
  made.set_effective(needs_range() ? scaled_by_range(made.requested_, seen.range) : made.requested_);
  prepared = made;
  return status::ok;
}

// A little less than factor * (highest - lowest), and 0 where there is no range: none finite, all the same, or a
// difference that is no normal number. Nothing here depends on whether denormals are flushed.
template <floating_element T>
TUCK_HD uint64_t quantize<T>::scaled_by_range(uint64_t factor, const range_keys& range) noexcept {
  if (range.highest == 0) return 0;
  constexpr real least = sizeof(T) == 8 ? real(0x1p-1022) : real(0x1p-126);
  const real high = value_range<T>::highest_of(range), low = value_range<T>::lowest_of(range);
  // Ends that are denormal move inwards to the next number that is not.
  const real top = real_format::magnitude(bits_of(high)) >= bits_of(least) ? high
                   : is_negative(high)                                     ? -least
                                                                           : real(0);
  const real bottom = real_format::magnitude(bits_of(low)) >= bits_of(least) ? low : is_negative(low) ? real(0) : least;
  if (!(bottom < top)) return 0;
  real scale;
  if constexpr (sizeof(T) == 8)
    scale = detail::tolerance_f64(factor);
  else
    scale = detail::tolerance_f32(factor);
  // Each operation rounds; what the last factor takes off is more than that can have added. A range too large for its
  // type is halved first.
  real bound = exact::sub(top, bottom);
  if (bits_of(bound) < bits_of(least)) return 0;
  if (bits_of(bound) < real_format::infinity)
    bound = exact::mul(exact::mul(scale, bound), real(1) - real(0x1p-20));
  else
    bound = exact::mul(exact::mul(scale, exact::sub(exact::mul(top, real(.5)), exact::mul(bottom, real(.5)))),
                       real(2) - real(0x1p-19));
  return bounded_bits(bound);
}

template <floating_element T>
TUCK_HD uint32_t quantize<T>::encode_chunk(span<const T> values, bytes room) const noexcept {
  if (!is_usable()) return declined;
  const uint32_t exponent = largest_exponent(values);
  return pointwise() ? encode_with(mantissas_, exponent, values, room)
                     : encode_with(steps(exponent), exponent, values, room);
}

// The biased exponent of the largest finite value, where the step depends on it; else 0.
template <floating_element T> TUCK_HD uint32_t quantize<T>::largest_exponent(span<const T> values) const noexcept {
  bits largest = 0;
  if (sizeof(T) == 2 && !pointwise())
    for (const T& value : values) {
      const bits magnitude = format::magnitude(tuck::bits_of(value));
      if (magnitude < format::infinity && magnitude > largest) largest = magnitude;
    }
  return static_cast<uint32_t>(largest >> format::mantissa_bits);
}

template <floating_element T>
TUCK_HD status quantize<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  if (!is_usable() || encoded.size() < 4) return status::bad_payload;
  if (pointwise()) return decode_with(mantissas_, encoded, restored);
  return decode_with(steps(static_cast<uint32_t>(encoded[1])), encoded, restored);
}

// The codes of 32 values from `first`, zeros past the end. In loops of known length, which compilers turn into vectors.
template <floating_element T>
template <class Quantizer>
TUCK_HD auto quantize<T>::code_group(const Quantizer& quantizer, span<const T> values, uint32_t first) noexcept
    -> coded_group {
  using namespace quantize_layout;
  bits in[group] = {}, codes[group];
  uint8_t fails[group];
  const uint32_t count = values.size() - first < group ? static_cast<uint32_t>(values.size()) - first : group;
  std::memcpy(in, values.data() + first, count * sizeof(T));
  for (uint32_t i = 0; i < group; ++i) {
    const coded<T> one = quantizer.code(in[i]);
    codes[i] = one.code;
    fails[i] = !one.holds;
  }
  coded_group g{{}, mask_of_flags(fails), 0, true};
  if constexpr (std::is_same_v<Quantizer, mantissa_quantizer<T>>) {
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
template <floating_element T>
TUCK_HD uint32_t quantize<T>::summarize(const coded_group& coded, group_summary& summary) const noexcept {
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
  if (pointwise()) return bit_width(coded.base);
  if (!predicts()) return 0;
  if (!negative_zero) summary.delta_width = bit_width(differences);
  return bit_width(coded.code[0]);
}

template <floating_element T>
template <class Quantizer>
TUCK_HD uint32_t quantize<T>::encode_with(const Quantizer& quantizer, uint32_t exponent, span<const T> values,
                                          bytes room) const noexcept {
  using namespace quantize_layout;
  const auto count = static_cast<uint32_t>(values.size());
  const uint32_t groups = ceil_div(count, group);
  if (groups > max_groups) return declined;
  group_summary summaries[max_groups];
  uint32_t base_bits = 0, exceptions = 0;
  for (uint32_t i = 0; i < groups; ++i) {
    const coded_group coded = code_group(quantizer, values, group * i);
    if (!coded.fits) return declined;
    const uint32_t own = summarize(coded, summaries[i]);
    base_bits = own > base_bits ? own : base_bits;
    exceptions += popcount(coded.exceptions);
  }

  uint32_t non_zero_groups = 0, sparse_groups = 0, payload_bits = 0;
  for (uint32_t i = 0; i < groups; ++i) {
    const group_summary& s = summaries[i];
    if (s.non_zeros == 0) continue;
    const shape form = choose(s.all_codes, popcount(s.non_zeros), s.delta_width, base_bits);
    ++non_zero_groups;
    sparse_groups += form.is_sparse() ? 1 : 0;
    payload_bits += form.payload_bits(popcount(s.non_zeros), base_bits, pointwise());
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
    const coded_group coded = code_group(quantizer, values, group * i);
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
    const shape form = choose(s.all_codes, popcount(s.non_zeros), s.delta_width, base_bits);
    *next_shape++ = static_cast<std::byte>(form.byte);
    if (form.is_delta()) {
      payload.put(coded.code[0], base_bits);
      for (uint32_t k = 1; k < group; ++k)
        payload.put(zigzag(whole_of(coded.code[k]) - whole_of(coded.code[k - 1])), form.width());
      continue;
    }
    if (pointwise()) payload.put_wide(coded.base, base_bits);
    if (form.is_sparse()) {
      store_unaligned(next_mask, s.non_zeros);
      next_mask += 4;
    }
    for (uint32_t k = 0; k < group; ++k)
      if (!form.is_sparse() || coded.code[k] != 0)
        payload.put(form.is_signed() ? coded.code[k] : coded.code[k] >> 1, form.width());
  }
  payload.finish();
  return at.end;
}

template <floating_element T>
template <class Quantizer>
TUCK_HD status quantize<T>::decode_with(const Quantizer& quantizer, const_bytes encoded,
                                        span<T> restored) const noexcept {
  using namespace quantize_layout;
  const std::byte* const in = encoded.data();
  const auto count = static_cast<uint32_t>(restored.size());
  const uint32_t groups = ceil_div(count, group), base_bits = static_cast<uint32_t>(in[0]);
  const uint32_t exponent = static_cast<uint32_t>(in[1]), exceptions = load_unaligned<uint16_t>(in + 2);
  if (!header_is_sound(base_bits, exponent, exceptions, count)) return status::bad_payload;

  // Sizes first: nothing is read before it is known to be there.
  const uint32_t shapes_at = non_zero_at + 4 * ceil_div(groups, group);
  if (encoded.size() < shapes_at) return status::bad_payload;
  uint32_t non_zero_groups = 0, last = 0;
  for (uint32_t i = non_zero_at; i < shapes_at; i += 4) {
    last = load_unaligned<uint32_t>(in + i);
    non_zero_groups += popcount(last);
  }
  if (groups % group != 0 && (last & ~low_mask(groups % group)) != 0) return status::bad_payload;
  const uint32_t masks_at = offsets_of(groups, non_zero_groups, 0, 0, 0, 0).masks;
  if (encoded.size() < masks_at) return status::bad_payload;
  uint32_t sparse_groups = 0;
  for (uint32_t i = 0; i < non_zero_groups; ++i)
    sparse_groups += shape{static_cast<uint8_t>(in[shapes_at + i])}.is_sparse() ? 1 : 0;
  if (encoded.size() < masks_at + 4 * uint64_t{sparse_groups}) return status::bad_payload;
  uint32_t payload_bits = 0, mask_at = masks_at;
  for (uint32_t i = 0; i < non_zero_groups; ++i) {
    const shape form{static_cast<uint8_t>(in[shapes_at + i])};
    if (!form.is_sound(Quantizer::code_bits, pointwise())) return status::bad_payload;
    uint32_t non_zeros = 0;
    if (form.is_sparse()) {
      non_zeros = popcount(load_unaligned<uint32_t>(in + mask_at));
      mask_at += 4;
    }
    payload_bits += form.payload_bits(non_zeros, base_bits, pointwise());
  }
  const offsets at = offsets_of(groups, non_zero_groups, sparse_groups, payload_bits, exceptions, sizeof(T));
  if (encoded.size() != at.end) return status::bad_payload;

  bit_reader payload(in + at.payload, at.positions - at.payload);
  const std::byte* next_shape = in + at.shapes;
  const std::byte* next_mask = in + at.masks;
  for (uint32_t i = 0; i < groups; ++i) {
    const uint32_t first = group * i, length = count - first < group ? count - first : group;
    T* const out = restored.data() + first;
    if ((static_cast<uint32_t>(in[non_zero_at + i / 8]) >> i % 8 & 1) == 0) {
      std::memset(out, 0, length * sizeof(T));
      continue;
    }
    const shape form{static_cast<uint8_t>(*next_shape++)};
    uint32_t mask = ~0u;
    if (form.is_sparse()) {
      mask = load_unaligned<uint32_t>(next_mask);
      next_mask += 4;
    }
    uint64_t base = 0;
    if (pointwise()) base = payload.take_wide(base_bits);
    uint32_t sum = form.is_delta() ? static_cast<uint32_t>(whole_of(payload.take(base_bits))) : 0;
    for (uint32_t k = 0; k < group; ++k) {
      uint32_t code = 0;
      if (form.is_delta()) {
        if (k > 0) sum += unzigzag(payload.take(form.width()));
        code = code_of(sum);
      } else if ((mask >> k & 1) != 0) {
        code = payload.take(form.width()) << (form.is_signed() ? 0 : 1);
      }
      if (k >= length) continue;
      bits value;
      if constexpr (std::is_same_v<Quantizer, mantissa_quantizer<T>>)
        value = quantizer.value(code >> 1 == 0 ? bits{0} : static_cast<bits>((code >> 1) + base), (code & 1) != 0);
      else
        value = quantizer.value(code);
      store_unaligned(reinterpret_cast<std::byte*>(out + k), value);
    }
  }

  uint32_t next = 0;  // the lowest position that the next exception may have
  for (uint32_t i = 0; i < exceptions; ++i) {
    const uint32_t position = load_unaligned<uint16_t>(in + at.positions + 2 * i);
    if (position < next || position >= count) return status::bad_payload;
    next = position + 1;
    std::memcpy(restored.data() + position, in + at.values + i * sizeof(T), sizeof(T));
  }
  return status::ok;
}

static_assert(adaptive_codec<quantize<float>>);

}  // namespace tuck::inline TUCK_ABI
