// How the programs of this folder begin and end.
#pragma once

#include "support/files.hpp"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>

namespace tuck::bench {

inline constexpr int done = 0, failed = 1, bad_usage = 2;  // exit codes

// Reads the command line, which calls what subcommands do, then run(), whose answer is the exit code; errors are said
// on stderr, behind the program's name.
template <class Run> int run_program(CLI::App& program, int argc, char** argv, const Run& run) {
  try {
    program.parse(argc, argv);
    const int code = run();
    if (std::fflush(stdout) != 0) throw tools::file_error("standard output", errno);
    return code;
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? done : bad_usage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program.get_name().c_str(), error.what());
    return failed;
  }
}
inline int run_program(CLI::App& program, int argc, char** argv) {
  return run_program(program, argc, argv, [] { return done; });
}

}  // namespace tuck::bench
