// tuck-bench: how fast the codecs are and how small tensors get. This file is the options and the course of a run.
#include "bench/micro/counts.hpp"
#include "bench/micro/environment.hpp"
#include "bench/micro/google_flags.hpp"
#include "bench/micro/predictions.hpp"
#include "bench/micro/progress_line.hpp"
#include "bench/micro/runner.hpp"
#include "bench/support/gpus.hpp"

#include "support/files.hpp"
#include "tuck/codecs.hpp"

#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

namespace {

using namespace tuck::bench;

constexpr int failed = 1, bad_usage = 2, interrupted_by_user = 130;

std::atomic<bool> interrupted{false};

// The first one ends the run behind the row that is being measured, and keeps what there is; another ends it at once.
void interrupt(int signal) {
  constexpr char text[] = "\ntuck-bench: stopping behind this row; again to stop at once\n";
  interrupted = true;
  std::signal(signal, SIG_DFL);
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, sizeof text - 1);
}

struct options {
  bool quick = false, full = false, list = false, no_peers = false, profile = false;
  std::string out, where = "both", peer_chunk = "64KiB";
  std::optional<std::string> recordings;
  std::vector<std::string> coders, types, patterns, sizes;
  std::vector<double> sparsities;
  std::vector<unsigned> threads, blocks;
  std::optional<double> seconds;
  std::vector<std::string> levels, chunks;
  model_request model;
};

CLI::Option* add_list(CLI::App& app, const std::string& name, auto& values, const std::string& what,
                      const std::string& type) {
  return app.add_option(name, values, what)->delimiter(',')->type_name(type);
}

void add_options(CLI::App& app, options& o) {
  auto* quick = app.add_flag("--quick", o.quick, "A look at everything, in less than a minute");
  app.add_flag("--full", o.full, "The whole grid, which takes hours")->excludes(quick);
  app.add_option("--out", o.out, "Write the results there, as JSON; as CSV if it ends in .csv")->type_name("FILE");
  app.add_option("--seconds", o.seconds,
                 "Time of a row, at most; it ends before if its median is known to 3 %. Host: 1, with --quick .1")
      ->check(CLI::Range(1e-3, 3600.).description(""))
      ->type_name("S");
  add_list(app, "--codec", o.coders, "Only these codecs and peers", "NAME,...");
  add_list(app, "--type", o.types, "Element types, as f32 or bf16", "TYPE,...");
  add_list(app, "--pattern", o.patterns, "iid, clustered, recorded, smooth, sums, runs", "NAME,...");
  add_list(app, "--sparsity", o.sparsities, "Shares of zeros", "S,...");
  add_list(app, "--size", o.sizes, "Sizes of a tensor, as 64KiB or 1GiB", "SIZE,...");
  app.add_option("--where", o.where,
                 "host, device or both; in preset ptx: ptx, the instructions of kernels, or model, their time")
      ->check(CLI::IsMember({"host", "device", "both", "ptx", "model"}).description(""))
      ->type_name("WHERE");
  add_list(app, "--threads", o.threads, "Threads of tuck's codecs on the host; 0 is one a core. Peers have one",
           "N,...")
      ->check(CLI::Range(0, 1024).description(""));
  add_list(app, "--cpu", o.levels, "Vectors of tuck's codecs on the host: baseline, avx2, avx512", "LEVEL,...");
  add_list(app, "--blocks", o.blocks, "On a device: blocks of tuck's kernels on each multiprocessor, at most", "N,...")
      ->check(CLI::Range(1, 32).description(""));
  add_list(app, "--chunk", o.chunks, "On a device: values of a chunk of tuck's codecs; 16KiB", "SIZE,...");
  app.add_option("--data", o.recordings, "Recorded tensors: a .npy file, or a directory of them")->type_name("PATH");
  app.add_option("--peer-chunk", o.peer_chunk, "What peers with chunks code on its own")
      ->capture_default_str()
      ->type_name("SIZE");
  app.add_flag("--no-peers", o.no_peers, "Without the libraries beside");
  app.add_flag("--profile", o.profile,
               "With --where ptx: the source lines that execute most; with model: that wait most");
  auto* gpu = app.add_option("--gpu", o.model.gpu, "With --where model: h100 (calibrated), a100, h200, b200, t4, a10");
  gpu->type_name("NAME");
  add_list(app, "--what-if", o.model.what_ifs,
           "With --where model: occupancy=2, free=FILE:FIRST-LAST (lines that cost nothing), or a constant: dram=0",
           "NAME=VALUE,...");
  app.add_option("--sample", o.model.sampled, "With --where model: multiprocessors that stand for all; 4 above 64 MiB")
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N");
  app.add_flag("--list", o.list, "Say what would be measured, and stop");
  app.footer(
      "An axis that is given replaces its default, and all that is given is combined. Of Google Benchmark's flags,\n"
      "--benchmark_filter=REGEX, _list_tests, _out=FILE, _out_format and _context are taken as well.\n"
      "bench/README.md says what the figures mean.");
}

// Recordings that were named are measured: theirs is the pattern, and the type where none is asked for. Throws
// CLI::ValidationError, and tools::file_error about the recordings.
void add_recordings(selection& to, const std::string& recordings) {
  to.recorded = recorded_type(recordings);
  if (to.patterns.empty()) to.patterns = {pattern::recorded};
  if (std::find(to.patterns.begin(), to.patterns.end(), pattern::recorded) == to.patterns.end())
    throw CLI::ValidationError("--data", "is read for --pattern recorded only");
  if (to.types.empty()) to.types = {to.recorded};
  for (const tuck::dtype type : to.types)
    if (!makes(pattern::recorded, type, to.recorded))
      throw CLI::ValidationError("--type", std::string("a recording of ") + tuck::name(to.recorded) +
                                               " cannot be used as " + tuck::name(type));
}

// Turns what was typed into a selection. Throws CLI::ValidationError.
selection selected(const options& o, const std::vector<entry>& coders) {
  selection s;
  s.how_much = o.quick ? selection::extent::quick : o.full ? selection::extent::full : selection::extent::standard;
  std::vector<std::string> names;
  for (const entry& e : coders) names.push_back(e.name);
  for (const std::string& name : o.coders) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      std::string known;
      for (const std::string& there : std::set<std::string>(names.begin(), names.end()))
        known += (known.empty() ? "" : ", ") + there;
      throw CLI::ValidationError("--codec", name + " is not here; there are " + known);
    }
    s.coders.push_back(name);
  }
  for (const std::string& text : o.types) {
    const auto type = type_of_name(text);
    if (!type) throw CLI::ValidationError("--type", text + " is no element type");
    s.types.push_back(*type);
  }
  for (const std::string& text : o.patterns) {
    const auto p = pattern_of(text);
    if (!p) throw CLI::ValidationError("--pattern", text + " is none of iid, clustered, recorded, smooth, sums, runs");
    s.patterns.push_back(*p);
  }
  for (const std::string& text : o.sizes) {
    const auto size = size_of_name(text);
    if (!size) throw CLI::ValidationError("--size", text + " is no size from 1B to 64GiB, as in 64KiB");
    s.sizes.push_back(*size);
  }
  for (const double share : o.sparsities) {
    if (!(share >= 0 && share <= 1)) throw CLI::ValidationError("--sparsity", "is from 0 to 1");
    s.sparsities.push_back(std::round(share * 1e9) / 1e9);
  }
  if (o.recordings) add_recordings(s, *o.recordings);
  return s;
}

// Throws CLI::ValidationError.
std::vector<coder_way> wanted_ways(const options& o) {
  using tuck::cpu_level;
  std::vector<std::optional<cpu_level>> levels;
  for (const std::string& text : o.levels) {
    for (const cpu_level level : {cpu_level::baseline, cpu_level::avx2, cpu_level::avx512})
      if (text == tuck::name(level) && level <= tuck::detail::highest_cpu_level()) levels.emplace_back(level);
    if (levels.empty() || !levels.back() || text != tuck::name(*levels.back()))
      throw CLI::ValidationError("--cpu", text + " is none of baseline, avx2, avx512, or this CPU has it not");
  }
  if (levels.empty()) levels.emplace_back();
  std::vector<coder_way> ways;
  for (const auto& level : levels)
    for (const unsigned threads : o.threads.empty() ? std::vector{1u} : o.threads) ways.push_back({threads, level});
  return ways;
}

// Throws CLI::ValidationError.
std::vector<coder_way> wanted_launches(const options& o) {
  if ((o.where == "host" || !device_place()) && !(o.blocks.empty() && o.chunks.empty()))
    throw CLI::ValidationError(o.blocks.empty() ? "--chunk" : "--blocks", "needs a device");
  std::vector<uint32_t> chunks;
  for (const std::string& text : o.chunks) {
    const auto size = size_of_name(text);
    if (!size || *size % 256 != 0 || *size > tuck::tools::most_device_chunk_bytes)
      throw CLI::ValidationError("--chunk", text + " is no multiple of 256 bytes, at most 16KiB");
    chunks.push_back(static_cast<uint32_t>(*size));
  }
  if (chunks.empty()) chunks.push_back(0);
  std::vector<coder_way> ways;
  for (const uint32_t chunk_bytes : chunks)
    for (const unsigned blocks : o.blocks.empty() ? std::vector{0u} : o.blocks)
      ways.push_back({.blocks = blocks, .chunk_bytes = chunk_bytes});
  return ways;
}

// Throws CLI::ValidationError.
uint64_t wanted_peer_chunk(const options& o) {
  const auto size = size_of_name(o.peer_chunk);
  if (!size || *size % 16 != 0 || *size > 16 << 20)
    throw CLI::ValidationError("--peer-chunk", o.peer_chunk + " is no multiple of 16 bytes, at most 16MiB");
  return *size;
}

// The recordings that come with tuck: of the sources that this was built from, or carried beside the program.
std::string usual_recordings() {
  std::error_code none;
  if (std::filesystem::exists(TUCK_BENCH_DATA, none)) return TUCK_BENCH_DATA;
  return (std::filesystem::read_symlink("/proc/self/exe", none).parent_path().parent_path() / "data").string();
}

// Where the device's rows are from, if anywhere. Throws CLI::ValidationError where they cannot be what was asked for.
std::optional<place> wanted_device(const options& o) {
  const std::optional<place> there = device_place();
  if (!there && o.where != "host" && o.where != "both")
    throw CLI::ValidationError("--where " + o.where, "this program has no kernels; build target tuck_bench");
  const bool modelled = o.where == "model", by_engine = modelled || o.where == "ptx";
  if (modelled && there != place::ptx)
    throw CLI::ValidationError("--where model", "the model of time needs a build of preset ptx");
  if ((by_engine || o.profile) && there != place::ptx)
    throw CLI::ValidationError(by_engine ? "--where " + o.where : "--profile",
                               std::string("kernels of this build run on ") +
                                   (there == place::gpu ? "a GPU" : "the simulator") +
                                   ", where nobody counts instructions; those of preset ptx are counted");
  const bool has_gpu = !o.model.gpu.empty(), has_what_ifs = !o.model.what_ifs.empty();
  if (!modelled && (has_gpu || has_what_ifs || o.model.sampled != 0))
    throw CLI::ValidationError(has_gpu ? "--gpu" : has_what_ifs ? "--what-if" : "--sample", "needs --where model");
  return modelled ? place::model : there;
}

// Rows of a device have the time that they always had: bench/gpu_check has limits. Few of them need it.
run_limits limits_of(const options& o, bool on_host) {
  const double usual = on_host ? (o.quick ? .1 : 1) : (o.quick ? .03 : .15);
  const double seconds = o.seconds.value_or(usual);
  const double least = on_host ? std::min(o.quick ? .02 : .15, seconds / 2) : 0;
  return {least_known_runs, 100000, seconds, least, wanted_precision};
}

// Throws CLI::ValidationError.
std::vector<point> wanted_points(const options& o) {
  const std::optional<place> device = wanted_device(o);
  const auto on_host = o.where == "device" || o.where == "ptx" || o.where == "model" ? std::vector<entry>{}
                                                                                     : runner::host_coders(!o.no_peers);
  const auto on_device = o.where == "host" || !device ? std::vector<entry>{} : runner::device_coders(!o.no_peers);
  std::vector<entry> all = on_host;
  all.insert(all.end(), on_device.begin(), on_device.end());
  const selection wanted = selected(o, all);
  auto points = in_ways(points_of(wanted, on_host, place::host), wanted_ways(o));
  const auto more = in_ways(points_of(wanted, on_device, device.value_or(place::host)), wanted_launches(o));
  points.insert(points.end(), more.begin(), more.end());
  for (const std::string& line : left_out(wanted, all))
    std::fprintf(stderr, "tuck-bench: left out: %s\n", line.c_str());
  if (points.empty())
    throw CLI::ValidationError("nothing to measure", o.coders.empty() ? "no codec takes such tensors"
                                                                      : o.coders.front() + " takes no such tensors");
  return points;
}

// The command without the directories of its files, which are nobody's business.
std::string command_line(int argc, char** argv) {
  std::string text = "tuck-bench";
  bool is_file = false;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const size_t equals = word.find('=');
    const std::string option = word.substr(0, equals);
    const bool names_file = option == "--out" || option == "--data" || option == "--benchmark_out";
    if (const size_t slash = word.rfind('/'); slash != std::string::npos && (is_file || names_file))
      word = (names_file ? option + "=" : "") + word.substr(slash + 1);
    is_file = names_file && equals == std::string::npos;
    text += " " + word;
  }
  return text;
}

// Google Benchmark's own output goes to its files only.
class quiet_reporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

struct findings {
  std::vector<row> rows;
  std::vector<std::string> failures;
};

struct wanted_row {
  const point* at;
  operation what;
  std::string name;
};

// Throws CLI::ValidationError where the filter leaves none.
std::vector<wanted_row> wanted_rows(const std::vector<point>& points, const google_flags& flags) {
  std::vector<wanted_row> rows;
  for (const point& p : points)
    for (const operation what : runner::operations_of(p)) {
      std::string name = row_name(tuck::bench::name(what), p.coder.name, p.tensor, p.where, p.way);
      if (flags.wants(name)) rows.push_back({&p, what, std::move(name)});
    }
  if (rows.empty()) throw CLI::ValidationError("--benchmark_filter", flags.filter() + " matches no row");
  return rows;
}

void measure(const wanted_row& wanted, runner& run, progress_line& progress, findings& found, benchmark::State& state) {
  const auto& [at, what, name] = wanted;
  const point& p = *at;
  if (interrupted) {
    state.SkipWithError("interrupted");
    return;
  }
  progress.begin(name);
  const auto begin = std::chrono::steady_clock::now();
  const row* done = nullptr;
  for (auto _ : state) {
    try {
      found.rows.push_back(run.measure(p, what));
      done = &found.rows.back();
      state.SetIterationTime(done->time.runs != 0 ? done->time.median : 1e-9);
    } catch (const std::exception& error) {
      found.failures.push_back(name + ": " + error.what());
      state.SkipWithError(error.what());
      break;
    }
  }
  progress.end(p, name, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), done);
  if (done == nullptr) return;
  state.counters["ratio"] = done->ratio();
  state.counters["moved"] = done->moved_bytes / static_cast<double>(p.tensor.raw_bytes);
  state.counters["max_error"] = done->max_error;
  if (done->time.runs == 0) return;
  state.counters["GB/s"] = done->gb_per_s();
  state.counters["R"] = done->of_copy();
  state.counters["best"] = done->time.best;
  state.counters["error"] = done->time.error();
  state.counters["cv"] = done->time.cv;
}

// Shows what was found and writes it, where that was asked for. The exit code.
int conclude(const options& o, const findings& found, const std::string& command,
             std::optional<tuck::tools::output_file>& out) {
  const bool complete = !interrupted && found.failures.empty();
  for (const std::string& failure : found.failures) std::fprintf(stderr, "tuck-bench: %s\n", failure.c_str());
  if (found.rows.empty()) {
    std::fputs("tuck-bench: nothing was measured, and nothing is written\n", stderr);
    return interrupted ? interrupted_by_user : failed;
  }
  const unsigned threads = o.threads.empty() ? 1 : o.threads.front();
  const auto around = environment(threads != 0 ? threads : std::thread::hardware_concurrency(), command);
  const auto gpus = device_place() == place::ptx ? read_bounded_gpus(TUCK_BENCH_GPUS) : std::vector<gpu_rates>{};
  print_table(found.rows, stdout);
  if (o.where == "model") {
    print_predictions(found.rows, stdout);
    if (o.profile) print_waits(found.rows, stdout);
  } else {
    print_counts(found.rows, gpus, stdout);
    if (o.profile) print_profile(found.rows, stdout);
  }
  const auto text = [&](const char* key) { return around.at(key).get<std::string>(); };
  std::printf("\n%s, %s; tuck %s at %s; %s\n",
              around.at("device").is_null() ? text("cpu").c_str() : around["device"]["name"].get<std::string>().c_str(),
              text("compiler").c_str(), text("version").c_str(), text("commit").c_str(), text("date").c_str());
  if (out) {
    const auto file = as_json(around, found.rows, complete, gpus);
    out->write(
        tuck::tools::bytes_of(std::filesystem::path(o.out).extension() == ".csv" ? as_csv(file) : as_text(file)));
    out->commit();
    std::printf("%zu rows are in %s%s\n", found.rows.size(), o.out.c_str(), complete ? "" : ", which is not complete");
  }
  if (std::fflush(stdout) != 0) throw std::runtime_error("standard output: it cannot be written to");
  const std::vector<std::string> unmet = unmet_what_ifs(o.model);
  for (const std::string& what_if : unmet)
    std::fprintf(stderr, "tuck-bench: --what-if %s: no kernel that ran has such a line\n", what_if.c_str());
  return interrupted ? interrupted_by_user : found.failures.empty() && unmet.empty() ? 0 : failed;
}

void initialize_google(char* program, const google_flags& flags) {
  std::vector<std::string> words = flags.for_google();
  std::vector<char*> arguments{program};
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
}

int bench(int argc, char** argv) {
  const std::string command = command_line(argc, argv);
  std::vector<char*> ours{argv[0]};
  for (int i = 1; i < argc; ++i)
    if (!google_flags::is_one(argv[i])) ours.push_back(argv[i]);

  google_flags flags;
  options o;
  CLI::App app("Measures tuck's codecs, beside memcpy and other libraries: speed, ratio, traffic.", "tuck-bench");
  add_options(app, o);
  std::vector<point> points;
  std::vector<wanted_row> rows;
  uint64_t peer_chunk = 0;
  try {
    app.parse(static_cast<int>(ours.size()), ours.data());
    for (int i = 1; i < argc; ++i)
      if (google_flags::is_one(argv[i])) flags.add(argv[i]);
    points = wanted_points(o);
    rows = wanted_rows(points, flags);
    peer_chunk = wanted_peer_chunk(o);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error, std::cout, std::cerr);
    return code == 0 ? 0 : bad_usage;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "tuck-bench: %s\n", error.what());
    return bad_usage;
  }
  try {
    if (o.where == "model") use_model(o.model, 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tuck-bench: --where model: %s\n", error.what());
    return bad_usage;
  }
  if (o.list || flags.list()) {
    for (const wanted_row& row : rows) std::puts(row.name.c_str());
    return 0;
  }
  // Before all the work: a place that cannot be written to is an error now.
  std::optional<tuck::tools::output_file> out;
  if (app.count("--out") != 0) out.emplace(o.out);

  initialize_google(argv[0], flags);
  runner run(o.recordings.value_or(usual_recordings()), limits_of(o, true), limits_of(o, false), peer_chunk, o.model);
  std::vector<const point*> points_of_rows;
  for (const wanted_row& row : rows) points_of_rows.push_back(row.at);
  progress_line progress(points_of_rows);
  findings found;
  for (const wanted_row& row : rows)
    benchmark::RegisterBenchmark(row.name.c_str(),
                                 [&](benchmark::State& state) { measure(row, run, progress, found, state); })
        ->Iterations(1)
        ->UseManualTime();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, interrupt);
  quiet_reporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  progress.clear();

  return conclude(o, found, command, out);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return bench(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tuck-bench: %s\n", error.what());
    return failed;
  }
}
