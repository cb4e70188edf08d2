// make_corpus FOLDER: writes seeds for the fuzzers. They are small tensors, and what each codec makes of them: frames,
// deltas and chunks. Then there are DEFLATE streams of zlib and files. minimize.py makes the corpus of them: it keeps
// all whose names have no dot, and of the others what reaches more code.
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

// Name of a codec in file names, such as zvc-huffman-f16.
template <codec C> std::string name_of(const C& codec) {
  std::string all;
  for (const stage& s : codec.stages().at)
    if (s.id != codec_id::none) all += std::string(name(s.id)) + '-';
  return all + name(dtype_of<value_t<C>>);
}

class random_numbers {
 public:
  uint64_t operator()() { return state_ = state_ * 6364136223846793005 + 1442695040888963407; }

 private:
  uint64_t state_ = 1;
};

// Tensors for what codecs choose between: zeros and runs; slopes; signs, of zeros too; and negative zeros.
enum class pattern { mixed, rising, signs, negative_zeros };

template <class T> std::vector<T> values(size_t count, pattern kind = pattern::mixed) {
  std::vector<T> all(count);
  random_numbers random;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t state = random();
    const auto small = static_cast<int>(state >> 60);
    const bool zero = kind != pattern::rising && i / 40 % 2 == 0 && (state >> 40 & 3) != 0;
    if constexpr (floating_element<T>) {
      using format = float_format<T>;
      using real = typename format::real;
      const real up = kind == pattern::rising ? static_cast<real>(i) : 0;
      const real sign = kind == pattern::signs && (state >> 50 & 1) != 0 ? -1 : 1;
      const bool negative = kind == pattern::negative_zeros || sign < 0;
      all[i] = __builtin_bit_cast(T, zero ? static_cast<bits_t<T>>(bits_t<T>{negative} << (8 * sizeof(T) - 1))
                                          : format::narrow(sign * (1 + up + static_cast<real>(small) / 8)));
    } else {
      const int up = kind == pattern::rising ? static_cast<int>(20 * i) : kind == pattern::signs ? -8 : 0;
      all[i] = zero ? T{0} : static_cast<T>(small + up);
    }
  }
  return all;
}

// Values that have moved from those of a base: most by nothing, others by a few steps, and some by more.
template <class T> std::vector<T> moved(span<const T> base) {
  std::vector<T> all(base.data(), base.data() + base.size());
  random_numbers random;
  for (T& value : all) {
    const uint64_t state = random();
    if ((state >> 40) % 4 != 0) continue;
    const uint64_t steps = (state >> 62) * ((state >> 50) % 16 == 0 ? 30 : 1);
    value =
        __builtin_bit_cast(T, static_cast<bits_t<T>>(tuck::bits_of(value) + ((state >> 30 & 1) != 0 ? -steps : steps)));
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

// A delta against the base of delta_fuzz.
template <codec C> void make_delta(const std::filesystem::path& path, const C& codec, size_t count) {
  using T = value_t<C>;
  const auto bytes_of_base = delta_base(count * sizeof(T));
  const exact_room<T> base(bytes_of_base.data(), count);
  const auto all = moved<T>(base.all());
  const frame_options options{.chunk_values = 64};
  std::vector<std::byte> frame(max_delta_bytes(codec, count, options));
  const outcome done = host::encode_delta(codec, span<const T>(all), base.all(), frame, options);
  require(bool(done), "a seed is encoded");
  write(path, "", frame.data(), done.bytes);
}

// A chunk of those values. If the codec uses a base, they only say how many: the chunk is against that of chunk_fuzz.
template <codec C>
void make_chunk(const std::filesystem::path& path, size_t number, const C& codec, std::vector<value_t<C>> all) {
  using T = value_t<C>;
  std::vector<std::byte> room(1 << 17);
  const size_t count = all.size();
  uint32_t used = incompressible;
  if constexpr (uses_base<C>) {
    const auto bytes_of_base = delta_base(count * sizeof(T));
    const exact_room<T> base(bytes_of_base.data(), count);
    all = moved<T>(base.all());
    for (size_t i = 0; i < count; ++i)
      all[i] = __builtin_bit_cast(T, static_cast<bits_t<T>>(tuck::bits_of(all[i]) ^ tuck::bits_of(base.data()[i])));
    used = codec.encode_chunk(span<const T>(all), base.all(), room);
  } else {
    used = codec.encode_chunk(span<const T>(all), room);
  }
  if (used == incompressible || used > longest) return;
  const std::string head{static_cast<char>(number), static_cast<char>(count - 1), static_cast<char>((count - 1) >> 8),
                         0};
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
  for (size_t number = 0; number < number_of(fuzzed_codecs{}); ++number)
    with_codec(fuzzed_codecs{}, number, error_bound::absolute(1e-2), [&]<class C>(const C& codec) {
      using T = value_t<C>;
      const std::string name = name_of(codec);
      const auto tensor = values<T>(150);
      for (const bool checksums : {false, true}) {
        const frame_options options{.chunk_values = 64, .checksums = checksums};
        std::vector<std::byte> frame(max_frame_bytes(codec, tensor.size(), options));
        const outcome done = host::encode(codec, span<const T>(tensor), frame, options);
        require(bool(done), "a seed is encoded");
        write(folder / "frame" / (name + (checksums ? ".checked" : "")), "", frame.data(), done.bytes);
        if (checksums) write(folder / "files" / ("frame." + name), {2}, frame.data(), done.bytes);
      }
      if constexpr (supports_deltas<C>) make_delta(folder / "delta" / name, codec, 150);
      for (const pattern kind : {pattern::mixed, pattern::rising, pattern::signs, pattern::negative_zeros}) {
        const std::string kinds[] = {"", ".rising", ".signs", ".zeros"};
        const std::string& of_kind = kinds[static_cast<int>(kind)];
        const auto some = values<T>(300, kind);
        make_chunk(folder / "chunk" / (name + of_kind), number, codec, some);
        write(folder / "round_trip" / (name + of_kind), {static_cast<char>(number), '\x72', '\x81'}, some.data(),
              some.size() * sizeof(T) / 2);
      }
      // Work for all warps of a block.
      auto wide = values<T>(tile_bytes / sizeof(T));
      for (size_t i = 0; i < wide.size(); ++i)
        if (i % 1000 >= 50) wide[i] = T{};
      make_chunk(folder / "chunk" / (name + ".wide"), number, codec, wide);
    });
  make_streams(folder / "inflate");
  make_files(folder / "files");
}
