#include "program.hpp"

#include "../src/handlers.hpp"

#include <algorithm>
#include <map>

namespace ptx::time {
namespace {

constexpr std::size_t window = 64;      // how far ahead ptxas looks
constexpr uint32_t load_latency = 400;  // of global memory, as ptxas takes it

// What may not change places.
class dependences {
 public:
  dependences(const kernel& k, const std::vector<operation>& operations, std::size_t begin, std::size_t end)
      : after(end - begin), before(end - begin, 0), k_(k), operations_(operations), begin_(begin) {
    const std::size_t n = end - begin;
    for (std::size_t at = 0; at < n; ++at) {
      by_values(at);
      by_memory(at);
    }
    if (n == 0 || !leaves(n - 1)) return;
    for (std::size_t at = 0; at + 1 < n; ++at) edge(at, n - 1, 0);
  }

  std::vector<std::vector<std::pair<std::size_t, uint32_t>>> after;  // of each, with the clocks between
  std::vector<uint32_t> before;                                      // their number

 private:
  uint32_t latency(std::size_t at) const {
    const operation& o = operations_[begin_ + at];
    const instruction& i = k_.code[begin_ + at];
    if (o.free) return 0;
    const bool far = i.moves == traffic::load && i.where != space::shared && i.where != space::local;
    return far ? load_latency : static_cast<uint32_t>(o.latency);
  }

  struct value {
    std::size_t writer = 0;
    bool written = false;
    std::vector<std::size_t> readers = {};
  };

  void edge(std::size_t a, std::size_t b, uint32_t clocks) {
    after[a].push_back({b, clocks});
    ++before[b];
  }

  void read(value& v, std::size_t at) {
    if (v.written) edge(v.writer, at, latency(v.writer));
    v.readers.push_back(at);
  }
  void write(value& v, std::size_t at) {
    for (const std::size_t reader : v.readers)
      if (reader != at) edge(reader, at, 0);
    if (v.written) edge(v.writer, at, 1);
    v = {at, true};
  }
  void by_values(std::size_t at) {
    const operation& o = operations_[begin_ + at];
    for (int s = 0; s < o.sources; ++s) read(registers_[o.source[s]], at);
    for (int s = 0; s < o.from_flags; ++s) read(flags_[o.from_flag[s]], at);
    for (int s = 0; s < o.results; ++s) write(registers_[o.result[s]], at);
    for (int s = 0; s < o.to_flags; ++s) write(flags_[o.to_flag[s]], at);
  }

  bool leaves(std::size_t at) const {
    const flow how = k_.code[begin_ + at].how;
    return how == flow::branch || how == flow::branch_table || how == flow::exit;
  }
  // Nothing that touches memory passes it.
  bool is_wall(std::size_t at) const {
    const instruction& i = k_.code[begin_ + at];
    const operation& o = operations_[begin_ + at];
    return i.how == flow::block_barrier || i.copies != copying::none || i.releases || i.acquires || i.relaxed ||
           o.kind == wait::atomic || (o.where == pipe::control && i.moves == traffic::none);
  }
  void by_memory(std::size_t at) {
    const instruction& i = k_.code[begin_ + at];
    const bool wall = is_wall(at), moves = i.moves != traffic::none;
    if (!wall && !moves && i.how == flow::next) return;
    if (has_wall_) edge(wall_, at, 0);
    if (wall) {
      for (const std::size_t other : accesses_) edge(other, at, 0);
      accesses_.clear();
      wall_ = at;
      has_wall_ = true;
    } else if (moves) {
      const bool changes = i.where != space::param && i.where != space::constant && !i.read_only;
      for (const std::size_t other : accesses_)
        if (changes && conflict(k_.code[begin_ + other], i)) edge(other, at, 0);
      accesses_.push_back(at);
    }
  }
  static bool conflict(const instruction& a, const instruction& b) {
    if (a.read_only || b.read_only || (a.moves == traffic::load && b.moves == traffic::load)) return false;
    const bool generic = a.where == space::generic || b.where == space::generic;
    if (!generic && a.where != b.where) return false;
    const bool atomic = a.moves == traffic::atomic || b.moves == traffic::atomic;
    if (a.from_columns[0] != b.from_columns[0] || atomic) return true;
    const int64_t of_a = bytes_of(a.t) * a.vector, of_b = bytes_of(b.t) * b.vector;
    return a.offset + of_a > b.offset && b.offset + of_b > a.offset;
  }

  const kernel& k_;
  const std::vector<operation>& operations_;
  std::size_t begin_;
  std::map<uint16_t, value> registers_, flags_;
  std::vector<std::size_t> accesses_;  // since the last wall
  std::size_t wall_ = 0;
  bool has_wall_ = false;
};

class list_scheduler {
 public:
  list_scheduler(dependences&& d, const operation* operations, std::size_t n)
      : d_(std::move(d)), operations_(operations), n_(n), height_(n, 0), earliest_(n, 0), taken_(n, false) {
    for (std::size_t a = n; a-- > 0;)
      for (const auto& [b, clocks] : d_.after[a]) height_[a] = std::max(height_[a], height_[b] + clocks);
  }

  std::vector<std::size_t> order() {
    std::vector<std::size_t> done;
    while (done.size() < n_) {
      const std::size_t best = next();
      taken_[best] = true;
      done.push_back(best);
      now_ = std::max(now_, earliest_[best]);
      for (const auto& [b, clocks] : d_.after[best]) {
        --d_.before[b];
        earliest_[b] = std::max(earliest_[b], now_ + clocks);
      }
      if (!operations_[best].free) now_ += operations_[best].issues;
    }
    return done;
  }

 private:
  std::size_t next() {
    while (taken_[first_]) ++first_;
    std::size_t best = n_;
    for (std::size_t a = first_, seen = 0; a < n_ && seen < window; ++a) {
      if (taken_[a]) continue;
      ++seen;
      if (d_.before[a] == 0 && (best == n_ || is_better(a, best))) best = a;
    }
    return best;
  }
  bool is_better(std::size_t a, std::size_t b) const {
    const bool a_can = earliest_[a] <= now_, b_can = earliest_[b] <= now_;
    if (a_can != b_can) return a_can;
    return a_can ? height_[a] > height_[b] : earliest_[a] < earliest_[b];
  }

  dependences d_;
  const operation* operations_;
  std::size_t n_, first_ = 0;
  std::vector<uint32_t> height_, earliest_;
  std::vector<bool> taken_;
  uint32_t now_ = 0;
};

}  // namespace

std::vector<std::size_t> scheduled(const kernel& k, const std::vector<operation>& operations, std::size_t begin,
                                   std::size_t end) {
  std::vector<std::size_t> order =
      list_scheduler({k, operations, begin, end}, operations.data() + begin, end - begin).order();
  for (std::size_t& pc : order) pc += begin;
  return order;
}

}  // namespace ptx::time
