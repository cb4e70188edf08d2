// How large an error bound activations may have: the controller of COMET (Jin et al., VLDB 2022), which keeps the error
// that they bring into a layer's weight gradients within a share of its momentum.
//
// An error-bounded codec leaves errors that are about uniform in [-bound, bound], of variance bound^2 / 3. A weight's
// gradient is a sum of products l_i x_i of the output's gradient and the activations; with independent errors its own
// error has the variance
//
//   sigma^2 = bound^2 / 3 * sum of l_i^2 over x_i != 0
//
// - zeros drop out, for they come back as zeros. As the sum is not known before the backward pass, COMET estimates
//
//   sigma = a * L * sqrt(N * R) * bound
//
// from L, the mean of |l|, the batch N, and the share R of activations that are not zero. All bounds here are absolute.
#pragma once

#include <tuck/core/config.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tuck::inline TUCK_ABI {

// What a layer's last backward pass showed.
struct gradient_statistics {
  double mean_gradient = 0;  // of |l|, the gradient of the layer's output
  double batch = 0;
  double nonzero = 1;        // share of its input's activations that are not zero
  double mean_momentum = 0;  // of |m|, the momentum of its weights
};

// The bound for which the second formula gives this sigma.
inline double bound_for_estimated_sigma(double sigma, const gradient_statistics& seen, double a) noexcept {
  return sigma / (a * seen.mean_gradient * std::sqrt(seen.batch * seen.nonzero));
}

struct bound_control_options {
  double a = 0.32;          // of the second formula, as the paper found it
  double share = 0.01;      // of the momentum that sigma may have
  uint64_t refresh = 1000;  // iterations from one update to the next
  double first = 1e-4;      // before there has been one
  double lowest = 1e-8, highest = 1e-1;
};

// A layer's bound over the iterations of a training.
class bound_controller {
 public:
  explicit bound_controller(const bound_control_options& options = {}) noexcept
      : options_(options), bound_(limited(options.first)) {}

  double bound() const noexcept { return bound_; }

  // Are statistics wanted in this iteration? They cost a pass over the gradients.
  bool wants(uint64_t iteration) const noexcept {
    return !seen_ || (iteration >= last_ && iteration - last_ >= options_.refresh);
  }
  // Takes them. Those that say nothing - no gradient, no momentum, or what is no number - leave the bound as it is.
  void update(uint64_t iteration, const gradient_statistics& seen) noexcept {
    const double wanted = bound_for_estimated_sigma(options_.share * seen.mean_momentum, seen, options_.a);
    if (!std::isfinite(wanted) || !(wanted > 0)) return;
    bound_ = limited(wanted);
    last_ = iteration;
    seen_ = true;
  }

 private:
  // Not below the lowest, even where that is above the highest; the lowest for what is no number.
  double limited(double bound) const noexcept {
    return bound >= options_.lowest ? std::max(std::min(bound, options_.highest), options_.lowest) : options_.lowest;
  }

  bound_control_options options_;
  double bound_;
  uint64_t last_ = 0;
  bool seen_ = false;
};

}  // namespace tuck::inline TUCK_ABI
