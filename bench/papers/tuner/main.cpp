// bench_tuner: where the launch tuner ends, on recorded surfaces and on generated ones.
#include "bench/papers/table.hpp"
#include "bench/papers/tuner/check.hpp"
#include "bench/support/number_option.hpp"
#include "bench/support/program.hpp"

#include <CLI/CLI.hpp>

namespace {

using namespace tuck::bench;
using nlohmann::ordered_json;

void print(const surface& s) {
  const auto point = [&](const char* what, size_t i) {
    const tuck::bench::launch_point p = s.space[i];
    std::printf("  %-8s %u blocks, %u threads, chunks of %u: %.4g ms\n", what, p.blocks, p.threads, p.chunk_bytes,
                1e3 * s.truth[i]);
  };
  std::printf("%s, %zu configurations\n", s.name.c_str(), s.space.size());
  point("best", s.best());
  point("default", s.expert);
  point("slowest", static_cast<size_t>(std::max_element(s.truth.begin(), s.truth.end()) - s.truth.begin()));
}

void check_on(const std::vector<std::string>& in, const check_options& options, uint64_t generated, bool as_text) {
  using enum tuck::bench::tuner_search;
  ordered_json file{{"schema", "tuck-tuner-check/1"},    {"seeds", options.seeds},
                    {"trials", options.trials},          {"noise", options.noise},
                    {"surfaces", ordered_json::array()}, {"endings", ordered_json::array()}};
  std::vector<surface> surfaces;
  for (const std::string& path : in) surfaces.push_back(load(path));
  for (const surface& s : surfaces) {
    if (as_text) print(s);
    file["surfaces"].push_back(s.description);
    for (const auto search : {bayesian, random, exhaustive, expert})
      file["endings"].push_back(check(s, search, options));
  }
  check_options on_generated = options;
  on_generated.seeds = generated;
  if (generated != 0)
    for (const auto search : {bayesian, random, exhaustive, expert})
      file["endings"].push_back(check_generated(search, on_generated));
  if (!as_text) return static_cast<void>(std::puts(file.dump(1).c_str()));
  print_table(file["endings"], {{"surface", "/surface"},
                                {"search", "/search"},
                                {"trials", "/trials"},
                                {"seeds", "/seeds"},
                                {"near best", "/within_5_percent_of_best"},
                                {"safe", "/within_2_percent_of_default_or_better"},
                                {"over best, %", "/mean_over_best", 1, 100},
                                {"at worst, %", "/worst_over_best", 1, 100},
                                {"over default, %", "/worst_over_default", 1, 100}});
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Where the launch tuner ends, from many seeds", "bench_tuner");
  program.footer("bench/papers/README.md says what the figures mean. Exit codes: 0 done, 1 bad input, 2 bad usage.");
  std::vector<std::string> in;
  check_options options;
  uint64_t generated = 0;
  bool json = false;
  const auto count = [&](const char* name, auto& to, const char* what, int least) {
    program.add_option(name, to, what)
        ->check(CLI::Range(least, 100000).description(""))
        ->capture_default_str()
        ->type_name("N");
  };
  program.add_option("SURFACE.json", in, "Recorded times, as bench/papers/README.md describes them");
  count("--seeds", options.seeds, "So many searches of each kind on each surface", 1);
  count("--trials", options.trials, "Measurements of a search", 1);
  count("--generated", generated, "So many surfaces by a formula, too, a seed on each", 0);
  program.add_option("--noise", options.noise, "More noise for each measurement of a record: .05 is 5 %")
      ->check(number(0, 1, "from 0 to 1"))
      ->capture_default_str()
      ->type_name("SHARE");
  program.add_flag("--json", json, "For programs: one JSON object");
  return run_program(program, argc, argv, [&] {
    if (in.empty() && generated == 0) throw CLI::RequiredError("SURFACE.json or --generated");
    check_on(in, options, generated, !json);
    return done;
  });
}
