// The program bench_predict, run as people run it.
#include "bench/papers/predict_samples.hpp"
#include "bench/papers/refusals.hpp"

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

// One time is 20 times what the others say of it.
TEST_F(bench_predict, fits_and_names_the_row_that_it_misses_most) {
  auto measured = tuck::bench::sample_measurements();
  measured.back().decode *= 20;  // zvc at 64 MiB, 99 % of zeros
  scratch::write(results, tuck::bench::sample_results(measured).dump());
  const cli::answer fitted = run({"fit", results, "--out", out});
  EXPECT_EQ(fitted.code, 0) << fitted.err;
  EXPECT_NE(fitted.out.find("3 predictors of 120 measurements"), std::string::npos) << fitted.out;
  EXPECT_NE(fitted.out.find("zvc       f32   clustered  host   decode     64.000        99"), std::string::npos)
      << fitted.out;
  EXPECT_NE(fitted.out.find("                  1.00\n"), std::string::npos) << fitted.out;
}

TEST_F(bench_predict, checks) {
  const cli::answer answer = run({"check", results, "--link", "1,2", "--json", out});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.out.find("zvc       f32   clustered  host     1000"), std::string::npos) << answer.out;
  const json report = json::parse(scratch::read(out));
  EXPECT_EQ(report.at("schema"), "tuck-predictor-check/1");
  EXPECT_EQ(report.at("codecs").size(), 3u);
  EXPECT_EQ(report.at("codecs")[0].at("points"), 1000);
  EXPECT_EQ(report.at("decisions").size(), 4u);
  for (const json& d : report.at("decisions")) EXPECT_EQ(d.at("right"), 1);
  EXPECT_EQ(run({"check", results, "--link", "1,2"}).out, answer.out);
}

TEST_F(bench_predict, refuses_what_it_does_not_know) {
  const auto refused = [](cli::arguments words, int code, const std::string& word) {
    words.insert(words.begin(), TUCK_BENCH_PREDICT);
    tuck::bench::expect_refusal(words, code, word);
  };
  refused({}, 2, "A subcommand is required");
  refused({"guess"}, 2, "A subcommand is required");
  refused({"fit", results}, 2, "--out");
  refused({"fit", "--out", out}, 2, "RESULTS.json");
  for (const char* rate : {"0", "-1", "nan", "inf", "1,x", "25e9"})
    refused({"check", results, "--link", rate}, 2, "--link");

  const std::string none = dir / "none.json", nowhere = dir / "no/out.json";
  refused({"fit", none, "--out", out}, 1, "bench_predict: " + none + ": No such file or directory\n");
  refused({"fit", results, "--out", nowhere}, 1, nowhere + ": No such file or directory\n");
  refused({"fit", results, "--out", results}, 1, results + ": input and output are the same file\n");
  auto few = tuck::bench::sample_measurements();
  few.resize(2);
  scratch::write(none, tuck::bench::sample_results(few).dump());
  refused({"fit", none, "--out", out}, 1, none + ": too few points for any codec\n");
  refused({"check", none}, 1, none + ": too few points to hold some out\n");
  EXPECT_EQ(dir.names(), (cli::arguments{"none.json", "results.json"}));
}

}  // namespace
