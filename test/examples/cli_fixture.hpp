// Runs `tuck` as its users do, as a process, and says what is expected of it.
#pragma once

#include "support/run_program.hpp"
#include "support/scratch.hpp"

#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace cli {

using scratch::dict;
using scratch::npy;
using scratch::sparse_data;

inline answer tuck_cli(arguments words) {
  words.insert(words.begin(), TUCK_CLI);
  return run_program(std::move(words));
}

// The same with the content of a file as standard input, and its output as it comes.
inline answer tuck_cli_reading(const std::string& file, arguments words) {
  words.insert(words.begin(), {"/bin/sh", "-c", "file=$1; shift; exec \"$0\" \"$@\" < \"$file\"", TUCK_CLI, file});
  return run_program(std::move(words));
}

inline std::string safetensors(const std::string& json, const std::string& data) {
  std::string content;
  for (int i = 0; i < 8; ++i) content += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return content + json + data;
}

inline std::string described(const std::string& name, const std::string& dtype, const std::string& shape, size_t begin,
                             size_t end) {
  return "\"" + name + "\": {\"dtype\": \"" + dtype + "\", \"shape\": [" + shape + "], \"data_offsets\": [" +
         std::to_string(begin) + ", " + std::to_string(end) + "]}";
}

// Bytes without zeros or repetition, which no codec makes smaller.
inline std::string dense_data(size_t size) {
  std::string data(size, '\0');
  uint64_t state = 1;
  for (char& byte : data) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(state >> 56 | 1);
  }
  return data;
}

class Cli : public testing::Test {
 protected:
  scratch::directory dir;
  const std::string in = dir / "in.npy";
  const std::string frame = dir / "x.tuck";
  const std::string out = dir / "out.npy";

  void expect_ok(const arguments& words) {
    const answer a = tuck_cli(words);
    EXPECT_EQ(a.code, 0) << a.err;
    EXPECT_EQ(a.err, "");
  }

  // Exit code 1, one line about `file`; returns its reason.
  std::string refusal(const arguments& words, const std::string& file) {
    const answer a = tuck_cli(words);
    EXPECT_EQ(a.code, 1) << a.err;
    EXPECT_EQ(a.out, "");
    EXPECT_EQ(std::count(a.err.begin(), a.err.end(), '\n'), 1) << a.err;
    const std::string begin = "tuck: " + file + ": ";
    EXPECT_TRUE(a.err.starts_with(begin)) << a.err;
    return a.err.size() > begin.size() ? a.err.substr(begin.size(), a.err.size() - begin.size() - 1) : "";
  }

  void expect_round_trip(const std::string& content, const arguments& options = {}) {
    scratch::write(in, content);
    arguments words{"encode", in, frame};
    words.insert(words.end(), options.begin(), options.end());
    expect_ok(words);
    expect_ok({"verify", frame});
    expect_ok({"decode", frame, out});
    EXPECT_EQ(scratch::read(out), content);
  }

  // A frame of 3000 values in two chunks, and an output file that is not to be harmed.
  void make_small_frame() {
    scratch::write(in, npy(dict("<u2", "(3000,)"), sparse_data(6000)));
    expect_ok({"encode", in, frame, "--chunk-values", "2048"});
    scratch::write(out, "precious");
  }
  void expect_unharmed() {
    EXPECT_EQ(scratch::read(out), "precious");
    EXPECT_EQ(dir.names(), (arguments{"in.npy", "out.npy", "x.tuck"}));
  }

  nlohmann::json info_json() {
    const answer a = tuck_cli({"info", "--json", frame});
    EXPECT_EQ(a.code, 0) << a.err;
    return nlohmann::json::parse(a.out);
  }
};

}  // namespace cli
