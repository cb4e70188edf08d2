// bench_tuner: launch surfaces recorded, and the launch tuner tried on them.
#include "bench/micro/environment.hpp"
#include "bench/micro/points.hpp"
#include "bench/support/number_option.hpp"
#include "bench/support/program.hpp"
#include "bench/papers/tuner/check.hpp"
#include "bench/papers/tuner/host_launch.hpp"

#include "support/files.hpp"
#include "support/progress.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>

namespace {

using namespace tuck::bench;
using tuck::bench::launch_space;

struct record_options {
  std::string out, size = "16MiB", codec = "zvc", pattern = "clustered";
  double sparsity = .6;
  unsigned runs = 5, tries = 1;
  std::vector<unsigned> blocks, threads;
  std::vector<std::string> chunks;
};

// Throws CLI::ValidationError.
uint64_t size_from(const std::string& option, const std::string& text) {
  const auto size = size_of_name(text);
  if (!size) throw CLI::ValidationError(option, text + " is no size from 1B to 64GiB, as in 64KiB");
  return *size;
}

tensor_request tensor_of(const record_options& o) {
  const auto known = tuck::tools::codec_names();
  if (std::find(known.begin(), known.end(), o.codec) == known.end() || tuck::tools::is_lossy(o.codec))
    throw CLI::ValidationError("--codec", o.codec + " is no codec that loses nothing");
  const uint64_t size = size_from("--size", o.size);
  if (size % sizeof(float) != 0) throw CLI::ValidationError("--size", o.size + " is no whole number of f32");
  return {tuck::dtype::f32, *pattern_of(o.pattern), o.sparsity, size};
}

// Throws CLI::ValidationError.
template <class T> void require_once(const std::string& option, std::vector<T> values) {
  std::sort(values.begin(), values.end());
  if (const auto twice = std::adjacent_find(values.begin(), values.end()); twice != values.end())
    throw CLI::ValidationError(option, std::to_string(*twice) + " is there twice");
}

launch_space space_of(const record_options& o) {
  launch_space space = default_host_space();
  if (!o.blocks.empty()) space.blocks = o.blocks;
  if (!o.threads.empty()) space.threads = o.threads;
  if (!o.chunks.empty()) space.chunk_bytes.clear();
  for (const std::string& text : o.chunks) {
    const uint64_t size = size_from("--chunk", text);
    if (size % 128 != 0 || size > 65536)
      throw CLI::ValidationError("--chunk", text + " is no multiple of 128 bytes up to 64 KiB");
    space.chunk_bytes.push_back(static_cast<uint32_t>(size));
  }
  require_once("--blocks", space.blocks);
  require_once("--threads", space.threads);
  require_once("--chunk", space.chunk_bytes);
  return space;
}

nlohmann::ordered_json load_average() {
  double load[3] = {};
  auto answer = nlohmann::ordered_json::array();
  for (int i = 0; i < getloadavg(load, 3); ++i) answer.push_back(std::round(load[i] * 100) / 100);
  return answer;
}

std::string command_of(const record_options& o, const launch_space& space) {
  char sparsity[32];
  std::snprintf(sparsity, sizeof sparsity, "%.10g", o.sparsity);
  return "bench_tuner record --codec " + o.codec + " --pattern " + o.pattern + " --size " + o.size + " --sparsity " +
         sparsity + " --runs " + std::to_string(o.runs) + " --tries " + std::to_string(o.tries) + " # " +
         std::to_string(space.size()) + " combinations";
}

void record_to(const record_options& o) {
  const tensor_request request = tensor_of(o);
  const launch_space space = space_of(o);
  // Before all the work: a place that cannot be written to is an error now.
  {
    const tuck::tools::output_file probe(o.out);
  }
  const tensor t = tensor_maker("").make(request);
  host_launch launch(o.codec, t, o.tries);
  char share[32];
  std::snprintf(share, sizeof share, "%.3g", o.sparsity);
  surface s{.name = o.codec + "/" + size_name(request.raw_bytes) + "/s:" + share + "/" + o.pattern,
            .space = space,
            .expert = nearest(space, launch.expert())};
  const auto load_before = load_average();
  {
    tuck::tools::progress line("measured", space.size() * (o.runs + 1),
                               3 * request.raw_bytes * space.size() * (o.runs + 1));
    s.runs = record(space, std::ref(launch), s.expert, o.runs, [&] { line.add(1); });
  }
  s.description = {{"environment", host_environment(command_of(o, space))},
                   {"load_before", load_before},
                   {"load_after", load_average()},
                   {"disturbed_runs", launch.disturbed()},
                   {"where", "host"},
                   {"codec", o.codec},
                   {"type", tuck::name(request.type)},
                   {"pattern", o.pattern},
                   {"raw_bytes", request.raw_bytes},
                   {"sparsity", o.sparsity},
                   {"zeros", t.sparsity}};
  save(o.out, s);
  std::printf("%zu configurations, %u runs each, are in %s\n", space.size(), o.runs, o.out.c_str());
}

void print(const surface& s) {
  const auto point = [&](size_t i) {
    const tuck::bench::launch_point p = s.space[i];
    char text[96];
    std::snprintf(text, sizeof text, "%u blocks, %u threads, chunks of %u: %.4g ms", p.blocks, p.threads, p.chunk_bytes,
                  1e3 * s.truth[i]);
    return std::string(text);
  };
  const size_t slowest = static_cast<size_t>(std::max_element(s.truth.begin(), s.truth.end()) - s.truth.begin());
  std::printf(
      "%s, %zu configurations; half of the runs within %.1f %% of their median\n  best     %s\n"
      "  default  %s\n  slowest  %s\n",
      s.name.c_str(), s.space.size(), 100 * spread(s), point(s.best()).c_str(), point(s.expert).c_str(),
      point(slowest).c_str());
}

void print(const std::vector<endings>& all) {
  std::printf("\n%-28s %-10s %6s %5s %9s %5s %9s %9s %13s\n", "surface", "search", "trials", "seeds", "near best",
              "safe", "over best", "at worst", "over default");
  for (const endings& e : all)
    std::printf("%-28s %-10s %6zu %5zu %7.0f %% %3.0f %% %7.1f %% %7.1f %% %11.1f %%\n", e.of.c_str(), name(e.search),
                e.trials, e.seeds, 100. * double(e.near_best) / double(e.seeds),
                100. * double(e.safe) / double(e.seeds), 100 * e.mean_over_best, 100 * e.worst_over_best,
                100 * e.worst_over_expert);
}

nlohmann::ordered_json as_json(const endings& e) {
  return {{"surface", e.of},
          {"search", name(e.search)},
          {"configurations", e.configurations},
          {"trials", e.trials},
          {"seeds", e.seeds},
          {"within_5_percent_of_best", e.near_best},
          {"within_2_percent_of_default_or_better", e.safe},
          {"mean_over_best", e.mean_over_best},
          {"worst_over_best", e.worst_over_best},
          {"worst_over_default", e.worst_over_expert}};
}

void check_on(const std::vector<std::string>& in, const check_options& options, uint64_t generated, bool as_text) {
  std::vector<surface> surfaces;
  for (const std::string& path : in) surfaces.push_back(load(path));
  if (as_text)
    for (const surface& s : surfaces) print(s);
  using enum tuck::bench::tuner_search;
  std::vector<endings> all;
  for (const surface& s : surfaces)
    for (const auto search : {bayesian, random, exhaustive, expert}) all.push_back(check(s, search, options));
  if (generated != 0)
    for (const auto search : {bayesian, random, exhaustive, expert})
      all.push_back(check_generated(generated, search, options));
  if (as_text) return print(all);
  nlohmann::ordered_json file{{"schema", "tuck-tuner-check/1"},
                              {"seeds", options.seeds},
                              {"trials", options.trials},
                              {"noise", options.noise},
                              {"surfaces", nlohmann::ordered_json::array()},
                              {"endings", nlohmann::ordered_json::array()}};
  for (const surface& s : surfaces) {
    nlohmann::ordered_json one = s.description;
    one["spread"] = spread(s);
    file["surfaces"].push_back(one);
  }
  for (const endings& e : all) file["endings"].push_back(as_json(e));
  std::puts(file.dump(1).c_str());
}

template <class T> CLI::Option* add_list(CLI::App& app, const std::string& name, T& values, const std::string& what) {
  return app.add_option(name, values, what)->delimiter(',')->type_name("N,...");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Records how long launches take, and tries the launch tuner on what was recorded", "bench_tuner");
  program.require_subcommand(1);
  program.footer("bench/papers/README.md says what the figures mean. Exit codes: 0 done, 1 bad input, 2 bad usage.");

  record_options o;
  CLI::App& to_record = *program.add_subcommand("record", "Measure every combination of launch options on the host");
  to_record.add_option("--out", o.out, "The surface; replaced when complete, never half-written")
      ->required()
      ->type_name("SURFACE.json");
  to_record.add_option("--size", o.size, "Of the tensor, of f32")->capture_default_str()->type_name("SIZE");
  to_record.add_option("--sparsity", o.sparsity, "Its share of zeros")
      ->check(number(0, 1, "from 0 to 1"))
      ->capture_default_str()
      ->type_name("S");
  to_record.add_option("--pattern", o.pattern, "iid or clustered")
      ->check(CLI::IsMember({"iid", "clustered"}).description(""))
      ->capture_default_str()
      ->type_name("NAME");
  to_record.add_option("--codec", o.codec, "One that loses nothing")->capture_default_str()->type_name("NAME");
  to_record.add_option("--runs", o.runs, "Of each combination, one of all after the other")
      ->check(CLI::Range(1, 1000).description(""))
      ->capture_default_str()
      ->type_name("N");
  to_record.add_option("--tries", o.tries, "Repeat a run in which threads waited for a core, up to so often")
      ->check(CLI::Range(1, 1000).description(""))
      ->capture_default_str()
      ->type_name("N");
  add_list(to_record, "--blocks", o.blocks, "Pieces that it is cut into, instead of 1 to 256")
      ->check(CLI::Range(1, 1 << 20).description(""));
  add_list(to_record, "--threads", o.threads, "Instead of 1 to one a core, or 4")
      ->check(CLI::Range(1, 1024).description(""));
  add_list(to_record, "--chunk", o.chunks, "Bytes, instead of 1KiB to 64KiB")->type_name("SIZE,...");
  to_record.callback([&] { record_to(o); });

  std::vector<std::string> in;
  check_options options;
  uint64_t generated = 0;
  bool json = false;
  CLI::App& to_check = *program.add_subcommand("check", "Where searches end, from many seeds");
  to_check.add_option("SURFACE.json", in, "What record wrote");
  to_check.add_option("--seeds", options.seeds, "So many searches of each kind on each surface")
      ->check(CLI::Range(1, 100000).description(""))
      ->capture_default_str()
      ->type_name("N");
  to_check.add_option("--trials", options.trials, "Measurements of a search")
      ->check(CLI::Range(1, 100000).description(""))
      ->capture_default_str()
      ->type_name("N");
  to_check.add_option("--noise", options.noise, "More noise for each measurement: .05 is 5 %")
      ->check(number(0, 1, "from 0 to 1"))
      ->capture_default_str()
      ->type_name("SHARE");
  to_check.add_option("--generated", generated, "So many surfaces by a formula, too, a seed on each")
      ->check(CLI::Range(0, 100000).description(""))
      ->type_name("N");
  to_check.add_flag("--json", json, "For programs: one JSON object");
  to_check.callback([&] {
    if (in.empty() && generated == 0) throw CLI::RequiredError("SURFACE.json or --generated");
    check_on(in, options, generated, !json);
  });

  return run_program(program, argc, argv);
}
