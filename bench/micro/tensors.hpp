// The tensors that are measured on.
#pragma once

#include "support/npy.hpp"

#include <tuck/core/dtype.hpp>
#include <tuck/core/span.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tuck::bench {

// What the values of a tensor are like:
//   iid        zeros anywhere
//   clustered  zeros in runs, of 32 on average; of more where that leaves too few other values between them
//   recorded   recordings, such as ReLU outputs of a training run, repeated to the size
//   smooth     fields as simulations write them, repeated likewise
//   sums       zeros anywhere among sums of four uniform values of four digits; of integers one in 30 is 0 besides
//   runs       the same in runs of 1 to 16; some of what is not zero is repeated, too
// What is not zero in the first two is |N(0, 1)|, and of integer types small numbers, the smaller the likelier.
enum class pattern { iid, clustered, recorded, smooth, sums, runs };

constexpr const char* name(pattern p) noexcept {
  constexpr const char* names[] = {"iid", "clustered", "recorded", "smooth", "sums", "runs"};
  return names[static_cast<int>(p)];
}
std::optional<pattern> pattern_of(std::string_view name) noexcept;

// Is there such a tensor of that type? Fields are of floating types. Recordings are of the type that they were
// `recorded` in. f32 is rounded to any floating type, and unsigned integers may be the bits of any type as wide.
bool makes(pattern p, dtype type, dtype recorded = dtype::f32) noexcept;

// The share of zeros is asked for where it can be chosen.
constexpr bool has_sparsity(pattern p) noexcept { return p != pattern::recorded && p != pattern::smooth; }

struct tensor_request {
  dtype type;
  pattern of;
  double sparsity;     // in [0, 1]: the share of zeros
  uint64_t raw_bytes;  // a whole number of values
  friend bool operator==(const tensor_request&, const tensor_request&) = default;
};

struct tensor {
  dtype type = dtype::none;
  std::vector<std::byte> values;
  double sparsity = 0;  // as it came out
  double range = 0;     // highest - lowest finite value, of floating types

  const_bytes all() const noexcept { return {values.data(), values.size()}; }
};

// The type of the first recording. Throws tools::file_error.
dtype recorded_type(const std::string& recordings);

// Makes the same tensors everywhere, but for the last bits of logarithms and sines. `recordings` is a .npy
// file or a directory of them. Throws tools::file_error about them, and std::runtime_error about types that they cannot
// be used as.
class tensor_maker {
 public:
  explicit tensor_maker(std::string recordings) : recordings_(std::move(recordings)) {}

  tensor make(const tensor_request& request);

 private:
  const std::vector<tools::npy_file>& recorded();

  std::string recordings_;
  std::vector<tools::npy_file> recorded_;
  std::vector<float> smooth_;
};

// The largest |a - b|; infinite where a NaN became something else, or where values that are not floating differ.
double max_error(dtype type, const_bytes a, const_bytes b) noexcept;

}  // namespace tuck::bench
