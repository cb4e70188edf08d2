// Runs `tuck` as its users do, as a process, and says what is expected of it.
#pragma once

#include "tools/scratch.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace cli {

using scratch::dict;
using scratch::npy;
using scratch::sparse_data;
using arguments = std::vector<std::string>;

struct answer {
  int code = -1;
  std::string out;
  std::string err;
};

inline answer run_program(arguments words) {
  const scratch::directory dir;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string out = dir / "out", err = dir / "err";
  constexpr int flags = O_WRONLY | O_CREAT | O_APPEND;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), flags, 0600);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed != 0 || ::waitpid(child, &status, 0) != child) throw std::runtime_error("cannot run " + words[0]);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), scratch::read(out), scratch::read(err)};
}

inline answer tuck_cli(arguments words) {
  words.insert(words.begin(), TUCK_CLI);
  return run_program(std::move(words));
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
