#include <tuck/swap/extents.hpp>

#include <gtest/gtest.h>

#include <random>
#include <vector>

extern thread_local int allocations_left;  // failing_new.cpp

namespace tuck {
namespace {

TEST(free_extents, the_smallest_that_is_large_enough_is_taken) {
  free_extents free(100);
  extent a, b, c, d;
  ASSERT_TRUE(free.allocate(10, a) && free.allocate(30, b) && free.allocate(20, c));
  EXPECT_EQ(a, (extent{0, 10}));
  EXPECT_EQ(b, (extent{10, 30}));
  EXPECT_EQ(c, (extent{40, 20}));
  free.deallocate(b);  // now 30 at 10, and 40 at 60
  EXPECT_EQ(free.largest(), 40u);
  ASSERT_TRUE(free.allocate(25, d));
  EXPECT_EQ(d, (extent{10, 25}));
  EXPECT_FALSE(free.allocate(41, b));
  ASSERT_TRUE(free.allocate(40, b));
  EXPECT_EQ(free.largest(), 5u);
}

TEST(free_extents, neighbours_are_joined) {
  free_extents free(90);
  extent a, b, c;
  ASSERT_TRUE(free.allocate(30, a) && free.allocate(30, b) && free.allocate(30, c));
  EXPECT_EQ(free.largest(), 0u);
  free.deallocate(a);
  free.deallocate(c);
  EXPECT_EQ(free.largest(), 30u);
  free.deallocate(b);
  EXPECT_EQ(free.largest(), 90u);
}

TEST(free_extents, the_largest_is_taken_whole) {
  free_extents free(100);
  extent a, b, rest;
  ASSERT_TRUE(free.allocate(60, a) && free.allocate(10, b));
  free.deallocate(a);
  EXPECT_FALSE(free.allocate_largest(61, rest));
  ASSERT_TRUE(free.allocate_largest(60, rest));
  EXPECT_EQ(rest, a);
  ASSERT_TRUE(free.allocate_largest(1, rest));
  EXPECT_EQ(rest, (extent{70, 30}));
  EXPECT_FALSE(free.allocate_largest(1, rest));
}

TEST(free_extents, nothing_has_no_room) {
  free_extents free(0);
  extent e;
  EXPECT_FALSE(free.allocate(1, e));
  EXPECT_FALSE(free.allocate_largest(0, e));
  EXPECT_EQ(free.largest(), 0u);
}

// One word for each piece, and now and then room for twice as many.
TEST(free_extents, expecting_many_pieces_takes_few_allocations) {
  constexpr int pieces = 2000;
  free_extents free(pieces);
  allocations_left = pieces + 20;
  for (int i = 0; i < pieces; ++i) free.expect();
  EXPECT_GE(allocations_left, 0);
  allocations_left = -1;
}

// A call of deallocate that has been made, or cancelled, is expected no longer.
TEST(free_extents, what_has_been_freed_takes_no_memory) {
  free_extents free(100);
  extent e;
  ASSERT_TRUE(free.allocate(10, e));
  free.deallocate(e);
  allocations_left = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(free.allocate(10, e));
    free.deallocate(e);
  }
  EXPECT_EQ(allocations_left, 0);
  for (int i = 0; i < 100; ++i) {
    free.expect();
    free.forget();
  }
  EXPECT_EQ(allocations_left, 0);
  allocations_left = -1;
}

// Against a map of bytes: no byte is handed out twice, and whatever is free is found.
TEST(free_extents, agree_with_a_map_of_bytes) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    constexpr uint64_t size = 300;
    free_extents free(size);
    std::vector<bool> taken(size, false);
    std::vector<extent> out;
    const auto longest_gap = [&] {
      uint64_t best = 0, now = 0;
      for (const bool t : taken) best = std::max(best, now = t ? 0 : now + 1);
      return best;
    };
    const auto mark = [&](extent e, bool value) {
      for (uint64_t i = e.begin; i < e.end(); ++i) {
        ASSERT_NE(taken.at(i), value);
        taken[i] = value;
      }
    };
    for (int step = 0; step < 400; ++step) {
      extent e;
      if (random() % 2 == 0) {
        const uint64_t wanted = 1 + random() % 40, gap = longest_gap();
        const bool whole = random() % 8 == 0;
        ASSERT_EQ(whole ? free.allocate_largest(wanted, e) : free.allocate(wanted, e), wanted <= gap);
        if (wanted > gap) continue;
        ASSERT_EQ(e.size, whole ? gap : wanted);
        mark(e, true);
        out.push_back(e);
      } else if (!out.empty()) {
        std::swap(out[random() % out.size()], out.back());
        e = out.back();
        out.pop_back();
        if (e.size > 1 && random() % 3 == 0) {  // only its end
          const uint64_t kept = 1 + random() % (e.size - 1);
          out.push_back({e.begin, kept});
          free.expect();
          e = {e.begin + kept, e.size - kept};
        }
        mark(e, false);
        free.deallocate(e);
      }
      ASSERT_EQ(free.largest(), longest_gap());
    }
    uint64_t sum = 0;
    for (extent e; free.allocate_largest(1, e);) sum += e.size;
    ASSERT_EQ(sum, static_cast<uint64_t>(std::count(taken.begin(), taken.end(), false)));
  }
}

}  // namespace
}  // namespace tuck
