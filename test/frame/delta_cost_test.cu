// What kernels of deltas execute: of bf16 weights of which 2 % change, in warp instructions for 128 bytes. Only where
// what nvcc emits is counted.
#include "support/deltas.hpp"
#include "support/device.hpp"

#if defined(TUCK_CUDAPTX)
#include "ptx/costs.hpp"
#endif

namespace tuck::test {
namespace {

template <class C>
void expect_cost([[maybe_unused]] double encode, [[maybe_unused]] double in_one_pass,
                 [[maybe_unused]] double verified) {
  using T = value_t<C>;
  constexpr uint64_t bytes = 1 << 20;
  const two_tensors<T> two(bytes / sizeof(T), .02);
  device_queue queue;
  const device_array<T> values(two.values, queue.stream), base(two.base, queue.stream), out(bytes / sizeof(T));
  const device_array<std::byte> frame(max_delta_bytes(C{}, bytes / sizeof(T)));
  const auto encoding = [&] {
    EXPECT_TRUE(queue.finish(tuck::encode_delta(C{}, values.all(), base.all(), frame.all(), queue.scratch(),
                                                queue.written(), queue.stream)));
  };
  const auto decoding = [&](bool chunk_by_chunk, bool in_place = false) {
    return [&, chunk_by_chunk, in_place] {
      const span<T> to = in_place ? base.all() : out.all();
      EXPECT_TRUE(queue.finish(tuck::decode_delta(C{}, frame.all(), base.all(), to, queue.scratch(), queue.written(),
                                                  queue.stream, {chunk_by_chunk})));
    };
  };
#if defined(TUCK_CUDAPTX)
  const call_cost calls[] = {counted(bytes, encoding), counted(bytes, decoding(true)), counted(bytes, decoding(false)),
                             counted(bytes, decoding(false, true))};
  const double most[] = {encode, in_one_pass, verified, verified};
  const char* const names[] = {"encode_delta", "decode_delta in one pass", "decode_delta, verified",
                               "the same in place"};
  for (int i = 0; i < 4; ++i) {
    std::printf("    %-26s %5.1f instructions, %4.1f lanes, %5.2f sectors\n", names[i], calls[i].instructions,
                calls[i].lanes, calls[i].sectors);
    if (std::getenv("TUCK_LINES") != nullptr)
      for (const auto& [line, cost] : calls[i].lines) std::printf("      %6.2f %s\n", cost.instructions, line.c_str());
    EXPECT_LE(calls[i].instructions, most[i]) << names[i];
  }
#else
  encoding();
  for (const bool chunk_by_chunk : {true, false}) decoding(chunk_by_chunk)();
#endif
  EXPECT_TRUE(same_bits(out.download(queue.stream), two.values));
}

TEST(delta_cost, zvc_bf16) { expect_cost<zvc<bf16>>(40, 34, 65); }
TEST(delta_cost, gaps_bf16) { expect_cost<gaps<bf16>>(40, 34, 65); }

}  // namespace
}  // namespace tuck::test
