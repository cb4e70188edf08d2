#include "swap_training/profile.hpp"

#include <gtest/gtest.h>

namespace swap_training {
namespace {

using mode = tuck::swap_decision::mode;

constexpr double nothing = 0;  // is hidden

size_t number_of(const std::vector<shaped_layer>& network, const std::string& name) {
  for (size_t i = 0; i < network.size(); ++i)
    if (network[i].name == name) return i;
  ADD_FAILURE() << name;
  return 0;
}

// Codecs that take `seconds_a_byte` each way: two of ZVC's sizes, and a lossy one that makes all four times smaller.
training_profile profile_of(const std::vector<shaped_layer>& network, double seconds_a_byte) {
  training_profile profile{.link = {10e9, 10e9},
                           .forward = std::vector<double>(network.size(), nothing),
                           .backward = std::vector<double>(network.size(), nothing)};
  for (size_t c = 0; c < codec_count; ++c)
    for (const uint64_t size : {1 << 18, 1 << 16, 1 << 14, 1 << 12})
      for (const double s : {0., .5, .9}) {
        const double seconds = static_cast<double>(size) * seconds_a_byte;
        profile.codecs[c].push_back({size, s, seconds, seconds, codec_is_lossy[c] ? 4 : tuck::zvc_ratio(s, 4)});
      }
  return profile;
}

TEST(swap_training, zeros_grow_more_frequent_but_for_images) {
  for (const auto& l : vgg16(1))
    for (int epoch = 0; epoch < 20; ++epoch) {
      EXPECT_GE(l.sparsity(epoch), 0) << l.name;
      EXPECT_LT(l.sparsity(epoch), 1) << l.name;
      if (l.first_zeros == 0)
        EXPECT_EQ(l.sparsity(epoch), 0) << l.name;
      else
        EXPECT_GT(l.sparsity(epoch + 1), l.sparsity(epoch)) << l.name;
    }
}

// conv1_1 conv1_2 pool1 conv2_1 ... pool5 fc softmax: each input comes back beside the layer behind it, but pool5's. fc
// and softmax keep theirs, so pool5's comes beside softmax, past fc: no convolution is in between.
TEST(swap_training, a_tensor_comes_back_beside_the_layer_that_prefetches_it) {
  const auto network = vgg16(1);
  training_profile profile = profile_of(network, 0);
  for (size_t i = 0; i < network.size(); ++i) {
    profile.forward[i] = 1 + static_cast<double>(i);
    profile.backward[i] = 100 + static_cast<double>(i);
  }
  const auto tensors = tensor_profiles(network, profile);
  const size_t pool5 = number_of(network, "pool5");
  for (size_t i = 0; i <= pool5; ++i) {
    EXPECT_EQ(tensors[i].hidden_out, 1 + static_cast<double>(i)) << network[i].name;
    EXPECT_EQ(tensors[i].bytes, network[i].as_layer.input_bytes) << network[i].name;
  }
  EXPECT_EQ(tensors[pool5].hidden_in, 100 + static_cast<double>(pool5 + 2));
  EXPECT_EQ(tensors[pool5 - 1].hidden_in, 100 + static_cast<double>(pool5 + 1));  // fc's turn has no other to fetch
  for (size_t i = 0; i + 1 < pool5; ++i)
    EXPECT_GE(tensors[i].hidden_in, 100 + static_cast<double>(i + 1)) << network[i].name;
  EXPECT_EQ(tensors[pool5 + 1].hidden_in, 0);
}

TEST(swap_training, only_inputs_of_convolutions_may_be_lossy) {
  const auto network = vgg16(1);
  for (const auto& l : network) EXPECT_EQ(l.allows_loss(), l.name.starts_with("conv") && l.name != "conv1_1") << l.name;
  auto advisor = make_advisor(network, profile_of(network, 1 / 1000e9), 3);
  for (const double sparsity : {0., .3, .6}) {
    for (size_t i = 0; i < network.size(); ++i) {
      const tuck::swap_decision& d = advisor.decide(i, sparsity);
      if (network[i].allows_loss())
        EXPECT_TRUE(d.how == mode::encode && d.codec == 2) << network[i].name;
      else if (sparsity == 0 || network[i].name == "softmax")  // whose input is 40 bytes
        EXPECT_EQ(d.how, mode::raw) << network[i].name;
      else
        EXPECT_TRUE(d.how == mode::encode && d.codec == 0) << network[i].name;
    }
  }
}

// 2 S / 20e9 for the codec against 2 S (s - 1/32) / 10e9 that it saves: s = .53125.
TEST(swap_training, cswap_encodes_from_the_sparsity_on_where_it_pays) {
  const auto network = vgg16(1);
  const size_t x = number_of(network, "conv1_2");
  auto below = make_advisor(network, profile_of(network, 1 / 20e9), 1);
  EXPECT_EQ(below.decide(x, .52).how, mode::raw);
  auto above = make_advisor(network, profile_of(network, 1 / 20e9), 1);
  EXPECT_EQ(above.decide(x, .54).how, mode::encode);
}

TEST(swap_training, what_computing_hides_stays_as_it_is) {
  const auto network = vgg16(1);
  training_profile profile = profile_of(network, 1 / 1000e9);
  profile.forward.assign(network.size(), 1);
  profile.backward.assign(network.size(), 1);
  auto advisor = make_advisor(network, profile, 3);
  for (size_t i = 0; i + 2 < network.size(); ++i) EXPECT_EQ(advisor.decide(i, .9).how, mode::raw) << network[i].name;
}

TEST(swap_training, assumed_times_leave_measured_ratios) {
  const auto network = vgg16(2);
  training_profile profile = profile_of(network, 1);
  const auto measured = profile;
  assume(profile, network, 2, {.link = 5e9, .flops = 1e12, .memory = 1e9});
  EXPECT_EQ(profile.link.d2h, 5e9);
  ASSERT_EQ(profile.forward.size(), network.size());
  // conv1_2: 2 images of 2 x 9 x 64 x 64 x 32 x 32 operations take .15 ms, its 1 MiB of values 1.05.
  EXPECT_NEAR(profile.forward[1], 1048576 / 1e9, 1e-12);
  EXPECT_EQ(profile.backward[1], 2 * profile.forward[1]);
  for (size_t c = 0; c < codec_count; ++c)
    for (size_t i = 0; i < profile.codecs[c].size(); ++i) {
      EXPECT_EQ(profile.codecs[c][i].ratio, measured.codecs[c][i].ratio);
      EXPECT_EQ(profile.codecs[c][i].encode,
                static_cast<double>(measured.codecs[c][i].size) / assumed_rates{}.encode[c]);
    }
}

}  // namespace
}  // namespace swap_training
