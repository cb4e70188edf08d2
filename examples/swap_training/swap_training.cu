// The forward and backward pass of a network whose activations do not fit: each layer's input leaves the device while
// the layer runs, and comes back before its gradient is computed. What leaves and when it comes back is vDNN's rule;
// how it travels is one of six policies: as it is (vDNN), encoded by the CPU once it is there (vDNN++), encoded by the
// GPU on the way (cDMA), encoded where that pays (CSWAP), by the codec that costs least (CSWAP+), or within error
// bounds that follow the gradients (COMET). Each value is checked when it is used again.
//
// The layers compute nothing real: activations are made up, with the shapes and about the zeros of a VGG-16 in
// training.
#include "swap_training/measure.cuh"
#include "swap_training/report.cuh"

#include <CLI/CLI.hpp>

namespace {

using namespace swap_training;

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const policy& p : policies) names.emplace_back(p.name);
  names.emplace_back("all");
  return names;
}

// Returns how many values came back wrong.
uint64_t print_summary(const std::vector<tuck::layer>& layers,
                       const std::vector<std::pair<const policy*, outcome_of_run>>& results) {
  std::printf("\nIn the last epoch; peaks and wrong values of the whole run:\n%-8s %-8s %9s %9s %6s %14s %16s %13s\n",
              "policy", "system", "KiB out", "KiB held", "ratio", "host peak KiB", "device peak KiB", "wrong values");
  uint64_t raw = 0, wrong = 0;
  for (size_t i = 0; i < layers.size(); ++i)
    raw += tuck::offloads(tuck::offload_set::all, layers, i) ? layers[i].input_bytes : 0;
  for (const auto& [p, r] : results) {
    const epoch_record& last = r.epochs.back();
    std::printf("%-8s %-8s %9.1f %9.1f %6.2f %14.1f %16.1f %13u\n", p->name, p->system, kib(last.out), kib(last.held),
                ratio_of(raw, last.held), kib(r.host_peak), kib(r.device_peak), r.wrong);
    wrong += r.wrong;
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  training_options options;
  double budget_percent = 75;
  std::string wanted = "all";
  CLI::App app("Trains a network whose activations do not fit, under several swap policies");
  app.add_option("--batch", options.batch, "images in a batch")->check(CLI::Range(1, 1 << 16));
  app.add_option("--epochs", options.epochs, "from one to the next, zeros grow more frequent")
      ->check(CLI::Range(1, 100));
  app.add_option("--steps", options.steps, "forward and backward passes in an epoch")->check(CLI::Range(1, 1000));
  app.add_option("--budget", budget_percent, "device memory, in percent of what training without swapping needs")
      ->check(CLI::Range(1., 1000.))
      ->check([](const std::string& text) { return text.find("nan") == text.npos ? "" : "is no number"; });
  app.add_option("--policy", wanted, "raw, cpu, always, cswap, cswap+, comet or all")
      ->check(CLI::IsMember(policy_names()));
  for (CLI::Option* option : app.get_options())
    if (!option->get_name().starts_with("--h")) option->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  const auto network = vgg16(options.batch);
  const auto layers = layers_of(network);
  uint64_t activations = 0, without = 0;  // without swapping: the inputs so far, and the gradients of a layer
  for (const auto& l : layers) {
    activations += l.input_bytes;
    without = std::max(without, activations + l.output_bytes + l.input_bytes);
  }
  options.device_bytes = static_cast<uint64_t>(static_cast<double>(without) * budget_percent / 100);
  options.pinned_bytes = 2 * activations;
  std::printf("VGG-16, batch %llu: activations %.0f KiB\n", static_cast<unsigned long long>(options.batch),
              kib(activations));
  std::printf("device budget %.0f KiB; without swapping at most %.0f KiB would be in use\n", kib(options.device_bytes),
              kib(without));

  std::vector<std::pair<const policy*, outcome_of_run>> results;
  const char* doing = "profiling";
  try {
    const training_profile profile = profiler(network, options.batch).run();
    print_profile(profile);
    for (const policy& p : policies) {
      if (wanted != "all" && wanted != p.name) continue;
      doing = p.name;
      results.emplace_back(&p, training(p, network, profile, options).run());
      print_run(p, network, results.back().second, wanted != "all");
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "swap_training: %s, with %.0f KiB of device and %.0f KiB of pinned memory: %s\n", doing,
                 kib(options.device_bytes), kib(options.pinned_bytes), e.what());
    return 1;
  }
  const uint64_t wrong = print_summary(layers, results);
  if (std::fflush(stdout) != 0) {
    std::perror("swap_training: standard output");
    return 1;
  }
  return wrong == 0 ? 0 : 1;
}
