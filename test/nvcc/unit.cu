// One of several translation units of a program, each compiled with other flags and -DUNIT=its function's name.
// -DEVERY_LAUNCH: with all that launches kernels.
#include <tuck/device.cuh>
#include <tuck/host.hpp>

// Without scratch, which is refused before anything asks for a GPU.
tuck::result UNIT(tuck::span<const float> values, const tuck::frame_options& options, tuck::outcome& written) {
  using codec = tuck::zvc<float>;
  const auto encoded = tuck::encoded_bytes(codec{}, values, {}, &written, nullptr, options);
  const auto decoded = tuck::decode(codec{}, {}, tuck::span<float>{}, {}, nullptr, nullptr);
  return encoded.code == decoded.code ? decoded : tuck::result{};
}

#if defined(EVERY_LAUNCH)
#include <tuck/swap.cuh>

namespace {

// Tiles are smaller than the chunks that these codecs have by default.
template <tuck::codec C>
__global__ void __launch_bounds__(256) encode_tile(const tuck::value_t<C>* values, std::byte* out) {
  using encoder = tuck::block_encode<C, 256>;
  using storage = typename encoder::TempStorage;
  TUCK_SHARED(storage, temp);
  encoder{temp}(C{}, values, encoder::tile::capacity, out);
}
template <tuck::codec C>
__global__ void __launch_bounds__(256) sum_chunk(const tuck::frame_view frame, tuck::const_bytes chunk, float* sum) {
  using decoder = tuck::block_decode<C, 256>;
  using storage = typename decoder::TempStorage;
  TUCK_SHARED(storage, temp);
  const auto add = [&](uint32_t, tuck::value_t<C> x) { atomicAdd(sum, static_cast<float>(x)); };
  if (decoder{temp}(C{}, frame, 0, add) != tuck::status::ok) decoder{temp}(C{}, chunk, 1, add);
}
[[maybe_unused]] const void* const sums[] = {reinterpret_cast<const void*>(sum_chunk<tuck::zvc<float>>),
                                             reinterpret_cast<const void*>(sum_chunk<tuck::quantize<double>>)};
[[maybe_unused]] const void* const tiles[] = {reinterpret_cast<const void*>(encode_tile<tuck::bitpack<uint8_t>>),
                                              reinterpret_cast<const void*>(encode_tile<tuck::rle<float>>)};

}  // namespace

// The classes are the same in all units.
std::unique_ptr<tuck::swap_stream> UNIT(tuck::async_resource& memory) {
  return std::make_unique<tuck::swap_stream>(tuck::swap_options{.pinned_bytes = 1 << 20}, memory);
}
tuck::result UNIT(tuck::swap_stream& swap, tuck::span<const float> values, cudaStream_t stream,
                  tuck::swap_handle& handle) {
  return swap.out(tuck::zvc<float>{}, values, stream, handle);
}

void UNIT(tuck::span<float> values, const tuck::frame_header& header, tuck::bytes frame, tuck::scratch_span scratch,
          uint64_t* numbers, tuck::span<tuck::outcome> outcomes, cudaStream_t stream) {
  const tuck::zvc<float> codec;
  const tuck::span<const float> source(values);
  (void)tuck::encode(codec, source, frame, scratch, outcomes.data(), stream);
  (void)tuck::encoded_bytes(tuck::quantize<float>{}, source, scratch, outcomes.data(), stream);
  (void)tuck::append(codec, source, frame, numbers, numbers, scratch, outcomes.data(), stream);
  (void)tuck::decode(tuck::codec_list<tuck::zvc<float>>{}, header, frame, tuck::as_writable_bytes(values), scratch,
                     outcomes.data(), stream);
  (void)tuck::encode_delta(codec, source, source, frame, scratch, outcomes.data(), stream);
  (void)tuck::decode_delta(codec, frame, source, values, scratch, outcomes.data(), stream);
  tuck::async_resource memory;
  (void)tuck::encode(codec, source, memory, stream).shrink_sync();
  (void)tuck::decode_sync(codec, frame, values, memory, stream);
  (void)tuck::encode_batch(codec, tuck::span<const tuck::encode_item<float>>{}, {}, scratch, outcomes, stream);
  (void)tuck::encode_batch(tuck::quantize<float>{}, tuck::span<const tuck::encode_item<float>>{}, {}, scratch, outcomes,
                           stream);
  (void)tuck::decode_batch(codec, tuck::span<const tuck::decode_item<float>>{}, {}, scratch, outcomes, stream);
  (void)tuck::encode_delta_batch(codec, tuck::span<const tuck::encode_delta_item<float>>{}, {}, scratch, outcomes,
                                 stream);
  (void)tuck::decode_delta_batch(codec, tuck::span<const tuck::decode_delta_item<float>>{}, {}, scratch, outcomes,
                                 stream);
  (void)tuck::inflate_batch({}, {}, stream);
  (void)tuck::gather_statistics(source, nullptr, scratch, stream);
  tuck::swap_handle handle;
  const auto swap = UNIT(memory);
  (void)UNIT(*swap, source, stream, handle);
  (void)swap->in(handle, values, stream);
}
#endif
