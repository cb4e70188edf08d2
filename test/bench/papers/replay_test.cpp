#include "bench/papers/timeline/timeline.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace tuck::bench::replay_tests {
namespace {

using way = movement::way;

constexpr link_rates link{.d2h = 10, .h2d = 5};  // bytes a second: sizes of tens, times of seconds
const link_rates no_link{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};

// Four convolutions without ReLUs and a softmax.
std::vector<timed_layer> network() {
  std::vector<timed_layer> layers(5);
  for (size_t i = 0; i < 4; ++i)
    layers[i] = {{.kind = layer_kind::convolution, .input_bytes = 100, .output_bytes = 100}, 4, 12};
  layers[3].shape.output_bytes = 10;
  layers[4] = {{.kind = layer_kind::softmax, .input_bytes = 10, .output_bytes = 10}, 1, 1};
  return layers;
}

// Of random kinds, sizes and times; every third is an activation in place.
std::vector<timed_layer> random_network(std::mt19937& random) {
  const auto upto = [&](double most) { return most * static_cast<double>(random()) / 4294967295.; };
  std::vector<timed_layer> layers(3 + random() % 20);
  uint64_t size = 1 + random() % 1000;
  for (timed_layer& l : layers) {
    const bool in_place = random() % 3 == 0 && &l != layers.data();
    const layer_kind kinds[] = {layer_kind::convolution, layer_kind::pooling, layer_kind::normalization};
    l.shape.kind = in_place ? layer_kind::activation : kinds[random() % 3];
    l.shape.in_place = in_place;
    l.shape.input_bytes = size;
    if (!in_place) size = 1 + random() % 1000;
    l.shape.output_bytes = size;
    l.forward = upto(100);
    l.backward = upto(200);
  }
  return layers;
}

// What a codec makes of each layer.
std::vector<codec_estimate> random_estimates(size_t layers, std::mt19937& random) {
  std::vector<codec_estimate> of(layers);
  for (codec_estimate& e : of) {
    e.ratio = 1 + static_cast<double>(random() % 100) / 10;
    e.encode = static_cast<double>(random() % 10);
    e.decode = static_cast<double>(random() % 10);
  }
  return of;
}

// The peak of a chain of layers without codecs: the inputs on the device, and the output or the gradients of a layer.
// An input that leaves is there until its layer is done, and from the layer beside which it is prefetched.
uint64_t peak_bytes(span<const layer> network, offload_set set) {
  const auto bytes_of = [&](size_t i) { return network[i].in_place ? 0 : network[i].input_bytes; };
  uint64_t there = 0, peak = 0;
  for (size_t i = 0; i < network.size(); ++i) {
    there += bytes_of(i);
    const uint64_t output = network[i].in_place ? 0 : network[i].output_bytes;
    peak = std::max(peak, there + output);
    if (offloads(set, network, i)) there -= bytes_of(i);
  }
  prefetch_order order(network, set);
  uint64_t done_with = 0;
  for (size_t i = network.size(); i-- > 0;) {
    if (order.demand(i)) there += bytes_of(i);
    if (const auto ahead = order.next(i)) there += bytes_of(*ahead);
    const uint64_t gradients =
        network[i].in_place ? network[i].output_bytes : network[i].output_bytes + network[i].input_bytes;
    peak = std::max(peak, there + gradients);
    done_with += bytes_of(i);
    if (i != 0 && network[i - 1].in_place) continue;  // layer i - 1 reads its output, which is this input, once more
    there -= done_with;
    done_with = 0;
  }
  return peak;
}

double sum_of_compute(span<const timed_layer> layers) {
  double sum = 0;
  for (const timed_layer& l : layers) sum += l.forward + l.backward;
  return sum;
}

TEST(replay, without_swapping_an_iteration_is_its_layers) {
  const auto layers = network();
  const timeline t = replay(layers, plan_raw(layers, offload_set::none), link);
  EXPECT_DOUBLE_EQ(t.iteration, 4 * 16 + 2);
  EXPECT_DOUBLE_EQ(t.forward, 4 * 4 + 1);
  EXPECT_EQ(t.bytes_out + t.bytes_in, 0u);
  EXPECT_EQ(t.device_peak, peak_bytes(detail::shapes(layers), offload_set::none));
  EXPECT_EQ(t.host_peak, 0u);
}

// Forward each layer takes max(4, 100 / 10) = 10 s, the softmax 1. Backward the softmax brings back the last input in
// 100 / 5 = 20 s, the convolutions 3, 2 and 1 those below them in max(12, 20), and the first has nothing to bring: 12.
TEST(replay, vdnn_waits_where_a_layer_is_shorter_than_its_copy) {
  const auto layers = network();
  const timeline t = replay(layers, plan_raw(layers, offload_set::all), link);
  EXPECT_DOUBLE_EQ(t.forward, 4 * 10 + 1);
  EXPECT_DOUBLE_EQ(t.iteration, 41 + 20 + 3 * 20 + 12);
  EXPECT_DOUBLE_EQ(t.waiting(), 4 * 6 + 19 + 3 * 8);
  EXPECT_EQ(t.bytes_out, 400u);
  EXPECT_EQ(t.bytes_in, 400u);
  EXPECT_EQ(t.host_peak, 400u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(t.layers[i].out.begin, t.layers[i].forward.begin);
    EXPECT_EQ(t.layers[i].in.begin, t.layers[i + 1].backward.begin);
  }
}

// At ratio 4 each way out is 2.5 s, hidden, and each way in 5 s: hidden but for the softmax's second. 1 s each to
// encode and 2 s to decode.
TEST(replay, encoding_takes_the_gpu_s_time_and_less_of_the_link_s) {
  const auto layers = network();
  const std::vector<codec_estimate> by(layers.size(), {.ratio = 4, .encode = 1, .decode = 2});
  const timeline t = replay(layers, plan_encoded(layers, offload_set::all, by), link);
  EXPECT_DOUBLE_EQ(t.forward, 4 * (4 + 1) + 1);
  EXPECT_DOUBLE_EQ(t.iteration, 21 + (5 + 2) + 3 * (12 + 2) + 12);
  EXPECT_DOUBLE_EQ(t.codec, 4 * 3);
  EXPECT_EQ(t.bytes_out, 100u);
  EXPECT_EQ(t.host_peak, 100u);
}

// Nothing waits at a layer's end: out they go one behind the other, 10 s each, done at 40 s; the forward pass is done
// at 17 s. By then the CPU, 5 s a tensor, has begun with the first only, at 10 s: that is decoded (6 s) before it comes
// back.
TEST(replay, the_cpu_encodes_what_it_can_in_the_forward_pass) {
  const auto layers = network();
  const std::vector<codec_estimate> by(layers.size(), {.ratio = 4, .encode = 5, .decode = 6});
  const timeline t =
      replay(layers, plan_encoded(layers, offload_set::all, by, way::cpu), link, {.wait_at_layer_end = false});
  EXPECT_DOUBLE_EQ(t.forward, 17);
  // The last is out at 40 and in at 60; then 80, 100. Each is used for 12 s, the first one's way in begins when layer 1
  // does, at 100: 6 s of decoding, 20 s of copying.
  EXPECT_DOUBLE_EQ(t.layers[3].in.end, 60);
  EXPECT_DOUBLE_EQ(t.layers[0].in.begin, 106);
  EXPECT_DOUBLE_EQ(t.iteration, 126 + 12);
  EXPECT_EQ(t.host_peak, 325u);
  EXPECT_EQ(t.codec, 0);
}

// The input of layer 2 is dropped: in the backward pass layer 1 runs forward once more, 4 s, for which its own input
// must be there one layer earlier.
TEST(replay, what_is_dropped_is_computed_anew) {
  const auto layers = network();
  auto plan = plan_raw(layers, offload_set::all);
  plan[2] = {way::recompute, {}};
  const timeline t = replay(layers, plan, link);
  EXPECT_DOUBLE_EQ(t.forward, 10 + 10 + 4 + 10 + 1);
  EXPECT_DOUBLE_EQ(t.recompute, 4);
  EXPECT_EQ(t.layers[1].in.begin, t.layers[3].backward.begin);
  EXPECT_DOUBLE_EQ(t.iteration, 35 + 20 + 20 + (4 + 20) + 12 + 12);
  EXPECT_DOUBLE_EQ(recompute_seconds(layers, 2), 4);
  EXPECT_TRUE(std::isinf(recompute_seconds(layers, 0)));
}

// conv, ReLU in place, pool: what the pool reads was the convolution's output, which is nowhere any more.
TEST(replay, computing_anew_goes_past_layers_in_place) {
  std::vector<timed_layer> layers = network();
  layers[1].shape.kind = layer_kind::activation;
  layers[1].shape.in_place = true;
  layers[1].forward = 1;
  EXPECT_DOUBLE_EQ(recompute_seconds(layers, 2), 5);
  auto plan = plan_raw(layers, offload_set::all);
  plan[2] = {way::recompute, {}};
  const timeline t = replay(layers, plan, link);
  EXPECT_DOUBLE_EQ(t.recompute, 5);
  EXPECT_EQ(t.bytes_in, 200u);
  layers[1].producer = timed_layer::none;
  EXPECT_TRUE(std::isinf(recompute_seconds(layers, 2)));
}

TEST(replay, what_cannot_be_is_taken_for_what_can) {
  auto layers = network();
  const timeline kept = replay(layers, plan_raw(layers, offload_set::none), link);
  std::vector<movement> plan(layers.size());
  plan[0].how = way::recompute;  // nobody made it
  EXPECT_EQ(replay(layers, plan, link).iteration, kept.iteration);
  EXPECT_EQ(replay(layers, plan, link).device_peak, kept.device_peak);
  layers[2].producer = 99;
  layers[3].producer = 3;
  plan[2].how = plan[3].how = way::recompute;
  EXPECT_EQ(replay(layers, plan, link).iteration, kept.iteration);
  EXPECT_TRUE(std::isinf(recompute_seconds(layers, 3)));
  const auto raw = replay(layers, plan_raw(layers, offload_set::all), link);
  for (const double ratio : {0., -1., std::nan("")}) {
    const std::vector<codec_estimate> by(layers.size(), {.ratio = ratio});
    EXPECT_EQ(replay(layers, plan_encoded(layers, offload_set::all, by), link).bytes_out, raw.bytes_out);
  }
}

// Worked out by hand: two inputs, an output, gradients.
TEST(replay, peak_by_hand) {
  const std::vector<layer> two{{.kind = layer_kind::convolution, .input_bytes = 100, .output_bytes = 60},
                               {.kind = layer_kind::convolution, .input_bytes = 60, .output_bytes = 30}};
  // Backward of layer 0: input 100, gradients 60 + 100.
  EXPECT_EQ(peak_bytes(two, offload_set::none), 100u + 60 + 100);
  // Backward of layer 1 with layer 0's input prefetched: 60 + 100, gradients 30 + 60.
  EXPECT_EQ(peak_bytes(two, offload_set::conv), 260u);
  const std::vector<layer> three{{.kind = layer_kind::convolution, .input_bytes = 100, .output_bytes = 100},
                                 {.kind = layer_kind::convolution, .input_bytes = 100, .output_bytes = 100},
                                 {.kind = layer_kind::convolution, .input_bytes = 100, .output_bytes = 1}};
  EXPECT_EQ(peak_bytes(three, offload_set::none), 401u);  // at layer 2: three inputs, gradients 1 + 100
  EXPECT_EQ(peak_bytes(three, offload_set::conv), 400u);  // at layer 1: two inputs, gradients 100 + 100
}

// The output of a layer in place is the input of the one behind it, and wanted by both.
TEST(replay, what_is_in_place_is_there_until_both_are_done) {
  const std::vector<layer> layers{
      {.kind = layer_kind::other, .input_bytes = 4000, .output_bytes = 10},
      {.kind = layer_kind::other, .input_bytes = 10, .output_bytes = 5000},
      {.kind = layer_kind::activation, .input_bytes = 5000, .output_bytes = 5000, .in_place = true},
      {.kind = layer_kind::convolution, .input_bytes = 5000, .output_bytes = 10},
      {.kind = layer_kind::fully_connected, .input_bytes = 10, .output_bytes = 10}};
  // Backward of the activation: its output, its gradients in place, its input's layer's 10, and 4000 prefetched.
  EXPECT_EQ(peak_bytes(layers, offload_set::all), 5000u + 5000 + 10 + 4000);
}

TEST(replay, peaks_are_those_of_vdnn_s_rules) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto layers = random_network(random);
    for (const auto set : {offload_set::none, offload_set::conv, offload_set::all}) {
      const timeline t = replay(layers, plan_raw(layers, set), link);
      ASSERT_EQ(t.device_peak, peak_bytes(detail::shapes(layers), set)) << round;
    }
  }
}

// Layers 1 and 2 read what layer 0 makes: it leaves with the second, and goes when the first has run backward.
TEST(replay, a_tensor_of_two_readers_stays_for_both) {
  std::vector<timed_layer> layers = network();
  layers[1].kept_by = 2;
  layers[1].shape.input_bytes = 0;
  const auto plan = plan_raw(layers, offload_set::all);
  EXPECT_EQ(plan[1].how, way::keep);
  const timeline t = replay(layers, plan, link);
  EXPECT_EQ(t.bytes_out, 300u);
  EXPECT_EQ(t.layers[2].out.begin, t.layers[2].forward.begin);
  // Backward of layer 1: what layer 2 keeps, what comes back for layer 0, two gradients.
  EXPECT_EQ(t.device_peak, 400u);
  // Where all stay, layer 3 has the most: what 0, 2 and 3 keep, and its gradients, 10 + 100.
  EXPECT_EQ(replay(layers, plan_raw(layers, offload_set::none), link).device_peak, 410u);
  // Computed anew for both by what their tensor's maker needs.
  auto anew = plan;
  anew[2] = {way::recompute, {}};
  layers[2].producer = 0;
  const timeline u = replay(layers, anew, link);
  EXPECT_DOUBLE_EQ(u.recompute, 4);
  EXPECT_EQ(u.bytes_in, 200u);
  // What layer 1 makes needs an input that layer 2 keeps.
  layers[3].producer = 1;
  anew[3] = {way::recompute, {}};
  EXPECT_DOUBLE_EQ(replay(layers, anew, link).recompute, 8);
}

// conv, ReLU, conv, ReLU, concat of both, pool: what the pool keeps is there until the first ReLU has run backward.
TEST(replay, a_concat_s_parts_stay_for_their_relus) {
  std::vector<timed_layer> layers(6);
  const layer conv{.kind = layer_kind::convolution, .input_bytes = 10, .output_bytes = 50};
  const layer relu{.kind = layer_kind::activation, .input_bytes = 50, .output_bytes = 50, .in_place = true};
  layers[0] = {conv, 1, 1};
  layers[1] = {relu, 1, 1, 0, 5};
  layers[2] = {conv, 1, 1};
  layers[3] = {relu, 1, 1, 2, 5};
  layers[4] = {relu, 0, 0, timed_layer::none, 5};
  layers[5] = {{.kind = layer_kind::pooling, .input_bytes = 100, .output_bytes = 10}, 1, 1};
  // Backward of layer 2, a hundred of the pool's still there: 10 + 10 kept, its gradients 10 + 50.
  EXPECT_EQ(replay(layers, plan_raw(layers, offload_set::none), link).device_peak, 10u + 10 + 100 + 110);
  layers[5].shape.input_bytes = 20;  // small, so that the later layers make the peak
  EXPECT_EQ(replay(layers, plan_raw(layers, offload_set::none), link).device_peak, 10u + 10 + 20 + 60);
}

std::vector<std::vector<movement>> plans_of_all_policies(const std::vector<timed_layer>& layers, const link_rates& over,
                                                         std::mt19937& random) {
  const auto by = random_estimates(layers.size(), random);
  auto lossy = random_estimates(layers.size(), random);
  std::vector<std::vector<codec_estimate>> one(layers.size()), both(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    lossy[i].lossy = true;
    one[i] = {by[i]};
    both[i] = {by[i], lossy[i]};
  }
  const auto all = offload_set::all;
  return {plan_raw(layers, offload_set::none),
          plan_raw(layers, all),
          plan_raw(layers, offload_set::conv),
          plan_encoded(layers, all, by, way::cpu),
          plan_encoded(layers, all, by),
          plan_cheapest(layers, all, over, one),
          plan_cheapest(layers, all, over, both, {.lossy_allowed = true, .recompute = true}),
          plan_encoded(layers, all, lossy)};
}

TEST(replay, a_chain_may_say_what_goes_without_saying) {
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    const auto layers = random_network(random);
    auto said = layers;
    for (size_t i = 0; i < said.size(); ++i) {
      said[i].producer = i == 0 ? timed_layer::none : i - 1;
      said[i].kept_by = i;
      while (layers[said[i].kept_by].shape.in_place && said[i].kept_by + 1 < layers.size()) ++said[i].kept_by;
    }
    for (const auto& plan : plans_of_all_policies(layers, link, random)) {
      const timeline a = replay(layers, plan, link), b = replay(said, plan, link);
      ASSERT_EQ(a.iteration, b.iteration);
      ASSERT_EQ(a.device_peak, b.device_peak);
      ASSERT_EQ(a.host_peak, b.host_peak);
    }
  }
}

TEST(replay, is_never_shorter_than_what_one_engine_does) {
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    const auto layers = random_network(random);
    for (const auto& plan : plans_of_all_policies(layers, link, random))
      for (const bool wait : {false, true}) {
        const timeline t = replay(layers, plan, link, {.wait_at_layer_end = wait});
        const double slack = 1e-9 * t.iteration;
        ASSERT_GE(t.iteration, sum_of_compute(layers) + t.codec + t.recompute - slack);
        ASSERT_GE(t.iteration, t.d2h - slack);
        ASSERT_GE(t.iteration, t.h2d - slack);
        ASSERT_NEAR(t.d2h, static_cast<double>(t.bytes_out) / link.d2h, slack);
        ASSERT_NEAR(t.h2d, static_cast<double>(t.bytes_in) / link.h2d, slack);
        ASSERT_NEAR(t.compute, sum_of_compute(layers), slack);
      }
  }
}

TEST(replay, over_an_infinite_link_all_policies_equal_keep) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const auto layers = random_network(random);
    for (auto plan : plans_of_all_policies(layers, no_link, random)) {
      for (movement& m : plan)
        if (m.how == way::encode || m.how == way::cpu) m.by.encode = m.by.decode = 0;
      ASSERT_NEAR(replay(layers, plan, no_link).iteration, sum_of_compute(layers), 1e-9 * sum_of_compute(layers));
    }
    // Who may choose does not encode even where that takes its time.
    const std::vector<std::vector<codec_estimate>> slow(layers.size(), {{.ratio = 9, .encode = 1, .decode = 1}});
    for (const movement& m : plan_cheapest(layers, offload_set::all, no_link, slow)) ASSERT_NE(m.how, way::encode);
  }
}

// With layers that take no time nothing is hidden, and an iteration is the sum of eq. 1 or 2.
TEST(replay, with_nothing_hidden_is_the_sum_of_the_equations) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    auto layers = random_network(random);
    for (timed_layer& l : layers) l.forward = l.backward = 0;
    const auto by = random_estimates(layers.size(), random);
    const auto raw = plan_raw(layers, offload_set::all), encoded = plan_encoded(layers, offload_set::all, by);
    double sum_raw = 0, sum_encoded = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      if (raw[i].how == way::keep) continue;
      const swap_profile tensor{.bytes = layers[i].shape.input_bytes};
      sum_raw += raw_cost(tensor, link);
      sum_encoded += encoded_cost(tensor, link, by[i]);
    }
    ASSERT_NEAR(replay(layers, raw, link).iteration, sum_raw, 1e-9 * sum_raw);
    // Frames have whole bytes here.
    ASSERT_NEAR(replay(layers, encoded, link).iteration, sum_encoded, 1e-9 * sum_encoded + .3 * double(layers.size()));
  }
}

// Where each tensor's copies overlap its own layers alone, the choice per tensor is the best of all plans.
TEST(replay, the_cheapest_plan_is_no_slower_than_raw_or_encoded) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    const auto layers = random_network(random);
    const auto by = random_estimates(layers.size(), random);
    std::vector<std::vector<codec_estimate>> one(layers.size());
    for (size_t i = 0; i < layers.size(); ++i) one[i] = {by[i]};
    const auto all = offload_set::all;
    const double chosen = replay(layers, plan_cheapest(layers, all, link, one), link).iteration;
    const double raw = replay(layers, plan_raw(layers, all), link).iteration;
    const double encoded = replay(layers, plan_encoded(layers, all, by), link).iteration;
    ASSERT_LE(chosen, 1.001 * std::min(raw, encoded) + .2 * double(layers.size())) << round;
  }
}

TEST(replay, profiles_know_what_hides_a_copy) {
  const auto layers = network();
  const auto of = swap_profiles(layers, offload_set::all);
  EXPECT_EQ(of[1].bytes, 100u);
  EXPECT_EQ(of[1].hidden_out, 4);
  EXPECT_EQ(of[1].hidden_in, 12);
  EXPECT_EQ(of[3].hidden_in, 1);  // beside the softmax
  EXPECT_EQ(of[1].recompute, 4);
}

}  // namespace
}  // namespace tuck::bench::replay_tests
