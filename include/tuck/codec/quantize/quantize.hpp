// Error-bounded quantization: the only lossy codec. Each finite value comes back within the bound, counted after
// rounding to its type; zeros come back as they were, sign included, and NaN, infinities and whatever else the bound
// cannot hold bit for bit. That is verified value by value while encoding.
//
// Steps of twice the bound, kept in groups of 32 values by the fewest bits that hold them: the family of cuSZ (Tian et
// al., PACT 2020) and cuSZp (Huang et al., SC 2023). Here is the codec with its bound; layout.hpp says where things
// are, quantizer.hpp how they are computed, chunk.hpp does both. The bytes are canonical: host and device write the
// same.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/quantize/chunk.hpp>
#include <tuck/codec/quantize/layout.hpp>
#include <tuck/codec/quantize/quantizer.hpp>

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

  // Which refers to its quantizer.
  template <class Quantizer> TUCK_HD auto chunk_by(const Quantizer& quantizer) const noexcept {
    return detail::quantize_chunk<T, Quantizer>(quantizer, predicts());
  }

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
  if (pointwise()) return chunk_by(mantissas_).encode(exponent, values, room);
  const step_quantizer<T> by = steps(exponent);
  return chunk_by(by).encode(exponent, values, room);
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
  const uint32_t base_bits = static_cast<uint32_t>(encoded[0]), exponent = static_cast<uint32_t>(encoded[1]);
  const uint32_t exceptions = load_unaligned<uint16_t>(encoded.data() + 2);
  if (!header_is_sound(base_bits, exponent, exceptions, static_cast<uint32_t>(restored.size())))
    return status::bad_payload;
  if (pointwise()) return chunk_by(mantissas_).decode(encoded, restored);
  const step_quantizer<T> by = steps(exponent);
  return chunk_by(by).decode(encoded, restored);
}

static_assert(adaptive_codec<quantize<float>>);

}  // namespace tuck::inline TUCK_ABI
