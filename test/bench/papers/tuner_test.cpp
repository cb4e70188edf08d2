// bench_tuner: the tuner on recorded surfaces, the surfaces' files, and the program as people run it.
#include "bench/papers/refusals.hpp"
#include "bench/papers/tuner/check.hpp"

#include <filesystem>

namespace tuck::bench {
namespace {

using nlohmann::ordered_json;

TEST(recorded_surfaces, the_tuner_comes_near_their_best_and_never_loses_by_it) {
  size_t surfaces = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TUCK_BENCH_FOLDER "/results")) {
    if (!entry.path().filename().string().starts_with("surface-")) continue;
    ++surfaces;
    const auto row = check(load(entry.path().string()), tuner_search::bayesian, {});
    EXPECT_EQ(row.at("trials"), 40);
    EXPECT_GE(row.at("within_5_percent_of_best"), 90) << row;
    EXPECT_EQ(row.at("within_2_percent_of_default_or_better"), 100) << row;
  }
  EXPECT_GT(surfaces, 0u);
}

const ordered_json small_file = {
    {"schema", "tuck-surface/1"},
    {"name", "a test's"},
    {"codec", "zvc"},
    {"expert", {{"blocks", 2}, {"threads", 2}, {"chunk_bytes", 1024}}},
    {"blocks", {1, 2, 4}},
    {"threads", {1, 2}},
    {"chunk_bytes", {1024, 4096}},
    {"seconds",
     {{.001}, {.002}, {.003}, {.004}, {.005}, {.006}, {.007}, {.008}, {.009}, {.010}, {.011}, {.012, .024, .006}}}};

class surface_files : public files_test {
 protected:
  surface_files() { scratch::write(path, small_file.dump()); }
};

TEST_F(surface_files, are_searched) {
  const surface s = load(path);  // the best takes 1 ms, the expert's 5
  const auto row = check(s, tuner_search::expert, {.seeds = 4, .trials = 2});
  EXPECT_EQ(row.at("seeds"), 4);
  EXPECT_EQ(row.at("trials"), 2);
  EXPECT_EQ(row.at("within_5_percent_of_best"), 0);
  EXPECT_EQ(row.at("within_2_percent_of_default_or_better"), 4);
  EXPECT_DOUBLE_EQ(row.at("mean_over_best"), 4);
  EXPECT_DOUBLE_EQ(row.at("worst_over_default"), 0);
  const auto exhaustive = check(s, tuner_search::exhaustive, {.seeds = 1, .noise = 0});
  EXPECT_EQ(exhaustive.at("trials"), 12);
  EXPECT_EQ(exhaustive.at("worst_over_best"), 0);
  EXPECT_DOUBLE_EQ(exhaustive.at("worst_over_default"), -.8);
}

TEST_F(surface_files, are_read) {
  const surface s = load(path);
  EXPECT_EQ(s.name, "a test's");
  EXPECT_EQ(s.space[s.expert], (launch_point{2, 2, 1024}));
  EXPECT_EQ(s.truth[s.expert], .005);
  EXPECT_EQ(s.runs.back(), (std::vector{.012, .024, .006}));
  EXPECT_EQ(s.truth.back(), .012);
  EXPECT_EQ(s.description.at("codec"), "zvc");
}

TEST_F(surface_files, are_refused_by_name) {
  EXPECT_EQ(refusal("surface!", load).find("not JSON: parse error at line 1, column 1"), 0u);
  EXPECT_EQ(refusal("{}", load), "its schema is missing instead of tuck-surface/1");
  EXPECT_EQ(refusal(R"({"schema": "tuck-bench/1"})", load), "its schema is tuck-bench/1 instead of tuck-surface/1");
  EXPECT_THROW(load(dir / "none.json"), tools::file_error);
  const auto changed = [&](auto change) {
    ordered_json file = small_file;
    change(file);
    return refusal(file.dump(), load);
  };
  EXPECT_EQ(changed([](auto& f) { f.erase("seconds"); }), "key 'seconds' not found");
  EXPECT_EQ(changed([](auto& f) { f["seconds"].erase(3); }), "seconds of 11 combinations instead of 12");
  EXPECT_EQ(changed([](auto& f) { f["seconds"][2] = ordered_json::array(); }),
            "combination 3: no runs, or a time that is not above 0");
  EXPECT_EQ(changed([](auto& f) { f["seconds"][2][0] = 0; }), "combination 3: no runs, or a time that is not above 0");
  EXPECT_EQ(changed([](auto& f) { f["seconds"][2][0] = nullptr; }), "combination 3: type must be number, but is null");
  EXPECT_EQ(changed([](auto& f) { f["blocks"][1] = 1; }), "blocks: no values, or one is there twice");
  for (const char* value : {"0", "-1", "4294967296", "1.5", "\"8\""})
    EXPECT_EQ(changed([&](auto& f) { f["threads"][0] = ordered_json::parse(value); }),
              "threads: " + std::string(value) + " is no value of a launch option");
  EXPECT_EQ(changed([](auto& f) { f["expert"]["blocks"] = 3; }), "expert: no combination of the values");
}

TEST_F(surface_files, are_checked_by_the_program) {
  const cli::answer text = cli::run_program({TUCK_BENCH_TUNER, path, "--seeds", "3", "--generated", "2"});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* words : {"a test's, 12 configurations", "2 generated  bayesian"})
    EXPECT_NE(text.out.find(words), std::string::npos) << text.out;
  const cli::answer answer = cli::run_program({TUCK_BENCH_TUNER, "--json", path, "--seeds", "3", "--trials", "20"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  const auto report = ordered_json::parse(answer.out);
  EXPECT_EQ(report.at("schema"), "tuck-tuner-check/1");
  ASSERT_EQ(report.at("endings").size(), 4u);
  EXPECT_EQ(report.at("endings")[0].at("search"), "bayesian");
  EXPECT_EQ(report.at("endings")[0].at("trials"), 20);
}

TEST_F(surface_files, are_refused_by_the_program) {
  const auto refused = [](cli::arguments words, int code, const std::string& word) {
    words.insert(words.begin(), TUCK_BENCH_TUNER);
    expect_refusal(words, code, word);
  };
  refused({}, 2, "SURFACE.json or --generated");
  refused({path, "--seeds", "0"}, 2, "--seeds");
  refused({path, "--noise", "nan"}, 2, "--noise");
  refused({dir / "none.json"}, 1, "bench_tuner: " + (dir / "none.json") + ": No such file or directory\n");
}

}  // namespace
}  // namespace tuck::bench
