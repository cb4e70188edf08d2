// make_corpus FOLDER: the seeds from which the fuzzers start - small tensors by every codec, as frames, as chunks and
// as tensors, DEFLATE streams of zlib's, and files.
#include "fuzz/fuzz.hpp"

#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace tuck;
using namespace tuck::fuzz;

namespace {

constexpr uint32_t tile_bytes = 16 * 1024;  // a chunk for any block codec
constexpr uint32_t longest = 4000;          // of what the tests let fuzzers try

void write(const std::filesystem::path& path, const std::string& prefix, const void* data, size_t size) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(prefix.data(), static_cast<std::streamsize>(prefix.size()));
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  require(bool(file.flush()), path.c_str());
}

// Runs, zeros and values that hardly differ: something for each codec.
template <class T> std::vector<T> values(size_t count) {
  std::vector<T> all(count);
  uint64_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const auto small = static_cast<bits_t<T>>(state >> 60);
    const auto zero = i / 40 % 2 == 0 && state >> 40 & 3;
    if constexpr (floating_element<T>) {
      using format = float_format<T>;
      const auto real = 1 + static_cast<typename format::real>(small) / 8;
      all[i] = __builtin_bit_cast(T, zero ? bits_t<T>{0} : format::narrow(real));
    } else {
      all[i] = zero ? T{0} : static_cast<T>(small);
    }
  }
  return all;
}

void make_streams(const std::filesystem::path& folder) {
  const auto text = values<uint8_t>(600);
  for (const int strategy : {Z_DEFAULT_STRATEGY, Z_RLE, Z_HUFFMAN_ONLY, Z_FIXED})
    for (const int level : {0, 6}) {
      std::vector<Bytef> out(1000);
      z_stream z{};
      require(deflateInit2(&z, level, Z_DEFLATED, -15, 8, strategy) == Z_OK, "zlib starts");
      z.next_in = const_cast<Bytef*>(text.data());
      z.avail_in = static_cast<uInt>(text.size());
      z.next_out = out.data();
      z.avail_out = static_cast<uInt>(out.size());
      require(::deflate(&z, Z_FINISH) == Z_STREAM_END, "zlib ends");
      write(folder / ("zlib-" + std::to_string(strategy) + "-" + std::to_string(level)), {'\x58', '\x02'}, out.data(),
            z.total_out);
      deflateEnd(&z);
    }
}

// Against the base that delta_fuzz has.
template <codec C> void make_delta(const std::filesystem::path& path, const C& codec, std::vector<value_t<C>> all) {
  if (!takes_deltas<C>) return;
  using T = value_t<C>;
  const auto base = delta_base(all.size() * sizeof(T));
  for (size_t i = 0; i < all.size(); ++i)
    if (i % 9 != 0) std::memcpy(&all[i], base.data() + i * sizeof(T), sizeof(T));
  const frame_options options{.chunk_values = 64};
  std::vector<std::byte> frame(max_delta_bytes(codec, all.size(), options));
  const span<const T> against(reinterpret_cast<const T*>(base.data()), all.size());
  const outcome done = host::encode_delta(codec, span<const T>(all), against, frame, options);
  require(bool(done), "a seed is encoded");
  write(path, "", frame.data(), done.bytes);
}

template <codec C>
void make_chunk(const std::filesystem::path& path, size_t number, const C& codec, const std::vector<value_t<C>>& all) {
  std::vector<std::byte> room(1 << 17);
  const uint32_t used = codec.encode_chunk(span<const value_t<C>>(all), room);
  if (used == incompressible || used > longest) return;
  const size_t count = all.size() - 1;  // the fuzzers add the one
  const std::string head{static_cast<char>(number), static_cast<char>(count), static_cast<char>(count >> 8), 0};
  write(path, head, room.data(), used);
}

// The .npy files of NumPy's: a tensor, a scalar, an array of nothing, one of an older form; and a frame of one.
void make_files(const std::filesystem::path& folder) {
  const auto file = [](std::string dict, char version, size_t value_bytes) {
    dict += '\n';
    std::string content = "\x93NUMPY";
    content += {version, 0, static_cast<char>(dict.size()), 0};
    if (version > 1) content += {0, 0};
    return content + dict + std::string(value_bytes, '\1');
  };
  const std::string tensor = file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 1, 24);
  const std::string others[] = {file("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", 1, 1),
                                file("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 9), }", 3, 0),
                                file("{\"shape\": (2L,), \"fortran_order\": False, \"descr\": \"<u2\"}", 2, 4),
                                file("{'descr': '<V2', 'fortran_order': True, 'shape': (2, 3), }", 1, 12)};
  write(folder / "npy-0", {0}, tensor.data(), tensor.size());
  for (int i = 1; const std::string& other : others)
    write(folder / ("npy-" + std::to_string(i++)), {0}, other.data(), other.size());

  const auto named = [&](const char* name, const std::string& header, size_t bytes) {
    const auto low = static_cast<char>(header.size()), high = static_cast<char>(header.size() >> 8);
    const std::string all = std::string{low, high, 0, 0, 0, 0, 0, 0} + header + std::string(bytes, '\1');
    write(folder / name, {3}, all.data(), all.size());
  };
  named("safetensors",
        R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"__metadata__":{"of":"b"},)"
        R"("b":{"dtype":"U8","shape":[],"data_offsets":[24,25]}} )",
        25);
  // Types that the library lacks, one unknown, and one whose frame is smaller than the tensor.
  named("safetensors-types",
        R"({"f":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]},"n":{"dtype":"NEXT","shape":[2],)"
        R"("data_offsets":[3,6]},"c":{"dtype":"C64","shape":[100],"data_offsets":[6,806]}})",
        806);

  std::vector<std::byte> frame(1 << 12);
  const const_bytes content(reinterpret_cast<const std::byte*>(tensor.data()), tensor.size());
  const std::vector<float> six(6);
  const outcome done = host::encode(zvc<float>{}, six, frame, {.metadata = content.subspan(0, content.size() - 24)});
  require(bool(done), "a seed is encoded");
  write(folder / "frame-of-npy", {2}, frame.data(), done.bytes);
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "usage: make_corpus FOLDER");
  const std::filesystem::path folder = argv[1];
  for (size_t number = 0; number < number_of(all_codecs{}); ++number)
    with_codec(all_codecs{}, number, error_bound::absolute(1e-2), [&]<class C>(const C& codec) {
      using T = value_t<C>;
      const auto tensor = values<T>(150);
      const std::string name = std::to_string(number);
      for (const bool checksums : {false, true}) {
        const frame_options options{.chunk_values = 64, .checksums = checksums};
        std::vector<std::byte> frame(max_frame_bytes(codec, tensor.size(), options));
        const outcome done = host::encode(codec, span<const T>(tensor), frame, options);
        require(bool(done), "a seed is encoded");
        write(folder / "frame" / (name + (checksums ? "-checked" : "")), "", frame.data(), done.bytes);
        if (checksums) write(folder / "files" / name, {2}, frame.data(), done.bytes);
      }
      make_delta(folder / "delta" / name, codec, tensor);
      make_chunk(folder / "chunk" / name, number, codec, tensor);
      // Work for all warps of a block.
      auto wide = values<T>(tile_bytes / sizeof(T));
      for (size_t i = 0; i < wide.size(); ++i)
        if (i % 1000 >= 50) wide[i] = T{};
      make_chunk(folder / "chunk" / (name + "-wide"), number, codec, wide);
      write(folder / "round_trip" / name, {static_cast<char>(number), '\x72', '\x81'}, tensor.data(),
            tensor.size() * sizeof(T));
    });
  make_streams(folder / "inflate");
  make_files(folder / "files");
}
