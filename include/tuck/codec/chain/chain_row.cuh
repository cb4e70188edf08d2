// All stages of a chain except the last, by one thread block.
//
// Between two stages the values are at the beginning of a row in shared memory, and the side streams of splitters are
// stacked at its end. The block applies one stage after the other.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/chain/chain.hpp>
#include <tuck/codec/huffman/huffman_block.cuh>

#include <algorithm>

namespace tuck::inline TUCK_ABI {

namespace detail {

// Stores decoded words to a row in shared memory.
template <element T, int Threads> struct row_sink {
  using tile = block_tile<T, Threads>;
  std::byte* row;

  __device__ void operator()(uint32_t first, typename tile::word x) {
    reinterpret_cast<typename tile::word*>(row)[first / tile::per_word] = x;
  }
  __device__ void operator()(uint32_t first, const device::vec128& x) {
    reinterpret_cast<device::vec128*>(row)[first * sizeof(T) / sizeof x] = x;
  }
  template <int Rows> __device__ void operator()(uint32_t first, const device::vec128 (&x)[Rows]) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) (*this)(first + static_cast<uint32_t>(r) * tile::row_values, x[r]);
  }
};

// The class that applies a stage and undoes it.
template <class S, int Threads> struct stage_block {
  using type = block_codec<S, Threads>;
};
template <transform S, int Threads> struct stage_block<S, Threads> {
  using type = block_transform<S, Threads>;
};

// The layout of the row of a chain.
template <class Chain> struct row_plan {
  // A side stream begins at a multiple of 16. The bytes before it may be overwritten up to a multiple of 128. There is
  // capacity for the records after the side stream of the first splitter.
  static constexpr uint32_t bytes = tile_bytes + (Chain::growth + 15) / 16 * 16 + 16 * (Chain::splitters + 1) + 128;

  // Returns the offset of the side stream of stage i, which must be a splitter.
  __device__ static uint32_t side_begin(const chain_flow<Chain>& flow, int i) {
    uint32_t at = bytes - 16;
    for (; i >= 0; --i) at -= (flow.side(i) + 15) / 16 * 16;
    return at;
  }
  __device__ static void list_sections(const chain_flow<Chain>& flow, row_sections& row) {
    flow.list_sections(row.list);
    row.at[0] = 0;
    uint32_t* at = row.at + 1;
    for (int i = Chain::size - 2; i >= 0; --i)
      if (Chain::splits(i)) *at++ = side_begin(flow, i);
  }
};

template <class Tile> __device__ void load_from_row(Tile& values, uint32_t count, const std::byte* row) {
  values.count = count;
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r)
    values.set_row(r, read_row<Tile>(Tile::first_value(r * Tile::row_words), count, row));
}

// Copies `bytes` bytes, rounded up to a multiple of 4, from `from` + `begin` to `to`. Both pointers are multiples of 4
// in shared memory, and the ranges do not overlap.
template <int Threads>
__device__ void copy_in_shared(std::byte* to, const std::byte* from, uint32_t begin, uint32_t bytes) {
  const uint32_t skipped = begin % 4;
  const auto* const words = reinterpret_cast<const uint32_t*>(from) + begin / 4;
#pragma unroll 1
  for (uint32_t i = threadIdx.x; 4 * i < bytes; i += Threads)
    reinterpret_cast<uint32_t*>(to)[i] =
        skipped == 0 ? words[i] : device::funnel_shift_right(words[i], words[i + 1], 8 * skipped);
}

// Applies and undoes all stages except the last, by one thread block.
template <class Chain, int Threads> class chain_preparer {
  using plan = row_plan<Chain>;
  static constexpr int last = Chain::size - 1;
  template <int I> using stage = typename Chain::template stage_type<I>;
  template <int I> using tile = block_tile<typename stage<I>::value_type, Threads>;

  template <int I> using storage = typename stage_block<stage<I>, Threads>::type::TempStorage;

  static constexpr size_t most_storage = []<int... I>(std::integer_sequence<int, I...>) {
    return std::max({sizeof(storage<I>)...});
  }(std::make_integer_sequence<int, last>{});

 public:
  struct StageStorage {  // of any one of these stages
    alignas(16) std::byte bytes[most_storage];
  };

  __device__ chain_preparer(chain_flow<Chain>& flow, std::byte* row, StageStorage& stages)
      : flow_(flow), row_(row), stages_(stages) {}

  // Applies the first stage; the tile is not read afterwards. A lossy stage leaves the restored values in it.
  __device__ void apply_first(const Chain& codec, tile<0>& values) {
    if (threadIdx.x == 0) flow_.values[0] = values.count;
    if constexpr (splitter<stage<0>>) {
      split<0>(codec, values);
    } else {
      store_to_row(values, values.count * Chain::width, row_);
      device::sync_block();
      transform_row<0>(codec);
    }
  }
  __device__ void apply_others(const Chain& codec) { apply_from<1>(codec); }

  // Undoes the stages. The row has the values that reach the last stage and all side streams.
  template <class Sink> __device__ status undo(const Chain& codec, Sink& sink) {
    return undo_from<last - 1>(codec, sink);
  }

 private:
  template <int I> __device__ auto block() {
    return typename stage_block<stage<I>, Threads>::type(reinterpret_cast<storage<I>&>(stages_));
  }

  template <int I> __device__ void apply_from(const Chain& codec) {
    if constexpr (I < last) {
      if constexpr (splitter<stage<I>>) {
        tile<I> values;
        load_from_row(values, flow_.values[I], row_);
        split<I>(codec, values);
      } else {
        transform_row<I>(codec);
      }
      apply_from<I + 1>(codec);
    }
  }

  template <int I> __device__ void transform_row(const Chain& codec) {
    block<I>().apply(codec.template stage<I>(), row_, flow_.values[I]);
    if (threadIdx.x == 0) flow_.step(I, split_record::none());
    device::sync_block();
  }

  // Leaves the residual values in the row and the side stream at its end. If the stage is skipped, leaves the values.
  template <int I> __device__ void split(const Chain& codec, tile<I>& values) {
    const uint32_t raw = values.count * Chain::width;
    auto coder = block<I>();
    const uint32_t used = raw == 0 ? incompressible : coder.measure(codec.template stage<I>(), values);
    const uint32_t side = used == incompressible ? 0 : coder.side_bytes(values.count);
    const bool splits = used != incompressible && split_record::allows(raw, stage<I>::max_growth, used - side, side);
    device::sync_block();
    if (splits) coder.assemble(codec.template stage<I>(), values);
    if (threadIdx.x == 0)
      flow_.step(I, splits ? split_record::make((used - side) / Chain::width, side) : split_record::none());
    device::sync_block();
    if (splits) {
      const std::byte* const encoded = coder.encoded(side);
      copy_in_shared<Threads>(row_, encoded, side, used - side);
      copy_in_shared<Threads>(row_ + plan::side_begin(flow_, I), encoded, 0, side);
    } else {
      store_to_row(values, raw, row_);
    }
    device::sync_block();
  }

  template <int I, class Sink> __device__ status undo_from(const Chain& codec, Sink& sink) {
    if constexpr (splitter<stage<I>>) {
      if (!flow_.records[I].skipped()) {
        if constexpr (I == 0) {
          return join<0>(codec, sink);
        } else {
          row_sink<typename stage<I>::value_type, Threads> to_row{row_};
          const status s = join<I>(codec, to_row);
          device::sync_block();
          if (s != status::ok) return s;
        }
      }
    } else {
      block<I>().invert(codec.template stage<I>(), row_, flow_.values[I]);
      device::sync_block();
    }
    if constexpr (I > 0) return undo_from<I - 1>(codec, sink);
    const uint32_t count = flow_.values[0];
#pragma unroll
    for (int r = 0; r < tile<0>::rows; ++r)
      if (const uint32_t first = tile<0>::first_value(r * tile<0>::row_words); first < count)
        sink(first, read_row<tile<0>>(first, count, row_));
    return status::ok;
  }

  template <int I, class Sink> __device__ status join(const Chain& codec, Sink& sink) {
    const uint32_t side = flow_.side(I), kept = flow_.bytes(I + 1);
    auto coder = block<I>();
    std::byte* const encoded = coder.encoded(side);
    copy_in_shared<Threads>(encoded, row_, plan::side_begin(flow_, I), side);
    if (side % 4 != 0) device::sync_block();  // the residual values begin in the last word
    copy_behind(encoded + side, kept);
    device::sync_block();
    return coder.decode_assembled(codec.template stage<I>(), side, side + kept, flow_.values[I], sink);
  }
  // Copies the beginning of the row to any address.
  __device__ void copy_behind(std::byte* to, uint32_t bytes) const {
    if (reinterpret_cast<uintptr_t>(to) % 4 == 0) {
      copy_in_shared<Threads>(to, row_, 0, bytes);
    } else {
#pragma unroll 1
      for (uint32_t i = threadIdx.x; i < bytes; i += Threads) to[i] = row_[i];
    }
  }

  chain_flow<Chain>& flow_;
  std::byte* row_;
  StageStorage& stages_;
};

}  // namespace detail
}  // namespace tuck::inline TUCK_ABI
