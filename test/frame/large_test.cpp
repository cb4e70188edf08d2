// Beyond 4 GiB, in memory that is mostly never touched.
#include "support/frames.hpp"

#include <sys/mman.h>

namespace tuck::test {
namespace {

// Zero pages that cost nothing until they are written.
class sparse_memory {
 public:
  explicit sparse_memory(uint64_t size) : size_(size) {
    void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
  }
  sparse_memory(const sparse_memory&) = delete;
  sparse_memory& operator=(const sparse_memory&) = delete;
  ~sparse_memory() {
    if (data_ != nullptr) munmap(data_, size_);
  }
  bytes all() const { return {data_, data_ == nullptr ? 0 : size_}; }

 private:
  uint64_t size_;
  std::byte* data_;
};

#if defined(__SANITIZE_THREAD__)
#define TUCK_SKIP_UNDER_TSAN() GTEST_SKIP() << "ThreadSanitizer keeps a shadow of all that is read: over 16 GiB here"
#else
#define TUCK_SKIP_UNDER_TSAN() static_cast<void>(0)
#endif

TEST(large, a_tensor_of_more_than_4_gib) {
  TUCK_SKIP_UNDER_TSAN();
  constexpr uint64_t count = (uint64_t{1} << 32) + 3 * 16384 + 5;
  const sparse_memory memory(count);
  ASSERT_FALSE(memory.all().empty());
  const span<uint8_t> values(reinterpret_cast<uint8_t*>(memory.all().data()), count);
  const uint64_t places[] = {0, 12345, (uint64_t{1} << 31) + 1, (uint64_t{1} << 32) - 1, uint64_t{1} << 32, count - 1};
  for (const uint64_t place : places) values[place] = static_cast<uint8_t>(1 + place % 251);

  const zvc<uint8_t> codec;
  const outcome needed = host::encoded_bytes(codec, values);
  ASSERT_EQ(needed.code, status::ok);
  EXPECT_LT(needed.bytes, count / 500);
  frame_bytes frame(needed.bytes);
  ASSERT_EQ(host::encode(codec, values, frame).bytes, needed.bytes);

  for (const uint64_t place : places) {
    const uint64_t first = place < 1000 ? 0 : place - 1000;
    std::vector<uint8_t> out(std::min<uint64_t>(2000, count - first), 9);
    ASSERT_EQ(host::decode(codec, frame, out, first).code, status::ok);
    ASSERT_EQ(std::memcmp(out.data(), values.data() + first, out.size()), 0) << place;
  }
  std::vector<uint8_t> window(uint64_t{1} << 28);
  for (uint64_t first = 0; first < count; first += window.size()) {
    window.resize(std::min<uint64_t>(window.size(), count - first));
    ASSERT_EQ(host::decode(codec, frame, window, first).code, status::ok);
    ASSERT_EQ(std::memcmp(window.data(), values.data() + first, window.size()), 0) << first;
  }
}

TEST(large, payloads_beyond_4_gib_of_the_frame) {
  constexpr uint64_t far = (uint64_t{1} << 32) + 4096;
  const auto values = sparse_tensor<float>(128, .5);
  const auto small = encoded(zvc<float>{}, values, {.chunk_values = 64, .checksums = true});
  const frame_layout at = layout_of(header_of(small));
  const directory_entry old{load_unaligned<uint64_t>(small.data() + at.directory + 8)};

  const sparse_memory memory(far + 4096);
  const bytes frame = memory.all();
  ASSERT_FALSE(frame.empty());
  std::memcpy(frame.data(), small.data(), small.size());
  std::memset(frame.data() + old.start() * 32, 0xee, old.bytes());  // what 32-bit arithmetic would read
  std::memcpy(frame.data() + far, small.data() + old.start() * 32, old.bytes());
  store_unaligned(frame.data() + at.directory + 8, directory_entry::make(old.kind(), old.bytes(), far / 32).word);
  auto h = header_of(small);
  h.frame_bytes = frame.size();
  h.contents_digest = checksum(const_bytes(frame).subspan(sizeof h, at.contents_end - sizeof h));
  h.header_digest = digest_of(h);
  store_unaligned(frame.data(), h);

  std::vector<float> out(128);
  ASSERT_EQ(host::decode(zvc<float>{}, frame, out).code, status::ok);
  EXPECT_TRUE(same_bits(out, values));
}

}  // namespace
}  // namespace tuck::test
