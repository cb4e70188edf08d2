#include "support/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <system_error>
#include <utility>

namespace tuck::tools {
namespace {

using namespace std::chrono_literals;
constexpr auto patience = 1s;
constexpr auto interval = 100ms;
constexpr const char* clear_line = "\r\x1b[K";

}  // namespace

progress::progress(std::string verb, uint64_t chunks, uint64_t bytes)
    : verb_(std::move(verb)), chunks_(chunks), bytes_(bytes) {
  if (::isatty(STDERR_FILENO) == 0 || chunks == 0) return;
  try {
    display_ = std::jthread([this](std::stop_token stop) { show(std::move(stop)); });
  } catch (const std::system_error&) {
    // No thread for the display: the work goes on without.
  }
}

void progress::show(std::stop_token stop) const {
  const auto start = std::chrono::steady_clock::now();
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  const auto stopped_within = [&](auto time) {
    return wake.wait_for(lock, stop, time, [&] { return stop.stop_requested(); });
  };
  if (stopped_within(patience)) return;
  do std::fputs((clear_line + line(std::chrono::steady_clock::now() - start)).c_str(), stderr);
  while (!stopped_within(interval));
  std::fputs(clear_line, stderr);
}

std::string progress::line(std::chrono::duration<double> elapsed) const {
  const double share =
      std::min(1.0, static_cast<double>(chunks_done_.load(std::memory_order_relaxed)) / static_cast<double>(chunks_));
  char text[80];
  std::snprintf(text, sizeof text, "%s %3d %%  %.2f GB/s", verb_.c_str(), static_cast<int>(100 * share),
                share * static_cast<double>(bytes_) / elapsed.count() / 1e9);
  return text;
}

}  // namespace tuck::tools
