// Splits a chunk into its parts and counts their symbols on one thread block. layout.hpp describes the parts.
#pragma once

#include <tuck/codec/huffman/parts.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// Splits a row in shared memory, at a multiple of 16. The planes below the upper one overwrite the values, and the
// edges the side streams.
template <element T, int Threads, uint32_t RowBytes> class block_plane_parts : block_sizes<T, Threads> {
  using sizes = block_sizes<T, Threads>;
  using sizes::byte_parts, sizes::may_have_heads, sizes::most_values, sizes::warps, sizes::width;
  using typename sizes::four;
  using typename sizes::scan;
  static constexpr uint32_t flag_words = RowBytes / 32 + 1;
  // Values and side streams together take up to RowBytes. Each missing value frees its upper byte, which is enough for
  // the flags of as many bytes of side streams.
  static constexpr uint32_t upper_words = most_values / 4 + (RowBytes - tile_bytes) / 32 + 8;
  static constexpr uint32_t rounds = most_values / 4 / Threads;  // each thread has four values per round

 public:
  struct TempStorage {
    uint32_t upper[width > 1 ? upper_words : flag_words];  // upper bytes, all or of heads; then flags
    uint32_t heads[may_have_heads ? most_values / 32 : 1];
    alignas(16) uint32_t nibble_codes[nibble_parts][16];  // counts, then codes
    alignas(16) uint32_t byte_codes[byte_parts][256];
    typename scan::TempStorage scan_storage;
    uint32_t seen;  // rotated: whether any bit 0 is set; otherwise the number of planes that are not 0
    uint32_t sampled_heads;
    uint32_t worth;  // one bit per plane below the upper plane: may coding it pay?
    uint32_t edges;
    device::uninitialized<shape> of_chunk;
  };

  __device__ block_plane_parts(TempStorage& temp, std::byte* row) : temp_(temp), row_(row) {}

  // Splits the row and counts the symbols of all parts that may be coded. The last warp converts the side streams.
  __device__ void split(const row_sections& sections) {
    sides_ = sections.sides;
    clear();
    const uint32_t bytes = sections.list.size(0);
    if (threadIdx.x < 4 * width - bytes % (4 * width)) row_[bytes + threadIdx.x] = std::byte{};  // a whole quad
    if (threadIdx.x == 0) temp_.of_chunk.get() = shape{width, bytes / width, padded_sides(sections.list)};
    device::sync_block();
    shape s = temp_.of_chunk.get();
    values_ = s.values;
    bool looks_for_heads = false;
    if constexpr (width > 1) looks_for_heads = look(s);
    const uint32_t lane = device::lane_id();
    // A warp has consecutive quads.
    const uint32_t last = bytes / (4 * width), first = device::warp_id() * (rounds * device::warp_size) + lane;
    uint32_t carry = 256;  // the byte before this warp's, or 256 if there is none
    if (looks_for_heads && first - lane != 0 && 4 * (first - lane) < s.values)
      carry = planes(s, first - lane - 1).w[width - 1] >> 24;
    four own[rounds];
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint32_t q = first + r * device::warp_size;
      own[r] = planes(s, q < last ? q : last);
    }
    if constexpr (width > 1) {
      device::sync_block();  // planes overwrite values
      keep_lower(s, first, own);
    }
    uint32_t upper[rounds], found = 0;
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) upper[r] = own[r].w[width - 1];
    if (looks_for_heads) found = find_heads(s.values, first, upper, carry, temp_.heads);
    if (s.sides != 0 && device::warp_id() == warps - 1) {
      const uint32_t edges = sides_to_edges(sides(), s.sides, flags());
      if (lane == 0) temp_.edges = edges;
    }
    uint32_t all = 0, before = scan::exclusive_sum(temp_.scan_storage, found, all);  // has a barrier
    before = device::shfl(before, 0);
    const bool keeps = looks_for_heads && wants_heads(all, s.values);
    if (keeps)
      keep_heads(s.values, first, upper, before, temp_.heads, temp_.upper, temp_.byte_codes[0]);
    else
      keep_all(s, first, upper);
    s.header = shape::make_header(keeps, s.rotated() && temp_.seen == 0, s.rotated(), s.dropped(), keeps ? all : 0);
    s.edges = temp_.edges;
    if (threadIdx.x == 0) temp_.of_chunk.get() = s;
    if (keeps && threadIdx.x < (0 - all) % 4) reinterpret_cast<uint8_t*>(temp_.upper)[all + threadIdx.x] = 0;
    if (s.sides == 0 && !keeps) return;
    device::sync_block();
    count_nibbles(s);
  }

  // Returns whether the sample showed that coding part p does not pay.
  __device__ bool is_hopeless(uint32_t p) const { return p > upper_part && (temp_.worth >> (p - upper_part) & 1) == 0; }

  // The words and codes of parts.
  __device__ uint32_t* sides() { return reinterpret_cast<uint32_t*>(row_ + sides_); }
  __device__ uint32_t* flags() { return temp_.upper + (width > 1 ? (values_ + 3) / 4 : 0); }
  __device__ uint32_t* upper() { return width > 1 ? temp_.upper : lower(0); }
  __device__ const uint32_t* part_words(uint32_t p) {
    return p == 0            ? flags()
           : p == 1          ? sides()
           : p == 2          ? temp_.heads
           : p == upper_part ? upper()
                             : lower(p - upper_part);
  }
  __device__ uint32_t* codes(uint32_t p) {
    return p < nibble_parts ? temp_.nibble_codes[p] : temp_.byte_codes[p - upper_part];
  }

 private:
  __device__ void clear() {
    if (threadIdx.x == 0) temp_.seen = temp_.edges = temp_.sampled_heads = temp_.worth = 0;
    for (uint32_t i = threadIdx.x; i < nibble_parts * 16; i += Threads) (&temp_.nibble_codes[0][0])[i] = 0;
    for (uint32_t i = threadIdx.x; i < byte_parts * 256; i += Threads) (&temp_.byte_codes[0][0])[i] = 0;
  }
  // Returns plane k below the upper plane, which overwrites the values. For 1-byte values, returns the values.
  __device__ uint32_t* lower(uint32_t k) {
    return reinterpret_cast<uint32_t*>(row_) + (width > 1 ? (k - 1) * ((values_ + 3) / 4) : 0);
  }
  __device__ four planes(const shape& s, uint32_t q) const {
    four x = four::load(row_, q);
    x.to_planes(sizes::rotation(s));
    return x;
  }

  // Looks at the sample. Decides whether to rotate, which planes to drop and which to count. Returns whether to look
  // for heads.
  __device__ bool look(shape& s) {
    constexpr uint32_t run = sample_run / 4, stride = sample_stride<width> / 4;  // quads
    static_assert(run == device::warp_size && tile_bytes / 4096 * device::warp_size <= Threads);
    const uint32_t lane = device::lane_id(), q = device::warp_id() * stride + lane;
    const bool has = 4 * q < s.values && q < most_values / 4;
    const uint32_t left = has ? s.values - 4 * q : 0;
    int votes = 0;
    if (has) {
      const four values = four::load(row_, q);  // with zeros past the last value
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) votes += rotation_vote(values.value(k));
    }
    const bool rotates = static_cast<int>(scan::sum(temp_.scan_storage, static_cast<uint32_t>(votes))) > 0;
    const uint32_t dropped = rotates ? 0 : find_dropped(s.values);
    s.header = shape::make_header(false, false, rotates, dropped, 0);
    four x{};
    if (has) {
      x = planes(s, q);
#pragma unroll
      for (uint32_t k = 1; k < byte_parts; ++k)
        if (k < s.planes()) add(temp_.byte_codes[k], x.w[width - 1 - k], left);
    }
    const uint32_t upper = x.w[width - 1], before = device::shfl_up(upper, 1) >> 24;
    uint32_t nibble = non_zero_nibble(upper ^ (upper << 8 | before));
    if (left < 4) nibble &= low_mask(left);
    if (lane == 0) nibble &= ~1u;
    const uint32_t heads = device::warp_sum(popcount(nibble));
    if (lane == 0 && heads != 0) device::atomic_add(&temp_.sampled_heads, heads);
    device::sync_block();
    const uint32_t last = s.values % sample_stride<width>;  // values from the last run of the sample on
    const uint32_t runs = s.values / sample_stride<width> + (last != 0);
    const uint32_t sampled = s.values / sample_stride<width> * sample_run + (last < sample_run ? last : sample_run);
#pragma unroll 1
    for (uint32_t k = 1 + device::warp_id(); k < byte_parts; k += warps) {
      uint32_t squares = 0;
      for (uint32_t i = lane; i < 256; i += device::warp_size)
        squares += temp_.byte_codes[k][i] * temp_.byte_codes[k][i];
      squares = device::warp_sum(squares);
      if (lane == 0 && k < s.planes() && may_pay(sampled, squares)) device::atomic_or(&temp_.worth, 1u << k);
    }
    device::sync_block();
    return may_want_heads(temp_.sampled_heads, sampled - runs);
  }

  // Returns the number of upper planes that are 0 in all values.
  __device__ uint32_t find_dropped(uint32_t values) {
    four any{};
#pragma unroll 1
    for (uint32_t q = threadIdx.x; 4 * q < values; q += Threads) {
      const four x = four::load(row_, q);
#pragma unroll
      for (uint32_t k = 0; k < width; ++k) any.w[k] |= x.w[k];
    }
    any.to_planes(0);
    uint32_t used = 1;
#pragma unroll
    for (uint32_t k = 1; k < width; ++k)
      if (any.w[k] != 0) used = k + 1;
    used = device::warp_max(used);
    if (device::lane_id() == 0) device::atomic_max(&temp_.seen, used);
    device::sync_block();
    return width - temp_.seen;
  }

  // Stores the planes below the upper plane. Counts the bytes of planes that may pay, except those of the sample, which
  // are counted already.
  __device__ void keep_lower(const shape& s, uint32_t first, const four (&own)[rounds]) {
    const uint32_t mine = rounds_of(s, first);
    uint32_t any = 0;
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) any |= own[r].w[0];
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      if (r >= mine) break;
#pragma unroll
      for (uint32_t k = 1; k < width; ++k)
        lower(k)[first + r * device::warp_size] = own[r].w[width - 1 - k];  // dropped planes too, after the others
    }
#pragma unroll 1
    for (uint32_t left = temp_.worth; left != 0; left &= left - 1) {
      const uint32_t k = lowest(left);
#pragma unroll 1
      for (uint32_t q = first; q < first + mine * device::warp_size; q += device::warp_size)
        if (q % (sample_stride<width> / 4) >= sample_run / 4) add(temp_.byte_codes[k], lower(k)[q], s.values - 4 * q);
    }
    any = device::warp_or(any & 0x01010101);
    if (s.rotated() && any != 0 && device::lane_id() == 0) device::atomic_or(&temp_.seen, 1u);
  }
  // Returns how many quads a thread has whose first one is `first`.
  __device__ static uint32_t rounds_of(const shape& s, uint32_t first) {
    const uint32_t quads = (s.values + 3) / 4, left = first < quads ? quads - first : 0;
    return left < rounds * device::warp_size ? ceil_div(left, uint32_t{device::warp_size}) : rounds;
  }
  __device__ void keep_all(const shape& s, uint32_t first, const uint32_t (&own)[rounds]) {
    const uint32_t padding = (0 - s.values) % 4, mine = rounds_of(s, first);
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      if (r >= mine) break;
      if (width > 1) temp_.upper[first + r * device::warp_size] = own[r];
      add(temp_.byte_codes[0], own[r], 4);
    }
    if (threadIdx.x == 0 && padding != 0) device::atomic_add(&temp_.byte_codes[0][0], 0 - padding);
  }

  // Counts the symbols of `Bits` bits in the lowest `left` bytes of a word, at most four.
  template <uint32_t Bits = 8> __device__ static void add(uint32_t* counts, uint32_t word, uint32_t left) {
    const device::shared_words at(counts);
    if (left >= 4) return detail::unrolled<32 / Bits>([&]<int K>() { at.count<Bits * K, Bits>(word); });
    for (; left != 0; --left, word >>= 8) detail::unrolled<8 / Bits>([&]<int K>() { at.count<Bits * K, Bits>(word); });
  }
  __device__ void count_nibbles(const shape& s) {
#pragma unroll 1
    for (uint32_t p = 0; p < nibble_parts; ++p) {
      const uint32_t size = s.bytes(p);
#pragma unroll 1
      for (uint32_t i = threadIdx.x; 4 * i < size; i += Threads)
        add<4>(temp_.nibble_codes[p], part_words(p)[i], size - 4 * i);
    }
  }

  TempStorage& temp_;
  std::byte* row_;
  uint32_t sides_ = 0, values_ = 0;
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
