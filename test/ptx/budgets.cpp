#include "budgets.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <utility>
#include <vector>

namespace tuck::test {
namespace {

constexpr double more_counts = 1.03, more_time = 1.05;
constexpr std::size_t lines_named = 10;

std::string version_of(const std::string& compiler) { return compiler.substr(0, compiler.find(" sm_")); }

bool updates() { return std::getenv("TUCK_UPDATE_BUDGETS") != nullptr; }

// The lines that grew by a thousandth of all or more, those that grew most first.
std::string grown(const call_cost& then, const call_cost& now, double line_cost::* cost, double all) {
  std::vector<std::pair<double, std::string>> found;
  for (const auto& [text, of] : now.lines) {
    const auto before = then.lines.find(text);
    const double was = before == then.lines.end() ? 0 : before->second.*cost, is = of.*cost;
    std::ostringstream line;
    line << "  " << was << " -> " << is << "  " << text << "\n";
    if (is - was > .001 * all) found.emplace_back(was - is, line.str());
  }
  std::sort(found.begin(), found.end());
  std::string lines;
  for (std::size_t i = 0; i < std::min(found.size(), lines_named); ++i) lines += found[i].second;
  return lines;
}

}  // namespace

budgets::budgets(std::string path) : path_(std::move(path)) {
  std::ifstream in(path_);
  std::map<std::string, call_cost>* calls = nullptr;
  call_cost* open = nullptr;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word, name;
    if (line.starts_with("nvcc ")) {
      calls = &of_[line];
    } else if (line.starts_with("call ") && calls != nullptr) {
      words >> word >> name;
      open = &(*calls)[name];
      words >> open->instructions >> open->lanes >> open->wavefronts >> open->sectors >> open->microseconds;
    } else if (open != nullptr) {
      line_cost cost;
      words >> cost.instructions;
      if (open->microseconds != 0) words >> cost.microseconds;
      words >> std::ws;
      std::getline(words, name);
      open->lines[name] = cost;
    }
  }
}

bool budgets::has(const std::string& compiler) const { return updates() || of_.contains(compiler); }

std::string budgets::check(const std::string& compiler, const std::string& call, const call_cost& now) {
  if (updates()) {
    std::erase_if(of_, [&](const auto& other) { return version_of(other.first) != version_of(compiler); });
    of_[compiler][call] = now;
    write();
    return {};
  }
  const auto calls = of_.find(compiler);
  if (calls == of_.end() || !calls->second.contains(call)) return call + " has no budget: TUCK_UPDATE_BUDGETS=1\n";
  const call_cost& then = calls->second.at(call);
  std::ostringstream wrong;
  const auto changed = [&](const char* what, double call_cost::* cost) -> std::ostream& {
    return wrong << call << ": " << then.*cost << " -> " << now.*cost << " " << what << "\n";
  };
  if (now.instructions > more_counts * then.instructions)
    changed("instructions for 128 bytes", &call_cost::instructions)
        << grown(then, now, &line_cost::instructions, now.instructions);
  if (now.lanes < then.lanes / more_counts) changed("active lanes", &call_cost::lanes);
  if (now.wavefronts > more_counts * then.wavefronts + .01)
    changed("wavefronts of shared memory for 128 bytes", &call_cost::wavefronts);
  if (now.sectors > more_counts * then.sectors) changed("sectors for 128 bytes", &call_cost::sectors);
  if (then.microseconds == 0 && now.microseconds != 0)
    wrong << call << " has no budget of time: TUCK_UPDATE_BUDGETS=1\n";
  else if (now.microseconds > more_time * then.microseconds)
    changed("predicted microseconds", &call_cost::microseconds)
        << grown(then, now, &line_cost::microseconds, now.microseconds);
  return wrong.str();
}

void budgets::write() const {
  std::ofstream out(path_);
  out << std::setprecision(4);
  for (const auto& [compiler, calls] : of_) {
    out << compiler << "\n";
    for (const auto& [call, c] : calls) {
      const bool timed = c.microseconds != 0;
      out << "call " << call << ' ' << c.instructions << ' ' << c.lanes << ' ' << c.wavefronts << ' ' << c.sectors;
      if (timed) out << ' ' << c.microseconds;
      out << "\n";
      for (const auto& [text, cost] : c.lines) {
        out << "  " << cost.instructions << ' ';
        if (timed) out << cost.microseconds << ' ';
        out << text << "\n";
      }
    }
  }
}

}  // namespace tuck::test
