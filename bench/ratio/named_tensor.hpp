// A tensor of a folder. Its file name tells what NumPy's types do not.
#pragma once

#include "support/npy.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace tuck::bench {

// The parts of a name are joined by "_", for example "w_minilm_qk_bf16".
//
//   part          meaning
//   first         w: weights, a: activations, g: gradients, m: Adam's moments, kv: keys and values; others: tensors
//   last          bf16, e4m3 or e5m2: what the integers of the file stand for
//   stepN         one of a series, of which only deltas are measured: from the first step to each of the others
struct named_tensor {
  std::string name;    // of the file, without .npy
  std::string kind;    // "weights"
  std::string series;  // the name without its step; empty if it has none
  uint64_t step = 0;
  dtype type = dtype::none;
  tools::npy_file file;
};

// Reads a file. Throws file_error if it is not an array of finite size that has a floating-point type.
named_tensor read_tensor(const std::filesystem::path& path);

// The share of values whose bits, without the sign, are zero.
double share_of_zeros(const_bytes values, dtype type);

}  // namespace tuck::bench
