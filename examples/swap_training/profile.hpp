// What deciding needs to know before a training begins - the link, how long each layer computes, how fast and how small
// the codecs are - and an advisor made of it. measure.cuh finds it out on the device. Plain C++20.
#pragma once

#include "swap_training/network.hpp"

namespace swap_training {

// The codecs of CSWAP+, by their numbers; CSWAP has the first alone.
inline constexpr const char* codec_names[] = {"zvc", "rle", "quantize"};
inline constexpr bool codec_is_lossy[] = {false, false, true};
inline constexpr size_t codec_count = std::size(codec_names);
inline constexpr double fixed_bound = 1e-3;  // of quantize, where nothing controls it

// A codec on some tensor. Seconds; raw bytes over encoded ones.
struct codec_point {
  uint64_t size = 0;
  double sparsity = 0, encode = 0, decode = 0, ratio = 0;
};

struct training_profile {
  tuck::link_rates link = {};
  std::vector<double> forward = {}, backward = {};  // seconds, by layer
  std::vector<codec_point> codecs[codec_count] = {};
};

// Rates to decide by where nothing can be measured: a link of PCIe 3, a GPU of its time, and codecs as fast as tuck
// wants to be there - encoders on a few blocks, decoders on all. Bytes or operations a second. What a call takes before
// it does anything is left out, so that the decisions are those of a large batch.
struct assumed_rates {
  double link = 12.8e9, flops = 10e12, memory = 700e9;
  double encode[codec_count] = {150e9, 120e9, 100e9}, decode[codec_count] = {500e9, 450e9, 450e9};
};

// Replaces all times, and leaves ratios as they are.
inline void assume(training_profile& profile, const std::vector<shaped_layer>& network, uint64_t batch,
                   const assumed_rates& rates = {}) {
  profile.link = {rates.link, rates.link};
  profile.forward.clear();
  profile.backward.clear();
  for (const auto& l : network) {
    const auto moved = static_cast<double>(l.as_layer.input_bytes + l.as_layer.output_bytes);
    profile.forward.push_back(std::max(l.flops * static_cast<double>(batch) / rates.flops, moved / rates.memory));
    profile.backward.push_back(2 * profile.forward.back());  // a gradient of the input, and one of the weights
  }
  for (size_t c = 0; c < codec_count; ++c)
    for (codec_point& p : profile.codecs[c]) {
      p.encode = static_cast<double>(p.size) / rates.encode[c];
      p.decode = static_cast<double>(p.size) / rates.decode[c];
    }
}

// What hides each tensor's transfers: on its way out the layer that reads it, on its way back the one beside whose
// backward pass it is prefetched; nothing where it is brought back only when it is wanted. Computing anew is left out:
// it would take the input of the layer before, which has left as well.
inline std::vector<tuck::swap_profile> tensor_profiles(const std::vector<shaped_layer>& network,
                                                       const training_profile& profile) {
  const auto layers = layers_of(network);
  std::vector<tuck::swap_profile> tensors(network.size());
  for (size_t i = 0; i < network.size(); ++i)
    tensors[i] = {
        .bytes = layers[i].input_bytes, .hidden_out = profile.forward[i], .lossy_allowed = network[i].allows_loss()};
  tuck::prefetch_order order(layers, tuck::offload_set::all);
  for (size_t i = network.size(); i-- > 0;) {
    static_cast<void>(order.demand(i));
    if (const auto ahead = order.next(i)) tensors[*ahead].hidden_in = profile.backward[i];
  }
  return tensors;
}

// An advisor that knows the first `codecs` of the profile's; its tensors' numbers are those of the layers that read
// them.
inline tuck::advisor make_advisor(const std::vector<shaped_layer>& network, const training_profile& profile,
                                  size_t codecs) {
  std::vector<tuck::advised_codec> known(codecs);
  for (size_t c = 0; c < codecs; ++c) {
    known[c].lossy = codec_is_lossy[c];
    for (const codec_point& p : profile.codecs[c])
      known[c].predictor.add(p.size, p.sparsity, p.encode, p.decode, p.ratio);
  }
  tuck::advisor advisor(profile.link, std::move(known));
  for (const auto& t : tensor_profiles(network, profile)) static_cast<void>(advisor.add(t));
  return advisor;
}

}  // namespace swap_training
