// The codecs on recorded activations, examples/data, and on smooth fields.
#include "bench/support/fields.hpp"
#include "support/frames.hpp"
#include "support/npy.hpp"

#include <bit>
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
  double of_zvc = 0, of_rle = 0;
  for (const auto& values : tensors) {
    of_zvc += log_ratio(zvc<float>{}, values) / 13;
    of_rle += log_ratio(rle<float>{}, values) / 13;
    EXPECT_TRUE(same_bits(decoded(rle<float>{}, encoded(rle<float>{}, values)), values));
  }
  EXPECT_GE(std::exp(of_rle - of_zvc), 1.08);
  std::printf("    zvc %.3f, rle %.3f\n", std::exp(of_zvc), std::exp(of_rle));
}

// Ties away from zero. Values are finite and less than 2^62 bounds from zero, and the bound is not 0.
std::vector<int64_t> quantized(span<const float> values, double bound) {
  std::vector<int64_t> codes;
  codes.reserve(values.size());
  for (const float value : values) codes.push_back(std::llround(value / (2 * bound)));
  return codes;
}

uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// cuSZp's shape. A block of 32 codes: a byte for the width of the largest difference from the code before, the first
// code of a block being its own difference; unless the width is 0, 32 signs and 32 magnitudes of that width. The last
// block is as long as any other.
uint64_t plain_difference_bytes(span<const int64_t> codes) {
  constexpr uint64_t block = 32;
  uint64_t total = 0;
  for (uint64_t begin = 0; begin < codes.size(); begin += block) {
    uint64_t any = 0;
    int64_t before = 0;
    for (uint64_t i = begin; i < std::min(begin + block, codes.size()); ++i) {
      any |= magnitude(codes[i] - before);
      before = codes[i];
    }
    const auto width = static_cast<uint64_t>(std::bit_width(any));
    total += 1 + (width == 0 ? 0 : block / 8 * (1 + width));
  }
  return total;
}

// At a bound of a thousandth of the range, against blocks of 32 differences in the plainest form: the whole frame here,
// no header and no directory there.
double log_gain(const std::vector<float>& values) {
  const quantize<float> codec(error_bound::range_relative(1e-3));
  const auto frame = encoded(codec, values);
  frame_header header;
  quantize<float> stored;
  EXPECT_EQ(inspect(frame, header), status::ok);
  EXPECT_EQ(quantize<float>::from_stages(header.stages, stored), status::ok);
  const double bound = stored.effective_bound();
  const auto restored = decoded(quantize<float>{}, frame);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_LE(std::abs(static_cast<double>(values[i]) - static_cast<double>(restored[i])), bound);
  const auto plain = plain_difference_bytes(quantized(values, bound));
  return std::log(static_cast<double>(plain) / static_cast<double>(frame.size()));
}

TEST(recorded, quantize_beats_plain_differences) {
  const auto tensors = recorded_tensors();
  ASSERT_EQ(tensors.size(), 13u);
  double gain = 0;
  for (const auto& values : tensors) gain += log_gain(values) / 13;
  EXPECT_GE(std::exp(gain), 1.35);
  std::printf("    %.3f times smaller\n", std::exp(gain));
}

TEST(smooth_fields, quantize_beats_plain_differences) {
  const auto fields = bench::smooth_fields();
  double gain = 0;
  for (const auto& field : fields) gain += log_gain(field.values) / static_cast<double>(fields.size());
  EXPECT_GE(std::exp(gain), 1.5);
  std::printf("    %.3f times smaller\n", std::exp(gain));
}

}  // namespace
}  // namespace tuck::test
