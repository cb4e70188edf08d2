// What tuck-bench measures on, and how it sums up.
#include "bench/micro/points.hpp"
#include "bench/micro/statistics.hpp"
#include "bench/micro/tensors.hpp"

#include <tuck/core/bits.hpp>

#include <gtest/gtest.h>

#include <cmath>
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
}

TEST(points, sizes_read_as_they_are_written) {
  for (const uint64_t size : {1ull, 1023ull, 1024ull, 4096ull, 1536ull, 1ull << 20, 3ull << 30})
    EXPECT_EQ(size_of_name(size_name(size)), size);
  EXPECT_EQ(size_of_name("64MiB"), 64u << 20);
  for (const char* text : {"", "0", "-1", "64MB", "64 MiB", "MiB", "1e3", "65GiB", "18446744073709551615GiB", "4KiBx"})
    EXPECT_FALSE(size_of_name(text)) << text;
  EXPECT_EQ(type_of_name("bf16"), dtype::bf16);
  EXPECT_FALSE(type_of_name("none"));
}

TEST(points, are_each_there_once_and_possible) {
  for (const extent how_much : {extent::quick, extent::standard, extent::full}) {
    for (const place where : {place::host, place::gpu, place::sim}) {
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
