// Every codec that the program knows, for every type that it takes: the device's frame is the host's, and both decode
// it to the same values, which are those encoded or within the bound.
#include "support/effort.hpp"
#include "support/tensors.hpp"
#include "tuck/codecs.hpp"

#include <tuck/core/floating.hpp>
#include <tuck/host.hpp>

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

namespace tuck::test {
namespace {

using byte_vector = std::vector<std::byte>;

constexpr double lossy_bound = .01;

// Gaussian where the type is a float, for bounds to mean something; else any bits.
template <element T> byte_vector tensor_of(uint64_t count, double sparsity, pattern how, uint64_t seed) {
  auto values = sparse_tensor<T>(count, sparsity, how, seed);
  if constexpr (floating_element<T>) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    using real = typename float_format<T>::real;
    for (T& value : values)
      if (bits_of(value) != 0)
        value = __builtin_bit_cast(T, float_format<T>::narrow(static_cast<real>(normal(random))));
  }
  byte_vector bytes(count * sizeof(T));
  if (count != 0) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
byte_vector tensor_of(dtype type, uint64_t count, double sparsity, pattern how, uint64_t seed) {
  switch (type) {
    case dtype::f16: return tensor_of<f16>(count, sparsity, how, seed);
    case dtype::bf16: return tensor_of<bf16>(count, sparsity, how, seed);
    case dtype::f32: return tensor_of<float>(count, sparsity, how, seed);
    case dtype::f64: return tensor_of<double>(count, sparsity, how, seed);
    case dtype::f8e4m3: return tensor_of<f8e4m3>(count, sparsity, how, seed);
    case dtype::f8e5m2: return tensor_of<f8e5m2>(count, sparsity, how, seed);
    default: break;
  }
  switch (size_of(type)) {
    case 1: return tensor_of<uint8_t>(count, sparsity, how, seed);
    case 2: return tensor_of<uint16_t>(count, sparsity, how, seed);
    case 4: return tensor_of<uint32_t>(count, sparsity, how, seed);
    default: return tensor_of<uint64_t>(count, sparsity, how, seed);
  }
}

template <floating_element T> void expect_within(const byte_vector& values, const byte_vector& restored) {
  const auto at = [](const byte_vector& from, size_t i) {
    bits_t<T> bits;
    std::memcpy(&bits, from.data() + i, sizeof bits);
    return static_cast<double>(float_format<T>::widen(bits));
  };
  for (size_t i = 0; i < values.size(); i += sizeof(T))
    ASSERT_LE(std::abs(at(values, i) - at(restored, i)), lossy_bound) << i;
}
void expect_right(bool lossy, dtype type, const byte_vector& values, const byte_vector& restored) {
  if (!lossy) {
    ASSERT_TRUE(values == restored);
    return;
  }
  switch (type) {
    case dtype::f16: return expect_within<f16>(values, restored);
    case dtype::bf16: return expect_within<bf16>(values, restored);
    case dtype::f32: return expect_within<float>(values, restored);
    default: return expect_within<double>(values, restored);
  }
}

void expect_round_trip(const tools::codec_choice& choice, dtype type, const byte_vector& values,
                       const frame_options& options) {
  const uint64_t count = values.size() / size_of(type);
  const tools::frame_plan plan = tools::plan_frame(choice, type, count, options);
  ASSERT_EQ(plan.code, status::ok);
  byte_vector frame(plan.most_bytes), on_device(plan.most_bytes);
  const outcome host = tools::encode_frame(choice, type, values, frame, options, {.threads = 2});
  ASSERT_EQ(host.code, status::ok);
  frame.resize(host.bytes);
  const outcome device = tools::encode_on_device(choice, type, values, on_device, options);
  ASSERT_EQ(device.code, status::ok);
  on_device.resize(device.bytes);
  ASSERT_TRUE(frame == on_device);

  byte_vector restored(values.size(), std::byte{0x5a}), restored_on_device(values.size(), std::byte{0xa5});
  ASSERT_EQ(tools::decode_frame(frame, restored, 0, {.threads = 2}).code, status::ok);
  ASSERT_EQ(tools::decode_on_device(frame, restored_on_device).code, status::ok);
  ASSERT_TRUE(restored == restored_on_device);
  expect_right(tools::is_lossy(choice.name), type, values, restored);
}

class every_codec : public ::testing::TestWithParam<std::string> {};

TEST_P(every_codec, round_trips_every_type_on_host_and_device_with_equal_bytes) {
  const tools::codec_choice choice{GetParam(), error_bound::absolute(lossy_bound)};
  constexpr uint64_t chunk = 1024;
  const std::vector<uint64_t> counts =
      brief ? std::vector<uint64_t>{0, 1, 33, 2 * chunk + 7}
            : std::vector<uint64_t>{0, 1, 31, 32, 33, chunk - 1, chunk, chunk + 1, 2 * chunk + 7};
  int types = 0;
  for (uint8_t t = 1; size_of(dtype{t}) != 0; ++t) {
    const dtype type{t};
    if (tools::choose_codec(choice, type) == nullptr) continue;
    ++types;
    for (const uint64_t count : counts)
      for (const double sparsity : {0., .6, 1.}) {
        SCOPED_TRACE(tuck::name(type) + (" " + std::to_string(count)) + " values, zeros: " + std::to_string(sparsity));
        const auto values = tensor_of(type, count, sparsity, pattern::clustered, count + t);
        ASSERT_NO_FATAL_FAILURE(
            expect_round_trip(choice, type, values, {.chunk_values = chunk, .checksums = count % 2 == 1}));
      }
    // Chunks as they are when nothing is said.
    const auto values = tensor_of(type, 70'000 / size_of(type), .6, pattern::iid, t);
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(choice, type, values, {})) << tuck::name(type);
  }
  EXPECT_GE(types, 3);
}
// Runs work in a thread with a stack of 128 KiB, as musl's have. Returns the bytes of the stack that it used.
size_t stack_used_by(const std::function<void()>& work) {
  constexpr size_t size = 128 * 1024;
  constexpr unsigned char unused = 0xa5;
  struct thread {
    const std::function<void()>& work;
    unsigned char* top = nullptr;
  } running{work};
  const auto run = [](void* of) -> void* {
    auto& it = *static_cast<thread*>(of);
    it.top = static_cast<unsigned char*>(__builtin_frame_address(0));
    it.work();
    return nullptr;
  };
  void* const all = ::mmap(nullptr, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned char* const stack = static_cast<unsigned char*>(all) + size;  // below, no access
  pthread_attr_t attributes;
  pthread_t id;
  if (all == MAP_FAILED || ::mprotect(stack, size, PROT_READ | PROT_WRITE) != 0 ||
      ::pthread_attr_init(&attributes) != 0 || ::pthread_attr_setstack(&attributes, stack, size) != 0)
    return size;
  std::memset(stack, unused, size);
  const bool ran = ::pthread_create(&id, &attributes, run, &running) == 0 && ::pthread_join(id, nullptr) == 0;
  const unsigned char* lowest = stack;
  while (ran && *lowest == unused) ++lowest;
  const size_t used = ran ? static_cast<size_t>(running.top - lowest) : size;
  ::pthread_attr_destroy(&attributes);
  ::munmap(all, 2 * size);
  return used;
}
constexpr size_t most_stack = 64 * 1024;

TEST_P(every_codec, needs_little_of_the_stack) {
  if (threads_alone) GTEST_SKIP() << "ThreadSanitizer has large stack frames";
  const tools::codec_choice choice{GetParam(), error_bound::absolute(lossy_bound)};
  for (uint8_t t = 1; size_of(dtype{t}) != 0; ++t) {
    const dtype type{t};
    if (tools::choose_codec(choice, type) == nullptr) continue;
    SCOPED_TRACE(tuck::name(type));
    const uint32_t chunk = tools::most_chunk_values(choice.name, type);
    const auto base = tensor_of(type, chunk + 7, .6, pattern::iid, t);
    byte_vector changed = base, restored(base.size());
    for (size_t i = 0; i < changed.size(); i += 64) changed[i] ^= std::byte{1};
    for (const uint32_t values : {0u, chunk}) {
      const frame_options options{.chunk_values = values};
      byte_vector frame(tools::plan_frame(choice, type, chunk + 7, options).most_bytes);
      outcome encoded, decoded;
      EXPECT_LE(stack_used_by([&] {
                  encoded = tools::encode_frame(choice, type, base, frame, options, {});
                  decoded = tools::decode_frame(frame, restored, 0, {});
                }),
                most_stack);
      EXPECT_TRUE(encoded && decoded);
      if (tools::is_lossy(choice.name)) continue;
      EXPECT_TRUE(restored == base);
      const const_bytes of_base = base;
      EXPECT_LE(stack_used_by([&] {
                  encoded = tools::encode_frame(choice, type, changed, frame, options, {}, &of_base);
                  decoded = tools::decode_delta_frame(frame, base, restored, {});
                }),
                most_stack);
      EXPECT_TRUE(encoded && decoded);
      EXPECT_TRUE(restored == changed);
    }
  }
}

TEST(batches, need_little_of_the_stack) {
  if (slow) GTEST_SKIP() << "sanitizers have large stack frames";
  const zvc_huffman<float> codec;
  std::vector<float> values(40'000, 1.5f), restored(values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? 0.f : static_cast<float>(i);
  byte_vector frame(max_frame_bytes(codec, values.size()));
  const std::vector<encode_item<float>> from{{values, frame}};
  const std::vector<decode_item<float>> to{{frame, restored}};
  std::vector<outcome> written(1), read(1);
  EXPECT_LE(stack_used_by([&] {
              static_cast<void>(host::encode_batch(codec, from, written));
              static_cast<void>(host::decode_batch(codec, to, read));
            }),
            most_stack);
  EXPECT_TRUE(written[0] && read[0]);
  EXPECT_EQ(restored, values);
}

INSTANTIATE_TEST_SUITE_P(of, every_codec, ::testing::ValuesIn(tools::codec_names()), [](const auto& of) {
  std::string name = of.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '+' || c == '-'; }, '_');
  return name;
});

}  // namespace
}  // namespace tuck::test
