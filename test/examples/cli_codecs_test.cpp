// The codecs by their names, and the options of the lossy one.
#include "examples/cli_fixture.hpp"

#include <cmath>
#include <cstring>

namespace {

using namespace cli;

// Values of a sine, with a zero, a negative zero, a NaN and an infinity.
std::string wave(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = 3 * std::sin(static_cast<float>(i) * .01f);
  values[5] = 0;
  values[6] = -0.f;
  values[7] = NAN;
  values[8] = INFINITY;
  return {reinterpret_cast<const char*>(values.data()), 4 * count};
}

TEST_F(Cli, every_lossless_codec_gives_the_file_back) {
  for (const char* codec : {"zvc", "rle", "rle-zero", "deflate", "bitpack"})
    for (const char* descr : {"|u1", "<i2", "<f4", "<u8"}) {
      SCOPED_TRACE(std::string(codec) + ' ' + descr);
      expect_round_trip(npy(dict(descr, "(3, 3001)"), sparse_data(3 * 3001 * static_cast<size_t>(descr[2] - '0'))),
                        {"--codec", codec});
      EXPECT_EQ(info_json()["codec"], codec);
      const std::string of_the_host = scratch::read(frame);
      expect_ok({"encode", "--codec", codec, "--on", "device", in, frame});
      EXPECT_EQ(scratch::read(frame), of_the_host);
    }
}

TEST_F(Cli, chains_go_by_the_names_of_their_stages) {
  for (const auto& [codec, descr] :
       {std::pair{"zvc+huffman", "<f4"}, std::pair{"huffman", "<f2"}, std::pair{"delta+rle+bitpack", "<i8"}}) {
    SCOPED_TRACE(codec);
    expect_round_trip(npy(dict(descr, "(3, 3001)"), sparse_data(3 * 3001 * static_cast<size_t>(descr[2] - '0'))),
                      {"--codec", codec});
    EXPECT_EQ(info_json()["codec"], codec);
    const std::string of_the_host = scratch::read(frame);
    expect_ok({"encode", "--codec", codec, "--on", "device", in, frame});
    EXPECT_EQ(scratch::read(frame), of_the_host);
  }
}

class Quantizing : public Cli, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(alone_and_in_chains, Quantizing, ::testing::Values("quantize", "quantize+delta+zvc+huffman"));

TEST_P(Quantizing, keeps_its_bound_in_every_mode) {
  const std::string content = npy(dict("<f4", "(100, 100)"), wave(10000));
  scratch::write(in, content);
  const auto errors = [&](const arguments& options) {
    arguments words{"encode", "--codec", GetParam(), in, frame};
    words.insert(words.end(), options.begin(), options.end());
    expect_ok(words);
    const std::string of_the_host = scratch::read(frame);
    words.insert(words.end(), {"--on", "device"});
    expect_ok(words);
    EXPECT_EQ(scratch::read(frame), of_the_host);
    expect_ok({"verify", frame});
    expect_ok({"decode", frame, out});
    const std::string restored = scratch::read(out);
    const size_t special = content.size() - 40000 + 20;
    EXPECT_EQ(restored.substr(0, content.size() - 40000), content.substr(0, content.size() - 40000));
    // Zeros of both signs, which lose it, a NaN and an infinity.
    EXPECT_EQ(restored.substr(special, 8), std::string(8, '\0'));
    EXPECT_EQ(restored.substr(special + 8, 8), content.substr(special + 8, 8));
    return nlohmann::json::parse(tuck_cli({"compare", "--json", in, out}).out);
  };
  const auto absolute = errors({"--error-bound", "1e-3", "--bound", "absolute"});
  EXPECT_LE(absolute["max_absolute_error"], 1e-3);
  EXPECT_GT(absolute["max_absolute_error"], 5e-4);
  EXPECT_EQ(info_json()["error_bound"], (nlohmann::json{{"mode", "absolute"}, {"value", 1e-3}, {"effective", 1e-3}}));
  const auto pointwise = errors({"--error-bound", "1e-2", "--bound", "pointwise"});
  EXPECT_LE(pointwise["max_relative_error"], 1e-2);
  EXPECT_EQ(info_json()["error_bound"]["mode"], "pointwise");
  const auto by_default = errors({});
  EXPECT_LE(by_default["max_absolute_error"], 6e-3);
  EXPECT_GT(by_default["max_absolute_error"], 3e-3);
  EXPECT_EQ(info_json()["error_bound"]["mode"], "range");
  EXPECT_EQ(info_json()["error_bound"]["value"], 1e-3);
  EXPECT_NEAR(info_json()["error_bound"]["effective"].get<double>(), 6e-3, 1e-5);
  EXPECT_NE(tuck_cli({"info", frame}).out.find("0.001 of the range of values"), std::string::npos);
}

TEST_F(Cli, quantize_takes_floats_only) {
  for (const auto& [descr, type] : {std::pair{"<i4", "i32"}, {"|u1", "u8"}, {"<u2", "u16"}}) {
    scratch::write(in, npy(dict(descr, "(4,)"), std::string(4 * static_cast<size_t>(descr[2] - '0'), 'x')));
    EXPECT_EQ(refusal({"encode", "--codec", "quantize", in, frame}, in),
              std::string("quantize takes f16, bf16, f32, f64, not ") + type);
  }
  expect_ok({"encode", "--codec", "quantize", "--as", "bf16", in, frame});
  EXPECT_EQ(info_json()["dtype"], "bf16");
  EXPECT_EQ(dir.names(), (arguments{"in.npy", "x.tuck"}));
}

TEST_F(Cli, quantize_without_values_or_a_range) {
  for (const std::string& content : {npy(dict("<f4", "(0, 3)"), ""), npy(dict("<f8", "()"), sparse_data(16).substr(8)),
                                     npy(dict("<f4", "(500,)"), std::string(2000, 'a'))})
    expect_round_trip(content, {"--codec", "quantize"});
  EXPECT_EQ(info_json()["error_bound"]["effective"], 0);
  EXPECT_NE(tuck_cli({"info", frame}).out.find("nothing is lost"), std::string::npos);
}

TEST_F(Cli, bounds_that_are_none_are_bad_usage) {
  scratch::write(in, npy(dict("<f4", "(1000,)"), sparse_data(4000)));
  const auto complaint = [&](const arguments& options) {
    arguments words{"encode", in, frame};
    words.insert(words.end(), options.begin(), options.end());
    const answer a = tuck_cli(words);
    EXPECT_EQ(a.code, 2);
    EXPECT_EQ(a.out, "");
    return a.err;
  };
  for (const char* bound : {"0", "-1", "nan", "inf", "1e-3x", "", " 1", "1e400", "1e-400"})
    EXPECT_NE(complaint({"--codec", "quantize", "--error-bound", bound}).find("--error-bound: "), std::string::npos)
        << bound;
  EXPECT_NE(complaint({"--codec", "quantize", "--bound", "relative"}).find("--bound: "), std::string::npos);
  EXPECT_EQ(complaint({"--error-bound", "1"}),
            "tuck: --error-bound and --bound need --codec quantize or a chain with it; zvc is lossless\n");
  EXPECT_EQ(complaint({"--codec", "rle", "--bound", "range"}),
            "tuck: --error-bound and --bound need --codec quantize or a chain with it; rle is lossless\n");
  EXPECT_EQ(dir.names(), arguments{"in.npy"});
}

}  // namespace
