// What options that are numbers have to be. CLI11's own range takes NaN for a number of it.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <string>

namespace tuck::bench {

// From `least` to `most`, which NaN is not; `what` says so to a person.
inline CLI::Validator number(double least, double most, const std::string& what) {
  return {[=](const std::string& text) {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            return end != text.c_str() && *end == '\0' && value >= least && value <= most ? ""
                                                                                          : text + " is not " + what;
          },
          ""};
}

}  // namespace tuck::bench
