#include "examples/cli_fixture.hpp"

#include <tuck/frame/format.hpp>

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

namespace {

using namespace cli;

TEST_F(Cli, refuses_bad_arrays) {
  const auto reason = [&](const std::string& content) {
    scratch::write(in, content);
    return refusal({"encode", in, frame}, in);
  };
  EXPECT_EQ(reason(npy(dict("<f4", "(9,)"), "xx")), "truncated: 2 bytes of data are there and 36 are needed");
  EXPECT_EQ(reason(npy(dict("<f4", "(1,)"), "xxxxx")), "1 byte after the data, which need 4");
  EXPECT_EQ(reason(npy(dict(">f4", "(1,)"), "xxxx")), "unsupported dtype '>f4'; pass --as u8");
  EXPECT_EQ(reason(npy(dict("<V2", "(1,)"), "xx")), "unsupported dtype '<V2'; pass --as bf16 or u16");
  EXPECT_EQ(reason(npy(dict("<f1", "(1,)"), "x")), "unsupported dtype '<f1'; pass --as f8e4m3 or f8e5m2 or u8");
  EXPECT_EQ(reason(npy(dict("|O", "(1,)"), "xxxxxxxx")), "unsupported dtype '|O'");
  EXPECT_EQ(reason("garbage"), "not a .npy file");
  EXPECT_EQ(reason(npy(dict("<f4", "(4611686018427387904,)"), "")), "the shape is too large");
  EXPECT_EQ(dir.names(), arguments{"in.npy"});
}

TEST_F(Cli, refuses_bad_places) {
  make_small_frame();
  const std::string missing = dir / "none.npy", below_file = in + "/x", below_none = dir / "none/x", place = dir / ".";
  EXPECT_EQ(refusal({"encode", missing, out}, missing), "No such file or directory");
  EXPECT_EQ(refusal({"encode", place, out}, out),
            "a folder becomes a safetensors file, whose name must end in .safetensors");
  EXPECT_EQ(refusal({"decode", missing, out}, missing), "No such file or directory");
  EXPECT_EQ(refusal({"info", place}, place), "Is a directory");
  EXPECT_EQ(refusal({"verify", missing}, missing), "No such file or directory");
  EXPECT_EQ(refusal({"encode", in, place}, place), "Is a directory");
  EXPECT_EQ(refusal({"encode", in, below_file}, below_file), "Not a directory");
  EXPECT_EQ(refusal({"decode", frame, below_none}, below_none), "No such file or directory");
  EXPECT_EQ(refusal({"decode", frame, "/dev/full"}, "/dev/full"), "No space left on device");
  expect_unharmed();
}

// Other programs would take a frame for what its name says.
TEST_F(Cli, names_of_other_formats) {
  make_small_frame();
  const std::string npz = dir / "x.npz", other = dir / "y.npy";
  for (const arguments& words : {arguments{"encode", in, npz}, arguments{"decode", frame, npz}})
    EXPECT_EQ(refusal(words, npz), "the output is no .npz archive; choose another name");
  EXPECT_EQ(refusal({"encode", in, other}, other),
            "the output is a frame and no .npy file; choose another name, such as in .tuck");
  expect_unharmed();
  scratch::write(npz, scratch::read(frame));
  for (const arguments& words :
       {arguments{"decode", npz, out}, arguments{"info", npz}, arguments{"encode", npz, dir / "y.tuck"}})
    EXPECT_EQ(refusal(words, npz),
              "tuck takes no .npz archives; save each array as a .npy file, and encode these or their folder");
}

TEST_F(Cli, full_disk_leaves_nothing_behind) {
  make_small_frame();
  const std::string limited = "ulimit -f 1; exec \"$0\" \"$@\"";  // blocks of 512 or 1024 bytes
  const answer a = run_program({"/bin/sh", "-c", limited, TUCK_CLI, "decode", frame, out});
  EXPECT_EQ(a.code, 1);
  EXPECT_EQ(a.err.find("tuck: " + out + ": "), 0u) << a.err;
  expect_unharmed();
}

TEST_F(Cli, refuses_to_overwrite_its_input) {
  make_small_frame();
  const std::string before = scratch::read(in);
  EXPECT_EQ(refusal({"encode", in, in}, in), "input and output are the same file");
  std::filesystem::create_symlink("in.npy", dir / "link");
  EXPECT_EQ(refusal({"encode", in, dir / "link"}, dir / "link"), "input and output are the same file");
  EXPECT_EQ(refusal({"decode", frame, frame}, frame), "input and output are the same file");
  EXPECT_EQ(scratch::read(in), before);
}

TEST_F(Cli, refuses_what_is_no_frame) {
  make_small_frame();
  const std::string good = scratch::read(frame);
  const auto reason = [&](const std::string& content) {
    scratch::write(frame, content);
    const std::string first = refusal({"decode", frame, out}, frame);
    EXPECT_EQ(refusal({"verify", frame}, frame), first);
    EXPECT_EQ(refusal({"info", frame}, frame), first);
    expect_unharmed();
    return first;
  };
  EXPECT_EQ(reason("garbage"), message(tuck::status::bad_magic));
  EXPECT_EQ(reason(""), "the input is empty");
  EXPECT_EQ(reason(good.substr(0, 77)), "the frame is truncated: 77 bytes are there and at least 128 are needed");
  EXPECT_EQ(reason(good.substr(0, good.size() - 1)), "the frame is truncated: " + std::to_string(good.size() - 1) +
                                                         " bytes are there and " + std::to_string(good.size()) +
                                                         " are needed");
  EXPECT_EQ(reason(good + "abc"), "3 bytes after the frame");
  EXPECT_EQ(reason(good + "a"), "1 byte after the frame");
}

// Header, metadata, directory and checksums of the chunks.
TEST_F(Cli, every_flipped_byte_before_the_payloads_is_noticed) {
  make_small_frame();
  const std::string good = scratch::read(frame);
  tuck::frame_header header;
  std::memcpy(&header, good.data(), sizeof header);
  const uint64_t end = layout_of(header).contents_end;
  ASSERT_GT(end, sizeof header);
  for (size_t i = 0; i < end; ++i) {
    SCOPED_TRACE(i);
    std::string bad = good;
    bad[i] = static_cast<char>(~bad[i]);
    scratch::write(frame, bad);
    refusal({"decode", frame, out}, frame);
    refusal({"verify", frame}, frame);
  }
  expect_unharmed();
}

TEST_F(Cli, names_the_first_damaged_chunk) {
  make_small_frame();
  const nlohmann::json chunk = info_json()["chunks"][1];
  std::string bad = scratch::read(frame);
  bad[chunk["offset"].get<size_t>() + chunk["bytes"].get<size_t>() - 1] ^= 1;
  scratch::write(frame, bad);
  const std::string reason = "chunk 2 of 2: " + std::string(message(tuck::status::bad_checksum));
  EXPECT_EQ(refusal({"verify", frame}, frame), reason);
  EXPECT_EQ(refusal({"decode", frame, out}, frame), reason);
  expect_unharmed();
}

// A person presses Ctrl-C: the temporary file goes too. Where the program was quicker, its output is there.
TEST_F(Cli, an_interrupted_run_leaves_nothing_half_written) {
  scratch::write(in, npy(dict("<u4", "(16777216,)"), std::string(size_t{64} << 20, 'x')));
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::execl(TUCK_CLI, TUCK_CLI, "encode", "--chunk-values", "32", in.c_str(), frame.c_str(), nullptr);
      ::_exit(127);
    }
    while (dir.names().size() < 2 && ::waitpid(child, nullptr, WNOHANG) == 0) ::usleep(200);
    ::kill(child, signal);
    ::waitpid(child, nullptr, 0);
    for (const std::string& name : dir.names()) EXPECT_TRUE(name == "in.npy" || name == "x.tuck") << name;
    ::unlink(frame.c_str());
  }
}

TEST_F(Cli, usage_errors) {
  scratch::write(in, npy(dict("<f8", "(2,)"), sparse_data(16)));
  const uint32_t most = tuck::max_chunk_raw_bytes / sizeof(double);
  const arguments wrong[] = {{},
                             {"squash", in, frame},
                             {"encode"},
                             {"encode", in},
                             {"encode", in, frame, "more"},
                             {"encode", "--codec", "none", in, frame},
                             {"encode", "--on", "moon", in, frame},
                             {"encode", "--as", "f16", in, frame},
                             {"encode", "--chunk-values", "33", in, frame},
                             {"encode", "--chunk-values", "0", in, frame},
                             {"encode", "--chunk-values", "many", in, frame},
                             {"encode", "--chunk-values", "-32", in, frame},
                             {"encode", "--chunk-values", std::to_string(most + 32), in, frame},
                             {"encode", "--chunk-values", "4294967296", in, frame},
                             {"encode", "--threads", "-1", in, frame},
                             {"decode", "--json", frame, out},
                             {"info"},
                             {"verify", "--nonsense", frame}};
  for (const arguments& words : wrong) {
    const answer a = tuck_cli(words);
    EXPECT_EQ(a.code, 2) << testing::PrintToString(words);
    EXPECT_EQ(a.out, "");
    EXPECT_NE(a.err, "");
  }
  const auto complaint = [&](const arguments& words, const std::string& text) {
    EXPECT_EQ(tuck_cli(words).err, "tuck: " + text + "\n");
  };
  complaint({"squash", in, frame}, "unknown command 'squash'; see 'tuck --help'");
  complaint({}, "there is no command; see 'tuck --help'");
  complaint({"--squash"}, "unknown option '--squash'; see 'tuck --help'");
  complaint({"encode", "-x", "zvc", in, frame}, "unknown option '-x'; see 'tuck encode --help'");
  complaint({"encode", in, frame, "more"}, "one argument too many: 'more'; see 'tuck encode --help'");
  complaint({"info"}, "IN.tuck is required; see 'tuck info --help'");
  complaint({"decode", in, out, "--base"}, "--base needs a value; see 'tuck decode --help'");
  complaint({"encode", "--on", "host", "--on", "host", in, frame},
            "--on is given more than once; see 'tuck encode --help'");
  EXPECT_TRUE(tuck_cli({"encode", "-c", "zcv", in, frame}).err.starts_with("tuck: --codec: unknown codec 'zcv'"));
  EXPECT_TRUE(tuck_cli({"encode", "-c", "f32:zvc", in, frame})
                  .err.starts_with("tuck: --codec: unknown codec 'f32:zvc'; by type it is 'f32=zvc'; there are zvc,"));
  EXPECT_EQ(dir.names(), arguments{"in.npy"});
  expect_ok({"encode", "--chunk-values", std::to_string(most), in, frame});
}

TEST_F(Cli, full_standard_output_is_an_error) {
  make_small_frame();
  const answer a = run_program({"/bin/sh", "-c", "exec \"$0\" \"$@\" > /dev/full", TUCK_CLI, "info", frame});
  EXPECT_EQ(a.code, 1);
  EXPECT_EQ(a.err, "tuck: standard output: No space left on device\n");
}

// A line about what was done, after the file itself.
TEST_F(Cli, a_note_that_cannot_be_printed_is_an_error) {
  const std::string model = dir / "in.safetensors", packed = dir / "out.safetensors";
  scratch::write(model, safetensors("{" + described("n", "I64", "", 0, 8) + "}", "12345678"));
  const answer a = run_program({"/bin/sh", "-c", "exec \"$0\" \"$@\" > /dev/full", TUCK_CLI, "encode", model, packed});
  EXPECT_EQ(a.code, 1);
  EXPECT_EQ(a.err, "tuck: standard output: No space left on device\n");
  expect_ok({"verify", packed});
}

TEST_F(Cli, the_most_values_of_a_chunk_are_named) {
  scratch::write(in, npy(dict("<f8", "(2,)"), sparse_data(16)));
  const auto complaint = [&](const char* on, const char* values) {
    const answer a = tuck_cli({"encode", "--on", on, "--chunk-values", values, in, frame});
    EXPECT_EQ(a.code, 2);
    return a.err;
  };
  EXPECT_EQ(complaint("host", "8224"), "tuck: --chunk-values: at most 8192 for f64\n");
  EXPECT_EQ(complaint("device", "4096"), "tuck: --chunk-values: at most 2048 for f64 with --on device\n");
  expect_ok({"encode", "--on", "device", "--chunk-values", "2048", in, frame});
}

}  // namespace
