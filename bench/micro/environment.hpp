// Where and how a run was made: all that one must know to read its figures.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace tuck::bench {

// date, commit, version, compiler, cpu, cores, cpu_level, threads, backend, device, peers, command.
nlohmann::ordered_json environment(unsigned threads, const std::string& command);

// The same without threads, backend, device and peers: of programs that run on the host alone.
nlohmann::ordered_json host_environment(const std::string& command);

}  // namespace tuck::bench
