#include "bench/micro/environment.hpp"

#include <tuck/core/cpu.hpp>
#include <tuck/core/version.hpp>

#include <ctime>
#include <fstream>
#include <thread>

#include "commit.hpp"  // made by the build

namespace tuck::bench {
namespace {

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string cpu() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::string compiler() {
#if defined(__clang__)
  return std::string("clang ") + __clang_version__ + " " TUCK_BUILD;
#else
  return "g++ " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + "." +
         std::to_string(__GNUC_PATCHLEVEL__) + " " TUCK_BUILD;
#endif
}

}  // namespace

nlohmann::ordered_json host_environment(const std::string& command) {
  return {{"date", now()},
          {"commit", TUCK_COMMIT},
          {"version",
           std::to_string(version_major) + "." + std::to_string(version_minor) + "." + std::to_string(version_patch)},
          {"compiler", compiler()},
          {"cpu", cpu()},
          {"cores", std::thread::hardware_concurrency()},
          {"cpu_level", name(level_of_cpu())},
          {"command", command}};
}

}  // namespace tuck::bench
