// tuck-experiments: a line of JSON for each point that an experiment measures, and before them one on the machine.
#include "bench/gpu_check/experiments.hpp"
#include "bench/micro/environment.hpp"
#include "bench/micro/points.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace {

using namespace tuck::bench;

constexpr int failed = 1, bad_usage = 2;
constexpr uint64_t size_unit = 64 << 10;

std::vector<experiment> all_experiments() {
  std::vector<experiment> all;
  for (const auto& some : {link_experiments(), latency_experiments(), machine_experiments()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

void print_line(const std::string& text) {
  if (std::printf("%s\n", text.c_str()) < 0 || std::fflush(stdout) != 0)
    throw std::runtime_error("standard output: it cannot be written to");
}

void describe() {
  nlohmann::ordered_json line = environment(1, "tuck-experiments");
  const auto processors = processors_of_device();
  line["simulated"] = kernels_are_simulated();
  line["processors"] = processors ? nlohmann::ordered_json(*processors) : nlohmann::ordered_json();
  if (kernels_are_simulated()) line["note"] = "on the simulator times mean nothing, and none are given";
  print_line(line.dump());
}

int run(int argc, char** argv) {
  CLI::App app("Measures a GPU where tuck-bench does not: links, short calls, latencies.", "tuck-experiments");
  std::vector<std::string> names;
  std::string size = "64MiB";
  double seconds = .1;
  bool only_describe = false;
  std::vector<std::string> known;
  for (const experiment& e : all_experiments()) known.push_back(e.name);
  app.add_option("NAME", names, "Experiments, all of them if none is named")
      ->check(CLI::IsMember(known).description(""))
      ->type_name("");
  app.add_option("--size", size, "Of a tensor, a multiple of 64KiB")->capture_default_str()->type_name("SIZE");
  app.add_option("--seconds", seconds, "Of runs at each point, more or less")
      ->capture_default_str()
      ->check(CLI::Range(0., 60.).description(""))
      ->type_name("S");
  app.add_flag("--describe", only_describe, "Say what machine this is, and stop");
  std::string footer;
  for (const experiment& e : all_experiments()) footer += "  " + std::string(e.name) + ": " + e.what + "\n";
  app.footer(footer);
  uint64_t raw_bytes = 0;
  try {
    app.parse(argc, argv);
    raw_bytes = size_of_name(size).value_or(0);
    if (raw_bytes == 0 || raw_bytes % size_unit != 0)
      throw CLI::ValidationError("--size", size + " is no multiple of 64KiB");
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : bad_usage;
  }
  describe();
  if (only_describe) return 0;
  const experiment_settings settings{raw_bytes, {5, 200, seconds}, [](const record& r) { print_line(r.text()); }};
  for (const experiment& e : all_experiments())
    if (names.empty() || std::find(names.begin(), names.end(), e.name) != names.end()) e.run(settings);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tuck-experiments: %s\n", error.what());
    return failed;
  }
}
