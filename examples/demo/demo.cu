// Encodes and decodes real activations on the host and on the device and shows what comes of it: tuck_demo [DIRECTORY].
#include "support/npy.hpp"
#include "support/on_device.cuh"

#include <tuck/host.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace {

using tuck::tools::device_session;
using tuck::tools::npy_file;

// What one codec makes of one tensor.
struct measurement {
  uint64_t frame_bytes = 0;
  double encode_seconds = 0;
  double decode_seconds = 0;
  double device_encode = 0;  // seconds on a GPU, bytes moved on the simulator
  double device_decode = 0;
};

// One tensor, or the total of all.
struct row {
  std::string name;
  std::string shape;
  uint64_t values = 0;
  uint64_t zeros = 0;
  uint64_t raw_bytes = 0;
  double formula_ratio = 0;
  double zvc_ratio = 0;
  measurement zvc;
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
template <tuck::codec C>
void measure_device(const C& codec, tuck::span<const tuck::value_t<C>> values, const std::vector<std::byte>& expected,
                    measurement& m) {
  device_session device;
  std::vector<std::byte> frame(tuck::max_frame_bytes(codec, values.size()));
  std::vector<tuck::value_t<C>> restored(values.size());
  const int runs = device_session::simulated ? 1 : 5;
  m.device_encode = m.device_decode = std::numeric_limits<double>::infinity();
  for (int run = 0; run < runs; ++run) {
    const tuck::outcome encoded = device.encode(codec, values, frame);
    if (!encoded) throw std::runtime_error(message(encoded.code));
    m.device_encode = std::min(m.device_encode, device.cost());
    if (encoded.bytes != expected.size() || std::memcmp(frame.data(), expected.data(), expected.size()) != 0)
      throw std::runtime_error("the device's frame is not the host's");
    const tuck::outcome decoded = device.decode(codec, expected, restored);
    if (!decoded) throw std::runtime_error(message(decoded.code));
    m.device_decode = std::min(m.device_decode, device.cost());
    if (std::memcmp(restored.data(), values.data(), values.size_bytes()) != 0)
      throw std::runtime_error("the values that the device decoded differ");
  }
}

// Encodes, decodes and compares every byte. Throws where they differ.
template <tuck::codec C> measurement measure(const C& codec, tuck::span<const tuck::value_t<C>> values) {
  const tuck::host::execution one_thread{.threads = 1};
  std::vector<std::byte> frame(tuck::max_frame_bytes(codec, values.size()));
  tuck::outcome encoded;
  tuck::outcome decoded;

  const double encode_seconds =
      best_seconds([&] { encoded = tuck::host::encode(codec, values, frame, {}, one_thread); });
  if (!encoded) throw std::runtime_error(message(encoded.code));
  frame.resize(encoded.bytes);

  std::vector<tuck::value_t<C>> restored(values.size());
  const double decode_seconds =
      best_seconds([&] { decoded = tuck::host::decode(codec, frame, restored, 0, one_thread); });
  if (!decoded) throw std::runtime_error(message(decoded.code));
  if (!values.empty() && std::memcmp(restored.data(), values.data(), values.size_bytes()) != 0)
    throw std::runtime_error("the decoded values differ");
  measurement m{encoded.bytes, encode_seconds, decode_seconds};
  measure_device(codec, values, frame, m);
  return m;
}

// A codec more is a measurement more here and in `row`, and its columns below.
template <tuck::element T> void measure_all(row& r, tuck::span<const T> values) {
  r.zeros = static_cast<uint64_t>(
      std::count_if(values.begin(), values.end(), [](T value) { return tuck::bits_of(value) == 0; }));
  const uint64_t masks = tuck::ceil_div<uint64_t>(r.values, 32);
  r.formula_ratio = ratio(r.raw_bytes, 4 * masks + sizeof(T) * (r.values - r.zeros));
  r.zvc = measure(tuck::zvc<T>{}, values);
  r.zvc_ratio = ratio(r.raw_bytes, r.zvc.frame_bytes);
}

template <tuck::element T> void measure_as(row& r, const npy_file& file) {
  measure_all<T>(r, {reinterpret_cast<const T*>(file.data().data()), r.values});
}

row measure_file(const std::filesystem::path& path) {
  const npy_file file = tuck::tools::read_npy(path.string());
  row r;
  r.name = path.stem().string();
  r.shape = tuck::tools::shape_text(file.header.shape);
  r.values = file.header.values;
  r.raw_bytes = file.data().size();
  if (r.values == 0) throw std::runtime_error("no values to measure");
  switch (file.header.type) {
    case tuck::dtype::u8: measure_as<uint8_t>(r, file); break;
    case tuck::dtype::i8: measure_as<int8_t>(r, file); break;
    case tuck::dtype::u16: measure_as<uint16_t>(r, file); break;
    case tuck::dtype::i16: measure_as<int16_t>(r, file); break;
    case tuck::dtype::u32: measure_as<uint32_t>(r, file); break;
    case tuck::dtype::i32: measure_as<int32_t>(r, file); break;
    case tuck::dtype::u64: measure_as<uint64_t>(r, file); break;
    case tuck::dtype::i64: measure_as<int64_t>(r, file); break;
    case tuck::dtype::f16: measure_as<tuck::f16>(r, file); break;
    case tuck::dtype::f32: measure_as<float>(r, file); break;
    case tuck::dtype::f64: measure_as<double>(r, file); break;
    case tuck::dtype::bf16:  // .npy files have none
    case tuck::dtype::none: break;
  }
  return r;
}

// Bytes and seconds add up; of ratios it is the geometric mean, in which no tensor weighs more than another.
row total_of(const std::vector<row>& rows) {
  row total;
  total.name = "total; geometric mean";
  double log_formula = 0;
  double log_zvc = 0;
  for (const row& r : rows) {
    total.values += r.values;
    total.zeros += r.zeros;
    total.raw_bytes += r.raw_bytes;
    total.zvc.frame_bytes += r.zvc.frame_bytes;
    total.zvc.encode_seconds += r.zvc.encode_seconds;
    total.zvc.decode_seconds += r.zvc.decode_seconds;
    total.zvc.device_encode += r.zvc.device_encode;
    total.zvc.device_decode += r.zvc.device_decode;
    log_formula += std::log(r.formula_ratio);
    log_zvc += std::log(r.zvc_ratio);
  }
  total.formula_ratio = std::exp(log_formula / static_cast<double>(rows.size()));
  total.zvc_ratio = std::exp(log_zvc / static_cast<double>(rows.size()));
  return total;
}

std::string fixed(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string speed(uint64_t bytes, double seconds) { return fixed(static_cast<double>(bytes) / seconds / 1e9, 2); }

// A GPU's speed; the simulator's bytes moved for each byte of the tensor.
std::string device_text(uint64_t bytes, double cost) {
  return device_session::simulated ? fixed(cost / static_cast<double>(bytes), 2) : speed(bytes, cost);
}

struct column {
  const char* title;
  const char* subtitle;
  std::function<std::string(const row&)> text;
};

const std::vector<column>& columns() {
  static const std::vector<column> all = {
      {"tensor", "", [](const row& r) { return r.name; }},
      {"shape", "", [](const row& r) { return r.shape; }},
      {"zeros", "%", [](const row& r) { return fixed(100 * ratio(r.zeros, r.values), 1); }},
      {"raw", "bytes", [](const row& r) { return std::to_string(r.raw_bytes); }},
      {"zvc", "bytes", [](const row& r) { return std::to_string(r.zvc.frame_bytes); }},
      {"ratio", "", [](const row& r) { return fixed(r.zvc_ratio, 2); }},
      {"cDMA", "ratio", [](const row& r) { return fixed(r.formula_ratio, 2); }},
      {"enc", "GB/s", [](const row& r) { return speed(r.raw_bytes, r.zvc.encode_seconds); }},
      {"dec", "GB/s", [](const row& r) { return speed(r.raw_bytes, r.zvc.decode_seconds); }},
      {"dev", "enc", [](const row& r) { return device_text(r.raw_bytes, r.zvc.device_encode); }},
      {"dev", "dec", [](const row& r) { return device_text(r.raw_bytes, r.zvc.device_decode); }},
  };
  return all;
}

// One text a column; a column is as wide as its widest text. The first two stand left, numbers right.
using line = std::vector<std::string>;

void print_aligned(const std::vector<line>& lines) {
  constexpr size_t left_aligned = 2;
  std::vector<int> widths(columns().size());
  for (const line& l : lines)
    for (size_t c = 0; c < l.size(); ++c) widths[c] = std::max(widths[c], static_cast<int>(l[c].size()));
  for (const line& l : lines) {
    std::string text;
    for (size_t c = 0; c < l.size(); ++c) {
      const std::string space(static_cast<size_t>(widths[c]) - l[c].size(), ' ');
      text += (c == 0 ? "" : "  ") + (c < left_aligned ? l[c] + space : space + l[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    std::printf("%s\n", text.c_str());
  }
}

void print_table(const std::vector<row>& rows) {
  std::vector<line> lines(2);
  for (const column& c : columns()) {
    lines[0].emplace_back(c.title);
    lines[1].emplace_back(c.subtitle);
  }
  const auto add = [&](const row& r) {
    line& l = lines.emplace_back();
    for (const column& c : columns()) l.push_back(c.text(r));
  };
  for (const row& r : rows) add(r);
  lines.emplace_back();
  add(total_of(rows));
  print_aligned(lines);
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
  std::printf("Each tensor becomes a frame and comes back, on one host thread in cache and on the device;\n");
  std::printf("every byte is compared. 'cDMA' is its formula for this many zeros; frames add a directory, and save\n");
  std::printf("on chunks that are all zero. %s\n\n",
              device_session::simulated ? "'dev' is the simulator: bytes moved for each byte of the tensor."
                                        : "'dev' is the GPU: GB/s, launch included, best of five.");
  print_table(rows);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) {
    std::fprintf(stderr, "usage: tuck_demo [DIRECTORY]\n");
    return 2;
  }
  try {
    run(argc == 2 ? argv[1] : TUCK_DEMO_DATA);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tuck_demo: %s\n", e.what());
    return 1;
  }
}
