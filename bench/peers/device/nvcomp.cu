// nvCOMP by its C interface, which works on batches of chunks. Written for nvCOMP 6.0; those before 6 name and number
// their options otherwise.
#include "bench/micro/device_timing.cuh"
#include "bench/peers/device/peers.hpp"

#include <nvcomp.h>
#include <nvcomp/ans.h>
#include <nvcomp/bitcomp.h>
#include <nvcomp/cascaded.h>
#include <nvcomp/deflate.h>
#include <nvcomp/lz4.h>
#include <nvcomp/snappy.h>
#include <nvcomp/version.h>
#include <nvcomp/zstd.h>

#include <numeric>

static_assert(NVCOMP_VER_MAJOR == 6);

namespace tuck::bench {
namespace {

void require(nvcompStatus_t s) {
  if (s != nvcompSuccess) throw std::runtime_error(std::string("nvCOMP: ") + nvcompGetStatusString(s));
}

// A format: its functions, and its options for tensors of a type, by default but for that type.
struct lz4 {
  static constexpr auto encode_temporary = nvcompBatchedLZ4CompressGetTempSize;
  static constexpr auto most_encoded = nvcompBatchedLZ4CompressGetMaxOutputChunkSize;
  static constexpr auto encode = nvcompBatchedLZ4CompressAsync;
  static constexpr auto decode_temporary = nvcompBatchedLZ4DecompressGetTempSize;
  static constexpr auto decode = nvcompBatchedLZ4DecompressAsync;

  static auto encode_options(dtype type) {
    auto options = nvcompBatchedLZ4CompressDefaultOpts;
    options.data_type = size_of(type) == 1   ? NVCOMP_TYPE_UCHAR
                        : size_of(type) == 2 ? NVCOMP_TYPE_USHORT
                                             : NVCOMP_TYPE_UINT;
    return options;
  }
  static auto decode_options() { return nvcompBatchedLZ4DecompressDefaultOpts; }
};

struct snappy {
  static constexpr auto encode_temporary = nvcompBatchedSnappyCompressGetTempSize;
  static constexpr auto most_encoded = nvcompBatchedSnappyCompressGetMaxOutputChunkSize;
  static constexpr auto encode = nvcompBatchedSnappyCompressAsync;
  static constexpr auto decode_temporary = nvcompBatchedSnappyDecompressGetTempSize;
  static constexpr auto decode = nvcompBatchedSnappyDecompressAsync;

  static auto encode_options(dtype) { return nvcompBatchedSnappyCompressDefaultOpts; }
  static auto decode_options() { return nvcompBatchedSnappyDecompressDefaultOpts; }
};

struct deflate {
  static constexpr auto encode_temporary = nvcompBatchedDeflateCompressGetTempSize;
  static constexpr auto most_encoded = nvcompBatchedDeflateCompressGetMaxOutputChunkSize;
  static constexpr auto encode = nvcompBatchedDeflateCompressAsync;
  static constexpr auto decode_temporary = nvcompBatchedDeflateDecompressGetTempSize;
  static constexpr auto decode = nvcompBatchedDeflateDecompressAsync;

  static auto encode_options(dtype) { return nvcompBatchedDeflateCompressDefaultOpts; }
  static auto decode_options() { return nvcompBatchedDeflateDecompressDefaultOpts; }
};

struct zstd {
  static constexpr auto encode_temporary = nvcompBatchedZstdCompressGetTempSize;
  static constexpr auto most_encoded = nvcompBatchedZstdCompressGetMaxOutputChunkSize;
  static constexpr auto encode = nvcompBatchedZstdCompressAsync;
  static constexpr auto decode_temporary = nvcompBatchedZstdDecompressGetTempSize;
  static constexpr auto decode = nvcompBatchedZstdDecompressAsync;

  static auto encode_options(dtype) { return nvcompBatchedZstdCompressDefaultOpts; }
  static auto decode_options() { return nvcompBatchedZstdDecompressDefaultOpts; }
};

nvcompType_t unsigned_of(dtype type) {
  switch (size_of(type)) {
    case 1: return NVCOMP_TYPE_UCHAR;
    case 2: return NVCOMP_TYPE_USHORT;
    case 4: return NVCOMP_TYPE_UINT;
    default: return NVCOMP_TYPE_ULONGLONG;
  }
}

struct cascaded {
  static constexpr auto encode_temporary = nvcompBatchedCascadedCompressGetTempSize;
  static constexpr auto most_encoded = nvcompBatchedCascadedCompressGetMaxOutputChunkSize;
  static constexpr auto encode = nvcompBatchedCascadedCompressAsync;
  static constexpr auto decode_temporary = nvcompBatchedCascadedDecompressGetTempSize;
  static constexpr auto decode = nvcompBatchedCascadedDecompressAsync;

  static auto encode_options(dtype type) {
    auto options = nvcompBatchedCascadedCompressDefaultOpts;
    options.common_opts.data_type = unsigned_of(type);
    return options;
  }
  static auto decode_options() { return nvcompBatchedCascadedDecompressDefaultOpts; }
};

struct bitcomp {
  static constexpr auto encode_temporary = nvcompBatchedBitcompCompressGetTempSize;
  static constexpr auto most_encoded = nvcompBatchedBitcompCompressGetMaxOutputChunkSize;
  static constexpr auto encode = nvcompBatchedBitcompCompressAsync;
  static constexpr auto decode_temporary = nvcompBatchedBitcompDecompressGetTempSize;
  static constexpr auto decode = nvcompBatchedBitcompDecompressAsync;

  static auto encode_options(dtype type) {
    auto options = nvcompBatchedBitcompCompressDefaultOpts;
    options.data_type = unsigned_of(type);
    return options;
  }
  static auto decode_options() { return nvcompBatchedBitcompDecompressDefaultOpts; }
};

struct ans {
  static constexpr auto encode_temporary = nvcompBatchedANSCompressGetTempSize;
  static constexpr auto most_encoded = nvcompBatchedANSCompressGetMaxOutputChunkSize;
  static constexpr auto encode = nvcompBatchedANSCompressAsync;
  static constexpr auto decode_temporary = nvcompBatchedANSDecompressGetTempSize;
  static constexpr auto decode = nvcompBatchedANSDecompressAsync;

  static auto encode_options(dtype type) {
    auto options = nvcompBatchedANSCompressDefaultOpts;
    if (type == dtype::f16 || type == dtype::bf16) options.data_type = NVCOMP_TYPE_FLOAT16;
    if (type == dtype::f32) options.data_type = NVCOMP_TYPE_FLOAT32;
    if (type == dtype::f8e4m3) options.data_type = NVCOMP_TYPE_FLOAT8_E4M3;
    return options;
  }
  static auto decode_options() { return nvcompBatchedANSDecompressDefaultOpts; }
};

struct batch_shape {
  uint64_t chunks, longest, room;  // room: for any chunk's result
};

template <class Format> batch_shape shape_of(const coder_request& request) {
  // 16 bytes are the strictest alignment that a format asks for; all of them take 16 MiB.
  if (request.raw_bytes == 0 || request.chunk_bytes == 0 || request.chunk_bytes % 16 != 0 ||
      request.chunk_bytes > 16 << 20)
    throw std::runtime_error("nvCOMP: the tensor is empty, or the chunks are not of 16 bytes to 16 MiB");
  size_t room = 0;
  const uint64_t longest = std::min(request.chunk_bytes, request.raw_bytes);
  require(Format::most_encoded(longest, Format::encode_options(request.type), &room));
  return {ceil_div(request.raw_bytes, request.chunk_bytes), longest, round_up_pow2(uint64_t{room}, 8)};
}

// A table in device memory.
template <class T> class device_table {
 public:
  explicit device_table(uint64_t size) : memory_(size * sizeof(T)) {}
  T* data() const noexcept { return reinterpret_cast<T*>(memory_.all().data()); }
  bytes all() const noexcept { return memory_.all(); }

 private:
  tools::device_memory memory_;
};

template <class Format> class nvcomp_coder final : public timed_coder {
 public:
  explicit nvcomp_coder(const coder_request& request) : nvcomp_coder(request, shape_of<Format>(request)) {}

 private:
  nvcomp_coder(const coder_request& request, const batch_shape& shape)
      : timed_coder(request.raw_bytes, shape.chunks * shape.room),
        type_(request.type),
        raw_bytes_(request.raw_bytes),
        shape_(shape),
        chunks_at_(buffers() * shape.chunks),
        encoded_at_(buffers() * shape.chunks),
        sizes_(shape.chunks),
        encoded_sizes_(shape.chunks),
        restored_sizes_(shape.chunks),
        statuses_(shape.chunks),
        temporary_(temporary_bytes()) {
    std::vector<std::byte*> chunks, encoded;
    for (uint32_t i = 0; i < buffers(); ++i)
      for (uint64_t c = 0; c < shape.chunks; ++c) {
        chunks.push_back(tensor(i).data() + c * shape.longest);
        encoded.push_back(result(i).data() + c * shape.room);
      }
    std::vector<size_t> sizes(shape.chunks, shape.longest);
    sizes.back() = request.raw_bytes - (shape.chunks - 1) * shape.longest;
    put(as_bytes(span<std::byte* const>(chunks)), chunks_at_.all());
    put(as_bytes(span<std::byte* const>(encoded)), encoded_at_.all());
    put(as_bytes(span<const size_t>(sizes)), sizes_.all());
  }

  size_t temporary_bytes() const {
    size_t encoding = 0, decoding = 0;
    require(Format::encode_temporary(shape_.chunks, shape_.longest, Format::encode_options(type_), &encoding,
                                     raw_bytes_, stream()));
    require(Format::decode_temporary(shape_.chunks, shape_.longest, Format::decode_options(), &decoding, raw_bytes_,
                                     stream()));
    return std::max(encoding, decoding);
  }

  void* const* chunks_at(uint32_t i) const { return chunks_at_.data() + i * shape_.chunks; }
  void* const* encoded_at(uint32_t i) const { return encoded_at_.data() + i * shape_.chunks; }

  void launch_encode(uint32_t i) override {
    require(Format::encode(chunks_at(i), sizes_.data(), shape_.longest, shape_.chunks, temporary_.all().data(),
                           temporary_.all().size(), encoded_at(i), encoded_sizes_.data(), Format::encode_options(type_),
                           statuses_.data(), stream()));
  }
  // The chunks, and their sizes in 32 bits, as of the peers on the host.
  uint64_t finish_encode() override {
    check_statuses();
    const auto sizes = fetch(encoded_sizes_);
    return std::accumulate(sizes.begin(), sizes.end(), shape_.chunks * sizeof(uint32_t));
  }

  void launch_decode(uint32_t i) override {
    require(Format::decode(encoded_at(i), encoded_sizes_.data(), sizes_.data(), restored_sizes_.data(), shape_.chunks,
                           temporary_.all().data(), temporary_.all().size(), chunks_at(i), Format::decode_options(),
                           statuses_.data(), stream()));
  }
  void finish_decode() override {
    check_statuses();
    if (fetch(restored_sizes_) != fetch(sizes_)) throw std::runtime_error("nvCOMP: a chunk came back shorter");
  }

  void check_statuses() const {
    for (const nvcompStatus_t s : fetch(statuses_)) require(s);
  }

  template <class T> std::vector<T> fetch(const device_table<T>& table) const {
    std::vector<T> seen(shape_.chunks);
    put(table.all(), as_writable_bytes(span<T>(seen)));
    return seen;
  }

  dtype type_;
  uint64_t raw_bytes_;
  batch_shape shape_;
  device_table<void*> chunks_at_, encoded_at_;  // of buffers 0, then of buffers 1 and so on
  device_table<size_t> sizes_, encoded_sizes_, restored_sizes_;
  device_table<nvcompStatus_t> statuses_;
  tools::device_memory temporary_;
};

std::string library() {
  nvcompProperties_t properties;
  require(nvcompGetProperties(&properties));
  const uint32_t v = properties.version;
  return "nvCOMP " + std::to_string(NVCOMP_MAJOR_FROM_SEMVER(v)) + "." + std::to_string(NVCOMP_MINOR_FROM_SEMVER(v)) +
         "." + std::to_string(NVCOMP_PATCH_FROM_SEMVER(v));
}

template <class Format> device_peer named(const char* name) {
  return {name, library(), true, [](dtype) { return true; },
          [](const coder_request& request) -> std::unique_ptr<device_coder> {
            return std::make_unique<nvcomp_coder<Format>>(request);
          }};
}

}  // namespace

std::vector<device_peer> nvcomp_peers() {
  return {named<lz4>("nvcomp-lz4"),   named<snappy>("nvcomp-snappy"),     named<deflate>("nvcomp-deflate"),
          named<zstd>("nvcomp-zstd"), named<cascaded>("nvcomp-cascaded"), named<bitcomp>("nvcomp-bitcomp"),
          named<ans>("nvcomp-ans")};
}

}  // namespace tuck::bench
