#include <tuck/model.hpp>

#include <gtest/gtest.h>

namespace tuck::vdnn_tests {
namespace {

using enum layer_kind;

// conv relu(in place) conv relu(in place) pool fc softmax, 100 bytes a tensor but for the pooled.
std::vector<layer> network() {
  return {{.kind = convolution, .input_bytes = 100, .output_bytes = 100},
          {.kind = activation, .input_bytes = 100, .output_bytes = 100, .in_place = true},
          {.kind = convolution, .input_bytes = 100, .output_bytes = 100},
          {.kind = activation, .input_bytes = 100, .output_bytes = 100, .in_place = true},
          {.kind = pooling, .input_bytes = 100, .output_bytes = 25},
          {.kind = fully_connected, .input_bytes = 25, .output_bytes = 10},
          {.kind = softmax, .input_bytes = 10, .output_bytes = 10}};
}

std::vector<size_t> offloaded(const std::vector<layer>& layers, offload_set set) {
  std::vector<size_t> which;
  for (size_t i = 0; i < layers.size(); ++i)
    if (offloads(set, layers, i)) which.push_back(i);
  return which;
}

TEST(vdnn, offload_sets) {
  const auto layers = network();
  EXPECT_EQ(offloaded(layers, offload_set::none), std::vector<size_t>{});
  EXPECT_EQ(offloaded(layers, offload_set::conv), (std::vector<size_t>{0, 2}));
  EXPECT_EQ(offloaded(layers, offload_set::all), (std::vector<size_t>{0, 2, 4}));
  const std::vector<layer> last_is_a_convolution{{.kind = convolution}, {.kind = convolution}};
  EXPECT_EQ(offloaded(last_is_a_convolution, offload_set::all), std::vector<size_t>{0});
  // One of each kind, none of them the last: softmax and fully connected layers stay.
  std::vector<layer> each;
  for (const layer_kind kind :
       {convolution, activation, pooling, normalization, fully_connected, softmax, other, other})
    each.push_back({.kind = kind});
  EXPECT_EQ(offloaded(each, offload_set::all), (std::vector<size_t>{0, 1, 2, 3, 6}));
  EXPECT_EQ(offloaded(each, offload_set::conv), std::vector<size_t>{0});
}

TEST(vdnn, prefetch_follows_the_backward_pass) {
  const auto layers = network();
  prefetch_order order(layers, offload_set::all);
  EXPECT_EQ(order.next(6), 4u);  // past softmax and fully connected
  EXPECT_FALSE(order.demand(6) || order.demand(5) || order.demand(4));
  EXPECT_EQ(order.next(5), 2u);
  EXPECT_EQ(order.next(4), std::nullopt);  // 2 is a convolution that needs nothing any more: no farther
  EXPECT_EQ(order.next(3), std::nullopt);
  EXPECT_EQ(order.next(2), 0u);
  EXPECT_EQ(order.next(1), std::nullopt);
  EXPECT_EQ(order.next(0), std::nullopt);
}

TEST(vdnn, a_convolution_that_stayed_ends_the_search) {
  std::vector<layer> layers(5, {.kind = convolution});
  layers[2].in_place = true;  // never leaves
  prefetch_order order(layers, offload_set::conv);
  EXPECT_EQ(order.next(4), 3u);
  EXPECT_EQ(order.next(3), std::nullopt);
  EXPECT_EQ(order.next(2), 1u);
  EXPECT_TRUE(order.demand(0));  // nobody asked for it before
  EXPECT_FALSE(order.demand(0));
}

// Every input that has left comes back before its turn or at it, and once.
TEST(vdnn, nothing_is_forgotten_or_fetched_twice) {
  for (unsigned code = 0; code < 1u << 12; ++code) {
    std::vector<layer> layers(6);
    for (size_t i = 0; i < 6; ++i)
      layers[i].kind = static_cast<layer_kind>((code >> 2 * i & 3) == 3 ? 4 : code >> 2 * i & 3);
    for (const offload_set set : {offload_set::conv, offload_set::all}) {
      prefetch_order order(layers, set);
      std::vector<int> fetched(6, 0);
      for (size_t i = 6; i-- > 0;) {
        fetched[i] += order.demand(i);
        EXPECT_EQ(fetched[i], offloads(set, layers, i));
        if (const auto ahead = order.next(i)) {
          EXPECT_LT(*ahead, i);
          ++fetched[*ahead];
        }
      }
    }
  }
}

}  // namespace
}  // namespace tuck::vdnn_tests
