// Damaged files: never a crash, and what is accepted is what gunzip makes of it.
#include "examples/gpu_gzip_support.hpp"
#include "support/effort.hpp"

#include <gtest/gtest.h>

namespace {

using namespace gzip_test;
using tuck::test::byte_vector;
using tuck::test::zlib_inflater;

// gunzip by zlib: all members of a file, whatever they are; nothing where one is wrong or garbage follows.
class gunzip {
 public:
  gunzip() { EXPECT_EQ(inflateInit2(&z_, 16 + 15), Z_OK); }
  gunzip(const gunzip&) = delete;
  gunzip& operator=(const gunzip&) = delete;
  ~gunzip() { inflateEnd(&z_); }

  std::optional<std::string> operator()(std::string file) {
    std::string text;
    z_.next_in = reinterpret_cast<Bytef*>(file.data());
    z_.avail_in = static_cast<uInt>(file.size());
    while (z_.avail_in != 0) {
      EXPECT_EQ(inflateReset(&z_), Z_OK);
      for (int code = Z_OK; code != Z_STREAM_END;) {
        z_.next_out = room_;
        z_.avail_out = sizeof room_;
        code = ::inflate(&z_, Z_NO_FLUSH);
        if (code != Z_OK && code != Z_STREAM_END) return {};
        text.append(reinterpret_cast<const char*>(room_), sizeof room_ - z_.avail_out);
      }
    }
    return text;
  }

 private:
  z_stream z_{};
  Bytef room_[4096];
};

class fuzzer {
 public:
  // Members of all kinds of streams, of many sizes.
  fuzzer() {
    for (const int level : {0, 1, 6, 9})
      for (const int strategy : {Z_DEFAULT_STRATEGY, Z_FIXED, Z_HUFFMAN_ONLY, Z_RLE}) {
        const auto size = static_cast<size_t>(below(6) == 0 ? 2000 : below(300));
        members_.push_back(member_of(text_like(size, below(1000)), {level, strategy, 8}));
      }
    for (const size_t size : {1u, 40u, 1000u}) {
      std::string file = compressed(below(2) == 0 ? std::string(size, 'x') : text_like(size, below(1000)));
      const size_t head = gpu_gzip::header_bytes, tail = gpu_gzip::trailer_bytes + gpu_gzip::end_bytes;
      forged_member ours = member_of(text_of({}));
      ours.stream = file.substr(head, file.size() - head - tail);
      members_.push_back(resealed(ours).value());
    }
  }

  uint32_t below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }
  const forged_member& any_member() { return members_[below(static_cast<uint32_t>(members_.size()))]; }

  std::string whole_file() {
    std::string file;
    for (uint32_t n = below(4); n != 0; --n) file += any_member().file();
    return file + end_member();
  }

  void damage(std::string& text) {
    for (uint32_t n = 1 + below(3); n != 0 && !text.empty(); --n) {
      const uint32_t at = below(static_cast<uint32_t>(text.size()));
      switch (below(6)) {
        case 0: text[at] = static_cast<char>(below(256)); break;
        case 1: text.erase(at, 1 + below(8)); break;
        case 2: text.insert(at, 1 + below(4), static_cast<char>(below(256))); break;
        case 3: text.insert(at, text.substr(below(static_cast<uint32_t>(text.size())), below(40))); break;
        default: text[at] ^= static_cast<char>(1 << below(8)); break;
      }
    }
  }

  // With the trailer that its stream should have; nothing where zlib does not take that for a stream.
  std::optional<forged_member> resealed(forged_member m) {
    byte_vector out(gpu_gzip::max_output);
    const auto verdict = inflater_.inflate(bytes_of(m.stream), out);
    if (!verdict.accepted || verdict.consumed != m.stream.size()) return {};
    const const_bytes output(out.data(), verdict.produced);
    m.crc = gpu_gzip::crc32(output);
    m.size = static_cast<uint32_t>(output.size());
    return m;
  }

 private:
  std::mt19937_64 random_{1};
  std::vector<forged_member> members_;
  zlib_inflater inflater_;
};

int rounds(int wanted) { return tuck::test::long_run() ? 50 * wanted : tuck::test::brief ? wanted / 10 : wanted; }

// The mutations seldom get past the CRC-32; what does must be right.
TEST(GpuGzipFuzz, damaged_files) {
  fuzzer any;
  gunzip reference;
  const auto coder = make_coder(machine::host, 2);
  int accepted = 0;
  for (int i = 0; i < rounds(15000); ++i) {
    std::string file = any.whole_file(), wrong;
    any.damage(file);
    const auto text = decompressed(file, wrong, *coder, 2);
    if (!text) continue;
    ++accepted;
    ASSERT_EQ(text, reference(file)) << i;
  }
  EXPECT_GT(accepted, 0);
}

// Streams that were damaged, in members that are in order: zlib says which of them are streams.
TEST(GpuGzipFuzz, damaged_streams) {
  fuzzer any;
  gunzip reference;
  const auto coder = make_coder(machine::host, 2);
  int accepted = 0;
  for (int i = 0; i < rounds(15000); ++i) {
    forged_member damaged = any.any_member();
    any.damage(damaged.stream);
    const auto sealed = any.resealed(damaged);
    const std::string file = any.any_member().file() + (sealed ? *sealed : damaged).file() + end_member();
    std::string wrong;
    const auto text = decompressed(file, wrong, *coder, 2);
    ASSERT_EQ(text.has_value(), sealed.has_value()) << i << ": " << wrong;
    if (!text) continue;
    ++accepted;
    ASSERT_EQ(text, reference(file)) << i;
  }
  EXPECT_GT(accepted, rounds(15000) / 20);
}

TEST(GpuGzipFuzz, the_device_judges_as_the_host) {
  fuzzer any;
  const auto host = make_coder(machine::host, 4), device = make_coder(machine::device, 4);
  for (int i = 0; i < rounds(300); ++i) {
    forged_member damaged = any.any_member();
    any.damage(damaged.stream);
    const std::string file = any.any_member().file() + any.resealed(damaged).value_or(damaged).file() + end_member();
    std::string by_host, by_device;
    ASSERT_EQ(decompressed(file, by_host, *host, 4), decompressed(file, by_device, *device, 4)) << i;
    ASSERT_EQ(by_host, by_device) << i;
  }
}

}  // namespace
