#include "costs.hpp"

#include "ptx.hpp"
#include "runtime/registry.hpp"

#include <algorithm>
#include <fstream>

namespace tuck::test {
namespace {

constexpr std::size_t lines_kept = 20;
constexpr double share_kept = .01;  // of the longest way
// Two have several rounds of blocks to run for a tensor of 1 MiB.
constexpr uint32_t processors = 2;

// The line's text behind the name of its file: its number changes with each edit.
std::string line_name(const std::string& file, int line) {
  std::ifstream source(file);
  std::string text;
  for (int k = 0; k < line && std::getline(source, text);) ++k;
  const size_t first = text.find_first_not_of(" \t");
  return file.substr(file.rfind('/') + 1) + ": " + (first == text.npos ? "" : text.substr(first));
}

// Until it goes, launches are counted, or run under the model.
struct counting {
  counting() {
    ptx::settings s = before;
    s.check = s.weak = s.shuffle = false;
    s.traffic = true;
    s.resident = 1;
    ptx::configure(s);
    ptx::clear_counts();
  }
  counting(const counting&) = delete;
  counting& operator=(const counting&) = delete;
  ~counting() { ptx::configure(before); }
  ptx::settings before = ptx::current_settings();
};
struct timing {
  timing() {
    ptx::time::use_model(cudaptx::model_of(ptx::time::sample_of(ptx::time::find_machine("h100"), processors)));
    ptx::time::take_timed();
  }
  timing(const timing&) = delete;
  timing& operator=(const timing&) = delete;
  ~timing() { ptx::time::use_model(nullptr); }
};

}  // namespace

call_cost counted(uint64_t tensor_bytes, const std::function<void()>& call) {
  {
    const counting until_called;
    call();
  }
  const double units = static_cast<double>(tensor_bytes) / 128;
  call_cost c;
  double all_lanes = 0;
  for (const ptx::kernel_counts& k : ptx::counted()) {
    c.instructions += static_cast<double>(k.all.instructions) / units;
    all_lanes += static_cast<double>(k.all.lanes) / units;
    c.wavefronts += static_cast<double>(k.all.shared_wavefronts) / units;
    c.sectors += static_cast<double>(k.all.load_sectors + k.all.store_sectors) / units;
    for (std::size_t i = 0; i < std::min(k.lines.size(), lines_kept); ++i)
      c.lines[line_name(k.lines[i].file, k.lines[i].line)].instructions +=
          static_cast<double>(k.lines[i].all.instructions) / units;
  }
  c.lanes = c.instructions > 0 ? all_lanes / c.instructions : 0;
  return c;
}

void add_time(call_cost& cost, const std::function<void()>& call) {
  {
    const timing until_called;
    call();
  }
  for (const ptx::time::timed_launch& l : ptx::time::take_timed()) {
    const double us = l.microseconds - l.launch_us;
    cost.microseconds += us;
    double all = 0;
    for (const ptx::time::timed_line& line : l.lines) all += line.longest_way;
    for (const ptx::time::timed_line& line : l.lines)
      if (line.longest_way > share_kept * all)
        cost.lines[line_name(line.file, line.line)].microseconds += us * line.longest_way / all;
  }
}

}  // namespace tuck::test
