#include "bench/micro/model.hpp"

#include <stdexcept>

#if defined(TUCK_CUDAPTX)
#include <registry.hpp>
#include <time.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#endif

namespace tuck::bench {

#if !defined(TUCK_CUDAPTX)

model_sample use_model(const model_request&, uint64_t) {
  throw std::runtime_error("the model of time needs a build of preset ptx");
}
bool model_in_use() { return false; }
std::vector<std::string> unmet_what_ifs(const model_request&) { return {}; }
prediction take_prediction() { return {}; }

#else
namespace {

using namespace ptx::time;

constexpr uint64_t largest_whole = 64 << 20;
constexpr uint32_t usual_sample = 4;

const machine& gpu_of(const model_request& request) {
  const int arch = cudaptx::target();
  if (request.gpu.empty()) {
    const machine* found = nullptr;
    for (const machine& m : machines())
      if (m.arch == arch && (found == nullptr || m.calibrated)) found = &m;
    if (found == nullptr) throw std::invalid_argument("no GPU of the model has sm_" + std::to_string(arch));
    return *found;
  }
  const machine& m = find_machine(request.gpu);
  if (m.arch != arch)
    throw std::runtime_error("kernels are for sm_" + std::to_string(arch) + ", " + m.name +
                             " needs -DTUCK_PTX_ARCH=" + std::to_string(m.arch));
  return m;
}

// "encoder.cuh:10-20"
line_range range_of(const std::string& text) {
  const size_t colon = text.rfind(':');
  line_range r{text.substr(0, colon)};
  if (colon != text.npos && colon != 0) {
    const char* const end = text.data() + text.size();
    const auto first = std::from_chars(text.data() + colon + 1, end, r.first);
    if (first.ec == std::errc{} && first.ptr != end && *first.ptr == '-') {
      const auto last = std::from_chars(first.ptr + 1, end, r.last);
      if (last.ec == std::errc{} && last.ptr == end && r.first <= r.last) return r;
    }
  }
  throw std::invalid_argument("free=" + text + " must be free=FILE:FIRST-LAST");
}

void apply(const std::string& what_if, model& m) {
  const size_t equals = what_if.find('=');
  if (equals == what_if.npos) throw std::invalid_argument(what_if + " must be NAME=VALUE");
  const std::string name = what_if.substr(0, equals), value = what_if.substr(equals + 1);
  if (name == "free") return m.costless.push_back(range_of(value));
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0') throw std::invalid_argument(what_if + ": the value must be a number");
  if (name != "occupancy") return set(m.on, name, number);
  if (!(number > 0 && number <= 16)) throw std::invalid_argument("occupancy must be a factor above 0, up to 16");
  m.on = with_more_blocks(m.on, number);
}

// Of one thread, which chooses models and asks for predictions.
std::vector<std::string>& what_ifs_in_use() {
  static std::vector<std::string> all;
  return all;
}
// By the what-if: kernels have had such lines.
std::map<std::string, bool>& met() {
  static std::map<std::string, bool> all;
  return all;
}

bool is_of_lines(const std::string& what_if) { return what_if.starts_with("free="); }

std::vector<std::pair<std::string, double> > shares(const waits& w) {
  std::vector<std::pair<std::string, double> > all;
  for (size_t k = 0; k < wait_count; ++k) {
    const auto on = static_cast<wait>(k);
    all.emplace_back(name(on), w.total() > 0 ? w[on] / w.total() : 0);
  }
  return all;
}

void note_lines_met(const std::vector<timed_launch>& launches) {
  std::vector<std::string> ranges = what_ifs_in_use();
  std::erase_if(ranges, [](const std::string& w) { return !is_of_lines(w); });
  for (const timed_launch& l : launches)
    for (size_t k = 0; k < l.costless.size(); ++k) met()[ranges[k]] |= l.costless[k] != 0;
}

predicted_line line_of(const timed_line& l, double all, double longest_way) {
  predicted_line line{l.file, l.line, l.waited.total() / all, longest_way > 0 ? l.longest_way / longest_way : 0,
                      shares(l.waited)};
  std::erase_if(line.waits, [](const auto& w) { return w.second == 0; });
  std::stable_sort(line.waits.begin(), line.waits.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return line;
}

}  // namespace

model_sample use_model(const model_request& request, uint64_t raw_bytes) {
  cudaptx::require_ptxas();
  const auto m = cudaptx::model_of(gpu_of(request));
  for (const std::string& what_if : request.what_ifs) apply(what_if, *m);
  model_sample sample;
  if (request.sampled >= m->on.processors)
    throw std::invalid_argument("--sample must be fewer than the GPU's multiprocessors");
  what_ifs_in_use() = request.what_ifs;
  const uint32_t wanted = request.sampled != 0 ? request.sampled : raw_bytes > largest_whole ? usual_sample : 0;
  if (wanted != 0 && wanted < m->on.processors) {
    sample = {wanted, wanted / m->on.processors};
    m->on = sample_of(m->on, wanted);
  }
  use_model(m);
  return sample;
}

bool model_in_use() { return current_model() != nullptr; }

std::vector<std::string> unmet_what_ifs(const model_request& request) {
  std::vector<std::string> all = request.what_ifs;
  std::erase_if(all, [](const std::string& w) { return !is_of_lines(w) || met()[w]; });
  return all;
}

prediction take_prediction() {
  const std::vector<timed_launch> launches = take_timed();
  const auto on = current_model();
  prediction p;
  if (launches.empty() || on == nullptr) return p;
  p.gpu = on->on.name;
  p.what_ifs = what_ifs_in_use();
  p.calibrated = on->on.calibrated && p.what_ifs.empty();
  waits waited;
  double clocks = 0, longest_way = 0, longest = 0;
  for (const timed_launch& l : launches) {
    p.seconds += l.microseconds * 1e-6;
    p.launch_seconds += l.launch_us * 1e-6;
    p.issue_active += l.issue_active * l.clocks;
    clocks += l.clocks;
    waited += l.waited;
    for (const timed_line& line : l.lines) longest_way += line.longest_way;
    if (l.clocks < longest) continue;
    longest = l.clocks;
    p.resident_blocks = l.resident_blocks;
    p.registers = l.registers;
    p.shared_bytes = l.shared_bytes;
    p.blocks = l.blocks;
  }
  if (clocks > 0) p.issue_active /= clocks;
  note_lines_met(launches);
  p.waits = shares(waited);
  const double busy = waited.total() - waited[wait::nothing];
  for (const timed_launch& l : launches)
    for (const timed_line& line : l.lines) p.lines.push_back(line_of(line, busy, longest_way));
  std::stable_sort(p.lines.begin(), p.lines.end(),
                   [](const predicted_line& a, const predicted_line& b) { return a.share > b.share; });
  return p;
}

#endif

}  // namespace tuck::bench
