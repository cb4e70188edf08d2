// What tuck-bench measures on, and how it sums up.
#include "bench/micro/points.hpp"
#include "bench/micro/counts.hpp"
#include "bench/micro/google_flags.hpp"
#include "bench/micro/statistics.hpp"
#include "bench/micro/tensors.hpp"
#include "bench/support/gpus.hpp"

#include "support/scratch.hpp"

#include <tuck/core/bits.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

namespace tuck::bench {
namespace {

using extent = selection::extent;

const std::vector<entry> coders{{"zvc", false, [](dtype) { return true; }},
                                {"quantize", false, [](dtype t) { return t == dtype::f32 || t == dtype::bf16; }},
                                {"delta+rle+bitpack", false, [](dtype t) { return t == dtype::i32; }},
                                {"zlib-6", true, [](dtype) { return true; }}};

std::set<std::string> names(const std::vector<point>& points) {
  std::set<std::string> all;
  for (const point& p : points) all.insert(row_name("encode", p.coder.name, p.tensor, p.where));
  return all;
}

TEST(points, have_names_that_say_all) {
  EXPECT_EQ(row_name("encode", "zvc", {dtype::f32, pattern::clustered, .9, 64 << 20}, place::host),
            "encode/zvc/f32/s:0.90/clustered/64MiB/host");
  EXPECT_EQ(row_name("decode", "zlib-6", {dtype::bf16, pattern::recorded, 0, 100}, place::gpu),
            "decode/zlib-6/bf16/s:any/recorded/100B/gpu");
  EXPECT_EQ(row_name("encode", "zvc", {dtype::f32, pattern::iid, .5, 4096}, place::host, {2, cpu_level::avx2}),
            "encode/zvc/f32/s:0.50/iid/4KiB/host/avx2/threads:2");
  EXPECT_EQ(
      row_name("encode", "zvc", {dtype::f32, pattern::iid, .5, 4096}, place::gpu, {.blocks = 4, .chunk_bytes = 8192}),
      "encode/zvc/f32/s:0.50/iid/4KiB/gpu/blocks:4/chunk:8KiB");
}

TEST(points, of_our_codecs_come_in_each_way) {
  const selection wanted{.coders = {"zvc", "zlib-6"}, .sparsities = {.5, .9}};
  const auto points =
      in_ways(points_of(wanted, coders, place::host), {{1, cpu_level::baseline}, {2, cpu_level::baseline}});
  std::set<std::string> all;
  for (const point& p : points)
    all.insert(p.coder.name + " " + std::to_string(p.way.threads) + (p.way.level ? "!" : ""));
  EXPECT_EQ(points.size(), 2u * 3);
  EXPECT_EQ(all, (std::set<std::string>{"zvc 1!", "zvc 2!", "zlib-6 1"}));
  EXPECT_EQ(points[0].tensor, points[2].tensor) << "one tensor after the other";
}

TEST(points, sizes_read_as_they_are_written) {
  for (const uint64_t size : {1ull, 1023ull, 1024ull, 4096ull, 1536ull, 1ull << 20, 3ull << 30})
    EXPECT_EQ(size_of_name(size_name(size)), size);
  EXPECT_EQ(size_of_name("64MiB"), 64u << 20);
  for (const char* text : {"", "0", "-1", "64MB", "64 MiB", "MiB", "1e3", "65GiB", "18446744073709551615GiB", "4KiBx"})
    EXPECT_FALSE(size_of_name(text)) << text;
  EXPECT_EQ(type_of_name("bf16"), dtype::bf16);
  EXPECT_EQ(type_of_name("f8e4m3"), dtype::f8e4m3);
  EXPECT_FALSE(type_of_name("none"));
}

TEST(points, are_each_there_once_and_possible) {
  for (const extent how_much : {extent::quick, extent::standard, extent::full}) {
    for (const place where : {place::host, place::gpu, place::sim, place::ptx}) {
      const auto points = points_of({.how_much = how_much}, coders, where);
      EXPECT_EQ(names(points).size(), points.size());
      std::set<std::string> seen;
      for (const point& p : points) {
        EXPECT_TRUE(p.coder.takes(p.tensor.type));
        EXPECT_TRUE(makes(p.tensor.of, p.tensor.type));
        EXPECT_EQ(p.tensor.raw_bytes % size_of(p.tensor.type), 0u);
        EXPECT_EQ(p.where, where);
        seen.insert(p.coder.name);
      }
      EXPECT_EQ(seen.size(), coders.size());
    }
  }
}

TEST(points, of_a_standard_run_sweep_each_axis) {
  const auto all = names(points_of({}, coders, place::host));
  for (const char* name :
       {"encode/zvc/f32/s:0.99/clustered/16MiB/host", "encode/zlib-6/f32/s:0.30/clustered/16MiB/host",
        "encode/quantize/f32/s:any/smooth/16MiB/host", "encode/quantize/bf16/s:0.60/clustered/16MiB/host",
        "encode/zvc/f32/s:0.60/iid/16MiB/host", "encode/zlib-6/f32/s:0.60/clustered/4KiB/host",
        "encode/delta+rle+bitpack/i32/s:0.60/clustered/16MiB/host", "encode/zvc/f32/s:0.95/clustered/64KiB/host"})
    EXPECT_TRUE(all.contains(name)) << name;
  EXPECT_FALSE(all.contains("encode/quantize/f32/s:0.95/clustered/64KiB/host"));
}

TEST(points, whose_instructions_are_counted_are_what_was_counted_before) {
  const auto all = names(points_of({}, coders, place::ptx));
  for (const char* name : {"encode/zvc/f32/s:0.60/sums/8MiB/ptx", "encode/zvc/f32/s:0.00/sums/8MiB/ptx",
                           "encode/zvc/bf16/s:0.60/sums/8MiB/ptx", "encode/zvc/f32/s:0.60/runs/8MiB/ptx"})
    EXPECT_TRUE(all.contains(name)) << name;
  EXPECT_EQ(names(points_of({.how_much = extent::quick, .coders = {"zvc"}}, coders, place::ptx)),
            (std::set<std::string>{"encode/zvc/f32/s:0.00/sums/1MiB/ptx", "encode/zvc/f32/s:0.60/sums/1MiB/ptx"}));
}

TEST(points, given_values_are_combined) {
  const selection wanted{.coders = {"zvc", "quantize"}, .sparsities = {.5, .9}, .sizes = {4096, 8192}};
  const auto all = names(points_of(wanted, coders, place::host));
  EXPECT_EQ(all.size(), 8u);
  EXPECT_TRUE(all.contains("encode/quantize/f32/s:0.50/clustered/8KiB/host"));
  EXPECT_TRUE(points_of({.coders = {"quantize"}, .types = {dtype::u8}}, coders, place::host).empty());
  EXPECT_EQ(names(points_of({.coders = {"zvc"}, .patterns = {pattern::smooth}}, coders, place::sim)),
            std::set<std::string>{"encode/zvc/f32/s:any/smooth/256KiB/sim"});
}

TEST(statistics, of_runs) {
  EXPECT_EQ(statistics_of({}).runs, 0u);
  const statistics one = statistics_of({2.});
  EXPECT_EQ(one.best, 2);
  EXPECT_EQ(one.median, 2);
  EXPECT_EQ(one.cv, 0);
  const statistics four = statistics_of({4., 1., 3., 2.});
  EXPECT_EQ(four.runs, 4u);
  EXPECT_EQ(four.best, 1);
  EXPECT_EQ(four.median, 2.5);
  EXPECT_NEAR(four.cv, std::sqrt(5. / 3) / 2.5, 1e-12);
}

// By tables of the binomial distribution.
TEST(statistics, the_median_has_an_interval) {
  const auto of = [](size_t n) {
    std::vector<double> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<double>(1 + i * 7 % n);  // 1 to n, if 7 does not divide n
    return statistics_of(values);
  };
  for (const auto& [n, low, high] :
       {std::array<size_t, 3>{1, 1, 1}, {5, 1, 5}, {6, 1, 6}, {9, 2, 8}, {15, 4, 12}, {20, 6, 15}, {99, 40, 60}}) {
    EXPECT_EQ(of(n).low, static_cast<double>(low)) << n;
    EXPECT_EQ(of(n).high, static_cast<double>(high)) << n;
  }
  EXPECT_NEAR(of(9).error(), 3. / 5, 1e-12);
  EXPECT_FALSE(statistics_of({1, 1, 1, 1, 1}).known(.03)) << "five runs are too few, however alike they are";
  EXPECT_TRUE(statistics_of({1, 1, 1.02, 1, 1, 1}).known(.03));
  EXPECT_FALSE(statistics_of({1, 1, 1.04, 1, 1, 1}).known(.03));
}

// One run in three is slow: of all runs that says nothing, of a third of the time it does.
TEST(statistics, what_disturbs_for_long_is_no_noise_of_single_runs) {
  std::vector<double> scattered(3000, 1), at_once(3000, 1);
  for (size_t i = 0; i < 1000; ++i) scattered[i * 3] = at_once[i] = 1.2;
  EXPECT_EQ(statistics_of(scattered).median, statistics_of(at_once).median);
  EXPECT_LE(statistics_of(scattered).error(), .03);
  EXPECT_GT(statistics_of(at_once).error(), .03);
}

TEST(enough_runs, are_those_that_know_the_median_or_the_limit) {
  const run_limits limits{.least_runs = 6, .most_runs = 50, .seconds = 1, .least_seconds = .1, .precision = .03};
  const auto runs_of = [](const run_limits& of, double seconds, double unlike) {
    enough_runs enough(of);
    std::array<std::vector<double>, 2> series;
    for (double passed = seconds;; passed += seconds) {
      series[0].push_back(seconds);
      series[1].push_back(series[1].size() % 2 == 0 ? 1 : unlike);
      if (enough(passed, series)) return series[0].size();
    }
  };
  EXPECT_EQ(runs_of(limits, .5, 1), 6u);     // not before the least, though the time is over
  EXPECT_EQ(runs_of(limits, .02, 1), 6u);    // known
  EXPECT_EQ(runs_of(limits, .004, 1), 25u);  // known at once, and looked at after a tenth of a second
  EXPECT_EQ(runs_of(limits, .04, 2), 25u);   // never known: the time
  EXPECT_EQ(runs_of(limits, .001, 2), 50u);  // the runs
  EXPECT_EQ(runs_of({.least_runs = 3, .most_runs = 50, .seconds = .095}, .01, 1), 10u) << "no precision is asked";
}

TEST(tensors, have_the_zeros_that_were_asked_for) {
  tensor_maker maker(TUCK_DATA);
  for (const dtype type : {dtype::u8, dtype::i32, dtype::f16, dtype::f32, dtype::f64})
    for (const pattern p : {pattern::iid, pattern::clustered})
      for (const double s : {0., .3, .9, .97, .99, .999, 1.}) {
        const tensor t = maker.make({type, p, s, 1 << 20});
        EXPECT_EQ(t.values.size(), 1u << 20);
        EXPECT_NEAR(t.sparsity, s, .01 + .02 * (1 - s)) << name(type) << " " << name(p) << " " << s;
      }
}

// To the bit those of the program that counted before this one.
TEST(tensors, that_were_counted_before_are_the_same) {
  tensor_maker maker(TUCK_DATA);
  const auto digest = [&](dtype type, pattern p) {
    uint64_t sum = 1469598103934665603u;  // FNV-1a
    for (const std::byte b : maker.make({type, p, .6, (1 << 16) * size_of(type)}).values)
      sum = (sum ^ static_cast<uint64_t>(b)) * 1099511628211u;
    return sum;
  };
  EXPECT_EQ(digest(dtype::f32, pattern::sums), 0x6101ee3536741fc4u);
  EXPECT_EQ(digest(dtype::f32, pattern::runs), 0x202a3be7397e5c5au);
  EXPECT_EQ(digest(dtype::u8, pattern::sums), 0x9ee466a913ce1864u);
  EXPECT_EQ(digest(dtype::u8, pattern::runs), 0x95cce974d640a63du);
}

TEST(tensors, cluster_their_zeros) {
  tensor_maker maker(TUCK_DATA);
  const auto runs = [&](pattern p) {
    const tensor t = maker.make({dtype::u8, p, .5, 1 << 18});
    uint64_t begins = 0;
    for (size_t i = 1; i < t.values.size(); ++i) begins += t.values[i] == std::byte{} && t.values[i - 1] != std::byte{};
    return static_cast<double>(t.values.size()) * t.sparsity / static_cast<double>(begins);
  };
  EXPECT_NEAR(runs(pattern::iid), 2, .1);
  EXPECT_NEAR(runs(pattern::clustered), 32, 3);
}

TEST(tensors, are_the_same_again_and_of_any_size) {
  tensor_maker maker(TUCK_DATA);
  for (const pattern p : {pattern::iid, pattern::clustered, pattern::recorded, pattern::smooth}) {
    const tensor_request wanted{dtype::f32, p, .5, 20 << 20};  // more than values made one by one
    const tensor a = maker.make(wanted), b = tensor_maker(TUCK_DATA).make(wanted);
    EXPECT_EQ(a.values, b.values);
    EXPECT_GT(a.range, 0);
    EXPECT_EQ(maker.make({dtype::f32, p, .5, 4}).values.size(), 4u);
  }
}

TEST(tensors, recordings_that_are_not_there_are_an_error) {
  EXPECT_ANY_THROW(tensor_maker("no/such/directory").make({dtype::f32, pattern::recorded, 0, 64}));
}

TEST(tensors, recordings_of_the_type_keep_their_bits) {
  const std::string path = std::string(TUCK_DATA) + "/kv/lm_layer0_k_bf16.npy";
  const tools::npy_file file = tools::read_npy(path);
  const tensor made = tensor_maker(path).make({dtype::bf16, pattern::recorded, 0, file.data().size()});
  EXPECT_EQ(std::memcmp(made.values.data(), file.data().data(), file.data().size()), 0);
  EXPECT_GT(made.range, 0);
  for (const dtype type : {dtype::f32, dtype::f8e4m3})
    EXPECT_ANY_THROW(tensor_maker(path).make({type, pattern::recorded, 0, 64})) << tuck::name(type);
}

// As whatever they were recorded, and as what unsigned integers may be the bits of.
TEST(tensors, recordings_may_be_integers) {
  using tools::write_npy;
  scratch::directory dir;
  const std::string path = dir / "file.npy";
  for (const dtype type : {dtype::i8, dtype::u16, dtype::i32, dtype::u64, dtype::f64}) {
    std::vector<std::byte> values(96 * size_of(type));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(i % 11);
    write_npy(path, type, {96}, as_bytes(span<const std::byte>(values)));
    EXPECT_EQ(recorded_type(path), type);
    EXPECT_TRUE(makes(pattern::recorded, type, type));
    EXPECT_EQ(tensor_maker(path).make({type, pattern::recorded, 0, values.size()}).values, values) << name(type);
  }
  EXPECT_ANY_THROW(recorded_type(dir / "none.npy"));
  EXPECT_TRUE(makes(pattern::recorded, dtype::bf16, dtype::u16));
  EXPECT_TRUE(makes(pattern::recorded, dtype::i8, dtype::u8));
  EXPECT_TRUE(makes(pattern::recorded, dtype::f8e4m3, dtype::f32));
  EXPECT_FALSE(makes(pattern::recorded, dtype::i8, dtype::f32));
  EXPECT_FALSE(makes(pattern::recorded, dtype::f32, dtype::i8));
  EXPECT_FALSE(makes(pattern::recorded, dtype::u8, dtype::i8));
  EXPECT_FALSE(makes(pattern::smooth, dtype::i8, dtype::i8));
}

TEST(points, that_were_asked_for_and_cannot_be_are_named) {
  const selection wanted{.types = {dtype::f64, dtype::i8}, .patterns = {pattern::recorded, pattern::iid}, .sizes = {7}};
  EXPECT_EQ(left_out(wanted, coders),
            (std::vector<std::string>{"no f64 is taken by quantize, delta+rle+bitpack", "7B has no value of f64",
                                      "no i8 is taken by quantize, delta+rle+bitpack",
                                      "there are no recorded tensors of i8"}));
  EXPECT_TRUE(left_out({.coders = {"zvc"}, .types = {dtype::i8}}, coders).empty());
  EXPECT_TRUE(left_out({}, coders).empty());
}

row counted_row() {
  row r;
  r.coder = "zvc";
  r.tensor = {dtype::f32, pattern::sums, .6, 1 << 23};
  r.where = place::ptx;
  r.encoded_bytes = (1 << 23) * 2 / 5;
  const double units = (1 << 23) / 128;
  r.counts = {42 * units, 42 * 23 * units, 3 * units, 2 * units, 5.6 * units};
  r.lines = {
      {"/somewhere/include/tuck/codec/zvc/zvc_block.cuh", 7, {21 * units, 21 * 30 * units, units, units, 4 * units}}};
  return r;
}

std::string printed(const std::function<void(std::FILE*)>& print) {
  std::FILE* const file = std::tmpfile();
  print(file);
  std::string text(static_cast<size_t>(std::ftell(file)), ' ');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

TEST(counts, are_by_128_bytes_and_bound_r_by_the_highest_wall) {
  const auto gpus = read_bounded_gpus(TUCK_GPUS);
  ASSERT_EQ(gpus.size(), 5u);
  nlohmann::ordered_json one;
  add_counts(one, counted_row(), gpus);
  EXPECT_DOUBLE_EQ(one.at("instructions_per_128_bytes"), 42);
  EXPECT_DOUBLE_EQ(one.at("active_lanes"), 23);
  EXPECT_DOUBLE_EQ(one.at("shared_wavefronts"), 3);
  EXPECT_DOUBLE_EQ(one.at("least_wavefronts"), 2);
  EXPECT_DOUBLE_EQ(one.at("sectors"), 5.6);
  // An H200 issues 132 x 4 x 1.75e9 a second and copies 4.2e12 bytes: 28.16 instructions for 128 of them.
  const auto& h200 = one.at("bound_R").at("H200");
  EXPECT_NEAR(h200.at("R"), 28.16 * 1.4 / 42, 1e-6);
  EXPECT_EQ(h200.at("wall"), "instructions");
  EXPECT_NEAR(h200.at("shared"), 28.16 / 4 * 1.4 / 3, 1e-6);
  EXPECT_NEAR(h200.at("memory"), 1, 1e-6);
  const auto& v100 = one.at("bound_R").at("V100-SXM2");
  EXPECT_EQ(v100.at("wall"), "memory");
  EXPECT_NEAR(v100.at("R"), 1, 1e-6);
  add_counts(one, row{}, gpus);
  EXPECT_TRUE(one.at("bound_R").is_null() && one.at("sectors").is_null());
}

TEST(counts, are_shown_as_bounds) {
  const auto gpus = read_bounded_gpus(TUCK_GPUS);
  const std::vector<row> rows{counted_row()};
  const std::string text = printed([&](std::FILE* to) { print_counts(rows, gpus, to); });
  EXPECT_NE(text.find("encode/zvc/f32/s:0.60/sums/8MiB/ptx"), std::string::npos) << text;
  EXPECT_NE(text.find("0.94i"), std::string::npos) << text;
  EXPECT_NE(text.find("Bounds, no speeds"), std::string::npos) << text;
  EXPECT_EQ(printed([&](std::FILE* to) { print_counts({row{}}, gpus, to); }), "");
  EXPECT_EQ(printed([&](std::FILE* to) { print_table(rows, to); }), "");
}

TEST(counts, profile_names_lines_without_where_they_were_built) {
  row r = counted_row();
  const std::string text = printed([&](std::FILE* to) { print_profile({r}, to); });
  EXPECT_NE(text.find("  21.000  50.0%  30.00    4.000    1.000  include/tuck/codec/zvc/zvc_block.cuh:7"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("somewhere"), std::string::npos);
  r.lines[0].file.clear();
  EXPECT_NE(printed([&](std::FILE* to) { print_profile({r}, to); }).find("without -lineinfo"), std::string::npos);
}

TEST(results, noisy_rows_are_marked) {
  row sure;
  sure.coder = "zvc";
  sure.tensor = {dtype::f32, pattern::iid, .6, 1 << 20};
  sure.encoded_bytes = 1 << 19;
  sure.copy_time = sure.time = statistics_of(std::vector<double>(30, 1e-3));
  row noisy = sure, copy_noisy = sure;
  noisy.coder = "rle";
  noisy.time = statistics_of({1e-3, 2e-3, 1e-3, 2e-3, 1e-3, 2e-3, 1e-3, 1e-3, 3e-3});
  copy_noisy.coder = "bitpack";
  copy_noisy.copy_time = noisy.time;
  const auto table = [](const std::vector<row>& rows) {
    return printed([&](std::FILE* to) { print_table(rows, to); });
  };
  EXPECT_EQ(table({sure}).find('~'), std::string::npos) << table({sure});
  EXPECT_NE(table({sure, noisy}).find("1.049~ 1.000~100.0%"), std::string::npos) << table({sure, noisy});
  EXPECT_NE(table({sure, noisy}).find("~ noisy: "), std::string::npos);
  EXPECT_NE(table({copy_noisy}).find("1.049  1.000~  0.0%"), std::string::npos) << table({copy_noisy});

  const auto rows = as_json({}, {sure, noisy}, true).at("rows");
  EXPECT_FALSE(rows[0].at("noisy"));
  EXPECT_TRUE(rows[1].at("noisy"));
  EXPECT_EQ(rows[1].at("median_low_seconds"), 1e-3);
  EXPECT_EQ(rows[1].at("median_high_seconds"), 2e-3);
  EXPECT_EQ(rows[1].at("R_low"), .5);
  EXPECT_EQ(rows[1].at("R_high"), 1);
}

TEST(google_flags, hold_or_say_what_does) {
  google_flags flags;
  flags.add("--benchmark_filter=zvc/.*/host$");
  flags.add("--benchmark_out=some.json");
  EXPECT_TRUE(flags.wants("encode/zvc/f32/s:0.60/iid/4KiB/host"));
  EXPECT_FALSE(flags.wants("encode/zvc/f32/s:0.60/iid/4KiB/sim"));
  EXPECT_EQ(flags.for_google(), std::vector<std::string>{"--benchmark_out=some.json"});
  flags.add("--benchmark_filter=-zvc|rle");
  EXPECT_FALSE(flags.wants("encode/zvc/x"));
  EXPECT_TRUE(flags.wants("encode/deflate/x"));
  flags.add("--benchmark_filter=all");
  EXPECT_TRUE(flags.wants("encode/zvc/x"));
  flags.add("--benchmark_list_tests=false");
  EXPECT_FALSE(flags.list());
  flags.add("--benchmark_list_tests");
  EXPECT_TRUE(flags.list());

  for (const auto& [flag, word] :
       std::vector<std::pair<std::string, std::string>>{{"--benchmark_min_time=2s", "--seconds"},
                                                        {"--benchmark_repetitions=3", "--seconds"},
                                                        {"--benchmark_min_warmup_time=1", "--seconds"},
                                                        {"--benchmark_format=json", "--out"},
                                                        {"--benchmark_dry_run", "--list"},
                                                        {"--benchmark_filter=[", "no regular expression"},
                                                        {"--benchmark_filter", "behind '='"},
                                                        {"--benchmark_frobnicate=1", "is not taken"}}) {
    try {
      flags.add(flag);
      ADD_FAILURE() << flag << " is taken";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
}

TEST(max_error, is_the_largest_difference) {
  const std::vector<float> a{1, -2, 3}, b{1, -2.5f, 3.25f};
  const auto all = [](const std::vector<float>& v) { return as_bytes(span<const float>(v)); };
  EXPECT_EQ(max_error(dtype::f32, all(a), all(b)), .5);
  EXPECT_EQ(max_error(dtype::f32, all(a), all(a)), 0);
  EXPECT_TRUE(std::isinf(max_error(dtype::u8, all(a), all(b))));
  const std::vector<float> with_nan{1, NAN, 3}, other{1, 2, 3};
  EXPECT_EQ(max_error(dtype::f32, all(with_nan), all(with_nan)), 0);
  EXPECT_TRUE(std::isinf(max_error(dtype::f32, all(with_nan), all(other))));
}

}  // namespace
}  // namespace tuck::bench
