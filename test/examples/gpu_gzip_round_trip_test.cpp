#include "examples/gpu_gzip_support.hpp"
#include "support/effort.hpp"
#include "support/run_program.hpp"
#include "support/tensors.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace {

using namespace gzip_test;

constexpr size_t member_input = gpu_gzip::member_input;
const size_t large = tuck::test::brief ? size_t{1} << 18 : size_t{1} << 20;

std::string random_text(size_t size) {
  const std::vector<uint8_t> values = tuck::test::noise<uint8_t>(size);
  return {values.begin(), values.end()};
}

std::string sparse_floats(size_t size) {
  const std::vector<float> values = tuck::test::sparse_tensor<float>(size / sizeof(float), 0.7);
  return text_of(as_bytes(tuck::span<const float>(values)));
}

bool is_installed(const std::string& program) {
  return cli::run_program({"/bin/sh", "-c", "command -v \"$0\"", program}).code == 0;
}

void expect_read_by(const std::string& program, const std::string& file, const std::string& text) {
  if (!is_installed(program)) return;
  const scratch::directory dir;
  scratch::write(dir / "a.gz", file);
  const cli::answer a = cli::run_program({"/bin/sh", "-c", "\"$0\" -dc \"$1\"", program, dir / "a.gz"});
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(a.err, "");
  EXPECT_TRUE(a.out == text) << program;
}

// Host and device write the same file, so each reads what the other wrote.
void expect_round_trips(const std::string& text) {
  const std::string file = compressed(text);
  for (const machine on : machines) {
    SCOPED_TRACE(name(on));
    std::string wrong;
    EXPECT_TRUE(compressed(text, on, 5) == file);
    EXPECT_TRUE(decompressed(file, wrong, on, 7) == text) << wrong;
  }
  expect_read_by("gunzip", file, text);
  expect_read_by("bgzip", file, text);
}

TEST(GpuGzip, edges) {
  const std::string text = text_like(member_input + 1);
  for (const size_t size : {size_t{0}, size_t{1}, member_input - 1, member_input, member_input + 1}) {
    SCOPED_TRACE(size);
    expect_round_trips(text.substr(0, size));
  }
}

TEST(GpuGzip, no_input_is_the_end_alone) { EXPECT_EQ(compressed(""), end_member()); }

TEST(GpuGzip, text) { expect_round_trips(text_like(large)); }
TEST(GpuGzip, random_bytes) { expect_round_trips(random_text(large)); }
TEST(GpuGzip, one_value) { expect_round_trips(std::string(large, 'x')); }
TEST(GpuGzip, zeros) { expect_round_trips(std::string(large, '\0')); }
TEST(GpuGzip, sparse_floats) { expect_round_trips(sparse_floats(large)); }

TEST(GpuGzip, chunks_of_each_kind) {
  const std::string text = std::string(member_input, 'a') + random_text(member_input) + text_like(member_input) +
                           std::string(2 * member_input, '\0') + std::string(member_input, 'a') + "aaa";
  expect_round_trips(text);
  for (const uint64_t batch : {1u, 2u, 100u}) EXPECT_TRUE(compressed(text, machine::host, batch) == compressed(text));
}

TEST(GpuGzip, recorded_tensors) {
  for (const auto& entry : std::filesystem::directory_iterator(TUCK_DATA)) {
    if (entry.path().extension() != ".npy") continue;
    SCOPED_TRACE(entry.path().filename().string());
    const std::string text = scratch::read(entry.path().string()), file = compressed(text);
    std::string wrong;
    EXPECT_LT(file.size(), text.size());
    EXPECT_TRUE(decompressed(file, wrong) == text) << wrong;
    if (!tuck::test::brief || entry.path().stem() == "vgg_digits_epoch08_relu1") expect_round_trips(text);
  }
}

TEST(GpuGzip, gunzip_and_bgzip_were_there_to_read_it) {
  for (const char* program : {"gunzip", "bgzip"})
    if (!is_installed(program)) GTEST_SKIP() << program << " is not installed; Debian has bgzip in the package tabix";
}

TEST(GpuGzip, reads_what_bgzip_writes) {
  if (!is_installed("bgzip")) GTEST_SKIP() << "bgzip is not installed; Debian has it in the package tabix";
  const scratch::directory dir;
  for (const std::string& text :
       {std::string(), text_like(large / 5), random_text(large / 10), sparse_floats(100000)}) {
    scratch::write(dir / "a", text);
    for (const char* level : {"0", "1", "6", "9"}) {
      SCOPED_TRACE(level);
      const cli::answer a = cli::run_program({"/bin/sh", "-c", "bgzip -c -l \"$1\" \"$0\"", dir / "a", level});
      ASSERT_EQ(a.code, 0) << a.err;
      std::string wrong;
      for (const machine on : machines) EXPECT_TRUE(decompressed(a.out, wrong, on) == text) << wrong;
    }
  }
}

TEST(GpuGzip, reads_what_others_may_write) {
  const std::string text = text_like(65536);
  forged_member with_more = member_of("more");
  with_more.subfields_before = std::string("XY\3\0abcBC\1\0x", 12);
  const std::string file =
      member_of(text).file() + end_member() + with_more.file() + member_of("").file() + end_member();
  for (const machine on : machines) {
    std::string wrong;
    EXPECT_TRUE(decompressed(file, wrong, on) == text + "more") << wrong;
  }
}

}  // namespace
