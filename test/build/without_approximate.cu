// The checksums would be those of the values before the loss.
#include <tuck/device.cuh>
#include <tuck/host.hpp>

struct even : tuck::plain_codec<even, uint8_t, tuck::codec_id::custom> {
  static constexpr bool lossy = true;
  uint32_t encode_chunk(tuck::span<const uint8_t>, tuck::bytes) const noexcept { return tuck::incompressible; }
  tuck::status decode_chunk(tuck::const_bytes, tuck::span<uint8_t>) const noexcept { return tuck::status::bad_payload; }
};
static_assert(tuck::codec<even>);

template <int Threads> struct tuck::block_codec<even, Threads> {
  using tile = block_tile<uint8_t, Threads>;
  static constexpr bool keeps_tile = false;
  struct TempStorage {};
  __device__ explicit block_codec(TempStorage&) {}
  __device__ uint32_t measure(const even&, const tile&) { return incompressible; }
  template <class Values> __device__ void write(const even&, const Values&, std::byte*) {}
  template <class Sink> __device__ status read(const even&, const std::byte*, uint32_t, uint32_t, Sink&) {
    return status::bad_payload;
  }
};
using storage = tuck::block_encode<even>::TempStorage;
