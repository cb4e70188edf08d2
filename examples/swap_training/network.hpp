// VGG-16 as it is trained on 32 x 32 images, with what a training loop has to know of each layer.
#pragma once

#include <tuck/model.hpp>

#include <string>
#include <vector>

namespace swap_training {

struct shaped_layer {
  std::string name;
  uint32_t channels, side;  // of the input
  double sparsity;          // share of zeros in the input: of images none, behind ReLU more the deeper the layer
  tuck::layer as_layer;

  uint64_t values(uint64_t batch) const { return batch * channels * side * side; }
};

// Convolutions with their ReLU in one, pooling, a classifier.
inline std::vector<shaped_layer> vgg16(uint64_t batch) {
  std::vector<shaped_layer> network;
  uint32_t channels = 3, side = 32;
  double sparsity = 0;
  const auto add = [&](std::string name, tuck::layer_kind kind, uint32_t next_channels, uint32_t next_side) {
    tuck::layer l{.kind = kind};
    l.input_bytes = batch * channels * side * side * sizeof(float);
    l.output_bytes = batch * next_channels * next_side * next_side * sizeof(float);
    network.push_back({std::move(name), channels, side, sparsity, l});
    channels = next_channels;
    side = next_side;
  };
  const uint32_t widths[] = {64, 128, 256, 512, 512};
  const int depths[] = {2, 2, 3, 3, 3};
  for (int stage = 0; stage < 5; ++stage) {
    for (int i = 0; i < depths[stage]; ++i) {
      add("conv" + std::to_string(stage + 1) + "_" + std::to_string(i + 1), tuck::layer_kind::convolution,
          widths[stage], side);
      sparsity = 0.5 + 0.08 * stage + 0.03 * i;
    }
    add("pool" + std::to_string(stage + 1), tuck::layer_kind::pooling, channels, side / 2);
    sparsity -= 0.15;  // the largest of four is less often zero
  }
  add("fc", tuck::layer_kind::fully_connected, 10, 1);
  add("softmax", tuck::layer_kind::softmax, 10, 1);
  return network;
}

}  // namespace swap_training
