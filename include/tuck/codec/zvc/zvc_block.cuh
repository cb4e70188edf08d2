// ZVC by one thread block: the bytes of zvc.hpp.
//
// A ballot over 32 lanes gives the mask of a window (of several windows, interleaved, where a word holds several
// values); one scan over the popcounts of all windows says where each window's values go; they are gathered in
// shared memory and leave it 16 bytes at a time.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/zvc/zvc.hpp>

namespace tuck::inline TUCK_ABI {

template <element T, int Threads> struct block_codec<zvc<T>, Threads> {
  using tile = block_tile<T, Threads>;
  using word = typename tile::word;
  using scan = device::block_scan<Threads>;

  static constexpr int per_word = tile::per_word;
  static constexpr uint32_t windows = tile::capacity / zvc<T>::window;
  static constexpr uint32_t warp_windows = windows / (Threads / device::warp_size);
  // Windows that a lane is in charge of between the ballots and the scan.
  static constexpr uint32_t own = ceil_div(warp_windows, uint32_t{device::warp_size});
  static_assert(own <= per_word, "tuck: the ZVC block codec takes 128 threads or more");

  struct TempStorage {
    alignas(16) std::byte encoded[tile_bytes];  // the chunk as it stands in the frame; it is less than raw
    uint16_t offset[windows];                   // values before each window
    typename scan::TempStorage scan_storage;
  };

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t measure(const zvc<T>&, const tile& values) {
    uint32_t mine[own];
    ballots_to_masks(values, mine);
    const uint32_t used = ceil_div(values.count, zvc<T>::window);
    const uint32_t first = device::warp_id() * warp_windows + device::lane_id() * own;
    const bool in_charge = device::lane_id() * own < warp_windows;
    uint32_t counted = 0;
    for (uint32_t i = 0; i < own; ++i) counted += in_charge ? popcount(mine[i]) : 0;
    uint32_t total;
    uint32_t before = scan::exclusive_sum(temp_.scan_storage, counted, total);
    if (in_charge)
      for (uint32_t i = 0; i < own && first + i < used; ++i) {
        masks()[first + i] = mine[i];
        temp_.offset[first + i] = static_cast<uint16_t>(before);
        before += popcount(mine[i]);
      }
    size_ = 4 * used + total * uint32_t{sizeof(T)};
    return size_;
  }

  __device__ void pack(const zvc<T>& codec, const tile& values, bytes out) {
    for (uint32_t i = size_ + threadIdx.x; i < out.size(); i += Threads) temp_.encoded[i] = std::byte{};
    assemble(codec, values);
    device::sync_block();
    copy_from_shared<Threads>(out, temp_.encoded);
  }

  template <class Sink> __device__ status decode(const zvc<T>& codec, const_bytes encoded, uint32_t count, Sink& sink) {
    if (encoded.size() > sizeof temp_.encoded) return status::bad_payload;
    copy_to_shared<Threads>(temp_.encoded, encoded);
    device::sync_block();
    return decode_assembled(codec, 0, static_cast<uint32_t>(encoded.size()), count, sink);
  }

  // -- for chains
  __device__ uint32_t side_bytes(uint32_t count) const { return zvc<T>::mask_bytes(count); }
  __device__ std::byte* encoded(uint32_t) { return temp_.encoded; }

  __device__ void assemble(const zvc<T>&, const tile& values) {
    std::byte* const packed = temp_.encoded + zvc<T>::mask_bytes(values.count);
    // A thread's words are in windows per_word apart, at the same bits of each.
    const uint32_t window = tile::first_value() / zvc<T>::window;
    const uint32_t below = low_mask(tile::first_value() % zvc<T>::window);
#pragma unroll
    for (int j = 0; j < tile::words; ++j) {
      if (values.w[j] == 0) continue;
      const uint32_t there = window + static_cast<uint32_t>(j * per_word);
      uint32_t at = temp_.offset[there] + popcount(masks()[there] & below);
#pragma unroll
      for (int k = 0; k < per_word; ++k) {
        const bits_t<T> value = tile::value(values.w[j], k);
        if (value != 0) put(packed, at++, value);
      }
    }
  }

  template <class Sink>
  __device__ status decode_assembled(const zvc<T>&, uint32_t, uint32_t size, uint32_t count, Sink& sink) {
    const uint32_t used = ceil_div(count, zvc<T>::window);
    if (size < 4 * used || masks_to_offsets(count) != size) return status::bad_payload;
    device::sync_block();
    const std::byte* const packed = temp_.encoded + 4 * used;
    const uint32_t window = tile::first_value() / zvc<T>::window, bit = tile::first_value() % zvc<T>::window;
#pragma unroll 2
    for (int j = 0; j < tile::words; ++j) {
      const uint32_t first = tile::first_value(j), there = window + static_cast<uint32_t>(j * per_word);
      if (first >= count) break;
      const uint32_t mask = masks()[there];
      uint32_t at = temp_.offset[there] + popcount(mask & low_mask(bit));
      typename tile::word x = 0;
#pragma unroll
      for (int k = 0; k < per_word; ++k)
        if ((mask >> (bit + static_cast<uint32_t>(k)) & 1) != 0)
          x |= static_cast<typename tile::word>(get(packed, at++)) << (8 * sizeof(T) * static_cast<unsigned>(k));
      sink(first, x);
    }
    return status::ok;
  }

 private:
  __device__ uint32_t* masks() { return reinterpret_cast<uint32_t*>(temp_.encoded); }

  // The masks of the `own` windows that this lane is in charge of.
  __device__ static void ballots_to_masks(const tile& values, uint32_t (&mine)[own]) {
    // A warp's j-th words hold windows j * per_word and on. The lane in charge of them keeps their ballots.
    uint32_t kept[per_word] = {};
#pragma unroll
    for (int j = 0; j < tile::words; ++j)
#pragma unroll
      for (int k = 0; k < per_word; ++k) {
        const unsigned ballot = device::ballot(tile::value(values.w[j], k) != 0);
        if (device::lane_id() * own / per_word == static_cast<unsigned>(j)) kept[k] = ballot;
      }
    constexpr uint32_t lanes = device::warp_size / per_word;  // that hold one window
    for (uint32_t i = 0; i < own; ++i) {
      const uint32_t part = (device::lane_id() * own + i) % per_word;
      mine[i] = 0;
#pragma unroll
      for (int k = 0; k < per_word; ++k) mine[i] |= spread(kept[k] >> (part * lanes) & low_mask(lanes)) << k;
    }
  }

  // Bit i to bit i * per_word.
  __device__ static uint32_t spread(uint32_t x) {
    if constexpr (per_word == 2) {
      x = (x | x << 8) & 0x00ff00ffu;
      x = (x | x << 4) & 0x0f0f0f0fu;
      x = (x | x << 2) & 0x33333333u;
      x = (x | x << 1) & 0x55555555u;
    }
    if constexpr (per_word == 4) {
      x = (x | x << 12) & 0x000f000fu;
      x = (x | x << 6) & 0x03030303u;
      x = (x | x << 3) & 0x11111111u;
    }
    return x;
  }

  // Fills `offset` from the masks and returns the only size that fits them; one that no chunk has where a mask
  // sets bits past the end.
  __device__ uint64_t masks_to_offsets(uint32_t count) {
    constexpr uint32_t each = ceil_div(windows, uint32_t{Threads});
    const uint32_t used = ceil_div(count, zvc<T>::window), tail = count % zvc<T>::window;
    uint32_t counted = 0;
    for (uint32_t i = 0; i < each; ++i) {
      const uint32_t window = threadIdx.x * each + i;
      if (window >= used) break;
      counted += popcount(masks()[window]);
      if (window + 1 == used && tail != 0 && (masks()[window] & ~low_mask(tail)) != 0) counted += 1u << 24;
    }
    uint32_t total;
    uint32_t before = scan::exclusive_sum(temp_.scan_storage, counted, total);
    for (uint32_t i = 0; i < each; ++i) {
      const uint32_t window = threadIdx.x * each + i;
      if (window >= used) break;
      temp_.offset[window] = static_cast<uint16_t>(before);
      before += popcount(masks()[window]);
    }
    return 4 * used + uint64_t{total} * sizeof(T);
  }

  // The i-th packed value. The masks in front may leave 8-byte values on a multiple of 4 only.
  __device__ static void put(std::byte* packed, uint32_t i, bits_t<T> value) {
    if constexpr (sizeof(T) == 8) {
      reinterpret_cast<uint32_t*>(packed)[2 * i] = static_cast<uint32_t>(value);
      reinterpret_cast<uint32_t*>(packed)[2 * i + 1] = static_cast<uint32_t>(value >> 32);
    } else {
      reinterpret_cast<bits_t<T>*>(packed)[i] = value;
    }
  }
  __device__ static bits_t<T> get(const std::byte* packed, uint32_t i) {
    if constexpr (sizeof(T) == 8) {
      const auto* halves = reinterpret_cast<const uint32_t*>(packed) + 2 * i;
      return halves[0] | static_cast<uint64_t>(halves[1]) << 32;
    } else {
      return reinterpret_cast<const bits_t<T>*>(packed)[i];
    }
  }

  TempStorage& temp_;
  uint32_t size_ = 0;
};

}  // namespace tuck::inline TUCK_ABI
