// The slots of a batch: how many an item needs, and which item each ticket is of, against plain arithmetic.
#include "support/device_memory.hpp"

#include <tuck/frame/slots.cuh>

#include <numeric>
#include <random>

namespace tuck::test {
namespace {

struct sized_job {  // an item is only a size
  struct item {
    span<const uint8_t> values;
  };
};
struct drawn {
  uint32_t item, first, index, count;
  bool fits;
  friend bool operator==(const drawn&, const drawn&) = default;
};

// What the ticket is of, by passing over all items. Returns false if there is no such slot.
bool expected_slot(const std::vector<uint64_t>& sizes, const batch_slots& slots, uint32_t ticket, drawn& to) {
  uint64_t needed = 0, begin = 0;
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    const uint64_t wanted = sizes[i] == 0 ? 0 : (sizes[i] - 1) / slots.values;
    const uint64_t before = std::min<uint64_t>(needed, slots.extra);
    needed += wanted <= slots.extra ? wanted : 0;
    const uint64_t granted = std::min<uint64_t>(needed, slots.extra) - before, count = 1 + granted;
    if (ticket < begin + count) {
      to = {i, static_cast<uint32_t>(begin), static_cast<uint32_t>(ticket - begin), static_cast<uint32_t>(count),
            granted == wanted};
      return true;
    }
    begin += count;
  }
  return false;
}

// Draws until there are no more. Slots whose index is a multiple of 5 cannot be opened.
__global__ void draw_all(const batch_job<sized_job> job, drawn* to, uint32_t* opened) {
  TUCK_SHARED(batch_cursor::TempStorage, temp);
  batch_cursor at(temp);
  if (threadIdx.x == 0) at.begin();
  device::sync_warp();
  const auto open = [&] {
    to[at.first_ticket() + at.index()] = {at.item(), at.first_ticket(), at.index(), at.count(), at.fits()};
    return at.index() % 5 != 0;
  };
  while (at.draw(job, open)) {
    if (threadIdx.x == 0) device::atomic_add(opened, 1u);
    device::sync_warp();
  }
}

void expect_slots(const std::vector<uint64_t>& sizes, uint32_t extra, uint32_t values, unsigned grid) {
  const device_stream stream;
  const batch_slots slots(static_cast<uint32_t>(sizes.size()), extra, values);
  std::vector<sized_job::item> items;
  for (const uint64_t size : sizes) items.push_back({{reinterpret_cast<const uint8_t*>(uintptr_t{16}), size}});
  const device_array<sized_job::item> on_device(items, stream);
  const device_array<scratch_head> head(std::vector<scratch_head>(1), stream);
  const device_array<uint32_t> opened(std::vector<uint32_t>(1), stream);
  const drawn none{~0u, 0, 0, 0, false};
  const device_array<drawn> seen(std::vector<drawn>(slots.most(), none), stream);
  const batch_job<sized_job> job{{}, {on_device.data(), items.size()}, nullptr, slots, false, head.data()};
  launch_on(stream, grid, 32, draw_all, job, seen.data(), opened.data());
  const std::vector<drawn> got = seen.download(stream);
  uint32_t openable = 0;
  for (uint32_t ticket = 0; ticket < got.size(); ++ticket) {
    drawn expected = none;
    if (expected_slot(sizes, slots, ticket, expected)) openable += expected.index % 5 != 0;
    ASSERT_EQ(got[ticket], expected) << "ticket " << ticket << ", item " << got[ticket].item << " instead of "
                                     << expected.item << ", " << sizes.size() << " items, extra " << extra;
  }
  EXPECT_EQ(opened.download(stream)[0], openable);
}

TEST(batch_slots, count_as_a_division_does) {
  for (const uint32_t values : {32u, 96u, 4096u, 16352u, 1u << 20, ~31u}) {
    const batch_slots slots(1, static_cast<uint32_t>(batch_slots::max_extra), values);
    for (const uint64_t near : {uint64_t{0}, uint64_t{values}, uint64_t{5} * values, uint64_t{1} << 31,
                                uint64_t{1} << 32, uint64_t{values} << 26, ~uint64_t{0} - 2})
      for (uint64_t size = near < 2 ? 0 : near - 2; size - near <= 2 || size < near; ++size) {
        const uint64_t n = size == 0 ? 0 : (size - 1) / values;
        EXPECT_EQ(slots.wanted(size), n <= slots.extra ? n : batch_slots::too_many) << size << " of " << values;
        if (size == ~uint64_t{0}) break;
      }
  }
}
TEST(batch_slots, are_drawn_in_the_order_of_the_items) {
  std::mt19937_64 random(7);
  for (const size_t count : {size_t{1}, size_t{2}, size_t{63}, size_t{64}, size_t{65}, size_t{300}})
    for (const uint32_t most : {1u, 64u, 200u}) {
      std::vector<uint64_t> sizes(count);
      for (uint64_t& size : sizes) size = random() % (random() % 4 == 0 ? 10 * most : most);
      uint64_t needed = 0;
      for (const uint64_t size : sizes) needed += size == 0 ? 0 : (size - 1) / 32;
      for (const uint64_t extra : {needed, needed / 2, uint64_t{0}, needed + 9})
        for (const unsigned grid : {1u, 3u}) expect_slots(sizes, static_cast<uint32_t>(extra), 32, grid);
    }
}
TEST(batch_slots, an_item_that_needs_too_many_gets_one) {
  expect_slots({10, uint64_t{1} << 40, ~uint64_t{0}, 100, 0, 33}, 4, 32, 2);
}

}  // namespace
}  // namespace tuck::test
