// VGG-16 as it is trained on 32 x 32 images, with what a training loop has to know of each layer.
#pragma once

#include <tuck/model.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace swap_training {

struct shaped_layer {
  std::string name;
  uint32_t channels, side;         // of the input
  double first_zeros, last_zeros;  // share of zeros in the input: in epoch 0, and where it ends up
  double flops = 0;                // of an image, forward
  tuck::layer as_layer = {};

  uint64_t values(uint64_t batch) const { return batch * channels * side * side; }

  // Zeros grow more frequent as a network learns, faster at first and deeper in it: about as recorded, which
  // examples/data/README.md shows. Images have none.
  double sparsity(int epoch) const {
    return last_zeros - (last_zeros - first_zeros) * std::exp(-epoch / (last_zeros > .8 ? 3. : 8.));
  }
  // May the input come back within a bound only? A convolution's may: its error goes into the gradient of the weights,
  // and no further. Not a pooling's: the gradient goes where the largest of four values was, and must find it. Nor the
  // images.
  bool allows_loss() const { return as_layer.kind == tuck::layer_kind::convolution && first_zeros > 0; }
};

// Convolutions with their ReLU in one, pooling, a classifier.
inline std::vector<shaped_layer> vgg16(uint64_t batch) {
  std::vector<shaped_layer> network;
  uint32_t channels = 3, side = 32;
  double first = 0, last = 0;
  const auto add = [&](std::string name, tuck::layer_kind kind, uint32_t next_channels, uint32_t next_side,
                       double kernel) {
    tuck::layer l{.kind = kind};
    l.input_bytes = batch * channels * side * side * sizeof(float);
    l.output_bytes = batch * next_channels * next_side * next_side * sizeof(float);
    const double flops = 2 * kernel * channels * next_channels * next_side * next_side;
    network.push_back({std::move(name), channels, side, first, last, flops, l});
    channels = next_channels;
    side = next_side;
  };
  const uint32_t widths[] = {64, 128, 256, 512, 512};
  const int depths[] = {2, 2, 3, 3, 3};
  for (int stage = 0; stage < 5; ++stage) {
    for (int i = 0; i < depths[stage]; ++i) {
      add("conv" + std::to_string(stage + 1) + "_" + std::to_string(i + 1), tuck::layer_kind::convolution,
          widths[stage], side, 9);
      first = .48 + .02 * stage + .02 * i;
      last = .78 + .03 * stage + .03 * i;
    }
    add("pool" + std::to_string(stage + 1), tuck::layer_kind::pooling, channels, side / 2, 0);
    first -= .15;  // the largest of four is less often zero
    last -= .15;
  }
  add("fc", tuck::layer_kind::fully_connected, 10, 1, 1);
  add("softmax", tuck::layer_kind::softmax, 10, 1, 0);
  return network;
}

inline std::vector<tuck::layer> layers_of(const std::vector<shaped_layer>& network) {
  std::vector<tuck::layer> layers;
  for (const auto& l : network) layers.push_back(l.as_layer);
  return layers;
}

}  // namespace swap_training
