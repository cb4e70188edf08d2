// The engine's face: modules, settings, launches, counts.
#include "handlers.hpp"
#include "launch_run.hpp"
#include "parser.hpp"
#include "time/model.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace ptx {
namespace {

struct engine {
  std::mutex mutex;
  settings how;
  std::vector<std::unique_ptr<kernel>> kernels;
  struct sums {
    std::vector<pc_counts> counts;
    counters totals;
    uint64_t launches = 0;
  };
  std::map<const kernel*, sums> counted;
};

engine& all() {
  static engine& e = *new engine;
  return e;
}

std::string demangled(const std::string& name) {
  char* readable = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr);
  std::string text = readable != nullptr ? readable : name;
  std::free(readable);
  return text;
}

void add(pc_counts& to, const pc_counts& c) {
  to.executed += c.executed;
  to.lanes += c.lanes;
  to.sectors += c.sectors;
  to.wavefronts += c.wavefronts;
  to.least_wavefronts += c.least_wavefronts;
  to.atomics += c.atomics;
  to.shared_atomics += c.shared_atomics;
  to.polls += c.polls;
}

// Adds what an instruction did to counters that are not kept per launch.
void add(counters& to, const instruction& i, const pc_counts& c) {
  to.instructions += c.executed;
  to.lanes += c.lanes;
  to.shared_wavefronts += c.wavefronts;
  to.least_wavefronts += c.least_wavefronts;
  to.atomics += c.atomics;
  to.shared_atomics += c.shared_atomics;
  to.polls += c.polls;
  if (i.how == flow::block_barrier) to.barriers += c.lanes;
}

counters total_of(const kernel& k, const std::vector<pc_counts>& counts, counters sum) {
  for (std::size_t pc = 0; pc < counts.size(); ++pc) add(sum, k.code[pc], counts[pc]);
  return sum;
}

std::vector<line_counts> by_line(const kernel& k, const std::vector<pc_counts>& counts) {
  std::map<std::pair<uint32_t, uint32_t>, counters> lines;
  for (std::size_t pc = 0; pc < counts.size(); ++pc) {
    counters& c = lines[{k.sources[pc].file, k.sources[pc].line}];
    add(c, k.code[pc], counts[pc]);
    const traffic moves = k.code[pc].moves;
    if (moves != traffic::store) c.load_sectors += counts[pc].sectors;
    if (moves != traffic::load) c.store_sectors += counts[pc].sectors;
  }
  std::vector<line_counts> table;
  for (const auto& [where, c] : lines)
    if (c.instructions != 0) table.push_back({k.files[where.first], static_cast<int>(where.second), c});
  std::stable_sort(table.begin(), table.end(),
                   [](const line_counts& a, const line_counts& b) { return a.all.instructions > b.all.instructions; });
  return table;
}

}  // namespace

std::string kernel::place(std::size_t pc) const {
  std::string s = "  PTX line " + std::to_string(lines[pc]) + ": " + text[pc] + "\n";
  const source_line* at = &sources[pc];
  if (at->line == 0) return s;
  s += "  source ";
  for (;; at = &callers[at->caller]) {
    const std::string& file = files[at->file];
    s += file.substr(file.find_last_of('/') + 1) + ":" + std::to_string(at->line);
    if (at->caller == no_operand) return s + "\n";
    s += ", from ";
  }
}

void fault(const warp& w, const char* kind, const std::string& detail, int lane) {
  const auto& b = w.home->index;
  std::string s = "PTX engine: " + std::string(kind) + "\n  " + detail + "\n  kernel " + demangled(w.code->name) +
                  "\n  block " + std::to_string(b[0]);
  if (b[1] != 0 || b[2] != 0) s += "," + std::to_string(b[1]) + "," + std::to_string(b[2]);
  s += ", warp " + std::to_string(w.index);
  if (lane >= 0)
    s += ", lane " + std::to_string(lane) + ", thread " + std::to_string(w.index * 32 + static_cast<uint32_t>(lane));
  throw error(kind, s + "\n" + w.code->place(w.pc));
}

std::vector<const kernel*> load(std::string_view text) {
  auto fresh = module_parser(text).parse();
  const std::lock_guard lock(all().mutex);
  std::vector<const kernel*> found;
  for (auto& k : fresh) {
    found.push_back(k.get());
    all().kernels.push_back(std::move(k));
  }
  return found;
}

const std::string& name(const kernel& k) { return k.name; }
std::span<const parameter> parameters(const kernel& k) { return k.parameters; }
uint32_t parameter_bytes(const kernel& k) { return k.parameter_bytes; }
uint32_t static_shared_bytes(const kernel& k) { return k.shared_bytes; }
uint32_t local_bytes(const kernel& k) { return k.local_bytes; }
int max_threads(const kernel& k) { return k.max_threads; }
int target(const kernel& k) { return k.target; }

void configure(const settings& s) {
  const std::lock_guard lock(all().mutex);
  all().how = s;
}
settings current_settings() {
  const std::lock_guard lock(all().mutex);
  return all().how;
}

counters run(const launch& l) {
  std::vector<pc_counts> counts;
  counters rest;
  if (const auto m = time::current_model()) {
    rest = time::run_timed(l, *m, counts, demangled(l.code->name));
  } else {
    launch_run r(l);
    rest = r.run();
    counts = std::move(r.counts);
  }
  const std::lock_guard lock(all().mutex);
  engine::sums& s = all().counted[l.code];
  s.counts.resize(counts.size());
  for (std::size_t pc = 0; pc < counts.size(); ++pc) add(s.counts[pc], counts[pc]);
  s.totals += rest;
  ++s.launches;
  return total_of(*l.code, counts, rest);
}

counters& counters::operator+=(const counters& c) {
  constexpr std::size_t n = sizeof(counters) / sizeof(uint64_t);
  auto& to = reinterpret_cast<std::array<uint64_t, n>&>(*this);
  const auto& from = reinterpret_cast<const std::array<uint64_t, n>&>(c);
  for (std::size_t k = 0; k < n; ++k) to[k] += from[k];
  return *this;
}

std::vector<kernel_counts> counted() {
  const std::lock_guard lock(all().mutex);
  std::vector<kernel_counts> table;
  for (const auto& [k, s] : all().counted)
    table.push_back({demangled(k->name), s.launches, total_of(*k, s.counts, s.totals), by_line(*k, s.counts)});
  return table;
}
void clear_counts() {
  const std::lock_guard lock(all().mutex);
  all().counted.clear();
}

}  // namespace ptx
