// bench_predict: predictors of what tuck-bench measures, fitted, shown, and checked on points that they have not seen.
#include "bench/papers/predict/check.hpp"
#include "bench/papers/predict/predictor_file.hpp"
#include "bench/support/program.hpp"

#include "support/files.hpp"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <set>

namespace {

using namespace tuck::bench;
using tuck::codec_predictor;
using tuck::tensor_regression;
using tuck::tools::file_error;

std::string name_of(const coder_key& key) {
  return key.codec + ", " + key.on.type + ", " + key.on.pattern + ", " + key.on.where + (key.lossy ? ", lossy" : "");
}

// A sum of coefficients, and its standard deviation.
struct coefficient {
  double value, deviation;
};

template <size_t N> coefficient sum(const tensor_regression<N>& r, const std::array<double, N>& weights) {
  coefficient c{0, 0};
  for (size_t i = 0; i < N; ++i) {
    c.value += r.c[i] * weights[i];
    for (size_t j = 0; j < N; ++j) c.deviation += weights[i] * r.covariance[i][j] * weights[j];
  }
  c.deviation = r.freedom() > 0 ? std::sqrt(c.deviation * r.squares / r.freedom()) : INFINITY;
  return c;
}

template <size_t N> double spread(const tensor_regression<N>& r) {
  return r.freedom() > 0 ? std::sqrt(r.squares / r.freedom()) : INFINITY;
}

// "1.5 MiB"
std::string size(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit < 3; ++unit) bytes /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %s", bytes, units[unit]);
  return text;
}

// "12.3 GB/s +- 4 %"; a time that is not above 0 is lost beside the others.
std::string rate(const coefficient& seconds_per_mib) {
  if (!(seconds_per_mib.value > 0)) return "no time seen";
  char text[64];
  std::snprintf(text, sizeof text, "%.3g GB/s +- %.0f %%", (1 << 20) / seconds_per_mib.value * 1e-9,
                100 * seconds_per_mib.deviation / seconds_per_mib.value);
  return text;
}

// Of bytes that are zero, and of others; of all where no shares of zeros tell them apart. beyond: the share of a tensor
// that is beyond each step.
std::string rates(const codec_predictor::time_model& r, double beyond) {
  const auto of = [&](double values) { return rate(sum(r, {0, 1, values, beyond, beyond, beyond, beyond})); };
  if (r.most_zeros - r.least_zeros < .1) return "bytes at " + of(1 - (r.least_zeros + r.most_zeros) / 2);
  return "zeros at " + of(0) + ", values at " + of(1);
}

void show_time(const char* what, const codec_predictor::time_model& r) {
  const coefficient call = sum(r, {1});
  std::printf("  %s  %.2g +- %.1g us a call; %s;\n", what, 1e6 * call.value, 1e6 * call.deviation, rates(r, 0).c_str());
  if (r.most_bytes > codec_predictor::steps.back() * (1 << 20))
    std::printf("          in the largest tensors %s;\n", rates(r, 1).c_str());
  std::printf("          measurements spread by %.0f %%\n", 100 * spread(r));
}

void show(const std::string& path) {
  const predictor_file file = load(path);
  std::printf("%s\n", file.environment.dump(1).c_str());
  for (const auto& [of, model] : file.codecs) {
    std::printf("\n%s: %.0f measurements from %s to %s, %.0f to %.0f %% of zeros\n", name_of(of).c_str(),
                model.encode.count, size(model.encode.least_bytes).c_str(), size(model.encode.most_bytes).c_str(),
                100 * model.encode.least_zeros, 100 * model.encode.most_zeros);
    show_time("encode", model.encode);
    show_time("decode", model.decode);
    const coefficient call = sum(model.frame, {1}), zeros = sum(model.frame, {0, 1}),
                      values = sum(model.frame, {0, 1, 1});
    std::printf("  frame   %.0f +- %.0f bytes, %.4f +- %.4f for a byte of zeros, %.4f +- %.4f for one of values\n",
                call.value * (1 << 20), call.deviation * (1 << 20), zeros.value, zeros.deviation, values.value,
                values.deviation);
  }
}

void fit_to(const std::vector<std::string>& in, const std::string& out) {
  for (size_t i = 0; i < in.size(); ++i) {
    if (tuck::tools::same_file(in[i], out)) throw file_error(out, "input and output are the same file");
    for (size_t k = 0; k < i; ++k)
      if (tuck::tools::same_file(in[i], in[k])) throw file_error(in[i], "it is there twice: " + in[k]);
  }
  measurements found = read_results(in);
  std::set<coder_key> kinds;
  for (const measurement& m : found.all) kinds.insert(m.of);
  const predictor_file file{std::move(found.environment), fit(found.all)};
  if (file.codecs.empty()) throw file_error(in.front(), "too few points for any codec");
  save(out, file);
  std::puts("worst residual of each predictor: predicted / measured");
  for (const fitted& one : file.codecs) {
    const residual worst = worst_residual(one, found.all);
    std::printf("  %-50s %5.2f", name_of(one.of).c_str(), worst.factor);
    if (worst.at != nullptr)
      std::printf("  %s of %s, %.0f %% of zeros%s", worst.operation, size(static_cast<double>(worst.at->size)).c_str(),
                  100 * worst.at->zeros, worst.size() > 2 ? ": not what the model describes" : "");
    std::puts("");
  }
  std::printf("%zu predictors of %zu measurements are in %s; %zu codecs on kinds of tensors have too few points\n",
              file.codecs.size(), found.all.size(), out.c_str(), kinds.size() - file.codecs.size());
}

void print(const check_report& report) {
  std::printf("%-58s %6s  %-21s  %-21s  %-21s\n", "error, %: median, 90 % below; within 2 deviations; refused",
              "points", "encode", "decode", "ratio");
  for (const accuracy& a : report.codecs) {
    std::printf("%-58s %6zu", name_of(a.of).c_str(), a.points);
    for (const error_summary* e : {&a.encode, &a.decode, &a.ratio})
      std::printf("  %5.1f %5.1f %4.0f %4.0f", 100 * e->median, 100 * e->p90, 100 * e->within, 100 * e->refused);
    std::puts("");
  }
  std::printf("\n%-8s %-12s %10s %6s %8s %10s %8s %14s\n", "where", "among", "link GB/s", "points", "right",
              "commonest", "regret", "regret of raw");
  for (const decisions& d : report.choices)
    std::printf("%-8s %-12s %10.4g %6zu %6.1f %% %8.1f %% %6.1f %% %12.1f %%\n", d.where.c_str(),
                ("raw, " + d.among).c_str(), d.gb_per_s, d.points, 100 * d.right, 100 * d.commonest, 100 * d.regret,
                100 * d.regret_of_raw);
}

void check_on(const std::vector<std::string>& in, const check_options& options, bool as_text) {
  const measurements found = read_results(in);
  const check_report report = check(found.all, options);
  if (report.codecs.empty()) throw file_error(in.front(), "too few points to hold some out");
  if (as_text) return print(report);
  nlohmann::ordered_json file{{"schema", "tuck-predictor-check/1"},
                              {"environment", found.environment},
                              {"hold_out", options.hold_out},
                              {"seed", options.seed},
                              {"splits", options.splits}};
  file.update(as_json(report));
  std::puts(file.dump(1).c_str());
}

void add_results(CLI::App& app, std::vector<std::string>& in) {
  app.add_option("RESULTS.json", in, "What tuck-bench --out wrote, of one machine")->required();
}

// Numbers for which `good` holds.
CLI::Validator number(bool (*good)(double), const std::string& what) {
  return {[good, what](const std::string& text) {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            return end != text.c_str() && *end == '\0' && good(value) ? "" : text + " is not " + what;
          },
          ""};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Predictors of codecs' times and ratios, from what tuck-bench measured", "bench_predict");
  program.require_subcommand(1);
  program.footer("bench/papers/README.md says what the figures mean. Exit codes: 0 done, 1 bad input, 2 bad usage.");
  std::vector<std::string> in;
  std::string file;
  check_options options;
  bool json = false;

  CLI::App& to_fit = *program.add_subcommand("fit", "Fit predictors and keep them");
  add_results(to_fit, in);
  to_fit.add_option("--out", file, "The predictors; replaced when complete, never half-written")
      ->required()
      ->type_name("FILE.json");
  to_fit.callback([&] { fit_to(in, file); });

  CLI::App& to_show =
      *program.add_subcommand("show", "Say in words what predictors have learnt, and how sure they are");
  to_show.add_option("FILE.json", file, "What fit wrote")->required();
  to_show.callback([&] { show(file); });

  CLI::App& to_check = *program.add_subcommand("check", "Fit on some (size, sparsity) points and predict the others");
  add_results(to_check, in);
  to_check.add_option("--hold-out", options.hold_out, "The share of the points that are predicted")
      ->check(number([](double v) { return v > 0 && v < 1; }, "between 0 and 1"))
      ->capture_default_str()
      ->type_name("SHARE");
  to_check.add_option("--seed", options.seed, "Of the first choice of points")->capture_default_str()->type_name("N");
  to_check.add_option("--splits", options.splits, "So many choices, all counted together")
      ->check(CLI::Range(1, 10000).description(""))
      ->capture_default_str()
      ->type_name("N");
  to_check
      .add_option("--link", options.gb_per_s,
                  "Rates of links, GB/s each way; 0.1,0.3,1,1.25,3,6,12 on a host and 12.8,25.6,32,64 else")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(number([](double v) { return v >= 1e-3 && v <= 1e5; }, "a rate in GB/s, from 0.001 to 100000"))
      ->type_name("GB/s");
  to_check.add_flag("--json", json, "For programs: one JSON object");
  to_check.callback([&] { check_on(in, options, !json); });

  return run_program(program, argc, argv);
}
