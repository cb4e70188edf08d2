// Measurements that follow a law, and the files in which tuck-bench would have written them.
#pragma once

#include "bench/papers/predict/measurements.hpp"

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace tuck::bench {

// c of codec_predictor's features.
struct codec_law {
  std::string codec;
  bool lossy;
  std::array<double, 3> encode, decode, frame;  // seconds, seconds, MiB
};

// zvc pays on links below about 10 GB/s, deflate on slow ones only.
inline const std::vector<codec_law> laws = {
    {"deflate", false, {2e-6, 1e-3, 3e-3}, {1e-6, 3e-4, 2e-3}, {2e-4, .01, .85}},
    {"quantize", true, {1e-6, 1e-3, 1e-4}, {1e-6, 5e-4, 3e-4}, {2e-4, .02, .3}},
    {"zvc", false, {2e-7, 6e-5, 4e-5}, {1e-7, 5e-5, 5e-5}, {1e-4, .03, 1}}};

// Each law on 40 points, its figures times what `noise` gives.
inline std::vector<measurement> sample_measurements(const std::function<double()>& noise) {
  std::vector<measurement> all;
  for (const codec_law& law : laws)
    for (int exponent = 12; exponent <= 26; exponent += 2)
      for (const double zeros : {0., .3, .6, .9, .99}) {
        const uint64_t size = uint64_t{1} << exponent;
        const double mib = static_cast<double>(size) / (1 << 20);
        const auto of = [&](const std::array<double, 3>& c) {
          return (c[0] + c[1] * mib + c[2] * mib * (1 - zeros)) * noise();
        };
        all.push_back({.of = {{"host", "f32", "clustered"}, law.codec, law.lossy},
                       .size = size,
                       .sparsity = zeros,
                       .zeros = zeros,
                       .encode = of(law.encode),
                       .decode = of(law.decode),
                       .ratio = mib / of(law.frame)});
      }
  return all;
}
inline std::vector<measurement> sample_measurements() {
  return sample_measurements([] { return 1.; });
}

inline nlohmann::ordered_json sample_results(const std::vector<measurement>& all) {
  auto rows = nlohmann::ordered_json::array();
  for (const measurement& m : all)
    for (const char* operation : {"encode", "decode"})
      rows.push_back({{"operation", operation},
                      {"codec", m.of.codec},
                      {"peer", false},
                      {"lossy", m.of.lossy},
                      {"type", m.of.on.type},
                      {"sparsity", m.sparsity},
                      {"zeros", m.zeros},
                      {"pattern", m.of.on.pattern},
                      {"raw_bytes", m.size},
                      {"where", m.of.on.where},
                      {"ratio", m.ratio},
                      {"median_seconds", operation[0] == 'e' ? m.encode : m.decode}});
  return {{"schema", "tuck-bench/1"},
          {"complete", true},
          {"environment",
           {{"date", "2026-01-01T00:00:00Z"},
            {"commit", "0123456789"},
            {"cpu", "a CPU"},
            {"threads", 1},
            {"device", nullptr},
            {"command", "tuck-bench"}}},
          {"rows", rows}};
}

}  // namespace tuck::bench
