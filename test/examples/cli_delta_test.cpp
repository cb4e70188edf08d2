// Deltas by the program: encode and decode --base.
#include "examples/cli_fixture.hpp"

namespace {

using namespace cli;

class CliDelta : public Cli {
 protected:
  const std::string base = dir / "base.npy";

  // The base, and the array with a byte changed here and there.
  void write_two(const std::string& header, size_t bytes) {
    std::string data = sparse_data(bytes);
    scratch::write(base, npy(header, data));
    for (size_t i = 3; i < bytes; i += 257) data[i] = static_cast<char>(data[i] ^ 1);
    scratch::write(in, npy(header, data));
  }
};

TEST_F(CliDelta, every_size_of_value_comes_back_byte_for_byte) {
  for (const auto& [descr, size] : {std::pair<const char*, size_t>{"|u1", 1}, {"<f2", 2}, {"<f4", 4}, {"<i8", 8}}) {
    SCOPED_TRACE(descr);
    write_two(dict(descr, "(3, 30001)"), 3 * 30001 * size);
    for (const arguments& codec : {arguments{}, arguments{"--codec", "rle"}}) {
      arguments words{"encode", "--base", base, in, frame};
      words.insert(words.end(), codec.begin(), codec.end());
      expect_ok(words);
      expect_ok({"decode", "--base", base, frame, out});
      EXPECT_EQ(scratch::read(out), scratch::read(in));
    }
    expect_ok({"encode", "--base", base, in, frame});
    EXPECT_LT(scratch::read(frame).size(), 3 * 30001 * size / 20);
  }
  EXPECT_NE(tuck_cli({"info", frame}).out.find("against a base of digest"), std::string::npos);
  const auto about = nlohmann::json::parse(tuck_cli({"info", "--json", frame}).out);
  EXPECT_EQ(about["codec"], "zvc+huffman");  // of integers
  EXPECT_EQ(about["base_digest"].get<std::string>().size(), 16u);
  EXPECT_EQ(about["checksums"], true);
}

TEST_F(CliDelta, bf16) {
  write_two(dict("<u2", "(5000,)"), 10000);
  expect_ok({"encode", "--as", "bf16", "--base", base, in, frame});
  expect_ok({"decode", "--base", base, frame, out});
  EXPECT_EQ(scratch::read(out), scratch::read(in));
  EXPECT_EQ(nlohmann::json::parse(tuck_cli({"info", "--json", frame}).out)["codec"], "steps");
}

TEST_F(CliDelta, the_wrong_base_is_refused_and_nothing_is_written) {
  write_two(dict("<f4", "(5000,)"), 20000);
  expect_ok({"encode", "--base", base, in, frame});
  EXPECT_EQ(refusal({"decode", frame, out}, frame), "the frame is a delta and needs its base: pass it with --base");
  EXPECT_EQ(refusal({"decode", "--base", in, frame, out}, in),
            "the base is not the tensor that the delta was made against");
  EXPECT_EQ(refusal({"verify", frame}, frame), "the frame is a delta and needs its base: decode --base verifies both");
  const std::string short_one = dir / "short.npy";
  scratch::write(short_one, npy(dict("<f4", "(10,)"), sparse_data(40)));
  EXPECT_EQ(refusal({"decode", "--base", short_one, frame, out}, short_one),
            "the base has 40 bytes of values, the delta needs 20000");
  EXPECT_EQ(refusal({"encode", "--base", short_one, in, frame}, short_one), "the base is f32 10, the array f32 5000");
  scratch::write(short_one, npy(dict("<u4", "(50, 100)"), sparse_data(20000)));
  EXPECT_EQ(refusal({"decode", "--base", short_one, frame, out}, short_one),
            "the base is u32 50x100, the delta restores f32 5000");
  EXPECT_EQ(refusal({"encode", "--base", base, in, base}, base), "base and output are the same file");
  EXPECT_EQ(dir.names(), (arguments{"base.npy", "in.npy", "short.npy", "x.tuck"}));
  expect_ok({"encode", in, frame});
  EXPECT_EQ(refusal({"decode", "--base", base, frame, out}, frame), "the frame is not a delta and takes no --base");
  scratch::write(in, npy(dict("<u2", "(10,)"), sparse_data(20)));
  scratch::write(base, npy(dict("<V2", "(5,)"), sparse_data(10)));
  EXPECT_EQ(refusal({"encode", "--as", "bf16", "--base", base, in, frame}, base),
            "the base is bf16 5, the array bf16 10");
  scratch::write(base, npy(dict("<f2", "(10,)"), sparse_data(20)));
  EXPECT_EQ(refusal({"encode", "--as", "bf16", "--base", base, in, frame}, base),
            "--as bf16 takes 16-bit integers, not f16");
}

TEST_F(CliDelta, deltas_in_a_row_become_one) {
  std::vector<std::string> arrays, deltas;
  std::string data = sparse_data(40000);
  for (int i = 0; i < 4; ++i) {
    arrays.push_back(dir / ("step" + std::to_string(i) + ".npy"));
    scratch::write(arrays.back(), npy(dict("<f4", "(100, 100)"), data));
    data[static_cast<size_t>(i * 1000 + 7)] ^= 1;
    if (i == 0) continue;
    deltas.push_back(dir / ("delta" + std::to_string(i) + ".tuck"));
    expect_ok({"encode", "--base", arrays[static_cast<size_t>(i) - 1], arrays.back(), deltas.back()});
  }
  expect_ok({"encode", "--base", arrays[0], arrays[3], frame});
  const std::string all = dir / "all.tuck";
  const auto compact = [&](arguments words) {
    words.insert(words.begin(), {"compact", "--base", arrays[0]});
    return words;
  };
  expect_ok(compact({deltas[0], deltas[1], deltas[2], all}));
  EXPECT_EQ(scratch::read(all), scratch::read(frame));
  expect_ok({"decode", "--base", arrays[0], all, out});
  EXPECT_EQ(scratch::read(out), scratch::read(arrays[3]));
  EXPECT_EQ(refusal(compact({deltas[0], deltas[2], out}), deltas[2]),
            "the base of the delta is not the result of the delta before it");
  EXPECT_EQ(refusal(compact({deltas[1], deltas[2], out}), arrays[0]),
            "the base is not the tensor that the delta was made against");
  expect_ok({"encode", arrays[0], frame});
  EXPECT_EQ(refusal(compact({deltas[0], frame, out}), frame), "the frame is not a delta");
  const auto of = [&](const std::string& delta) {
    return nlohmann::json::parse(tuck_cli({"info", "--json", delta}).out);
  };
  EXPECT_EQ(of(deltas[0])["result_digest"], of(deltas[1])["base_digest"]);
  EXPECT_EQ(tuck_cli(compact({deltas[0]})).code, 2);
  EXPECT_EQ(tuck_cli({"compact", deltas[0], deltas[1], out}).code, 2);
}

TEST_F(CliDelta, device_and_host_make_the_same_deltas) {
  for (const auto& [descr, size] : {std::pair<const char*, size_t>{"|u1", 1}, {"<f2", 2}, {"<f4", 4}, {"<i8", 8}})
    for (const char* codec : {"rle", "steps", "zvc", "zvc+huffman"}) {
      if (codec == std::string("steps") && (descr == std::string("|u1") || size == 8)) continue;  // takes floats
      SCOPED_TRACE(std::string(codec) + ' ' + descr);
      write_two(dict(descr, "(3, 3001)"), 3 * 3001 * size);
      expect_ok({"encode", "--base", base, "--codec", codec, in, frame});
      const std::string of_the_host = scratch::read(frame);
      expect_ok({"encode", "--base", base, "--codec", codec, "--on", "device", in, frame});
      EXPECT_EQ(scratch::read(frame), of_the_host);
      scratch::write(out, "");
      expect_ok({"decode", "--base", base, "--on", "device", frame, out});
      EXPECT_EQ(scratch::read(out), scratch::read(in));
    }
  EXPECT_EQ(refusal({"decode", "--base", in, "--on", "device", frame, out}, in),
            "the base is not the tensor that the delta was made against");
  // By default, chunks of the host are larger than those that the device takes.
  expect_ok({"encode", "--base", base, "--on", "device", in, frame});
  expect_ok({"decode", "--base", base, frame, out});
  EXPECT_EQ(scratch::read(out), scratch::read(in));
  expect_ok({"encode", "--base", base, "--codec", "huffman", in, frame});
  EXPECT_EQ(refusal({"decode", "--base", base, "--on", "device", frame, out}, frame),
            "--on device decodes no deltas of huffman; pass --on host");
  expect_ok({"encode", "--base", base, in, frame});
  EXPECT_EQ(refusal({"decode", "--base", base, "--on", "device", frame, out}, frame),
            "the device codec does not support chunks of this size");
}

TEST_F(CliDelta, usage_errors) {
  write_two(dict("<f4", "(5000,)"), 20000);
  for (const arguments& words : {arguments{"encode", "--base", base, "--codec", "quantize", in, frame},
                                 arguments{"encode", "--base", base, "--on", "device", "--codec", "huffman", in, frame},
                                 arguments{"encode", "--base", base, "--no-checksums", in, frame}})
    EXPECT_EQ(tuck_cli(words).code, 2);
}

}  // namespace
