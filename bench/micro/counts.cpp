#include "bench/micro/counts.hpp"

#include <algorithm>

namespace tuck::bench {
namespace {

constexpr size_t profile_lines = 20;

// Of one walls' seconds, R: a copy moves as many bytes as the tensor and its frame have.
double bound_of(const row& r, const gpu_rates& on, double seconds) {
  return (static_cast<double>(r.tensor.raw_bytes) + static_cast<double>(r.encoded_bytes)) / on.copy / seconds;
}

double by_unit(const row& r, double count) { return count * 128 / static_cast<double>(r.tensor.raw_bytes); }

}  // namespace

std::string short_name(const std::string& file) {
  for (const char* folder : {"/include/tuck/", "/bench/", "/examples/", "/test/"})
    if (const size_t at = file.rfind(folder); at != std::string::npos) return file.substr(at + 1);
  return file.substr(file.rfind('/') + 1);
}

void add_counts(nlohmann::ordered_json& to, const row& r, const std::vector<gpu_rates>& gpus) {
  for (const char* key :
       {"instructions_per_128_bytes", "active_lanes", "shared_wavefronts", "least_wavefronts", "sectors", "bound_R"})
    to[key] = nullptr;
  if (!r.counted()) return;
  to["instructions_per_128_bytes"] = by_unit(r, r.counts.instructions);
  to["active_lanes"] = r.counts.active_lanes();
  to["shared_wavefronts"] = by_unit(r, r.counts.wavefronts);
  to["least_wavefronts"] = by_unit(r, r.counts.least_wavefronts);
  to["sectors"] = by_unit(r, r.counts.sectors);
  for (const gpu_rates& on : gpus) {
    const walls of = walls_of(r.counts, on);
    nlohmann::ordered_json bound{{"R", bound_of(r, on, of.least_time())}, {"wall", wall_names[of.highest()]}};
    for (size_t i = 0; i < of.seconds.size(); ++i)  // a wall that nothing leans on bounds nothing
      bound[wall_names[i]] = of.seconds[i] > 0 ? nlohmann::ordered_json(bound_of(r, on, of.seconds[i])) : nullptr;
    to["bound_R"][on.name] = bound;
  }
}

void print_counts(const std::vector<row>& rows, const std::vector<gpu_rates>& gpus, std::FILE* to) {
  if (std::none_of(rows.begin(), rows.end(), [](const row& r) { return r.counted(); })) return;
  std::fprintf(to,
               "\nWhat kernels execute for 128 bytes of the raw tensor, and the bound on R that this is\n  %-58s %6s",
               "", "ratio");
  for (const char* column : {"instr.", "lanes", "waves", "least", "sectors"}) std::fprintf(to, " %8s", column);
  for (const gpu_rates& on : gpus) std::fprintf(to, " %7s", on.name.substr(0, on.name.find('-')).c_str());
  for (const row& r : rows) {
    if (!r.counted()) continue;
    std::fprintf(to, "\n  %-58s %6.2f", r.name().c_str(), r.ratio());
    for (const double count :
         {by_unit(r, r.counts.instructions), r.counts.active_lanes(), by_unit(r, r.counts.wavefronts),
          by_unit(r, r.counts.least_wavefronts), by_unit(r, r.counts.sectors)})
      std::fprintf(to, " %8.2f", count);
    for (const gpu_rates& on : gpus) {
      const walls of = walls_of(r.counts, on);
      std::fprintf(to, " %6.2f%c", bound_of(r, on, of.least_time()), wall_names[of.highest()][0]);
    }
  }
  std::fprintf(
      to,
      "\nBounds, no speeds: i by instructions at 100 %% of issue, of which a good kernel reaches %.0f %%; s by\n"
      "shared memory, m by memory. The look-back chain is latency, which no count knows: it is left out.\n",
      100 * good_issue);
}

void print_profile(const std::vector<row>& rows, std::FILE* to) {
  for (const row& r : rows) {
    if (!r.counted()) continue;
    std::fprintf(to, "\n%s: the source lines that execute most, for 128 bytes of the raw tensor\n", r.name().c_str());
    if (r.lines.empty() || r.lines.front().file.empty()) {
      std::fputs("  kernels were compiled without -lineinfo\n", to);
      continue;
    }
    std::fprintf(to, "  %8s %6s %6s %8s %8s\n", "instr.", "share", "lanes", "sectors", "waves");
    for (size_t i = 0; i < std::min(r.lines.size(), profile_lines); ++i) {
      const source_line& line = r.lines[i];
      std::fprintf(to, "  %8.3f %5.1f%% %6.2f %8.3f %8.3f  %s:%d\n", by_unit(r, line.counts.instructions),
                   100 * line.counts.instructions / r.counts.instructions, line.counts.active_lanes(),
                   by_unit(r, line.counts.sectors), by_unit(r, line.counts.wavefronts), short_name(line.file).c_str(),
                   line.line);
    }
  }
}

}  // namespace tuck::bench
