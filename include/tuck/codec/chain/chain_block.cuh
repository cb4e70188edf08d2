// SPDX-License-Identifier: Apache-2.0
// A chain by one thread block. It writes the bytes of chain.hpp.
//
// Between two stages the values are at the beginning of a strip in shared memory, and the side streams of splitters are
// stacked at its end. The block applies one stage after the other. Then the last stage encodes the strip.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/chain/chain.hpp>
#include <tuck/codec/chain/last_stage.cuh>

namespace tuck::inline TUCK_ABI {

namespace detail {

// Stores decoded words, or 16 bytes at a time, to a strip in shared memory.
template <element T> struct strip_sink {
  std::byte* strip;

  template <class Word> __device__ void operator()(uint32_t first, const Word& x) {
    reinterpret_cast<Word*>(strip)[first / (sizeof x / sizeof(T))] = x;
  }
  template <size_t Rows> __device__ void operator()(uint32_t first, const device::vec128 (&x)[Rows]) {
#pragma unroll
    for (uint32_t r = 0; r < Rows; ++r) (*this)(first + r * device::warp_size * uint32_t{16 / sizeof(T)}, x[r]);
  }
};

// Shared memory of a stage: of a splitter, with a buffer for the chunk that it writes. Decoding needs no buffer.
template <class S, int Threads, bool Decodes> struct stage_storage {
  typename block_transform<S, Threads>::TempStorage of_stage;
};
template <splitter S, int Threads> struct stage_storage<S, Threads, false> {
  using coder = block_codec<S, Threads>;
  encoder_storage<coder, !has_chunk<coder>, S::max_growth> of_stage;
};
template <splitter S, int Threads> struct stage_storage<S, Threads, true> {
  typename block_decoder<S, Threads>::TempStorage of_stage;
};

// The layout of the strip of a chain.
template <class Chain> struct strip_plan {
  // Each side stream is padded to a multiple of 4. Behind the values 128 bytes may be overwritten: splitters leave at
  // most tile_bytes + growth of values and side streams. The bytes after the side streams are read up to a multiple of
  // 16.
  static constexpr uint32_t bytes = tile_bytes + (Chain::growth + 15) / 16 * 16 + 4 * max_stages + 16 + 128;

  // Returns the offset of the side stream of stage i. The side streams of later stages are before it.
  __device__ static uint32_t side_begin(const chain_flow<Chain>& flow, int i) {
    return bytes - 16 - flow.padded_sides(i + 1);
  }
  // Returns the offset of all side streams.
  __device__ static uint32_t sides_begin(const chain_flow<Chain>& flow) { return side_begin(flow, Chain::size - 2); }
};

// Returns the size of the largest of the types Of<Index>.
template <template <int> class Of, int... Index>
TUCK_HD constexpr size_t largest_of(std::integer_sequence<int, Index...>) {
  size_t most = 0;
  ((most = sizeof(Of<Index>) > most ? sizeof(Of<Index>) : most), ...);
  return most;
}

// Applies all stages except the last, or undoes them, by one thread block.
template <class Chain, int Threads, bool Decodes> class chain_preparer {
  using plan = strip_plan<Chain>;
  static constexpr int last = Chain::size - 1;
  template <int Index> using stage = typename Chain::template stage_type<Index>;
  template <int Index> using tile = block_tile<typename stage<Index>::value_type, Threads>;

  template <int Index> using storage = stage_storage<stage<Index>, Threads, Decodes>;

 public:
  struct StageStorage {  // of any one of these stages
    alignas(16) std::byte bytes[largest_of<storage>(std::make_integer_sequence<int, last>{})];
  };

  // Whether a stage after the first one is a splitter.
  static constexpr bool needs_buffer = Chain::splitter_bits > 1;

  __device__ chain_preparer(chain_flow<Chain>& flow, std::byte* strip, StageStorage& stages)
      : flow_(flow), strip_(strip), stages_(stages) {}

  // Applies the first stage; the tile is not read afterwards. A lossy stage leaves the restored values in it. Strip and
  // flow are then behind a barrier, also after apply_others.
  __device__ void apply_first(const Chain& codec, tile<0>& values) {
    if (threadIdx.x == 0) flow_.values[0] = values.count;
    if constexpr (splitter<stage<0>>) {
      split<0>(codec, values);
    } else {
      store_to_strip(values, values.count * Chain::width, strip_);
      device::sync_block();
      transform_strip<0>(codec);
    }
  }
  __device__ void apply_others(const Chain& codec) { apply_from<1>(codec); }

  // Undoes the stages. The strip has the values that reach the last stage and all side streams. `buffer`: tile_bytes +
  // 32 bytes of shared memory, if a stage after the first one is a splitter.
  template <class Sink> __device__ __forceinline__ status undo(const Chain& codec, std::byte* buffer, Sink& sink) {
    return undo_from<last - 1>(codec, buffer, sink);
  }

 private:
  template <int Index> __device__ auto& storage_of() { return reinterpret_cast<storage<Index>&>(stages_).of_stage; }
  template <int Index> __device__ auto transform_of() {
    return block_transform<stage<Index>, Threads>(storage_of<Index>());
  }

  template <int Index> __device__ void apply_from(const Chain& codec) {
    if constexpr (Index < last) {
      if constexpr (splitter<stage<Index>>) {
        tile<Index> values;
        load_from_strip(values, flow_.values[Index], strip_);
        split<Index>(codec, values);
      } else {
        transform_strip<Index>(codec);
      }
      apply_from<Index + 1>(codec);
    }
  }

  template <int Index> __device__ void transform_strip(const Chain& codec) {
    const uint32_t form = transform_of<Index>().apply(codec.template stage<Index>(), strip_, flow_.values[Index]);
    if (threadIdx.x == 0) flow_.step(Index, split_record::none(form));
    device::sync_block();
  }

  // Leaves the residual values in the strip and the side stream at its end. If the stage is skipped, leaves the values.
  template <int Index> __device__ void split(const Chain& codec, tile<Index>& values) {
    using splitter_block = block_codec<stage<Index>, Threads>;
    static_assert(
        !is_lossy<stage<Index>> || !requires(splitter_block& block, const stage<Index>& codec_of,
                                             const tile<Index>& kept) { block.write(codec_of, kept, nullptr); },
        "tuck: write of a lossy splitter takes tile&, and leaves there what decoding restores");
    const uint32_t raw = values.count * Chain::width;
    splitter_block coder(storage_of<Index>().codec);
    uint32_t used = raw == 0 ? incompressible : coder.measure(codec.template stage<Index>(), values);
    std::byte* const encoded = storage_of<Index>().chunk(coder);
    device::sync_block();
    const uint32_t side = used == incompressible ? 0 : coder.side_bytes(values.count);
    const bool splits =
        used != incompressible && split_record::allows(raw, stage<Index>::max_growth, used - side, side, Chain::width);
    if (splits) coder.write(codec.template stage<Index>(), values, encoded);
    if (threadIdx.x == 0)
      flow_.step(Index, splits ? split_record::make((used - side) / Chain::width, side) : split_record::none());
    device::sync_block();
    if (splits) {
      copy_in_shared<Threads>(strip_, encoded, side, used - side);
      copy_in_shared<Threads>(strip_ + plan::side_begin(flow_, Index), encoded, 0, side);
    } else {
      store_to_strip(values, raw, strip_);
    }
    device::sync_block();
    // Padding, which nobody reads before the next barrier.
    if (splits && threadIdx.x < (0 - side) % 4)
      strip_[plan::side_begin(flow_, Index) + side + threadIdx.x] = std::byte{};
  }

  template <int Index, class Sink>
  __device__ __forceinline__ status undo_from(const Chain& codec, std::byte* buffer, Sink& sink) {
    if constexpr (splitter<stage<Index>>) {
      if (!flow_.records[Index].skipped()) {
        if constexpr (Index == 0) {
          return join<0>(codec, strip_, sink);
        } else {
          strip_sink<typename stage<Index>::value_type> to_strip{strip_};
          copy_in_shared<Threads>(buffer + 16, strip_, 0, flow_.bytes(Index + 1));
          device::sync_block();
          const status s = join<Index>(codec, buffer + 16, to_strip);
          device::sync_block();
          if (s != status::ok) return s;
        }
      }
    } else {
      transform_of<Index>().invert(codec.template stage<Index>(), strip_, flow_.values[Index],
                                   flow_.records[Index].form());
      device::sync_block();
    }
    if constexpr (Index > 0) return undo_from<Index - 1>(codec, buffer, sink);
    emit_strip<tile<0>>(flow_.values[0], strip_, sink);
    return status::ok;
  }

  // `values`: the residual values, which may be overwritten up to 16 bytes before and after them.
  template <int Index, class Sink>
  __device__ __forceinline__ status join(const Chain& codec, std::byte* values, Sink& sink) {
    block_decoder<stage<Index>, Threads> decoder(storage_of<Index>());
    return decoder.read_parts(codec.template stage<Index>(), strip_ + plan::side_begin(flow_, Index), flow_.side(Index),
                              values, flow_.bytes(Index + 1), flow_.values[Index], sink);
  }

  chain_flow<Chain>& flow_;
  std::byte* strip_;
  StageStorage& stages_;
};

// Stages have more in registers beside the values of the base than one codec has.
template <class... Stages, int Threads>
inline constexpr int delta_encode_blocks_of<block_codec<chain<Stages...>, Threads>> = 4;

}  // namespace detail

/// Block codec of a chain; block.cuh documents the members.
template <class... Stages, int Threads> class block_codec<chain<Stages...>, Threads> {
  using chain_type = chain<Stages...>;
  using plan = detail::strip_plan<chain_type>;
  using preparer = detail::chain_preparer<chain_type, Threads, false>;
  using encoder = detail::strip_encoder<typename chain_type::last_stage, Threads>;
  static constexpr int last = chain_type::size - 1;

 public:
  using tile = block_tile<value_t<chain_type>, Threads>;

  // A transform needs a few more than the last stage.
  static constexpr int registers =
      transform<typename chain_type::first_stage> && encoder::registers < 96 ? 96 : encoder::registers;
  static constexpr bool keeps_tile = false;

  struct TempStorage {
    detail::chain_flow<chain_type> flow;
    uint32_t records[max_stages];
    alignas(16) std::byte strip[plan::bytes];
    union {
      typename preparer::StageStorage stages;
      typename encoder::TempStorage last_storage;
    };
  };
  static_assert(sizeof(TempStorage) <= detail::most_shared_bytes,
                "tuck: this chain needs more shared memory to encode than a block has");

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp), encoder_(temp.last_storage, temp.strip) {}

  __device__ void approximate(const chain_type& codec, tile& values)
    requires is_lossy<chain_type>
  {
    stages().apply_first(codec, values);
  }
  __device__ uint32_t measure(const chain_type& codec, tile& values) {
    if constexpr (!is_lossy<chain_type>) stages().apply_first(codec, values);
    stages().apply_others(codec);
    if (threadIdx.x == 0) temp_.flow.list_records(temp_.records);  // for `write`
    used_ = encoder_.measure(codec.template stage<last>(), temp_.flow.values[last]);
    return used_ + temp_.flow.padded_sides() + chain_type::record_bytes;
  }
  __device__ std::byte* chunk() { return encoder_.chunk(); }
  template <class Values> __device__ void write(const chain_type& codec, const Values&, std::byte*) {
    encoder_.write(codec.template stage<last>());
    const uint32_t sides = temp_.flow.padded_sides();
    device::sync_block();  // the last stage may have written behind its bytes
    if (sides != 0) copy_in_shared<Threads>(chunk() + used_, temp_.strip + plan::sides_begin(temp_.flow), 0, sides);
    if constexpr (chain_type::record_bytes > 0)  // otherwise nvcc warns about the comparison
      if (threadIdx.x < chain_type::record_bytes)
        chunk()[used_ + sides + threadIdx.x] = reinterpret_cast<const std::byte*>(temp_.records)[threadIdx.x];
  }

 private:
  __device__ preparer stages() { return {temp_.flow, temp_.strip, temp_.stages}; }

  TempStorage& temp_;
  encoder encoder_;
  uint32_t used_ = 0;  // bytes of the last stage
};

/// Block decoder of a chain; block.cuh documents the members.
template <class... Stages, int Threads> class block_decoder<chain<Stages...>, Threads> {
  using chain_type = chain<Stages...>;
  using plan = detail::strip_plan<chain_type>;
  using preparer = detail::chain_preparer<chain_type, Threads, true>;
  using decoder = block_decoder<typename chain_type::last_stage, Threads>;
  static constexpr int last = chain_type::size - 1;

  static constexpr uint32_t buffer_bytes = tile_bytes + 32;

 public:
  static constexpr int registers = 80;  // shared memory allows no more blocks

  struct TempStorage {
    detail::chain_flow<chain_type> flow;
    alignas(4) std::byte records[4 * max_stages];
    bool sound;
    alignas(16) std::byte before_strip[16];  // see read_parts
    std::byte strip[plan::bytes];
    union {
      typename decoder::TempStorage last_storage;
      typename preparer::StageStorage stages;
    };
  };
  static_assert(sizeof(TempStorage) + buffer_bytes <= detail::most_shared_bytes,
                "tuck: this chain needs more shared memory to decode than a block has");

  __device__ explicit block_decoder(TempStorage& temp) : temp_(temp) {}

  template <class Sink>
  __device__ __forceinline__ status read(const chain_type& codec, std::byte* from, uint32_t size, uint32_t count,
                                         Sink& sink) {
    if constexpr (chain_type::record_bytes > 0) {
      if (size < chain_type::record_bytes) return status::bad_payload;
      size -= chain_type::record_bytes;
      if (threadIdx.x < chain_type::record_bytes) temp_.records[threadIdx.x] = from[size + threadIdx.x];
      device::sync_block();
    }
    if (threadIdx.x == 0) {
      temp_.flow.values[0] = count;
      temp_.sound = temp_.flow.read(temp_.records);
    }
    device::sync_block();
    if (!temp_.sound) return status::bad_payload;
    if (const status s = read_strip(codec, from, size); s != status::ok) return s;
    return preparer(temp_.flow, temp_.strip, temp_.stages).undo(codec, from, sink);
  }

 private:
  // Restores the strip that reached the last stage. Ends with a barrier if it is ok.
  __device__ status read_strip(const chain_type& codec, std::byte* from, uint32_t size) {
    const uint32_t raw = temp_.flow.bytes(last), sides = temp_.flow.padded_sides();
    if (size < sides || size - sides > raw) return status::bad_payload;
    const uint32_t used = size - sides;
    copy_in_shared<Threads>(temp_.strip + plan::sides_begin(temp_.flow), from, used, sides);
    if (threadIdx.x < 16) temp_.strip[plan::bytes - 16 + threadIdx.x] = std::byte{};  // behind them, which may be read
    if (used == raw) {
      copy_in_shared<Threads>(temp_.strip, from, 0, used);
    } else {
      if (used == 0) return status::bad_payload;
      device::sync_block();
      detail::strip_sink<value_t<typename chain_type::last_stage>> to_strip{temp_.strip};
      decoder strip(temp_.last_storage);
      const status s = strip.read(codec.template stage<last>(), from, used, temp_.flow.values[last], to_strip);
      if (s != status::ok) return s;
    }
    device::sync_block();
    bool padded = true;  // with zeros
    for (int i = 0; i < last; ++i)
      if (const uint32_t size_of = temp_.flow.side(i); threadIdx.x < (0 - size_of) % 4)
        padded &= temp_.strip[plan::side_begin(temp_.flow, i) + size_of + threadIdx.x] == std::byte{};
    return device::sync_block_or(!padded) ? status::bad_payload : status::ok;
  }

  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI
