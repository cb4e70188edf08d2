#include "bench/peers/chunked_coder.hpp"
#include "bench/support/random.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

namespace {

using namespace tuck::bench;
using tuck::dtype;

constexpr uint64_t chunk_bytes = 64 << 10;
constexpr double tolerance = 1e-3;

coder_request request_of(dtype type, uint64_t raw_bytes) { return {type, raw_bytes, chunk_bytes, tolerance}; }
template <class T> coder_request request_for(const std::vector<T>& values) {
  return request_of(tuck::dtype_of<T>, values.size() * sizeof(T));
}

template <class T> tuck::const_bytes raw(const std::vector<T>& values) {
  return tuck::as_bytes(tuck::span<const T>(values));
}

// Half of the values are zeros, anywhere; there is one that is not.
template <class T> std::vector<T> half_zeros(size_t count, uint64_t seed = 1) {
  generator random(seed);
  std::vector<T> values(count);
  for (T& value : values) value = random() % 2 == 0 ? T(0) : static_cast<T>(uniform(random, -1, 1));
  values.back() = T(0.7);
  return values;
}

// One value; a chunk and one more; 1 MiB.
template <class T> std::vector<size_t> counts() { return {1, chunk_bytes / sizeof(T) + 1, (1 << 20) / sizeof(T)}; }

template <class T> void expect_restored(const peer& p, coder& made, const std::vector<T>& values) {
  std::vector<T> restored(values.size(), T(9));
  made.decode(tuck::as_writable_bytes(tuck::span<T>(restored)));
  if (!p.lossy) {
    EXPECT_EQ(std::memcmp(restored.data(), values.data(), values.size() * sizeof(T)), 0);
    return;
  }
  double most = 0;
  for (size_t i = 0; i < values.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(values[i]) - static_cast<double>(restored[i])));
  EXPECT_LE(most, tolerance);
}

struct Peers : testing::Test {
  void SetUp() override {
    if (host_peers().empty()) GTEST_SKIP() << "built with no other library";
  }
};

// test(peer, T()) for each peer and the floating types that it takes.
template <class Test> void for_each_peer(const Test& test) {
  for (const peer& p : host_peers()) {
    SCOPED_TRACE(p.name);
    EXPECT_TRUE(p.takes(dtype::f32));
    test(p, float());
    if (p.takes(dtype::f64)) test(p, double());
  }
}

TEST_F(Peers, have_names_of_their_own) {
  std::set<std::string> names;
  for (const peer& p : host_peers()) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_EQ(p.library.substr(0, p.library.find(' ')), p.name.substr(0, p.name.find('-')));
  }
}

TEST_F(Peers, restore) {
  for_each_peer([]<class T>(const peer& p, T) {
    for (const size_t count : counts<T>()) {
      SCOPED_TRACE(count);
      const auto values = half_zeros<T>(count);
      const auto made = p.make(request_for(values));
      EXPECT_GT(made->encode(raw(values)), 0u);
      expect_restored(p, *made, values);
    }
  });
}

TEST_F(Peers, shrink_half_zeros) {
  for_each_peer([]<class T>(const peer& p, T) {
    const auto values = half_zeros<T>((1 << 20) / sizeof(T));
    EXPECT_LT(p.make(request_for(values))->encode(raw(values)), raw(values).size());
  });
}

TEST_F(Peers, keep_nothing_from_one_tensor_to_the_next) {
  for_each_peer([]<class T>(const peer& p, T) {
    const size_t count = chunk_bytes / sizeof(T) + 1;
    const auto values = half_zeros<T>(count), others = half_zeros<T>(count, 2);
    const auto made = p.make(request_for(values));
    const uint64_t first = made->encode(raw(values));
    EXPECT_EQ(made->encode(raw(values)), first);
    made->encode(raw(others));
    expect_restored(p, *made, others);
    EXPECT_EQ(made->encode(raw(values)), first);
    expect_restored(p, *made, values);
    expect_restored(p, *made, values);
  });
}

// Noise grows, by little; a chunk that comes again is not found in the one before.
TEST_F(Peers, code_chunks_on_their_own) {
  std::vector<uint64_t> chunk(chunk_bytes / sizeof(uint64_t));
  generator random(3);
  for (uint64_t& word : chunk) word = random();
  std::vector<uint64_t> twice = chunk;
  twice.insert(twice.end(), chunk.begin(), chunk.end());
  for (const peer& p : host_peers()) {
    if (p.lossy) continue;
    SCOPED_TRACE(p.name);
    EXPECT_TRUE(p.takes(dtype::u64));
    const uint64_t once = p.make(request_for(chunk))->encode(raw(chunk));
    EXPECT_GT(once, chunk_bytes);
    EXPECT_LT(once, chunk_bytes + chunk_bytes / 100);
    const auto made = p.make(request_for(twice));
    EXPECT_EQ(made->encode(raw(twice)), 2 * once);
    expect_restored(p, *made, twice);
  }
}

TEST_F(Peers, refuse_other_lengths) {
  for_each_peer([]<class T>(const peer& p, T) {
    const auto values = half_zeros<T>(100);
    const auto made = p.make(request_for(values));
    std::vector<T> longer(values.size() + 1);
    const tuck::bytes room = tuck::as_writable_bytes(tuck::span<T>(longer));
    for (const size_t count : {size_t{0}, values.size() - 1, values.size() + 1})
      EXPECT_THROW(made->encode(room.subspan(0, count * sizeof(T))), std::runtime_error) << count;
    made->encode(raw(values));
    for (const size_t count : {size_t{0}, values.size() - 1, values.size() + 1})
      EXPECT_THROW(made->decode(room.subspan(0, count * sizeof(T))), std::runtime_error) << count;
    expect_restored(p, *made, values);
  });
}

TEST_F(Peers, decode_only_what_was_encoded) {
  for_each_peer([]<class T>(const peer& p, T) {
    std::vector<T> values(100);
    EXPECT_THROW(p.make(request_for(values))->decode(tuck::as_writable_bytes(tuck::span<T>(values))),
                 std::runtime_error);
  });
}

TEST_F(Peers, refuse_what_they_do_not_take) {
  for (const peer& p : host_peers()) {
    SCOPED_TRACE(p.name);
    if (p.lossy) {
      EXPECT_THROW(p.make(request_of(dtype::u8, 64)), std::runtime_error);
      EXPECT_THROW(p.make(request_of(dtype::f64, 12)), std::runtime_error);
      EXPECT_THROW(p.make(request_of(dtype::f64, 0)), std::runtime_error);
      EXPECT_THROW(p.make({dtype::f32, 64, chunk_bytes, 0}), std::runtime_error);
    } else {
      EXPECT_EQ(p.make(request_of(dtype::u8, 0))->encode({}), 0u);
      EXPECT_THROW(p.make({dtype::f32, 64, 0, tolerance}), std::runtime_error);
      EXPECT_THROW(p.make({dtype::f32, 64, uint64_t{1} << 32, tolerance}), std::runtime_error);
    }
  }
}

// A library that leaves out the last byte of what it decodes.
struct forgetful {
  static constexpr const char* library = "forgetful";
  explicit forgetful(uint64_t) {}
  uint64_t bound(uint64_t chunk) { return chunk; }
  uint64_t encode(tuck::const_bytes chunk, tuck::bytes) { return chunk.size(); }
  uint64_t decode(tuck::const_bytes, tuck::bytes chunk) { return chunk.size() - 1; }
};

TEST(ChunkedCoder, counts_what_chunks_and_their_sizes_take) {
  const std::vector<float> values(2 * chunk_bytes / sizeof(float) + 1);
  EXPECT_EQ(make_chunked<forgetful>(request_for(values))->encode(raw(values)), raw(values).size() + 3 * 4);
}

TEST(ChunkedCoder, finds_short_chunks_and_names_the_library) {
  std::vector<float> values(10);
  const auto made = make_chunked<forgetful>(request_for(values));
  made->encode(raw(values));
  try {
    made->decode(tuck::as_writable_bytes(tuck::span<float>(values)));
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "forgetful: a chunk decodes to fewer bytes than it had");
  }
}

}  // namespace
