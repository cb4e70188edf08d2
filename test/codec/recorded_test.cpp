// The codecs on recorded activations, examples/data.
#include "support/frames.hpp"
#include "support/npy.hpp"

#include <cmath>
#include <filesystem>

namespace tuck::test {
namespace {

std::vector<std::vector<float>> recorded_tensors() {
  std::vector<std::vector<float>> tensors;
  for (const auto& entry : std::filesystem::directory_iterator(TUCK_DATA)) {
    if (entry.path().extension() != ".npy") continue;
    const tools::npy_file file = tools::read_npy(entry.path().string());
    EXPECT_EQ(file.header.type, dtype::f32) << entry.path();
    tensors.emplace_back(file.header.values);
    std::memcpy(tensors.back().data(), file.data().data(), file.data().size());
  }
  return tensors;
}

template <codec C> double log_ratio(const C& codec, const std::vector<value_t<C>>& values) {
  return std::log(static_cast<double>(values.size() * sizeof(value_t<C>)) /
                  static_cast<double>(encoded(codec, values).size()));
}

TEST(recorded, rle_beats_zvc) {
  const auto tensors = recorded_tensors();
  ASSERT_EQ(tensors.size(), 13u);
  double of_zvc = 0, of_rle = 0, of_rle_zero = 0;
  for (const auto& values : tensors) {
    of_zvc += log_ratio(zvc<float>{}, values) / 13;
    of_rle += log_ratio(rle<float>{}, values) / 13;
    of_rle_zero += log_ratio(rle_zero<float>{}, values) / 13;
    EXPECT_TRUE(same_bits(decoded(rle<float>{}, encoded(rle<float>{}, values)), values));
  }
  EXPECT_GE(std::exp(of_rle - of_zvc), 1.08);
  EXPECT_GE(std::exp(of_rle_zero - of_zvc), 1.05);
  std::printf("    zvc %.3f, rle %.3f, rle-zero %.3f\n", std::exp(of_zvc), std::exp(of_rle), std::exp(of_rle_zero));
}

}  // namespace
}  // namespace tuck::test
