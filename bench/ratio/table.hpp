// What both tables are made of: tensors, ratios, text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tuck::bench {

struct tensor {
  std::string name;
  std::vector<float> values;
  std::vector<uint64_t> shape;
};

struct data_set {
  std::string name;
  std::vector<tensor> tensors;
};

// In which no tensor weighs more than another: of one value a tensor, all above 0.
double geometric_mean(const std::vector<double>& values);

// Three significant digits or so; "-" for 0, which stands for what there is none of.
std::string ratio_text(double ratio);

// What the program is at, on stderr where that is a terminal, until the next call; "" clears the line.
void show_progress(const std::string& what);

// Error-bounded quantization at three bounds relative to the range.
void print_quantize_table(const std::vector<data_set>& sets);

// Lossless run-length coding of elements of 1, 2 and 4 bytes.
void print_rle_table(const data_set& recorded);

}  // namespace tuck::bench
