// Which rows a run has: points of the grid coder x type x pattern x sparsity x size.
#pragma once

#include "bench/micro/tensors.hpp"

#include <tuck/core/cpu.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tuck::bench {

// Where a coder runs: ptx is the engine that executes what nvcc emits, and counts; model is its model of time.
enum class place { host, gpu, sim, ptx, model };

constexpr const char* name(place p) noexcept {
  constexpr const char* names[] = {"host", "gpu", "sim", "ptx", "model"};
  return names[static_cast<int>(p)];
}

// A coder in the grid, by its name alone.
struct entry {
  std::string name;
  bool peer;
  std::function<bool(dtype)> takes;
};

// How tuck's codecs run. On the host: threads, 0 is one a core; vectors, by default those of the process. On a device:
// blocks that a launch has on each multiprocessor at most, 0 is as many as fit; bytes of a chunk's values, 0 is 16 KiB.
struct coder_way {
  unsigned threads = 1;
  std::optional<cpu_level> level = {};
  uint32_t blocks = 0, chunk_bytes = 0;

  friend bool operator==(const coder_way&, const coder_way&) = default;
};

struct point {
  entry coder;
  tensor_request tensor;
  place where;
  coder_way way = {};
};

// "encode/zvc/f32/s:0.90/clustered/64MiB/host"; recordings and fields have the sparsity that they have. What is not
// usual of the way comes behind: "/avx2/threads:2", "/blocks:4/chunk:8KiB".
std::string row_name(const std::string& operation, const std::string& coder, const tensor_request& tensor, place where,
                     const coder_way& way = {});

std::string size_name(uint64_t bytes);                        // "64MiB", "4KiB", "100B"
std::optional<uint64_t> size_of_name(std::string_view text);  // also plain numbers of bytes
std::optional<dtype> type_of_name(std::string_view text);

// How much is measured: quick takes less than a minute, standard sweeps an axis at a time around a default point, and
// full is the grid. Values given for an axis replace its own, and then the grid of what is given is measured, other
// axes at the default point.
struct selection {
  enum class extent { quick, standard, full } how_much = extent::standard;
  std::vector<std::string> coders = {};  // none: all
  std::vector<dtype> types = {};
  std::vector<pattern> patterns = {};
  std::vector<double> sparsities = {};
  std::vector<uint64_t> sizes = {};
  dtype recorded = dtype::f32;  // type of the recordings
};

// The points, all of a tensor one behind the other and each once. Coders that do not take a type are left out there.
std::vector<point> points_of(const selection& wanted, const std::vector<entry>& coders, place where);

// What has no point although it was asked for by name, a line each: coders that do not take a type, patterns that have
// no tensor of it, and sizes without a value of it.
std::vector<std::string> left_out(const selection& wanted, const std::vector<entry>& coders);

// These points, those of tuck's codecs once for each of the ways.
std::vector<point> in_ways(const std::vector<point>& points, const std::vector<coder_way>& ways);

// Of the standard extent and of the quick one: where the axes cross.
uint64_t default_size(selection::extent how_much, place where) noexcept;

}  // namespace tuck::bench
