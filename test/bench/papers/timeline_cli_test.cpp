// The program timeline, run as people run it.
#include "bench/papers/refusals.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <sstream>

namespace {

using nlohmann::json;

cli::answer run(cli::arguments words) {
  words.insert(words.begin(), TUCK_TIMELINE);
  return cli::run_program(std::move(words));
}

TEST(timeline_program, prints_calm_tables) {
  const cli::answer a = run({"alexnet", "resnet50", TUCK_BENCH_FOLDER "/papers/networks/plain20.json"});
  EXPECT_EQ(a.code, 0) << a.err;
  for (const char* words : {"BOUNDS, the least time", "AlexNet, batch 128, mean of epochs 0 to 8", "ResNet-50",
                            "Plain20, batch 1024", "What the papers report", "holds"})
    EXPECT_NE(a.out.find(words), std::string::npos) << words;
  std::istringstream lines(a.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(timeline_program, finds_the_papers_directions) {
  const cli::answer a = run({"--check"});
  EXPECT_EQ(a.code, 0) << a.out;
  EXPECT_EQ(a.out.find("FAILS"), std::string::npos);
  // Codecs this slow do not pay: the answer and the reason change.
  const cli::answer slow = run({"--check", "alexnet", "--slower", "32"});
  EXPECT_EQ(slow.code, 1);
  EXPECT_NE(slow.out.find("FAILS  cDMA in software beats vDNN all"), std::string::npos) << slow.out;
  EXPECT_NE(slow.out.find("AlexNet, mean: cDMA takes"), std::string::npos) << slow.out;
  EXPECT_NE(slow.out.find("holds  CSWAP is within 1 %"), std::string::npos) << slow.out;
}

TEST(timeline_program, writes_json) {
  const scratch::directory dir;
  const std::string path = dir / "out.json";
  const cli::answer a = run({"nin", "plain20", "--json", path, "--batch", "64"});
  ASSERT_EQ(a.code, 0) << a.err;
  const json file = json::parse(scratch::read(path));
  EXPECT_EQ(file.at("schema"), "tuck-timeline/1");
  EXPECT_EQ(file.at("gpu"), "V100-SXM2");
  EXPECT_EQ(file.at("link").at("d2h"), 12.8e9);
  EXPECT_EQ(file.at("codecs"), "counts");
  EXPECT_EQ(file.at("mean_of"), json({0, 8}));
  ASSERT_EQ(file.at("networks").size(), 2u);
  for (const json& n : file.at("networks")) {
    EXPECT_EQ(n.at("batch"), 64);
    EXPECT_EQ(n.at("epochs")[0].at("epoch"), 0);
    EXPECT_EQ(n.at("mean").size(), 11u);  // policy_names
    for (const json& p : n.at("mean")) {
      const double sum = p.at("compute").get<double>() + p.at("waiting").get<double>() + p.at("codec").get<double>() +
                         p.at("recompute").get<double>();
      EXPECT_NEAR(p.at("iteration").get<double>() / sum, 1, 1e-9) << p.dump();
      EXPECT_GE(p.at("ratio"), 1) << p.dump();
    }
  }
  EXPECT_EQ(file.at("directions").size(), 4u);
  for (const json& p : file.at("papers")) EXPECT_GE(p.at("most"), p.at("mean")) << p.dump();

  if (std::string(TUCK_PYTHON).empty()) GTEST_SKIP() << "there is no Python with Matplotlib";
  const cli::answer drawn =
      cli::run_program({TUCK_PYTHON, TUCK_BENCH_FOLDER "/papers/plot_timeline.py", path, "--out", dir / "plots"});
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  for (const char* name : {"glance", "epochs"})
    EXPECT_TRUE(std::filesystem::exists(dir / "plots" + "/" + name + ".png")) << name;
}

TEST(timeline_program, refuses_what_it_does_not_know) {
  const auto refused = [](cli::arguments words, int code, const std::string& word) {
    words.insert(words.begin(), TUCK_TIMELINE);
    tuck::bench::expect_refusal(words, code, word);
  };
  refused({"lenet"}, 1, "lenet.json: ");
  refused({"--gpu", "GeForce 256"}, 1, "gpus.json: it has no GPU GeForce 256, but ");
  refused({"--link", "a wire"}, 1, "gpus.json: it has no link a wire, but ");
  refused({"--codecs", TUCK_BENCH_FOLDER "/support/gpus.json"}, 1, "line 1: tuck-predictors/2: is due");
  refused({"--counts", TUCK_BENCH_FOLDER "/support/gpus.json"}, 1, "its schema is tuck-gpus/1 instead of tuck-bench/1");
  refused({"--batch", "0"}, 2, "0");
  for (const char* value : {"nan", "inf", "1e300", "-1"}) refused({"--slower", value}, 2, "--slower");
  refused({"--unknown"}, 2, "--unknown");
}

}  // namespace
