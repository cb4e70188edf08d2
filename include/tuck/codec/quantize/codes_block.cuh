// quantize_codes by one thread block: the bytes of codes.hpp, for chains.
//
// Values are quantized where they lie in the tile, and restored where their codes lie in shared memory. Exceptions are
// few: threads put them down in any order, and each then finds its rank among all.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/quantize/codes.hpp>

namespace tuck::inline TUCK_ABI {

template <floating_element T, int Threads> class block_codec<quantize_codes<T>, Threads> {
 public:
  using tile = block_tile<T, Threads>;
  static constexpr int blocks_a_processor = 3;  // 80 registers

 private:
  using layout = codes_layout<T>;
  using format = float_format<T>;
  using word = typename tile::word;
  using marks = std::conditional_t<(tile::capacity / Threads > 32), uint64_t, uint32_t>;  // a bit a value of a thread
  static constexpr int per_word = tile::per_word;
  static constexpr uint32_t warps = Threads / device::warp_size;
  static_assert(tile::capacity / Threads <= 64, "tuck: the quantize block codec takes 128 threads or more");

 public:
  struct TempStorage {
    alignas(16) std::byte encoded[layout::max_side + tile_bytes];  // codes from max_side on, the side in front of them
    bits_t<T> exception[layout::max_exceptions];
    uint16_t position[layout::max_exceptions];
    uint32_t exceptions;
    uint32_t listed;
    uint32_t exponent;
    uint32_t largest[warps];
    device::uninitialized<step_quantizer<T>> steps;
  };
  static_assert(layout::max_side % 16 == 0);

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t measure(const quantize_codes<T>& codec, const tile& values) {
    const quantize<T>& rule = codec.rule();
    if (!rule.is_usable()) return declined;
    uint32_t exponent = 0;
    if constexpr (sizeof(T) == 2)
      if (!rule.pointwise()) exponent = largest_exponent(values);
    prepare(rule, exponent);
    if (rule.pointwise())
      quantize_tile(rule.mantissas(), values);
    else
      quantize_tile(temp_.steps.get(), values);
    device::sync_block();
    exceptions_ = temp_.exceptions;
    if (exceptions_ > layout::max_exceptions) return declined;
    return layout::side(exceptions_) + values.count * uint32_t{sizeof(T)};
  }

  __device__ uint32_t side_bytes(uint32_t) const { return layout::side(exceptions_); }
  __device__ std::byte* encoded(uint32_t side) { return codes() - side; }

  // Leaves in the tile what decoding will give.
  __device__ void assemble(const quantize_codes<T>& codec, tile& values) {
    list_exceptions(values);
    if (codec.rule().pointwise())
      restore_tile(codec.rule().mantissas(), values);
    else
      restore_tile(temp_.steps.get(), values);
    const uint32_t side = layout::side(exceptions_);
    for (uint32_t i = threadIdx.x; i < side; i += Threads) encoded(side)[i] = std::byte{};
    device::sync_block();
    if constexpr (sizeof(T) == 2)
      if (threadIdx.x == 0) *reinterpret_cast<uint16_t*>(encoded(side)) = static_cast<uint16_t>(temp_.exponent);
    for (uint32_t i = threadIdx.x; i < exceptions_; i += Threads) store_exception(side, i);
  }

  template <class Sink>
  __device__ status decode_assembled(const quantize_codes<T>& codec, uint32_t side, uint32_t, uint32_t count,
                                     Sink& sink) {
    const quantize<T>& rule = codec.rule();
    if (!rule.is_usable()) return status::bad_payload;
    exceptions_ = layout::exceptions(side);
    uint32_t exponent = 0;
    if constexpr (sizeof(T) == 2) exponent = *reinterpret_cast<const uint16_t*>(encoded(side));
    if (!rule.header_is_sound(0, exponent, exceptions_, count)) return status::bad_payload;
    prepare(rule, exponent);
    if (rule.pointwise())
      restore_codes(rule.mantissas(), count);
    else
      restore_codes(temp_.steps.get(), count);
    device::sync_block();
    if (!patch(side, count)) return status::bad_payload;
#pragma unroll 2
    for (int j = 0; j < tile::words; ++j)
      if (const uint32_t first = tile::first_dealt(j); first < count) sink(first, word_at(first, count));
    return status::ok;
  }

 private:
  __device__ std::byte* codes() { return temp_.encoded + layout::max_side; }
  __device__ word* code_words() { return reinterpret_cast<word*>(codes()); }

  // The biased exponent of the chunk's largest finite value.
  __device__ uint32_t largest_exponent(const tile& values) {
    uint32_t largest = 0;
#pragma unroll
    for (int j = 0; j < tile::words; ++j)
#pragma unroll
      for (int k = 0; k < per_word; ++k) {
        const uint32_t magnitude = format::magnitude(tile::value(values.w[j], k));
        if (magnitude < format::infinity && magnitude > largest) largest = magnitude;
      }
    largest = device::warp_max(largest);
    if (device::lane_id() == 0) temp_.largest[device::warp_id()] = largest;
    device::sync_block();
    for (uint32_t i = 0; i < warps; ++i) largest = temp_.largest[i] > largest ? temp_.largest[i] : largest;
    return largest >> format::mantissa_bits;
  }
  // With a barrier.
  __device__ void prepare(const quantize<T>& rule, uint32_t exponent) {
    if (threadIdx.x == 0) {
      temp_.exceptions = 0;
      temp_.listed = 0;
      temp_.exponent = exponent;
      if (!rule.pointwise()) temp_.steps.get() = rule.steps(exponent);
    }
    device::sync_block();
  }

  template <class Quantizer> __device__ void quantize_tile(const Quantizer& quantizer, const tile& values) {
    exceptional_ = 0;
#pragma unroll
    for (int j = 0; j < tile::words; ++j) {
      word codes = 0;
#pragma unroll 1
      for (int k = 0; k < per_word; ++k) {
        const coded<T> one = quantizer.code(tile::value(values.w[j], k));
        codes |= static_cast<word>(layout::whole_of(one.code)) << (8 * sizeof(T) * static_cast<unsigned>(k));
        exceptional_ |= static_cast<marks>(!one.holds) << (j * per_word + k);
      }
      code_words()[tile::first_value(j) / per_word] = codes;
      if (j % 4 == 3) device::sync_warp();  // the compiler would else spread all rows over too many registers
    }
    if (exceptional_ != 0) device::atomic_add(&temp_.exceptions, static_cast<uint32_t>(device::popc(exceptional_)));
  }

  // What this thread's codes stand for; exceptions stay.
  template <class Quantizer> __device__ void restore_tile(const Quantizer& quantizer, tile& values) {
#pragma unroll
    for (int j = 0; j < tile::words; ++j) {
      const word codes = code_words()[tile::first_value(j) / per_word];
      word restored = 0;
#pragma unroll 1
      for (int k = 0; k < per_word; ++k) {
        const bool kept = (exceptional_ >> (j * per_word + k) & 1) != 0;
        const bits_t<T> value = kept ? tile::value(values.w[j], k) : value_of(quantizer, tile::value(codes, k));
        restored |= static_cast<word>(value) << (8 * sizeof(T) * static_cast<unsigned>(k));
      }
      values.w[j] = restored;
      if (j % 4 == 3) device::sync_warp();
    }
  }
  template <class Quantizer> __device__ void restore_codes(const Quantizer& quantizer, uint32_t count) {
#pragma unroll 1
    for (int j = 0; j < tile::words; ++j) {
      if (tile::first_value(j) >= count) break;
      word& at = code_words()[tile::first_value(j) / per_word];
      const word codes = at;
      word restored = 0;
#pragma unroll 1
      for (int k = 0; k < per_word; ++k)
        restored |= static_cast<word>(value_of(quantizer, tile::value(codes, k)))
                    << (8 * sizeof(T) * static_cast<unsigned>(k));
      at = restored;
    }
  }
  template <class Quantizer> __device__ static bits_t<T> value_of(const Quantizer& quantizer, bits_t<T> whole) {
    return detail::value_of_code(quantizer, layout::code_of(whole));
  }

  __device__ void list_exceptions(const tile& values) {
    if (exceptional_ != 0) {
#pragma unroll
      for (int j = 0; j < tile::words; ++j)
#pragma unroll
        for (int k = 0; k < per_word; ++k)
          if ((exceptional_ >> (j * per_word + k) & 1) != 0) {
            const uint32_t at = device::atomic_add(&temp_.listed, 1u);
            temp_.position[at] = static_cast<uint16_t>(tile::first_value(j) + static_cast<uint32_t>(k));
            temp_.exception[at] = tile::value(values.w[j], k);
          }
    }
    device::sync_block();
  }
  __device__ void store_exception(uint32_t side, uint32_t i) {
    uint32_t rank = 0;
    for (uint32_t other = 0; other < exceptions_; ++other) rank += temp_.position[other] < temp_.position[i];
    reinterpret_cast<uint16_t*>(encoded(side) + layout::positions)[rank] = temp_.position[i];
    put(encoded(side) + layout::values(exceptions_) + rank * sizeof(T), temp_.exception[i]);
  }

  // Puts the exceptions where they belong; false where they are not in order.
  __device__ bool patch(uint32_t side, uint32_t count) {
    const auto* const position = reinterpret_cast<const uint16_t*>(encoded(side) + layout::positions);
    bool wrong = false;
    for (uint32_t i = threadIdx.x; i < exceptions_; i += Threads)
      wrong |= position[i] >= count || (i != 0 && position[i] <= position[i - 1]);
    if (device::sync_block_or(wrong)) return false;
    for (uint32_t i = threadIdx.x; i < exceptions_; i += Threads)
      put(codes() + position[i] * sizeof(T), get(encoded(side) + layout::values(exceptions_) + i * sizeof(T)));
    device::sync_block();
    return true;
  }

  __device__ word word_at(uint32_t first, uint32_t count) {
    word x = code_words()[first / per_word];
    if constexpr (per_word > 1)
      if (first + per_word > count) x = tile::clip(x, count - first);
    return x;
  }

  // Values of 8 bytes at a multiple of 4.
  __device__ static void put(std::byte* to, bits_t<T> value) {
    if constexpr (sizeof(T) == 8) {
      reinterpret_cast<uint32_t*>(to)[0] = static_cast<uint32_t>(value);
      reinterpret_cast<uint32_t*>(to)[1] = static_cast<uint32_t>(value >> 32);
    } else {
      *reinterpret_cast<bits_t<T>*>(to) = value;
    }
  }
  __device__ static bits_t<T> get(const std::byte* from) {
    if constexpr (sizeof(T) == 8)
      return reinterpret_cast<const uint32_t*>(from)[0] |
             static_cast<uint64_t>(reinterpret_cast<const uint32_t*>(from)[1]) << 32;
    else
      return *reinterpret_cast<const bits_t<T>*>(from);
  }

  TempStorage& temp_;
  uint32_t exceptions_ = 0;
  marks exceptional_ = 0;  // of this thread's values
};

}  // namespace tuck::inline TUCK_ABI
