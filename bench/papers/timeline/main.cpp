// timeline: an iteration of training by each of the papers' policies, replayed for networks, a GPU and a link.
#include "bench/papers/table.hpp"
#include "bench/papers/timeline/papers.hpp"
#include "bench/support/json_file.hpp"
#include "bench/support/number_option.hpp"
#include "bench/support/program.hpp"

#include "support/files.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>

namespace {

using namespace tuck::bench;

const std::string tables = TUCK_BENCH_FOLDER "/papers/networks", results = TUCK_BENCH_FOLDER "/results";
// What tuck-bench measured on a host: ratios, and vDNN++'s codec.
const std::string ratios = results + "/xeon-2026-11-22.json", host = results + "/xeon-64MiB-2026-11-22.json";

struct options {
  std::vector<std::string> networks;
  std::string gpu = "V100-SXM2", link = "PCIe 3 x16";
  uint64_t batch = 0;
  double slower = 1;
  std::string codecs, counts = results + "/ptx-counts.json";
  std::string json;
  bool check = false;
};

const std::vector<std::string> all_networks = {"alexnet",    "overfeat",  "nin",       "vgg16",    "vgg19",
                                               "squeezenet", "googlenet", "mobilenet", "resnet50", "plain20"};

std::string path_of(const std::string& network) {
  const bool is_path = network.find('/') != std::string::npos || network.ends_with(".json");
  return is_path ? network : tables + "/" + network + ".json";
}

setting setting_of(const options& o, const std::string& gpu) {
  setting in{.on = read_machine(TUCK_BENCH_FOLDER "/support/gpus.json", gpu, o.link),
             .host = host_zvc(read_results({host}).all, host),
             .zeros = read_zeros(tables + "/sparsity.json")};
  in.codecs = o.codecs.empty() ? counted_codecs(in.on, read_counts(o.counts), read_results({ratios}).all, ratios)
                               : predicted_codecs(o.codecs);
  in.codecs = slower(std::move(in.codecs), o.slower);
  return in;
}

void print_setting(const options& o, const setting& in) {
  std::printf("%s, %s: %.3g GB/s out, %.3g in. Layer times are modelled, not measured.\n", o.gpu.c_str(),
              o.link.c_str(), in.on.link.d2h / 1e9, in.on.link.h2d / 1e9);
  if (o.codecs.empty())
    std::printf(
        "The GPU's codecs: BOUNDS, the least time of what kernels were counted to execute, at %.0f %% of\n"
        "issue, not times of a GPU. Ratios as measured on a host.\n",
        100 * good_issue);
  else
    std::printf("The GPU's codecs: predicted by %s.\n", o.codecs.c_str());
  if (o.slower != 1) std::printf("All of them %g times as slow.\n", o.slower);
  std::puts("vDNN++'s codec: one host thread, measured. Peaks are without weights and workspace.\n");
}

void print(const network_outcome& n) {
  std::printf("%s, batch %llu, mean of epochs %g to %g; %.0f %% of what is kept is dense. ms and GB\n", n.name.c_str(),
              static_cast<unsigned long long>(n.batch), n.epochs.front().epoch, n.epochs.back().epoch,
              100 * n.dense_share);
  print_table(as_json(n.mean), {{"", "/policy"},
                                {"iteration", "/iteration", 1, 1e3},
                                {"x keep", "/over_keep", 2},
                                {"x vDNN", "/over_vdnn", 2},
                                {"waits", "/waiting", 1, 1e3},
                                {"codec", "/codec", 1, 1e3},
                                {"anew", "/recompute", 1, 1e3},
                                {"out", "/bytes_out", 2, 1e-9},
                                {"ratio", "/ratio", 2},
                                {"device", "/device_peak", 2, 1e-9},
                                {"host", "/host_peak", 2, 1e-9}});
  std::puts("");
}

bool print_directions(const ordered_json& directions) {
  std::puts("The papers' directions: do they hold for each network, on the mean and at each epoch?");
  ordered_json rows = directions;
  bool all_hold = true;
  for (ordered_json& d : rows) {
    const bool holds = d.at("holds");
    d["verdict"] = d.at("least").is_null() ? "none" : holds ? "holds" : "FAILS";
    all_hold = all_hold && holds;
  }
  print_table(rows, {{"", "/verdict"}, {"", "/claim"}, {"saves, %", "/least", 1}, {"to", "/most", 1}});
  for (const ordered_json& d : directions)
    for (const std::string exception : d.at("exceptions")) std::printf("  %s\n", exception.c_str());
  return all_hold;
}

ordered_json as_json(const options& o, const setting& in, const std::vector<network_outcome>& all,
                     const ordered_json& papers, const ordered_json& directions) {
  ordered_json to{{"schema", "tuck-timeline/1"},
                  {"gpu", o.gpu},
                  {"link", {{"name", o.link}, {"d2h", in.on.link.d2h}, {"h2d", in.on.link.h2d}}},
                  {"codecs", o.codecs.empty() ? "counts" : o.codecs},
                  {"slower", o.slower},
                  {"mean_of", {in.zeros.epochs.front(), in.zeros.epochs.back()}},
                  {"networks", ordered_json::array()},
                  {"papers", papers},
                  {"directions", directions}};
  for (const network_outcome& n : all) {
    auto by_epoch = ordered_json::array();
    for (const at_epoch& e : n.epochs) by_epoch.push_back({{"epoch", e.epoch}, {"policies", as_json(e.policies)}});
    to["networks"].push_back({{"network", n.name},
                              {"batch", n.batch},
                              {"dense_share", n.dense_share},
                              {"epochs", by_epoch},
                              {"mean", as_json(n.mean)}});
  }
  return to;
}

// Do the directions hold, where that is asked?
bool run(const options& o) {
  const setting in = setting_of(o, o.gpu), titan_x = setting_of(o, "Titan X (Maxwell)"),
                v100 = setting_of(o, "V100-SXM2"), rtx_2080_ti = setting_of(o, "RTX 2080 Ti");
  std::vector<network_table> networks;
  for (const std::string& name : o.networks.empty() ? all_networks : o.networks)
    networks.push_back(read_network(path_of(name)));
  print_setting(o, in);
  std::vector<network_outcome> all;
  paper_outcomes of_papers;
  for (const network_table& network : networks) {
    const uint64_t batch = o.batch != 0 ? o.batch : usual_batch(network);
    all.push_back(replay_all(network, batch, in));
    of_papers.titan_x.push_back(replay_all(network, batch, titan_x));
    of_papers.v100.push_back(replay_all(network, batch, v100));
    of_papers.rtx_2080_ti.push_back(replay_all(network, batch, rtx_2080_ti));
    if (!o.check) print(all.back());
  }
  const auto papers = beside_papers(of_papers);
  const auto directions = check_directions(all);
  if (!o.json.empty()) write_json(o.json, as_json(o, in, all, papers, directions));
  if (!o.check) {
    std::puts("What the papers report of their GPUs and networks, and the replay over the same link");
    print_table(papers, {{"", "/what"},
                         {"GPU", "/gpu"},
                         {"the paper", "/paper"},
                         {"here", "/mean", 1},
                         {"at most", "/most", 1},
                         {"of", "/network"}});
    std::puts("");
  }
  return print_directions(directions) || !o.check;
}

void add_options(CLI::App& program, options& o) {
  program.add_option("NETWORK", o.networks, "Names of bench/papers/networks, or files like those; all ten");
  program.add_option("--gpu", o.gpu, "Of bench/support/gpus.json")->capture_default_str()->type_name("NAME");
  program.add_option("--link", o.link, "Of bench/support/gpus.json")->capture_default_str()->type_name("NAME");
  program.add_option("--batch", o.batch, "Images in an iteration; 128, and 1024 of images smaller than 64 x 64")
      ->check(CLI::Range(1, 1 << 20).description(""))
      ->type_name("N");
  program.add_option("--codecs", o.codecs, "What bench_predict fit wrote of a GPU, instead of bounds")
      ->type_name("FILE.json");
  program.add_option("--counts", o.counts, "What tuck-bench --where ptx wrote, for bounds; the one in bench/results")
      ->type_name("FILE.json");
  program.add_option("--slower", o.slower, "The GPU's codecs take so many times as long")
      ->check(number(1e-3, 1e3, "a number from 0.001 to 1000"))
      ->capture_default_str()
      ->type_name("TIMES");
  program.add_option("--json", o.json, "All figures, for programs; replaced when complete")->type_name("FILE.json");
  program.add_flag("--check", o.check, "Only whether the papers' directions hold; exit code 1 where one does not");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("An iteration of training by the papers' swapping policies, replayed", "timeline");
  program.footer(
      "bench/papers/README.md says what is modelled. Exit codes: 0 done, 1 bad input or --check fails, 2 bad usage.");
  options o;
  add_options(program, o);
  return run_program(program, argc, argv, [&] { return run(o) ? done : failed; });
}
