// Smooth fields, as simulations write them: four kinds of 512 x 512 values, made of seeds. Two platforms differ at most
// where their sin, exp and tanh differ in the last bit.
#pragma once

#include "bench/support/random.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

namespace tuck::bench {

inline constexpr uint32_t field_side = 512;

struct field {
  std::string name;
  std::vector<float> values;  // field_side rows of field_side
};

namespace detail {

using plane = std::vector<double>;

// A value for each place (x, y) of the unit square.
template <class Function> plane sampled(const Function& at) {
  plane values;
  values.reserve(field_side * field_side);
  for (uint32_t row = 0; row < field_side; ++row)
    for (uint32_t column = 0; column < field_side; ++column)
      values.push_back(at(static_cast<double>(column) / field_side, static_cast<double>(row) / field_side));
  return values;
}

// Turns along one axis: e^(i (2 pi k x + phase)) for every place x.
inline std::vector<std::complex<double>> wave(double k, double phase) {
  std::vector<std::complex<double>> turns(field_side);
  for (uint32_t i = 0; i < field_side; ++i)
    turns[i] = std::polar(1.0, 2 * std::numbers::pi * k * i / field_side + phase);
  return turns;
}

// A sum of `modes` periodic waves of random direction, whole wave numbers up to `greatest` an axis, and random phase. A
// wave of length k has amplitude k^-power.
inline plane sum_of_waves(generator& random, int modes, uint64_t greatest, double power) {
  plane sum(field_side * field_side);
  for (int mode = 0; mode < modes;) {
    const double kx = static_cast<double>(below(random, greatest + 1));
    const double ky = static_cast<double>(below(random, 2 * greatest + 1)) - static_cast<double>(greatest);
    if (kx == 0 && ky == 0) continue;
    ++mode;
    const double amplitude = std::pow(std::sqrt(kx * kx + ky * ky), -power);
    const auto along_x = wave(kx, uniform(random, 0, 2 * std::numbers::pi));
    const auto along_y = wave(ky, 0);
    for (uint32_t row = 0; row < field_side; ++row)
      for (uint32_t column = 0; column < field_side; ++column)
        sum[row * field_side + column] +=
            amplitude * (along_x[column].real() * along_y[row].real() - along_x[column].imag() * along_y[row].imag());
  }
  return sum;
}

inline plane sum_of_bumps(generator& random, int bumps) {
  struct bump {
    double x, y, width, height;
  };
  std::vector<bump> all;
  for (int i = 0; i < bumps; ++i) {
    const double x = uniform(random), y = uniform(random);
    const double width = uniform(random, 0.02, 0.15);
    all.push_back({x, y, width, uniform(random, -1, 1)});
  }
  return sampled([&](double x, double y) {
    double sum = 0;
    for (const bump& b : all) {
      const double dx = (x - b.x) / b.width, dy = (y - b.y) / b.width;
      sum += b.height * std::exp(-(dx * dx + dy * dy) / 2);
    }
    return sum;
  });
}

// Noise of the given share of the range, even.
inline void add_noise(generator& random, double share, plane& values) {
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  const double amplitude = share * (*greatest - *least);
  for (double& value : values) value += uniform(random, -amplitude / 2, amplitude / 2);
}

// Two even regions with a slope each, and between them a steep front along a wavy line.
inline plane front() {
  return sampled([](double x, double y) {
    const double line = 0.5 + 0.1 * std::sin(4 * std::numbers::pi * x);
    return std::tanh((y - line) / 0.02) + 0.2 * x * y;
  });
}

inline std::vector<float> rounded(const plane& values) { return {values.begin(), values.end()}; }

}  // namespace detail

//   waves   64 waves, amplitude k^-2, k up to 16 an axis: all scales smooth, none empty
//   bumps   12 Gaussian bumps on a plain that is all but zero
//   noisy   128 waves, amplitude k^-3, k up to 32 an axis, with noise of 1e-4 of the range: measured, not computed
//   front   a jump along a wavy line, hardly anything elsewhere
inline std::vector<field> smooth_fields() {
  generator waves(1), bumps(2), noisy(3);
  detail::plane with_noise = detail::sum_of_waves(noisy, 128, 32, 3);
  detail::add_noise(noisy, 1e-4, with_noise);
  return {{"waves", detail::rounded(detail::sum_of_waves(waves, 64, 16, 2))},
          {"bumps", detail::rounded(detail::sum_of_bumps(bumps, 12))},
          {"noisy", detail::rounded(with_noise)},
          {"front", detail::rounded(detail::front())}};
}

}  // namespace tuck::bench
