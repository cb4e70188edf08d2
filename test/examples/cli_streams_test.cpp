// "-" as a file: standard input and standard output.
#include "examples/cli_fixture.hpp"

namespace {

using namespace cli;

class CliStreams : public Cli {
 protected:
  const std::string model = dir / "model.safetensors", packed = dir / "packed.safetensors",
                    back = dir / "back.safetensors";

  answer of_shell(const std::string& script, const arguments& words) {
    arguments all{"/bin/sh", "-c", script, TUCK_CLI};
    all.insert(all.end(), words.begin(), words.end());
    return run_program(std::move(all));
  }
  void write_model() {
    scratch::write(model, safetensors("{" + described("w", "F32", "3000", 0, 12000) + "}", sparse_data(12000)));
  }
};

TEST_F(CliStreams, arrays) {
  scratch::write(in, npy(dict("<f4", "(300, 100)"), sparse_data(120000)));
  expect_ok({"encode", in, frame});
  const answer encoded = tuck_cli_reading(in, {"encode", "-", "-"});
  EXPECT_EQ(encoded.code, 0) << encoded.err;
  EXPECT_EQ(encoded.err, "");
  EXPECT_EQ(encoded.out, scratch::read(frame));
  EXPECT_EQ(tuck_cli({"encode", in, "-"}).out, scratch::read(frame));
  EXPECT_EQ(tuck_cli_reading(frame, {"decode", "-", "-"}).out, scratch::read(in));
  EXPECT_EQ(tuck_cli_reading(frame, {"decode", "-", out}).out, "");
  EXPECT_EQ(scratch::read(out), scratch::read(in));
  EXPECT_EQ(tuck_cli_reading(frame, {"verify", "-"}).out,
            "standard input: ok, 30000 values in 8 chunks, checksums verified\n");
  EXPECT_EQ(tuck_cli_reading(frame, {"info", "--json", "-"}).out, tuck_cli({"info", "--json", frame}).out);
  EXPECT_EQ(tuck_cli_reading(in, {"compare", out, "-"}).code, 0);
  EXPECT_EQ(tuck_cli_reading(in, {"compare", "-", out}).out.substr(0, 38), "reference              standard input\n");
  // By a pipe, in pieces of any size.
  EXPECT_EQ(of_shell("cat \"$1\" | \"$0\" encode - - | \"$0\" decode - -", {in}).out, scratch::read(in));
}

TEST_F(CliStreams, safetensors_files) {
  write_model();
  expect_ok({"encode", model, packed});
  EXPECT_EQ(tuck_cli_reading(model, {"encode", "-", "-"}).out, scratch::read(packed));
  EXPECT_EQ(tuck_cli_reading(packed, {"decode", "-", "-"}).out, scratch::read(model));
  EXPECT_EQ(tuck_cli_reading(packed, {"verify", "-"}).code, 0);
  EXPECT_EQ(tuck_cli_reading(packed, {"info", "--json", "-"}).out, tuck_cli({"info", "--json", packed}).out);
  EXPECT_EQ(tuck_cli_reading(model, {"compare", model, "-"}).code, 0);
  const answer misnamed = tuck_cli_reading(model, {"encode", "-", out});
  EXPECT_EQ(misnamed.code, 1);
  EXPECT_EQ(misnamed.err,
            "tuck: " + out + ": the output is a safetensors file, and its name must end in .safetensors\n");
  // Lines for people do not go where the file goes.
  scratch::write(model, safetensors("{" + described("n", "I64", "", 0, 8) + "}", "12345678"));
  const answer noted = tuck_cli_reading(model, {"encode", "--codec", "codebooks", "-", "-"});
  EXPECT_NE(noted.err.find("tuck: standard input: stored raw"), std::string::npos);
  EXPECT_EQ(noted.out.find("stored raw"), std::string::npos);
  scratch::write(packed, noted.out);
  expect_ok({"decode", packed, back});
  EXPECT_EQ(scratch::read(back), scratch::read(model));
}

// Whatever the name. Pipes have names too, such as those of <(command).
TEST_F(CliStreams, safetensors_files_by_their_content) {
  write_model();
  expect_ok({"encode", model, packed});
  const std::string other = dir / "model.bin", frames = dir / "packed.bin", empty = dir / "empty";
  scratch::write(other, scratch::read(model));
  scratch::write(frames, scratch::read(packed));
  const auto expect_back = [&](const std::string& script, const arguments& words, const std::string& expected) {
    ::unlink(back.c_str());
    const answer a = of_shell(script, words);
    EXPECT_EQ(a.code, 0) << a.err;
    EXPECT_EQ(scratch::read(back), scratch::read(expected)) << script;
  };
  expect_back("\"$0\" encode \"$1\" \"$2\"", {other, back}, packed);
  expect_back("\"$0\" encode /dev/stdin \"$2\" < \"$1\"", {other, back}, packed);
  expect_back("cat \"$1\" | \"$0\" encode /dev/stdin \"$2\"", {model, back}, packed);
  expect_back("\"$0\" decode \"$1\" \"$2\"", {frames, back}, model);
  expect_back("cat \"$1\" | \"$0\" decode /dev/stdin \"$2\"", {frames, back}, model);
  expect_ok({"verify", frames});
  EXPECT_EQ(tuck_cli({"compare", model, other}).code, 0);
  scratch::write(in, npy(dict("<f4", "(3000,)"), sparse_data(12000)));
  expect_ok({"encode", in, frame});
  EXPECT_EQ(of_shell("cat \"$1\" | \"$0\" encode /dev/stdin -", {in}).out, scratch::read(frame));
  scratch::write(empty, "");
  EXPECT_EQ(refusal({"encode", empty, back}, empty), "the input is empty");
  EXPECT_EQ(refusal({"encode", other, out}, out),
            "the output is a safetensors file, and its name must end in .safetensors");
}

TEST_F(CliStreams, deltas) {
  const std::string base = dir / "base.npy", all = dir / "all.tuck";
  scratch::write(base, npy(dict("<f4", "(3000,)"), std::string(12000, 'x')));
  scratch::write(in, npy(dict("<f4", "(3000,)"), std::string(11990, 'x') + "0123456789"));
  expect_ok({"encode", "--base", base, in, frame});
  EXPECT_EQ(tuck_cli_reading(in, {"encode", "--base", base, "-", "-"}).out, scratch::read(frame));
  EXPECT_EQ(tuck_cli_reading(base, {"encode", "--base", "-", in, "-"}).out, scratch::read(frame));
  EXPECT_EQ(tuck_cli_reading(frame, {"decode", "--base", base, "-", "-"}).out, scratch::read(in));
  EXPECT_EQ(tuck_cli_reading(base, {"decode", "--base", "-", frame, "-"}).out, scratch::read(in));
  EXPECT_EQ(tuck_cli_reading(in, {"decode", "--base", "-", frame, "-"}).err,
            "tuck: standard input: the base is not the tensor that the delta was made against\n");
  EXPECT_EQ(tuck_cli_reading(frame, {"compact", "--base", base, "-", "-"}).out, scratch::read(frame));
  for (const arguments& words : {arguments{"encode", "--base", "-", "-", out},
                                 {"decode", "--base", "-", "-", out},
                                 {"compare", "-", "-"},
                                 {"compact", "--base", base, "-", "-", out}}) {
    const answer a = tuck_cli_reading(frame, words);
    EXPECT_EQ(a.code, 2);
    EXPECT_EQ(a.err, "tuck: standard input, '-', can be one input only\n");
  }
}

TEST_F(CliStreams, what_goes_wrong_is_named) {
  make_small_frame();
  const auto complaint = [&](const std::string& script, const arguments& words) {
    const answer a = of_shell(script, words);
    EXPECT_EQ(a.code, 1) << a.err;
    EXPECT_EQ(a.out, "");
    return a.err;
  };
  const std::string nothing = "exec \"$0\" \"$@\" < /dev/null", closed = "exec \"$0\" \"$@\" <&-";
  EXPECT_EQ(complaint(nothing, {"encode", "-", out}), "tuck: standard input: the input is empty\n");
  EXPECT_EQ(complaint(nothing, {"encode", "-", packed}), "tuck: standard input: the input is empty\n");
  EXPECT_EQ(complaint(nothing, {"info", "-"}), "tuck: standard input: the input is empty\n");
  EXPECT_EQ(complaint(closed, {"verify", "-"}), "tuck: standard input: Bad file descriptor\n");
  EXPECT_EQ(complaint("exec \"$0\" \"$@\" > /dev/full", {"decode", frame, "-"}),
            "tuck: standard output: No space left on device\n");
  EXPECT_EQ(complaint("exec \"$0\" \"$@\" >&-", {"decode", frame, "-"}),
            "tuck: standard output: Bad file descriptor\n");
  // A pipe that nobody reads.
  const answer unread = of_shell("{ sleep 0.1; \"$0\" \"$@\"; echo $? >&2; } | true", {"decode", frame, "-"});
  EXPECT_EQ(unread.err, "tuck: standard output: Broken pipe\n1\n");
  expect_unharmed();
}

}  // namespace
