// What a swap_stream does with one tensor or a few: paths, policies, bytes held, what is refused.
#include "support/device.hpp"

#include <tuck/model.hpp>
#include <tuck/swap.cuh>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

namespace mine {

// Offloads what it can never bring back.
struct forgetful : tuck::zvc<float> {
  TUCK_HD static tuck::status from_stages(const tuck::stage_list& stages, forgetful&) noexcept {
    return stages == tuck::zvc<float>{}.stages() ? tuck::status::ok : tuck::status::codec_mismatch;
  }
};

// Has chunks that hosts take and kernels do not.
struct wide_chunks : tuck::zvc<float> {
  static constexpr uint32_t chunk_bytes = 32 * 1024;
};

// On the CPU encodes nothing before it may.
inline std::atomic<bool> late_may_begin = false;
struct late : tuck::zvc<float> {
  static uint32_t encode_chunk(tuck::span<const float> values, tuck::bytes room) noexcept {
    late_may_begin.wait(false);
    return tuck::zvc<float>{}.encode_chunk(values, room);
  }
};

}  // namespace mine

template <int Threads>
struct tuck::block_codec<mine::wide_chunks, Threads> : tuck::block_codec<tuck::zvc<float>, Threads> {
  using tuck::block_codec<tuck::zvc<float>, Threads>::block_codec;
};

template <int Threads> struct tuck::block_codec<mine::late, Threads> : tuck::block_codec<tuck::zvc<float>, Threads> {
  using tuck::block_codec<tuck::zvc<float>, Threads>::block_codec;
};

template <int Threads>
struct tuck::block_codec<mine::forgetful, Threads> : tuck::block_codec<tuck::zvc<float>, Threads> {
  using tuck::block_codec<tuck::zvc<float>, Threads>::block_codec;
  template <class Sink> __device__ status read(const mine::forgetful&, const std::byte*, uint32_t, uint32_t, Sink&) {
    return status::bad_payload;
  }
};

namespace tuck::test {
namespace {

constexpr swap_path all_paths[] = {swap_path::direct, swap_path::staged, swap_path::raw, swap_path::cpu};

void expect_ok(result r) { EXPECT_EQ(r.code, status::ok) << message(r); }
void expect_code(result r, status code) { EXPECT_EQ(r.code, code) << message(r.code); }

// Of a tensor after ReLU, as zvc makes it, in whole units of the pool.
uint64_t pooled_bytes(const std::vector<float>& values) {
  return pinned_pool::round_up(host::encoded_bytes(zvc<float>{}, values, {.alignment = append_alignment}).bytes);
}

// A tensor on the device, and a stream.
struct bench {
  explicit bench(std::vector<float> v) : values(std::move(v)), from(values, stream), to(values.size()) {}
  explicit bench(uint64_t count, double sparsity = .6) : bench(sparse_tensor<float>(count, sparsity)) {}
  span<const float> source() const { return from.all(); }
  bool is_back() const { return same_bits(to.download(stream), values); }

  std::vector<float> values;
  device_stream stream;
  device_array<float> from, to;
  async_resource memory;
};

// Launches each kernel that the tests launch while a gate is closed.
void load_kernels() {
  bench b(4096);
  for (const swap_path path : all_paths) {
    swap_stream swap({.pinned_bytes = 1 << 16, .path = path}, b.memory);
    swap_handle handle;
    expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
    expect_ok(swap.in(handle, b.to.all(), b.stream));
    expect_ok(swap.drain());
    expect_ok(swap.in(handle, b.to.all(), b.stream));
    expect_ok(swap.drain());
  }
}

// Keeps a stream waiting. While it is closed, the test must not make calls that may wait for the device: allocations of
// pinned memory and by cudaMalloc, first launches of kernels. Nor must it wait for what comes behind another host
// function, for CUDA may run them one at a time; a swap_stream that encodes on the CPU has some.
class gate {
 public:
  explicit gate(cudaStream_t stream) : stream_(stream) {
    static const bool loaded = (load_kernels(), true);
    static_cast<void>(loaded);
    check(cudaLaunchHostFunc(stream, wait, &opened_));
  }
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;
  ~gate() {
    open();
    check(cudaStreamSynchronize(stream_));  // the host function reads opened_
  }
  void open() {
    opened_ = true;
    opened_.notify_all();
  }

 private:
  static void wait(void* opened) { static_cast<std::atomic<bool>*>(opened)->wait(false); }
  cudaStream_t stream_;
  std::atomic<bool> opened_{false};
};

TEST(swap_stream, a_tensor_goes_out_and_comes_back) {
  for (const swap_path path : all_paths)
    for (const bool early : {false, true})
      for (const bool ahead : {false, true}) {
        SCOPED_TRACE(std::to_string(static_cast<int>(path)) + (early ? " at once" : " later") +
                     (ahead ? " prefetched" : ""));
        bench b(5 * 4096 + 77);
        swap_stream swap({.pinned_bytes = 1 << 20, .path = path}, b.memory);
        swap_handle handle;
        expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
        expect_ok(handle.wait_source(b.stream));
        check(cudaMemsetAsync(b.from.data(), 0xff, b.source().size_bytes(), b.stream));
        if (!early) expect_ok(swap.drain());
        if (ahead) expect_ok(swap.prefetch(handle));
        for (int again = 0; again < 2; ++again) {
          check(cudaMemsetAsync(b.to.data(), 0xff, b.source().size_bytes(), b.stream));
          expect_ok(swap.in(handle, b.to.all(), b.stream));
          EXPECT_TRUE(b.is_back());
        }
        expect_ok(swap.drain());
        handle.reset();
        EXPECT_EQ(swap.statistics().held, 0u);
        EXPECT_EQ(swap.statistics().reserved, 0u);
        EXPECT_EQ(swap.statistics().wasted, 0u);
      }
}

TEST(swap_stream, tensors_may_be_on_default_streams) {
  for (const cudaStream_t stream : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread})
    for (const swap_path path : all_paths) {
      bench b(5 * 4096 + 77);
      swap_stream swap({.pinned_bytes = 1 << 20, .path = path}, b.memory);
      swap_handle handle;
      expect_ok(swap.out(zvc<float>{}, b.source(), stream, handle));
      expect_ok(handle.wait_source(stream));
      check(cudaMemsetAsync(b.from.data(), 0xff, b.source().size_bytes(), stream));
      expect_ok(swap.in(handle, b.to.all(), stream));
      EXPECT_TRUE(same_bits(b.to.download(stream), b.values));
    }
}

TEST(swap_stream, bytes_without_a_codec_go_as_they_are) {
  bench b(1000);
  swap_stream swap({.pinned_bytes = 1 << 13}, b.memory);
  swap_handle handle;
  expect_ok(swap.out(as_bytes(b.source()), b.stream, handle));
  EXPECT_EQ(handle.raw_bytes(), 4000u);
  EXPECT_EQ(handle.host_bytes(), 4096u);
  expect_ok(swap.in(handle, b.to.all(), b.stream));
  EXPECT_TRUE(b.is_back());
}

TEST(swap_stream, takes_a_codec_that_was_chosen_at_run_time) {
  bench b(100'000);
  swap_stream swap({.pinned_bytes = 1 << 20}, b.memory);
  swap_handle handle;
  any_codec<codec_list<zvc<float>>> codec;
  const const_bytes values = as_bytes(b.source());
  expect_code(swap.out(codec, values, b.stream, handle), status::unknown_codec);
  EXPECT_EQ(codec.choose("zvc", dtype::f32), status::ok);
  expect_code(swap.out(codec, values.subspan(1), b.stream, handle), status::invalid_argument);
  expect_ok(swap.out(codec, values, b.stream, handle));
  expect_ok(swap.in(handle, b.to.all(), b.stream));
  EXPECT_TRUE(b.is_back());
  // Of any alignment where a known codec's may have any.
  expect_ok(swap.out(codec, values.subspan(2, 4000), b.stream, handle, swap_path::raw));
  expect_ok(swap.drain());
}

TEST(swap_stream, encodes_values_of_the_type_that_was_chosen) {
  bench b(10'000);
  swap_stream swap({.pinned_bytes = 1 << 20}, b.memory);
  swap_handle handle;
  const const_bytes values = as_bytes(b.source());
  using codecs = codec_list<zvc<float>, zvc<untyped<4>>>;
  expect_code(swap.out(any_codec<codecs>(zvc<untyped<4>>{}), values, b.stream, handle), status::unsupported_type);
  expect_code(swap.out(any_codec<codecs>(zvc<float>{}, dtype::u32), values, b.stream, handle),
              status::unsupported_type);
  expect_ok(swap.out(any_codec<codecs>(zvc<untyped<4>>{}, dtype::f32), values, b.stream, handle));
  expect_ok(swap.in(handle, b.to.all(), b.stream));
  EXPECT_TRUE(b.is_back());
  expect_ok(swap.drain());
}

TEST(swap_stream, goes_the_way_that_was_decided) {
  bench b(sparse_tensor<float>(4 * 4096, .8, pattern::clustered));
  swap_stream swap({.pinned_bytes = 1 << 20}, b.memory);
  const std::tuple codecs(rle<float>{}, zvc<float>{});
  const uint64_t raw = b.source().size_bytes(), by_zvc = pooled_bytes(b.values);
  using mode = swap_decision::mode;
  const auto held = [&](const swap_decision& decision) {
    swap_handle handle;
    expect_ok(swap.out(decision, codecs, b.source(), b.stream, handle));
    check(cudaMemsetAsync(b.to.data(), 0xff, raw, b.stream));
    expect_ok(swap.in(handle, b.to.all(), b.stream));
    EXPECT_TRUE(b.is_back());
    expect_ok(swap.drain());
    return handle.host_bytes();
  };
  EXPECT_EQ(held({.how = mode::raw}), raw);
  EXPECT_EQ(held({.how = mode::encode, .codec = 1}), by_zvc);
  EXPECT_LT(held({.how = mode::encode, .codec = 0}), by_zvc);
  swap_handle handle;
  const span<const float> all = b.source();
  expect_ok(swap.out(swap_decision{.how = mode::raw}, codecs, {all.data(), all.size()}, b.stream, handle));
  handle.reset();
  expect_code(swap.out(swap_decision{.how = mode::recompute}, codecs, b.source(), b.stream, handle),
              status::invalid_argument);
  expect_code(swap.out(swap_decision{.how = mode::encode, .codec = 2}, codecs, b.source(), b.stream, handle),
              status::invalid_argument);
  EXPECT_FALSE(handle);
}

TEST(swap_stream, takes_an_advisor) {
  bench b(4 * 4096, .8);
  swap_stream swap({.pinned_bytes = 1 << 20}, b.memory);
  advised_codec fast;
  for (const uint64_t size : {1 << 10, 1 << 14, 1 << 16, 1 << 18})
    for (const double s : {.2, .5, .9})
      fast.predictor.add(size, s, double(size) / 200e9, double(size) / 200e9, zvc_ratio(s, 4));
  advisor by({.d2h = 10e9, .h2d = 10e9}, {fast});
  const size_t x = by.add({.bytes = b.source().size_bytes()});
  const std::tuple codecs(zvc<float>{});
  const auto held = [&] {
    swap_handle handle;
    expect_ok(swap.out(by.decision(x), codecs, b.source(), b.stream, handle));
    expect_ok(swap.drain());
    return handle.host_bytes();
  };
  EXPECT_EQ(held(), b.source().size_bytes());  // nothing was decided yet
  EXPECT_EQ(by.decide(x, .8).how, swap_decision::mode::encode);
  EXPECT_EQ(held(), pooled_bytes(b.values));
  EXPECT_EQ(by.decide(x, 0).how, swap_decision::mode::raw);
  EXPECT_EQ(held(), b.source().size_bytes());
}

TEST(swap_stream, empty_tensors_are_tensors) {
  for (const swap_path path : all_paths) {
    bench b(0);
    swap_stream swap({.pinned_bytes = 1 << 12, .path = path}, b.memory);
    swap_handle handle;
    expect_ok(swap.out(zvc<float>{}, {}, b.stream, handle));
    expect_ok(swap.prefetch(handle));
    expect_ok(swap.in(handle, bytes{}, b.stream));
    expect_ok(swap.drain());
    EXPECT_TRUE(handle.report());
  }
}

// The promise of the whole: pinned memory is held by frames, in units, and by nothing else.
TEST(swap_stream, host_memory_held_is_the_frame_s) {
  for (const swap_path path : {swap_path::direct, swap_path::staged, swap_path::cpu}) {
    bench b(9 * 4096 + 5, .75);
    swap_stream swap({.pinned_bytes = 1 << 20, .path = path}, b.memory);
    swap_handle handles[4];
    for (auto& p : handles) expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, p));
    expect_ok(swap.drain());
    const uint64_t each = pooled_bytes(b.values);
    EXPECT_LT(each, b.source().size_bytes() / 3);
    for (auto& p : handles) {
      EXPECT_EQ(p.host_bytes(), each);
      EXPECT_EQ(pinned_pool::round_up(p.report().bytes), each);
    }
    EXPECT_EQ(swap.statistics().held, 4 * each);
    EXPECT_EQ(swap.statistics().reserved, 0u);
    handles[1].reset();
    EXPECT_EQ(swap.statistics().held, 3 * each);
  }
}

// vDNN++: masks and what is not zero, and what a frame has besides.
TEST(swap_stream, the_cpu_s_frames_are_masks_and_non_zeros) {
  const uint64_t chunks = 4, count = chunks * 4096;
  bench b(count, .5);
  swap_stream swap({.pinned_bytes = 1 << 20, .path = swap_path::cpu}, b.memory);
  swap_handle handle;
  expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
  EXPECT_EQ(swap.statistics().held, count * 4);  // until a thread has encoded it
  expect_ok(swap.drain());
  const uint64_t stored = 4 * (count / 32) + 4 * count_non_zeros(b.values);
  EXPECT_GE(handle.host_bytes(), stored);
  EXPECT_LE(handle.host_bytes(), stored + 128 + 128 + chunks * 127);
}

// Values that do not shrink stay as they are, with no copy of them.
TEST(swap_stream, the_cpu_leaves_alone_what_does_not_shrink) {
  bench b(noise<float>(3 * 4096));
  swap_stream swap({.pinned_bytes = 1 << 20, .path = swap_path::cpu}, b.memory);
  swap_handle handle;
  expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
  expect_ok(swap.drain());
  EXPECT_EQ(handle.host_bytes(), 3u * 4096 * 4);
  expect_ok(swap.in(handle, b.to.all(), b.stream));
  EXPECT_TRUE(b.is_back());
}

// A pool that holds two tensors as they are, and, because threads of the CPU make them smaller, eight of them.
TEST(swap_stream, what_the_cpu_saves_is_room_for_others) {
  bench b(4 * 4096, .9);
  swap_stream swap({.pinned_bytes = 2 * 4 * 4096 * 4, .path = swap_path::cpu, .full = on_full::block}, b.memory);
  swap_handle handles[8];
  for (auto& p : handles) expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, p));
  for (auto& p : handles) {
    check(cudaMemsetAsync(b.to.data(), 0xff, b.source().size_bytes(), b.stream));
    expect_ok(swap.in(p, b.to.all(), b.stream));
    EXPECT_TRUE(b.is_back());
  }
}

// The most that a tensor may take of the pool.
uint64_t most_bytes(const bench& b, swap_path path) {
  if (path == swap_path::raw || path == swap_path::cpu) return pinned_pool::round_up(b.source().size_bytes());
  return max_frame_bytes(zvc<float>{}, b.values.size(), {.alignment = append_alignment});
}

TEST(swap_stream, a_full_pool_may_keep_the_tensor_where_it_is) {
  for (const swap_path path : all_paths)
    for (const bool small : {false, true}) {
      bench b(4096);
      const uint64_t most = most_bytes(b, path);
      swap_stream swap({.pinned_bytes = small ? most - 128 : most, .path = path, .full = on_full::keep_on_device},
                       b.memory);
      const status why = small ? status::pool_too_small : status::pool_full;
      swap_handle other, handle;
      expect_ok(swap.out(as_bytes(b.source()).subspan(0, 128), b.stream, other));
      expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
      EXPECT_TRUE(handle);
      EXPECT_TRUE(handle.kept_on_device());
      EXPECT_EQ(handle.host_bytes(), 0u);
      EXPECT_EQ(handle.report().code, why);
      expect_code(handle.wait_source(b.stream), why);
      expect_ok(swap.prefetch(handle));
      expect_ok(swap.in(handle, b.to.all(), b.stream));
      EXPECT_TRUE(b.is_back());
      expect_ok(swap.in(handle, b.from.all(), b.stream));  // to where it is
      EXPECT_TRUE(same_bits(b.from.download(b.stream), b.values));
    }
}

TEST(swap_stream, a_full_pool_fails) {
  for (const swap_path path : all_paths) {
    bench b(4096);
    swap_stream swap({.pinned_bytes = most_bytes(b, path), .path = path}, b.memory);
    swap_handle handle, other;
    const const_bytes little = as_bytes(b.source()).subspan(0, 128);
    expect_ok(swap.out(little, b.stream, handle));
    expect_code(swap.out(zvc<float>{}, b.source(), b.stream, other), status::pool_full);
    EXPECT_FALSE(other);
    expect_code(swap.out(zvc<float>{}, b.source(), b.stream, handle), status::pool_full);
    EXPECT_TRUE(handle) << "a failed out leaves the handle as it was";
    EXPECT_EQ(handle.raw_bytes(), little.size());
    EXPECT_TRUE(same_bits(b.from.download(b.stream), b.values));
    handle.reset();
    expect_ok(swap.drain());
    expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
  }
}

// Waiting would not help, and a pool of 0 bytes is a mistake whatever is to be done.
TEST(swap_stream, a_pool_that_is_too_small_is_named) {
  for (const swap_path path : all_paths)
    for (const on_full full : {on_full::keep_on_device, on_full::fail, on_full::block})
      for (const bool none : {false, true}) {
        if (full == on_full::keep_on_device && !none) continue;
        bench b(4096);
        swap_stream swap({.pinned_bytes = none ? 0 : most_bytes(b, path) - 128, .path = path, .full = full}, b.memory);
        swap_handle handle;
        expect_code(swap.out(zvc<float>{}, b.source(), b.stream, handle), status::pool_too_small);
        if (none) expect_code(swap.out(as_bytes(b.source()).subspan(0, 1), b.stream, handle), status::pool_too_small);
        EXPECT_FALSE(handle);
        expect_ok(swap.out(const_bytes{}, b.stream, handle));  // needs no room
        expect_ok(swap.in(handle, bytes{}, b.stream));
        expect_ok(swap.drain());
      }
  bench b(4096);
  swap_stream swap({}, b.memory);
  swap_handle handle;
  expect_code(swap.out(zvc<float>{}, b.source(), b.stream, handle), status::pool_too_small);
}

// Also for the copy of a tensor that was kept on the device.
TEST(swap_stream, what_has_been_drained_is_done) {
  for (const bool kept : {false, true})
    for (const swap_path path : all_paths) {
      bench b(4096);
      cudaStream_t stream;
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      {
        swap_stream swap({.pinned_bytes = kept ? 128u : 1u << 20, .path = path, .full = on_full::keep_on_device},
                         b.memory);
        swap_handle handle;
        expect_ok(swap.out(zvc<float>{}, b.source(), stream, handle));
        EXPECT_EQ(handle.kept_on_device(), kept);
        gate before(stream);
        expect_ok(swap.in(handle, b.to.all(), stream));
        std::jthread opens([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          before.open();
        });
        expect_ok(swap.drain());
        std::vector<float> seen(b.values.size());
        check(cudaMemcpy(seen.data(), b.to.data(), b.source().size_bytes(), cudaMemcpyDefault));
        EXPECT_TRUE(same_bits(seen, b.values)) << static_cast<int>(path) << (kept ? " kept" : "");
      }
      check(cudaStreamDestroy(stream));
    }
}

// Room for the worst case of one tensor, and for the frames of many: each waits until the one before has reported.
TEST(swap_stream, a_full_pool_may_block) {
  bench b(4 * 4096, .9);
  const uint64_t most = pinned_pool::round_up(max_frame_bytes(zvc<float>{}, b.values.size(), {.alignment = 128}));
  for (const swap_path path : {swap_path::direct, swap_path::staged}) {
    swap_stream swap({.pinned_bytes = most + 5 * pooled_bytes(b.values), .path = path, .full = on_full::block},
                     b.memory);
    std::vector<swap_handle> handles(6);
    for (auto& p : handles) expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, p));
    swap_handle more;
    expect_code(swap.out(zvc<float>{}, b.source(), b.stream, more), status::pool_full);  // nothing is under way
    handles.pop_back();
    expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, more));
    EXPECT_EQ(swap.statistics().held, 5 * pooled_bytes(b.values));
    expect_ok(swap.drain());
    EXPECT_EQ(swap.statistics().held, 6 * pooled_bytes(b.values));
  }
}

// A frame whose handle is used again stays until the next one has its room, and that lies before it or behind it.
TEST(swap_stream, a_tensor_goes_out_again_and_again) {
  for (const double sparsity : {.3, .6})
    for (const swap_path path : all_paths)
      for (const bool resets : {false, true}) {
        SCOPED_TRACE(std::to_string(sparsity) + (resets ? ", reset" : ""));
        bench b(3 * 4096, sparsity);
        const uint64_t most = max_frame_bytes(zvc<float>{}, b.values.size(), {.alignment = append_alignment});
        swap_stream swap({.pinned_bytes = (resets ? 1 : 3) * most, .path = path, .full = on_full::fail}, b.memory);
        swap_handle handle;
        for (int i = 0; i < 6; ++i) {
          if (resets) handle.reset();
          expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
          expect_ok(swap.drain());
        }
        expect_ok(swap.in(handle, b.to.all(), b.stream));
        EXPECT_TRUE(b.is_back());
      }
}

// A call of `out` waits for room, and goes on once `make_room` is called.
template <codec C>
void expect_waits(const char* what, bench& b, swap_stream& swap, const C& codec,
                  const std::function<void()>& make_room) {
  SCOPED_TRACE(what);
  swap_handle handle;
  std::atomic<bool> done = false;
  std::jthread waiter([&] {
    expect_ok(swap.out(codec, b.source(), b.stream, handle));
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(done);
  make_room();
  waiter.join();
}

TEST(swap_stream, who_waits_for_room_gets_it) {
  bench b(4 * 4096, .9);
  const zvc<float> codec;
  const uint64_t most = pinned_pool::round_up(max_frame_bytes(codec, b.values.size(), {.alignment = 128}));
  const uint64_t held = pooled_bytes(b.values), raw = pinned_pool::round_up(b.source().size_bytes());
  const auto options = [](uint64_t pinned, swap_path path = swap_path::direct) {
    return swap_options{.pinned_bytes = pinned, .path = path, .full = on_full::block};
  };
  swap_handle first, second;
  {
    const device_stream stream;
    swap_stream swap(options(most + held), b.memory);
    gate producer(stream);
    expect_ok(swap.out(codec, b.source(), stream, first));
    expect_waits("by a frame that is shorter than it might be", b, swap, codec, [&] { producer.open(); });
    first.reset();
  }
  {
    const device_stream stream;
    swap_stream swap(options(raw, swap_path::raw), b.memory);
    expect_ok(swap.out(codec, b.source(), b.stream, first));
    expect_ok(swap.drain());
    gate consumer(stream);
    expect_ok(swap.in(first, b.to.all(), stream));
    first.reset();
    expect_waits("by the end of a read", b, swap, codec, [&] { consumer.open(); });
  }
  {
    const device_stream stream;
    swap_stream swap(options(most + held), b.memory);
    expect_ok(swap.out(codec, b.source(), b.stream, first));
    expect_ok(swap.out(codec, b.source(), b.stream, second));
    expect_ok(swap.drain());
    gate consumer(stream);
    expect_ok(swap.in(first, b.to.all(), stream));
    expect_waits("by a handle", b, swap, codec, [&] { second.reset(); });
    consumer.open();
    first.reset();
  }
  mine::late_may_begin = false;
  swap_stream swap(options(raw + held, swap_path::cpu), b.memory);
  expect_ok(swap.out(mine::late{}, b.source(), b.stream, first));
  b.stream.wait();
  expect_waits("by a thread of the CPU", b, swap, mine::late{}, [] {
    mine::late_may_begin = true;
    mine::late_may_begin.notify_all();
  });
  first.reset();
}

// wait_source is enough for the source to be overwritten. That without it, it is not, is shown by the twin.
bool survives_overwriting(uint64_t seed, swap_path path, bool with_wait) {
#if defined(TUCK_CUDASIM)
  auto settings = cudasim::current_settings();
  settings.seed = seed;
  settings.stream_delays = true;
  cudasim::configure(settings);
#endif
  static_cast<void>(seed);
  bench b(3 * 4096);
  const device_stream late;
  swap_stream swap({.pinned_bytes = 1 << 20, .path = path}, b.memory);
  swap_handle before, handle;
  gate others(late);
  expect_ok(swap.out(as_bytes(b.source().subspan(0, 1)), late, before));
  expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));  // which that one holds up
  if (with_wait) expect_ok(handle.wait_source(b.stream));
  check(cudaMemsetAsync(b.from.data(), 0x33, b.source().size_bytes(), b.stream));
  if (!with_wait) b.stream.wait();
  expect_ok(swap.in(handle, b.to.all(), b.stream));
  others.open();
  return b.is_back();
}
TEST(wait_source, is_enough) {
  for (const swap_path path : all_paths)
    for (uint64_t seed = 1; seed <= (brief ? 10 : 40); ++seed)
      EXPECT_TRUE(survives_overwriting(seed, path, true)) << seed;
}
TEST(wait_source, is_needed) {
  for (const swap_path path : all_paths)
    for (uint64_t seed = 1; seed <= 4; ++seed)
      EXPECT_FALSE(survives_overwriting(seed, path, false)) << "path " << static_cast<int>(path);
}

TEST(swap_stream, what_is_refused) {
  bench b(4096);
  swap_stream swap({.pinned_bytes = 1 << 20}, b.memory), other({.pinned_bytes = 1 << 20}, b.memory);
  swap_handle handle, none;
  expect_code(swap.out(zvc<float>{}, b.source(), b.stream, handle, static_cast<swap_path>(9)),
              status::invalid_argument);
  for (const swap_path path : all_paths)
    expect_code(swap.out(zvc<float>{}, {nullptr, 10}, b.stream, handle, path), status::null_pointer);
  const span<const float> odd(reinterpret_cast<const float*>(reinterpret_cast<const char*>(b.from.data()) + 1), 10);
  expect_code(swap.out(zvc<float>{}, odd, b.stream, handle), status::misaligned);
  expect_code(swap.out(quantize<float>(error_bound::absolute(-1)), b.source(), b.stream, handle), status::bad_bound);
  const double bound = 1;
  expect_code(
      swap.out(quantize<float>({.mode = bound_mode::absolute, .on_device = &bound}), b.source(), b.stream, handle),
      status::not_swappable);
  expect_code(swap.out(zvc<float>{}, {b.from.data(), ~uint64_t{0} / 4}, b.stream, handle), status::size_overflow);
  for (const swap_path path : all_paths)  // whose bytes are 4 in 64 bits
    expect_code(swap.out(zvc<float>{}, {b.from.data(), (uint64_t{1} << 62) + 1}, b.stream, handle, path),
                status::size_overflow);
  EXPECT_FALSE(handle);
  EXPECT_EQ(handle.report().code, status::empty_handle);

  expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
  expect_code(none.wait_source(b.stream), status::empty_handle);
  expect_code(swap.in(none, b.to.all(), b.stream), status::empty_handle);
  expect_code(swap.in(none, as_writable_bytes(b.to.all()), b.stream), status::empty_handle);
  expect_code(swap.prefetch(none), status::empty_handle);
  expect_code(other.in(handle, b.to.all(), b.stream), status::foreign_handle);
  expect_code(other.in(handle, as_writable_bytes(b.to.all()), b.stream), status::foreign_handle);
  expect_code(other.prefetch(handle), status::foreign_handle);
  expect_code(swap.in(handle, b.to.all().subspan(1), b.stream), status::wrong_size);
  expect_code(swap.in(handle, as_writable_bytes(b.to.all()).subspan(0, 7), b.stream), status::wrong_size);
  expect_code(swap.in(handle, span<float>(b.to.data(), (uint64_t{1} << 62) + 4096), b.stream), status::wrong_size);
  expect_code(swap.in(handle, bytes(nullptr, 4096 * 4), b.stream), status::null_pointer);
  expect_code(swap.in(handle, span<float>(nullptr, 4096), b.stream), status::null_pointer);
  expect_code(swap.in(handle, bytes(reinterpret_cast<std::byte*>(b.to.data()) + 2, 4096 * 4), b.stream),
              status::misaligned);
  expect_ok(swap.in(handle, b.to.all(), b.stream));
  EXPECT_TRUE(b.is_back());
}

// Whatever the path, be it as it is or kept on the device: the type is remembered, not only the bytes.
TEST(swap_stream, comes_back_as_what_it_was) {
  for (const swap_path path : all_paths)
    for (const uint64_t pinned : {1 << 20, 128}) {
      bench b(4096);
      swap_stream swap({.pinned_bytes = pinned, .path = path, .full = on_full::keep_on_device}, b.memory);
      swap_handle handle;
      const auto in = [&]<class T>(T) {
        const span<T> to(reinterpret_cast<T*>(b.to.data()), 4096 * sizeof(float) / sizeof(T));
        return swap.in(handle, to, b.stream);
      };
      expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
      expect_code(in(double{}), status::wrong_type);
      expect_code(in(uint32_t{}), status::wrong_type);
      expect_code(in(f16{}), status::wrong_type);
      expect_code(in(untyped<8>{}), status::wrong_type);
      expect_ok(in(untyped<4>{}));
      EXPECT_TRUE(b.is_back());
      expect_ok(swap.in(handle, as_writable_bytes(b.to.all()), b.stream));

      const span<const untyped<4>> bits(reinterpret_cast<const untyped<4>*>(b.from.data()), 4096);
      expect_ok(swap.out(zvc<untyped<4>>{}, bits, b.stream, handle));
      expect_code(in(double{}), status::wrong_type);
      expect_ok(in(uint32_t{}));
      expect_ok(in(float{}));
      EXPECT_TRUE(b.is_back());

      expect_ok(swap.out(as_bytes(b.source()), b.stream, handle));
      expect_ok(in(double{}));
      EXPECT_TRUE(b.is_back());
      const std::tuple codecs(zvc<float>{});
      expect_ok(swap.out(swap_decision{.how = swap_decision::mode::raw}, codecs, b.source(), b.stream, handle));
      expect_code(in(double{}), status::wrong_type);
      expect_ok(in(float{}));
    }
}

// What a graph would do again and again must not be promised once.
TEST(swap_stream, streams_that_are_captured_are_refused) {
  bench b(100);
  swap_stream swap({.pinned_bytes = 1 << 20}, b.memory);
  swap_handle handle, other;
  expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
  {
    const capture_scope capture(b.stream);
    expect_code(swap.out(zvc<float>{}, b.source(), b.stream, other), status::not_swappable);
    expect_code(swap.in(handle, b.to.all(), b.stream), status::not_swappable);
    expect_code(handle.wait_source(b.stream), status::not_swappable);
  }
  expect_ok(swap.in(handle, b.to.all(), b.stream));
  EXPECT_TRUE(b.is_back());
}

// All that is asked for while another stream is captured, be it by this thread, is done, and the capture stays valid.
TEST(swap_stream, other_streams_are_served_during_a_capture) {
  for (const swap_path path : all_paths)
    for (const auto mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal}) {
      bench b(4096);
      const device_stream captured;
      swap_stream swap({.pinned_bytes = 1 << 20, .path = path, .full = on_full::block}, b.memory);
      std::optional<swap_stream> later;
      const auto everything = [&] {
        swap_handle handle;
        expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
        expect_ok(handle.wait_source(b.stream));
        expect_ok(swap.prefetch(handle));
        expect_ok(swap.in(handle, b.to.all(), b.stream));
        expect_ok(swap.drain());
        EXPECT_TRUE(handle.report());
        handle.reset();
        expect_ok(swap.poll());
        EXPECT_EQ(swap.statistics().held, 0u);
      };
      everything();  // loads the kernels
      {
        const capture_scope capture(captured, mode);
        if (mode == cudaStreamCaptureModeThreadLocal)
          everything(), later.emplace(swap_options{.pinned_bytes = 1 << 12}, b.memory);
        else
          std::thread(everything).join();
      }
      EXPECT_TRUE(b.is_back());
    }
}

TEST(swap_stream, a_device_that_is_not_there) {
  async_resource memory;
  try {
    // With as many threads as there may be: they are not what is refused.
    const swap_stream swap({.pinned_bytes = 1 << 20, .device = 1000, .cpu_threads = 1024}, memory);
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), status::cuda_error);
    EXPECT_EQ(e.why().cuda, cudaErrorInvalidDevice);
  }
}

TEST(swap_stream, handles_may_outlive_it_and_move) {
  bench b(4096);
  swap_handle handle, moved;
  {
    swap_stream swap({.pinned_bytes = 1 << 20}, b.memory);
    expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
    moved = std::move(handle);
    EXPECT_FALSE(handle);  // NOLINT: moved from, and empty
    expect_ok(swap.prefetch(moved));
    expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
  }
  EXPECT_TRUE(moved.report());
  moved.reset();
  b.stream.wait();
}

TEST(swap_stream, what_is_under_way_is_not_reported) {
  for (const swap_path path : all_paths) {
    bench b(4096);
    swap_stream swap({.pinned_bytes = 1 << 20, .path = path}, b.memory);
    gate before(b.stream);
    swap_handle handle;
    expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
    EXPECT_EQ(handle.report().code, status::not_ready);
    before.open();
    expect_ok(swap.drain());
    EXPECT_TRUE(handle.report());
    EXPECT_GT(handle.report().bytes, 0u);
  }
}

// A consumer that is late keeps neither the room of others' tensors, nor these from coming back.
TEST(swap_stream, consumers_do_not_wait_for_each_other) {
  bench b(512);
  const device_stream late;
  const device_array<float> to(512);
  swap_stream swap({.pinned_bytes = 2 * 2048, .path = swap_path::raw, .full = on_full::fail}, b.memory);
  swap_handle first, second, third;
  expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, first));
  expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, second));
  expect_ok(swap.drain());
  gate before(late);
  expect_ok(swap.in(first, to.all(), late));
  expect_ok(swap.in(second, b.to.all(), b.stream));
  EXPECT_TRUE(b.is_back());
  second.reset();
  expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, third));
  before.open();
  expect_ok(swap.drain());
}

// A producer that is late keeps no tensor from coming back that has left before.
TEST(swap_stream, what_is_there_comes_back_whoever_is_late) {
  bench b(512);
  const device_stream late, waiting;
  const device_array<float> to(512);
  swap_stream swap({.pinned_bytes = 1 << 20}, b.memory);
  swap_handle there, under_way;
  expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, there));
  expect_ok(swap.drain());
  gate before(late);
  expect_ok(swap.out(zvc<float>{}, b.source(), late, under_way));
  expect_ok(swap.in(under_way, to.all(), waiting));
  expect_ok(swap.in(there, b.to.all(), b.stream));
  EXPECT_TRUE(b.is_back());
  before.open();
  expect_ok(swap.drain());
}

// One that is overwritten by another out, or by another handle, gives up what it had.
TEST(swap_stream, a_handle_has_one_tensor) {
  bench b(4 * 4096, .5);
  swap_stream swap({.pinned_bytes = 1 << 20}, b.memory);
  swap_handle handle;
  for (int i = 0; i < 3; ++i) expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
  expect_ok(swap.drain());
  EXPECT_EQ(swap.statistics().held, pooled_bytes(b.values));
  swap_handle other;
  expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, other));
  handle = std::move(other);
  expect_ok(swap.drain());
  EXPECT_EQ(swap.statistics().held, pooled_bytes(b.values));
}

// What a decode has to say reaches the host by poll, once; so does what a drain finds.
TEST(swap_stream, a_frame_that_cannot_be_decoded_is_reported) {
  bench b(2 * 4096);
  swap_stream swap({.pinned_bytes = 1 << 20}, b.memory);
  swap_handle handle;
  expect_ok(swap.out(mine::forgetful{}, b.source(), b.stream, handle));
  expect_ok(swap.in(handle, b.to.all(), b.stream));
  b.stream.wait();
  expect_code(swap.poll(), status::bad_payload);
  expect_ok(swap.poll());
  expect_ok(swap.in(handle, b.to.all(), b.stream));
  expect_code(swap.drain(), status::bad_payload);
  expect_ok(swap.drain());
}

// Gives no more than `left` bytes, and says by an error of CUDA's or by bad_alloc that it has no more.
struct budget : async_resource {
  void* allocate(cudaStream_t stream, size_t size, size_t = 256) {
    asked.push_back(size);
#if defined(TUCK_CUDASIM)
    if (size > left && by_cuda) {  // CUDA keeps such an error
      cudasim::fail_call(1, cudaErrorMemoryAllocation);
      return async_resource::allocate(stream, size);
    }
#endif
    if (size > left && by_cuda) throw error(cudaErrorMemoryAllocation);
    if (size > left) throw std::bad_alloc();
    left -= size;
    return async_resource::allocate(stream, size);
  }
  void deallocate(cudaStream_t stream, void* p, size_t size, size_t = 256) noexcept {
    left += size;
    async_resource::deallocate(stream, p, size);
  }
  uint64_t left = 1 << 20;
  std::vector<uint64_t> asked;
  bool by_cuda = false;
};

TEST(swap_stream, restores_on_a_full_device) {
  for (const swap_path path : {swap_path::direct, swap_path::staged, swap_path::cpu})
    for (const bool drained : {false, true}) {
      bench b(20'000);
      const device_stream other;
      device_array<float> to_other(b.values.size());
      budget memory;
      memory.by_cuda = path == swap_path::staged;
      swap_stream swap({.pinned_bytes = 1 << 20, .path = path}, memory);
      swap_handle first, second;
      expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, first));
      expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, second));
      if (drained) expect_ok(swap.drain());
      const uint64_t room = std::exchange(memory.left, 0);
      expect_ok(swap.in(second, b.to.all(), b.stream));  // two at a time
      expect_ok(swap.in(first, to_other.all(), other));
      EXPECT_NE(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
      EXPECT_TRUE(b.is_back());
      EXPECT_TRUE(same_bits(to_other.download(other), b.values));
      expect_ok(swap.drain());
      const result r = swap.prefetch(first);
      EXPECT_EQ(r.code, memory.by_cuda ? status::cuda_error : status::out_of_memory);
      memory.left = room;
      expect_ok(swap.in(first, to_other.all(), other));
      expect_ok(swap.drain());
      EXPECT_EQ(memory.asked.back(), pooled_bytes(b.values) + scratch_head_bytes);
      EXPECT_EQ(memory.left, room);
    }
}

// As the guide's table says.
TEST(swap_stream, device_memory_of_each_call) {
  const zvc<float> codec;
  const frame_options options{.alignment = append_alignment};
  for (const swap_path path : all_paths) {
    bench b(20'000);
    budget memory;
    swap_stream swap({.pinned_bytes = 1 << 20, .path = path}, memory);
    swap_handle handle;
    for (int i = 0; i < 2; ++i) expect_ok(swap.out(codec, b.source(), b.stream, handle));
    expect_ok(swap.drain());
    expect_ok(swap.in(handle, b.to.all(), b.stream));
    expect_ok(swap.prefetch(handle));
    expect_ok(swap.in(handle, b.to.all(), b.stream));
    expect_ok(swap.drain());
    const uint64_t most = pinned_pool::round_up(max_frame_bytes(codec, b.values.size(), options)) + 16;
    const uint64_t frame = pooled_bytes(b.values) + 64;
    std::vector<uint64_t> asked{256};
    if (path == swap_path::direct || path == swap_path::staged) {
      EXPECT_EQ(scratch_bytes(codec, b.values.size(), options), 64 + 8 * ceil_div(b.values.size(), size_t{4096}));
      asked.push_back(scratch_bytes(codec, b.values.size(), options));
    }
    if (path == swap_path::staged) asked.insert(asked.end(), {most, most});
    if (path == swap_path::raw)
      asked.push_back(pinned_pool::round_up(b.source().size_bytes()) + 64);  // of prefetch
    else
      asked.insert(asked.end(), {frame, frame});
    EXPECT_EQ(memory.asked, asked) << static_cast<int>(path);
    EXPECT_EQ(memory.left, (1 << 20) - 256 - (asked.size() > 1 && path < swap_path::raw ? asked[1] : 0));
  }
}

// Where the largest possible frame has no room, but the frame has, its size is waited for.
TEST(swap_stream, asks_a_nearly_full_device_for_as_much_as_the_frame_has) {
  bench b(20'000);
  const device_stream other;
  budget memory;
  swap_stream swap({.pinned_bytes = 1 << 20}, memory);
  swap_handle handle;
  {
    gate closed(b.stream);
    expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
    memory.left = pooled_bytes(b.values) + scratch_head_bytes;
    result restored;
    std::thread waits([&] { restored = swap.in(handle, b.to.all(), other); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(handle.report().code, status::not_ready);  // it waits without the lock
    closed.open();
    waits.join();
    expect_ok(restored);
  }
  EXPECT_EQ(memory.asked.back(), pooled_bytes(b.values) + scratch_head_bytes);
  EXPECT_TRUE(same_bits(b.to.download(other), b.values));
  expect_ok(swap.drain());
}

// Remembers what it gave last.
struct remembering : async_resource {
  void* allocate(cudaStream_t stream, size_t size, size_t = 256) {
    return last = async_resource::allocate(stream, size);
  }
  void* last = nullptr;
};

// A byte of the frame changes on its way back: the payload's last, of a value that is then another.
TEST(swap_stream, damage_is_found_where_checksums_are_wanted) {
  for (const swap_path path : {swap_path::direct, swap_path::staged, swap_path::cpu})
    for (const bool checksums : {false, true}) {
      bench b(noise<float>(2 * 4096));
      std::fill_n(b.values.begin(), 4096, 0.f);
      b.from.upload(b.values, b.stream);
      remembering memory;
      swap_stream swap({.pinned_bytes = 1 << 20, .path = path, .checksums = checksums}, memory);
      swap_handle handle;
      expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
      expect_ok(swap.drain());
      expect_ok(swap.prefetch(handle));
      expect_ok(swap.drain());
      frame_bytes frame(handle.report().bytes);
      check(cudaMemcpyAsync(frame.data(), memory.last, frame.size(), cudaMemcpyDefault, b.stream));
      b.stream.wait();
      frame_view view;
      ASSERT_EQ(frame_view::open(frame, view), status::ok);
      EXPECT_EQ(view.has_checksums(), checksums);
      check(cudaMemsetAsync(static_cast<std::byte*>(memory.last) + frame.size() - 1, 0x11, 1, b.stream));
      expect_ok(swap.in(handle, b.to.all(), b.stream));
      expect_code(swap.drain(), checksums ? status::bad_checksum : status::ok);
      EXPECT_FALSE(b.is_back());
    }
}

// Out, prefetch, and in before anything has been reported: the host knows neither where the frame is nor its size.
TEST(swap_stream, many_at_once_lie_one_behind_the_other) {
  bench b(6 * 4096, .8);
  swap_stream swap({.pinned_bytes = 1 << 20}, b.memory);
  swap_handle handles[5];
  uint64_t sum = 0;
  for (int i = 0; i < 5; ++i) {
    const span<const float> part = b.source().subspan(0, b.values.size() - static_cast<uint64_t>(i) * 1000);
    expect_ok(swap.out(zvc<float>{}, part, b.stream, handles[i]));
    sum += pooled_bytes({b.values.begin(), b.values.begin() + static_cast<std::ptrdiff_t>(part.size())});
  }
  for (auto& p : handles) {
    check(cudaMemsetAsync(b.to.data(), 0xff, b.source().size_bytes(), b.stream));
    expect_ok(swap.in(p, b.to.all().subspan(0, p.raw_bytes() / 4), b.stream));
    const auto seen = b.to.download(p.raw_bytes() / 4, b.stream);
    EXPECT_TRUE(std::equal(seen.begin(), seen.end(), b.values.begin(),
                           [](float x, float y) { return bits_of(x) == bits_of(y); }));
  }
  expect_ok(swap.drain());
  EXPECT_EQ(swap.statistics().held, sum);
  EXPECT_EQ(swap.statistics().peak, sum);
}

// What no kernel can decode must not get in: by the CPU's path it would only be noticed when the values are gone.
TEST(swap_stream, chunks_that_kernels_do_not_take_are_refused_on_every_path_that_encodes) {
  bench b(4 * 4096);
  swap_stream swap({.pinned_bytes = 1 << 20}, b.memory);
  swap_handle handle;
  for (const swap_path path : all_paths) {
    const result r = swap.out(mine::wide_chunks{}, b.source(), b.stream, handle, path);
    EXPECT_EQ(r.code, path == swap_path::raw ? status::ok : status::unsupported) << static_cast<int>(path);
  }
}

TEST(copy_frame, what_does_not_fit_is_not_copied) {
  const device_stream stream;
  const device_array<std::byte> from(std::vector<std::byte>(512, std::byte{7}), stream);
  const device_array<outcome> frame(std::vector<outcome>{{.bytes = 512, .code = status::ok}}, stream);
  const device_array<std::byte> scratch(scratch_head_bytes);
  ASSERT_TRUE(initialize(scratch.scratch(), stream));
  for (const uint64_t before : {512u, 640u, 1152u}) {  // the first leaves just enough of 1024 bytes
    const device_array<std::byte> to(std::vector<std::byte>(2048), stream);
    const device_array<uint64_t> used({before}, stream);
    const device_array<offload_report> report(std::vector<offload_report>(1), stream);
    ASSERT_TRUE(copy_frame({from.data(), nullptr, frame.data(), to.data(), 1024, used.data(), report.data(),
                            reinterpret_cast<scratch_head*>(scratch.data())},
                           {}, stream));
    const bool fits = before == 512;
    EXPECT_EQ(report.download(stream)[0].frame.code, fits ? status::ok : status::output_too_small) << before;
    EXPECT_EQ(used.download(stream)[0], fits ? 1024 : before);
    std::vector<std::byte> expected(2048);
    if (fits) std::fill_n(expected.begin() + 512, 512, std::byte{7});
    EXPECT_EQ(to.download(stream), expected);
  }
}

TEST(swap_stream, refuses_options_out_of_range) {
  bench b(4096);
  const auto expect_refused = [&](const swap_options& options) {
    try {
      const swap_stream swap(options, b.memory);
      ADD_FAILURE();
    } catch (const error& e) {
      EXPECT_EQ(e.code(), status::invalid_argument);
    }
  };
  expect_refused({.pinned_bytes = 1 << 20, .path = swap_path{4}});
  expect_refused({.pinned_bytes = 1 << 20, .full = on_full{3}});
  for (const unsigned threads : {1025u, 4'000'000'000u})
    expect_refused({.pinned_bytes = 1 << 20, .cpu_threads = threads});
  const swap_stream most({.pinned_bytes = 1 << 20, .path = swap_path::cpu, .full = on_full::block}, b.memory);
}

#if defined(TUCK_CUDASIM)
TEST(swap_stream, nothing_synchronises_and_no_pinned_memory_is_allocated) {
  for (const swap_path path : all_paths) {
    bench b(4 * 4096);
    swap_stream swap({.pinned_bytes = 1 << 20, .limits = {.max_blocks = 2}, .path = path, .cpu_threads = 0}, b.memory);
    swap_handle handle;
    expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));  // the first makes scratch and events
    expect_ok(swap.drain());
    cudasim::clear_counters();
    swap_handle more;
    expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, more));
    expect_ok(more.wait_source(b.stream));
    const auto after_out = cudasim::snapshot();
    const bool encodes = path == swap_path::direct || path == swap_path::staged;
    EXPECT_EQ(after_out.launches, path == swap_path::staged ? 2u : encodes ? 1u : 0u);
    EXPECT_EQ(after_out.allocations, path == swap_path::staged ? 1u : 0u);
    EXPECT_LE(after_out.largest_grid, 2u);
    expect_ok(swap.prefetch(handle));
    expect_ok(swap.prefetch(more));
    expect_ok(swap.in(handle, b.to.all(), b.stream));
    expect_ok(swap.in(more, b.to.all(), b.stream));
    expect_ok(swap.poll());
    const auto c = cudasim::snapshot();
    EXPECT_EQ(c.synchronisations, 0u);
    EXPECT_EQ(c.get_last_error, 0u);
    b.stream.wait();
  }
}

// The direct path writes whole lines of the link.
TEST(swap_stream, the_direct_path_fills_sectors) {
  bench b(16 * 4096, .6);
  swap_stream swap({.pinned_bytes = 1 << 20}, b.memory);
  auto settings = cudasim::current_settings();
  settings.count_traffic = true;
  cudasim::configure(settings);
  cudasim::tag_tensor(b.from.data(), b.source().size_bytes());
  cudasim::clear_counters();
  swap_handle handle;
  expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
  expect_ok(swap.drain());
  const auto c = cudasim::snapshot();
  cudasim::untag(b.from.data());
  settings.count_traffic = false;
  cudasim::configure(settings);
  const double frame = static_cast<double>(handle.report().bytes);
  EXPECT_LE(static_cast<double>(c.tensor_bytes_read), 1.01 * static_cast<double>(b.source().size_bytes()));
  EXPECT_LE(static_cast<double>(c.other_bytes_written), 1.01 * frame);
  const double filled =
      static_cast<double>(c.other_bytes_written) / (32. * static_cast<double>(c.other_sectors_written));
  EXPECT_GE(filled, .95);
  std::printf("    %.3f of the sectors filled\n", filled);
}

TEST(swap_stream, belongs_to_one_device_whatever_the_thread_s) {
  auto settings = cudasim::current_settings();
  settings.devices = 2;
  cudasim::configure(settings);
  {
    check(cudaSetDevice(1));
    bench b(4096);
    check(cudaSetDevice(0));
    bound_resource memory{1};
    {
      swap_handle kept, handle;
      swap_stream swap({.pinned_bytes = 1 << 20, .device = 1}, memory);
      expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, handle));
      expect_ok(swap.in(handle, b.to.all(), b.stream));
      EXPECT_TRUE(b.is_back());
      expect_ok(swap.prefetch(handle));
      expect_ok(swap.drain());
      handle.reset();  // which gives back what has been fetched
      expect_ok(swap.poll());
      EXPECT_EQ(swap.statistics().held, 0u);
      expect_ok(swap.out(zvc<float>{}, b.source(), b.stream, kept));
      expect_ok(swap.prefetch(kept));
      expect_ok(swap.drain());
    }  // the handle last
    EXPECT_GT(memory.calls, 6);
    EXPECT_EQ(memory.wrong, 0);
    int device = -1;
    check(cudaGetDevice(&device));
    EXPECT_EQ(device, 0);
  }
  settings.devices = 1;
  cudasim::configure(settings);
}
#endif

}  // namespace
}  // namespace tuck::test
