// Every kernel template of the library, once: quick to compile, so that what nvcc makes of each runs in every CI.
#include "support/batches.hpp"
#include "support/codecs.hpp"
#include "support/deflate_samples.hpp"
#include "support/deltas.hpp"
#include "support/device.hpp"

#include <tuck/frame/statistics.cuh>
#include <tuck/swap.cuh>

#if defined(TUCK_CUDAPTX)
#include "ptx/costs.hpp"
#include "ptx/runtime/registry.hpp"
#endif

namespace tuck::test {
namespace {

template <class C> class kernels : public ::testing::Test {};
using codecs = ::testing::Types<zvc<float>, zvc<bf16>, zvc<uint8_t>, rle<float>, quantize<float>, bitpack<uint32_t>,
                                codebooks<bf16>, deflate<float>, quantize_delta_huffman<float>, huffman<bf16>,
                                zvc_rle_huffman<float>, rows_zvc_huffman<bf16>>;
TYPED_TEST_SUITE(kernels, codecs, codec_names);

TYPED_TEST(kernels, encode_and_decode_as_the_host) {
  using T = value_t<TypeParam>;
  constexpr uint64_t chunk = TypeParam::chunk_bytes / sizeof(T);
  for (const double sparsity : {0., .6, 1.}) {
    const auto values = sample<TypeParam>::tensor(3 * chunk + 77, sparsity);
    const frame_bytes expected = encoded(sample<TypeParam>::codec(), values);
    for_schedules(2, [&] {
      device_queue queue;
      ASSERT_EQ(queue.encode(sample<TypeParam>::codec(), values), expected);
      std::vector<T> restored(values.size()), on_host(values.size());
      ASSERT_EQ(queue.decode(TypeParam{}, expected, restored).code, status::ok);
      ASSERT_EQ(host::decode(TypeParam{}, expected, span<T>(on_host)).code, status::ok);
      ASSERT_TRUE(same_bits(restored, on_host));
    });
  }
}

#if defined(TUCK_CUDAPTX)
// Budgets of the compiler and the architecture.
struct cost_check {
  const std::string compiler = "nvcc " + std::to_string(__CUDACC_VER_MAJOR__) + "." +
                               std::to_string(__CUDACC_VER_MINOR__) + "." + std::to_string(__CUDACC_VER_BUILD__) +
                               " sm_" + std::to_string(cudaptx::target());
  budgets file{TUCK_BUDGETS};

  bool has_none() const { return !file.has(compiler); }
  // Of a tensor of 1 MiB.
  void operator()(const std::string& name, const std::function<void()>& call) {
    call_cost cost = counted(1 << 20, call);
    if (cudaptx::target() == 90) add_time(cost, call);
    std::printf("    %s: %.1f instructions", name.c_str(), cost.instructions);
    if (cost.microseconds != 0) std::printf(", %.2f us", cost.microseconds);
    std::printf("\n");
    if (const std::string wrong = file.check(compiler, name, cost); !wrong.empty()) ADD_FAILURE() << wrong;
  }
};

// 1 MiB of what the codec is for.
template <class C> std::vector<value_t<C>> usual_values() {
  using T = value_t<C>;
  std::vector<T> values = sample<C>::tensor((1 << 20) / sizeof(T), .6);
  if constexpr (std::is_same_v<C, codebooks<bf16>>) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, .02f);
    for (T& x : values) x.bits = float_format<T>::narrow(normal(random));
  }
  return values;
}

TYPED_TEST(kernels, cost_no_more_than_they_did) {
  using T = value_t<TypeParam>;
  const auto values = usual_values<TypeParam>();
  const auto codec = sample<TypeParam>::codec();
  cost_check check;
  if (check.has_none()) GTEST_SKIP() << "there are no budgets of " << check.compiler;
  for (const bool checksums : {false, true}) {
    if (checksums && !std::is_same_v<TypeParam, zvc<float>>) break;  // they cost all codecs the same
    const std::string name = codec_names::GetName<TypeParam>(0) + (checksums ? "_checksums" : "");
    device_queue queue;
    frame_bytes frame;
    std::vector<T> restored(values.size());
    check(name + ".encode", [&] { frame = queue.encode(codec, values, {.checksums = checksums}); });
    check(name + ".decode", [&] { EXPECT_EQ(queue.decode(codec, frame, restored).code, status::ok); });
  }
}
#endif

TEST(kernels_of_ranges, prepass) {
  const quantize<float> codec(error_bound::range_relative(1e-3));
  const auto values = sample<quantize<float>>::tensor(20000, .5);
  device_queue queue;
  EXPECT_EQ(queue.encode(codec, values), encoded(codec, values));
}

template <codec C> void expect_batch(const C& codec) {
  device_batch<C> batch(tensors_of<C>({0, 1, 100, 4096, 9000}), codec);
  expect_round_trip(batch);
}
TEST(kernels_of_batches, encode_and_decode) { expect_batch(zvc<float>{}); }
TEST(kernels_of_batches, prepass) { expect_batch(quantize<float>(error_bound::range_relative(1e-3))); }

// A delta of the codec that knows the base.
struct delta_calls {
  using C = steps<bf16>;

  explicit delta_calls(uint64_t count) : two(count, .02), frame(max_delta_bytes(C{}, count)), out(count) {}
  outcome encode() const {
    return queue.finish(
        encode_delta(C{}, values.all(), base.all(), frame.all(), queue.scratch(), queue.written(), queue.stream));
  }
  outcome decode(const device_array<bf16>& to, bool chunk_by_chunk) const {
    return queue.finish(decode_delta(C{}, frame.all(), base.all(), to.all(), queue.scratch(), queue.written(),
                                     queue.stream, {chunk_by_chunk}));
  }

  two_tensors<bf16> two;
  device_queue queue;
  device_array<bf16> values{two.values, queue.stream}, base{two.base, queue.stream};
  device_array<std::byte> frame;
  device_array<bf16> out;
};

TEST(kernels_of_deltas, encode_and_decode_as_the_host) {
  for_schedules(2, [] {
    const delta_calls of(20000);
    ASSERT_EQ(of.frame.download(of.encode().bytes, of.queue.stream), delta_of<steps<bf16>>(of.two));
    for (const auto& [to, chunk_by_chunk] : {std::pair(&of.out, true), {&of.out, false}, {&of.base, false}}) {
      ASSERT_EQ(of.decode(*to, chunk_by_chunk).code, status::ok);
      ASSERT_TRUE(same_bits(to->download(of.queue.stream), of.two.values));
    }
  });
}
#if defined(TUCK_CUDAPTX)
TEST(kernels_of_deltas, cost_no_more_than_they_did) {
  const delta_calls of(1 << 19);
  cost_check check;
  if (check.has_none()) GTEST_SKIP() << "there are no budgets of " << check.compiler;
  check("steps_bf16.encode_delta", [&] { EXPECT_TRUE(of.encode()); });
  check("steps_bf16.decode_delta", [&] { EXPECT_TRUE(of.decode(of.out, false)); });
}
#endif

TEST(kernels_of_streams, inflate_batch) {
  const device_stream stream;
  damaged_streams source(3);
  std::vector<damaged_streams::specimen> specimens;
  std::vector<inflate_item> items;
  std::vector<std::unique_ptr<device_array<std::byte>>> memory;
  const auto room = [&](const byte_vector& bytes) {
    memory.push_back(std::make_unique<device_array<std::byte>>(bytes, stream));
    return memory.back()->data();
  };
  for (int i = 0; i < 20; ++i) {
    specimens.push_back(source.next());
    const auto& s = specimens.back();
    const std::byte* from = room(s.stream);
    items.push_back({const_bytes(from, s.stream.size()), bytes(room(byte_vector(s.room)), s.room)});
  }
  const device_array<inflate_item> table(items, stream);
  const device_array<inflate_result> results(items.size());
  ASSERT_TRUE(inflate_batch(table.all(), results.all(), stream));
  const auto seen = results.download(stream);
  for (size_t i = 0; i < specimens.size(); ++i) {
    byte_vector out(specimens[i].room);
    const inflate_result expected = inflate(specimens[i].stream, out);
    EXPECT_EQ(seen[i].code, expected.code) << i;
    EXPECT_EQ(seen[i].bytes, expected.bytes) << i;
  }
}

TEST(kernels_of_tensors, statistics) {
  const device_stream stream;
  std::vector<float> values(30000, 0.f);
  for (size_t i = 0; i < values.size(); i += 3) values[i] = 2.f;
  const device_array<float> from(values, stream);
  const device_array<tensor_statistics> seen(1);
  const device_array<std::byte> scratch(statistics_scratch_bytes);
  ASSERT_EQ(initialize(scratch.scratch(), stream).code, status::ok);
  ASSERT_EQ(gather_statistics(span<const float>(from.all()), seen.data(), scratch.scratch(), stream).code, status::ok);
  const tensor_statistics s = seen.download(stream)[0];
  EXPECT_EQ(s.count, values.size());
  EXPECT_EQ(s.zeros, 20000u);
  EXPECT_DOUBLE_EQ(s.magnitudes, 20000.);
}

TEST(kernels_of_frames, copy) {
  const device_stream stream;
  byte_vector bytes(5000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  bytes.resize(5008);
  const device_array<std::byte> from(bytes, stream), to(byte_vector(6000), stream);
  const device_array<outcome> frame(std::vector<outcome>{{.bytes = 5000, .code = status::ok}}, stream);
  ASSERT_TRUE(copy_frame({from.data(), nullptr, frame.data(), to.data(), 6000, nullptr, nullptr, nullptr}, {}, stream));
  const auto out = to.download(5000, stream);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), bytes.begin()));
}

}  // namespace
}  // namespace tuck::test
