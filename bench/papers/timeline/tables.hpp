// What bench/papers/networks has of networks and zeros and gpus.json of machines, and what the README's formulas make
// of that.
#pragma once

#include "bench/support/roofline.hpp"

#include "bench/papers/timeline/timeline.hpp"

#include <string>
#include <vector>

namespace tuck::bench {

enum class values : uint8_t { dense, relu, pooled_relu };

// Counts are per image, but for the weights.
struct network_row {
  std::string name = {};
  layer_kind kind = layer_kind::other;
  bool in_place = false;
  bool winograd = false;  // a 3 x 3 window that moves by 1
  uint64_t input_values = 0, output_values = 0, moved_values = 0, macs = 0, weights = 0;
  values input_is = values::dense;
  double dropped = 0, depth = 0;
  size_t producer = timed_layer::none;
  size_t kept_by = timed_layer::as_in_a_chain;
};

struct network_table {
  std::string name = {};
  uint64_t image_side = 0, weights = 0;
  std::vector<network_row> rows = {};

  // Of the values that are kept, those in which no zeros are to be expected.
  double dense_share() const;
};

struct machine {
  double flops = 0, bytes_per_second = 0, memory_bytes = 0;
  double compute_efficiency = 0, memory_efficiency = 0, winograd_speedup = 0, launch = 0;
  link_rates link = {};
  gpu_rates rates = {};  // of kernels that are tuned: codecs and copies

  double layer_rate() const noexcept { return memory_efficiency * bytes_per_second; }  // bytes read and written
};

struct zeros_table {
  std::vector<double> depths = {}, epochs = {};
  std::vector<std::vector<double>> relu = {};  // by epoch, then depth
  double pooled = 1;

  // The share of zeros in the input of a row, between the recorded depths and epochs, or that of the nearest.
  double at(const network_row& row, double epoch) const;
};

// Between the points (x[i], y[i]), x ascending; beyond them the nearest. At least one point.
double between(const std::vector<double>& x, const std::vector<double>& y, double at);

// All throw tools::file_error.
network_table read_network(const std::string& path);
machine read_machine(const std::string& path, const std::string& gpu, const std::string& link);
zeros_table read_zeros(const std::string& path);

// Of fp32 values.
std::vector<timed_layer> time_layers(const network_table& network, uint64_t batch, const machine& on);

}  // namespace tuck::bench
