// What an evicting_pool does when memory is short of one kind, of the other or of both, and when it is misused.
#include "support/device.hpp"

#include <evicting_pool/evicting_pool.cuh>

#include <latch>
#include <thread>

namespace tuck::test {
namespace {

// Says that memory is out as CUDA does, where the example's says it as C++ does.
class limited_resource {
 public:
  explicit limited_resource(uint64_t most) : left(most) {}
  void* allocate(cudaStream_t stream, size_t size, size_t = 256) {
    if (size > left) throw error(cudaErrorMemoryAllocation);
    void* const p = memory_.allocate(stream, size);
    left -= size;
    return p;
  }
  void deallocate(cudaStream_t stream, void* p, size_t size, size_t = 256) noexcept {
    memory_.deallocate(stream, p, size);
    left += size;
  }
  uint64_t left;

 private:
  async_resource memory_;
};

using pool = example::evicting_pool<limited_resource>;
constexpr uint64_t count = 4096 + 77, bytes = count * sizeof(float);
constexpr uint64_t overhead = 1024;  // of a pool: counters, scratch, the reserve

std::vector<float> values_of(uint64_t i) { return sparse_tensor<float>(count, .7, pattern::iid, i + 1); }

void write(pool::tensor<float>& t, const std::vector<float>& values, cudaStream_t stream) {
  const span<float> to = t.lock(stream);
  check(cudaMemcpyAsync(to.data(), values.data(), to.size_bytes(), cudaMemcpyDefault, stream));
  check(cudaStreamSynchronize(stream));
  t.unlock(stream);
}
std::vector<float> read(pool::tensor<float>& t, cudaStream_t stream) {
  std::vector<float> values(t.size());
  const span<float> from = t.lock(stream);
  check(cudaMemcpyAsync(values.data(), from.data(), from.size_bytes(), cudaMemcpyDefault, stream));
  check(cudaStreamSynchronize(stream));
  t.unlock(stream);
  return values;
}

// What a call throws; ok: nothing.
template <class Call> status thrown(const Call& call) {
  try {
    call();
    return status::ok;
  } catch (const error& e) {
    return e.code();
  }
}

TEST(evicting_pool, offloads_what_was_used_longest_ago) {
  const device_stream stream;
  limited_resource upstream(2 * bytes + overhead);
  pool memory({.pinned_bytes = 1 << 20}, upstream);
  std::vector<pool::tensor<float>> tensors;
  for (uint64_t i = 0; i < 3; ++i) tensors.push_back(memory.make<float>(count));
  const auto restored_by = [&](uint64_t i) {
    const uint64_t before = memory.statistics().restored;
    EXPECT_TRUE(same_bits(read(tensors[i], stream), values_of(i))) << i;
    return memory.statistics().restored - before;
  };
  for (uint64_t i = 0; i < 3; ++i) write(tensors[i], values_of(i), stream);
  EXPECT_EQ(memory.statistics().offloaded, 1u);
  EXPECT_EQ(restored_by(1), 0u);
  EXPECT_EQ(restored_by(2), 0u);
  EXPECT_EQ(restored_by(0), 1u);  // for 1; its frame has no room, and is decoded from pinned memory
  EXPECT_EQ(restored_by(0), 0u);
  EXPECT_EQ(restored_by(2), 0u);
  EXPECT_EQ(memory.statistics().offloaded, 2u);
}

TEST(evicting_pool, gives_back_all_that_it_took) {
  const device_stream stream;
  limited_resource upstream(3 * bytes + overhead);
  {
    pool memory({.pinned_bytes = 1 << 20}, upstream);
    std::vector<pool::tensor<float>> tensors;
    for (uint64_t i = 0; i < 6; ++i) write(tensors.emplace_back(memory.make<float>(count)), values_of(i), stream);
    tensors[2].lock(stream);  // destroyed as it is
    tensors.push_back(memory.make<float>(0));
    EXPECT_EQ(tensors.back().lock(stream).size(), 0u);
    tensors.clear();
    check(cudaStreamSynchronize(stream));
    EXPECT_EQ(memory.statistics().pinned.held, 0u);
  }
  EXPECT_EQ(upstream.left, 3 * bytes + overhead);
}

TEST(evicting_pool, throws_what_upstream_throws_when_nothing_is_left_to_offload) {
  const device_stream stream;
  limited_resource upstream(2 * bytes + overhead);
  pool memory({.pinned_bytes = 1 << 20}, upstream);
  auto a = memory.make<float>(count), b = memory.make<float>(count), c = memory.make<float>(count);
  write(a, values_of(0), stream);
  write(b, values_of(1), stream);
  a.lock(stream), b.lock(stream);
  EXPECT_EQ(thrown([&] { c.lock(stream); }), status::cuda_error);
  EXPECT_EQ(thrown([&] { memory.allocate(stream, 3 * bytes); }), status::cuda_error);
  a.unlock(stream), b.unlock(stream);
  EXPECT_EQ(thrown([&] { memory.allocate(stream, 3 * bytes); }), status::cuda_error);
  void* const p = memory.allocate(stream, bytes + bytes / 2);
  memory.deallocate(stream, p, bytes + bytes / 2);
  write(c, values_of(2), stream);
  EXPECT_TRUE(same_bits(read(a, stream), values_of(0)));
  EXPECT_TRUE(same_bits(read(b, stream), values_of(1)));
  EXPECT_TRUE(same_bits(read(c, stream), values_of(2)));
}

// Encoding takes scratch, which must not be had from the memory that it is to make.
TEST(evicting_pool, offloads_when_there_is_not_a_byte_left) {
  const device_stream stream;
  limited_resource upstream(5 * bytes + overhead);
  pool memory({.pinned_bytes = 1 << 20}, upstream);
  auto small = memory.make<float>(count), large = memory.make<float>(2 * count);
  write(small, values_of(0), stream);
  write(large, noise<float>(2 * count), stream);
  const uint64_t left = upstream.left;
  void* const rest = memory.allocate(stream, left);
  ASSERT_EQ(upstream.left, 0u);
  void* const p = memory.allocate(stream, bytes / 2);  // of the small one
  void* const q = memory.allocate(stream, bytes);      // needs the large one, and more scratch for it
  EXPECT_EQ(memory.statistics().offloaded, 2u);
  memory.deallocate(stream, p, bytes / 2);
  memory.deallocate(stream, q, bytes);
  memory.deallocate(stream, rest, left);
  EXPECT_TRUE(same_bits(read(small, stream), values_of(0)));
  EXPECT_TRUE(same_bits(read(large, stream), noise<float>(2 * count)));
}

// Noise does not shrink: one of the three fits, and it is the smaller one that goes, though it was used last.
TEST(evicting_pool, leaves_tensors_where_pinned_memory_is_full) {
  for (const on_full full : {on_full::keep_on_device, on_full::fail, on_full::block}) {
    SCOPED_TRACE(static_cast<int>(full));
    const device_stream stream;
    limited_resource upstream(3 * bytes + overhead);
    pool memory({.pinned_bytes = 18 << 10, .full = full}, upstream);
    const auto large = noise<float>(2 * count), small = noise<float>(1000);
    auto a = memory.make<float>(2 * count), b = memory.make<float>(1000);
    write(a, large, stream);
    write(b, small, stream);
    void* const p = memory.allocate(stream, bytes - 2000);
    EXPECT_EQ(memory.statistics().bytes_out, 4000u);
    EXPECT_EQ(thrown([&] { memory.allocate(stream, 4000); }), status::cuda_error);
    EXPECT_TRUE(same_bits(read(a, stream), large));
    memory.deallocate(stream, p, bytes - 2000);
    EXPECT_TRUE(same_bits(read(b, stream), small));
  }
}

TEST(evicting_pool, refuses_what_is_wrong) {
  const device_stream stream;
  limited_resource upstream(4 * bytes);
  pool memory({.pinned_bytes = 1 << 16}, upstream);
  auto t = memory.make<float>(count);
  EXPECT_EQ(thrown([&] { t.unlock(stream); }), status::invalid_argument);
  t.lock(stream);
  EXPECT_EQ(thrown([&] { t.lock(stream); }), status::invalid_argument);
  t.unlock(stream);
  EXPECT_EQ(thrown([&] { static_cast<void>(memory.make<float>(~uint64_t{0})); }), status::invalid_argument);
}

// A tensor that nobody can ever lock takes nothing from the others.
TEST(evicting_pool, what_cannot_be_locked_is_in_nobody_s_way) {
  const device_stream stream;
  limited_resource upstream(2 * bytes + overhead);
  pool memory({.pinned_bytes = 1 << 20}, upstream);
  auto vast = memory.make<float>(uint64_t{1} << 30);
  EXPECT_NE(thrown([&] { vast.lock(stream); }), status::ok);
  auto t = memory.make<float>(count);
  write(t, values_of(1), stream);
  EXPECT_TRUE(same_bits(read(t, stream), values_of(1)));
}

// A graph would do again what the pool does once: neither is a captured stream served, nor are its tensors offloaded.
TEST(evicting_pool, keeps_out_of_captures) {
  const device_stream captured, stream;
  limited_resource upstream(2 * bytes + overhead);
  pool memory({.pinned_bytes = 1 << 20}, upstream);
  auto a = memory.make<float>(count), b = memory.make<float>(count);
  write(b, values_of(2), stream);
  write(a, values_of(1), captured);
  auto c = memory.make<float>(count);
  write(c, values_of(3), stream);
  write(a, values_of(1), captured);
  write(b, values_of(2), stream);
  {
    const capture_scope capture(captured);
    EXPECT_EQ(thrown([&] { b.lock(captured); }), status::not_swappable);
    EXPECT_EQ(thrown([&] { memory.allocate(captured, 16); }), status::not_swappable);
    c.lock(stream), c.unlock(stream);  // for which b is offloaded, and not a, which was used longer ago
    EXPECT_GT(memory.statistics().offloaded, 0u);
    cudaStreamCaptureStatus status_of_stream = cudaStreamCaptureStatusActive;
    check(cudaStreamIsCapturing(stream, &status_of_stream));
    EXPECT_EQ(status_of_stream, cudaStreamCaptureStatusNone);
  }
  EXPECT_TRUE(same_bits(read(a, stream), values_of(1)));
  EXPECT_TRUE(same_bits(read(b, stream), values_of(2)));
}

TEST(evicting_pool, is_for_many_threads) {
  const device_stream streams[3];
  limited_resource upstream(5 * bytes + overhead);
  pool memory({.pinned_bytes = 1 << 20}, upstream);
  std::latch written(3);  // then there are twelve tensors, and room for five, whatever the order of the threads
  std::vector<std::thread> threads;
  for (uint64_t k = 0; k < 3; ++k)
    threads.emplace_back([&, k] {
      std::vector<pool::tensor<float>> mine;
      for (uint64_t i = 0; i < 4; ++i)
        write(mine.emplace_back(memory.make(count, rle<float>{})), values_of(4 * k + i), streams[k]);
      written.arrive_and_wait();
      for (uint64_t round = 0; round < 2; ++round)
        for (uint64_t i = 0; i < 4; ++i)
          EXPECT_TRUE(same_bits(read(mine[i], streams[(k + round) % 3]), values_of(4 * k + i))) << k << ' ' << i;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_GT(memory.statistics().offloaded, 6u);
}

#if defined(TUCK_CUDASIM)
// Whatever CUDA call of a lock fails: it throws, and all tensors are what they were.
TEST(evicting_pool, an_error_leaves_everything_as_it_was) {
  for (const cudaError_t failure : {cudaErrorUnknown, cudaErrorMemoryAllocation}) {
    const device_stream stream, other;
    limited_resource upstream(2 * bytes + overhead);
    pool memory({.pinned_bytes = 1 << 20}, upstream);
    std::vector<pool::tensor<float>> tensors;
    for (uint64_t i = 0; i < 3; ++i) write(tensors.emplace_back(memory.make<float>(count)), values_of(i), stream);
    uint64_t thrown_by = 0;
    for (uint64_t k = 1; k <= 40; k += brief ? 4 : 1) {
      for (auto& t : tensors) {
        cudasim::fail_call(k, failure);
        thrown_by += thrown([&] { t.lock(other), t.unlock(other); }) != status::ok;
        cudasim::fail_call(0, cudaSuccess);
      }
      for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(read(tensors[i], stream), values_of(i))) << k << ' ' << i;
    }
    EXPECT_GT(thrown_by, 0u);
  }
}
#endif

}  // namespace
}  // namespace tuck::test
