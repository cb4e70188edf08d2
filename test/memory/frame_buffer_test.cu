// Frames that own their memory, over resources of every known shape.
#include "support/device.hpp"

#include <map>

namespace tuck::test {
namespace {

// Counts what is out, and takes the two signatures that are about.
struct counting {
  std::map<void*, size_t> out;
  uint64_t most = 0;

  void* take(size_t size, cudaStream_t stream) {
    void* p = async_resource().allocate(stream, size);
    out[p] = size;
    most = std::max(most, held());
    return p;
  }
  void give(void* p, size_t size, cudaStream_t stream) {
    EXPECT_EQ(out.at(p), size);
    out.erase(p);
    async_resource().deallocate(stream, p, size);
  }
  uint64_t held() const {
    uint64_t sum = 0;
    for (const auto& [p, size] : out) sum += size;
    return sum;
  }
};
struct stream_first : counting {
  void* allocate(cudaStream_t stream, size_t size, size_t) { return take(size, stream); }
  void deallocate(cudaStream_t stream, void* p, size_t size, size_t) { give(p, size, stream); }
};
struct async_verbs : counting {
  void* allocate_async(size_t size, size_t, cudaStream_t stream) { return take(size, stream); }
  void deallocate_async(void* p, size_t size, size_t, cudaStream_t stream) { give(p, size, stream); }
};
template <class R> class frame_buffer_suite : public ::testing::Test {};
// The same where only a reference is left that has forgotten its type.
struct referred {
  stream_first resource;
  resource_ref ref{resource};
  const std::map<void*, size_t>& out = resource.out;

  void* allocate(cudaStream_t stream, size_t size, size_t alignment) { return ref.allocate(stream, size, alignment); }
  void deallocate(cudaStream_t stream, void* p, size_t size, size_t alignment) {
    ref.deallocate(stream, p, size, alignment);
  }
  uint64_t held() const { return resource.held(); }
};
using resources = ::testing::Types<stream_first, async_verbs, referred>;
TYPED_TEST_SUITE(frame_buffer_suite, resources);

TYPED_TEST(frame_buffer_suite, a_frame_shrinks_to_its_size_and_comes_back) {
  TypeParam resource;
  const device_stream stream;
  const auto values = sparse_tensor<float>(3 * 4096 + 1, .9);
  const device_array<float> in(values, stream), out(values.size());
  const span<const float> all = in.all();
  const auto expected = encoded(zvc<float>{}, values);
  {
    auto packed = encode(zvc<float>{}, all, resource, stream);
    EXPECT_EQ(resource.out.size(), 2u);  // frame and outcome; the scratch is back
    ASSERT_EQ(packed.wait_sync().bytes, expected.size());
    ASSERT_EQ(packed.shrink_sync().bytes, expected.size());
    EXPECT_EQ(resource.held(), expected.size() + sizeof(outcome));
    const outcome o = decode_sync(zvc<float>{}, packed.frame(), out.all(), resource, stream);
    EXPECT_EQ(o.code, status::ok);
    EXPECT_TRUE(same_bits(out.download(stream), values));
    auto moved = std::move(packed);
    EXPECT_EQ(moved.frame().size(), expected.size());
  }
  EXPECT_TRUE(resource.out.empty());
  stream.wait();
}

TYPED_TEST(frame_buffer_suite, any_range_decodes_alone) {
  TypeParam resource;
  const device_stream stream;
  const auto values = sparse_tensor<float>(2 * 4096, .5);
  const device_array<std::byte> frame(encoded(zvc<float>{}, values), stream);
  const device_array<float> out(100);
  EXPECT_EQ(decode_sync(zvc<float>{}, frame.all(), out.all(), resource, stream, 4090).code, status::ok);
  EXPECT_TRUE(same_bits(out.download(stream), {values.begin() + 4090, values.begin() + 4190}));
}

TYPED_TEST(frame_buffer_suite, misuse_throws_and_leaks_nothing) {
  TypeParam resource;
  const device_stream stream;
  const device_array<float> in(100);
  const span<const float> all = in.all();
  try {
    static_cast<void>(encode(zvc<float>{}, all, resource, stream, {.chunk_values = 33}));
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), status::invalid_argument);
    EXPECT_STREQ(e.what(), message(status::invalid_argument));
  }
  const span<const float> odd(reinterpret_cast<const float*>(reinterpret_cast<const char*>(in.data()) + 1), 10);
  EXPECT_THROW(static_cast<void>(encode(zvc<float>{}, odd, resource, stream)), error);
  EXPECT_TRUE(resource.out.empty());
  stream.wait();
}

// What ends in _sync is done when it returns, also for work that is ordered behind no stream of it: the legacy default
// stream does not wait for streams that do not block.
TYPED_TEST(frame_buffer_suite, what_has_waited_is_done) {
  TypeParam resource;
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto values = sparse_tensor<float>(3 * 4096 + 1, .9);
  const auto expected = encoded(zvc<float>{}, values);
  {
    const device_array<float> in(values, stream), out(values.size());
    const span<const float> all = in.all();
    auto packed = encode(zvc<float>{}, all, resource, stream);
    frame_bytes seen(packed.wait_sync().bytes);
    check(cudaMemcpy(seen.data(), packed.frame().data(), seen.size(), cudaMemcpyDefault));
    EXPECT_EQ(seen, expected);
    ASSERT_EQ(packed.shrink_sync().bytes, expected.size());
    std::fill(seen.begin(), seen.end(), std::byte{});
    check(cudaMemcpy(seen.data(), packed.frame().data(), seen.size(), cudaMemcpyDefault));
    EXPECT_EQ(seen, expected);
    EXPECT_TRUE(decode_sync(zvc<float>{}, packed.frame(), out.all(), resource, stream));
    std::vector<float> restored(values.size());
    check(cudaMemcpy(restored.data(), out.data(), values.size() * sizeof(float), cudaMemcpyDefault));
    EXPECT_TRUE(same_bits(restored, values));
  }
  check(cudaStreamDestroy(stream));
}

// Frames straight in pinned memory, which the host can read.
TEST(pinned_resource, holds_frames_for_the_host) {
  pinned_resource pinned;
  const device_stream stream;
  const auto values = sparse_tensor<float>(4096 + 1, .9);
  const device_array<float> in(values, stream);
  const span<const float> all = in.all();
  auto packed = encode(zvc<float>{}, all, pinned, stream);
  const outcome o = packed.wait_sync();
  ASSERT_TRUE(o);
  EXPECT_TRUE(same_bits(decoded(zvc<float>{}, {packed.frame().begin(), packed.frame().end()}), values));
}

TEST(frame_buffer, takes_streams_of_every_type) {
  const device_stream stream;
  async_resource resource;
  const device_array<float> in(100), out(100);
  for (int i = 0; i < 3; ++i) {
    const auto packed = i == 0   ? encode(zvc<float>{}, span<const float>(in.all()), resource, 0)
                        : i == 1 ? encode(zvc<float>{}, span<const float>(in.all()), resource, stream_reference{stream})
                                 : encode(zvc<float>{}, span<const float>(in.all()), resource, explicit_stream{stream});
    EXPECT_TRUE(packed.wait_sync());
    EXPECT_TRUE(decode_sync(zvc<float>{}, packed.frame(), out.all(), resource, stream_reference{stream}));
  }
}

TEST(device_buffer, of_no_bytes_asks_for_none) {
  stream_first resource;
  const device_buffer empty(resource, 0, nullptr);
  EXPECT_TRUE(resource.out.empty());
  EXPECT_EQ(empty.all().data(), nullptr);
}

#if defined(TUCK_CUDASIM)
// The null stream is that of the current device.
TEST(frame_buffer, is_read_and_freed_on_its_device) {
  auto settings = cudasim::current_settings();
  settings.devices = 2;
  cudasim::configure(settings);
  check(cudaSetDevice(1));
  bound_resource resource{1};
  {
    const device_array<float> in(std::vector<float>(5000), nullptr);
    auto packed = encode(zvc<float>{}, span<const float>(in.all()), resource, nullptr);
    auto moved = std::move(packed);
    check(cudaSetDevice(0));
    EXPECT_TRUE(moved.shrink_sync());
    const auto last = std::move(moved);
  }
  EXPECT_EQ(resource.calls, 8);
  EXPECT_EQ(resource.wrong, 0);
  int device = -1;
  check(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
  settings.devices = 1;
  cudasim::configure(settings);
}
#endif

}  // namespace
}  // namespace tuck::test
