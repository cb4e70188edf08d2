// Measures how small tuck's codecs and other libraries make the tensors of a folder: bench_ratio DIRECTORY. Prints a
// line for each tensor and coder, with tabs between the fields. ratios.py makes tables of them.
#include "bench/support/tuck_coder.hpp"

#include "named_tensor.hpp"

#include <tuck/core/version.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace tuck::bench;
using tuck::bytes, tuck::const_bytes, tuck::dtype;

constexpr double range_bounds[] = {1e-2, 1e-3, 1e-4};
constexpr double least_zeros_of_sparse = .05;

std::string version_of_tuck() {
  return "tuck " + std::to_string(tuck::version_major) + "." + std::to_string(tuck::version_minor) + "." +
         std::to_string(tuck::version_patch);
}

// A line of the output: all but the coder.
struct subject {
  std::string group;
  std::string tensor;
  std::string base;  // of a delta
  dtype type;
  double zeros;  // share of values; of a delta, of those that do not change
  uint64_t raw_bytes;

  void print(const std::string& coder, const std::string& library, double bound, uint64_t encoded_bytes) const {
    std::printf("%s\t%s\t%s\t%s\t%.6f\t%llu\t%s\t%s\t%g\t%llu\n", group.c_str(), tensor.c_str(), base.c_str(),
                name(type), zeros, static_cast<unsigned long long>(raw_bytes), coder.c_str(), library.c_str(), bound,
                static_cast<unsigned long long>(encoded_bytes));
    std::fflush(stdout);
  }
};

coder_request request_for(const named_tensor& t, double tolerance = 0) {
  const std::vector<uint64_t>& shape = t.file.header.shape;
  const uint64_t raw_bytes = t.file.data().size();
  return {t.type, raw_bytes, std::min<uint64_t>(raw_bytes, 1 << 30), tolerance, shape.empty() ? 1 : shape.back()};
}

// Bytes of the encoded values, which are decoded and compared.
uint64_t lossless_bytes(coder& made, const_bytes values) {
  const uint64_t encoded = made.encode(values);
  std::vector<std::byte> restored(values.size());
  made.decode(restored);
  if (std::memcmp(restored.data(), values.data(), values.size()) != 0)
    throw std::runtime_error("the decoded values differ");
  return encoded;
}

void measure_lossless(const subject& of, const named_tensor& t, const named_tensor* base) {
  const const_bytes values = t.file.data(), old = base == nullptr ? const_bytes{} : base->file.data();
  const uint32_t row = tuck::tools::row_length(t.file.header.shape, t.file.header.fortran_order);
  for (const std::string& codec : tuck::tools::codec_names()) {
    if (tuck::tools::is_lossy(codec) || tuck::tools::choose_codec({codec}, t.type) == nullptr) continue;
    tuck_coder made({.name = codec, .row = row}, request_for(t), 0, base == nullptr ? nullptr : &old);
    of.print(codec, version_of_tuck(), 0, lossless_bytes(made, values));
  }
  // Peers have no deltas: they get what tuck's codecs get.
  std::vector<std::byte> given(values.begin(), values.end());
  for (size_t i = 0; i < old.size(); ++i) given[i] ^= old[i];
  for (const peer& p : host_peers())
    if (!p.lossy && p.takes(t.type)) of.print(p.name, p.library, 0, lossless_bytes(*p.make(request_for(t)), given));
}

// Encoded bytes and the largest error.
struct lossy_result {
  uint64_t encoded;
  double error;
};

lossy_result code_lossy(coder& made, tuck::span<const float> values) {
  const uint64_t encoded = made.encode(tuck::as_bytes(values));
  std::vector<float> restored(values.size());
  made.decode(tuck::as_writable_bytes(tuck::span<float>(restored)));
  double error = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double apart = std::abs(static_cast<double>(values[i]) - static_cast<double>(restored[i]));
    error = apart <= error ? error : std::isnan(apart) ? HUGE_VAL : apart;
  }
  return {encoded, error};
}

// zfp takes the power of two below a tolerance, and its errors are far less: from above the bound down, the first that
// keeps the bound. Nothing if there is none.
std::optional<uint64_t> bytes_of_peer(const peer& p, const named_tensor& t, tuck::span<const float> values,
                                      double bound) {
  const int power = std::ilogb(bound);
  for (int more = 8; more >= -8; --more) {
    const lossy_result found = code_lossy(*p.make(request_for(t, std::ldexp(1., power + more))), values);
    if (found.error <= bound) return found.encoded;
  }
  return {};
}

void measure_lossy(const subject& of, const named_tensor& t) {
  const tuck::span<const float> values(reinterpret_cast<const float*>(t.file.data().data()), t.file.header.values);
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  const double range = static_cast<double>(*greatest) - static_cast<double>(*least);
  for (const double share : range_bounds) {
    for (const std::string& codec : tuck::tools::codec_names()) {
      if (!tuck::tools::is_lossy(codec)) continue;
      tuck_coder made({codec, tuck::error_bound::range_relative(share)}, request_for(t), 0);
      const lossy_result found = code_lossy(made, values);
      tuck::frame_header header;
      if (inspect(made.frame(), header) != tuck::status::ok ||
          !(found.error <= tuck::tools::bound_of(header.stages)->effective))
        throw std::runtime_error(codec + ": a value exceeds the bound");
      of.print(codec, version_of_tuck(), share, found.encoded);
    }
    for (const peer& p : host_peers())
      if (p.lossy)
        if (const auto encoded = bytes_of_peer(p, t, values, share * range))
          of.print(p.name, p.library, share, *encoded);
  }
}

// Whether a bound relative to the range makes sense.
bool has_range(const named_tensor& t) {
  if (t.type != dtype::f32) return false;
  const tuck::span<const float> values(reinterpret_cast<const float*>(t.file.data().data()), t.file.header.values);
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }) &&
         std::any_of(values.begin(), values.end(), [&](float value) { return value != values[0]; });
}

void measure_tensor(const named_tensor& t) {
  const double zeros = share_of_zeros(t.file.data(), t.type);
  const std::string group = t.kind + " " + tuck::name(t.type) + (zeros >= least_zeros_of_sparse ? ", sparse" : "");
  const subject of{group, t.name, "", t.type, zeros, t.file.data().size()};
  measure_lossless(of, t, nullptr);
  if (has_range(t)) measure_lossy(of, t);
}

void measure_delta(const named_tensor& base, const named_tensor& t) {
  if (t.type != base.type || t.file.header.shape != base.file.header.shape)
    throw std::runtime_error("it has another type or shape than the first step, " + base.name);
  uint64_t same = 0;
  const uint32_t size = size_of(t.type);
  const const_bytes values = t.file.data(), old = base.file.data();
  for (uint64_t at = 0; at < values.size(); at += size) same += std::memcmp(&values[at], &old[at], size) == 0;
  const uint64_t steps = t.step - base.step;
  measure_lossless(
      {"delta of " + t.series + ", " + std::to_string(steps) + (steps == 1 ? " step" : " steps"), t.name, base.name,
       t.type, static_cast<double>(same * size) / static_cast<double>(values.size()), values.size()},
      t, &base);
}

void leave_out(const std::exception& e) { std::fprintf(stderr, "bench_ratio: left out: %s\n", e.what()); }

void leave_out(const named_tensor& t, const std::string& reason) {
  leave_out(tuck::tools::file_error(t.name + ".npy", reason));
}

// Those of a series are next to each other, the first step first.
void measure_deltas(std::vector<named_tensor>& all) {
  const auto order = [](const named_tensor& t) { return std::pair(t.series, t.step); };
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
  for (auto first = all.begin(), end = first; first != all.end(); first = end) {
    end = std::find_if(first, all.end(), [&](const named_tensor& t) { return t.series != first->series; });
    if (end - first == 1) leave_out(*first, "there is no other step of its series");
    for (auto t = first + 1; t < end; ++t) {
      try {
        measure_delta(*first, *t);
      } catch (const std::exception& e) {
        leave_out(*t, e.what());
      }
    }
  }
}

void run(const std::string& directory) {
  std::printf("group\ttensor\tbase\ttype\tzeros\traw_bytes\tcoder\tlibrary\tbound\tencoded_bytes\n");
  std::vector<named_tensor> of_series;
  bool any = false;
  for (const std::filesystem::path& path : tuck::tools::npy_files(directory)) {
    std::optional<named_tensor> t;
    try {
      t = read_tensor(path);
    } catch (const tuck::tools::file_error& e) {
      leave_out(e);
      continue;
    }
    any = true;
    if (t->series.empty())
      measure_tensor(*t);
    else
      of_series.push_back(std::move(*t));
  }
  if (!any) throw tuck::tools::file_error(directory, "there are no tensors to measure");
  measure_deltas(of_series);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: bench_ratio DIRECTORY\n");
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_ratio: %s\n", e.what());
    return 1;
  }
}
