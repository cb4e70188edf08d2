// What kernels may execute: counts in a file of the tree, which only grow by hand. TUCK_UPDATE_BUDGETS=1 in the
// environment writes them anew.
#pragma once

#include <ptx.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace tuck::test {

// Of one call, for 128 bytes of the tensor.
struct counted_call {
  double instructions = 0, lanes = 0, wavefronts = 0, sectors = 0;
  std::map<std::string, double> lines;  // instructions by "file: source text", those of most
};

// Blocks run one after the other, so that none waits and the counts do not hang on a schedule.
template <class Call> counted_call count_call(uint64_t tensor_bytes, const Call& call) {
  const ptx::settings before = ptx::current_settings();
  ptx::configure({.check = false, .weak = false, .shuffle = false, .traffic = true, .resident = 1});
  ptx::clear_counts();
  call();
  ptx::configure(before);
  const double units = static_cast<double>(tensor_bytes) / 128;
  counted_call c;
  double all_lanes = 0;
  for (const ptx::kernel_counts& k : ptx::counted()) {
    const auto n = static_cast<double>(k.all.instructions());
    c.instructions += n / units;
    all_lanes += static_cast<double>(k.all.lanes) / units;
    c.wavefronts += static_cast<double>(k.all.shared_wavefronts) / units;
    c.sectors += static_cast<double>(k.all.load_sectors + k.all.store_sectors) / units;
    for (size_t i = 0; i < std::min<size_t>(k.lines.size(), 20); ++i) {
      const ptx::line_counts& l = k.lines[i];
      std::ifstream source(l.file);
      std::string text;
      for (int line = 0; line < l.line && std::getline(source, text);) ++line;
      const size_t first = text.find_first_not_of(" \t");
      const std::string name =
          l.file.substr(l.file.rfind('/') + 1) + ": " + (first == text.npos ? "" : text.substr(first));
      c.lines[name] += static_cast<double>(l.all.instructions()) / units;
    }
  }
  c.lanes = c.instructions > 0 ? all_lanes / c.instructions : 0;
  return c;
}

// The file: "call NAME INSTRUCTIONS LANES WAVEFRONTS SECTORS", and behind it its lines, "  INSTRUCTIONS TEXT".
class budgets {
 public:
  explicit budgets(std::string path) : path_(std::move(path)) {
    std::ifstream in(path_);
    std::getline(in, compiler_);
    counted_call* open = nullptr;
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string word, name;
      if (line.starts_with("call ")) {
        words >> word >> name;
        open = &calls_[name];
        words >> open->instructions >> open->lanes >> open->wavefronts >> open->sectors;
      } else if (open != nullptr) {
        double n = 0;
        words >> n >> std::ws;
        std::getline(words, name);
        open->lines[name] = n;
      }
    }
  }

  // `compiler`: another one's counts are not compared.
  void check(const std::string& compiler, const std::string& name, const counted_call& now) {
    if (std::getenv("TUCK_UPDATE_BUDGETS") != nullptr) return update(compiler, name, now);
    if (compiler != compiler_) GTEST_SKIP() << "budgets are of " << compiler_ << ", this is " << compiler;
    ASSERT_TRUE(calls_.contains(name)) << name << " has no budget: TUCK_UPDATE_BUDGETS=1";
    const counted_call& then = calls_[name];
    constexpr double most = 1.03;
    EXPECT_LE(now.instructions, most * then.instructions) << name << ": instructions for 128 bytes\n"
                                                          << grown(then, now);
    EXPECT_GE(now.lanes, then.lanes / most) << name << ": active lanes";
    EXPECT_LE(now.wavefronts, most * then.wavefronts + .01) << name << ": wavefronts of shared memory";
    EXPECT_LE(now.sectors, most * then.sectors) << name << ": sectors";
  }

 private:
  static std::string grown(const counted_call& then, const counted_call& now) {
    std::ostringstream all;
    for (const auto& [line, n] : now.lines) {
      const auto before = then.lines.find(line);
      const double was = before == then.lines.end() ? 0 : before->second;
      if (n > 1.03 * was + .02) all << "  " << was << " -> " << n << "  " << line << "\n";
    }
    return all.str();
  }

  void update(const std::string& compiler, const std::string& name, const counted_call& now) {
    if (compiler != compiler_) calls_.clear();
    compiler_ = compiler;
    calls_[name] = now;
    std::ofstream out(path_);
    out << compiler << "\n" << std::setprecision(4);
    for (const auto& [call, c] : calls_) {
      out << "call " << call << ' ' << c.instructions << ' ' << c.lanes << ' ' << c.wavefronts << ' ' << c.sectors
          << "\n";
      for (const auto& [line, n] : c.lines) out << "  " << n << ' ' << line << "\n";
    }
  }

  std::string path_, compiler_;
  std::map<std::string, counted_call> calls_;
};

}  // namespace tuck::test
