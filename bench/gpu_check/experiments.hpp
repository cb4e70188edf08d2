// What tuck-bench does not measure: links, short calls, and the machine. An experiment hands on a record for each point
// that it has measured, and compares what comes back with what went in.
#pragma once

#include "bench/micro/device.hpp"
#include "bench/micro/statistics.hpp"

#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace tuck::bench {

// A line of JSON: an object of plain values. Names and texts have nothing that JSON would escape.
class record {
 public:
  explicit record(const char* experiment) { add("experiment", experiment); }

  record& add(const char* name, const char* text) { return put(name, '"' + std::string(text) + '"'); }
  record& add(const char* name, bool value) { return put(name, value ? "true" : "false"); }
  record& add(const char* name, uint64_t value) { return put(name, std::to_string(value)); }
  record& add(const char* name, double value) {
    if (!std::isfinite(value)) return add_nothing(name);
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return put(name, text);
  }
  record& add_nothing(const char* name) { return put(name, "null"); }

  // Seconds of runs for so many bytes; null where nothing was timed, on the simulator.
  record& add_times(const std::vector<double>& seconds, uint64_t raw_bytes) {
    const statistics time = statistics_of(seconds);
    add("runs", time.runs);
    if (time.runs == 0) return add_nothing("median_seconds").add_nothing("gb_per_s");
    return add("median_seconds", time.median)
        .add("best_seconds", time.best)
        .add("cv", time.cv)
        .add("gb_per_s", static_cast<double>(raw_bytes) / time.median * 1e-9);
  }
  std::string text() const { return text_ + "}"; }

 private:
  record& put(const char* name, const std::string& value) {
    text_ += (text_.empty() ? "{\"" : ", \"") + std::string(name) + "\": " + value;
    return *this;
  }

  std::string text_;
};

struct experiment_settings {
  uint64_t raw_bytes;  // of a tensor, where the size is not what is tried: a multiple of 64 KiB
  run_limits limits;
  std::function<void(const record&)> found;
};

struct experiment {
  const char* name;
  const char* what;
  void (*run)(const experiment_settings&);  // throws std::runtime_error where something fails or comes back wrong
};

// Are kernels run by the simulator, and if not, on how many processors, where there is a GPU?
bool kernels_are_simulated();
std::optional<int> processors_of_device();

std::span<const experiment> latency_experiments();
std::span<const experiment> link_experiments();
std::span<const experiment> machine_experiments();  // none on the simulator, which has no latencies

}  // namespace tuck::bench
