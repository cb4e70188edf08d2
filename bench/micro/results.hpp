// What a run found: rows, and how they are shown and kept.
#pragma once

#include "bench/micro/device.hpp"
#include "bench/micro/points.hpp"
#include "bench/micro/statistics.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>
#include <vector>

namespace tuck::bench {

enum class operation { encode, decode, copy };

constexpr const char* name(operation o) noexcept {
  constexpr const char* names[] = {"encode", "decode", "copy"};
  return names[static_cast<int>(o)];
}

struct row {
  operation what = operation::encode;
  std::string coder;
  bool peer = false;
  bool lossy = false;
  tensor_request tensor{};
  double sparsity = 0;  // as it came out
  place where = place::host;
  coder_way way = {};
  uint64_t encoded_bytes = 0;
  statistics time;         // seconds; no runs where there is no clock worth reading
  statistics copy_time;    // of a copy, run in turn
  double moved_bytes = 0;  // read and written: counted without a GPU, else those of tensor and result
  double max_error = 0;
  device_counts counts = {};  // by the engine
  std::vector<source_line> lines = {};
  prediction predicted = {};  // of the whole tensor, also where a part was run

  std::string name() const { return row_name(bench::name(what), coder, tensor, where, way); }
  double ratio() const { return static_cast<double>(tensor.raw_bytes) / static_cast<double>(encoded_bytes); }
  bool counted() const { return counts.instructions > 0; }
  double predicted_gb_per_s() const { return static_cast<double>(tensor.raw_bytes) / predicted.seconds * 1e-9; }
  double predicted_of_copy() const { return predicted.copy_seconds / predicted.seconds; }
  // R and the interval that has it.
  double of_copy() const { return copy_time.median / time.median; }
  double of_copy_low() const { return copy_time.low / time.high; }
  double of_copy_high() const { return copy_time.high / time.low; }
  // Not known as well as was wanted.
  bool noisy() const { return time.runs != 0 && !time.known(wanted_precision); }
  bool of_copy_noisy() const { return time.runs != 0 && (noisy() || !copy_time.known(wanted_precision)); }
  double gb_per_s() const { return static_cast<double>(tensor.raw_bytes) / time.median * 1e-9; }
};

// The file that bench/README.md describes.
// complete: nothing that was asked for failed or was left out. gpus: those that bounds are given for.
nlohmann::ordered_json as_json(const nlohmann::ordered_json& environment, const std::vector<row>& rows, bool complete,
                               const std::vector<gpu_rates>& gpus = {});

// The same as text, a line a row.
std::string as_text(const nlohmann::ordered_json& file);

// Its rows as CSV: a header, then a line a row, empty where nothing was measured. Without bounds and
// environment.
std::string as_csv(const nlohmann::ordered_json& file);

// A table for people, a block a tensor and a line a coder, without rows whose instructions were counted. Figures that
// are noisy are marked.
void print_table(const std::vector<row>& rows, std::FILE* to);

}  // namespace tuck::bench
