#include "bench/micro/device_timing.cuh"
#include "bench/support/random.hpp"
#include "tuck/codecs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

namespace tuck::bench {
namespace {

constexpr uint64_t raw_bytes = 64 << 10;
constexpr double tolerance = 1e-3;
constexpr bool simulated = tools::simulated;

const run_limits few{.least_runs = 3, .most_runs = 5, .seconds = 0};

template <class T> coder_request request_for(const std::vector<T>& values) {
  return {dtype_of<T>, values.size() * sizeof(T), 64 << 10, tolerance};
}
template <class T> const_bytes raw(const std::vector<T>& values) { return as_bytes(span<const T>(values)); }
template <class T> bytes room(std::vector<T>& values) { return as_writable_bytes(span<T>(values)); }

// Half of them zeros.
std::vector<float> floats(uint64_t count = raw_bytes / sizeof(float), uint64_t seed = 1) {
  generator random(seed);
  std::vector<float> values(count);
  for (float& v : values) v = random() % 2 == 0 ? 0.f : static_cast<float>(uniform(random, -1, 1));
  return values;
}

std::vector<int32_t> steps() {
  std::vector<int32_t> values(raw_bytes / sizeof(int32_t));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i / 100);
  return values;
}

// Of the host's frame.
template <class T> uint64_t frame_bytes(const char* codec, const std::vector<T>& values) {
  const tools::codec_choice choice{codec, error_bound::absolute(tolerance)};
  std::vector<std::byte> frame(tools::plan_frame(choice, dtype_of<T>, values.size(), {}).most_bytes);
  const outcome done = tools::encode_frame(choice, dtype_of<T>, raw(values), frame, {}, {});
  EXPECT_EQ(done.code, status::ok);
  return done.bytes;
}

// What a call must move, and what it says that it did: on the simulator by counting.
void expect_cost(const device_cost& cost, double least, double most) {
  EXPECT_GE(cost.moved_bytes, least);
  EXPECT_LE(cost.moved_bytes, most);
  EXPECT_EQ(cost.launches, simulated ? 1u : 0u);
  EXPECT_EQ(cost.seconds.empty(), simulated);
  EXPECT_EQ(cost.seconds.size(), cost.copy_seconds.size());
}

struct call_costs {
  device_cost encode, decode;
};

// Encodes and decodes `values`; `same` compares what came back.
template <class T, class Same> call_costs restore(const char* codec, const std::vector<T>& values, const Same& same) {
  const auto made = make_device_coder(codec, request_for(values));
  EXPECT_NE(made, nullptr);
  if (made == nullptr) return {};
  call_costs costs;
  costs.encode = made->encode(raw(values), few);
  EXPECT_EQ(made->encoded_bytes(), frame_bytes(codec, values));
  std::vector<T> restored(values.size());
  costs.decode = made->decode(room(restored), few);
  EXPECT_TRUE(same(values, restored)) << codec;
  const double once = static_cast<double>(raw_bytes + made->encoded_bytes());
  expect_cost(costs.encode, .9 * once, 2.2 * once);
  expect_cost(costs.decode, .9 * once, 1.2 * once);
  return costs;
}

constexpr auto same_bits = [](const auto& a, const auto& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
};
constexpr auto within_tolerance = [](const auto& a, const auto& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(double(a[i]) - double(b[i])));
  return most <= tolerance;
};

TEST(DeviceBench, zvc) {
  const auto values = floats();
  const auto costs = restore("zvc", values, same_bits);
  EXPECT_LE(costs.encode.moved_bytes, 1.2 * static_cast<double>(raw_bytes + frame_bytes("zvc", values)));
}

TEST(DeviceBench, quantize) { restore("quantize", floats(), within_tolerance); }

TEST(DeviceBench, chains) {
  restore("zvc+huffman", floats(), same_bits);
  restore("delta+rle+bitpack", steps(), same_bits);
}

TEST(DeviceBench, deflate) { restore("deflate", floats(), same_bits); }

TEST(DeviceBench, has_no_coder_of_other_names_and_types) {
  EXPECT_EQ(make_device_coder("zip", request_for(floats())), nullptr);
  EXPECT_EQ(make_device_coder("", request_for(floats())), nullptr);
  EXPECT_EQ(make_device_coder("quantize", request_for(steps())), nullptr);
}

TEST(DeviceBench, refuses_a_tolerance_that_is_none) {
  coder_request request = request_for(floats());
  for (const double none : {0., -1., std::nan("")}) {
    request.tolerance = none;
    EXPECT_THROW(make_device_coder("quantize", request), std::runtime_error);
    EXPECT_NE(make_device_coder("zvc", request), nullptr);
  }
}

TEST(DeviceBench, refuses_other_lengths_and_decoding_before_encoding) {
  auto values = floats(100), longer = floats(101);
  const auto made = make_device_coder("zvc", request_for(values));
  EXPECT_THROW(made->decode(room(values), few), std::runtime_error);
  EXPECT_THROW(made->encode(raw(longer), few), std::runtime_error);
  made->encode(raw(values), few);
  EXPECT_THROW(made->decode(room(longer), few), std::runtime_error);
  EXPECT_EQ(made->decode(room(values), few).seconds.empty(), simulated);
}

TEST(DeviceBench, keeps_nothing_from_one_tensor_to_the_next) {
  const auto values = floats(1000), others = floats(1000, 2);
  auto restored = values;
  const auto made = make_device_coder("zvc", request_for(values));
  made->encode(raw(values), few);
  made->encode(raw(others), few);
  EXPECT_EQ(made->encoded_bytes(), frame_bytes("zvc", others));
  made->decode(room(restored), few);
  EXPECT_EQ(restored, others);
  made->decode(room(restored), few);
  EXPECT_EQ(restored, others);
}

TEST(DeviceBench, takes_tensors_of_any_size) {
  for (const uint64_t count : {0, 1, 4097}) {
    const auto values = floats(count);
    auto restored = floats(count, 2);
    const auto made = make_device_coder("zvc", request_for(values));
    made->encode(raw(values), few);
    EXPECT_EQ(made->encoded_bytes(), frame_bytes("zvc", values));
    made->decode(room(restored), few);
    EXPECT_EQ(restored, values);
  }
}

// -- what only a GPU uses
// ----------------------------------------------------------------------------------------------

TEST(DeviceTiming, copies_all_and_no_more) {
  const tools::device_stream stream;
  for (const uint64_t words : {uint64_t{1}, uint64_t{255}, uint64_t{copy_threads} * 400 + 1}) {
    const uint64_t size = words * copy_bytes;
    const tools::device_memory from(size), to(size + copy_bytes);
    require(cudaMemsetAsync(to.all().data(), 0x33, to.all().size(), stream));
    launch_fill(from.all(), stream);
    launch_copy(from.all(), to.all().subspan(0, size), stream);
    std::vector<std::byte> wanted(size), seen(size + copy_bytes);
    from.download(wanted, stream);
    to.download(seen, stream);
    wanted.resize(seen.size(), std::byte{0x33});
    EXPECT_EQ(seen, wanted);
  }
}

TEST(DeviceTiming, fills_with_words_of_which_hardly_two_are_the_same) {
  const tools::device_stream stream;
  const tools::device_memory filled(1 << 16);
  launch_fill(filled.all(), stream);
  std::vector<uint32_t> words((1 << 16) / sizeof(uint32_t));
  filled.download(room(words), stream);
  EXPECT_GE(std::set<uint32_t>(words.begin(), words.end()).size(), words.size() - 8);
}

TEST(DeviceTiming, runs_calls_in_turn_between_the_limits) {
  const device_timing timing(2, 1 << 10);
  std::string seen;
  const auto runs = [&](const run_limits& limits) {
    seen.clear();
    const auto seconds = timing.in_turn(
        limits, [&](uint32_t i) { seen += static_cast<char>('a' + i); },
        [&](uint32_t i) { seen += static_cast<char>('A' + i); });
    EXPECT_EQ(seconds[0].size(), seconds[1].size());
    return seconds[0].size();
  };
  EXPECT_EQ(runs({.least_runs = 1, .most_runs = 9, .seconds = 0}), 1u);
  EXPECT_EQ(seen, "aAbBaA");  // two to warm up
  EXPECT_EQ(runs({.least_runs = 4, .most_runs = 9, .seconds = 0}), 4u);
  EXPECT_EQ(runs({.least_runs = 1, .most_runs = 6, .seconds = 1e9}), 6u);
  EXPECT_EQ(seen, "aAbBaAbBaAbBaAbB");
}

TEST(DeviceTiming, copies_what_moves_so_many_bytes) {
  if (simulated) {
    EXPECT_TRUE(copy_on_device(raw_bytes, few).seconds.empty());
  } else {
    EXPECT_GE(copy_on_device(raw_bytes, few).seconds.size(), few.least_runs);
  }
  EXPECT_EQ(device_timing(2, 1 << 10).copy_seconds(few, 1 << 10).size(), few.least_runs);
}

TEST(DeviceTiming, describes_a_gpu_only) {
  EXPECT_EQ(describe_device().has_value(), !simulated);
  if (simulated) {
    EXPECT_TRUE(device_peers().empty());
  }
}

}  // namespace
}  // namespace tuck::bench
