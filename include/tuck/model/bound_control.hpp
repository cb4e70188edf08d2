// SPDX-License-Identifier: Apache-2.0
// Controls the error bound of a layer's activations, as COMET does (Jin et al., VLDB 2022). Lossy activations cause an
// error in the layer's weight gradients. The controller keeps that error within a share of the momentum.
//
// An error-bounded codec causes errors that are about uniform in [-bound, bound], with variance bound^2 / 3. The
// gradient of a weight is a sum of products l_i x_i, with the gradient l of the output and the activations x. If the
// errors are independent, the variance of the gradient's error is
//
//   (1)  sigma^2 = bound^2 / 3 * sum of l_i^2 over x_i != 0
//
// Zeros do not contribute, because they are restored as zeros. The sum is unknown before the backward pass, so COMET
// estimates
//
//   (2)  sigma = a * L * sqrt(N * R) * bound
//
// where L is the mean of |l|, N the batch size, and R the share of non-zero activations. All bounds are absolute.
#pragma once

#include <tuck/core/config.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tuck::inline TUCK_ABI {

/// Statistics of a layer's last backward pass.
struct gradient_statistics {
  double mean_gradient = 0;  ///< mean of |l|, l being the gradient of the layer's output
  double batch = 0;          ///< batch size N
  double nonzero = 1;        ///< share R of non-zero values in the layer's input, in [0, 1]
  double mean_momentum = 0;  ///< mean of |m|, m being the momentum of the layer's weights
};

/// Options of a bound_controller.
struct bound_control_options {
  double a = 0.32;          ///< factor of formula (2); the paper's value
  double share = 0.01;      ///< sigma as a share of the mean momentum
  uint64_t refresh = 1000;  ///< iterations between updates
  double first = 1e-4;      ///< bound before the first update
  double lowest = 1e-8,     ///< least bound; takes precedence if it is above `highest`
      highest = 1e-1;       ///< largest bound
};

/// The error bound of one layer during a training run.
class bound_controller {
 public:
  /// Starts with the bound options.first, within the limits.
  explicit bound_controller(const bound_control_options& options = {}) noexcept
      : options_(options), bound_(limited(options.first)) {}

  double bound() const noexcept { return bound_; }  ///< the current absolute bound

  /// Returns whether update should be called in this iteration. Statistics cost a pass over the gradients.
  bool wants(uint64_t iteration) const noexcept {
    return !seen_ || (iteration >= last_ && iteration - last_ >= options_.refresh);
  }
  /// Computes the bound from the statistics of this iteration, by formula (2). The bound does not change if gradient or
  /// momentum are 0, or if a statistic is NaN.
  void update(uint64_t iteration, const gradient_statistics& seen) noexcept {
    const double sigma = options_.share * seen.mean_momentum;
    const double wanted = sigma / (options_.a * seen.mean_gradient * std::sqrt(seen.batch * seen.nonzero));
    if (!std::isfinite(wanted) || !(wanted > 0)) return;
    bound_ = limited(wanted);
    last_ = iteration;
    seen_ = true;
  }

 private:
  // `lowest` applies last, so it wins over a smaller `highest`. NaN becomes `lowest`.
  double limited(double bound) const noexcept {
    return bound >= options_.lowest ? (std::max)((std::min)(bound, options_.highest), options_.lowest)
                                    : options_.lowest;
  }

  bound_control_options options_;
  double bound_;
  uint64_t last_ = 0;
  bool seen_ = false;
};

}  // namespace tuck::inline TUCK_ABI
