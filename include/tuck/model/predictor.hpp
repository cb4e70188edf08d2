// How long a codec takes and how small it makes a tensor, learnt from measurements: linear in the bytes and in those of
// them that are not zero, as CSWAP's profiler has it, fitted offline and corrected online by the same steps of
// recursive least squares. Small and large tensors count alike: what is made small is the relative error.
#pragma once

#include <tuck/core/config.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tuck::inline TUCK_ABI {

struct prediction {
  double value = 0;
  double deviation = 0;  // standard, of what will be measured; infinity before there are enough measurements
};

// y = c . x, by recursive least squares on relative errors. A plain value: save and load it as it is.
template <size_t N> struct relative_regression {
  using vector = std::array<double, N>;

  vector c = {};
  std::array<vector, N> covariance = {};  // of c, in units of the squared relative error
  double squares = 0;                     // of relative errors, those of the past as much as they still count
  double count = 0;                       // of measurements, likewise

  // c is guessed to be 0, give or take these: a few orders of magnitude more than it can be, so that the guess weighs
  // nothing beside measurements, but not so many that nothing of them is left in a double.
  explicit constexpr relative_regression(const vector& sizes = {}) noexcept {
    for (size_t i = 0; i < N; ++i) covariance[i][i] = sizes[i] * sizes[i];
  }

  // A measurement; one that is not above 0 or not finite is none. With forget < 1, those before count for less: 0.99 is
  // a memory of about a hundred. What is forgotten is only what this measurement says anew (Kulhavy's directional
  // forgetting, Automatica 1987): who measures the same again and again does not lose the rest.
  constexpr void add(const vector& x, double y, double forget = 1) noexcept {
    if (!(y > 0)) return;
    vector scaled = x, gain = {};
    double error = 1, spread = 0;
    for (double& v : scaled) {
      v /= y;  // of a relative error, then
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
    squares = forget * squares + error * error / (1 + spread);  // error of before times error of after
    count = forget * count + 1;
  }

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

// One codec's behaviour on one device. A plain value too.
struct codec_predictor {
  using regression = relative_regression<3>;

  struct estimate {
    prediction encode, decode;  // seconds
    prediction ratio;           // raw bytes over encoded bytes
  };

  // Seconds, seconds, and MiB of a frame, whose header and directory weigh most where the tensor is small. The first
  // guesses, 0 give or take a tenth of a second a call and a second a MiB, weigh nothing beside measurements of codecs
  // of 1 GB/s, and next to nothing beside those of 0.1 GB/s.
  regression encode{{.1, 1, 1}}, decode{{.1, 1, 1}}, frame{{1, 1e2, 1e2}};

  // A call, MiB, MiB that are not zero.
  static constexpr regression::vector features(uint64_t size, double sparsity) noexcept {
    const double mib = static_cast<double>(size) / (1 << 20);
    return {1, mib, mib * (1 - sparsity)};
  }

  // What encoding and decoding `size` bytes of this share of zeros took, and the ratio. A figure of 0 is none, nor is
  // one that cannot be: a share outside [0, 1], a time below a nanosecond, a frame below a byte.
  constexpr void add(uint64_t size, double sparsity, double encode_seconds, double decode_seconds, double ratio,
                     double forget = 1) noexcept {
    if (!(sparsity >= 0 && sparsity <= 1)) return;
    const auto x = features(size, sparsity);
    if (encode_seconds >= 1e-9) encode.add(x, encode_seconds, forget);
    if (decode_seconds >= 1e-9) decode.add(x, decode_seconds, forget);
    if (ratio > 0 && ratio <= static_cast<double>(size)) frame.add(x, x[1] / ratio, forget);
  }

  // Only as good as the deviations say: infinity or no number where too little is known.
  estimate at(uint64_t size, double sparsity) const noexcept {
    const auto x = features(size, sparsity);
    estimate e{encode.at(x), decode.at(x), {}};
    e.encode.value = std::fmax(e.encode.value, 0);
    e.decode.value = std::fmax(e.decode.value, 0);
    const prediction encoded = frame.at(x);
    const double least = 1e-4 * x[1];  // no codec makes a frame smaller than its directory
    const double mib = std::fmax(encoded.value, least);
    e.ratio.value = x[1] / mib;
    e.ratio.deviation = encoded.deviation / mib * e.ratio.value;
    return e;
  }
};

}  // namespace tuck::inline TUCK_ABI
