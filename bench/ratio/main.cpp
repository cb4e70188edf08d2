// Compression ratios of the library's codecs beside those of well-known compressors, on the recorded activations of
// examples/data, on smooth fields, and on the f32 .npy files of each directory named: bench_ratio [DIRECTORY...].
#include "bench/support/fields.hpp"

#include "support/npy.hpp"
#include "table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <utility>

namespace {

using namespace tuck::bench;
using tuck::tools::npy_file;

// Why no coder can be asked about these values; "" where there is no reason.
std::string unfit(tuck::span<const float> values) {
  if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
    return "not all values are finite";
  if (std::all_of(values.begin(), values.end(), [&](float value) { return value == values[0]; }))
    return "there is no range of values";
  return "";
}

data_set read_directory(const std::string& name, const std::string& directory) {
  data_set set{name, {}};
  for (const std::filesystem::path& path : tuck::tools::npy_files(directory)) {
    const npy_file file = tuck::tools::read_npy(path.string());
    const bool floats = file.header.type == tuck::dtype::f32;
    const tuck::span<const float> values(reinterpret_cast<const float*>(file.data().data()), file.header.values);
    if (const std::string reason = floats ? unfit(values) : "not f32"; !reason.empty())
      std::fprintf(stderr, "bench_ratio: left out: %s\n", tuck::tools::file_error(path.string(), reason).what());
    else
      set.tensors.push_back({path.stem().string(), {values.begin(), values.end()}, file.header.shape});
  }
  if (set.tensors.empty()) throw tuck::tools::file_error(directory, "there are no tensors to measure");
  return set;
}

data_set make_fields() {
  data_set set{"smooth fields", {}};
  for (field& f : smooth_fields())
    set.tensors.push_back({std::move(f.name), std::move(f.values), {field_side, field_side}});
  return set;
}

void run(const std::vector<std::string>& directories) {
  std::vector<data_set> sets = {read_directory("recorded ReLU", TUCK_BENCH_DATA), make_fields()};
  for (const std::string& directory : directories)
    sets.push_back(read_directory(tuck::tools::printable(directory), directory));
  print_quantize_table(sets);
  std::printf("\n");
  print_rle_table(sets[0]);
}

}  // namespace

int main(int argc, char** argv) {
  if (std::any_of(argv + 1, argv + argc, [](const char* word) { return word[0] == '-'; })) {
    std::fprintf(stderr, "usage: bench_ratio [DIRECTORY...]\n");
    return 2;
  }
  try {
    run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_ratio: %s\n", e.what());
    return 1;
  }
}
