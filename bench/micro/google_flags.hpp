// Flags of Google Benchmark, as tuck-bench takes them: those that hold here, and for others the option that does.
#pragma once

#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tuck::bench {

class google_flags {
 public:
  static bool is_one(std::string_view argument) { return argument.starts_with("--benchmark_"); }

  // Throws std::invalid_argument, which says what to use instead.
  void add(const std::string& argument) {
    const size_t equals = argument.find('=');
    const std::string flag = argument.substr(0, equals);
    for (const auto& [name, instead] : refused)
      if (flag == name) throw std::invalid_argument(flag + " has no effect here: " + instead);
    if (flag == "--benchmark_list_tests") {
      const std::string value = equals == argument.npos ? "true" : argument.substr(equals + 1);
      list_ = value == "true" || value == "1" || value == "yes";
      return;
    }
    const bool filters = flag == "--benchmark_filter";
    if (!filters && flag != "--benchmark_out" && flag != "--benchmark_out_format" && flag != "--benchmark_context")
      throw std::invalid_argument(flag + " is not taken; see tuck-bench --help");
    if (equals == argument.npos) throw std::invalid_argument(flag + " takes its value behind '='");
    if (filters)
      set_filter(argument.substr(equals + 1));
    else
      for_google_.push_back(argument);
  }

  // Is this row to be measured? Any part of its name may match, as with Google's. A leading '-' negates.
  bool wants(const std::string& row) const {
    return filter_.empty() || std::regex_search(row, pattern_) != (filter_[0] == '-');
  }
  bool list() const { return list_; }
  const std::string& filter() const { return filter_; }
  const std::vector<std::string>& for_google() const { return for_google_; }

 private:
  static constexpr std::pair<const char*, const char*> refused[] = {
      {"--benchmark_min_time", "--seconds is the most time of a row"},
      {"--benchmark_min_warmup_time", "--seconds is the most time of a row"},
      {"--benchmark_repetitions", "rows run until their median is known, for --seconds at most"},
      {"--benchmark_report_aggregates_only", "there are no repetitions"},
      {"--benchmark_display_aggregates_only", "there are no repetitions"},
      {"--benchmark_enable_random_interleaving", "each codec runs in turn with a copy"},
      {"--benchmark_format", "--out FILE.json or FILE.csv has the rows"},
      {"--benchmark_counters_tabular", "--out FILE.json or FILE.csv has the rows"},
      {"--benchmark_color", "the table has no colors"},
      {"--benchmark_time_unit", "the table has GB/s, --out FILE.json seconds"},
      {"--benchmark_perf_counters", "run perf around tuck-bench"},
      {"--benchmark_dry_run", "--list names the rows"},
  };

  void set_filter(const std::string& text) {
    filter_ = text == "all" ? "" : text;
    try {
      pattern_.assign(filter_.starts_with('-') ? filter_.substr(1) : filter_, std::regex::extended);
    } catch (const std::regex_error&) {
      throw std::invalid_argument("--benchmark_filter: '" + text + "' is no regular expression");
    }
  }

  bool list_ = false;
  std::string filter_;
  std::regex pattern_;
  std::vector<std::string> for_google_;
};

}  // namespace tuck::bench
