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
  for (const char* codec : {"zvc", "rle", "deflate", "bitpack"})
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

// By the shape, by a number that divides nothing, and by one that is longer than a chunk.
TEST_F(Cli, rows_are_as_long_as_the_shape_says_or_the_option) {
  std::string rows = sparse_data(4 * 100);
  while (rows.size() < 4 * 100 * 100) rows += rows.substr(0, 4 * 100);
  const auto size = [&](const std::string& shape, const arguments& options, const std::string& descr = "<f4") {
    expect_round_trip(npy(dict(descr, shape), rows), options);
    EXPECT_EQ(info_json()["codec"], "rows+zvc+huffman");
    const std::string of_the_host = scratch::read(frame);
    arguments words{"encode", "--on", "device", in, frame};
    words.insert(words.end(), options.begin(), options.end());
    expect_ok(words);
    EXPECT_EQ(scratch::read(frame), of_the_host);
    return of_the_host.size();
  };
  const auto by_shape = size("(2, 50, 100)", {"--row", "auto"});
  EXPECT_EQ(info_json()["row"], 100);
  EXPECT_NE(tuck_cli({"info", frame}).out.find("\nrow          100 values\n"), std::string::npos);
  EXPECT_EQ(size("(2, 50, 100)", {"--codec", "rows+zvc+huffman"}), by_shape);
  EXPECT_EQ(size("(10000,)", {"--codec", "*=rows+zvc+huffman", "--row", "100"}), by_shape);
  EXPECT_EQ(size("(200, 100)", {"--row", "auto"}, "<u2"), size("(200, 100)", {"--row", "100"}, "<u2"));
  const auto longer = size("(10000,)", {"--row", "auto"});
  EXPECT_EQ(info_json()["row"], 10000);
  EXPECT_EQ(size("(10000,)", {"--row", "4294967295"}), longer);
  EXPECT_LT(by_shape, longer / 4);
  EXPECT_LT(size("(100, 100)", {"--row", "200"}), longer / 2);
  EXPECT_GE(size("(100, 100)", {"--row", "103"}), longer);
}

TEST_F(Cli, rows_that_are_none_are_bad_usage) {
  scratch::write(in, npy(dict("<f4", "(1000,)"), sparse_data(4000)));
  for (const char* row : {"0", "-1", "1x", "", "4294967296", "shape"}) {
    const answer a = tuck_cli({"encode", "--row", row, in, frame});
    EXPECT_EQ(a.code, 2) << row;
    EXPECT_NE(a.err.find("--row: must be auto, or a number that is not 0 and below 2^32"), std::string::npos) << a.err;
  }
  const answer a = tuck_cli({"encode", "--row", "8", "--codec", "zvc", in, frame});
  EXPECT_EQ(a.code, 2);
  EXPECT_EQ(a.err, "tuck: --row needs --codec rows+zvc+huffman; zvc has no rows\n");
  EXPECT_EQ(dir.names(), arguments{"in.npy"});
  for (const auto& [shape, bytes] : {std::pair{"()", 4}, std::pair{"(0, 3)", 0}, std::pair{"(3, 0)", 0}})
    expect_round_trip(npy(dict("<f4", shape), std::string(static_cast<size_t>(bytes), 'x')), {"--row", "auto"});
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
  const auto of_the_range = errors({"--error-bound", "1e-3"});
  EXPECT_LE(of_the_range["max_absolute_error"], 6e-3);
  EXPECT_GT(of_the_range["max_absolute_error"], 3e-3);
  EXPECT_EQ(info_json()["error_bound"]["mode"], "range");
  EXPECT_EQ(info_json()["error_bound"]["value"], 1e-3);
  EXPECT_NEAR(info_json()["error_bound"]["effective"].get<double>(), 6e-3, 1e-5);
  EXPECT_NE(tuck_cli({"info", frame}).out.find("0.001 of the range of values"), std::string::npos);
}

TEST_F(Cli, quantize_takes_floats_only) {
  for (const auto& [descr, type] : {std::pair{"<i4", "i32"}, {"|u1", "u8"}, {"<u2", "u16"}}) {
    scratch::write(in, npy(dict(descr, "(4,)"), std::string(4 * static_cast<size_t>(descr[2] - '0'), 'x')));
    EXPECT_EQ(refusal({"encode", "--codec", "quantize", "--error-bound", "1", in, frame}, in),
              std::string("quantize takes f16, bf16, f32, f64, not ") + type);
  }
  expect_ok({"encode", "--codec", "quantize", "--error-bound", "1", "--as", "bf16", in, frame});
  EXPECT_EQ(info_json()["dtype"], "bf16");
  EXPECT_EQ(dir.names(), (arguments{"in.npy", "x.tuck"}));
}

TEST_F(Cli, quantize_without_values_or_a_range) {
  for (const std::string& content : {npy(dict("<f4", "(0, 3)"), ""), npy(dict("<f8", "()"), sparse_data(16).substr(8)),
                                     npy(dict("<f4", "(500,)"), std::string(2000, 'a'))})
    expect_round_trip(content, {"--codec", "quantize", "--error-bound", "1e-3"});
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
  for (const arguments& options : {arguments{"--codec", "quantize"}, {"--codec", "quantize", "--bound", "absolute"}})
    EXPECT_EQ(complaint(options),
              "tuck: --codec quantize needs --error-bound E, with --bound absolute, range or pointwise\n");
  EXPECT_TRUE(
      complaint({"--codec", "f32=quantize+delta+zvc+huffman"}).starts_with("tuck: --codec quantize+delta+zvc+"));
  EXPECT_NE(complaint({"--codec", "quantize", "--bound", "relative"}).find("--bound: "), std::string::npos);
  EXPECT_EQ(complaint({"--error-bound", "1"}),
            "tuck: --error-bound and --bound need --codec quantize or a chain with it; zvc is lossless\n");
  EXPECT_EQ(complaint({"--codec", "rle", "--bound", "range"}),
            "tuck: --error-bound and --bound need --codec quantize or a chain with it; rle is lossless\n");
  EXPECT_EQ(dir.names(), arguments{"in.npy"});
}

}  // namespace
