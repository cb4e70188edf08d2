// SPDX-License-Identifier: Apache-2.0
// Steps stores the changes of floating-point values from those of a base: how many steps of the type each value moves.
// It is for deltas (frame/host_delta.hpp) of weights. layout.hpp specifies the format.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/steps/layout.hpp>

#if defined(TUCK_HOST)
#include <tuck/codec/steps/host_decoder.hpp>
#include <tuck/codec/steps/host_encoder.hpp>
#endif

namespace tuck::inline TUCK_ABI {

/// Codec for the changes of floats from a base that both sides have, such as weights before a training step. Lossless.
/// In a frame that is not a delta, all values of the base are 0.
/// concept.hpp documents the members that are not described here.
/// @tparam T f16, bf16, f32, f8e4m3 or f8e5m2
template <floating_element T>
  requires(sizeof(T) <= 4)
struct steps : plain_codec<steps<T>, T, codec_id::steps> {
#if defined(TUCK_HOST)
  static constexpr uint32_t workspace_bytes(uint32_t) noexcept {
    constexpr uint32_t encoding = workspace::bytes_of<typename encoder::memory>();
    constexpr uint32_t decoding = workspace::bytes_of<typename decoder::memory>();
    return encoding > decoding ? encoding : decoding;
  }
  uint32_t encode_chunk(span<const T> changes, bytes out) const noexcept {
    return encode_chunk(changes, span<const T>{}, out);
  }
  status decode_chunk(const_bytes encoded, span<T> changes) const noexcept {
    return decode_chunk(encoded, span<const T>{}, changes);
  }
  /// @param changes  the bits of the values XOR those of the base
  /// @param base     as many values as `changes`; none: zeros
  uint32_t encode_chunk(span<const T> changes, span<const T> base, bytes out) const noexcept {
    return detail::with_workspace(workspace_bytes(0), incompressible,
                                  [&](workspace memory) { return encode_chunk(changes, base, out, memory); });
  }
  uint32_t encode_chunk(span<const T> changes, span<const T> base, bytes out, workspace memory) const noexcept;
  status decode_chunk(const_bytes encoded, span<const T> base, span<T> changes) const noexcept {
    return detail::with_workspace(workspace_bytes(0), status::out_of_memory,
                                  [&](workspace memory) { return decode_chunk(encoded, base, changes, memory); });
  }
  status decode_chunk(const_bytes encoded, span<const T> base, span<T> changes, workspace memory) const noexcept;

 private:
  static constexpr uint32_t max_values = max_chunk_values({{steps::description()}}, sizeof(T));
  using encoder = steps_format::host_encoder<T, max_values>;
  using decoder = steps_format::host_decoder<T, max_values>;
#endif
};

#if defined(TUCK_HOST)
template <floating_element T>
  requires(sizeof(T) <= 4)
uint32_t steps<T>::encode_chunk(span<const T> changes, span<const T> base, bytes out, workspace memory) const noexcept {
  if (changes.size() > max_values) return incompressible;
  auto& parts = memory.make<typename encoder::memory>();
  return detail::vectorized([&]<class Cpu>(Cpu cpu) {
    encoder chunk(parts);
    const uint64_t size = chunk.measure(cpu, changes, base);
    if (size >= changes.size_bytes()) return incompressible;
    chunk.write(out.data());
    return static_cast<uint32_t>(size);
  });
}

template <floating_element T>
  requires(sizeof(T) <= 4)
status steps<T>::decode_chunk(const_bytes encoded, span<const T> base, span<T> changes,
                              workspace memory) const noexcept {
  if (encoded.empty() || encoded.size() >= changes.size_bytes() || changes.size() > max_values)
    return status::bad_payload;
  auto& parts = memory.make<typename decoder::memory>();
  return detail::vectorized([&] {
    decoder chunk(parts, encoded, base, static_cast<uint32_t>(changes.size()));
    if (!chunk.read_header() || !chunk.read_steps()) return status::bad_payload;
    chunk.write(changes);
    return status::ok;
  });
}
#endif

static_assert(codec<steps<float>>);

}  // namespace tuck::inline TUCK_ABI
