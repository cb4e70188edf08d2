#include "bench/micro/points.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace tuck::bench {
namespace {

using extent = selection::extent;

constexpr uint64_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;
constexpr double default_sparsity = .6;

// What was counted before there was a program for it: sums at all sparsities, runs beside.
pattern default_pattern(place where) { return where == place::ptx ? pattern::sums : pattern::clustered; }

struct axes {
  std::vector<pattern> patterns;
  std::vector<double> sparsities;
  std::vector<uint64_t> sizes;
};

axes all_of(extent how_much, place where) {
  if (where == place::model) return {{pattern::clustered}, {default_sparsity}, {default_size(how_much, where)}};
  if (where == place::ptx) {
    if (how_much == extent::quick) return {{pattern::sums}, {0, .6}, {default_size(how_much, where)}};
    return {{pattern::sums, pattern::runs}, {0, .3, .5, .6, .9, .95, 1}, {default_size(how_much, where)}};
  }
  if (how_much == extent::quick) {
    if (where == place::sim) return {{pattern::clustered, pattern::recorded}, {.5, .9}, {64 * KiB}};
    return {
        {pattern::clustered, pattern::recorded}, {0, .5, .9}, {4 * KiB, 64 * KiB, MiB, default_size(how_much, where)}};
  }
  axes all{{pattern::clustered, pattern::iid, pattern::recorded, pattern::smooth},
           {0, .3, .5, .6, .7, .8, .9, .95, .99},
           {4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB, MiB, 4 * MiB, 16 * MiB, 64 * MiB, 256 * MiB, GiB}};
  if (where == place::sim) all.sizes = {4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB};
  if (where == place::host && how_much == extent::standard) all.sizes.resize(8);  // to 64 MiB
  return all;
}

// f32 where the coder takes it, else the one of its types that comes first.
dtype default_type(const entry& coder) {
  for (const dtype type : {dtype::f32, dtype::i32, dtype::bf16, dtype::u8})
    if (coder.takes(type)) return type;
  return dtype::none;
}

// Lossless codecs whose swaps are compared at every size and sparsity.
bool is_mapped(const entry& coder) {
  static const std::vector<std::string> names{"zvc", "rle", "deflate", "zvc+huffman"};
  return std::find(names.begin(), names.end(), coder.name) != names.end();
}

class collector {
 public:
  collector(const std::vector<entry>& coders, place where, dtype recorded)
      : coders_(coders), where_(where), recorded_(recorded) {}

  void add(const entry& coder, tensor_request t) {
    if (t.type == dtype::none || !coder.takes(t.type) || !makes(t.of, t.type, recorded_)) return;
    if (!has_sparsity(t.of)) t.sparsity = 0;
    t.raw_bytes -= t.raw_bytes % size_of(t.type);
    if (t.raw_bytes == 0) return;
    const auto same = [&](const point& p) { return p.coder.name == coder.name && p.tensor == t; };
    if (std::none_of(points_.begin(), points_.end(), same)) points_.push_back({coder, t, where_});
  }
  void add_all(const tensor_request& t) {
    for (const entry& coder : coders_) add(coder, {default_type(coder), t.of, t.sparsity, t.raw_bytes});
  }

  // Large tensors last, so that a run that is stopped has seen most; those of one tensor together.
  std::vector<point> sorted() {
    const auto key = [](const point& p) {
      return std::tuple(p.tensor.raw_bytes, p.tensor.type, p.tensor.of, p.tensor.sparsity);
    };
    std::stable_sort(points_.begin(), points_.end(), [&](const point& a, const point& b) { return key(a) < key(b); });
    return std::move(points_);
  }

 private:
  const std::vector<entry>& coders_;
  place where_;
  dtype recorded_;
  std::vector<point> points_;
};

std::vector<entry> chosen(const selection& wanted, const std::vector<entry>& coders) {
  if (wanted.coders.empty()) return coders;
  std::vector<entry> found;
  for (const entry& coder : coders)
    if (std::find(wanted.coders.begin(), wanted.coders.end(), coder.name) != wanted.coders.end())
      found.push_back(coder);
  return found;
}

constexpr dtype all_types[] = {dtype::u8,  dtype::i8,  dtype::u16,    dtype::i16,   dtype::u32,
                               dtype::i32, dtype::u64, dtype::i64,    dtype::f16,   dtype::bf16,
                               dtype::f32, dtype::f64, dtype::f8e4m3, dtype::f8e5m2};
// Of those that differ by nothing but their name one is enough to be measured.
constexpr dtype unlike_types[] = {dtype::u8, dtype::i32, dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

template <class T> std::vector<T> either(const std::vector<T>& given, std::vector<T> otherwise) {
  return given.empty() ? otherwise : given;
}

void add_grid(collector& to, const std::vector<entry>& coders, const axes& of, const std::vector<dtype>& types) {
  for (const entry& coder : coders)
    for (const dtype type : types.empty() ? std::vector<dtype>{default_type(coder)} : types)
      for (const pattern p : of.patterns)
        for (const double s : of.sparsities)
          for (const uint64_t size : of.sizes) to.add(coder, {type, p, s, size});
}

}  // namespace

std::string size_name(uint64_t bytes) {
  if (bytes >= GiB && bytes % GiB == 0) return std::to_string(bytes / GiB) + "GiB";
  if (bytes >= MiB && bytes % MiB == 0) return std::to_string(bytes / MiB) + "MiB";
  if (bytes >= KiB && bytes % KiB == 0) return std::to_string(bytes / KiB) + "KiB";
  return std::to_string(bytes) + "B";
}

std::optional<uint64_t> size_of_name(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number == 0) return {};
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  uint64_t factor = 0;
  for (const auto& [name, bytes] : {std::pair{"", uint64_t{1}}, {"B", 1}, {"KiB", KiB}, {"MiB", MiB}, {"GiB", GiB}})
    if (unit == name) factor = bytes;
  if (factor == 0 || number > 64 * GiB / factor) return {};
  return number * factor;
}

std::optional<dtype> type_of_name(std::string_view text) {
  for (const dtype type : all_types)
    if (text == tuck::name(type)) return type;
  return {};
}

std::string row_name(const std::string& operation, const std::string& coder, const tensor_request& t, place where,
                     const coder_way& way) {
  char sparsity[32] = "s:any";
  if (has_sparsity(t.of))  // two digits, and as many more as tell it from others
    for (int digits = 2; digits <= 9; ++digits) {
      std::snprintf(sparsity, sizeof sparsity, "s:%.*f", digits, t.sparsity);
      if (std::strtod(sparsity + 2, nullptr) == t.sparsity) break;
    }
  return operation + "/" + coder + "/" + tuck::name(t.type) + "/" + sparsity + "/" + name(t.of) + "/" +
         size_name(t.raw_bytes) + "/" + name(where) + (way.level ? std::string("/") + name(*way.level) : "") +
         (way.threads != 1 ? "/threads:" + std::to_string(way.threads) : "") +
         (way.blocks != 0 ? "/blocks:" + std::to_string(way.blocks) : "") +
         (way.chunk_bytes != 0 ? "/chunk:" + size_name(way.chunk_bytes) : "");
}

std::vector<point> in_ways(const std::vector<point>& points, const std::vector<coder_way>& ways) {
  std::vector<point> all;
  for (const coder_way& way : ways)
    for (const point& p : points) {
      const bool ours = !p.coder.peer && p.coder.name != "memcpy" && p.coder.name != "copy";
      if (ours || way == ways.front()) all.push_back({p.coder, p.tensor, p.where, ours ? way : coder_way{}});
    }
  const auto key = [](const point& p) {
    return std::tuple(p.tensor.raw_bytes, p.tensor.type, p.tensor.of, p.tensor.sparsity);
  };
  std::stable_sort(all.begin(), all.end(), [&](const point& a, const point& b) { return key(a) < key(b); });
  return all;
}

uint64_t default_size(extent how_much, place where) noexcept {
  switch (where) {
    case place::host: return how_much == extent::quick ? 4 * MiB : 16 * MiB;
    case place::gpu: return how_much == extent::quick ? 16 * MiB : 256 * MiB;
    case place::ptx: return how_much == extent::quick ? MiB : 8 * MiB;
    case place::model: return how_much == extent::quick ? MiB : 256 * MiB;
    case place::sim: break;
  }
  return how_much == extent::quick ? 64 * KiB : 256 * KiB;
}

std::vector<point> points_of(const selection& wanted, const std::vector<entry>& all, place where) {
  const std::vector<entry> coders = chosen(wanted, all);
  const axes known = all_of(wanted.how_much, where);
  const uint64_t size = default_size(wanted.how_much, where);
  const pattern usual = default_pattern(where);
  collector to(coders, where, wanted.recorded);

  const bool given =
      !wanted.types.empty() || !wanted.patterns.empty() || !wanted.sparsities.empty() || !wanted.sizes.empty();
  if (given || wanted.how_much == extent::full) {
    const bool full = wanted.how_much == extent::full;
    const axes of{either(wanted.patterns, full ? known.patterns : std::vector{usual}),
                  either(wanted.sparsities, full ? known.sparsities : std::vector{default_sparsity}),
                  either(wanted.sizes, full ? known.sizes : std::vector{size})};
    const std::vector<dtype> every(std::begin(all_types), std::end(all_types));
    add_grid(to, coders, of, full ? either(wanted.types, every) : wanted.types);
    return to.sorted();
  }

  for (const double s : known.sparsities) to.add_all({dtype::none, usual, s, size});
  for (const pattern p : known.patterns) to.add_all({dtype::none, p, default_sparsity, size});
  const double middle = wanted.how_much == extent::quick ? .5 : default_sparsity;
  if (wanted.how_much == extent::standard) {
    for (const uint64_t s : known.sizes) to.add_all({dtype::none, usual, middle, s});
    for (const dtype type : unlike_types)
      for (const entry& coder : coders) to.add(coder, {type, usual, middle, size});
  }
  for (const entry& coder : coders)
    if (is_mapped(coder))
      for (const double s : known.sparsities)
        for (const uint64_t each : known.sizes)
          if (each <= 16 * MiB) to.add(coder, {default_type(coder), usual, s, each});
  return to.sorted();
}

std::vector<std::string> left_out(const selection& wanted, const std::vector<entry>& all) {
  std::vector<std::string> lines;
  for (const dtype type : wanted.types) {
    const std::string of = std::string(" ") + tuck::name(type);
    std::string coders;
    for (const entry& coder : chosen(wanted, all))
      if (!coder.takes(type) && (", " + coders + ", ").find(", " + coder.name + ", ") == std::string::npos)
        coders += (coders.empty() ? "" : ", ") + coder.name;
    if (!coders.empty()) lines.push_back("no" + of + " is taken by " + coders);
    for (const pattern p : wanted.patterns)
      if (!makes(p, type, wanted.recorded))
        lines.push_back("there are no " + std::string(name(p)) + " tensors of" + of);
    for (const uint64_t size : wanted.sizes)
      if (size < size_of(type)) lines.push_back(size_name(size) + " has no value of" + of);
  }
  return lines;
}

}  // namespace tuck::bench
