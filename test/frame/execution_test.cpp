// A caller's threads do a call's work.
#include "support/codecs.hpp"

#include <tuck/host.hpp>

#include <condition_variable>
#include <mutex>
#include <set>

namespace tuck::test {
namespace {

using host::executor;
using host::task;

static_assert(std::is_convertible_v<void (&)(unsigned, task), executor>);
static_assert(!std::is_convertible_v<void (&)(unsigned), executor> &&
              std::is_nothrow_default_constructible_v<executor>);

// Threads that stay.
class pool {
 public:
  explicit pool(unsigned threads) {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this](const std::stop_token& stop) { serve(stop); });
  }

  void operator()(unsigned count, task all) {
    std::unique_lock lock(mutex_);
    all_ = &all;
    next_ = 0;
    count_ = left_ = count;
    ++calls;
    changed_.notify_all();
    done_.wait(lock, [&] { return left_ == 0; });
  }

  int calls = 0;
  std::set<std::thread::id> seen;

 private:
  void serve(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return next_ < count_; })) {
      const unsigned i = next_++;
      const task all = *all_;
      seen.insert(std::this_thread::get_id());
      lock.unlock();
      all(i);
      lock.lock();
      if (--left_ == 0) done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_, done_;
  unsigned next_ = 0, count_ = 0, left_ = 0;
  const task* all_ = nullptr;
  std::vector<std::jthread> threads_;
};

// ZVC that tells which threads it ran on.
struct watched : zvc<float> {
  static inline std::mutex mutex;
  static inline std::set<std::thread::id> threads;

  uint32_t encode_chunk(span<const float> values, bytes room) const noexcept {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return zvc<float>::encode_chunk(values, room);
  }
};

template <class C> std::vector<std::byte> frame_of(const C& codec, const auto& values, const host::execution& how) {
  std::vector<std::byte> frame(max_frame_bytes(codec, values.size()));
  const outcome o = host::encode(codec, values, frame, {}, how);
  EXPECT_TRUE(o);
  frame.resize(o.bytes);
  return frame;
}

template <class Pool> void check_frames(Pool& threads) {
  const auto values = sparse_tensor<float>(500'000, .6);
  const auto codec = quantize<float>(error_bound::range_relative(1e-3));
  std::atomic<uint64_t> chunks{0};
  const host::execution how{.threads = 3, .chunks_done = &chunks, .pool = threads};
  const auto frame = frame_of(codec, values, {});
  EXPECT_EQ(frame_of(codec, values, how), frame);
  EXPECT_EQ(host::encoded_bytes(codec, span<const float>(values), {}, how).bytes, frame.size());
  std::vector<float> whole(values.size()), part(200'000), expected(values.size());
  EXPECT_TRUE(host::decode(codec, frame, expected));
  EXPECT_TRUE(host::decode(codec, frame, whole, 0, how));
  EXPECT_TRUE(host::decode(codec, frame, part, 7, how));
  EXPECT_TRUE(same_bits(whole, expected));
  EXPECT_TRUE(same_bits(part, {expected.begin() + 7, expected.begin() + 7 + 200'000}));
  EXPECT_GT(chunks, 2 * 500'000u / 4096);
}

TEST(execution, runs_on_a_pool) {
  pool threads(3);
  check_frames(threads);
  EXPECT_GE(threads.calls, 4);
  EXPECT_FALSE(threads.seen.contains(std::this_thread::get_id()));
}

TEST(execution, may_be_one_after_the_other) {
  int calls = 0;
  auto in_turn = [&](unsigned count, task all) {
    ++calls;
    for (unsigned i = count; i-- > 0;) all(i);
  };
  check_frames(in_turn);
  EXPECT_GE(calls, 4);
}

TEST(execution, starts_no_threads_beside_a_pool) {
  const auto values = sparse_tensor<float>(1'000'000, .5);
  auto in_turn = [](unsigned count, task all) {
    for (unsigned i = 0; i < count; ++i) all(i);
  };
  watched::threads.clear();
  frame_of(watched{}, values, {.threads = 4, .pool = in_turn});
  EXPECT_EQ(watched::threads, std::set{std::this_thread::get_id()});
}

TEST(execution, of_one_thread_asks_no_pool) {
  int calls = 0;
  auto counted = [&](unsigned count, task all) {
    ++calls;
    for (unsigned i = 0; i < count; ++i) all(i);
  };
  const auto values = sparse_tensor<float>(1'000'000, .5), few = sparse_tensor<float>(1000, .5);
  frame_of(zvc<float>{}, values, {.pool = counted});
  frame_of(zvc<float>{}, few, {.threads = 4, .pool = counted});
  EXPECT_EQ(calls, 0);
}

TEST(execution, of_batches_runs_on_a_pool) {
  std::vector<std::vector<float>> tensors;
  for (uint64_t i = 0; i < 100; ++i) tensors.push_back(sparse_tensor<float>(i == 50 ? 2'000'000 : 10 * i, .7));
  std::vector<std::vector<std::byte>> frames(tensors.size());
  std::vector<std::vector<float>> restored;
  std::vector<encode_item<float>> from;
  std::vector<decode_item<float>> to;
  for (const auto& values : tensors) restored.emplace_back(values.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    frames[i].resize(max_frame_bytes(zvc<float>{}, tensors[i].size()));
    from.push_back({tensors[i], frames[i]});
    to.push_back({frames[i], restored[i]});
  }
  pool threads(2);
  std::vector<outcome> packed(tensors.size()), unpacked(tensors.size());
  const host::execution how{.threads = 2, .pool = threads};
  ASSERT_TRUE(host::encode_batch(zvc<float>{}, from, packed, {}, how));
  ASSERT_TRUE(host::decode_batch(zvc<float>{}, to, unpacked, how));
  for (size_t i = 0; i < tensors.size(); ++i) {
    ASSERT_TRUE(packed[i] && unpacked[i]);
    frames[i].resize(packed[i].bytes);
    ASSERT_EQ(frames[i], frame_of(zvc<float>{}, tensors[i], {}));
    ASSERT_TRUE(same_bits(restored[i], tensors[i]));
  }
  EXPECT_EQ(threads.calls, 4);  // the large one by itself, then the others
  EXPECT_FALSE(threads.seen.contains(std::this_thread::get_id()));
}

}  // namespace
}  // namespace tuck::test
