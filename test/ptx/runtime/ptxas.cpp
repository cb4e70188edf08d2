#include "ptxas.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <unistd.h>

namespace cudaptx {
namespace {

namespace fs = std::filesystem;

constexpr const char* ptxas = TUCK_PTXAS;
constexpr const char* answers = TUCK_PTXAS_ANSWERS;

// FNV-1a.
std::uint64_t digest(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

// A file that goes when its name does.
class scratch_file {
 public:
  explicit scratch_file(std::string_view content) : path_((fs::temp_directory_path() / "ptxas-XXXXXX").string()) {
    const int file = mkstemp(path_.data());
    if (file < 0) throw std::runtime_error(path_ + ": cannot be created");
    close(file);
    std::ofstream out(path_);
    out << content;
    out.close();
    if (out) return;
    std::remove(path_.c_str());
    throw std::runtime_error(path_ + ": cannot be written to");
  }
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  ~scratch_file() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// For the shell.
std::string quoted(const std::string& path) {
  std::string text = "'";
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string output_of(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("ptxas cannot be started");
  std::string text;
  std::array<char, 4096> some;
  for (std::size_t n; (n = std::fread(some.data(), 1, some.size(), pipe)) != 0;) text.append(some.data(), n);
  if (pclose(pipe) != 0) throw std::runtime_error("ptxas fails: " + text.substr(0, 500));
  return text;
}

std::uint32_t ask(const std::string& text, int arch) {
  const scratch_file file(text);
  const std::string seen = output_of(quoted(std::string(ptxas)) + " -arch=sm_" + std::to_string(arch) +
                                     " -v -o /dev/null " + quoted(file.path()) + " 2>&1");
  std::uint32_t registers = 0;
  const std::size_t used = seen.find("Used ");
  if (used != seen.npos) std::istringstream(seen.substr(used + 5)) >> registers;
  if (registers == 0) throw std::runtime_error("ptxas does not say how many registers a kernel uses");
  return registers;
}

}  // namespace

// nvcc begins each kernel with a line ".visible .entry name(". Its body is in braces, with those of inline assembly.
std::string only_kernel(std::string_view module, std::string_view kernel_name) {
  std::string kept;
  bool in_kernel = false, wanted = true;
  int depth = 0;
  for (std::size_t at = 0; at < module.size();) {
    const std::size_t end = std::min(module.find('\n', at), module.size() - 1) + 1;
    const std::string_view line = module.substr(at, end - at), code = line.substr(0, line.find("//"));
    at = end;
    constexpr std::string_view begin = ".entry ";
    if (const std::size_t entry = code.find(begin); !in_kernel && entry != code.npos) {
      const std::string_view name = code.substr(entry + begin.size());
      in_kernel = true;
      wanted = name.substr(0, name.find_first_of("( \n")) == kernel_name;
    }
    if (wanted) kept += line;
    if (!in_kernel) continue;
    const auto count = [&](char c) { return static_cast<int>(std::count(code.begin(), code.end(), c)); };
    const int closed = count('}');
    depth += count('{') - closed;
    if (depth != 0 || closed == 0) continue;
    in_kernel = false;
    wanted = true;
  }
  return kept;
}

void require_ptxas() {
  if (!fs::exists(ptxas)) throw std::runtime_error("there is no ptxas beside nvcc, which knows a kernel's registers");
}

std::uint32_t registers_of(std::string_view module, std::string_view kernel_name, int arch) {
  require_ptxas();
  const std::string text = only_kernel(module, kernel_name);
  std::array<char, 64> name;
  std::snprintf(name.data(), name.size(), "%016llx.sm_%d", static_cast<unsigned long long>(digest(text)), arch);
  const fs::path kept = fs::path(answers) / name.data();
  std::uint32_t registers = 0;
  if (std::ifstream(kept) >> registers) return registers;
  registers = ask(text, arch);
  // Under its name at once: other programs of the build may ask for the same kernel.
  fs::create_directories(answers);
  const fs::path fresh = kept.string() + "." + std::to_string(getpid());
  std::ofstream(fresh) << registers << '\n';
  fs::rename(fresh, kept);
  return registers;
}

}  // namespace cudaptx
