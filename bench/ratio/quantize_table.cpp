#include "bench/support/reference_coders.hpp"

#include "coders.hpp"

#include <algorithm>
#include <cstdio>

namespace tuck::bench {
namespace {

constexpr double range_bounds[] = {1e-2, 1e-3, 1e-4};

double range_of(const tensor& t) {
  const auto [least, greatest] = std::minmax_element(t.values.begin(), t.values.end());
  return static_cast<double>(*greatest) - *least;
}

// The two that differ only in how they store the same codes.
template <uint64_t (*Bytes)(span<const int64_t>)> coded by_differences(const tensor& t, double range_bound) {
  const double bound = range_bound * range_of(t);
  const std::vector<int64_t> codes = quantized(t.values, bound);
  return {static_cast<double>(Bytes(codes)), max_error(t.values, codes, bound)};
}

coded by_zfp(const tensor& t, double range_bound) { return zfp_fixed_accuracy(t, range_bound * range_of(t)); }

template <double (*Bytes)(span<const float>, double, double&)> coded by_tuck(const tensor& t, double range_bound) {
  coded c;
  c.bytes = Bytes(t.values, range_bound, c.max_error);
  return c;
}

struct coder {
  const char* name;
  coded (*code)(const tensor& t, double range_bound);
};

// All tensors of a set by one coder at one bound.
struct cell {
  double ratio = 0;
  double error = 0;  // the largest of any tensor, in bounds
};

cell measure(const coder& c, const data_set& set, double range_bound) {
  cell result;
  std::vector<double> ratios;
  for (const tensor& t : set.tensors) {
    const coded found = c.code(t, range_bound);
    if (found.bytes == 0) return {};
    ratios.push_back(static_cast<double>(t.values.size() * sizeof(float)) / found.bytes);
    result.error = std::max(result.error, found.max_error / (range_bound * range_of(t)));
  }
  result.ratio = geometric_mean(ratios);
  return result;
}

std::string error_text(const cell& c) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f", c.error);
  return c.ratio == 0 ? "-" : text;
}

void print_row(const coder& c, const data_set& set) {
  std::string ratios, errors;
  for (const double range_bound : range_bounds) {
    char text[64];
    std::snprintf(text, sizeof text, "%s: %s, %g", set.name.c_str(), c.name, range_bound);
    show_progress(text);
    const cell found = measure(c, set, range_bound);
    std::snprintf(text, sizeof text, "%7s", ratio_text(found.ratio).c_str());
    ratios += text;
    std::snprintf(text, sizeof text, "%10s", error_text(found).c_str());
    errors += text;
  }
  show_progress("");
  std::printf("  %-34s%s  %s\n", c.name, ratios.c_str(), errors.c_str());
}

}  // namespace

void print_quantize_table(const std::vector<data_set>& sets) {
  const coder coders[] = {{"plain differences", by_differences<plain_difference_bytes>},
                          {"differences + Huffman", by_differences<huffman_difference_bytes>},
                          {zfp_row_name, by_zfp},
                          {"tuck quantize, frame", by_tuck<tuck_quantize_bytes>},
                          {"tuck +delta+planes+deflate, frame", by_tuck<tuck_quantize_chain_bytes>}};
  std::printf("Error-bounded quantization: ratios as geometric means, and a set's largest error, in bounds.\n");
  std::printf("A bound is the given share of the tensor's range. The rows of differences do not see to the rounding\n");
  std::printf("of what they restore. Only tuck's rows count a header and a directory.\n\n");
  std::printf("  %-34s%7s%7s%7s  %10s%10s%10s\n", "", "1e-2", "1e-3", "1e-4", "1e-2", "1e-3", "1e-4");
  for (const data_set& set : sets) {
    std::printf("%s, %zu %s\n", set.name.c_str(), set.tensors.size(), set.tensors.size() == 1 ? "tensor" : "tensors");
    for (const coder& c : coders) print_row(c, set);
  }
}

}  // namespace tuck::bench
