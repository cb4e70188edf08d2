// Every CUDA call of a swap_stream fails once, in turn: the caller sees that error, nothing is lost or leaked, and the
// same operation, asked for again, works.
#include "support/device.hpp"

#include <tuck/swap.cuh>

#include <optional>

#if defined(TUCK_CUDASIM)

namespace tuck::test {
namespace {

constexpr cudaError_t injected = cudaErrorUnknown;

class faulty_run {
 public:
  explicit faulty_run(uint64_t failing_call) : left_(failing_call) {}

  // Runs `op`, which returns a result, with the fault armed; where that is what it returns, once more.
  template <class Op> void attempt(const char* what, const Op& op, bool tells = true) {
    SCOPED_TRACE(what);
    const auto before = cudasim::snapshot();
    cudasim::fail_call(left_, injected);
    const result first = op();
    cudasim::fail_call(0, cudaSuccess);
    const auto after = cudasim::snapshot();
    const uint64_t calls = after.calls - before.calls;
    left_ = left_ > calls ? left_ - calls : 0;
    const bool failed_work = after.failed_work != before.failed_work;
    const bool failed = failed_work || after.failed_housekeeping != before.failed_housekeeping;
    if ((failed_work && tells) || (failed && !first)) {
      EXPECT_EQ(first.code, status::cuda_error);
      EXPECT_EQ(first.cuda, injected);
      const result again = op();
      EXPECT_EQ(again.code, status::ok) << message(again);
    } else {
      EXPECT_EQ(first.code, status::ok) << message(first);
    }
  }
  bool struck() const { return left_ == 0; }

 private:
  uint64_t left_;
};

// Everything by one path. False: there were fewer calls.
bool survive(uint64_t failing_call, swap_path path, bool prefetches, bool waits) {
  const size_t live = cudasim::live_allocations();
  bool struck = false;
  {
    faulty_run run(failing_call);
    const auto values = sparse_tensor<float>(3 * 4096 + 8, .7);
    const device_stream producer, consumer;
    const device_array<float> from(values, producer), to(values.size());
    const span<const float> source = from.all();
    async_resource memory;
    std::optional<swap_stream> swap;
    run.attempt("construct", [&]() -> result {
      try {
        swap.emplace(swap_options{.pinned_bytes = 1 << 18, .path = path, .full = on_full::fail}, memory);
      } catch (const error& e) {
        return e.why();
      }
      return {};
    });
    {
      swap_handle handles[2];
      for (swap_handle& p : handles) {
        run.attempt("out", [&] { return swap->out(zvc<float>{}, source, producer, p); });
        run.attempt("wait_source", [&] { return p.wait_source(producer); });
        if (waits) run.attempt("drain", [&] { return swap->drain(); });
        if (prefetches) run.attempt("prefetch", [&] { return swap->prefetch(p); });
      }
      run.attempt("poll", [&] { return swap->poll(); });
      check(cudaMemsetAsync(from.data(), 0xff, source.size_bytes(), producer));
      for (swap_handle& p : handles)
        for (int again = 0; again < 2; ++again) {
          check(cudaMemsetAsync(to.data(), 0xff, source.size_bytes(), consumer));
          run.attempt("in", [&] { return swap->in(p, to.all(), consumer); });
          EXPECT_TRUE(same_bits(to.download(consumer), values));
        }
      run.attempt("report", [&] { return static_cast<void>(handles[0].report()), result{}; }, false);
      run.attempt("reset", [&] { return handles[0].reset(), result{}; }, false);
      run.attempt("drain", [&] { return swap->drain(); });
      EXPECT_EQ(swap->statistics().held, handles[1].host_bytes());
      EXPECT_EQ(swap->statistics().reserved, 0u);
      EXPECT_LT(handles[1].host_bytes(), source.size_bytes() + (path == swap_path::raw ? 128 : 0));
      if (prefetches) run.attempt("prefetch", [&] { return swap->prefetch(handles[1]); });
    }
    EXPECT_EQ(swap->drain().code, status::ok);
    EXPECT_EQ(swap->statistics().held, 0u);
    run.attempt("destroy", [&] { return swap.reset(), result{}; }, false);
    check(cudaDeviceSynchronize());
    struck = run.struck();
  }
  EXPECT_EQ(cudasim::live_allocations(), live);
  EXPECT_EQ(cudasim::last_report(), "");
  return struck;
}

class swap_faults : public ::testing::TestWithParam<swap_path> {};

TEST_P(swap_faults, lose_nothing) {
  auto settings = cudasim::current_settings();
  settings.stream_delays = false;
  cudasim::configure(settings);
  for (const bool prefetches : {false, true})
    for (const bool waits : {false, true}) {
      // Under sanitizers some of them: ThreadSanitizer takes half a second for each, to make threads.
      const uint64_t step = slow ? 48 : brief ? 12 : 1;
      uint64_t call = 1 + step / 4 * (prefetches + 2u * waits);
      for (;; call += step) {
        SCOPED_TRACE("call " + std::to_string(call) + (prefetches ? ", prefetching" : "") + (waits ? ", waiting" : ""));
        if (!survive(call, GetParam(), prefetches, waits) || HasFailure()) break;
      }
      std::printf("    %llu calls\n", static_cast<unsigned long long>(call - 1));
    }
}
INSTANTIATE_TEST_SUITE_P(paths, swap_faults,
                         ::testing::Values(swap_path::direct, swap_path::staged, swap_path::raw, swap_path::cpu));

}  // namespace
}  // namespace tuck::test

#else

TEST(swap_faults, lose_nothing) { GTEST_SKIP() << "the simulator injects faults; this is a GPU"; }

#endif
