// Copies from global to shared memory in the background: by a thread (core/device.cuh), and by a block, of any size and
// address, one after the other as frames use them.
#include "support/device_memory.hpp"

#include <tuck/core/block_copy.cuh>

#include <numeric>

namespace tuck::test {
namespace {

constexpr uint32_t copiers = 96, copy_blocks = 2;

std::vector<std::byte> some_bytes(std::size_t n) {
  std::vector<std::byte> all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  return all;
}

// --- by a thread -----------------------------------------------------------------------------------------------------

// Each thread fetches its value of three rows in a group each, uses the first while the others are on their way, and
// gives a neighbour's of each.
template <class T> __global__ void __launch_bounds__(copiers) rows_kernel(const T* in, T* out) {
  out += blockIdx.x * 3 * copiers;
  using tile = T[3][copiers];
  TUCK_SHARED(tile, rows);
  const uint32_t t = threadIdx.x, other = copiers - 1 - t;
  for (uint32_t r = 0; r < 3; ++r) {
    device::copy_async(&rows[r][t], in + r * copiers + t);
    device::commit_copies();
  }
  device::wait_copies<2>();
  device::sync_block();
  device::store(out + t, rows[0][other]);
  device::wait_copies<1>();
  device::sync_block();
  device::store(out + copiers + t, rows[1][other]);
  device::wait_copies();
  device::sync_block();
  device::store(out + 2 * copiers + t, rows[2][other]);
}
template <class T> void expect_rows() {
  for_schedules(6, [&] {
    const device_stream stream;
    const auto bytes = some_bytes(3 * copiers * sizeof(T));
    const device_array<std::byte> in(bytes, stream), out(copy_blocks * bytes.size());
    launch_on(stream, copy_blocks, copiers, rows_kernel<T>, reinterpret_cast<const T*>(in.data()),
              reinterpret_cast<T*>(out.data()));
    const auto got = out.download(stream);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t value = i % bytes.size() / sizeof(T), row = value / copiers,
                        source = row * copiers + copiers - 1 - value % copiers;
      ASSERT_EQ(got[i], bytes[source * sizeof(T) + i % sizeof(T)]) << i;
    }
  });
}
TEST(block_copy, of_a_thread) {
  expect_rows<uint32_t>();
  expect_rows<uint64_t>();
  expect_rows<device::vec128>();
}

// --- by a block ------------------------------------------------------------------------------------------------------

constexpr uint32_t largest = 4096;
struct piece {
  uint32_t begin, size;
};

// Fetches each piece while the one before is copied to `out`, to which it goes with the same remainder by 16; and
// changes the bytes in shared memory, as a decoder might.
__global__ void __launch_bounds__(copiers)
    pieces_kernel(const std::byte* in, const piece* pieces, uint32_t count, std::byte* out) {
  using room = device::vec128[largest / 16 + 2];
  using two_rooms = room[2];
  TUCK_SHARED(two_rooms, rooms);
  TUCK_SHARED(device::block_copy<copiers>::TempStorage, temp);
  device::block_copy<copiers> copy(temp);
  const auto begin = [&](uint32_t k) {
    return copy.begin(reinterpret_cast<std::byte*>(rooms[k % 2]), in + pieces[k].begin, pieces[k].size);
  };
  std::byte* next = begin(0);
  for (uint32_t k = 0; k < count; ++k) {
    copy.wait();
    std::byte* const bytes = next;
    if (k + 1 < count) next = begin(k + 1);
    for (uint32_t i = threadIdx.x; i < pieces[k].size; i += copiers) {
      if (blockIdx.x == 0) device::store(out + pieces[k].begin + i, bytes[pieces[k].size - 1 - i]);
    }
    device::sync_block();
    for (uint32_t i = threadIdx.x; i < pieces[k].size; i += copiers) bytes[i] = std::byte{0xee};
  }
}
void expect_pieces(const std::vector<piece>& pieces, uint32_t bytes) {
  for_schedules(8, [&] {
    const device_stream stream;
    const auto all = some_bytes(bytes);
    const device_array<std::byte> in(all, stream), out(std::vector<std::byte>(bytes), stream);
    const device_array<piece> parts(pieces, stream);
    launch_on(stream, copy_blocks, copiers, pieces_kernel, static_cast<const std::byte*>(in.data()),
              static_cast<const piece*>(parts.data()), static_cast<uint32_t>(pieces.size()), out.data());
    std::vector<std::byte> expected(bytes);
    for (const piece& p : pieces)
      for (uint32_t i = 0; i < p.size; ++i) expected[p.begin + i] = all[p.begin + p.size - 1 - i];
    EXPECT_EQ(out.download(stream), expected);
  });
}
TEST(block_copy, of_whole_vectors) {
  expect_pieces(
      {{0, largest}, {largest, 16}, {largest + 16, largest - 16}, {2 * largest, 1600}, {2 * largest + 1600, 48}},
      2 * largest + 1648);
}
TEST(block_copy, of_any_size_and_address) {
  // Sizes from none on, many remainders. The last piece ends with the allocation: nothing is read behind it.
  std::vector<piece> pieces;
  uint32_t end = 0;
  for (const uint32_t size :
       {1u, 0u, 2u, 15u, 16u, 17u, 3u, 31u, 32u, 33u, 5u, 100u, 1537u, 7u, 4095u, 30u, 64u, 13u}) {
    pieces.push_back({end, size});
    end += size;
  }
  expect_pieces(pieces, end);
  for (uint32_t skipped = 0; skipped < 16; skipped += 5)
    for (const uint32_t size : {1u, 14u, 18u, 47u}) expect_pieces({{skipped, size}}, skipped + size);
}

}  // namespace
}  // namespace tuck::test
