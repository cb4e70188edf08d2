// Bookkeeping of the pool: reservations and what becomes of them, extents, statistics.
#include "support/device.hpp"

#include <tuck/swap/handle_pool.cuh>
#include <tuck/swap/pinned_pool.cuh>

extern thread_local int allocations_left;  // failing_new.cpp

namespace tuck::test {
namespace {

constexpr uint64_t unit = pinned_pool::unit;

TEST(pinned_pool, holds_whole_units) {
  pinned_pool pool(10 * unit - 3);
  EXPECT_EQ(pool.statistics().capacity, 10 * unit);
  extent a, b;
  ASSERT_TRUE(pool.allocate(1, a) && pool.allocate(unit + 1, b));
  EXPECT_EQ(a.size, unit);
  EXPECT_EQ(b.size, 2 * unit);
  EXPECT_EQ(pool.statistics().held, 3 * unit);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.host(b).data()) % unit, 0u);
  std::memset(pool.host(b).data(), 1, pool.host(b).size());
  pool.deallocate(a);
  EXPECT_EQ(pool.statistics().held, 2 * unit);
  EXPECT_EQ(pool.statistics().peak, 3 * unit);
  EXPECT_EQ(pool.statistics().wasted, unit);  // before b
  pool.deallocate(b);
  EXPECT_EQ(pool.statistics().wasted, 0u);
}

TEST(pinned_pool, frames_lie_one_behind_the_other) {
  pinned_pool pool(10 * unit);
  pinned_pool::reservation a, b, c;
  ASSERT_TRUE(pool.reserve(4 * unit, a) && pool.reserve(4 * unit, b));
  EXPECT_TRUE(a.fresh);
  EXPECT_FALSE(b.fresh);
  EXPECT_FALSE(pool.reserve(4 * unit, c));  // not before one has reported
  EXPECT_EQ(pool.statistics().reserved, 8 * unit);
  const extent first = pool.settle(a, 0, unit - 5);
  EXPECT_EQ(first, (extent{0, unit}));
  ASSERT_TRUE(pool.reserve(4 * unit, c));
  EXPECT_FALSE(c.fresh);
  const extent second = pool.settle(b, unit, 2 * unit);
  EXPECT_EQ(second, (extent{unit, 2 * unit}));
  const extent third = pool.settle(c, 3 * unit, 0);  // it has failed
  EXPECT_EQ(third.size, 0u);
  EXPECT_EQ(pool.statistics().held, 3 * unit);
  EXPECT_EQ(pool.statistics().reserved, 0u);
  pool.deallocate(first);
  pool.deallocate(second);
  EXPECT_EQ(pool.statistics().wasted, 0u);
  ASSERT_TRUE(pool.reserve(10 * unit, a));  // all of it again
  EXPECT_TRUE(a.fresh);
  pool.settle(a, 0, 0);
}

// What is free behind frames under way is not lost while they are: known sizes come from its far end.
TEST(pinned_pool, known_sizes_and_reservations_share_it) {
  pinned_pool pool(10 * unit);
  pinned_pool::reservation a;
  extent e, f;
  ASSERT_TRUE(pool.reserve(4 * unit, a));
  ASSERT_TRUE(pool.allocate(6 * unit, e));
  EXPECT_EQ(e, (extent{4 * unit, 6 * unit}));
  EXPECT_FALSE(pool.allocate(1, f));
  pool.deallocate(pool.settle(a, 0, 3 * unit));
  ASSERT_TRUE(pool.allocate(4 * unit, f));
  pool.deallocate(e);
  pool.deallocate(f);
  EXPECT_EQ(pool.statistics().held, 0u);
  EXPECT_EQ(pool.statistics().wasted, 0u);
}

TEST(pinned_pool, a_withdrawn_reservation_leaves_nothing) {
  pinned_pool pool(10 * unit);
  pinned_pool::reservation a, b;
  ASSERT_TRUE(pool.reserve(4 * unit, a));
  pool.withdraw(a, false);  // the fill level was never made zero: the next is fresh again
  ASSERT_TRUE(pool.reserve(4 * unit, a));
  EXPECT_TRUE(a.fresh);
  ASSERT_TRUE(pool.reserve(4 * unit, b));
  pool.withdraw(b, false);
  ASSERT_TRUE(pool.reserve(4 * unit, b));
  EXPECT_FALSE(b.fresh);
  pool.withdraw(b, true);  // who knows how far the run is filled
  EXPECT_FALSE(pool.reserve(4 * unit, b));
  const extent e = pool.settle(a, 0, unit);
  ASSERT_TRUE(pool.reserve(4 * unit, b));
  EXPECT_TRUE(b.fresh);
  pool.settle(b, 0, 0);
  pool.deallocate(e);
  EXPECT_EQ(pool.statistics().wasted, 0u);
  EXPECT_EQ(pool.statistics().reserved, 0u);
}

TEST(pinned_pool, nothing_has_room_for_nothing) {
  pinned_pool pool(0);
  extent e{1, 1};
  pinned_pool::reservation p;
  EXPECT_TRUE(pool.allocate(0, e));
  EXPECT_EQ(e.size, 0u);
  EXPECT_FALSE(pool.allocate(1, e));
  EXPECT_FALSE(pool.reserve(1, p));
}

// The device's fill level is to be made zero before the first frame of a run, also where the host had no memory for the
// books of the one that would have been the first.
TEST(pinned_pool, a_reservation_that_throws_leaves_the_next_one_fresh) {
  unsigned thrown = 0;
  for (int failing = 0;; ++failing) {
    pinned_pool pool(10 * unit);
    pinned_pool::reservation before, failed, after;
    ASSERT_TRUE(pool.reserve(unit, before));
    EXPECT_TRUE(before.fresh);
    pool.deallocate(pool.settle(before, 0, unit));  // all is free again, but the fill level is not zero
    allocations_left = failing;
    try {
      static_cast<void>(pool.reserve(unit, failed));
      if (allocations_left >= 0) {
        allocations_left = -1;
        break;
      }
    } catch (const std::bad_alloc&) {
      ++thrown;
    }
    allocations_left = -1;
    ASSERT_TRUE(pool.reserve(unit, after));
    EXPECT_TRUE(after.fresh) << failing;
    EXPECT_EQ(pool.statistics().reserved, unit);
  }
  EXPECT_GE(thrown, 1u);
}

// Each handle takes two allocations of its own, and the simulator one for its event.
TEST(signal_pool, many_handles_take_few_allocations) {
  constexpr int count = 1000;
  std::vector<detail::signal_pool::handle> handles(count);
  detail::signal_pool pool;
  allocations_left = 3 * count + 20;
  for (auto& l : handles) l = pool.acquire();
  EXPECT_GE(allocations_left, 0);
  allocations_left = -1;
}

// Handles are destroyed where nothing may throw.
TEST(signal_pool, returning_handles_takes_no_allocations) {
  for (const size_t count : {1u, 2u, 3u, 5u, 9u}) {
    std::vector<detail::signal_pool::handle> handles(count);
    detail::signal_pool pool;
    for (auto& l : handles) l = pool.acquire();
    allocations_left = 0;
    for (auto& l : handles) l = nullptr;
    EXPECT_EQ(allocations_left, 0);
    allocations_left = -1;
  }
}

TEST(pinned_pool, impossible_sizes_throw) { EXPECT_THROW(pinned_pool(uint64_t{1} << 60), error); }

}  // namespace
}  // namespace tuck::test
