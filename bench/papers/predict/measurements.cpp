#include "bench/papers/predict/measurements.hpp"

#include "bench/support/json_file.hpp"

#include <cmath>
#include <map>
#include <tuple>

namespace tuck::bench {
namespace {

struct both_ways {
  measurement of;
  bool has_encode = false, has_decode = false;
};
using points = std::map<std::tuple<coder_key, uint64_t, double>, both_ways>;

void add(points& to, const ordered_json& row, size_t file) {
  const auto operation = row.at("operation").get<std::string>();
  const bool encodes = operation == "encode";
  if (row.at("peer").get<bool>() || (!encodes && operation != "decode")) return;
  if (row.at("median_seconds").is_null()) return;  // of the simulator
  if (!row.at("raw_bytes").is_number_unsigned()) throw std::domain_error("raw_bytes is no size");
  measurement m{.of = {{row.at("where"), row.at("type"), row.at("pattern")}, row.at("codec"), row.at("lossy")},
                .size = row.at("raw_bytes"),
                .sparsity = row.at("sparsity"),
                .zeros = number_of(row, "zeros", 0, 1),
                .ratio = above_0(row, "ratio"),
                .file = file};
  const double seconds = above_0(row, "median_seconds");
  if (const auto rate = row.find("gb_per_s"); rate != row.end() && !rate->is_null()) {
    const double is = static_cast<double>(m.size) / seconds * 1e-9;
    if (!(std::abs(rate->get<double>() / is - 1) < .01))
      throw std::domain_error("gb_per_s is not raw_bytes / median_seconds in 1e9 bytes a second");
  }
  both_ways& at = to.try_emplace({m.of, m.size, m.sparsity}, both_ways{m}).first->second;
  (encodes ? at.of.encode : at.of.decode) = seconds;
  (encodes ? at.has_encode : at.has_decode) = true;
}

// The machine, and what was run on it.
void add_environment(ordered_json& to, const ordered_json& found) {
  const ordered_json machine = {
      {"cpu", found.at("cpu")}, {"device", found.at("device")}, {"threads", found.at("threads")}};
  if (to.is_null()) {
    to = machine;
    to["runs"] = ordered_json::array();
  }
  for (const auto& [key, value] : machine.items())
    if (to[key] != value)
      throw std::domain_error("another " + key + " than the files before: " + value.dump() + " instead of " +
                              to[key].dump());
  to["runs"].push_back({{"date", found.at("date")}, {"commit", found.at("commit")}, {"command", found.at("command")}});
}

}  // namespace

measurements read_results(const std::vector<std::string>& paths) {
  measurements found;
  for (size_t i = 0; i < paths.size(); ++i)
    read_json(paths[i], "tuck-bench/1", [&](const ordered_json& file) {
      points in_file;
      add_environment(found.environment, file.at("environment"));
      read_rows(file.at("rows"), "row", [&](const ordered_json& row) { add(in_file, row, i); });
      for (const auto& [at, both] : in_file)
        if (both.has_encode && both.has_decode) found.all.push_back(both.of);
      if (in_file.empty()) throw std::domain_error("no times of a codec of tuck's are in it");
    });
  return found;
}

}  // namespace tuck::bench
