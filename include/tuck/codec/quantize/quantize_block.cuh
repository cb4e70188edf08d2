// Quantize by one thread block, encoding: the bytes of quantize.hpp.
//
// Values are quantized where they lie in the tile; their codes go through shared memory, within each warp, so that the
// threads of a team then hold the 32 consecutive codes of a group. A team finds its group's shape, one scan over all
// groups says where each goes, and every thread packs its codes into words of its own.
#pragma once

#include <tuck/codec/block_copies.cuh>
#include <tuck/codec/quantize/quantize.hpp>
#include <tuck/codec/quantize/quantize_block_decoder.cuh>

namespace tuck::inline TUCK_ABI {

template <floating_element T, int Threads> class block_codec<quantize<T>, Threads> {
 public:
  using tile = block_tile<T, Threads>;

  // 80 registers: with 64, two values a word and values of two words spill. Shared memory has no room for more blocks
  // on most architectures anyway.
  static constexpr int blocks_a_processor = sizeof(T) == 4 ? 4 : 3;

 private:
  using word = typename tile::word;
  using scan = device::block_scan<Threads>;
  using steps = step_quantizer<T>;
  using mantissas = mantissa_quantizer<T>;
  using shape = quantize_layout::shape;

  static constexpr uint32_t group = quantize_layout::group;
  static constexpr int per_word = tile::per_word;
  static constexpr uint32_t warps = Threads / device::warp_size;
  static constexpr uint32_t own = tile::capacity / Threads;    // codes of a thread
  static constexpr uint32_t part = own < group ? own : group;  // of them in one group
  using exception_bits = std::conditional_t<(own > 32), uint64_t, uint32_t>;
  static constexpr uint32_t rounds = own / part;                                // groups of a thread
  static constexpr uint32_t team = group / part;                                // threads of a group
  static constexpr uint32_t quads = part * sizeof(T) / sizeof(device::vec128);  // of codes in one group
  static_assert(quads != 0 && rounds <= 2, "tuck: the quantize block codec takes 128 to 1024 threads");

 public:
  struct TempStorage {
    alignas(16) word codes[tile_bytes / sizeof(word)];
    alignas(16) uint32_t encoded[quantize_layout::most_bytes(tile_bytes) / 4];  // the chunk as it stands in the frame
    uint32_t largest[warps];
    uint32_t base_bits[warps];
    uint32_t exceptions_of_warp[warps];
    exception_bits exceptions[Threads];  // of each thread's tile
    typename scan::TempStorage scan_storage;
    quantize_layout::offsets at;  // uniform values, out of the way of registers
    uint32_t head;                // the chunk's first four bytes
    device::uninitialized<steps> quantizer;
  };

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp) {}

  // Leaves in the tile what decoding will give, unless the chunk is declined.
  __device__ uint32_t measure(const quantize<T>& codec, tile& values) {
    if (!codec.is_usable()) return declined;
    if (threadIdx.x == 0) temp_.head = 0;
    if (codec.pointwise()) return measure_with(codec, codec.mantissas(), values);
    uint32_t exponent = 0;
    if constexpr (sizeof(T) == 2) exponent = largest_exponent(values);
    if (threadIdx.x == 0) {
      temp_.head = exponent << 8;
      temp_.quantizer.get() = codec.steps(exponent);
    }
    device::sync_block();
    return measure_with(codec, temp_.quantizer.get(), values);
  }

  __device__ void pack(const quantize<T>& codec, const tile& values, bytes out) {
    if (threadIdx.x == 0) temp_.encoded[0] = temp_.head;
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      pack_tables(r);
      if (codec.pointwise()) {
        const word base = find_base(r);
        if (own_[r].non_zeros != 0) pack_codes<true>(r, base);
      } else {
        if (own_[r].non_zeros != 0) pack_codes<false>(r, 0);
      }
    }
    if (temp_.head >> 16 != 0) pack_exceptions(values);
    device::sync_block();
    copy_from_shared<Threads>(out, reinterpret_cast<const std::byte*>(temp_.encoded), temp_.at.end);
  }

 private:
  // -- values to codes -------------------------------------------------------------------------------------------

  // The biased exponent of the chunk's largest finite value.
  __device__ uint32_t largest_exponent(const tile& values) {
    using format = float_format<T>;
    uint32_t largest = 0;
#pragma unroll
    for (int j = 0; j < tile::words; ++j)
#pragma unroll
      for (int k = 0; k < per_word; ++k) {
        const uint32_t magnitude = format::magnitude(tile::value(values.w[j], k));
        if (magnitude < format::infinity && magnitude > largest) largest = magnitude;
      }
    return block_max(temp_.largest, largest) >> format::mantissa_bits;
  }

  // With a barrier; `of_warp` is used for nothing else before the next one.
  __device__ static uint32_t block_max(uint32_t (&of_warp)[warps], uint32_t mine) {
    mine = device::warp_max(mine);
    if (device::lane_id() == 0) of_warp[device::warp_id()] = mine;
    device::sync_block();
    uint32_t most = 0;
#pragma unroll
    for (uint32_t i = 0; i < warps; ++i) most = of_warp[i] > most ? of_warp[i] : most;
    return most;
  }

  // Where 16 bytes of codes lie, so that neither rows of 32 words nor a thread's own codes meet in one bank.
  __device__ static constexpr uint32_t place(uint32_t quad) { return quad ^ (quad / 8 % 8); }

  template <class Quantizer> __device__ void quantize_tile(const Quantizer& quantizer, tile& values) {
    constexpr uint32_t words_a_quad = sizeof(device::vec128) / sizeof(word);
    exception_bits exceptions = 0;
#pragma unroll
    for (int j = 0; j < tile::words; ++j) {
      word codes = 0, restored = 0;
#pragma unroll 1
      for (int k = 0; k < per_word; ++k) {
        const coded<T> one = quantizer.code(tile::value(values.w[j], k));
        codes |= static_cast<word>(one.code) << (8 * sizeof(T) * static_cast<unsigned>(k));
        restored |= static_cast<word>(one.restored) << (8 * sizeof(T) * static_cast<unsigned>(k));
        exceptions |= static_cast<exception_bits>(!one.holds) << (j * per_word + k);
      }
      const uint32_t index = tile::first_value(j) / per_word;
      temp_.codes[place(index / words_a_quad) * words_a_quad + index % words_a_quad] = codes;
      values.w[j] = restored;
      // The last one publishes the codes to the team; without the others the compiler would spread all rows over too
      // many registers.
      if (j % 4 == 3 || j + 1 == tile::words) device::sync_warp();
    }
    temp_.exceptions[threadIdx.x] = exceptions;
  }

  // -- codes to shapes -------------------------------------------------------------------------------------------

  // The thread's place in the team of its r-th group.
  __device__ static uint32_t rank() { return threadIdx.x % team; }
  __device__ static uint32_t group_of(uint32_t r) { return threadIdx.x / team * rounds + r; }

  // Calls visit(i, code) for this thread's codes of its r-th group, i < part.
  template <class Visit> __device__ void for_codes(uint32_t r, const Visit& visit) const {
    const auto* const from = reinterpret_cast<const device::vec128*>(temp_.codes);
#pragma unroll 1
    for (uint32_t q = 0; q < quads; ++q) {
      const device::vec128 four = from[place((threadIdx.x * rounds + r) * quads + q)];
      constexpr uint32_t codes_a_quad = sizeof(device::vec128) / sizeof(T);
#pragma unroll
      for (uint32_t i = 0; i < codes_a_quad; ++i) {
        bits_t<T> code;
        if constexpr (sizeof(T) == 8)
          code = four.w[2 * i] | static_cast<uint64_t>(four.w[2 * i + 1]) << 32;
        else
          code = static_cast<bits_t<T>>(four.w[i / per_word] >> (8 * sizeof(T) * (i % per_word)));
        visit(q * codes_a_quad + i, code);
      }
    }
  }

  // Combines over the team; all its threads get the result.
  template <class U, class Combine> __device__ static U over_team(U x, const Combine& combine) {
#pragma unroll
    for (uint32_t lanes = team / 2; lanes > 0; lanes /= 2) x = combine(x, device::shfl_xor(x, static_cast<int>(lanes)));
    return x;
  }
  __device__ static uint32_t or_over_team(uint32_t x) {
    return over_team(x, [](uint32_t a, uint32_t b) { return a | b; });
  }

  template <class Quantizer>
  __device__ uint32_t measure_with(const quantize<T>& codec, const Quantizer& quantizer, tile& values) {
    constexpr bool pointwise = std::is_same_v<Quantizer, mantissas>;
    constexpr uint32_t too_wide = 1 << 8;  // as base bits
    quantize_tile(quantizer, values);
    uint32_t all_codes[rounds], delta_width[rounds], base_bits = 0;
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      all_codes[r] = 0;
      delta_width[r] = quantize_layout::no_delta;
      uint32_t non_zeros = 0;
      if constexpr (pointwise) {
        const word base = find_base(r);
        bool fits = true;
        for_codes(r, [&](uint32_t i, bits_t<T> code) {
          const bits_t<T> above = above_base(code, base);
          fits &= above >> 1 >> Quantizer::code_bits == 0;
          all_codes[r] |= static_cast<uint32_t>(above);
          non_zeros |= (code != 0 ? 1u : 0u) << i;
        });
        const uint32_t own_bits = fits ? bit_width(base) : too_wide;
        base_bits = own_bits > base_bits ? own_bits : base_bits;
      } else {
        for_codes(r, [&](uint32_t i, bits_t<T> code) {
          all_codes[r] |= static_cast<uint32_t>(code);
          non_zeros |= (code != 0 ? 1u : 0u) << i;
        });
        if (codec.predicts()) {
          uint32_t first;
          delta_width[r] = width_of_differences(r, first);
          if (rank() == 0 && bit_width(first) > base_bits) base_bits = bit_width(first);
        }
      }
      all_codes[r] = or_over_team(all_codes[r]);
      own_[r].non_zeros = or_over_team(non_zeros << (rank() * part % group));
      // A group of zeros counts for nothing, and its base is 0 anyway.
    }
    base_bits = block_max(temp_.base_bits, base_bits);
    if (base_bits >= too_wide) return declined;
    return lay_out(all_codes, delta_width, base_bits, pointwise, values.count);
  }

  // One less than the smallest key of the group, 0 where it has none.
  __device__ word find_base(uint32_t r) const {
    word smallest_less_one = ~word{0};
    for_codes(r, [&](uint32_t, bits_t<T> code) {
      const word less_one = static_cast<word>(code >> 1) - 1;  // of none: the largest
      smallest_less_one = less_one < smallest_less_one ? less_one : smallest_less_one;
    });
    smallest_less_one = over_team(smallest_less_one, [](word a, word b) { return a < b ? a : b; });
    return smallest_less_one == ~word{0} ? 0 : smallest_less_one;
  }

  // A code of pointwise groups as it is stored.
  __device__ static bits_t<T> above_base(bits_t<T> code, word base) {
    return static_cast<bits_t<T>>(code - (code >> 1 != 0 ? base << 1 : 0));
  }

  // no_delta where there is a -0.0. `first_code` is that of the thread.
  __device__ uint32_t width_of_differences(uint32_t r, uint32_t& first_code) const {
    using namespace quantize_layout;
    uint32_t differences = 0, first = 0, last = 0;
    bool negative_zero = false;
    for_codes(r, [&](uint32_t i, bits_t<T> wide) {
      const auto code = static_cast<uint32_t>(wide);
      negative_zero |= code == 1;
      if (i == 0)
        first = code;
      else
        differences |= zigzag(whole_of(code) - whole_of(last));
      last = code;
    });
    if constexpr (team > 1) {
      const uint32_t before = device::shfl_up(last, 1u);
      if (rank() != 0) differences |= zigzag(whole_of(first) - whole_of(before));
    }
    first_code = first;
    // One more bit on top says that there is a -0.0.
    differences = or_over_team(differences | (negative_zero ? 1u << 31 : 0));
    return differences >> 31 != 0 ? no_delta : bit_width(differences);
  }

  // Chooses the shapes and finds the place of everything; the size of the chunk, or `declined`.
  __device__ uint32_t lay_out(const uint32_t (&all_codes)[rounds], const uint32_t (&delta_width)[rounds],
                              uint32_t base_bits, bool pointwise, uint32_t count) {
    using namespace quantize_layout;
    // One scan of three counts and, of which only the sum matters, the exceptions:
    // [63:48] exceptions / [47:36] groups that are not zero / [35:24] sparse groups / [23:0] bits of payload
    uint64_t counts = static_cast<uint64_t>(device::popc(temp_.exceptions[threadIdx.x])) << 48;
    shape form[rounds];
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint32_t non_zeros = popcount(own_[r].non_zeros);
      form[r] = non_zeros != 0 ? choose(all_codes[r], non_zeros, delta_width[r], base_bits) : shape{};
      if (rank() == 0 && non_zeros != 0)
        counts += uint64_t{1} << 36 | uint64_t{form[r].is_sparse()} << 24 |
                  form[r].payload_bits(non_zeros, base_bits, pointwise);
    }
    uint64_t total;
    uint64_t before = scan::exclusive_sum(temp_.scan_storage, counts, total);
    if constexpr (team > 1)  // what precedes the group, not the thread
      before = device::shfl(before, static_cast<int>(device::lane_id() / team * team));
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      own_[r].place = (static_cast<uint32_t>(before) & 0xffffffu) | static_cast<uint32_t>(form[r].byte) << 24;
      own_[r].tables = static_cast<uint32_t>(before >> 24) & 0xffffffu;
      if (const uint32_t non_zeros = popcount(own_[r].non_zeros); rounds > 1 && non_zeros != 0)
        before += uint64_t{1} << 36 | uint64_t{form[r].is_sparse()} << 24 |
                  form[r].payload_bits(non_zeros, base_bits, pointwise);
    }
    const auto exceptions = static_cast<uint32_t>(total >> 48);
    const offsets at = offsets_of(ceil_div(count, group), static_cast<uint32_t>(total >> 36) & 0xfffu,
                                  static_cast<uint32_t>(total >> 24) & 0xfffu, static_cast<uint32_t>(total) & 0xffffffu,
                                  exceptions, sizeof(T));
    if (at.end > most_bytes(count * uint32_t{sizeof(T)})) return declined;
    if (threadIdx.x == 0) {
      temp_.at = at;
      temp_.head |= base_bits | exceptions << 16;
    }
    for (uint32_t i = threadIdx.x; i < round_up_pow2(at.end, 4) / 4; i += Threads) temp_.encoded[i] = 0;
    return at.end;
  }

  // -- shapes to bytes -------------------------------------------------------------------------------------------

  // What the r-th group of each thread has in front of the payload.
  __device__ void pack_tables(uint32_t r) {
    using namespace quantize_layout;
    auto* const encoded = reinterpret_cast<std::byte*>(temp_.encoded);
    const bool speaks = rank() == 0 && own_[r].non_zeros != 0;
    if (speaks) {
      encoded[temp_.at.shapes + (own_[r].tables >> 12)] = static_cast<std::byte>(own_[r].form().byte);
      if (own_[r].form().is_sparse()) temp_.encoded[temp_.at.masks / 4 + (own_[r].tables & 0xfffu)] = own_[r].non_zeros;
    }
    // A warp has 4 to 64 groups, those of a round in at most two words.
    const uint32_t first_word = device::warp_id() * own / 32;
#pragma unroll
    for (uint32_t w = first_word; w < first_word + rounds; ++w) {
      const uint32_t bits = device::warp_or(speaks && group_of(r) / 32 == w ? 1u << group_of(r) % 32 : 0);
      if (device::lane_id() == 0 && bits != 0) device::atomic_or(&temp_.encoded[non_zero_at / 4 + w], bits);
    }
  }

  // Bits into the zeroed words of the chunk, by one thread among several: words that are its own are stored, the first
  // and the last may be shared.
  class shared_bits {
   public:
    __device__ shared_bits(uint32_t* words, uint32_t bit)
        : to_(words + bit / 32), fill_(bit % 32), shares_(bit % 32 != 0) {}
    __device__ void put(uint32_t x, uint32_t width) {
      pending_ |= uint64_t{x} << fill_;
      fill_ += width;
      if (fill_ < 32) return;
      if (shares_)
        device::atomic_or(to_, static_cast<uint32_t>(pending_));
      else
        *to_ = static_cast<uint32_t>(pending_);
      shares_ = false;
      ++to_;
      pending_ >>= 32;
      fill_ -= 32;
    }
    __device__ void finish() {
      if (fill_ != 0) device::atomic_or(to_, static_cast<uint32_t>(pending_));
    }

   private:
    uint32_t* to_;
    uint64_t pending_ = 0;
    uint32_t fill_;
    bool shares_;
  };

  template <bool Pointwise> __device__ void pack_codes(uint32_t r, word base) {
    using namespace quantize_layout;
    const shape form = own_[r].form();
    const uint32_t width = form.width(), base_bits = temp_.head & 255, mine = rank() * part;
    uint32_t bit = own_[r].payload();
    if (rank() != 0) {
      bit += Pointwise || form.is_delta() ? base_bits : 0;
      const uint32_t before = form.is_sparse() ? popcount(own_[r].non_zeros & low_mask(mine)) : mine;
      bit += (before - (form.is_delta() ? 1 : 0)) * width;
    }
    shared_bits out(temp_.encoded + temp_.at.payload / 4, bit);
    if constexpr (Pointwise) {
      if (rank() == 0) {
        out.put(static_cast<uint32_t>(base), base_bits < 32 ? base_bits : 32);
        if constexpr (sizeof(T) == 8)
          if (base_bits > 32) out.put(static_cast<uint32_t>(base >> 32), base_bits - 32);
      }
    }
    if (!Pointwise && form.is_delta()) {
      uint32_t last = last_of_neighbour(r);
      for_codes(r, [&](uint32_t i, bits_t<T> wide) {
        const auto code = static_cast<uint32_t>(wide);
        if (i == 0 && rank() == 0)
          out.put(code, base_bits);
        else
          out.put(zigzag(whole_of(code) - whole_of(last)), width);
        last = code;
      });
    } else {
      const uint32_t unsigned_shift = form.is_signed() ? 0 : 1;
      for_codes(r, [&](uint32_t, bits_t<T> wide) {
        auto code = static_cast<uint32_t>(wide);
        if constexpr (Pointwise) code = static_cast<uint32_t>(above_base(wide, base));
        if (!form.is_sparse() || code != 0) out.put(code >> unsigned_shift, width);
      });
    }
    out.finish();
  }

  // The code before this thread's first one.
  __device__ uint32_t last_of_neighbour(uint32_t r) const {
    constexpr uint32_t words_a_quad = sizeof(device::vec128) / sizeof(word);
    const uint32_t value = (threadIdx.x * rounds + r) * part;
    if (rank() == 0) return 0;
    const uint32_t index = (value - 1) / per_word;
    const word last = temp_.codes[place(index / words_a_quad) * words_a_quad + index % words_a_quad];
    return static_cast<uint32_t>(tile::value(last, per_word - 1));
  }

  // Positions ascend with the warp, the row, the lane and the place in the word.
  __device__ void pack_exceptions(const tile& values) {
    const exception_bits exceptions = temp_.exceptions[threadIdx.x];
    const uint32_t of_warp = device::warp_sum(static_cast<uint32_t>(device::popc(exceptions)));
    if (device::lane_id() == 0) temp_.exceptions_of_warp[device::warp_id()] = of_warp;
    device::sync_block();
    if (of_warp == 0) return;
    uint32_t next = 0;
    for (uint32_t i = 0; i < device::warp_id(); ++i) next += temp_.exceptions_of_warp[i];
    // Through shared memory, where the warp's codes were: registers have no index.
    word* const of_tile = temp_.codes + tile::first_dealt() / per_word;
#pragma unroll
    for (int j = 0; j < tile::words; ++j) of_tile[j * device::warp_size] = values.w[j];
    auto* const encoded = reinterpret_cast<std::byte*>(temp_.encoded);
    auto* const positions = reinterpret_cast<uint16_t*>(encoded + temp_.at.positions);
    const uint32_t below = low_mask(device::lane_id());
    constexpr int lane_values = tile::lane_values;
#pragma unroll 1
    for (int r = 0; r < tile::rows; ++r) {
      const auto mine = static_cast<uint32_t>(exceptions >> (r * lane_values)) & low_mask(lane_values);
      uint32_t of_row = 0, at = next;
#pragma unroll
      for (int k = 0; k < lane_values; ++k) {
        const unsigned lanes = device::ballot((mine >> k & 1) != 0);
        of_row += popcount(lanes);
        at += popcount(lanes & below);
      }
      next += of_row;
#pragma unroll 1
      for (int k = 0; k < lane_values; ++k)
        if ((mine >> k & 1) != 0) {
          const int j = r * tile::row_words + k / per_word;
          positions[at] = static_cast<uint16_t>(tile::first_value(j) + static_cast<uint32_t>(k % per_word));
          put(encoded + temp_.at.values, at++, tile::value(of_tile[j * device::warp_size], k % per_word));
        }
    }
  }

  // The i-th exception's value. 8-byte values are on a multiple of 4 only.
  __device__ static void put(std::byte* values, uint32_t i, bits_t<T> value) {
    if constexpr (sizeof(T) == 8) {
      reinterpret_cast<uint32_t*>(values)[2 * i] = static_cast<uint32_t>(value);
      reinterpret_cast<uint32_t*>(values)[2 * i + 1] = static_cast<uint32_t>(value >> 32);
    } else {
      reinterpret_cast<bits_t<T>*>(values)[i] = value;
    }
  }

  // What a thread knows of its groups between measure and pack.
  struct own_group {
    uint32_t non_zeros;  // a bit a code
    uint32_t place;      // [31:24] shape, [23:0] where its payload begins, in bits
    uint32_t tables;     // groups before it: [23:12] not zero, [11:0] sparse

    __device__ shape form() const { return {static_cast<uint8_t>(place >> 24)}; }
    __device__ uint32_t payload() const { return place & 0xffffffu; }
  };

  TempStorage& temp_;
  own_group own_[rounds];
};

}  // namespace tuck::inline TUCK_ABI
