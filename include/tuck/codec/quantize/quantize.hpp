// Error-bounded quantization: the only lossy codec. Each finite value comes back within the bound, counted after
// rounding to its type. Zeros come back as zeros (0.0 where the bound is not pointwise); NaN, infinities and what else
// the bound cannot hold come back bit for bit. That is verified value by value while encoding.
//
// Steps of twice the bound, kept in groups of 32 values by the fewest bits that hold them: the family of cuSZ (Tian et
// al., PACT 2020) and cuSZp (Huang et al., SC 2023). A chunk is its values' codes (quantizer.hpp) as bitpack's groups
// (bitpack/groups.hpp), with the number of exceptions as `more`, and behind them the side (side.hpp). A chunk of more
// than 7/8 of its values' bytes is not worth its decoding: encoders decline, and decoders refuse it. The bytes are
// canonical: host and device write the same.
//
// In the frame's header the stage of quantize, and of quantize_codes, has
//
//   mode    bits 0 to 3: bound_mode; 4 to 7: predictor, 0 in chains
//   small   the factor of a range-relative bound as an f32's bits, rounded to nearest; else 0
//   large   the bound that holds for each value as a double's bits, positive and finite: the absolute one, or the
//           pointwise one. 0 where a tensor has no range, and then no chunk is encoded
#pragma once

#include <tuck/codec/bitpack/host_groups.hpp>
#include <tuck/codec/quantize/quantizer.hpp>
#include <tuck/codec/quantize/side.hpp>

namespace tuck::inline TUCK_ABI {

template <floating_element T> class quantize {
 public:
  using value_type = T;
  using bits = bits_t<T>;
  using format = float_format<T>;
  using real = typename format::real;
  using real_format = float_format<real>;
  using word = bits_t<real>;

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
  uint32_t encode_chunk(span<const T> values, bytes room) const noexcept;
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

  // -- for the block codec, and for quantize_codes
  TUCK_HD static constexpr uint32_t limit(uint32_t count) noexcept {  // bytes of a chunk
    return count * uint32_t{sizeof(T)} - count * uint32_t{sizeof(T)} / 8;
  }
  // Where the bound is pointwise, codes are far from 0, all but those of zeros, and neighbours have signs of their own.
  TUCK_HD constexpr group_choices choices() const noexcept { return {predicts(), pointwise()}; }
  TUCK_HD constexpr bool pointwise() const noexcept { return mode_ == bound_mode::pointwise; }
  TUCK_HD constexpr bool predicts() const noexcept { return !pointwise() && predictor_ == predictor::automatic; }
  // Whether there is a step to quantize by.
  TUCK_HD constexpr bool is_usable() const noexcept { return pointwise() ? effective_ != 0 : steps_.tolerance > 0; }
  TUCK_HD step_quantizer<T> steps(uint32_t exponent) const noexcept {
    if constexpr (sizeof(T) == 2) return step_quantizer<T>::make(steps_.tolerance, exponent);
    return steps_;
  }
  TUCK_HD constexpr mantissa_quantizer<T> mantissas() const noexcept { return mantissas_; }
  // Can a chunk have this exponent?
  TUCK_HD constexpr bool exponent_is_sound(uint32_t exponent) const noexcept {
    return exponent < (sizeof(T) == 2 && !pointwise() ? (1u << format::exponent_bits) - 1 : 1);
  }
  // Calls visit(quantizer), of a usable codec.
  template <class Visit> auto with_quantizer(uint32_t exponent, const Visit& visit) const noexcept {
    return pointwise() ? visit(mantissas_) : visit(steps(exponent));
  }
  uint32_t largest_exponent(span<const T> values) const noexcept;
  // The values' codes as a chain has them if ToChain, one behind the other, and a bit a value in `fails`: is it an
  // exception? Returns how many are.
  template <bool ToChain>
  uint32_t codes_of(uint32_t exponent, span<const T> values, std::byte* codes, uint32_t* fails) const noexcept;
  // Of `restored`, which has such codes, what they stand for.
  template <bool FromChain> void restore(uint32_t exponent, span<T> restored) const noexcept;

 private:
  // Calls visit(i, from, x) with the i-th 32 values at `from`, zeros behind the last, and puts x, which it makes,
  // to `to` if there is one: for loops of known length, which compilers turn into vectors.
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

// The biased exponent of the largest finite value, where the step depends on it; else 0.
template <floating_element T> uint32_t quantize<T>::largest_exponent(span<const T> values) const noexcept {
  if (sizeof(T) != 2 || pointwise()) return 0;
  bits largest = 0;
  in_blocks(values, nullptr, [&](uint64_t, const std::byte* from, bits(&)[32]) {
    bits largest_here = 0;
    for (uint32_t i = 0; i < 32; ++i) {
      const bits magnitude = format::magnitude(bits_in(from, i));
      const bits finite = select(magnitude < format::infinity, magnitude, bits{0});
      largest_here = finite > largest_here ? finite : largest_here;
    }
    largest = largest_here > largest ? largest_here : largest;
  });
  return static_cast<uint32_t>(largest >> format::mantissa_bits);
}

template <floating_element T>
template <bool ToChain>
uint32_t quantize<T>::codes_of(uint32_t exponent, span<const T> values, std::byte* codes,
                               uint32_t* fails) const noexcept {
  return with_quantizer(exponent, [&](const auto quantizer) {
    uint32_t exceptions = 0;
    in_blocks(values, codes, [&](uint64_t block, const std::byte* from, bits(&code)[32]) {
      bits failed[32];  // as wide as the codes, which is what vectors need
      for (uint32_t i = 0; i < 32; ++i) {
        const coded<T> one = quantizer.code(bits_in(from, i));
        code[i] = ToChain ? quantizer.to_chain(one.code) : one.code;
        failed[i] = static_cast<bits>(~one.holds);
      }
      masks_of(span<const bits>(failed, 32), ones::non_zeros, reinterpret_cast<std::byte*>(fails + block));
      exceptions += popcount(fails[block]);
    });
    return exceptions;
  });
}

template <floating_element T>
template <bool FromChain>
void quantize<T>::restore(uint32_t exponent, span<T> restored) const noexcept {
  using groups = integer_groups<sizeof(T)>;
  with_quantizer(exponent, [&](const auto quantizer) {
    in_blocks(span<const T>(restored), as_writable_bytes(restored).data(),
              [&](uint64_t, const std::byte* from, bits(&x)[32]) {
                for (uint32_t i = 0; i < 32; ++i)
                  x[i] = quantizer.value(quantizer.zero +
                                         (FromChain ? quantizer.from_chain(bits_in(from, i))
                                                    : static_cast<word>(groups::number_of(bits_in(from, i)))));
              });
  });
}

template <floating_element T> uint32_t quantize<T>::encode_chunk(span<const T> values, bytes room) const noexcept {
  if (!is_usable() || values.size_bytes() > max_chunk_raw_bytes) return declined;
  const auto count = static_cast<uint32_t>(values.size());
  const uint32_t exponent = largest_exponent(values);
  alignas(T) std::byte codes[max_chunk_raw_bytes];
  uint32_t fails[max_chunk_raw_bytes / sizeof(T) / 32];
  const uint32_t exceptions = codes_of<false>(exponent, values, codes, fails);
  const uint32_t side = quantize_side<T>::bytes(exceptions);
  if (side > limit(count)) return declined;
  const uint32_t size =
      detail::host_groups<sizeof(T)>::encode(codes, count, choices(), exceptions, limit(count) - side, room.data());
  if (size == declined) return declined;
  quantize_side<T>::write(room.data() + size, exponent, exceptions, fails, values);
  return size + side;
}

template <floating_element T> status quantize<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  const auto count = static_cast<uint32_t>(restored.size());
  if (!is_usable() || encoded.size() < 4 || encoded.size() > limit(count)) return status::bad_payload;
  const uint32_t exceptions = load_unaligned<uint16_t>(encoded.data() + 2);
  const uint32_t max_width = pointwise() ? mantissa_quantizer<T>::max_width : step_quantizer<T>::max_width;
  uint32_t end;
  if (!detail::host_groups<sizeof(T)>::decode(encoded, count, max_width, as_writable_bytes(restored).data(), end) ||
      end + quantize_side<T>::bytes(exceptions) != encoded.size())
    return status::bad_payload;
  const std::byte* const side = encoded.data() + end;
  const uint32_t exponent = quantize_side<T>::exponent(side);
  if (!exponent_is_sound(exponent)) return status::bad_payload;
  restore<false>(exponent, restored);
  return quantize_side<T>::patch(side, exceptions, restored) ? status::ok : status::bad_payload;
}

static_assert(adaptive_codec<quantize<float>>);

}  // namespace tuck::inline TUCK_ABI
