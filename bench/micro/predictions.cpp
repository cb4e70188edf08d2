#include "bench/micro/predictions.hpp"

#include "bench/micro/counts.hpp"

#include <algorithm>
#include <fstream>

namespace tuck::bench {
namespace {

constexpr size_t profile_lines = 20;

using shares = std::vector<std::pair<std::string, double>>;

// "barrier 52, global 13", those of at least `least`, the largest first.
std::string text_of(shares waits, size_t most, double least) {
  std::erase_if(waits, [=](const auto& w) { return w.second < least; });
  std::stable_sort(waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (size_t k = 0; k < std::min(most, waits.size()); ++k) {
    char one[48];
    std::snprintf(one, sizeof one, "%s%s %.0f", k == 0 ? "" : ", ", waits[k].first.c_str(), 100 * waits[k].second);
    text += one;
  }
  return text;
}

// Line `n` of a file, if it is there.
std::string source_text(const std::string& file, int n) {
  std::ifstream in(file);
  std::string text;
  for (int at = 0; at < n && std::getline(in, text);) ++at;
  const size_t first = text.find_first_not_of(" \t");
  return first == text.npos ? "" : text.substr(first, 60);
}

// "h100", "a100, by data sheet, not calibrated", "h100 if dram=0"
std::string text_of_gpu(const prediction& p) {
  std::string text = p.gpu;
  for (const std::string& what_if : p.what_ifs) text += (text == p.gpu ? " if " : ", ") + what_if;
  return p.calibrated || !p.what_ifs.empty() ? text : text + " (by data sheet, not calibrated)";
}

}  // namespace

nlohmann::ordered_json prediction_json(const row& r) {
  const prediction& p = r.predicted;
  nlohmann::ordered_json json{{"gpu", p.gpu},
                              {"calibrated", p.calibrated},
                              {"what_ifs", p.what_ifs},
                              {"seconds", p.seconds},
                              {"gb_per_s", r.predicted_gb_per_s()},
                              {"R", r.predicted_of_copy()},
                              {"issue_active", p.issue_active},
                              {"resident_blocks", p.resident_blocks},
                              {"registers", p.registers},
                              {"shared_bytes", p.shared_bytes},
                              {"blocks", p.blocks},
                              {"sampled_processors", nullptr}};
  if (p.sampled != 0) json["sampled_processors"] = p.sampled;
  for (const auto& [name, share] : p.waits) json["waits"][name] = share;
  json["lines"] = nlohmann::json::array();
  for (size_t k = 0; k < std::min(profile_lines, p.lines.size()); ++k) {
    const predicted_line& line = p.lines[k];
    json["lines"].push_back({{"at", short_name(line.file) + ":" + std::to_string(line.line)},
                             {"share", line.share},
                             {"longest_way", line.longest_way},
                             {"waits", text_of(line.waits, 3, .1)}});
  }
  return json;
}

void print_predictions(const std::vector<row>& rows, std::FILE* to) {
  const auto first = std::find_if(rows.begin(), rows.end(), [](const row& r) { return r.predicted.made(); });
  if (first == rows.end()) return;
  std::fprintf(to,
               "\nPredicted for %s. issue: share of clocks that issue; blocks: resident on a multiprocessor\n  %-58s",
               text_of_gpu(first->predicted).c_str(), "");
  for (const char* column : {"ratio", "us", "GB/s", "R", "issue", "blocks"}) std::fprintf(to, " %8s", column);
  std::fprintf(to, "  warps wait for, %%");
  for (const row& r : rows) {
    if (!r.predicted.made()) continue;
    const prediction& p = r.predicted;
    shares waits = p.waits;
    std::erase_if(waits, [](const auto& w) { return w.first == "issued"; });
    std::fprintf(to, "\n  %-58s %8.2f %8.1f %8.0f %8.2f %8.2f %8u  %s", r.name().c_str(), r.ratio(), 1e6 * p.seconds,
                 r.predicted_gb_per_s(), r.predicted_of_copy(), p.issue_active, p.resident_blocks,
                 text_of(waits, 4, .05).c_str());
  }
  std::fputs("\n", to);
}

void print_waits(const std::vector<row>& rows, std::FILE* to) {
  for (const row& r : rows) {
    if (!r.predicted.made()) continue;
    std::fprintf(to,
                 "\n%s: the source lines where warps spend most clocks\n"
                 "  %6s %7s  (warps' clocks; the way of the warp that comes last to each barrier)\n",
                 r.name().c_str(), "share", "longest");
    for (size_t k = 0; k < std::min(profile_lines, r.predicted.lines.size()); ++k) {
      const predicted_line& line = r.predicted.lines[k];
      std::fprintf(to, "  %5.1f%% %6.1f%%  %s:%d  %s  [%s]\n", 100 * line.share, 100 * line.longest_way,
                   short_name(line.file).c_str(), line.line, source_text(line.file, line.line).c_str(),
                   text_of(line.waits, 3, .1).c_str());
    }
  }
}

}  // namespace tuck::bench
