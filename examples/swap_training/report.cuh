// What is printed: at most 100 characters a line.
#pragma once

#include "swap_training/training.cuh"

#include <cstdio>

namespace swap_training {

inline double kib(uint64_t size) { return static_cast<double>(size) / 1024; }
inline double ratio_of(uint64_t raw, uint64_t encoded) {
  return encoded == 0 ? 0 : static_cast<double>(raw) / static_cast<double>(encoded);
}

// Three digits or so, in at most six characters up to a million.
inline std::string three_digits(double x) {
  char text[32];
  std::snprintf(text, sizeof text, x < 10 ? "%.2f" : x < 100 ? "%.1f" : "%.0f", x);
  return text;
}
inline std::string microseconds(double seconds) { return three_digits(seconds * 1e6); }

inline void print_profile(const training_profile& profile) {
  if (times_mean_something)
    std::printf("CSWAP decides by what was measured:\n");
  else
    std::printf(
        "Kernels run on a simulator: bytes are right, times would mean nothing.\n"
        "CSWAP decides by assumed rates:\n");
  std::printf("  link      %4.1f GB/s out, %4.1f GB/s in\n", profile.link.d2h * 1e-9, profile.link.h2d * 1e-9);
  if (!times_mean_something) {
    const assumed_rates rates;
    std::printf("  layers    the longer of %.0f TFLOP/s and %.0f GB/s forward, twice that backward\n",
                rates.flops * 1e-12, rates.memory * 1e-9);
  }
  for (size_t c = 0; c < codec_count; ++c) {
    const codec_point& p = profile.codecs[c][1];  // half of it zeros
    const auto size = static_cast<double>(p.size);
    std::printf("  %-8s  %4.0f GB/s out, %4.0f GB/s in; measured on values half of which are zeros: ratio %.2f\n",
                codec_names[c], size / p.encode * 1e-9, size / p.decode * 1e-9, p.ratio);
  }
}

namespace detail {

// The last column of an epoch: what the policy decides by, else what the host holds.
inline const char* column_of(const policy& p) {
  return p.decides == rule::advised ? "us" : p.decides == rule::bounded ? "bound" : "KiB";
}
inline std::string cell(const policy& p, const layer_record& l) {
  if (p.decides == rule::advised) return microseconds(l.cost);
  if (p.decides != rule::bounded) return three_digits(kib(l.host_bytes));
  return l.bound == 0 ? "exact" : three_digits(l.bound * 1e3);
}

// One row: a layer in some epochs.
inline void print_layer(const policy& p, const shaped_layer& layer, const outcome_of_run& r, size_t i, size_t first,
                        size_t end) {
  const uint64_t raw = layer.as_layer.input_bytes;
  const layer_record& known = r.epochs[first].layers[i];
  std::printf("  %-7s %6.0f", layer.name.c_str(), kib(raw));
  if (known.host_bytes == 0) {
    std::printf(" %5s     %s\n", "", known.way);
    return;
  }
  std::printf(" %5s", p.decides == rule::advised ? microseconds(known.raw_cost).c_str() : "");
  for (size_t e = first; e < end; ++e) {
    const layer_record& l = r.epochs[e].layers[i];
    std::printf(" %2.0f%% %-8s %5.2f %6s", 100 * l.sparsity, l.way, ratio_of(raw, l.host_bytes), cell(p, l).c_str());
  }
  std::printf("\n");
}

inline void print_epochs(const policy& p, const std::vector<shaped_layer>& network, const outcome_of_run& r,
                         size_t first, size_t end) {
  const bool advised = p.decides == rule::advised;
  std::printf("  %-7s %6s %5s", "", "", advised ? "raw" : "");
  for (size_t e = first; e < end; ++e) std::printf(" epoch %-*zu", e + 1 < end ? 19 : 0, e);
  std::printf("\n  %-7s %6s %5s", "layer", "KiB", advised ? "us" : "");
  for (size_t e = first; e < end; ++e) std::printf(" %3s %-8s %5s %6s", "0s", "way", "ratio", column_of(p));
  std::printf("\n");
  uint64_t size = 0;
  double raw_cost = 0;
  for (size_t i = 0; i < network.size(); ++i) {
    print_layer(p, network[i], r, i, first, end);
    const layer_record& known = r.epochs[first].layers[i];
    if (known.host_bytes == 0) continue;
    size += network[i].as_layer.input_bytes;
    raw_cost += known.raw_cost;
  }
  std::printf("  %-7s %6.0f %5s", "all", kib(size), advised ? microseconds(raw_cost).c_str() : "");
  for (size_t e = first; e < end; ++e) {
    layer_record all{.host_bytes = r.epochs[e].held};
    for (const layer_record& l : r.epochs[e].layers) all.cost += l.cost;
    std::printf(" %8.0f KiB %5.2f", kib(r.epochs[e].out), ratio_of(size, all.host_bytes));
    if (p.decides != rule::bounded)
      std::printf(" %6s", cell(p, all).c_str());
    else if (e + 1 < end)
      std::printf(" %6s", "");
  }
  std::printf("\n");
}

inline void print_waits(const std::vector<shaped_layer>& network, const epoch_record& last) {
  std::printf("  the last step took %.2f ms; ways out and in, ms\n", last.step);
  std::printf("  %-7s %10s %19s %19s\n", "", "", "out", "in");
  std::printf("  %-7s %10s %10s %8s %10s %8s\n", "layer", "KiB out", "hidden", "exposed", "hidden", "exposed");
  for (size_t i = 0; i < network.size(); ++i) {
    const layer_record& l = last.layers[i];
    if (l.host_bytes != 0)
      std::printf("  %-7s %10.1f %10.3f %8.3f %10.3f %8.3f\n", network[i].name.c_str(), kib(l.out),
                  std::max(l.alone_out - l.exposed_out, 0.), l.exposed_out, std::max(l.alone_in - l.exposed_in, 0.),
                  l.exposed_in);
  }
}

}  // namespace detail

// Layer by layer; of a policy that decides nothing only if asked for.
inline void print_run(const policy& p, const std::vector<shaped_layer>& network, const outcome_of_run& r, bool more) {
  const bool advised = p.decides == rule::advised, bounded = p.decides == rule::bounded;
  if (more || advised || bounded) {
    std::printf("\n%s (%s): %s\n", p.name, p.system,
                advised   ? "us, what swapping costs, as predicted, and raw"
                : bounded ? "bound, of the error, in thousandths"
                          : "KiB, held by the host");
    constexpr size_t a_row = 3;
    for (size_t first = 0; first < r.epochs.size(); first += a_row)
      detail::print_epochs(p, network, r, first, std::min(first + a_row, r.epochs.size()));
  } else {
    std::printf("\n%s (%s): %s every tensor; KiB out in the first epoch %.0f, in the last %.0f\n", p.name, p.system,
                p.decides == rule::as_is ? "copies" : "zvc for", kib(r.epochs.front().out), kib(r.epochs.back().out));
  }
  if (times_mean_something) detail::print_waits(network, r.epochs.back());
}

}  // namespace swap_training
