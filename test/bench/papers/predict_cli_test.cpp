// The program bench_predict, run as people run it.
#include "bench/papers/predict_samples.hpp"
#include "support/run_program.hpp"
#include "support/scratch.hpp"

#include <gtest/gtest.h>

namespace {

using nlohmann::json;

cli::answer run(cli::arguments words) {
  words.insert(words.begin(), TUCK_BENCH_PREDICT);
  return cli::run_program(std::move(words));
}

class bench_predict : public ::testing::Test {
 protected:
  bench_predict() { scratch::write(results, tuck::bench::sample_results(tuck::bench::sample_measurements()).dump()); }

  scratch::directory dir;
  const std::string results = dir / "results.json", out = dir / "out.json";
};

TEST_F(bench_predict, fits_and_shows) {
  const cli::answer fitted = run({"fit", results, "--out", out});
  EXPECT_EQ(fitted.code, 0) << fitted.err;
  EXPECT_NE(fitted.out.find("3 predictors of 120 measurements"), std::string::npos) << fitted.out;
  EXPECT_NE(fitted.out.find("zvc, f32, clustered, host                           1.00"), std::string::npos)
      << fitted.out;
  const cli::answer shown = run({"show", out});
  EXPECT_EQ(shown.code, 0) << shown.err;
  // Of zvc's law: 60 us a MiB of zeros, 100 us one of values.
  EXPECT_NE(shown.out.find("encode  0.2 +- "), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("zeros at 17.5 GB/s +- 0 %, values at 10.5 GB/s +- 0 %"), std::string::npos) << shown.out;
}

// One time that is 20 times what the others say of it.
TEST_F(bench_predict, names_the_row_that_it_misses_most) {
  auto measured = tuck::bench::sample_measurements();
  measured.back().decode *= 20;  // zvc at 64 MiB, 99 % of zeros
  scratch::write(results, tuck::bench::sample_results(measured).dump());
  const cli::answer fitted = run({"fit", results, "--out", out});
  EXPECT_EQ(fitted.code, 0) << fitted.err;
  const size_t at = fitted.out.find("decode of 64 MiB, 99 % of zeros: not what the model describes");
  EXPECT_NE(at, std::string::npos) << fitted.out;
  EXPECT_EQ(fitted.out.find("not what", at + 60), std::string::npos) << fitted.out;
}

TEST_F(bench_predict, checks) {
  const cli::answer text = run({"check", results, "--hold-out", ".5", "--splits", "2", "--link", "1,2"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("zvc, f32, clustered, host"), std::string::npos) << text.out;
  const cli::answer answer = run({"check", "--json", "--hold-out", ".5", "--splits", "2", "--link", "1,2", results});
  EXPECT_EQ(answer.code, 0) << answer.err;
  const json report = json::parse(answer.out);
  EXPECT_EQ(report.at("schema"), "tuck-predictor-check/1");
  EXPECT_EQ(report.at("hold_out"), .5);
  EXPECT_EQ(report.at("codecs").size(), 3u);
  EXPECT_EQ(report.at("codecs")[0].at("points"), 40);
  EXPECT_EQ(report.at("decisions").size(), 4u);
  for (const json& d : report.at("decisions")) EXPECT_EQ(d.at("right"), 1);
  EXPECT_EQ(run({"check", results, "--seed", "7"}).out, run({"check", results, "--seed", "7"}).out);
}

TEST_F(bench_predict, refuses_what_it_does_not_know) {
  const auto refused = [&](const cli::arguments& words, const std::string& word) {
    const cli::answer a = run(words);
    EXPECT_EQ(a.code, 2) << a.err;
    EXPECT_EQ(a.out, "");
    EXPECT_NE(a.err.find(word), std::string::npos) << a.err;
  };
  refused({}, "A subcommand is required");
  refused({"guess"}, "A subcommand is required");
  refused({"fit", results}, "--out");
  refused({"fit", "--out", out}, "RESULTS.json");
  refused({"show"}, "FILE.json");
  for (const char* share : {"0", "1", "-1", "nan", "half"})
    refused({"check", results, "--hold-out", share}, "--hold-out");
  for (const char* rate : {"0", "-1", "nan", "inf", "1,x", "25e9"})
    refused({"check", results, "--link", rate}, "--link");
  refused({"check", results, "--splits", "0"}, "--splits");
  refused({"check", results, "--frobnicate"}, "--frobnicate");
  EXPECT_EQ(dir.names(), cli::arguments{"results.json"});
}

TEST_F(bench_predict, refuses_bad_files_in_a_line) {
  const auto refused = [&](const cli::arguments& words, const std::string& file, const std::string& reason) {
    const cli::answer a = run(words);
    EXPECT_EQ(a.code, 1);
    EXPECT_EQ(a.out, "");
    EXPECT_EQ(a.err, "bench_predict: " + file + ": " + reason + "\n");
  };
  const std::string none = dir / "none.json", nowhere = dir / "no/out.json";
  refused({"fit", none, "--out", out}, none, "No such file or directory");
  refused({"show", none}, none, "No such file or directory");
  refused({"check", none}, none, "No such file or directory");
  refused({"show", results}, results,
          "line 1: tuck-predictors/2: is due, not \"" + scratch::read(results).substr(0, 40) + "\"");
  refused({"fit", results, "--out", nowhere}, nowhere, "No such file or directory");
  refused({"fit", results, "--out", results}, results, "input and output are the same file");
  auto few = tuck::bench::sample_measurements();
  few.resize(2);
  scratch::write(none, tuck::bench::sample_results(few).dump());
  refused({"fit", none, "--out", out}, none, "too few points for any codec");
  refused({"check", none}, none, "too few points to hold some out");
  EXPECT_EQ(dir.names(), (cli::arguments{"none.json", "results.json"}));
}

}  // namespace
