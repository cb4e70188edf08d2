// bench_predict: predictors of what tuck-bench measures, fitted, and checked on points that they have not seen.
#include "bench/papers/predict/check.hpp"
#include "bench/papers/predict/predictor_file.hpp"
#include "bench/papers/table.hpp"
#include "bench/support/json_file.hpp"
#include "bench/support/number_option.hpp"
#include "bench/support/program.hpp"

#include "support/files.hpp"

#include <CLI/CLI.hpp>

#include <set>

namespace {

using namespace tuck::bench;
using nlohmann::ordered_json;
using tuck::tools::file_error;

std::vector<column> about(std::vector<column> more) {
  std::vector<column> all{{"codec", "/codec"}, {"type", "/type"}, {"pattern", "/pattern"}, {"where", "/where"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
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
  auto worst = ordered_json::array();
  for (const fitted& one : file.codecs) worst.push_back(worst_residual(one, found.all));
  std::puts("What each predictor misses most; far from 1, it is not what the model describes");
  print_table(worst, about({{"operation", "/operation"},
                            {"MiB", "/bytes", 3, 0x1p-20},
                            {"zeros, %", "/zeros", 0, 100},
                            {"predicted / measured", "/factor", 2}}));
  std::printf("%zu predictors of %zu measurements are in %s; %zu codecs on kinds of tensors have too few points\n",
              file.codecs.size(), found.all.size(), out.c_str(), kinds.size() - file.codecs.size());
}

void check_on(const std::vector<std::string>& in, const check_options& options, const std::string& json) {
  const measurements found = read_results(in);
  const ordered_json report = check(found.all, options);
  if (report.at("codecs").empty()) throw file_error(in.front(), "too few points to hold some out");
  if (!json.empty()) {
    ordered_json file{{"schema", "tuck-predictor-check/1"},
                      {"environment", found.environment},
                      {"hold_out", options.hold_out},
                      {"seed", options.seed},
                      {"splits", options.splits}};
    file.update(report);
    write_json(json, file);
  }
  std::puts("Errors, %: median, 90 % below; within two deviations; refused");
  print_table(report.at("codecs"), about({{"points", "/points"},
                                          {"encode", "/encode/median_error", 1, 100},
                                          {"90 %", "/encode/p90_error", 1, 100},
                                          {"within", "/encode/within_two_deviations", 0, 100},
                                          {"refused", "/encode/refused", 0, 100},
                                          {"decode", "/decode/median_error", 1, 100},
                                          {"90 %", "/decode/p90_error", 1, 100},
                                          {"within", "/decode/within_two_deviations", 0, 100},
                                          {"ratio", "/ratio/median_error", 1, 100},
                                          {"90 %", "/ratio/p90_error", 1, 100},
                                          {"within", "/ratio/within_two_deviations", 0, 100}}));
  std::puts("\nChoices between raw and codecs, %");
  print_table(report.at("decisions"), {{"where", "/where"},
                                       {"among", "/among"},
                                       {"link, GB/s", "/link_gb_per_s", 2},
                                       {"points", "/points"},
                                       {"right", "/right", 1, 100},
                                       {"commonest", "/commonest", 1, 100},
                                       {"regret", "/regret", 1, 100},
                                       {"regret of raw", "/regret_of_raw", 1, 100}});
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Predictors of codecs' times and ratios, from what tuck-bench measured", "bench_predict");
  program.require_subcommand(1);
  program.footer("bench/papers/README.md says what the figures mean. Exit codes: 0 done, 1 bad input, 2 bad usage.");
  std::vector<std::string> in;
  std::string file;
  check_options options;
  const auto add_results = [&](CLI::App& to) {
    to.add_option("RESULTS.json", in, "What tuck-bench --out wrote, of one machine")->required();
  };

  CLI::App& to_fit = *program.add_subcommand("fit", "Fit predictors and keep them");
  add_results(to_fit);
  to_fit.add_option("--out", file, "The predictors; replaced when complete, never half-written")
      ->required()
      ->type_name("FILE");
  to_fit.callback([&] { fit_to(in, file); });

  CLI::App& to_check = *program.add_subcommand("check", "Fit on some (size, sparsity) points and predict the others");
  add_results(to_check);
  to_check
      .add_option("--link", options.gb_per_s,
                  "Rates of links, GB/s each way; 0.1,0.3,1,1.25,3,6,12 on a host and 12.8,25.6,32,64 else")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(number(1e-3, 1e5, "a rate in GB/s, from 0.001 to 100000"))
      ->type_name("GB/s");
  to_check.add_option("--json", file, "The same and more for programs; replaced when complete")->type_name("FILE.json");
  to_check.callback([&] { check_on(in, options, file); });

  return run_program(program, argc, argv);
}
