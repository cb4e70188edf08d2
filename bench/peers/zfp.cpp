// zfp has blocks of its own, so the tensor is one stream and no chunks.
#include "bench/peers/peers.hpp"

#include <zfp.h>

namespace tuck::bench {
namespace {

constexpr const char* library = "zfp";

bool takes(dtype type) { return type == dtype::f32 || type == dtype::f64; }

// Rows of the tensor, or one dimension if these do not come out even.
zfp_field* shaped(const coder_request& request) {
  const size_t columns = request.columns;
  const zfp_type type = request.type == dtype::f32 ? zfp_type_float : zfp_type_double;
  const size_t count = request.raw_bytes / size_of(request.type);
  if (count % columns != 0 || count == columns) return zfp_field_1d(nullptr, type, count);
  return zfp_field_2d(nullptr, type, columns, count / columns);
}

class zfp_coder final : public coder {
 public:
  explicit zfp_coder(const coder_request& request) : raw_bytes_(request.raw_bytes) {
    require(takes(request.type), library, "the values are neither f32 nor f64");
    require(raw_bytes_ != 0 && raw_bytes_ % size_of(request.type) == 0, library, "the tensor is not of whole values");
    require(request.tolerance > 0, library, "the tolerance is not above 0");
    field_.reset(shaped(request));
    require(field_ != nullptr, library, "no memory for a field");
    stream_.reset(zfp_stream_open(nullptr));
    require(stream_ != nullptr, library, "zfp_stream_open failed");
    require(zfp_stream_set_execution(stream_.get(), zfp_exec_serial) != 0, library, "serial execution was refused");
    zfp_stream_set_accuracy(stream_.get(), request.tolerance);
    buffer_.resize(zfp_stream_maximum_size(stream_.get(), field_.get()));
    require(!buffer_.empty(), library, "zfp_stream_maximum_size failed");
    bits_.reset(stream_open(buffer_.data(), buffer_.size()));
    require(bits_ != nullptr, library, "stream_open failed");
    zfp_stream_set_bit_stream(stream_.get(), bits_.get());
  }

  uint64_t encode(const_bytes raw) override {
    require(raw.size() == raw_bytes_, library, "the tensor to encode has another length");
    zfp_field_set_pointer(field_.get(), const_cast<std::byte*>(raw.data()));  // which zfp_compress only reads
    zfp_stream_rewind(stream_.get());
    encoded_bytes_ = zfp_compress(stream_.get(), field_.get());
    require(encoded_bytes_ != 0, library, "zfp_compress failed");
    return encoded_bytes_;
  }

  void decode(bytes out) override {
    require(out.size() == raw_bytes_, library, "the room to decode into has another length");
    require(encoded_bytes_ != 0, library, "nothing was encoded");
    zfp_field_set_pointer(field_.get(), out.data());
    zfp_stream_rewind(stream_.get());
    require(zfp_decompress(stream_.get(), field_.get()) == encoded_bytes_, library, "zfp_decompress failed");
  }

 private:
  uint64_t raw_bytes_;
  uint64_t encoded_bytes_ = 0;
  std::vector<std::byte> buffer_;
  handle<zfp_field, zfp_field_free> field_;
  handle<bitstream, stream_close> bits_;
  handle<zfp_stream, zfp_stream_close> stream_;
};

std::unique_ptr<coder> make(const coder_request& request) { return std::make_unique<zfp_coder>(request); }

}  // namespace

// zfp_version_string has a date too.
std::vector<peer> zfp_peers() { return {{"zfp", "zfp " ZFP_VERSION_STRING, true, takes, make}}; }

}  // namespace tuck::bench
