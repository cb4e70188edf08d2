// What a call costs, counted by the simulator: launches, allocations, synchronisations, bytes moved.
#include "support/codecs.hpp"
#include "support/device.hpp"

#if defined(TUCK_CUDASIM)

namespace tuck::test {
namespace {

template <class C> class device_cost : public ::testing::Test {
 protected:
  static constexpr uint64_t count = 12 * (C::chunk_bytes / sizeof(value_t<C>));

  // Runs `call` with all counters fresh; the traffic of `tensor` is told from the rest.
  template <class Call>
  static cudasim::counters cost(const_bytes tensor, const device_stream& stream, const Call& call) {
    auto settings = cudasim::current_settings();
    settings.count_traffic = true;
    cudasim::configure(settings);
    cudasim::tag_tensor(tensor.data(), tensor.size());
    cudasim::clear_counters();
    EXPECT_EQ(call().code, status::ok);
    const cudasim::counters host_side = cudasim::snapshot();
    EXPECT_EQ(host_side.launches, 1u);
    EXPECT_EQ(host_side.allocations, 0u);
    EXPECT_EQ(host_side.synchronisations, 0u);
    EXPECT_EQ(host_side.memcpys, 0u);
    EXPECT_EQ(host_side.memsets, 0u);
    EXPECT_EQ(host_side.get_last_error, 0u);
    stream.wait();
    cudasim::untag(tensor.data());
    settings.count_traffic = false;
    return cudasim::snapshot();
  }

  static double efficiency(uint64_t bytes, uint64_t sectors) {
    return static_cast<double>(bytes) / (32.0 * static_cast<double>(sectors));
  }
};
TYPED_TEST_SUITE(device_cost, framed_codecs, codec_names);

// What quantize keeps as it is, it reads twice, value by value: those are looked at apart.
template <class T> std::vector<T> without_exceptions(std::vector<T> values) {
  if constexpr (floating_element<T>)
    for (T& v : values)
      if (!(std::fabs(exact_value<T>(bits_of(v))) < 1000)) v = T{};
  return values;
}

template <codec C> constexpr bool reads_exceptions_twice = false;
template <floating_element T> constexpr bool reads_exceptions_twice<quantize<T>> = true;

TYPED_TEST(device_cost, encode_reads_the_tensor_once_and_writes_the_frame_once) {
  constexpr bool twice = reads_exceptions_twice<TypeParam>;
  for (const auto& [sparsity, exceptions] :
       std::vector<std::pair<double, bool>>{{0., !twice}, {.6, !twice}, {.9, !twice}, {0., true}, {.9, true}}) {
    device_queue queue;
    auto values = sample<TypeParam>::tensor(TestFixture::count, sparsity);
    if (!exceptions) values = without_exceptions(values);
    const device_array<value_t<TypeParam>> in(values, queue.stream);
    const device_array<std::byte> frame(max_frame_bytes(sample<TypeParam>::codec(), values.size()));
    const span<const value_t<TypeParam>> all = in.all();
    const auto c = TestFixture::cost(as_bytes(all), queue.stream, [&] {
      return encode(sample<TypeParam>::codec(), all, frame.all(), queue.scratch(), queue.written(), queue.stream);
    });
    const uint64_t chunks = 12, frame_bytes = encoded(sample<TypeParam>::codec(), values).size();
    const double raw = static_cast<double>(all.size_bytes());
    // Chunks that do not become smaller are stored from the tensor.
    const double reads = sample<TypeParam>::reads * (frame_bytes < all.size_bytes() ? 1 : 2);
    EXPECT_LE(static_cast<double>(c.tensor_bytes_read), (twice && exceptions ? 1.03 : 1.01) * reads * raw);
    EXPECT_LE(c.other_bytes_written, frame_bytes + 32 * chunks + 64);
    EXPECT_EQ(c.tensor_bytes_written, 0u);
    EXPECT_GE(TestFixture::efficiency(c.tensor_bytes_read, c.tensor_sectors_read), twice && exceptions ? .89 : .97);
    // But for the directory, whose entries are written one by one. The engine counts for each instruction, and also
    // what chunks tell each other and where a payload ends.
#if defined(TUCK_CUDAPTX)
    constexpr uint64_t alone = 5;
#else
    constexpr uint64_t alone = 1;
#endif
    EXPECT_LE(32 * c.other_sectors_written, static_cast<uint64_t>(static_cast<double>(c.other_bytes_written) /
                                                                  sample<TypeParam>::frame_sectors_filled) +
                                                32 * alone * chunks);
    EXPECT_EQ(c.atomics, 3 * chunks);  // a block a chunk: its ticket, its contents, its end
    std::printf("    s %.1f: read %.4f of the tensor, wrote %.4f of the frame, %.3f of sectors filled\n", sparsity,
                static_cast<double>(c.tensor_bytes_read) / raw,
                static_cast<double>(c.other_bytes_written) / static_cast<double>(frame_bytes),
                TestFixture::efficiency(c.other_bytes_written, c.other_sectors_written));
  }
}

// Where the predecessors have published, one look by one warp is enough. How often a block must look again is the
// schedule's affair.
TYPED_TEST(device_cost, look_back_looks_once) {
  device_queue queue;
  const auto values = sample<TypeParam>::tensor(40 * 32, .5);
  const device_array<value_t<TypeParam>> in(values, queue.stream);
  const device_array<std::byte> frame(max_frame_bytes(sample<TypeParam>::codec(), values.size(), {.chunk_values = 32}));
  const span<const value_t<TypeParam>> all = in.all();
  const auto c = TestFixture::cost(as_bytes(all), queue.stream, [&] {
    return encode(sample<TypeParam>::codec(), all, frame.all(), queue.scratch(), queue.written(), queue.stream,
                  {.chunk_values = 32}, {.max_blocks = 1});
  });
  EXPECT_LE(c.polls, 40 * 32 + 8u);   // a warp's look a chunk, and the head
  EXPECT_EQ(c.atomics, 40 + 1 + 1u);  // tickets, one of them too many, and the contents of the only block
}

TYPED_TEST(device_cost, decode_reads_the_frame_once_and_writes_the_tensor_once) {
  for (const double sparsity : {0., .6, .9}) {
    device_queue queue;
    const auto values = sample<TypeParam>::tensor(TestFixture::count, sparsity);
    const auto frame = encoded(sample<TypeParam>::codec(), values);
    const device_array<std::byte> in(frame, queue.stream);
    const device_array<value_t<TypeParam>> out(values.size());
    const auto c = TestFixture::cost(as_bytes(out.all()), queue.stream, [&] {
      return decode(TypeParam{}, in.all(), out.all(), queue.scratch(), queue.written(), queue.stream);
    });
    EXPECT_EQ(c.tensor_bytes_written, out.all().size_bytes());
    EXPECT_EQ(c.tensor_bytes_read, 0u);
    EXPECT_GE(TestFixture::efficiency(c.tensor_bytes_written, c.tensor_sectors_written),
              .97 * sample<TypeParam>::sectors_filled);
    std::printf("    s %.1f: read %.4f of the frame\n", sparsity,
                static_cast<double>(c.other_bytes_read) / static_cast<double>(frame.size()));
  }
}

}  // namespace
}  // namespace tuck::test

#else

TEST(device_cost, counted) { GTEST_SKIP() << "the simulator counts; this is a GPU"; }

#endif
