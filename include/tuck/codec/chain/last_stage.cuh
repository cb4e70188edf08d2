// SPDX-License-Identifier: Apache-2.0
// The last stage of a chain by one thread block: it encodes the values that reach it, in a strip of shared memory.
#pragma once

#include <tuck/codec/block.cuh>

namespace tuck::inline TUCK_ABI::detail {

// Encodes strips by a block codec that needs a tile. Has the members of of_strip (block.cuh).
template <class C, int Threads> class strip_in_tile {
  using coder = block_codec<C, Threads>;
  using tile = block_tile<value_t<C>, Threads>;

 public:
  static constexpr int registers = 96;  // shared memory allows no more blocks
  using TempStorage = encoder_storage<coder>;

  __device__ strip_in_tile(TempStorage& temp, std::byte* strip) : coder_(temp.codec), temp_(temp), strip_(strip) {}

  __device__ uint32_t measure(const C& codec, uint32_t count) {
    count_ = count;
    tile chunk = values();
    const uint32_t used = coder_.measure(codec, chunk);
    return used < count * uint32_t{sizeof(value_t<C>)} ? used : incompressible;
  }
  __device__ std::byte* chunk() { return temp_.chunk(coder_); }
  __device__ void write(const C& codec) { coder_.write(codec, values(), chunk()); }

 private:
  __device__ tile values() const {
    tile values;
    load_from_strip(values, count_, strip_);
    return values;
  }

  coder coder_;
  TempStorage& temp_;
  std::byte* strip_;
  uint32_t count_ = 0;
};

template <class C, int Threads> struct strip_coder {
  using type = strip_in_tile<C, Threads>;
};
template <class C, int Threads>
  requires requires { typename block_codec<C, Threads>::of_strip; }
struct strip_coder<C, Threads> {
  static_assert(encodes_strips<C, Threads>, "tuck: this of_strip lacks a member; see tuck/codec/block.cuh");
  using type = typename block_codec<C, Threads>::of_strip;
};

// Encodes `count` values of a strip, which may be changed; if they do not shrink, as they are.
template <class C, int Threads> class strip_encoder {
  using coder = typename strip_coder<C, Threads>::type;

 public:
  static constexpr int registers = coder::registers;
  using TempStorage = typename coder::TempStorage;

  __device__ strip_encoder(TempStorage& temp, std::byte* strip) : coder_(temp, strip), strip_(strip) {}

  // Returns the size in bytes.
  __device__ uint32_t measure(const C& codec, uint32_t count) {
    used_ = count == 0 ? incompressible : coder_.measure(codec, count);
    shrinks_ = used_ != incompressible;
    if (!shrinks_) used_ = count * uint32_t{sizeof(value_t<C>)};
    return used_;
  }
  __device__ std::byte* chunk() { return coder_.chunk(); }
  __device__ void write(const C& codec) {
    if (shrinks_)
      coder_.write(codec);
    else
      copy_in_shared<Threads>(chunk(), strip_, 0, used_);
  }

 private:
  coder coder_;
  std::byte* strip_;
  uint32_t used_ = 0;
  bool shrinks_ = false;
};

}  // namespace tuck::inline TUCK_ABI::detail
