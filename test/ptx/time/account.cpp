#include "account.hpp"

#include <algorithm>
#include <map>

namespace ptx::time {
namespace {

constexpr std::string_view wait_names[] = {"issued",  "latency",      "branch",       "shared", "shuffle",
                                           "special", "global",       "look_back",    "atomic", "barrier",
                                           "pipe",    "shared_queue", "not_selected", "code",   "nothing"};
static_assert(std::size(wait_names) == wait_count);

// The line that an instruction counts as.
const source_line& own_line(const kernel& k, std::size_t pc, const std::vector<std::string>& helpers) {
  const auto helps = [&](const source_line& at) {
    const std::string& file = k.files[at.file];
    return std::any_of(helpers.begin(), helpers.end(),
                       [&](const std::string& part) { return file.find(part) != file.npos; });
  };
  const source_line* at = &k.sources[pc];
  while (at->caller != no_operand && helps(*at)) at = &k.callers[at->caller];
  return *at;
}

}  // namespace

std::string_view name(wait w) { return wait_names[static_cast<std::size_t>(w)]; }

void way::sum_up() {
  std::sort(steps_.begin(), steps_.end());
  std::size_t n = 0;
  for (const auto& step : steps_)
    if (n != 0 && steps_[n - 1].first == step.first)
      steps_[n - 1].second += step.second;
    else
      steps_[n++] = step;
  steps_.resize(n);
  room_ = std::max(room_, 2 * n);
}

double waits::total() const {
  double sum = 0;
  for (const double c : clocks) sum += c;
  return sum;
}
waits& waits::operator+=(const waits& w) {
  for (std::size_t k = 0; k < wait_count; ++k) clocks[k] += w.clocks[k];
  return *this;
}

void account::report(timed_launch& to, const program& p, const std::vector<std::string>& helpers,
                     double warp_clocks) const {
  std::map<std::pair<uint32_t, uint32_t>, timed_line> lines;
  for (std::size_t pc = 0; pc < of_.size(); ++pc) {
    const of_pc& a = of_[pc];
    waits waited;
    for (std::size_t k = 0; k < wait_count; ++k) waited.clocks[k] = static_cast<double>(a.waited[k]);
    if (waited.total() == 0 && a.longest_way == 0) continue;
    to.slots += static_cast<double>(a.slots);
    to.waited += waited;
    const source_line& own = own_line(p.code, pc, helpers);
    timed_line& line = lines[{own.file, own.line}];
    line.file = p.code.files.empty() ? "" : p.code.files[own.file];
    line.line = static_cast<int>(own.line);
    line.longest_way += static_cast<double>(a.longest_way);
    line.waited += waited;
  }
  to.waited[wait::nothing] = std::max(0., warp_clocks - to.waited.total());
  for (auto& [where, line] : lines) to.lines.push_back(std::move(line));
  std::stable_sort(to.lines.begin(), to.lines.end(),
                   [](const timed_line& a, const timed_line& b) { return a.waited.total() > b.waited.total(); });
}

}  // namespace ptx::time
