// Any bytes as an encoded chunk, for each codec's block decoder on the simulator: the scalar decoder's verdict, and
// where it is ok, its values. As many bytes as the values have are the values.
#include "fuzz/device.hpp"

using namespace tuck;
using namespace tuck::fuzz;

namespace {

template <class C> __global__ void decode(C codec, const_bytes payload, span<value_t<C>> out, status* verdict) {
  using decoder = block_decode<C>;
  using storage = typename decoder::TempStorage;
  TUCK_SHARED(storage, temp);
  const status s = decoder(temp)(codec, payload, static_cast<uint32_t>(out.size()), out.data());
  verdict[threadIdx.x] = s;
}

template <class C> void try_chunk(const C& codec, uint32_t wanted, const_bytes payload) {
  using T = value_t<C>;
  const uint32_t count = wanted % max_device_chunk_values<C> + 1;
  const exact_room<T> out(count), expected(count);
  const exact_room<status> verdict(block_threads);
  // As in a frame: at a multiple of 16, and up to one it may be read.
  const exact_room<std::byte> room(round_up_pow2(payload.size(), 4));
  if (!payload.empty()) std::memcpy(room.data(), payload.data(), payload.size());
  run_block(block_threads, decode<C>, codec, const_bytes(room.all()).subspan(0, payload.size()), out.all(),
            verdict.data());
  const bytes raw = as_writable_bytes(expected.all());
  const status s = payload.size() < raw.size()   ? codec.decode_chunk(payload, expected.all())
                   : payload.size() > raw.size() ? status::bad_payload
                                                 : status::ok;
  if (payload.size() == raw.size()) std::memcpy(raw.data(), payload.data(), raw.size());
  for (const status mine : verdict.all()) require(mine == s, "each thread has the scalar decoder's verdict");
  require(s != status::ok || out == expected, "and the block its values");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  with_chunk(data, size, []<class C>(const C& codec, uint32_t wanted, const_bytes payload) {
    if constexpr (has<C>(device_codecs{})) try_chunk(codec, wanted, payload);
  });
  return 0;
}
