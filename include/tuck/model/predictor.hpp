// Predicts the times and the compression ratio of a codec from measurements. Times and frame sizes are modelled as
// linear functions of the bytes and of the non-zero bytes, as in CSWAP's profiler. Recursive least squares fits the
// model, both offline and online. It minimizes relative errors, so that small and large tensors have the same weight.
#pragma once

#include <tuck/core/config.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tuck::inline TUCK_ABI {

/// A predicted value.
struct prediction {
  double value = 0;      ///< the expected measurement
  double deviation = 0;  ///< standard deviation of a measurement; infinity if there are too few measurements
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

  /// Starts with c = 0 as a guess. Choose its deviation a few orders of magnitude above the largest plausible
  /// coefficient, so that measurements outweigh the guess. Much larger deviations lose precision in a double.
  /// @param sizes standard deviation of the guess, per coefficient
  explicit constexpr relative_regression(const vector& sizes = {}) noexcept {
    for (size_t i = 0; i < N; ++i) covariance[i][i] = sizes[i] * sizes[i];
  }

  /// Adds a measurement. It is ignored if y is not positive, or if x or y is not finite. Complexity: O(N^2).
  /// Directional forgetting (Kulhavy, Automatica 1987) discards old information only in the direction of x: repeating
  /// the same measurement does not erase what other measurements have shown.
  /// @param forget factor for the weight of all earlier measurements; 0.99 remembers about a hundred
  constexpr void add(const vector& x, double y, double forget = 1) noexcept {
    if (!(y > 0)) return;
    vector scaled = x, gain = {};
    double error = 1, spread = 0;
    for (double& v : scaled) {
      v /= y;  // dividing by y makes the residual a relative error
      if (!(v - v == 0)) return;
    }
    for (size_t i = 0; i < N; ++i) {
      for (size_t j = 0; j < N; ++j) gain[i] += covariance[i][j] * scaled[j];
      error -= c[i] * scaled[i];
      spread += gain[i] * scaled[i];
    }
    if (!(spread > 0)) return;
    const double less = (forget * spread - (1 - forget)) / (forget * spread * (1 + spread));
    for (size_t i = 0; i < N; ++i) {
      c[i] += gain[i] / (1 + spread) * error;
      for (size_t j = 0; j <= i; ++j) covariance[i][j] = covariance[j][i] = covariance[i][j] - gain[i] * gain[j] * less;
    }
    squares = forget * squares + error * error / (1 + spread);  // error before the update times error after it
    count = forget * count + 1;
  }

  /// Predicts y for the features x. The deviation is infinite unless `count` exceeds N.
  prediction at(const vector& x) const noexcept {
    prediction p;
    double spread = 0;
    for (size_t i = 0; i < N; ++i) {
      p.value += c[i] * x[i];
      for (size_t j = 0; j < N; ++j) spread += x[i] * covariance[i][j] * x[j];
    }
    const double freedom = count - static_cast<double>(N);
    p.deviation = freedom > 0 ? std::sqrt(squares / freedom * (p.value * p.value + std::fmax(spread, 0)))
                              : std::numeric_limits<double>::infinity();
    return p;
  }
};

/// Predicts one codec on one device. A plain value: it can be saved and loaded as bytes.
struct codec_predictor {
  using regression = relative_regression<3>;  ///< over the three features

  /// The predictions for one tensor.
  struct estimate {
    prediction encode,  ///< seconds to encode
        decode;         ///< seconds to decode
    prediction ratio;   ///< raw bytes / encoded bytes
  };

  // The initial guesses of the times have deviations of 0.1 seconds per call and 1 second per MiB. Measurements of
  // codecs with 1 GB/s outweigh them completely, those of codecs with 0.1 GB/s nearly. In the model of frames, the
  // constant stands for header and directory, which matter most in small tensors.
  regression encode{{.1, 1, 1}},  ///< model of the seconds to encode
      decode{{.1, 1, 1}},         ///< model of the seconds to decode
      frame{{1, 1e2, 1e2}};       ///< model of the MiB of a frame

  /// Returns the features of a tensor: 1, its MiB, and its non-zero MiB.
  static constexpr regression::vector features(uint64_t size, double sparsity) noexcept {
    const double mib = static_cast<double>(size) / (1 << 20);
    return {1, mib, mib * (1 - sparsity)};
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
    if (encode_seconds >= 1e-9) encode.add(x, encode_seconds, forget);
    if (decode_seconds >= 1e-9) decode.add(x, decode_seconds, forget);
    if (ratio > 0 && ratio <= static_cast<double>(size)) frame.add(x, x[1] / ratio, forget);
  }

  /// Predicts times and ratio of a tensor of `size` bytes with the share of zeros `sparsity`. Check the deviations:
  /// they are infinite or NaN while there are too few measurements.
  estimate at(uint64_t size, double sparsity) const noexcept {
    const auto x = features(size, sparsity);
    estimate e{encode.at(x), decode.at(x), {}};
    e.encode.value = std::fmax(e.encode.value, 0);
    e.decode.value = std::fmax(e.decode.value, 0);
    const prediction encoded = frame.at(x);
    const double least = 1e-4 * x[1];  // a frame is never smaller than its directory
    const double mib = std::fmax(encoded.value, least);
    e.ratio.value = x[1] / mib;
    e.ratio.deviation = encoded.deviation / mib * e.ratio.value;
    return e;
  }
};

}  // namespace tuck::inline TUCK_ABI
