// How programs and their readers of files say no.
#pragma once

#include "support/files.hpp"
#include "support/run_program.hpp"
#include "support/scratch.hpp"

#include <gtest/gtest.h>

namespace tuck::bench {

// A file that tests write, in a folder of its own.
class files_test : public ::testing::Test {
 protected:
  // Why read(path) refuses that content; the reason is told of this file.
  template <class Read> std::string refusal(const std::string& content, const Read& read) const {
    scratch::write(path, content);
    try {
      read(path);
    } catch (const std::runtime_error& error) {
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with(path + ": ")) << text;
      return text.substr(std::min(text.size(), path.size() + 2));
    }
    return "it is not refused";
  }

  scratch::directory dir;
  const std::string path = dir / "file.json";
};

// A program ends with that code, and says on stderr something with `word` in it.
inline void expect_refusal(const cli::arguments& words, int code, const std::string& word) {
  const cli::answer a = cli::run_program(words);
  EXPECT_EQ(a.code, code) << a.err;
  EXPECT_EQ(a.out, "");
  EXPECT_NE(a.err.find(word), std::string::npos) << a.err;
}

}  // namespace tuck::bench
