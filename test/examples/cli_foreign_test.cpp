// Frames that another program wrote, or that were tampered with and sealed again.
#include "support/npy.hpp"

#include "examples/cli_fixture.hpp"

#include <tuck/host.hpp>

#include <gtest/gtest.h>

#include <cstring>

namespace {

using namespace cli;

// Frames that a program of its own wrote, whatever metadata it gave them.
class ForeignFrame : public Cli {
 protected:
  template <class T> void write_frame(const std::vector<T>& values, const std::string& metadata) {
    const tuck::frame_options options{.metadata = tuck::tools::bytes_of(metadata)};
    std::string content(tuck::max_frame_bytes(tuck::zvc<T>{}, values.size(), options), '\0');
    const tuck::bytes room(reinterpret_cast<std::byte*>(content.data()), content.size());
    const tuck::outcome done = tuck::host::encode(tuck::zvc<T>{}, tuck::span<const T>(values), room, options);
    ASSERT_TRUE(done);
    scratch::write(frame, content.substr(0, done.bytes));
  }
};

TEST_F(ForeignFrame, without_metadata_becomes_one_dimension) {
  write_frame<tuck::bf16>({{1}, {0}, {0}, {0x3f80}, {0}}, "");
  EXPECT_EQ(info_json()["shape"], nlohmann::json{5});
  expect_ok({"decode", frame, out});
  const tuck::tools::npy_file file = tuck::tools::read_npy(out);
  EXPECT_EQ(file.header.type, tuck::dtype::u16);
  EXPECT_EQ(file.header.shape, std::vector<uint64_t>{5});
  const uint16_t expected[] = {1, 0, 0, 0x3f80, 0};
  EXPECT_EQ(std::memcmp(file.data().data(), expected, sizeof expected), 0);
}

TEST_F(ForeignFrame, metadata_must_fit) {
  const std::vector<float> values{1, 0, 2, 0};
  const auto reason = [&](const std::string& metadata) {
    write_frame(values, metadata);
    EXPECT_EQ(info_json()["shape"], nlohmann::json{4});
    const answer verified = tuck_cli({"verify", frame});
    EXPECT_EQ(verified.code, 0) << verified.err;
    const std::string why = refusal({"decode", frame, out}, frame);
    EXPECT_NE(verified.out.find(why + ", so decode rejects it\n"), std::string::npos) << verified.out;
    EXPECT_FALSE(std::filesystem::exists(out));
    return why;
  };
  EXPECT_EQ(reason("my own notes"), "the frame's metadata is not a .npy header");
  EXPECT_EQ(reason(npy(dict("<f4", "(4,)"), "xyz")), "the frame's metadata has bytes after the .npy header");
  EXPECT_EQ(reason(npy(dict("<f4", "(5,)"), "")),
            "the frame's metadata is the .npy header of another array: 5 values of f32, the frame has 4 of f32");
  EXPECT_EQ(reason(npy(dict("<f8", "(4,)"), "")),
            "the frame's metadata is the .npy header of another array: 4 values of f64, the frame has 4 of f32");
}

// Changes the header of the frame in the file, digests being right again.
template <class Change> void reseal(const std::string& path, const Change& change) {
  std::string content = scratch::read(path);
  tuck::frame_header header;
  std::memcpy(&header, content.data(), sizeof header);
  change(header, content);
  header.frame_bytes = content.size();
  const tuck::frame_layout at = layout_of(header);
  header.contents_digest =
      tuck::checksum(tuck::tools::bytes_of(content).subspan(sizeof header, at.contents_end - sizeof header));
  header.header_digest = digest_of(header);
  std::memcpy(content.data(), &header, sizeof header);
  scratch::write(path, content);
}

TEST_F(ForeignFrame, of_an_unknown_codec_is_named) {
  write_frame<float>({1, 0, 2, 0}, "");
  for (const int id : {0x8000, 0x8007, 0xffff}) {
    reseal(frame, [&](tuck::frame_header& h, std::string&) { h.stages.at[0].id = static_cast<tuck::codec_id>(id); });
    const std::string named = "custom(" + std::to_string(id) + ")";
    EXPECT_EQ(info_json()["codec"], named);
    EXPECT_NE(tuck_cli({"info", frame}).out.find("codec        " + named + "\n"), std::string::npos);
    EXPECT_EQ(refusal({"decode", frame, out}, frame), message(tuck::status::codec_mismatch) + (": " + named));
  }
  const std::string reason = message(tuck::status::codec_mismatch) + std::string(": custom(65535)");
  EXPECT_EQ(refusal({"verify", frame}, frame), reason);
}

// A small file can hold a tensor of zeros that no memory holds; under a limit, 1 GiB is enough.
TEST_F(ForeignFrame, too_large_for_memory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more address space than the limit leaves";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers need more address space than the limit leaves";
#endif
#endif
  write_frame<float>({1, 0, 2, 0}, "");
  reseal(frame, [](tuck::frame_header& header, std::string& content) {
    header.chunk_values = tuck::max_chunk_raw_bytes / sizeof(float);
    header.value_count = 256 * 1024 * 1024;
    content.assign(layout_of(header).payloads, '\0');
    const auto zeros = tuck::directory_entry::make(tuck::chunk_kind::uniform, 0, 0);
    for (uint64_t i = 0; i < layout_of(header).chunks; ++i)
      std::memcpy(content.data() + layout_of(header).directory + 8 * i, &zeros, sizeof zeros);
  });
  const std::string limited = "ulimit -v 800000; exec \"$0\" \"$@\"";
  const answer a = run_program({"/bin/sh", "-c", limited, TUCK_CLI, "decode", frame, out});
  EXPECT_EQ(a.code, 1);
  EXPECT_EQ(a.err, "tuck: " + frame + ": not enough memory\n");
  EXPECT_FALSE(std::filesystem::exists(out));
  expect_ok({"verify", frame});
}

}  // namespace
