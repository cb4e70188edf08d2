#include "bench/papers/predict/check.hpp"
#include "bench/papers/predict/predictor_file.hpp"

#include "bench/papers/predict_samples.hpp"
#include "bench/papers/refusals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace tuck::bench {
namespace {

using nlohmann::ordered_json;

TEST(predictors, find_a_linear_law) {
  const auto found = fit(sample_measurements());
  ASSERT_EQ(found.size(), laws.size());
  for (size_t i = 0; i < laws.size(); ++i) {
    EXPECT_EQ(found[i].of.codec, laws[i].codec);
    EXPECT_EQ(found[i].of.lossy, laws[i].lossy);
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(found[i].model.encode.c[k] / laws[i].encode[k], 1, 1e-4);
      EXPECT_NEAR(found[i].model.decode.c[k] / laws[i].decode[k], 1, 1e-4);
      EXPECT_NEAR(found[i].model.frame.c[k] / laws[i].frame[k], 1, 1e-4);
    }
  }
}

TEST(predictors, need_a_point_more_than_coefficients) {
  auto few = sample_measurements();
  few.resize(3);
  EXPECT_EQ(fit(few).size(), 0u);
  few.push_back(sample_measurements()[7]);
  ASSERT_EQ(fit(few).size(), 1u);
  EXPECT_LT(fit(few)[0].model.at(16 << 10, .6).encode.deviation, INFINITY);
}

class predictor_files : public files_test {
 protected:
  std::string bad_predictors(const std::string& content) { return refusal(content, load); }
  std::string bad_results(const ordered_json& content) {
    return refusal(content.dump(), [](const std::string& file) { read_results({file}); });
  }
};

TEST_F(predictor_files, come_back_bit_by_bit) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(1, .1);
  predictor_file file{{{"cpu", "a CPU"}}, fit(sample_measurements([&] { return noise(random); }))};
  file.codecs[0].model.encode.c = {-0., 5e-324, 1.7976931348623157e308, 0, 1, 2, 3};
  save(path, file);
  EXPECT_EQ(dir.names(), std::vector<std::string>{"file.json"});
  const predictor_file back = load(path);
  EXPECT_EQ(back.environment, file.environment);
  ASSERT_EQ(back.codecs.size(), file.codecs.size());
  for (size_t i = 0; i < file.codecs.size(); ++i) {
    EXPECT_EQ(back.codecs[i].of, file.codecs[i].of);
    EXPECT_EQ(std::memcmp(&back.codecs[i].model, &file.codecs[i].model, sizeof(codec_predictor)), 0);
    const auto a = file.codecs[i].model.at(12345678, .7), b = back.codecs[i].model.at(12345678, .7);
    EXPECT_EQ(std::memcmp(&a, &b, sizeof a), 0);
  }
}

TEST_F(predictor_files, are_read_by_the_library) {
  save(path, {{{"cpu", "a CPU"}}, fit(sample_measurements())});
  const saved_predictors found = read_predictors(path);
  EXPECT_EQ(found.environment, R"({"cpu":"a CPU"})");
  ASSERT_EQ(found.codecs.size(), 3u);
  const saved_predictor& quantize = found.codecs[1];
  EXPECT_EQ(quantize.codec + " " + quantize.type + " " + quantize.where + " " + quantize.pattern,
            "quantize f32 host clustered");
  EXPECT_TRUE(quantize.lossy);
  EXPECT_FALSE(found.codecs[0].lossy);
  EXPECT_NEAR(quantize.predictor.at(1 << 20, .5).encode.value, 1e-6 + 1e-3 + .5e-4, 1e-7);
}

TEST_F(predictor_files, are_refused_by_line_and_field) {
  EXPECT_EQ(bad_predictors(""), "line 1: the file ends where a line \"tuck-predictors/2\" is due");
  EXPECT_EQ(bad_predictors("{\"schema\": \"tuck-predictors/1\",\n"),
            "line 1: tuck-predictors/2: is due, not \"{\"schema\":\"");
  EXPECT_THROW(load(dir / "none.txt"), std::runtime_error);

  save(path, {{{"cpu", "a CPU"}}, fit(sample_measurements())});
  const std::string good = scratch::read(path);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return bad_predictors(text.replace(at, from.size(), to));
  };
  EXPECT_EQ(changed("codecs 3", "codecs three"), "line 3: codecs: \"three\" is no number");
  EXPECT_EQ(changed("codecs 3", "codecs 2"), "line 12: is more than there should be");
  EXPECT_EQ(changed("codecs 3", "codecs 4"), "line 16: the file ends where a line \"codec\" is due");
  EXPECT_EQ(changed("clustered lossy", "clustered lossly"), "line 8: lossy or lossless: is \"lossly\"");
  EXPECT_EQ(changed("codec quantize f32 host clustered lossy", "codec deflate f32 host clustered lossless"),
            "line 8: deflate of such tensors is there twice");
  EXPECT_EQ(changed("host clustered lossless", "host clustered"), "line 4: lossy or lossless: is missing");
  EXPECT_EQ(changed(" count 40", ""), "line 5: count: is due, not \"used\"");
  EXPECT_EQ(changed("count 40", "count -1"), "line 5: count: -1 is out of range");
  EXPECT_EQ(changed("count 40", "count nan"), "line 5: count: nan is out of range");
  EXPECT_EQ(changed("used 127", "used 128"), "line 5: used: there are 7 coefficients");
  EXPECT_EQ(changed("zeros 0 0.99", "zeros 0 99"), "line 5: zeros: a share of zeros is at most 1");
  EXPECT_EQ(changed("bytes 4096 67108864", "bytes 4096 64MiB"), "line 5: bytes: \"64MiB\" is no number");
  EXPECT_EQ(changed("bytes 4096 67108864", "bytes 4096 1"), "line 5: bytes: 1 is out of range");
  EXPECT_EQ(changed("\ndecode", " 1\ndecode"), "line 5: more than there should be: \"1\"");
  EXPECT_EQ(bad_predictors(good.substr(0, good.find("\nframe"))),
            "line 7: the file ends where a line \"frame\" is due");
  for (size_t length = 0; length + 1 < good.size(); length += 97)  // nothing is taken for whole that is not
    EXPECT_NE(bad_predictors(good.substr(0, length)), "it is not refused") << length;
}

TEST_F(predictor_files, are_not_written_with_what_is_no_number) {
  scratch::write(path, "as it was");
  predictor_file file{{}, fit(sample_measurements())};
  file.codecs[1].model.decode.covariance[1][0] = NAN;
  EXPECT_THROW(save(path, file), std::runtime_error);
  EXPECT_EQ(scratch::read(path), "as it was");
}

TEST_F(predictor_files, are_fitted_to_what_tuck_bench_writes) {
  const auto measured = sample_measurements();
  ordered_json file = sample_results(measured);
  ordered_json peer = file["rows"][0], untimed = file["rows"][0], copy = file["rows"][0];
  peer["peer"] = true;
  untimed["where"] = "sim";
  untimed["median_seconds"] = nullptr;
  copy["operation"] = "copy";
  for (const auto& row : {peer, untimed, copy}) file["rows"].push_back(row);
  file["rows"].erase(1);  // one way alone
  scratch::write(path, file.dump());
  const measurements found = read_results({path});
  ASSERT_EQ(found.all.size(), measured.size() - 1);
  EXPECT_EQ(found.environment.at("cpu"), "a CPU");
  EXPECT_EQ(found.environment.at("runs").size(), 1u);
  for (const measurement& m : found.all)
    EXPECT_TRUE(std::any_of(measured.begin(), measured.end(), [&](const measurement& of) {
      return m.of == of.of && m.size == of.size && m.zeros == of.zeros && m.encode == of.encode &&
             m.decode == of.decode && m.ratio == of.ratio;
    }));
}

TEST_F(predictor_files, are_not_fitted_to_bad_results) {
  const ordered_json good = sample_results(sample_measurements());
  const auto changed = [&](auto change) {
    ordered_json file = good;
    change(file);
    return bad_results(file);
  };
  EXPECT_EQ(changed([](auto& f) { f["schema"] = "tuck-bench/2"; }),
            "its schema is tuck-bench/2 instead of tuck-bench/1");
  EXPECT_EQ(changed([](auto& f) { f.erase("environment"); }), "key 'environment' not found");
  EXPECT_EQ(changed([](auto& f) { f["rows"][4].erase("codec"); }), "row 5: key 'codec' not found");
  EXPECT_EQ(changed([](auto& f) { f["rows"][0]["median_seconds"] = 0; }),
            "row 1: median_seconds is 0, which cannot be");
  EXPECT_EQ(changed([](auto& f) { f["rows"][0]["gb_per_s"] = 1e9; }),
            "row 1: gb_per_s is not raw_bytes / median_seconds in 1e9 bytes a second");
  EXPECT_EQ(changed([](auto& f) { f["rows"][0]["raw_bytes"] = -1; }), "row 1: raw_bytes is no size");
  EXPECT_EQ(changed([](auto& f) { f["rows"][0]["zeros"] = 2; }), "row 1: zeros is 2, which cannot be");
  EXPECT_EQ(changed([](auto& f) { f["rows"] = ordered_json::array(); }), "no times of a codec of tuck's are in it");

  ordered_json elsewhere = good;
  elsewhere["environment"]["cpu"] = "another CPU";
  const std::string other = dir / "other.json";
  scratch::write(other, good.dump());
  EXPECT_EQ(refusal(elsewhere.dump(), [&](const std::string& file) { read_results({other, file}); }),
            "another cpu than the files before: \"another CPU\" instead of \"a CPU\"");
}

constexpr const char* figures[] = {"encode", "decode", "ratio"};

TEST(predictor_check, finds_no_fault_with_what_is_linear) {
  const ordered_json report = check(sample_measurements(), {.splits = 10});
  ASSERT_EQ(report.at("codecs").size(), laws.size());
  for (const ordered_json& a : report.at("codecs")) {
    EXPECT_EQ(a.at("points"), 100);  // whole points: 10 of 40, 10 times, of each codec the same
    for (const char* figure : figures) EXPECT_LT(a.at(figure).at("p90_error"), 1e-4) << a;
  }
  ASSERT_EQ(report.at("decisions").size(), 2 * default_links("host").size());
  for (const ordered_json& d : report.at("decisions")) {
    EXPECT_EQ(d.at("points"), 100);
    EXPECT_EQ(d.at("right"), 1);
    EXPECT_EQ(d.at("regret"), 0);
    EXPECT_GE(d.at("regret_of_raw"), 0);
  }
}

TEST(predictor_check, sees_noise) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> noise(1, .1);
  const auto measured = sample_measurements([&] { return noise(random); });
  const ordered_json report = check(measured, {.splits = 10, .gb_per_s = {.3, 6}});
  for (const ordered_json& a : report.at("codecs"))
    for (const char* figure : figures) {
      EXPECT_NEAR(a.at(figure).at("median_error"), .07, .05) << a;
      EXPECT_GT(a.at(figure).at("p90_error"), a.at(figure).at("median_error"));
      EXPECT_NEAR(a.at(figure).at("within_two_deviations"), .95, .1);
    }
  ASSERT_EQ(report.at("decisions").size(), 4u);
  double least = 1;
  for (const ordered_json& d : report.at("decisions")) {
    least = std::min(least, d.at("right").get<double>());
    EXPECT_LT(d.at("regret"), .05);
    EXPECT_GT(d.at("regret_of_raw"), d.at("regret"));
  }
  EXPECT_GT(least, .7);
  EXPECT_LT(least, 1);
}

// By hand: a tensor of 1 MB over 1 GB/s is 2 ms there and back; half of it, and 0.2 ms of coding each way, are 1.4 ms.
TEST(predictor_check, weighs_ways_as_the_model_of_costs_does) {
  std::vector<measurement> all;
  for (int i = 0; i < 40; ++i)
    all.push_back({.of = {{"host", "f32", "iid"}, "zvc", false},
                   .size = 1000000,
                   .sparsity = i / 40.,
                   .zeros = i / 40.,
                   .encode = 2e-4,
                   .decode = 2e-4,
                   .ratio = 2});
  const ordered_json report = check(all, {.gb_per_s = {1}});
  ASSERT_EQ(report.at("decisions").size(), 1u);  // there is one codec only
  EXPECT_EQ(report.at("decisions")[0].at("among"), "zvc");
  EXPECT_EQ(report.at("decisions")[0].at("right"), 1);
  EXPECT_EQ(report.at("decisions")[0].at("commonest"), 1);
  EXPECT_NEAR(report.at("decisions")[0].at("regret_of_raw"), 2 / 1.4 - 1, 1e-12);
}

// From large tensors alone nobody knows that a call takes a millisecond, which a small one does not pay back.
TEST(predictor_check, chooses_no_codec_that_it_is_not_sure_of) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(1, .05);
  std::vector<measurement> all;
  const auto add = [&](uint64_t size, double zeros) {
    const double seconds = (1e-3 + 1e-10 * static_cast<double>(size)) * noise(random);
    all.push_back({.of = {{"host", "f32", "iid"}, "zvc", false},
                   .size = size,
                   .sparsity = zeros,
                   .zeros = zeros,
                   .encode = seconds,
                   .decode = seconds,
                   .ratio = 4});
  };
  add(4096, .75);
  for (int i = 0; i < 21; ++i) add(64 << 20, .5 + i * .01);
  const ordered_json report = check(all, {.hold_out = .5, .gb_per_s = {1}});
  ASSERT_EQ(report.at("decisions").size(), 1u);
  EXPECT_EQ(report.at("decisions")[0].at("right"), 1);
}

}  // namespace
}  // namespace tuck::bench
