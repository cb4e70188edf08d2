// What tuck-bench measured, as the predictor learns it.
#pragma once

#include <nlohmann/json.hpp>

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace tuck::bench {

// Tensors of one kind in one place.
struct tensor_kind {
  std::string where, type, pattern;
  auto operator<=>(const tensor_kind&) const = default;
};

// A codec on them: what has a predictor of its own.
struct coder_key {
  tensor_kind on;
  std::string codec;
  bool lossy = false;
  auto operator<=>(const coder_key&) const = default;
};

// {"codec", "type", "pattern", "where", "lossy"}, with which rows about it begin.
inline nlohmann::ordered_json as_json(const coder_key& of) {
  return {{"codec", of.codec},
          {"type", of.on.type},
          {"pattern", of.on.pattern},
          {"where", of.on.where},
          {"lossy", of.lossy}};
}

struct measurement {
  coder_key of;
  uint64_t size = 0;
  double sparsity = 0;            // as it was asked for
  double zeros = 0;               // as it came out
  double encode = 0, decode = 0;  // seconds, of the median run
  double ratio = 0;
  size_t file = 0;  // which of those that were read
};

struct measurements {
  nlohmann::ordered_json environment;  // cpu, device and threads, and each run's date, commit and command
  std::vector<measurement> all;
};

// Result files of tuck-bench, all of one machine. Left out are peers, rows without times, and those that have only one
// way. Throws tools::file_error.
measurements read_results(const std::vector<std::string>& paths);

}  // namespace tuck::bench
