// Quantize by one thread block, decoding: what quantize.hpp makes of the same bytes, and its verdict on bad ones.
//
// A thread a group finds out where its payload begins, by two scans; then all threads take their codes from wherever
// they are, straight to the words of the output.
#pragma once

#include <tuck/codec/block_copies.cuh>
#include <tuck/codec/quantize/quantize.hpp>

namespace tuck::inline TUCK_ABI {

template <floating_element T, int Threads> class block_decoder<quantize<T>, Threads> {
  using tile = block_tile<T, Threads>;
  using word = typename tile::word;
  using scan = device::block_scan<Threads>;
  using steps = step_quantizer<T>;
  using mantissas = mantissa_quantizer<T>;
  using shape = quantize_layout::shape;

  static constexpr uint32_t group = quantize_layout::group;
  static constexpr int per_word = tile::per_word;
  static constexpr uint32_t max_groups = tile::capacity / group;

 public:
  static constexpr int blocks_a_processor = sizeof(T) == 4 ? 4 : 3;  // 80 registers, as for encoding

  struct TempStorage {
    alignas(16) uint32_t encoded[tile_bytes / 4 + 2];  // and what a read of two words at its end touches
    uint32_t groups[max_groups];  // where the payload of each begins, in bits; its shape in the highest byte
    uint32_t exception_mask[max_groups];
    uint16_t sparse_before[max_groups];
    uint16_t exceptions_before[max_groups];
    typename scan::TempStorage scan_storage;
    quantize_layout::offsets at;  // uniform, out of the way of registers
  };

  __device__ explicit block_decoder(TempStorage& temp) : temp_(temp) {}

  template <class Sink>
  __device__ status decode(const quantize<T>& codec, const_bytes encoded, uint32_t count, Sink& sink) {
    if (!codec.is_usable() || encoded.size() < 4 || encoded.size() > tile_bytes) return status::bad_payload;
    TempStorage& s = temp_;
    copy_to_shared<Threads>(reinterpret_cast<std::byte*>(s.encoded), encoded);
    for (uint32_t i = threadIdx.x; i < max_groups; i += Threads) s.exception_mask[i] = 0;
    device::sync_block();
    if (threadIdx.x < 2) s.encoded[ceil_div(static_cast<uint32_t>(encoded.size()), 4u) + threadIdx.x] = 0;
    const uint32_t head = s.encoded[0];
    if (!codec.header_is_sound(head & 255, head >> 8 & 255, head >> 16, count)) return status::bad_payload;
    if (!find_groups(codec, static_cast<uint32_t>(encoded.size()), count)) return status::bad_payload;
    device::sync_block();
    if (device::sync_block_or(!exceptions_are_sound(head >> 16, count))) return status::bad_payload;
    if (head >> 16 != 0) {
      find_exceptions(head >> 16);
      device::sync_block();
    }
    if (codec.pointwise())
      decode_rows(codec.mantissas(), head, count, sink);
    else
      decode_rows(codec.steps(head >> 8 & 255), head, count, sink);
    return status::ok;
  }

 private:
  // Fills `groups`, `sparse_before` and `at`; whether all sizes agree. All threads get the same answer.
  __device__ bool find_groups(const quantize<T>& codec, uint32_t size, uint32_t count) {
    using namespace quantize_layout;
    constexpr uint32_t each = ceil_div(max_groups, uint32_t{Threads});
    constexpr uint32_t code_bits_of_steps = steps::code_bits, code_bits_of_mantissas = mantissas::code_bits;
    TempStorage& s = temp_;
    const bool pointwise = codec.pointwise();
    const uint32_t used = ceil_div(count, group), mask_words = ceil_div(used, 32u), head = s.encoded[0];
    const uint32_t base_bits = head & 255, shapes = non_zero_at + 4 * mask_words;
    if (size < shapes) return false;
    const uint32_t* const non_zero = s.encoded + non_zero_at / 4;
    uint32_t non_zero_groups = 0, before = 0;  // before this thread's first
    const uint32_t first = threadIdx.x * each;
    for (uint32_t w = 0; w < mask_words; ++w) {
      non_zero_groups += popcount(non_zero[w]);
      if (w < first / 32) before += popcount(non_zero[w]);
    }
    if (first < used) before += popcount(non_zero[first / 32] & low_mask(first % 32));
    if (used % 32 != 0 && (non_zero[mask_words - 1] & ~low_mask(used % 32)) != 0) return false;
    const uint32_t masks = shapes + round_up_pow2(non_zero_groups, 2);
    if (size < masks) return false;

    shape form[each];
    uint32_t sparse = 0;
    const auto* const shape_bytes = reinterpret_cast<const uint8_t*>(s.encoded) + shapes;
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) {
      const uint32_t g = first + i;
      form[i] = {};
      if (g >= used || (non_zero[g / 32] >> g % 32 & 1) == 0) continue;
      form[i] = {shape_bytes[before++]};
      sparse += form[i].is_sparse() ? 1 : 0;
    }
    uint32_t sparse_groups;
    uint32_t sparse_before = scan::exclusive_sum(temp_.scan_storage, sparse, sparse_groups);
    if (size < masks + 4 * sparse_groups) return false;
    device::sync_block();

    uint32_t bits[each], payload = 0;
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) {
      const uint32_t g = first + i;
      bits[i] = 0;
      if (g < max_groups) s.sparse_before[g] = static_cast<uint16_t>(sparse_before);
      if (g >= used || (non_zero[g / 32] >> g % 32 & 1) == 0) continue;
      uint32_t non_zeros = 0;
      if (form[i].is_sparse()) non_zeros = popcount(s.encoded[masks / 4 + sparse_before++]);
      bits[i] = form[i].is_sound(pointwise ? code_bits_of_mantissas : code_bits_of_steps, pointwise)
                    ? form[i].payload_bits(non_zeros, base_bits, pointwise)
                    : 1u << 23;  // more than any chunk has
      payload += bits[i];
    }
    uint32_t payload_bits;
    uint32_t start = scan::exclusive_sum(temp_.scan_storage, payload, payload_bits);
    if (payload_bits >= 1u << 23) return false;
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) {
      if (first + i < max_groups) s.groups[first + i] = start | static_cast<uint32_t>(form[i].byte) << 24;
      start += bits[i];
    }
    const offsets at = offsets_of(used, non_zero_groups, sparse_groups, payload_bits, head >> 16, sizeof(T));
    if (threadIdx.x == 0) temp_.at = at;
    return at.end == size;
  }

  __device__ const uint16_t* positions() const {
    return reinterpret_cast<const uint16_t*>(temp_.encoded) + temp_.at.positions / 2;
  }

  // Of the positions that this thread looks at.
  __device__ bool exceptions_are_sound(uint32_t exceptions, uint32_t count) const {
    bool sound = true;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < exceptions; i += Threads)
      sound &= positions()[i] < count && (i == 0 || positions()[i - 1] < positions()[i]);
    return sound;
  }

  // Fills exception_mask and exceptions_before.
  __device__ void find_exceptions(uint32_t exceptions) {
    TempStorage& s = temp_;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < exceptions; i += Threads) {
      const uint32_t position = positions()[i];
      if (i == 0 || positions()[i - 1] / group != position / group)
        s.exceptions_before[position / group] = static_cast<uint16_t>(i);
      device::atomic_or(&s.exception_mask[position / group], 1u << position % group);
    }
  }

  // The i-th exception's value. 8-byte values are on a multiple of 4 only.
  __device__ static bits_t<T> get(const std::byte* values, uint32_t i) {
    if constexpr (sizeof(T) == 8) {
      const auto* halves = reinterpret_cast<const uint32_t*>(values) + 2 * i;
      return halves[0] | static_cast<uint64_t>(halves[1]) << 32;
    } else {
      return reinterpret_cast<const bits_t<T>*>(values)[i];
    }
  }

  // `width` <= 32 bits of the payload.
  __device__ uint32_t take(uint32_t bit, uint32_t width) const {
    const uint32_t* const from = temp_.encoded + temp_.at.payload / 4 + bit / 32;
    return device::funnel_shift_right(from[0], from[1], bit % 32) & low_mask(width);
  }

  template <class Quantizer, class Sink>
  __device__ void decode_rows(const Quantizer& quantizer, uint32_t head, uint32_t count, Sink& sink) {
    using namespace quantize_layout;
    constexpr bool pointwise = std::is_same_v<Quantizer, mantissas>;
    const TempStorage& s = temp_;
    const uint32_t base_bits = head & 255;
    const uint32_t column = tile::first_dealt() % group;  // the place of a thread's words in their groups
#pragma unroll 1
    for (int j = 0; j < tile::words; ++j) {
      const uint32_t first = tile::first_dealt(j);
      if (first - device::lane_id() * per_word >= count) break;  // for the whole warp
      const uint32_t g = first / group, packed = s.groups[g];
      const shape form{static_cast<uint8_t>(packed >> 24)};
      const uint32_t width = form.width();
      uint32_t bit = packed & 0xffffffu;
      bits_t<T> value[per_word];
      if constexpr (pointwise) {
        uint64_t base = take(bit, base_bits < 32 ? base_bits : 32);
        if (sizeof(T) == 8 && base_bits > 32) base |= uint64_t{take(bit + 32, base_bits - 32)} << 32;
        bit += base_bits;
#pragma unroll
        for (int k = 0; k < per_word; ++k) {
          const uint32_t code = plain_code(form, g, bit, column + static_cast<uint32_t>(k));
          value[k] = quantizer.value(code >> 1 == 0 ? bits_t<T>{0} : static_cast<bits_t<T>>((code >> 1) + base),
                                     (code & 1) != 0);
        }
      } else {
        uint32_t code[per_word];
#pragma unroll
        for (int k = 0; k < per_word; ++k) code[k] = plain_code(form, g, bit, column + static_cast<uint32_t>(k));
        if (device::any(form.is_delta())) sum_differences(form, bit, width, base_bits, column, code);
#pragma unroll
        for (int k = 0; k < per_word; ++k) value[k] = quantizer.value(code[k]);
      }
      if (temp_.at.positions != temp_.at.end) patch(g, column, value);
      word x = 0;
#pragma unroll
      for (int k = 0; k < per_word; ++k) x |= static_cast<word>(value[k]) << (8 * sizeof(T) * static_cast<unsigned>(k));
      if (first >= count) continue;
      sink(first, count - first < per_word ? tile::clip(x, count - first) : x);
    }
  }

  // The code at `place` of a group that is not delta.
  __device__ uint32_t plain_code(shape form, uint32_t g, uint32_t bit, uint32_t place) const {
    uint32_t before = place;
    bool present = true;
    if (form.is_sparse()) {
      const uint32_t mask = temp_.encoded[temp_.at.masks / 4 + temp_.sparse_before[g]];
      before = popcount(mask & low_mask(place));
      present = (mask >> place & 1) != 0;
    }
    if (!present || form.is_delta()) return 0;
    return take(bit + before * form.width(), form.width()) << (form.is_signed() ? 0 : 1);
  }

  // Where the group is a delta group, its codes: sums over the lanes that share it. By the whole warp.
  __device__ void sum_differences(shape form, uint32_t bit, uint32_t width, uint32_t base_bits, uint32_t column,
                                  uint32_t (&code)[per_word]) const {
    using namespace quantize_layout;
    constexpr uint32_t lanes = group / per_word;
    uint32_t sums[per_word], sum = 0;
#pragma unroll
    for (int k = 0; k < per_word; ++k) {
      const uint32_t place = column + static_cast<uint32_t>(k);
      if (form.is_delta())
        sum += place == 0 ? static_cast<uint32_t>(whole_of(take(bit, base_bits)))
                          : unzigzag(take(bit + base_bits + (place - 1) * width, width));
      sums[k] = sum;
    }
    uint32_t before = sum;
#pragma unroll
    for (uint32_t delta = 1; delta < lanes; delta *= 2) {
      const uint32_t other = device::shfl_up(before, delta);
      if (device::lane_id() % lanes >= delta) before += other;
    }
    before -= sum;
#pragma unroll
    for (int k = 0; k < per_word; ++k)
      if (form.is_delta()) code[k] = code_of(before + sums[k]);
  }

  // Puts the exceptions in their places.
  __device__ void patch(uint32_t g, uint32_t column, bits_t<T> (&value)[per_word]) const {
    const TempStorage& s = temp_;
    const uint32_t mask = s.exception_mask[g];
#pragma unroll
    for (int k = 0; k < per_word; ++k) {
      const uint32_t place = column + static_cast<uint32_t>(k);
      if ((mask >> place & 1) != 0)
        value[k] = get(reinterpret_cast<const std::byte*>(s.encoded) + temp_.at.values,
                       s.exceptions_before[g] + popcount(mask & low_mask(place)));
    }
  }

  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI
