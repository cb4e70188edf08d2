// Has streams of zlib's inflated, all in one launch: inflate_batch [--on host|device] [DIRECTORY of .npy files].
//
// The streams are raw DEFLATE of several kinds; some have bytes behind their end, and the last one is cut short.
#include "support/files.hpp"
#include "support/npy.hpp"
#include "support/on_device.cuh"

#include <tuck/host.hpp>

#include <zlib.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

namespace {

using byte_vector = std::vector<std::byte>;
using tuck::tools::require;

struct sample {
  std::string name;
  tuck::const_bytes original;
  uint64_t compressed;  // bytes of its stream, without those behind the end
  uint64_t stream_bytes;
  tuck::status expected = tuck::status::ok;
};

struct batch {
  std::vector<tuck::tools::npy_file> files;
  std::vector<sample> samples;
  byte_vector streams;  // one behind the other
  uint64_t output_bytes = 0;

  void add(const sample& s, const byte_vector& stream) {
    samples.push_back(s);
    streams.insert(streams.end(), stream.begin(), stream.end());
    output_bytes += s.original.size();
  }
  // For streams and outputs that lie there, on the host or on the device.
  std::vector<tuck::inflate_item> items(const std::byte* stream, std::byte* output) const {
    std::vector<tuck::inflate_item> all;
    for (const sample& s : samples) {
      all.push_back({{stream, s.stream_bytes}, {output, s.original.size()}});
      stream += s.stream_bytes;
      output += s.original.size();
    }
    return all;
  }
};

byte_vector deflated(tuck::const_bytes data, int level, int strategy) {
  z_stream z{};
  if (deflateInit2(&z, level, Z_DEFLATED, -15, 8, strategy) != Z_OK) throw std::bad_alloc();
  byte_vector out(deflateBound(&z, data.size()));
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
  z.avail_in = static_cast<uInt>(data.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

batch make_batch(const std::string& directory) {
  constexpr struct {
    int level, strategy;
  } kinds[] = {{6, Z_DEFAULT_STRATEGY}, {1, Z_DEFAULT_STRATEGY}, {6, Z_FIXED}, {0, Z_DEFAULT_STRATEGY}, {6, Z_RLE}};
  batch b;
  for (const auto& path : tuck::tools::npy_files(directory)) {
    b.files.push_back(tuck::tools::read_npy(path.string()));
    const size_t i = b.samples.size();
    const auto original = b.files.back().data();
    byte_vector stream = deflated(original, kinds[i % std::size(kinds)].level, kinds[i % std::size(kinds)].strategy);
    const uint64_t compressed = stream.size();
    stream.resize(compressed + 50 * (i % 3), std::byte{0xff});
    b.add({tuck::tools::printable(path.stem().string()), original, compressed, stream.size()}, stream);
  }
  sample cut = b.samples.front();
  cut.name += " (half)";
  cut.compressed = cut.stream_bytes = cut.compressed / 2;
  cut.expected = tuck::status::deflate_ends_early;
  b.add(cut, {b.streams.begin(), b.streams.begin() + static_cast<std::ptrdiff_t>(cut.stream_bytes)});
  return b;
}

void inflate_on_host(const batch& b, byte_vector& output, std::vector<tuck::inflate_result>& results) {
  const auto items = b.items(b.streams.data(), output.data());
  for (size_t i = 0; i < items.size(); ++i) results[i] = tuck::inflate(items[i].stream, items[i].out);
}

void inflate_on_device(const batch& b, byte_vector& output, std::vector<tuck::inflate_result>& results) {
  const tuck::span<tuck::inflate_result> to(results);
  const tuck::tools::device_memory d_streams(b.streams.size()), d_output(output.size()), d_results(to.size_bytes());
  const auto items = b.items(d_streams.all().data(), d_output.all().data());
  const tuck::span<const tuck::inflate_item> from(items);
  const tuck::tools::device_memory d_items(from.size_bytes());

  cudaStream_t stream;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  d_streams.upload(b.streams, stream);
  d_items.upload(tuck::as_bytes(from), stream);
  require(tuck::inflate_batch({reinterpret_cast<const tuck::inflate_item*>(d_items.all().data()), from.size()},
                              {reinterpret_cast<tuck::inflate_result*>(d_results.all().data()), to.size()}, stream));
  d_results.download(tuck::as_writable_bytes(to), stream);  // waits
  d_output.download(output, stream);
  require(cudaStreamDestroy(stream));
}

// A line for each stream; returns how many were not inflated as they should be.
int report(const batch& b, const byte_vector& output, const std::vector<tuck::inflate_result>& results) {
  std::printf("%-32s %10s %9s %9s  %s\n", "stream", "compressed", "consumed", "produced", "status");
  int wrong = 0;
  const std::byte* restored = output.data();
  for (size_t i = 0; i < results.size(); ++i) {
    const sample& s = b.samples[i];
    const tuck::inflate_result& r = results[i];
    const bool whole = !r || (r.consumed == s.compressed && r.bytes == s.original.size());
    const bool right = r.code == s.expected && whole && std::memcmp(restored, s.original.data(), r.bytes) == 0;
    std::printf("%-32s %10llu %9llu %9llu  %s%s\n", s.name.c_str(), static_cast<unsigned long long>(s.compressed),
                static_cast<unsigned long long>(r.consumed), static_cast<unsigned long long>(r.bytes), message(r.code),
                right ? "" : " - WRONG");
    wrong += !right;
    restored += s.original.size();
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  std::string on = "device", directory = TUCK_EXAMPLE_DATA;
  CLI::App app("Inflates streams of zlib's and compares with what was deflated", "inflate_batch");
  app.add_option("--on", on, "Where to inflate: host or device")
      ->capture_default_str()
      ->check(CLI::IsMember({"host", "device"}));
  app.add_option("DIRECTORY", directory, "Of .npy files to deflate");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    const batch b = make_batch(directory);
    byte_vector output(b.output_bytes);
    std::vector<tuck::inflate_result> results(b.samples.size());
    (on == "host" ? inflate_on_host : inflate_on_device)(b, output, results);
    const int wrong = report(b, output, results);
    std::printf("%zu streams on the %s; %d wrong\n", results.size(), on.c_str(), wrong);
    if (std::fflush(stdout) != 0) throw std::runtime_error("standard output cannot be written");
    return wrong == 0 ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "inflate_batch: %s\n", e.what());
    return 1;
  }
}
