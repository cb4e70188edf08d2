// bench_tuner: the tuner on recorded surfaces, the surfaces' files, and the program as people run it.
#include "bench/papers/tuner/check.hpp"

#include "support/files.hpp"
#include "support/run_program.hpp"
#include "support/scratch.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

namespace tuck::bench {
namespace {

using nlohmann::ordered_json;

std::vector<surface> recorded_surfaces() {
  std::vector<surface> all;
  for (const auto& entry : std::filesystem::directory_iterator(TUCK_BENCH_FOLDER "/results"))
    if (entry.path().filename().string().starts_with("surface-")) all.push_back(load(entry.path().string()));
  return all;
}

TEST(recorded_surfaces, the_tuner_comes_near_their_best_and_never_loses_by_it) {
  const auto surfaces = recorded_surfaces();
  ASSERT_FALSE(surfaces.empty());
  for (const surface& s : surfaces) {
    EXPECT_GE(s.space.size(), 1000u) << s.name;
    const endings e = check(s, tuner_search::bayesian, {});
    EXPECT_EQ(e.seeds, 100u);
    EXPECT_LE(e.trials, 40u);
    EXPECT_GE(e.near_best, 90u) << s.name << ": " << e.mean_over_best;
    EXPECT_EQ(e.safe, 100u) << s.name << ": " << e.worst_over_expert;
  }
}

surface small_surface() {
  surface s{.name = "a test's", .space = {{1, 2, 4}, {1, 2}, {1024, 4096}}, .expert = 4};
  for (size_t i = 0; i < s.space.size(); ++i) {
    const double seconds = 1e-3 * static_cast<double>(i + 1);
    s.runs.push_back({seconds, 3 * seconds, seconds / 2});
    s.truth.push_back(seconds);
  }
  s.description = {{"codec", "zvc"}};
  return s;
}

TEST(recorded_surfaces, are_recorded_in_turn) {
  const surface s = small_surface();
  std::vector<size_t> launched;
  size_t done = 0;
  // A machine that becomes slower and slower; what is recorded of it is as if it did not.
  const auto slower = [&](const launch_point& p) {
    launched.push_back(s.number_of(p));
    return s.truth[launched.back()] * (1000 + static_cast<double>(launched.size()));
  };
  const auto runs = record(s.space, slower, s.expert, 3, [&] { ++done; });
  EXPECT_EQ(done, 48u);
  ASSERT_EQ(runs.size(), 12u);
  ASSERT_EQ(launched.size(), 3 * 48u);
  for (size_t pass = 0; pass < 4; ++pass) {  // each has all points, between their references
    std::set<size_t> points;
    for (size_t i = 0; i < 12; ++i) {
      const size_t* at = launched.data() + 3 * (12 * pass + i);
      points.insert(at[1]);
      launch_point reference = s.space[s.expert];
      reference.threads = s.space[at[1]].threads;
      EXPECT_EQ(at[0], s.number_of(reference));
      EXPECT_EQ(at[2], at[0]);
    }
    EXPECT_EQ(points.size(), 12u);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    ASSERT_EQ(runs[i].size(), 3u);
    const double expected = s.truth[i] * runs[s.expert][0] / s.truth[s.expert];
    for (const double seconds : runs[i]) EXPECT_NEAR(seconds / expected, 1, .05);
    EXPECT_NEAR(runs[i][0] / runs[i][2], 1, 1e-9);
  }
}

TEST(recorded_surfaces, are_judged_by_medians) {
  EXPECT_EQ(median({3, 1, 100}), 3);
  EXPECT_EQ(median({4, 1, 100, 2}), 3);
  EXPECT_DOUBLE_EQ(spread(small_surface()), .5);
  const launch_space space{{1, 10, 100}, {1, 2}, {1024, 65536}};
  EXPECT_EQ(space[nearest(space, {40, 8, 2048})], (launch_point{100, 2, 1024}));
}

TEST(endings, are_counted) {
  const surface s = small_surface();
  endings e{.of = "", .search = tuner_search::bayesian};
  e.add(s, 0, 3);  // the best, 1 ms
  e.add(s, 4, 5);  // the expert's, 5 ms
  e.add(s, 5, 4);  // 6 ms
  EXPECT_EQ(e.seeds, 3u);
  EXPECT_EQ(e.trials, 5u);
  EXPECT_EQ(e.near_best, 1u);
  EXPECT_EQ(e.safe, 2u);
  EXPECT_DOUBLE_EQ(e.mean_over_best, 3);
  EXPECT_DOUBLE_EQ(e.worst_over_best, 5);
  EXPECT_DOUBLE_EQ(e.worst_over_expert, .2);
  EXPECT_EQ(check(s, tuner_search::expert, {.seeds = 4, .trials = 2}).safe, 4u);
  EXPECT_EQ(check(s, tuner_search::exhaustive, {.seeds = 1}).trials, 12u);
  EXPECT_EQ(check_generated(2, tuner_search::random, {.trials = 3}).configurations, 1024u);
}

class surface_files : public ::testing::Test {
 protected:
  std::string refusal(const std::string& content) {
    scratch::write(path, content);
    try {
      load(path);
    } catch (const tools::file_error& error) {
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with(path + ": ")) << text;
      return text.substr(std::min(text.size(), path.size() + 2));
    }
    return "it is not refused";
  }

  scratch::directory dir;
  const std::string path = dir / "surface.json";
};

TEST_F(surface_files, come_back_to_four_digits) {
  surface s = small_surface();
  s.runs[3] = {.00123456, 1.23456, 4321.49};
  save(path, s);
  EXPECT_EQ(dir.names(), std::vector<std::string>{"surface.json"});
  const surface back = load(path);
  EXPECT_EQ(back.name, s.name);
  EXPECT_EQ(back.space.blocks, s.space.blocks);
  EXPECT_EQ(back.space.threads, s.space.threads);
  EXPECT_EQ(back.space.chunk_bytes, s.space.chunk_bytes);
  EXPECT_EQ(back.expert, s.expert);
  EXPECT_EQ(back.runs[0], s.runs[0]);
  EXPECT_EQ(back.runs[3], (std::vector{.001235, 1.235, 4321.}));
  EXPECT_EQ(back.truth[3], 1.235);
  EXPECT_EQ(back.description.at("codec"), "zvc");
}

TEST_F(surface_files, are_refused_by_name) {
  EXPECT_EQ(refusal("surface!").find("not JSON: parse error at line 1, column 1"), 0u);
  EXPECT_EQ(refusal("{}"), "its schema is missing instead of tuck-surface/1");
  EXPECT_EQ(refusal(R"({"schema": "tuck-bench/1"})"), "its schema is tuck-bench/1 instead of tuck-surface/1");
  EXPECT_THROW(load(dir / "none.json"), tools::file_error);
  save(path, small_surface());
  const auto good = ordered_json::parse(scratch::read(path));
  const auto changed = [&](auto change) {
    ordered_json file = good;
    change(file);
    return refusal(file.dump());
  };
  EXPECT_EQ(changed([](auto& f) { f.erase("seconds"); }), "key 'seconds' not found");
  EXPECT_EQ(changed([](auto& f) { f["seconds"].erase(3); }), "seconds of 11 combinations instead of 12");
  EXPECT_EQ(changed([](auto& f) { f["seconds"].push_back({1}); }), "seconds of 13 combinations instead of 12");
  EXPECT_EQ(changed([](auto& f) { f["seconds"][2] = ordered_json::array(); }), "combination 3: no runs");
  EXPECT_EQ(changed([](auto& f) { f["seconds"][2][1] = 0; }), "combination 3: a time is not above 0");
  EXPECT_EQ(changed([](auto& f) { f["seconds"][2][1] = nullptr; }), "combination 3: type must be number, but is null");
  EXPECT_EQ(changed([](auto& f) { f["blocks"] = ordered_json::array(); }), "blocks: no values");
  EXPECT_EQ(changed([](auto& f) { f["blocks"][1] = 1; }), "blocks: a value is there twice");
  for (const char* value : {"0", "-1", "4294967296", "1.5", "\"8\""})
    EXPECT_EQ(changed([&](auto& f) { f["threads"][0] = ordered_json::parse(value); }),
              "threads: " + std::string(value) + " is no value of a launch option");
  EXPECT_EQ(changed([](auto& f) { f["expert"]["blocks"] = 3; }), "expert: no combination of the values");
  surface bad = small_surface();
  bad.runs[1][0] = INFINITY;
  EXPECT_THROW(save(dir / "bad.json", bad), std::exception);
  EXPECT_EQ(dir.names(), std::vector<std::string>{"surface.json"});
}

class bench_tuner : public surface_files {
 protected:
  static cli::answer run(cli::arguments words) {
    words.insert(words.begin(), TUCK_BENCH_TUNER);
    return cli::run_program(std::move(words));
  }
};

TEST_F(bench_tuner, records_and_checks) {
  const cli::answer recorded = run({"record", "--out", path, "--size", "100004B", "--runs", "2", "--blocks", "1,3,40",
                                    "--threads", "1,2", "--chunk", "1KiB,16KiB", "--codec", "rle"});
  EXPECT_EQ(recorded.code, 0) << recorded.err;
  EXPECT_NE(recorded.out.find("12 configurations, 2 runs each"), std::string::npos) << recorded.out;
  const surface s = load(path);
  EXPECT_EQ(s.space.size(), 12u);
  EXPECT_EQ(s.space[s.expert].chunk_bytes, 16384u);
  EXPECT_EQ(s.description.at("environment").at("command"),
            "bench_tuner record --codec rle --pattern clustered --size 100004B --sparsity 0.6 --runs 2 "
            "--tries 1 # 12 combinations");
  EXPECT_EQ(s.description.at("load_before").size(), 3u);
  const cli::answer text = run({"check", path, "--seeds", "3", "--generated", "2"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("rle/100004B/s:0.6/clustered, 12 configurations"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("2 generated"), std::string::npos) << text.out;
  const cli::answer answer = run({"check", "--json", path, "--seeds", "3", "--trials", "20", "--noise", ".05"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  const auto report = ordered_json::parse(answer.out);
  EXPECT_EQ(report.at("schema"), "tuck-tuner-check/1");
  ASSERT_EQ(report.at("endings").size(), 4u);
  EXPECT_EQ(report.at("endings")[0].at("search"), "bayesian");
  EXPECT_EQ(report.at("endings")[0].at("trials"), 20);
  EXPECT_EQ(report.at("endings")[0].at("seeds"), 3);
}

TEST_F(bench_tuner, refuses_what_it_does_not_know) {
  const auto refused = [&](const cli::arguments& words, const std::string& word) {
    const cli::answer a = run(words);
    EXPECT_EQ(a.code, 2) << a.err;
    EXPECT_EQ(a.out, "");
    EXPECT_NE(a.err.find(word), std::string::npos) << a.err;
  };
  refused({}, "A subcommand is required");
  refused({"record"}, "--out");
  refused({"check"}, "SURFACE.json or --generated");
  for (const char* share : {"-1", "1.1", "nan", "half"})
    refused({"record", "--out", path, "--sparsity", share}, "--sparsity");
  refused({"record", "--out", path, "--codec", "zip"}, "zip is no codec that loses nothing");
  refused({"record", "--out", path, "--codec", "quantize"}, "quantize is no codec that loses nothing");
  refused({"record", "--out", path, "--size", "7"}, "7 is no whole number of f32");
  refused({"record", "--out", path, "--size", "much"}, "much is no size");
  refused({"record", "--out", path, "--chunk", "100B"}, "100B is no multiple of 128 bytes up to 64 KiB");
  refused({"record", "--out", path, "--chunk", "128KiB"}, "128KiB is no multiple");
  refused({"record", "--out", path, "--threads", "0"}, "--threads");
  refused({"record", "--out", path, "--blocks", "8,4,8"}, "--blocks: 8 is there twice");
  refused({"record", "--out", path, "--chunk", "1KiB,1024B"}, "--chunk: 1024 is there twice");
  refused({"check", path, "--seeds", "0"}, "--seeds");
  refused({"check", path, "--noise", "-1"}, "--noise");
  EXPECT_EQ(dir.names(), cli::arguments{});
}

TEST_F(bench_tuner, refuses_bad_files_in_a_line) {
  const auto refused = [&](const cli::arguments& words, const std::string& file, const std::string& reason) {
    const cli::answer a = run(words);
    EXPECT_EQ(a.code, 1);
    EXPECT_EQ(a.out, "");
    EXPECT_EQ(a.err, "bench_tuner: " + file + ": " + reason + "\n");
  };
  const std::string none = dir / "none.json", nowhere = dir / "no/out.json";
  refused({"check", none}, none, "No such file or directory");
  refused({"record", "--out", nowhere}, nowhere, "No such file or directory");
  scratch::write(path, "{}");
  refused({"check", path}, path, "its schema is missing instead of tuck-surface/1");
}

}  // namespace
}  // namespace tuck::bench
