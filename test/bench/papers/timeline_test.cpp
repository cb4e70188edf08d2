#include "bench/papers/timeline/policies.hpp"

#include "bench/papers/predict/predictor_file.hpp"

#include "bench/papers/predict_samples.hpp"
#include "bench/papers/refusals.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace tuck::bench {
namespace {

using nlohmann::ordered_json;
using way = movement::way;

const std::string folder = TUCK_BENCH_FOLDER "/papers/networks", gpus_file = TUCK_BENCH_FOLDER "/support/gpus.json";

machine v100() { return read_machine(gpus_file, "V100-SXM2", "PCIe 3 x16"); }
network_table table(const std::string& name) { return read_network(folder + "/" + name + ".json"); }

const network_row& row(const network_table& network, const std::string& name) {
  for (const network_row& r : network.rows)
    if (r.name == name) return r;
  throw std::out_of_range(name);
}
size_t at(const network_table& network, const std::string& name) {
  return static_cast<size_t>(&row(network, name) - network.rows.data());
}

// Ratios of 2 and 4, and times that are easy to add.
setting simple() {
  const auto codec = [](double ratio, double gb_per_s, bool lossy = false) -> codec_model {
    return [=](uint64_t size, double) {
      const double seconds = static_cast<double>(size) / (1e9 * gb_per_s);
      return codec_estimate{ratio, seconds, seconds, lossy};
    };
  };
  return {.on = v100(),
          .codecs = {{"zvc", codec(2, 500)},
                     {"rle", codec(1.5, 500)},
                     {"deflate", codec(3, 100)},
                     {"quantize", codec(4, 400, true)}},
          .host = codec(2, 5),
          .zeros = read_zeros(folder + "/sparsity.json")};
}

TEST(timeline_tables, have_what_the_files_have) {
  const network_table alexnet = table("alexnet");
  EXPECT_EQ(alexnet.name, "AlexNet");
  EXPECT_EQ(alexnet.image_side, 227u);
  EXPECT_NEAR(static_cast<double>(alexnet.weights), 61e6, 1e6);
  EXPECT_EQ(row(alexnet, "norm1").kind, layer_kind::normalization);
  EXPECT_EQ(row(alexnet, "norm1").input_is, values::relu);
  EXPECT_TRUE(row(alexnet, "conv3").winograd);
  EXPECT_FALSE(row(alexnet, "conv2").winograd);                  // 5 x 5
  EXPECT_FALSE(row(table("resnet50"), "conv3_1/3x3").winograd);  // moves by 2
  EXPECT_EQ(usual_batch(alexnet), 128u);
  EXPECT_EQ(usual_batch(table("plain20")), 1024u);
  EXPECT_LT(alexnet.dense_share(), .2);
  for (const char* dense : {"mobilenet", "resnet50", "plain20"}) EXPECT_GT(table(dense).dense_share(), .5);
}

TEST(timeline_tables, know_branches) {
  const network_table g = table("googlenet");
  // A module's input, what the pooling keeps, is there until what made it has run: the ReLUs of the module before.
  for (const char* name : {"3b/1x1", "3b/3x3_reduce", "3b/5x5_reduce", "3b/pool", "3a/concat", "3a/1x1/relu"})
    EXPECT_EQ(row(g, name).kept_by, at(g, "3b/pool")) << name;
  EXPECT_EQ(row(g, "3a/3x3").producer, at(g, "3a/3x3_reduce/relu"));
  EXPECT_EQ(row(g, "3a/1x1").producer, at(g, "pool2"));
  EXPECT_EQ(row(g, "3b/pool").producer, timed_layer::none);  // of a concat
  const network_table r = table("resnet50");
  EXPECT_EQ(row(r, "conv2_2/1x1a").kept_by, at(r, "conv2_2/add"));
  EXPECT_EQ(row(r, "conv2_1/relu").kept_by, at(r, "conv2_2/add"));
  EXPECT_EQ(row(r, "conv2_2/1x1a").producer, at(r, "conv2_1/relu"));
  EXPECT_EQ(row(r, "conv2_1/relu").producer, timed_layer::none);  // of an addition
  const auto layers = time_layers(r, 1, v100());
  EXPECT_TRUE(std::isinf(recompute_seconds(layers, at(r, "conv2_2/add"))));
  EXPECT_FALSE(std::isinf(recompute_seconds(layers, at(r, "conv2_2/3x3"))));
  // A chain is one by either rule.
  const network_table v = table("vgg16");
  for (size_t i = 1; i < v.rows.size(); ++i) {
    EXPECT_EQ(v.rows[i].producer, i - 1);
    size_t keeper = i;
    while (v.rows[keeper].in_place) ++keeper;
    EXPECT_EQ(v.rows[i].kept_by, keeper);
  }
}

// AlexNet's conv3: 3 x 3 on 13 x 13, 256 to 384 channels, so 149520384 multiply-adds, 885120 weights with biases.
TEST(timeline_tables, time_a_row_by_the_formula) {
  const network_table alexnet = table("alexnet");
  const auto layers = time_layers(alexnet, 128, v100());
  const timed_layer& conv3 = layers[at(alexnet, "conv3")];
  const double work = 2. * 149520384 * 128 / 2.25 / (.7 * 15.7e12);
  EXPECT_NEAR(conv3.forward, work + 5e-6, 1e-12);
  EXPECT_NEAR(conv3.backward, 2 * work + 5e-6, 1e-12);
  EXPECT_EQ(conv3.shape.input_bytes, 4u * 128 * 256 * 13 * 13);
  EXPECT_EQ(conv3.shape.output_bytes, 4u * 128 * 384 * 13 * 13);
  // A ReLU reads and writes.
  EXPECT_NEAR(layers[at(alexnet, "conv3/relu")].forward, 4. * 128 * 2 * 384 * 13 * 13 / (.7 * 900e9) + 5e-6, 1e-12);
  const network_table g = table("googlenet");
  EXPECT_EQ(time_layers(g, 128, v100())[at(g, "3a/concat")].forward, 0);
}

TEST(timeline_tables, interpolate_zeros) {
  const zeros_table z{{0, .5, 1}, {0, 4}, {{.2, .4, .6}, {.6, .8, 1}}, .5};
  const auto zeros = [&](values is, double depth, double epoch, double dropped = 0) {
    return z.at({.input_is = is, .dropped = dropped, .depth = depth}, epoch);
  };
  EXPECT_DOUBLE_EQ(zeros(values::relu, .5, 0), .4);
  EXPECT_DOUBLE_EQ(zeros(values::relu, .25, 0), .3);
  EXPECT_DOUBLE_EQ(zeros(values::relu, .25, 1), .4);
  EXPECT_DOUBLE_EQ(zeros(values::relu, .25, 9), .7);  // as at the last epoch
  EXPECT_DOUBLE_EQ(zeros(values::pooled_relu, .25, 1), .2);
  EXPECT_DOUBLE_EQ(zeros(values::relu, .25, 1, .5), .4 + .6 * .5);
  EXPECT_DOUBLE_EQ(zeros(values::dense, .25, 1), 0);
}

class timeline_files : public files_test {
 protected:
  // Why a file is refused that `change` has made of a good one.
  template <class Read, class Change> std::string refusal_of(const std::string& good, Read read, Change change) {
    ordered_json file = ordered_json::parse(scratch::read(good));
    change(file);
    return refusal(file.dump(), read);
  }
};

TEST_F(timeline_files, are_refused_by_name_and_reason) {
  const auto network = [&](auto change) { return refusal_of(folder + "/alexnet.json", read_network, change); };
  EXPECT_EQ(network([](auto& f) { f["schema"] = "x"; }), "its schema is x instead of tuck-network/1");
  EXPECT_EQ(network([](auto& f) { f["layers"].clear(); }), "it has no layers");
  EXPECT_EQ(network([](auto& f) { f["layers"][1].erase("macs"); }), "row 2: key 'macs' not found");
  EXPECT_EQ(network([](auto& f) { f["layers"][1]["kind"] = "lstm"; }),
            "row 2: kind is lstm, which is none of the known");
  EXPECT_EQ(network([](auto& f) { f["layers"][2]["macs"] = -1; }), "row 3: macs is -1, which cannot be");
  EXPECT_EQ(network([](auto& f) { f["layers"][2]["depth"] = 2; }), "row 3: depth is 2, which cannot be");
  EXPECT_EQ(network([](auto& f) { f["layers"][1]["name"] = "conv1"; }), "conv1: it is there twice");
  EXPECT_EQ(network([](auto& f) { f["layers"][1]["from"][0] = "fc8"; }),
            "conv1/relu: it reads fc8, which is no row before");
  EXPECT_EQ(network([](auto& f) {
              f["layers"][2]["shared"] = true;
              f["layers"][2]["kept_by"] = "conv1";
            }),
            "norm1: it is kept by conv1, which is no row behind that keeps any");
  EXPECT_THROW(read_network(dir / "none.json"), tools::file_error);

  const auto zeros = [&](auto change) { return refusal_of(folder + "/sparsity.json", read_zeros, change); };
  EXPECT_EQ(zeros([](auto& f) { f["epochs"] = {3, 0, 8}; }), "epochs do not ascend");
  EXPECT_EQ(zeros([](auto& f) { f["relu"].erase(1); }), "relu has not a share of zeros for each epoch and depth");
  EXPECT_EQ(zeros([](auto& f) { f["relu"][1][2] = 1.5; }), "relu has not a share of zeros for each epoch and depth");

  const auto gpus = [&](const char* gpu, const char* link, auto change) {
    return refusal_of(gpus_file, [&](const std::string& file) { read_machine(file, gpu, link); }, change);
  };
  EXPECT_EQ(gpus("V99", "PCIe 3 x16", [](auto& f) { f["gpus"] = {f["gpus"][1], f["gpus"][2]}; }),
            "it has no GPU V99, but V100-SXM2, V100-PCIe");
  EXPECT_EQ(gpus("H200", "a wire", [](auto&) {}).find("it has no link a wire, but PCIe 3 x16, "), 0u);
  EXPECT_EQ(gpus("H200", "PCIe 3 x16", [](auto& f) { f["assumed"]["memory_efficiency"] = 0; }),
            "memory_efficiency is 0, which cannot be");
}

// A codec of which `instructions` were counted for 128 bytes without zeros, and half as many of nothing but zeros.
counted_curve counted(double instructions, double sectors) {
  return {{0, 1}, {instructions / 128, instructions / 256}, {0, 0}, {sectors / 128, sectors / 128}};
}

TEST(timeline_codecs, take_what_was_counted_at_70_percent_of_issue) {
  const machine on = v100();
  std::vector<measurement> measured;
  std::map<std::string, counted_codec> counts;
  for (const char* codec : {"zvc", "rle", "deflate", "quantize"}) {
    for (const double zeros : {0., .5})
      measured.push_back({.of = {{"host", "f32", "clustered"}, codec},
                          .size = 1 << 24,
                          .zeros = zeros,
                          .encode = 1,
                          .decode = 1,
                          .ratio = zeros == 0 ? 1. : 2.});
    counts[codec] = {counted(1000, 0), counted(10, 0)};
  }
  counts["rle"].decode = counted(10, 16);
  const codec_models codecs = counted_codecs(on, counts, measured, "a file");
  // 80 processors issue four a clock each; 750 are executed for 128 bytes at half zeros.
  const codec_estimate zvc = codecs.at("zvc")(1 << 28, .5);
  const double ratio = 1 / (1. / 32 + .5), copy = .875 * 900e9;
  EXPECT_DOUBLE_EQ(zvc.ratio, ratio);
  EXPECT_NEAR(zvc.encode, (1 << 21) * 750 / (.7 * 80 * 4 * 1.53e9) + 5e-6, 1e-12);
  // Few instructions: memory bounds it, by what must be moved or by the sectors that were counted.
  EXPECT_NEAR(zvc.decode, (1 << 28) * (1 + 1 / ratio) / copy + 5e-6, 1e-12);
  EXPECT_NEAR(codecs.at("rle")(1 << 28, .5).decode, (1 << 21) * 16 * 32 / copy + 5e-6, 1e-12);
  EXPECT_FALSE(zvc.lossy);
  EXPECT_EQ(codecs.at("zvc")(1 << 28, 0).ratio, 1);  // chunks that do not shrink stay
  EXPECT_DOUBLE_EQ(codecs.at("rle")(1 << 28, .25).ratio, 1 / .75);
  EXPECT_TRUE(codecs.at("quantize")(1, .5).lossy);
  EXPECT_DOUBLE_EQ(slower(codecs, 3).at("zvc")(1 << 28, .5).encode, 3 * zvc.encode);

  const codec_estimate engine = engine_zvc(on)(1 << 28, .5);
  EXPECT_EQ(engine.encode + engine.decode, 0);
  EXPECT_DOUBLE_EQ(engine.ratio, ratio);
  EXPECT_LT(engine_zvc(on)(1 << 28, 0).ratio, 1);
  machine fast = on;
  fast.link.d2h = copy / 10;
  EXPECT_DOUBLE_EQ(engine_zvc(fast)(1 << 28, 1).ratio, 10);
  EXPECT_THROW(counted_codecs(on, counts, {}, "a file"), tools::file_error);
}

TEST_F(timeline_files, of_counts_have_all_four_codecs) {
  const std::string counts = TUCK_BENCH_FOLDER "/results/ptx-counts.json";
  const auto read = read_counts(counts);
  for (const char* codec : {"zvc", "rle", "deflate", "quantize"}) {
    const counted_codec& of = read.at(codec);
    EXPECT_TRUE(std::is_sorted(of.encode.zeros.begin(), of.encode.zeros.end()));
    EXPECT_GT(between(of.encode.zeros, of.encode.instructions, .6), 2. / 128) << codec;  // a copy's
  }
  EXPECT_LT(read.at("zvc").encode.instructions[0], read.at("deflate").encode.instructions[0]);
  EXPECT_EQ(refusal_of(counts, read_counts, [](auto& f) { f["rows"].clear(); }),
            "no counts of zvc on sums of f32 are in it");
  EXPECT_EQ(refusal_of(counts, read_counts,
                       [](auto& f) {
                         for (auto& row : f["rows"]) row.erase("zeros");
                       }),
            "key 'zeros' not found");
}

TEST(timeline_codecs, are_predicted_where_a_gpu_was_measured) {
  const scratch::directory dir;
  const std::string path = dir / "predictors.json";
  auto measured = sample_measurements();
  for (measurement& m : measured) m.of.on.where = "gpu";
  save(path, {{{"cpu", "a CPU"}}, fit(measured)});
  EXPECT_THROW(predicted_codecs(path), tools::file_error);  // without rle
  for (size_t i = 0, count = measured.size(); i < count; ++i)
    if (measured[i].of.codec == "zvc") measured.emplace_back(measurement(measured[i])).of.codec = "rle";
  save(path, {{{"cpu", "a CPU"}}, fit(measured)});
  const codec_models codecs = predicted_codecs(path);
  EXPECT_EQ(codecs.size(), 4u);
  const codec_estimate zvc = codecs.at("zvc")(1 << 20, .5);  // 0.2 + 60 + 20 us, as its law has it
  EXPECT_NEAR(zvc.encode, 80.2e-6, 1e-8);
  EXPECT_NEAR(zvc.ratio, 1 / (1e-4 + .03 + .5), 1e-3);
  EXPECT_TRUE(codecs.at("quantize")(1 << 20, .5).lossy);
  EXPECT_THROW(codecs.at("zvc")(1 << 30, .5), tools::file_error);  // 64 MiB is the largest that was measured
}

TEST(timeline_policies, plan_as_the_papers_say) {
  const network_table alexnet = table("alexnet");
  const auto plan = [&](const char* policy) { return replay_policy(policy, alexnet, 128, simple(), 3).plan; };
  const auto ways = [&](const char* policy, way how) {
    const auto of = plan(policy);
    return std::count_if(of.begin(), of.end(), [&](const movement& m) { return m.how == how; });
  };
  const auto layers = time_layers(alexnet, 128, v100());
  const auto raw = plan_raw(layers, offload_set::all);
  const auto all = std::count_if(raw.begin(), raw.end(), [](const movement& m) { return m.how == way::raw; });
  EXPECT_EQ(ways("keep", way::keep), std::ssize(layers));
  EXPECT_EQ(ways("vDNN conv", way::raw), 5);
  EXPECT_EQ(ways("vDNN all", way::raw), all);
  EXPECT_EQ(ways("vDNN++", way::cpu), all);
  EXPECT_EQ(ways("cDMA", way::encode), all);
  EXPECT_EQ(ways("COMET", way::encode), all);
  EXPECT_EQ(ways("CSWAP", way::recompute), 0);
  EXPECT_LT(ways("CSWAP", way::encode), all + 1);
  EXPECT_GT(ways("CSWAP+ recompute", way::recompute), 0);
  for (const movement& m : plan("CSWAP+")) EXPECT_FALSE(m.by.lossy);
}

TEST(timeline_policies, outcomes_are_those_of_the_replay) {
  const network_table alexnet = table("alexnet");
  const setting in = simple();
  const auto of = [&](const char* policy) { return outcome_of(policy, replay_policy(policy, alexnet, 128, in, 3)).is; };
  const figures keep = of("keep"), vdnn = of("vDNN all"), cdma = of("cDMA"), comet = of("COMET"),
                lossy = of("CSWAP+ lossy");
  EXPECT_DOUBLE_EQ(keep.iteration, keep.compute);
  EXPECT_EQ(vdnn.raw, vdnn.bytes_out);
  EXPECT_EQ(vdnn.ratio(), 1);
  EXPECT_NEAR(cdma.ratio(), 2, 1e-6);
  EXPECT_NEAR(cdma.iteration, cdma.compute + cdma.waiting + cdma.codec, 1e-9);
  EXPECT_LT(cdma.iteration, vdnn.iteration);
  EXPECT_LE(lossy.iteration, cdma.iteration);
  // Nothing of COMET's leaves: what is encoded counts on the device.
  EXPECT_EQ(comet.bytes_out + comet.host_peak, 0);
  EXPECT_NEAR(comet.ratio(), 4, 1e-6);
  EXPECT_NEAR(comet.waiting, 0, 1e-9);
  EXPECT_LT(comet.device_peak, keep.device_peak);
  EXPECT_LT(vdnn.device_peak, comet.device_peak);
}

TEST(timeline_policies, means_are_over_whole_epochs) {
  const network_table alexnet = table("alexnet");
  setting in = simple();
  in.codecs["zvc"] = [](uint64_t, double zeros) { return codec_estimate{zvc_ratio(zeros, 4)}; };
  const network_outcome n = replay_all(alexnet, 128, in);
  ASSERT_EQ(n.epochs.size(), 3u);
  double sum = 0, peak = 0;
  for (double epoch = 0; epoch <= 8; ++epoch) {
    const figures f = outcome_of("cDMA", replay_policy("cDMA", alexnet, 128, in, epoch)).is;
    sum += f.iteration;
    peak = std::max(peak, f.host_peak);
  }
  EXPECT_NEAR(n.of("cDMA").iteration, sum / 9, 1e-12);
  EXPECT_EQ(n.of("cDMA").host_peak, peak);
  EXPECT_LT(of_policy(n.epochs[1].policies, "cDMA").iteration, of_policy(n.epochs[0].policies, "cDMA").iteration);
}

}  // namespace
}  // namespace tuck::bench
