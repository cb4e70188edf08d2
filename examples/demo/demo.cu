// Encodes and decodes real activations on the host and on the device and shows what comes of it: tuck_demo [DIRECTORY].
#include "support/files.hpp"
#include "support/npy.hpp"
#include "tuck/codecs.hpp"
#include "tuck/device_codecs.cuh"

#include <tuck/host.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace {

using tuck::tools::device_session;
using tuck::tools::npy_file;

// What one codec makes of one tensor.
struct measurement {
  bool measured = false;  // the codec takes the tensor's type
  uint64_t frame_bytes = 0;
  double encode_seconds = 0;
  double decode_seconds = 0;
  double device_encode = 0;  // seconds on a GPU, bytes moved on the simulator
  double device_decode = 0;
  double error_of_bound = 0;  // the largest, as a share of the bound; lossless codecs have none
};

constexpr double range_bound = 1e-3;
constexpr const char* codec_names[] = {
    "zvc", "rle", "deflate", "zvc+rle+huffman", "quantize", "quantize+delta+zvc+huffman"};
constexpr const char* short_names[] = {"zvc", "rle", "deflate", "chain", "quantize", "chain"};
constexpr size_t codecs = std::size(codec_names);

struct row {
  std::string name;
  std::string shape;
  uint64_t values = 0;
  uint64_t zeros = 0;
  uint64_t raw_bytes = 0;
  double formula_ratio = 0;  // cDMA's
  measurement of[codecs];
};

double ratio(uint64_t raw_bytes, uint64_t bytes) { return static_cast<double>(raw_bytes) / static_cast<double>(bytes); }

// The least of many runs, which nothing has disturbed.
template <class Work> double best_seconds(const Work& work) {
  constexpr auto budget = std::chrono::milliseconds(40);
  constexpr int least_runs = 5;
  using clock = std::chrono::steady_clock;
  std::chrono::duration<double> best = std::chrono::hours(1);
  const auto end = clock::now() + budget;
  for (int runs = 0; runs < least_runs || clock::now() < end; ++runs) {
    const auto begin = clock::now();
    work();
    best = std::min<std::chrono::duration<double>>(best, clock::now() - begin);
  }
  return best.count();
}

// Encodes and decodes on the device and compares every byte with the host's. Throws where they differ.
void measure_device(const tuck::tools::chosen_device_codec& codec, tuck::const_bytes values, uint64_t count,
                    const std::vector<std::byte>& expected, const std::vector<std::byte>& decoded_by_host,
                    measurement& m) {
  device_session device;
  std::vector<std::byte> frame(codec.max_frame_bytes(count)), restored(values.size());
  const int runs = tuck::tools::simulated ? 1 : 5;
  m.device_encode = m.device_decode = std::numeric_limits<double>::infinity();
  for (int run = 0; run < runs; ++run) {
    const tuck::outcome encoded = device.encode(codec, values, count, frame);
    if (!encoded) throw std::runtime_error(message(encoded.code));
    m.device_encode = std::min(m.device_encode, device.cost());
    if (encoded.bytes != expected.size() || std::memcmp(frame.data(), expected.data(), expected.size()) != 0)
      throw std::runtime_error("the device's frame is not the host's");
    const tuck::outcome decoded = device.decode(codec, expected, restored);
    if (!decoded) throw std::runtime_error(message(decoded.code));
    m.device_decode = std::min(m.device_decode, device.cost());
    if (restored != decoded_by_host) throw std::runtime_error("the values that the device decoded are not the host's");
  }
}

template <tuck::floating_element T>
double largest_error(tuck::const_bytes values, tuck::const_bytes restored, double bound) {
  using format = tuck::float_format<T>;
  using bits = tuck::bits_t<T>;
  double largest = 0;
  for (uint64_t at = 0; at < values.size(); at += sizeof(T)) {
    bits from, to;
    std::memcpy(&from, values.data() + at, sizeof(T));
    std::memcpy(&to, restored.data() + at, sizeof(T));
    if (from == to) continue;
    const double error = static_cast<double>(format::widen(from)) - static_cast<double>(format::widen(to));
    if (!(std::abs(error) <= bound)) throw std::runtime_error("a value exceeds the bound");
    largest = std::max(largest, std::abs(error) / bound);
  }
  return largest;
}

// The largest error of values that came back, as a share of the bound that the frame says. Throws where they should be
// the same and are not, or are further off than the bound.
double error_of_bound(tuck::const_bytes values, const std::vector<std::byte>& restored,
                      const std::vector<std::byte>& frame) {
  tuck::frame_header header;
  if (inspect(frame, header) != tuck::status::ok) throw std::runtime_error("the frame is damaged");
  if (const auto bound = tuck::tools::bound_of(header.stages)) {
    switch (header.type) {
      case tuck::dtype::f16: return largest_error<tuck::f16>(values, restored, bound->effective);
      case tuck::dtype::f32: return largest_error<float>(values, restored, bound->effective);
      case tuck::dtype::f64: return largest_error<double>(values, restored, bound->effective);
      default: throw std::runtime_error("quantized integers");
    }
  }
  if (std::memcmp(restored.data(), values.data(), values.size()) != 0)
    throw std::runtime_error("the decoded values differ");
  return 0;
}

// Encodes and decodes on the host and on the device, and compares every byte.
measurement measure(const char* name, tuck::dtype type, tuck::const_bytes values) {
  const tuck::tools::codec_choice choice{name, tuck::error_bound::range_relative(range_bound)};
  const auto codec = tuck::tools::choose_codec(choice, type);
  if (codec == nullptr) return {};
  const uint64_t count = values.size() / size_of(type);
  const tuck::host::execution one_thread{.threads = 1};
  std::vector<std::byte> frame(codec->plan(count, {}).most_bytes), restored(values.size());
  tuck::outcome encoded;
  tuck::outcome decoded;

  measurement m{.measured = true};
  m.encode_seconds = best_seconds([&] { encoded = codec->encode(values, frame, {}, one_thread); });
  if (!encoded) throw std::runtime_error(message(encoded.code));
  frame.resize(encoded.bytes);
  m.frame_bytes = encoded.bytes;

  m.decode_seconds = best_seconds([&] { decoded = codec->decode(frame, restored, 0, one_thread); });
  if (!decoded) throw std::runtime_error(message(decoded.code));
  m.error_of_bound = error_of_bound(values, restored, frame);
  measure_device(*tuck::tools::choose_device_codec(choice, type), values, count, frame, restored, m);
  return m;
}

// How many values have no bit set.
uint64_t zeros_of(tuck::const_bytes values, uint32_t value_bytes) {
  const std::byte zero[8] = {};
  uint64_t zeros = 0;
  for (uint64_t at = 0; at < values.size(); at += value_bytes)
    zeros += std::memcmp(values.data() + at, zero, value_bytes) == 0;
  return zeros;
}

row measure_file(const std::filesystem::path& path) {
  const npy_file file = tuck::tools::read_npy(path.string());
  const uint32_t value_bytes = size_of(file.header.type);
  row r;
  r.name = tuck::tools::printable(path.stem().string());
  r.shape = tuck::tools::shape_text(file.header.shape);
  r.values = file.header.values;
  r.raw_bytes = file.data().size();
  if (r.values == 0) throw std::runtime_error("no values to measure");
  r.zeros = zeros_of(file.data(), value_bytes);
  r.formula_ratio = ratio(r.raw_bytes, 4 * tuck::ceil_div<uint64_t>(r.values, 32) + value_bytes * (r.values - r.zeros));
  for (size_t c = 0; c < codecs; ++c) r.of[c] = measure(codec_names[c], file.header.type, file.data());
  return r;
}

std::string fixed(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string speed(uint64_t bytes, double seconds) { return fixed(static_cast<double>(bytes) / seconds / 1e9, 2); }

// A GPU's speed; the simulator's bytes moved for each byte of the tensor.
std::string device_text(uint64_t bytes, double cost) {
  return tuck::tools::simulated ? fixed(cost / static_cast<double>(bytes), 2) : speed(bytes, cost);
}

// One text a column; a column is as wide as its widest text. The first `left` stand left, numbers right.
using line = std::vector<std::string>;

void print_aligned(const std::vector<line>& lines, size_t left) {
  std::vector<int> widths(lines[0].size());
  for (const line& l : lines)
    for (size_t c = 0; c < l.size(); ++c) widths[c] = std::max(widths[c], static_cast<int>(l[c].size()));
  for (const line& l : lines) {
    std::string text;
    for (size_t c = 0; c < l.size(); ++c) {
      const std::string space(static_cast<size_t>(widths[c]) - l[c].size(), ' ');
      text += (c == 0 ? "" : "  ") + (c < left ? l[c] + space : space + l[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    std::printf("%s\n", text.c_str());
  }
}

// In which no tensor weighs more than another.
class geometric_mean {
 public:
  void add(double x) {
    logs_ += std::log(x);
    ++count_;
  }
  std::string text() const { return count_ == 0 ? "-" : fixed(std::exp(logs_ / count_), 2); }

 private:
  double logs_ = 0, count_ = 0;
};

// A line a tensor: how much smaller its frames are.
void print_tensors(const std::vector<row>& rows) {
  std::vector<line> lines{{"tensor", "shape", "zeros", "cDMA's"}, {"", "", "%", "formula"}};
  for (const char* name : short_names) {
    lines[0].emplace_back(name);
    lines[1].emplace_back("ratio");
  }
  geometric_mean formula, ratios[codecs];
  const auto text = [](const measurement& m, double value, int digits) {
    return m.measured ? fixed(value, digits) : "-";
  };
  for (const row& r : rows) {
    line& l =
        lines.emplace_back(line{r.name, r.shape, fixed(100 * ratio(r.zeros, r.values), 1), fixed(r.formula_ratio, 2)});
    formula.add(r.formula_ratio);
    for (size_t c = 0; c < codecs; ++c) {
      const double shrinks = ratio(r.raw_bytes, r.of[c].frame_bytes);
      l.push_back(text(r.of[c], shrinks, 2));
      if (r.of[c].measured) ratios[c].add(shrinks);
    }
  }
  lines.emplace_back();
  line& l = lines.emplace_back(line{"geometric mean", "", "", formula.text()});
  for (const geometric_mean& mean : ratios) l.push_back(mean.text());
  print_aligned(lines, 2);
}

// A line a codec: all tensors together.
void print_codecs(const std::vector<row>& rows) {
  std::vector<line> lines{{"all tensors", "raw", "frames", "host", "host", "device", "device", "error"},
                          {"", "bytes", "bytes", "encode", "decode", "encode", "decode", "of bound"}};
  for (size_t c = 0; c < codecs; ++c) {
    uint64_t raw_bytes = 0;
    measurement sum;
    for (const row& r : rows) {
      if (!r.of[c].measured) continue;
      raw_bytes += r.raw_bytes;
      sum.frame_bytes += r.of[c].frame_bytes;
      sum.encode_seconds += r.of[c].encode_seconds;
      sum.decode_seconds += r.of[c].decode_seconds;
      sum.device_encode += r.of[c].device_encode;
      sum.device_decode += r.of[c].device_decode;
      sum.error_of_bound = std::max(sum.error_of_bound, r.of[c].error_of_bound);
    }
    if (raw_bytes == 0) continue;
    lines.push_back({codec_names[c], std::to_string(raw_bytes), std::to_string(sum.frame_bytes),
                     speed(raw_bytes, sum.encode_seconds), speed(raw_bytes, sum.decode_seconds),
                     device_text(raw_bytes, sum.device_encode), device_text(raw_bytes, sum.device_decode),
                     sum.error_of_bound == 0 ? "-" : fixed(sum.error_of_bound, 4)});
  }
  print_aligned(lines, 1);
}

void run(const std::string& directory) {
  std::vector<row> rows;
  for (const auto& path : tuck::tools::npy_files(directory)) {
    try {
      rows.push_back(measure_file(path));
    } catch (const tuck::tools::file_error&) {
      throw;
    } catch (const std::exception& e) {
      throw tuck::tools::file_error(path.string(), e.what());
    }
  }
  std::printf("Each tensor becomes a frame and comes back, on the host and on the device; every byte is compared.\n");
  std::printf("quantize keeps each value within %g of the tensor's range, the others every bit.\n", range_bound);
  std::printf("chain: %s, and behind quantize %s.\n\n", codec_names[3], codec_names[5]);
  print_tensors(rows);
  std::printf("\nhost: GB/s of one thread, in cache\ndevice: %s\n\n",
              tuck::tools::simulated ? "the simulator, which has no speed: bytes moved for each byte of the tensor"
                                     : "GB/s of the GPU, launch included, best of five");
  print_codecs(rows);
}

}  // namespace

int main(int argc, char** argv) {
  const bool asks = argc == 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0);
  if (argc > 2 || asks) {
    std::fprintf(asks ? stdout : stderr, "usage: tuck_demo [DIRECTORY of .npy files]\n");
    return asks ? 0 : 2;
  }
  try {
    run(argc == 2 ? argv[1] : TUCK_DEMO_DATA);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tuck_demo: %s\n", e.what());
    return 1;
  }
}
