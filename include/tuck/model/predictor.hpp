// SPDX-License-Identifier: Apache-2.0
// Predicts the times and the compression ratio of a codec from measurements. Frame sizes are modelled as linear
// functions of the bytes and of the non-zero bytes, as in CSWAP's profiler. Times are linear by pieces, because the
// time of a byte changes where tensors outgrow a cache. Recursive least squares fits the model, both offline and
// online. It minimizes relative errors, so that small and large tensors have the same weight. Predictions of tensors
// unlike the measured ones have an infinite deviation.
#pragma once

#include <tuck/core/config.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>

namespace tuck::inline TUCK_ABI {

namespace detail {
// Throws the error. Without exceptions, prints it and ends the program.
template <class Error> [[noreturn]] void raise(const Error& error) {
#if defined(__cpp_exceptions)
  throw error;
#else
  std::fprintf(stderr, "%s\n", static_cast<const std::exception&>(error).what());
  std::abort();
#endif
}
}  // namespace detail

/// A predicted value.
struct prediction {
  double value = 0;      ///< the expected measurement
  double deviation = 0;  ///< standard deviation of a measurement; infinity if the value is a mere guess

  /// Returns whether to decide by this value: its deviation is below it.
  constexpr bool sure() const noexcept { return deviation < value; }
};

/// Fits y = c . x by recursive least squares on relative errors. A plain value without pointers: it can be saved and
/// loaded as bytes.
/// @tparam N number of features x
template <size_t N> struct relative_regression {
  using vector = std::array<double, N>;  ///< N features or coefficients

  vector c = {};                          ///< the coefficients
  std::array<vector, N> covariance = {};  ///< of c, in units of the squared relative error
  double squares = 0;                     ///< weighted sum of the squared relative errors
  double count = 0;                       ///< sum of the weights of all measurements
  uint64_t used = 0;                      ///< bit i: in some measurement x[i] was not 0

  /// Starts with c = 0 as a guess. Choose its deviation a few orders of magnitude above the largest plausible
  /// coefficient, so that measurements outweigh the guess. Much larger deviations lose precision in a double.
  /// @param sizes standard deviation of the guess, per coefficient
  explicit constexpr relative_regression(const vector& sizes = {}) noexcept {
    for (size_t i = 0; i < N; ++i) covariance[i][i] = sizes[i] * sizes[i];
  }

  /// Adds a measurement. It is ignored if y is not positive, if x or y is not finite, or if x says nothing about
  /// coefficients whose deviation is not 0. Complexity: O(N^2).
  /// Directional forgetting (Kulhavy, Automatica 1987) discards old information only in the direction of x: repeating
  /// the same measurement does not erase what other measurements have shown.
  /// @param forget factor for the weight of all earlier measurements; 0.99 remembers about a hundred
  /// @return whether it was not ignored
  constexpr bool add(const vector& x, double y, double forget = 1) noexcept {
    if (!(y > 0)) return false;
    vector scaled = x, gain = {};
    double error = 1, spread = 0;
    for (double& v : scaled) {
      v /= y;  // dividing by y makes the residual a relative error
      if (!(v - v == 0)) return false;
    }
    for (size_t i = 0; i < N; ++i) {
      for (size_t j = 0; j < N; ++j) gain[i] += covariance[i][j] * scaled[j];
      error -= c[i] * scaled[i];
      spread += gain[i] * scaled[i];
    }
    if (!(spread > 0)) return false;
    for (size_t i = 0; i < N; ++i) used |= uint64_t{scaled[i] != 0} << i;
    const double less = (forget * spread - (1 - forget)) / (forget * spread * (1 + spread));
    for (size_t i = 0; i < N; ++i) {
      c[i] += gain[i] / (1 + spread) * error;
      for (size_t j = 0; j <= i; ++j) covariance[i][j] = covariance[j][i] = covariance[i][j] - gain[i] * gain[j] * less;
    }
    squares = forget * squares + error * error / (1 + spread);  // error before the update times error after it
    count = forget * count + 1;
    return true;
  }

  /// Returns how many measurements there are more than coefficients that they say something of.
  constexpr double freedom() const noexcept { return count - std::popcount(used); }

  /// Predicts y for the features x. The deviation is infinite unless freedom() is above 0.
  prediction at(const vector& x) const noexcept {
    prediction p;
    double spread = 0;
    for (size_t i = 0; i < N; ++i) {
      p.value += c[i] * x[i];
      for (size_t j = 0; j < N; ++j) spread += x[i] * covariance[i][j] * x[j];
    }
    // Relative to the measurement, a value that is far too low is off by nearly 1, and never by more. So a measurement
    // is value / (1 - relative), which has no limit.
    const double relative = std::sqrt(squares / freedom() * (1 + std::fmax(spread, 0) / (p.value * p.value)));
    p.deviation = freedom() > 0 && p.value > 0 && relative < 1 ? p.value * relative / (1 - relative)
                                                               : std::numeric_limits<double>::infinity();
    return p;
  }
};

/// A regression that knows on which tensors it was fitted.
template <size_t N> struct tensor_regression : relative_regression<N> {
  double least_bytes = std::numeric_limits<double>::infinity(),  ///< size of the smallest measured tensor
      most_bytes = 0;                                            ///< size of the largest one
  double least_zeros = 1,                                        ///< lowest share of zeros
      most_zeros = 0;                                            ///< highest one
  double least = std::numeric_limits<double>::infinity();        ///< the lowest measurement

  using relative_regression<N>::relative_regression;

  /// Adds a measurement y of a tensor with the features x; see relative_regression::add.
  constexpr void add(const typename relative_regression<N>::vector& x, double size, double zeros, double y,
                     double forget) noexcept {
    if (!relative_regression<N>::add(x, y, forget)) return;
    least_bytes = (std::min)(least_bytes, size);
    most_bytes = (std::max)(most_bytes, size);
    least_zeros = (std::min)(least_zeros, zeros);
    most_zeros = (std::max)(most_zeros, zeros);
    least = (std::min)(least, y);
  }

  /// Returns whether a tensor is like the measured ones: at most twice as large or half as small, and its share of
  /// zeros at most .1 beyond theirs.
  constexpr bool covers(double size, double zeros) const noexcept {
    return 2 * size >= least_bytes && size <= 2 * most_bytes && zeros >= least_zeros - .1 && zeros <= most_zeros + .1;
  }

  /// Predicts y. The deviation is infinite for tensors that are not covered.
  prediction at(const typename relative_regression<N>::vector& x, double size, double zeros) const noexcept {
    prediction p = relative_regression<N>::at(x);
    if (!covers(size, zeros)) p.deviation = std::numeric_limits<double>::infinity();
    return p;
  }
};

/// Predicts one codec on one device. A plain value: it can be saved and loaded as bytes.
struct codec_predictor {
  /// MiB above which a byte of a tensor may take another time. The change is complete at four times the size.
  static constexpr std::array<double, 4> steps = {.25, 1, 4, 16};
  using time_model = tensor_regression<3 + steps.size()>;  ///< over all features
  using frame_model = tensor_regression<3>;                ///< over the first three

  /// The predictions for one tensor.
  struct estimate {
    prediction encode,  ///< seconds to encode
        decode;         ///< seconds to decode
    prediction ratio;   ///< raw bytes / encoded bytes
  };

  // The initial guesses of the times have deviations of 0.1 seconds per call and 1 second per MiB. Measurements of
  // codecs with 1 GB/s outweigh them completely, those of codecs with 0.1 GB/s nearly. In the model of frames, the
  // constant stands for header and directory, which matter most in small tensors.
  time_model encode{{.1, 1, 1, 1, 1, 1, 1}},  ///< model of the seconds to encode
      decode{{.1, 1, 1, 1, 1, 1, 1}};         ///< model of the seconds to decode
  frame_model frame{{1, 1e2, 1e2}};           ///< model of the MiB of a frame

  /// Returns the features of a tensor: 1, its MiB, its non-zero MiB, and for each step the share of its MiB that is
  /// beyond it, from 0 to all.
  static constexpr time_model::vector features(uint64_t size, double sparsity) noexcept {
    const double mib = static_cast<double>(size) / (1 << 20);
    time_model::vector x = {1, mib, mib * (1 - sparsity)};
    for (size_t i = 0; i < steps.size(); ++i) x[3 + i] = mib * std::clamp((mib / steps[i] - 1) / 3, 0., 1.);
    return x;
  }

  /// Adds a measurement of encoding and decoding a tensor. Pass 0 for a time or ratio that was not measured.
  /// Impossible values are ignored: times below a nanosecond, and ratios of frames below one byte. A sparsity outside
  /// [0, 1] discards the whole measurement.
  /// @param size bytes of the tensor  @param sparsity its share of zeros  @param ratio raw bytes / encoded bytes
  /// @param forget as in relative_regression::add
  constexpr void add(uint64_t size, double sparsity, double encode_seconds, double decode_seconds, double ratio,
                     double forget = 1) noexcept {
    if (!(sparsity >= 0 && sparsity <= 1)) return;
    const auto x = features(size, sparsity);
    const auto raw = static_cast<double>(size);
    if (encode_seconds >= 1e-9) encode.add(x, raw, sparsity, encode_seconds, forget);
    if (decode_seconds >= 1e-9) decode.add(x, raw, sparsity, decode_seconds, forget);
    if (ratio > 0 && ratio <= raw) frame.add({x[0], x[1], x[2]}, raw, sparsity, x[1] / ratio, forget);
  }

  /// Predicts times and ratio of a tensor of `size` bytes with the share of zeros `sparsity`. No time is below half of
  /// the lowest measurement. Decide by predictions that are `sure`. Deviations are infinite for tensors that are unlike
  /// the measured ones or if there are too few measurements, and large if the measurements do not follow the model.
  estimate at(uint64_t size, double sparsity) const noexcept {
    const auto x = features(size, sparsity);
    const auto raw = static_cast<double>(size);
    estimate e{encode.at(x, raw, sparsity), decode.at(x, raw, sparsity), {}};
    e.encode.value = std::fmax(e.encode.value, encode.count > 0 ? encode.least / 2 : 0);
    e.decode.value = std::fmax(e.decode.value, decode.count > 0 ? decode.least / 2 : 0);
    const prediction encoded = frame.at({x[0], x[1], x[2]}, raw, sparsity);
    const double least = 1e-4 * x[1];  // a frame is never smaller than its directory
    const double mib = std::fmax(encoded.value, least);
    e.ratio.value = x[1] / mib;
    e.ratio.deviation = encoded.deviation / mib * e.ratio.value;
    return e;
  }
};

}  // namespace tuck::inline TUCK_ABI
