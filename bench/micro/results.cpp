#include "bench/micro/results.hpp"

#include "bench/micro/counts.hpp"
#include "bench/micro/predictions.hpp"

#include <algorithm>
#include <map>

namespace tuck::bench {

nlohmann::ordered_json as_json(const nlohmann::ordered_json& environment, const std::vector<row>& rows, bool complete,
                               const std::vector<gpu_rates>& gpus) {
  nlohmann::ordered_json list = nlohmann::json::array();
  for (const row& r : rows) {
    nlohmann::ordered_json one{{"name", r.name()},
                               {"operation", name(r.what)},
                               {"codec", r.coder},
                               {"peer", r.peer},
                               {"lossy", r.lossy},
                               {"type", tuck::name(r.tensor.type)},
                               {"sparsity", has_sparsity(r.tensor.of) ? r.tensor.sparsity : r.sparsity},
                               {"zeros", r.sparsity},
                               {"pattern", name(r.tensor.of)},
                               {"raw_bytes", r.tensor.raw_bytes},
                               {"where", name(r.where)},
                               {"encoded_bytes", r.encoded_bytes},
                               {"ratio", r.ratio()},
                               {"runs", r.time.runs},
                               {"best_seconds", nullptr},
                               {"median_seconds", nullptr},
                               {"median_low_seconds", nullptr},
                               {"median_high_seconds", nullptr},
                               {"noisy", nullptr},
                               {"cv", nullptr},
                               {"gb_per_s", nullptr},
                               {"R", nullptr},
                               {"R_low", nullptr},
                               {"R_high", nullptr},
                               {"moved_per_byte", r.moved_bytes / static_cast<double>(r.tensor.raw_bytes)},
                               {"max_error", nullptr}};
    if (r.time.runs != 0) {
      one["best_seconds"] = r.time.best;
      one["median_seconds"] = r.time.median;
      one["median_low_seconds"] = r.time.low;
      one["median_high_seconds"] = r.time.high;
      one["noisy"] = r.noisy();
      one["cv"] = r.time.cv;
      one["gb_per_s"] = r.gb_per_s();
      one["R"] = r.of_copy();
      one["R_low"] = r.of_copy_low();
      one["R_high"] = r.of_copy_high();
    }
    if (r.what != operation::copy) one["max_error"] = r.max_error;
    if (r.where == place::host) {
      one["threads"] = r.way.threads;
      if (r.way.level) one["cpu_level"] = name(*r.way.level);
    }
    if (r.way.blocks != 0) one["blocks"] = r.way.blocks;
    if (r.way.chunk_bytes != 0) one["chunk_bytes"] = r.way.chunk_bytes;
    add_counts(one, r, gpus);
    if (r.predicted.made()) one["model"] = prediction_json(r);
    list.push_back(one);
  }
  return {{"schema", "tuck-bench/1"}, {"complete", complete}, {"environment", environment}, {"rows", list}};
}

std::string as_text(const nlohmann::ordered_json& file) {
  std::string text = "{\"schema\": " + file.at("schema").dump() + ",\n\"complete\": " + file.at("complete").dump() +
                     ",\n\"environment\": " + file.at("environment").dump(1) + ",\n\"rows\": [";
  const char* before = "\n";
  for (const auto& row : file.at("rows")) {
    text += before + row.dump();
    before = ",\n";
  }
  return text + "\n]}\n";
}

std::string as_csv(const nlohmann::ordered_json& file) {
  std::vector<std::string> columns;
  for (const auto& row : file.at("rows"))
    for (const auto& [key, value] : row.items())
      if (key != "bound_R" && std::find(columns.begin(), columns.end(), key) == columns.end()) columns.push_back(key);
  std::string text;
  const auto put = [&](size_t column, const std::string& cell) {
    text += column == 0 ? "" : ",";
    if (cell.find_first_of(",\"\r\n") == std::string::npos) {
      text += cell;
      return;
    }
    text += '"';
    for (const char c : cell) text += std::string(c == '"' ? 2 : 1, c);
    text += '"';
  };
  for (size_t i = 0; i < columns.size(); ++i) put(i, columns[i]);
  text += '\n';
  for (const auto& row : file.at("rows")) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto value = row.find(columns[i]);
      const bool none = value == row.end() || value->is_null();
      put(i, none ? "" : value->is_string() ? value->template get<std::string>() : value->dump());
    }
    text += '\n';
  }
  return text;
}

namespace {

std::string speed(const row* r) {
  char text[48] = "";
  if (r == nullptr) return text;
  if (r->time.runs != 0)
    std::snprintf(text, sizeof text, "%9.3f%c%6.3f%c%5.1f%%", r->gb_per_s(), r->noisy() ? '~' : ' ', r->of_copy(),
                  r->of_copy_noisy() ? '~' : ' ', 100 * r->time.error());
  else
    std::snprintf(text, sizeof text, "%9.3f", r->moved_bytes / static_cast<double>(r->tensor.raw_bytes));
  return text;
}

}  // namespace

void print_table(const std::vector<row>& rows, std::FILE* to) {
  // In the order of their first row.
  using both = std::map<operation, const row*>;
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, both>>>> blocks;
  const auto found = [](auto& list, const std::string& key) -> auto& {
    for (auto& [name, content] : list)
      if (name == key) return content;
    return list.emplace_back(key, typename std::decay_t<decltype(list)>::value_type::second_type{}).second;
  };
  for (const row& r : rows) {
    if (r.counted()) continue;
    const std::string whole = row_name("", "", r.tensor, r.where, r.way);  // "//f32/..."
    found(found(blocks, whole.substr(2)), r.coder)[r.what] = &r;
  }
  for (const auto& [tensor, coders] : blocks) {
    const bool timed = coders.front().second.begin()->second->time.runs != 0;
    std::fprintf(to, "\n%s\n", tensor.c_str());
    if (timed)
      std::fprintf(to, "  %-30s %8s  %-23s  %-23s %s\n", "", "ratio", " encode GB/s    R    +-",
                   " decode GB/s    R    +-", " max error");
    else
      std::fprintf(to, "  %-30s %8s  %-10s %-10s %s\n", "bytes moved per byte", "ratio", "   encode", "   decode",
                   "max error");
    for (const auto& [coder, of] : coders) {
      const auto row_of = [&](operation o) { return of.contains(o) ? of.at(o) : nullptr; };
      const row& any = *of.begin()->second;
      char error[24] = "";
      if (any.max_error != 0) std::snprintf(error, sizeof error, "%10.2e", any.max_error);
      const row* first = row_of(operation::copy) != nullptr ? row_of(operation::copy) : row_of(operation::encode);
      char line[160];
      std::snprintf(line, sizeof line, timed ? "  %-30s %8.3f  %-23s  %-23s %s" : "  %-30s %8.3f  %-10s %-10s %s",
                    coder.c_str(), any.ratio(), speed(first).c_str(), speed(row_of(operation::decode)).c_str(), error);
      const std::string_view text(line);
      std::fprintf(to, "%.*s\n", static_cast<int>(text.find_last_not_of(' ') + 1), line);
    }
  }
  if (std::any_of(rows.begin(), rows.end(), [](const row& r) { return r.of_copy_noisy(); }))
    std::fprintf(
        to,
        "\n~ noisy: the limit came before the median was known to within %.0f %%. +- is how well it is known.\n"
        "  Measure on a quieter machine, or for longer (--seconds).\n",
        100 * wanted_precision);
}

}  // namespace tuck::bench
