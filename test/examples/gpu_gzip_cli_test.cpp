#include "examples/gpu_gzip_support.hpp"
#include "support/run_program.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>

namespace {

using cli::answer;
using cli::arguments;
using gzip_test::text_like;

answer gpu_gzip_program(arguments words) {
  words.insert(words.begin(), TUCK_GPU_GZIP);
  return cli::run_program(std::move(words));
}

class GpuGzipCli : public testing::Test {
 protected:
  scratch::directory dir;
  const std::string in = dir / "in";
  const std::string file = dir / "x.gz";
  const std::string out = dir / "out";

  void expect_ok(const arguments& words) {
    const answer a = gpu_gzip_program(words);
    EXPECT_EQ(a.code, 0) << a.err;
    EXPECT_EQ(a.out + a.err, "");
  }

  // Exit code 1, one line about `about`; returns its reason.
  std::string refusal(const arguments& words, const std::string& about) {
    const answer a = gpu_gzip_program(words);
    EXPECT_EQ(a.code, 1) << a.err;
    EXPECT_EQ(a.out, "");
    EXPECT_EQ(std::count(a.err.begin(), a.err.end(), '\n'), 1) << a.err;
    const std::string begin = "gpu_gzip: " + about + ": ";
    EXPECT_TRUE(a.err.starts_with(begin)) << a.err;
    return a.err.size() > begin.size() ? a.err.substr(begin.size(), a.err.size() - begin.size() - 1) : "";
  }

  // A good file, and an output that is not to be harmed.
  void make_file() {
    scratch::write(in, text_like(100000));
    expect_ok({"--on", "host", in, file});
    scratch::write(out, "precious");
  }
  void expect_unharmed() {
    EXPECT_EQ(scratch::read(out), "precious");
    EXPECT_EQ(dir.names(), (arguments{"in", "out", "x.gz"}));
  }
};

TEST_F(GpuGzipCli, there_and_back) {
  for (const std::string& text : {std::string(), text_like(150000)}) {
    scratch::write(in, text);
    expect_ok({in, file});
    expect_ok({"-d", file, out});
    EXPECT_TRUE(scratch::read(out) == text);
    expect_ok({"--on", "host", in, dir / "by_host.gz"});
    EXPECT_TRUE(scratch::read(dir / "by_host.gz") == scratch::read(file));
    expect_ok({"--on", "host", "--decompress", file, out});
    EXPECT_TRUE(scratch::read(out) == text);
  }
}

// More than the batch of the program.
TEST_F(GpuGzipCli, many_members) {
  const std::string text(size_t{70} << 20, 'x');
  scratch::write(in, text);
  expect_ok({"--on", "host", in, file});
  expect_ok({"--on", "host", "-d", file, out});
  EXPECT_TRUE(scratch::read(out) == text);
}

TEST_F(GpuGzipCli, replaces_an_output_and_keeps_its_mode) {
  make_file();
  ASSERT_EQ(::chmod(out.c_str(), 0640), 0);
  expect_ok({"--on", "host", "-d", file, out});
  EXPECT_TRUE(scratch::read(out) == scratch::read(in));
  struct stat status;
  ASSERT_EQ(::stat(out.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(GpuGzipCli, names_the_file_and_what_is_wrong_with_it) {
  make_file();
  const std::string good = scratch::read(file);
  for (const char* where : {"host", "device"}) {
    const auto reason = [&](const std::string& content) {
      scratch::write(file, content);
      const std::string why = refusal({"--on", where, "-d", file, out}, file);
      expect_unharmed();
      return why;
    };
    EXPECT_EQ(reason("garbage"), "not a gzip file");
    EXPECT_EQ(reason(good.substr(0, good.size() - 28)),
              "the end is missing: after its last member comes none of BGZF's that mark it");
    std::string bad = good;
    bad[good.size() - 28 - 8] ^= 1;
    EXPECT_NE(reason(bad).find(", at byte "), std::string::npos) << reason(bad);
    EXPECT_NE(reason(bad).find(": the CRC-32 is wrong"), std::string::npos);
  }
}

TEST_F(GpuGzipCli, refuses_bad_places) {
  make_file();
  const std::string none = dir / "none", below_none = dir / "none/x", here = dir / ".";
  EXPECT_EQ(refusal({none, out}, none), "No such file or directory");
  EXPECT_EQ(refusal({here, out}, here), "Is a directory");
  EXPECT_EQ(refusal({"/dev/null", out}, "/dev/null"), "not a regular file");
  EXPECT_EQ(refusal({in, here}, here), "Is a directory");
  EXPECT_EQ(refusal({in, below_none}, below_none), "No such file or directory");
  EXPECT_EQ(refusal({"--on", "host", in, "/dev/full"}, "/dev/full"), "No space left on device");
  EXPECT_EQ(refusal({in, in}, in), "input and output are the same file");
  expect_unharmed();
}

TEST_F(GpuGzipCli, full_disk_leaves_nothing_behind) {
  make_file();
  const std::string limited = "ulimit -f 1; exec \"$0\" \"$@\"";  // blocks of 512 or 1024 bytes
  const answer a = cli::run_program({"/bin/sh", "-c", limited, TUCK_GPU_GZIP, "--on", "host", "-d", file, out});
  EXPECT_EQ(a.code, 1);
  EXPECT_EQ(a.err.find("gpu_gzip: " + out + ": "), 0u) << a.err;
  expect_unharmed();
}

TEST_F(GpuGzipCli, usage_errors) {
  scratch::write(in, "x");
  for (const arguments& words :
       {arguments{}, {in}, {in, file, "more"}, {"--on", "moon", in, file}, {"--level", "9", in, file}}) {
    const answer a = gpu_gzip_program(words);
    EXPECT_EQ(a.code, 2) << testing::PrintToString(words);
    EXPECT_EQ(a.out, "");
    EXPECT_NE(a.err, "");
  }
  EXPECT_EQ(dir.names(), arguments{"in"});
  EXPECT_EQ(gpu_gzip_program({"--help"}).code, 0);
}

}  // namespace
