// Kernels with a planted bug, of which the engine must name the kind, the kernel, the PTX line and the source line; and
// kernels without one, which must pass under many seeds.
#pragma once

#include <algorithm>

#include "support.hpp"

namespace proof {

// A kernel body: the text behind "BUG " is of line 42 of a file.
inline std::string with_lines(const std::string& body) {
  std::string text;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = std::min(body.find('\n', at), body.size());
    const std::string line = body.substr(at, end - at);
    const bool bug = line.compare(0, 4, "BUG ") == 0;
    text += bug ? ".loc 1 42 3\n" + line.substr(4) + "\n.loc 1 50 3\n" : line + "\n";
    at = end + 1;
  }
  return text;
}

struct memory {
  buffer<uint32_t> host{256}, device{256, ptx::memory_kind::device};
};
inline ptx::counters run_body(const std::string& body, shape s, memory& m) {
  return launch(load_one(kernel_text(2, "\n.loc 1 7 1\n" + with_lines(body), ".file 1 \"planted.cu\"\n")), s,
                {m.host.address(), m.device.address()});
}
// P0: 256 words of the host, zero; P1: 256 words that nobody wrote. `kind`: or several, of which the schedule picks
// one.
inline void expect_fault(const std::string& kind, const std::string& body, shape s = {1, 64}) {
  const std::string text = kernel_text(2, "\n.loc 1 7 1\n" + with_lines(body), ".file 1 \"planted.cu\"\n");
  std::vector<std::string> lines;  // any of the marked ones
  for (auto bug = text.find(".loc 1 42 3"); bug != text.npos; bug = text.find(".loc 1 42 3", bug + 1))
    lines.push_back(
        "PTX line " +
        std::to_string(2 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bug), '\n')) + ":");
  for (s.seed = 1; s.seed <= 5; ++s.seed) {
    memory m;
    try {
      run_body(body, s, m);
      ADD_FAILURE() << "no fault: " << kind << " seed " << s.seed << "\n" << body;
      return;
    } catch (const ptx::error& e) {
      const std::string what = e.what();
      EXPECT_NE(kind.find(e.kind), kind.npos) << kind << "\n" << what;
      EXPECT_NE(what.find("kernel k"), what.npos) << what;
      if (lines.empty()) continue;
      const auto named = [&](const std::string& line) { return what.find(line) != what.npos; };
      EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), named)) << lines[0] << "\n" << what;
      EXPECT_NE(what.find("planted.cu:42"), what.npos) << what;
    }
  }
}
inline void expect_pass(const std::string& body, shape s = {1, 64}, int seeds = 50) {
  for (s.seed = 1; s.seed <= static_cast<uint64_t>(seeds); ++s.seed) {
    memory m;
    try {
      run_body(body, s, m);
    } catch (const ptx::error& e) {
      ADD_FAILURE() << "seed " << s.seed << " " << e.what() << body;
      return;
    }
  }
}

}  // namespace proof
