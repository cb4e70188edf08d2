#include "examples/gpu_gzip_support.hpp"

#include <gtest/gtest.h>

namespace {

using namespace gzip_test;

// What both machines say of a file, in whatever batches they take it.
std::string complaint(const std::string& file) {
  std::string first;
  EXPECT_FALSE(decompressed(file, first));
  for (const uint64_t batch : {1u, 2u, 50u}) {
    std::string wrong;
    EXPECT_FALSE(decompressed(file, wrong, machine::host, batch));
    EXPECT_EQ(wrong, first);
  }
  std::string wrong;
  EXPECT_FALSE(decompressed(file, wrong, machine::device));
  EXPECT_EQ(wrong, first);
  return first;
}

const std::string first_member = member_of("some text, some text").file();
const std::string at_second = "member 1, at byte " + std::to_string(first_member.size()) + ": ";

// That of a file whose second member is this one.
std::string complaint_about(const std::string& second) {
  const std::string all = complaint(first_member + second + end_member());
  EXPECT_TRUE(all.starts_with(at_second)) << all;
  return all.substr(std::min(all.size(), at_second.size()));
}

TEST(GpuGzipRefuses, what_is_not_bgzf) {
  EXPECT_EQ(complaint(""), "empty, and no gzip file");
  EXPECT_EQ(complaint("x"), "not a gzip file");
  EXPECT_EQ(complaint(std::string(100000, 'x')), "not a gzip file");
  const std::string plain("\x1f\x8b\x08\0\0\0\0\0\0\3\3\0\0\0\0\0\0\0\0\0", 20);
  EXPECT_EQ(complaint(plain), "member 0, at byte 0: gzip, but not BGZF: it has no field BC");
  EXPECT_EQ(complaint_about(plain), "gzip, but not BGZF: it has no field BC");
}

TEST(GpuGzipRefuses, bad_headers) {
  const auto with = [](size_t at, char value) {
    std::string member = member_of("second").file();
    member[at] = value;
    return complaint_about(member);
  };
  EXPECT_EQ(with(2, 7), "the compression method is not DEFLATE");
  EXPECT_EQ(with(3, 12), "BGZF has no such header flags");
  std::string long_header = member_of("second").file();
  long_header[10] = long_header[11] = '\xff';
  EXPECT_EQ(complaint_about(long_header), "the header leaves no room for a stream");
  for (const auto& [at, value] : {std::pair{12, 'b'}, {13, 'b'}, {14, '\3'}, {15, '\1'}, {10, '\3'}, {10, '\0'}})
    EXPECT_EQ(with(static_cast<size_t>(at), value), "gzip, but not BGZF: it has no field BC") << at;
}

TEST(GpuGzipRefuses, wrong_sizes_of_members) {
  std::string second_file = member_of("second").file();
  second_file[1] = '\0';
  EXPECT_EQ(complaint(first_member + second_file + end_member()),
            "member 0, at byte 0: no member begins where BSIZE says that it ends");
  const auto off_by = [](int n) {
    forged_member second = member_of("second");
    second.bsize_off_by = n;
    return complaint_about(second.file());
  };
  for (const int n : {-1, 1}) EXPECT_EQ(off_by(n), "no member begins where BSIZE says that it ends");
  EXPECT_EQ(off_by(28),
            "ISIZE does not fit the stream, which gives more than 0 bytes");  // which it takes from the end member
  EXPECT_EQ(off_by(1000), "truncated: of its 1034 bytes 62 are there");
  forged_member second = member_of("second");
  EXPECT_EQ(off_by(-static_cast<int>(second.stream.size()) - 1), "BSIZE is wrong: 25 bytes hold no member");
  second.stream += "xx";
  EXPECT_EQ(complaint_about(second.file()), "BSIZE is wrong: the stream ends 2 bytes earlier");
}

TEST(GpuGzipRefuses, wrong_trailers) {
  const forged_member good = member_of("second");
  forged_member bad = good;
  bad.crc ^= 1;
  EXPECT_EQ(complaint_about(bad.file()), "the CRC-32 is wrong");
  bad = good;
  bad.size = 5;
  EXPECT_EQ(complaint_about(bad.file()), "ISIZE does not fit the stream, which gives more than 5 bytes");
  bad.size = 7;
  EXPECT_EQ(complaint_about(bad.file()), "ISIZE does not fit the stream: 7 instead of 6 bytes");
  bad.size = 0;
  EXPECT_EQ(complaint_about(bad.file()), "ISIZE does not fit the stream, which gives more than 0 bytes");
  bad.size = 65537;
  EXPECT_EQ(complaint_about(bad.file()), "ISIZE is wrong: 65537 bytes");
  EXPECT_EQ(complaint_about(member_of(std::string(65537, 'x')).file()), "ISIZE is wrong: 65537 bytes");
}

TEST(GpuGzipRefuses, damaged_streams) {
  forged_member second = member_of("second");
  second.stream[0] = 7;
  EXPECT_EQ(complaint_about(second.file()), message(tuck::status::deflate_block_type));
  second.stream.clear();
  EXPECT_EQ(complaint_about(second.file()), message(tuck::status::deflate_ends_early));
}

TEST(GpuGzipRefuses, garbage_and_missing_ends) {
  const std::string good = first_member + end_member();
  const std::string behind = "member 2, at byte " + std::to_string(good.size()) + ": ";
  EXPECT_EQ(complaint(good + "x"), behind + "garbage: no member begins here");
  EXPECT_EQ(complaint(good + std::string(70000, '\0')), behind + "garbage: no member begins here");
  const std::string no_end = "the end is missing: after its last member comes none of BGZF's that mark it";
  EXPECT_EQ(complaint(first_member), no_end);
  EXPECT_EQ(complaint(end_member() + first_member), no_end);
  EXPECT_EQ(complaint(first_member + member_of("").file() + member_of("", {.level = 0}).file()), no_end);
}

TEST(GpuGzipRefuses, every_way_to_cut_a_file) {
  const std::string file = first_member + member_of("second").file() + end_member();
  for (size_t size = 0; size < file.size(); ++size) {
    std::string wrong;
    EXPECT_FALSE(decompressed(file.substr(0, size), wrong)) << size;
    EXPECT_TRUE(wrong.starts_with("empty") || wrong.find("truncated") != std::string::npos ||
                wrong.find("the end is missing") != std::string::npos)
        << size << ": " << wrong;
  }
  EXPECT_EQ(complaint(file.substr(0, file.size() - 1)),
            "member 2, at byte " + std::to_string(file.size() - 28) + ": truncated: of its 28 bytes 27 are there");
}

// The first fault is told, also where a later one is seen sooner: headers are read before streams.
TEST(GpuGzipRefuses, the_first_of_many_faults) {
  forged_member second = member_of("second");
  second.crc ^= 1;
  EXPECT_EQ(complaint(first_member + second.file() + first_member + first_member.substr(0, 20)),
            at_second + "the CRC-32 is wrong");
}

}  // namespace
