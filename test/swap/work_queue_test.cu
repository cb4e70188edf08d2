#include <tuck/swap/host_encoder.cuh>

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <latch>

namespace tuck {
namespace {

TEST(work_queue, does_everything_and_says_when) {
  work_queue queue(3);
  std::atomic<int> sum{0};
  for (int i = 1; i <= 100; ++i) EXPECT_TRUE(queue.add([&sum, i] { sum += i; }));
  queue.wait();
  EXPECT_EQ(sum, 5050);
  EXPECT_TRUE(queue.is_idle());
}

TEST(work_queue, one_thread_keeps_the_order) {
  work_queue queue(1);
  std::vector<int> seen;
  for (int i = 0; i < 50; ++i) queue.add([&seen, i] { seen.push_back(i); });
  queue.wait();
  ASSERT_EQ(seen.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
}

TEST(work_queue, waits_for_what_runs) {
  work_queue queue(1);
  std::latch started(1), go(1);
  queue.add([&] {
    started.count_down();
    go.wait();
  });
  started.wait();
  EXPECT_FALSE(queue.is_idle());
  go.count_down();
  queue.wait();
  EXPECT_TRUE(queue.is_idle());
}

TEST(work_queue, stopping_does_what_is_left) {
  std::atomic<int> done{0};
  {
    work_queue queue(2);
    for (int i = 0; i < 20; ++i) queue.add([&] { ++done; });
    queue.stop();
    EXPECT_EQ(done, 20);
    EXPECT_FALSE(queue.add([&] { ++done; }));
  }
  EXPECT_EQ(done, 20);
}

TEST(work_queue, without_threads_takes_nothing) {
  work_queue queue(0);
  EXPECT_FALSE(queue.add([] {}));
  queue.wait();
}

// Threads that have a stack of this size cannot be started.
class default_stack {
 public:
  explicit default_stack(size_t size) {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t attributes;
    EXPECT_EQ(pthread_attr_init(&attributes), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&attributes, size), 0);
    EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
  }
  default_stack(const default_stack&) = delete;
  ~default_stack() {
    EXPECT_EQ(pthread_setattr_default_np(&before_), 0);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

TEST(work_queue, takes_nothing_if_no_thread_can_be_started) {
  const default_stack too_large(size_t{1} << 47);
  work_queue queue(2);
  EXPECT_FALSE(queue.add([] {}));
  queue.wait();
  queue.stop();
}

}  // namespace
}  // namespace tuck
