#include "bench/support/run_models.hpp"

#include <tuck/host.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace {

using namespace tuck::bench;

template <class Model, class T> uint64_t bytes(const std::vector<T>& values) {
  return Model::bytes(tuck::span<const T>(values));
}

TEST(RunModels, pairs) {
  EXPECT_EQ(bytes<pairs>(std::vector<float>{1, 1, 2, 2, 2, 1}), 3u * 5);
  EXPECT_EQ(bytes<pairs>(std::vector<uint8_t>(255, 9)), 2u);
  EXPECT_EQ(bytes<pairs>(std::vector<uint8_t>(256, 9)), 4u);
  EXPECT_EQ(bytes<pairs>(std::vector<float>{0, -0.0f}), 2u * 5);  // bits are compared
}

TEST(RunModels, zero_runs) {
  EXPECT_EQ(bytes<zero_runs>(std::vector<uint16_t>{0, 0, 5, 6, 0, 7}), 3u * 3);
  EXPECT_EQ(bytes<zero_runs>(std::vector<uint16_t>{5, 0, 0}), 2u * 3);
  std::vector<uint16_t> long_run(256, 0);  // 255 zeros, and one more in the value's place
  EXPECT_EQ(bytes<zero_runs>(long_run), 3u);
  long_run.back() = 1;
  EXPECT_EQ(bytes<zero_runs>(long_run), 3u);
  long_run.push_back(1);
  EXPECT_EQ(bytes<zero_runs>(long_run), 6u);
}

TEST(RunModels, one_level_heads) {
  EXPECT_EQ(bytes<one_level_heads>(std::vector<uint32_t>{0, 0, 5, 5, 0}), 4u + 2 * 4);
  EXPECT_EQ(bytes<one_level_heads>(std::vector<uint8_t>(33, 1)), 8u + 1);
}

// The frame adds its own: a raw chunk where the model does not pay, a uniform one, and each payload aligned.
TEST(RunModels, as_codecs_in_frames) {
  const size_of_model<one_level_heads, uint8_t> model;
  const auto frame = [&](const std::vector<uint8_t>& values) {
    const tuck::outcome counted = tuck::host::encoded_bytes(model, values, {.chunk_values = 1024});
    EXPECT_TRUE(counted);
    return counted.bytes;
  };
  const uint64_t empty = frame({});
  std::vector<uint8_t> values(1024, 0);
  const uint64_t uniform = frame(values);
  EXPECT_GE(uniform, empty);
  values[7] = 1;  // two heads: 128 + 2 bytes, aligned 160
  EXPECT_EQ(frame(values), uniform + 160);
  std::generate(values.begin(), values.end(), [i = 0]() mutable { return static_cast<uint8_t>(++i); });
  EXPECT_EQ(frame(values), uniform + 1024);
}

TEST(SparseTensors, have_the_zeros_that_they_should) {
  constexpr uint64_t count = 1 << 20;
  const auto share = [](const auto& values) {
    return static_cast<double>(std::count(values.begin(), values.end(), 0)) / static_cast<double>(count);
  };
  EXPECT_NEAR(share(iid<uint8_t>(count, 0.8)), 0.8, 0.002);
  const std::vector<uint32_t> values = clustered<uint32_t>(count, 0.93);
  EXPECT_NEAR(share(values), 0.93, 0.005);
  uint64_t runs = 0;
  for (uint64_t i = 1; i < count; ++i) runs += values[i] == 0 && values[i - 1] != 0 ? 1 : 0;
  EXPECT_NEAR(share(values) * count / static_cast<double>(runs), 32, 1);
  EXPECT_EQ(bytes<pairs>(equal_runs<uint32_t>(1000, 100)), 10u * 5);
}

}  // namespace
