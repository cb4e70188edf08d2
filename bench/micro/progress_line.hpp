// What of a run is done, and how long the rest will take.
#pragma once

#include "bench/micro/runner.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace tuck::bench {

inline std::string span_of(double seconds) {
  char text[32];
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 60)
    std::snprintf(text, sizeof text, "%ld s", whole);
  else if (whole < 3600)
    std::snprintf(text, sizeof text, "%ld:%02ld min", whole / 60, whole % 60);
  else
    std::snprintf(text, sizeof text, "%ld:%02ld h", whole / 3600, whole / 60 % 60);
  return text;
}

// What is done, and how long the rest will take, on stderr: on a terminal one line that is written anew.
class progress_line {
 public:
  // rows: the point of each.
  explicit progress_line(std::vector<const point*> rows)
      : terminal_(isatty(STDERR_FILENO) == 1), all_(rows.size()), left_(std::move(rows)) {}

  void begin(const std::string& name) const {
    if (terminal_) show(name, "");
  }
  // `seconds` were spent on it, tensors and all.
  void end(const point& p, const std::string& name, double seconds, const row* r) {
    pace& of = paces_[p.coder.name];
    of.bytes += static_cast<double>(p.tensor.raw_bytes) + least_bytes;
    of.seconds += seconds;
    if (const auto at = std::find(left_.begin(), left_.end(), &p); at != left_.end()) left_.erase(at);
    char figure[64] = "failed";
    if (r != nullptr && r->time.runs != 0)
      std::snprintf(figure, sizeof figure, "%.3f GB/s, R %.3f%s", r->gb_per_s(), r->of_copy(),
                    r->noisy() ? ", noisy" : "");
    else if (r != nullptr && r->predicted.made())
      std::snprintf(figure, sizeof figure, "%.1f us, %.0f GB/s, R %.2f", 1e6 * r->predicted.seconds,
                    r->predicted_gb_per_s(), r->predicted_of_copy());
    else if (r != nullptr && r->counted())
      std::snprintf(figure, sizeof figure, "%.2f instructions for 128 bytes",
                    r->counts.instructions * 128 / double(r->tensor.raw_bytes));
    else if (r != nullptr)
      std::snprintf(figure, sizeof figure, "moves %.3f bytes a byte", r->moved_bytes / double(r->tensor.raw_bytes));
    show(name, figure);
  }
  void clear() const {
    if (terminal_) std::fputs("\r\033[K", stderr);
  }

 private:
  struct pace {
    double bytes = 0, seconds = 0;
  };

  // A row costs as if it had these bytes more: even small ones are run for a while.
  static constexpr double least_bytes = 2 << 20;

  // By what each coder has taken for a byte so far; others count as those did together.
  double seconds_left() const {
    pace all;
    for (const auto& [name, of] : paces_) {
      all.bytes += of.bytes;
      all.seconds += of.seconds;
    }
    double sum = 0;
    for (const point* p : left_) {
      const auto found = paces_.find(p->coder.name);
      const pace& of = found == paces_.end() ? all : found->second;
      sum += of.seconds / of.bytes * (static_cast<double>(p->tensor.raw_bytes) + least_bytes);
    }
    return sum;
  }
  void show(const std::string& name, const std::string& figure) const {
    std::string line = "[" + std::to_string(all_ - left_.size()) + "/" + std::to_string(all_) + "] " + name;
    if (!figure.empty()) line += "  " + figure;
    if (!paces_.empty()) line += "  (about " + span_of(seconds_left()) + " left)";
    if (terminal_)
      std::fprintf(stderr, "\r\033[K%.*s", columns() - 1, line.c_str());
    else
      std::fprintf(stderr, "%s\n", line.c_str());
    std::fflush(stderr);
  }

  static int columns() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
  }

  bool terminal_;
  size_t all_ = 0;
  std::vector<const point*> left_;
  std::map<std::string, pace> paces_;
};

}  // namespace tuck::bench
