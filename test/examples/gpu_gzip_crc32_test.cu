#include "gpu_gzip/crc32.cuh"

#include "support/device.hpp"
#include "support/tensors.hpp"

#include <gtest/gtest.h>

#include <zlib.h>

namespace {

using namespace tuck::test;
using tuck::const_bytes;

using byte_vector = std::vector<std::byte>;

uint32_t crc_of_zlib(const_bytes data) {
  return static_cast<uint32_t>(  // of a null pointer it is 0
      ::crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
}

byte_vector random_bytes(uint64_t size, uint64_t seed = 1) {
  const std::vector<uint8_t> values = noise<uint8_t>(size, seed);
  const const_bytes all = as_bytes(tuck::span<const uint8_t>(values));
  return {all.begin(), all.end()};
}

std::vector<uint64_t> sizes() {
  std::vector<uint64_t> all;
  for (uint64_t size = 0; size < 70; ++size) all.push_back(size);
  for (const uint64_t size : {1023u, 1024u, 1025u, 1028u, 4099u, 65279u, 65280u, 65281u, 65535u, 65536u})
    all.push_back(size);
  return all;
}

TEST(GzipCrc32, host_is_zlibs) {
  const byte_vector data = random_bytes(65536 + 8);
  for (const uint64_t size : sizes())
    for (const uint64_t from : {0u, 1u, 7u}) {
      const const_bytes part(data.data() + from, size);
      EXPECT_EQ(gpu_gzip::crc32(part), crc_of_zlib(part)) << size << " bytes from " << from;
    }
}

TEST(GzipCrc32, pieces_combine) {
  const byte_vector data = random_bytes(100000);
  const const_bytes all = data;
  for (const uint64_t first : {0u, 1u, 255u, 65280u, 99999u, 100000u})
    EXPECT_EQ(gpu_gzip::crc32_combine(gpu_gzip::crc32(all.subspan(0, first)), gpu_gzip::crc32(all.subspan(first)),
                                      all.size() - first),
              crc_of_zlib(all));
}

TEST(GzipCrc32, multiplication_is_that_of_a_ring) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    const auto a = static_cast<uint32_t>(random()), b = static_cast<uint32_t>(random());
    const auto c = static_cast<uint32_t>(random());
    using gpu_gzip::crc32_multiply;
    EXPECT_EQ(crc32_multiply(a, gpu_gzip::crc32_one), a);
    EXPECT_EQ(crc32_multiply(a, b), crc32_multiply(b, a));
    EXPECT_EQ(crc32_multiply(a, b ^ c), crc32_multiply(a, b) ^ crc32_multiply(a, c));
    EXPECT_EQ(crc32_multiply(crc32_multiply(a, b), c), crc32_multiply(a, crc32_multiply(b, c)));
  }
}

struct job {
  const const_bytes* pieces;
  uint32_t* crcs;
};

template <int Threads> __global__ void crc_of_each(job work) {
  using block = gpu_gzip::block_crc32<Threads>;
  using storage = typename block::TempStorage;
  TUCK_SHARED(storage, temp);
  const uint32_t crc = block::run(temp, work.pieces[blockIdx.x]);
  if (threadIdx.x == 0) work.crcs[blockIdx.x] = crc;
}

// Pieces of all sizes, each from a multiple of 4 bytes that is hardly ever one of 16.
template <int Threads> void expect_zlibs_crcs() {
  byte_vector data;
  std::vector<uint64_t> begins;
  std::vector<uint32_t> expected;
  for (const uint64_t size : sizes()) {
    data.resize((data.size() + 3) / 4 * 4 + 4);
    begins.push_back(data.size());
    const byte_vector piece = random_bytes(size, size);
    data.insert(data.end(), piece.begin(), piece.end());
    expected.push_back(crc_of_zlib(piece));
  }
  for_schedules(2, [&] {
    const device_stream stream;
    const device_array<std::byte> on_device(data, stream);
    std::vector<const_bytes> pieces;
    for (size_t i = 0; i < begins.size(); ++i) pieces.push_back(on_device.all().subspan(begins[i], sizes()[i]));
    const device_array<const_bytes> all(pieces, stream);
    const device_array<uint32_t> crcs(pieces.size());
    const job work{all.data(), crcs.data()};
    launch_on(stream, static_cast<unsigned>(pieces.size()), Threads, crc_of_each<Threads>, work);
    EXPECT_EQ(crcs.download(stream), expected);
  });
}

TEST(GzipCrc32, blocks_find_zlibs) { expect_zlibs_crcs<256>(); }
TEST(GzipCrc32, a_warp_finds_zlibs) { expect_zlibs_crcs<32>(); }
TEST(GzipCrc32, largest_blocks_find_zlibs) { expect_zlibs_crcs<1024>(); }

}  // namespace
