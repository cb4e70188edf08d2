// All stages of a chain but the last by one thread block.
//
// Between two stages the values stand in a row in shared memory, from its begin on; the sides that splitters put aside
// pile up at its end. Stages come one after the other, each with all threads.
#pragma once

#include <tuck/codec/block_copies.cuh>
#include <tuck/codec/chain/chain.hpp>
#include <tuck/codec/row_block.cuh>

namespace tuck::inline TUCK_ABI {

namespace detail {

// Room for any one of these.
template <class... Ts> union one_of {};
template <class First, class... Rest> union one_of<First, Rest...> {
  First first;
  one_of<Rest...> rest;
};
template <class T, class First, class... Rest> __device__ T& get_one(one_of<First, Rest...>& storage) {
  if constexpr (std::is_same_v<T, First>)
    return storage.first;
  else
    return detail::get_one<T>(storage.rest);
}

// What encodes a stage, and undoes it.
template <class S, int Threads> struct stage_block;
template <transform S, int Threads> struct stage_block<S, Threads> {
  using type = block_transform<S, Threads>;
};
template <splitter S, int Threads> struct stage_block<S, Threads> {
  using type = block_codec<S, Threads>;
};

// The row of a chain and what is where in it.
template <class Chain> struct row_plan;
template <class... Stages> struct row_plan<chain<Stages...>> {
  using chain_type = chain<Stages...>;
  static constexpr int last = chain_type::size - 1;

  // A side begins at a multiple of 16, and what stands in front of it is overwritten up to a multiple of 128. Behind
  // the first splitter's there is room for the records.
  static constexpr uint32_t bytes =
      tile_bytes + (growth_of<chain_type>() + 15) / 16 * 16 + 16 * (chain_type::splitters + 1) + 128;

  static constexpr int first_splitter = [] {
    const bool splits[] = {splitter<Stages>...};
    int first = 0;
    while (first < last && !splits[first]) ++first;
    return first;
  }();

  // Where the side of stage I, a splitter, begins.
  template <int I> __device__ static uint32_t side_begin(const chain_flow<chain_type>& flow) {
    return bytes - 16 - pile<I>(flow);
  }
  template <int I> __device__ static uint32_t pile(const chain_flow<chain_type>& flow) {
    uint32_t height = (flow.template side<I>() + 15) / 16 * 16;
    if constexpr (I > 0) height += pile<I - 1>(flow);
    return height;
  }

  // As chain_flow::list_sections lists them.
  template <class Row> __device__ static void list_sections(const chain_flow<chain_type>& flow, Row& row) {
    row.list = {};
    flow.list_sections(row.list);
    row.at[0] = 0;
    place_sides<last - 1>(flow, row, 1);
  }
  template <int I, class Row>
  __device__ static void place_sides(const chain_flow<chain_type>& flow, Row& row, uint32_t i) {
    if constexpr (splitter<typename chain_type::template stage_type<I>>) row.at[i++] = side_begin<I>(flow);
    if constexpr (I > 0) place_sides<I - 1>(flow, row, i);
  }
};

template <class Tile> __device__ void load_from_row(Tile& values, uint32_t count, const std::byte* row) {
  values.count = count;
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r)
    values.set_row(r, read_row<Tile>(Tile::first_value(r * Tile::row_words), count, row));
}

// From `from` + `begin` to `to`, in shared memory, which do not overlap; both pointers are multiples of 4, and so many
// bytes are written.
template <int Threads>
__device__ void copy_in_shared(std::byte* to, const std::byte* from, uint32_t begin, uint32_t bytes) {
  const uint32_t skipped = begin % 4;
  const auto* const words = reinterpret_cast<const uint32_t*>(from) + begin / 4;
#pragma unroll 1
  for (uint32_t i = threadIdx.x; 4 * i < bytes; i += Threads)
    reinterpret_cast<uint32_t*>(to)[i] =
        skipped == 0 ? words[i] : device::funnel_shift_right(words[i], words[i + 1], 8 * skipped);
}

// The stages but the last, by one thread block.
template <class Chain, int Threads> class chain_preparer;
template <class... Stages, int Threads> class chain_preparer<chain<Stages...>, Threads> {
  using chain_type = chain<Stages...>;
  using plan = row_plan<chain_type>;
  static constexpr int last = chain_type::size - 1;
  template <int I> using stage = typename chain_type::template stage_type<I>;
  template <int I> using tile = block_tile<typename stage<I>::value_type, Threads>;

  template <class Numbers> struct temps_of;
  template <int... I> struct temps_of<std::integer_sequence<int, I...>> {
    using type = one_of<typename stage_block<stage<I>, Threads>::type::TempStorage...>;
  };

 public:
  using StageStorage = typename temps_of<std::make_integer_sequence<int, last>>::type;

  __device__ chain_preparer(chain_flow<chain_type>& flow, std::byte* row, StageStorage& stages)
      : flow_(flow), row_(row), stages_(stages) {}

  // The first stage, after which the tile is not looked at again; a lossy one leaves in it what decoding will give.
  __device__ void apply_first(const chain_type& codec, tile<0>& values) {
    if (threadIdx.x == 0) flow_.values[0] = values.count;
    if constexpr (splitter<stage<0>>) {
      split<0>(codec, values);
    } else {
      store_to_row(values, values.count * uint32_t{sizeof(typename stage<0>::value_type)}, row_);
      device::sync_block();
      transform_row<0>(codec);
    }
  }
  __device__ void apply_others(const chain_type& codec) { apply_from<1>(codec); }

  // The values that reach the last stage, and all sides, are in the row; those of the chunk go to the sink.
  template <class Sink> __device__ status undo(const chain_type& codec, Sink& sink) {
    return undo_from<last - 1>(codec, sink);
  }

 private:
  template <int I> __device__ auto block() {
    using type = typename stage_block<stage<I>, Threads>::type;
    return type(get_one<typename type::TempStorage>(stages_));
  }

  template <int I> __device__ void apply_from(const chain_type& codec) {
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

  template <int I> __device__ void transform_row(const chain_type& codec) {
    block<I>().apply(codec.template stage<I>(), row_, flow_.values[I]);
    if (threadIdx.x == 0) flow_.template step<I>();
    device::sync_block();
  }

  // Leaves in the row what is kept, and the side at its end; or the values, where the stage is done without.
  template <int I> __device__ void split(const chain_type& codec, tile<I>& values) {
    const uint32_t raw = values.count * uint32_t{sizeof(typename stage<I>::value_type)};
    auto coder = block<I>();
    const uint32_t used = raw == 0 ? declined : coder.measure(codec.template stage<I>(), values);
    const uint32_t side = used == declined ? 0 : coder.side_bytes(values.count);
    const bool splits = used != declined && split_record::allows(raw, stage<I>::max_growth, used - side, side);
    device::sync_block();
    if (splits) coder.assemble(codec.template stage<I>(), values);
    if (threadIdx.x == 0) {
      flow_.records[I] = splits
                             ? split_record::make((used - side) / uint32_t{sizeof(typename stage<I>::value_type)}, side)
                             : split_record::none();
      flow_.template step<I>();
    }
    device::sync_block();
    if (splits) {
      const std::byte* const encoded = coder.encoded(side);
      copy_in_shared<Threads>(row_, encoded, side, used - side);
      copy_in_shared<Threads>(row_ + plan::template side_begin<I>(flow_), encoded, 0, side);
    } else {
      store_to_row(values, raw, row_);
    }
    device::sync_block();
  }

  template <int I, class Sink> __device__ status undo_from(const chain_type& codec, Sink& sink) {
    if constexpr (splitter<stage<I>>) {
      if (!flow_.records[I].done_without()) {
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
    give_row<tile<0>>(row_, flow_.values[0], sink);
    return status::ok;
  }

  template <int I, class Sink> __device__ status join(const chain_type& codec, Sink& sink) {
    const uint32_t side = flow_.template side<I>(), kept = flow_.template bytes<I + 1>();
    auto coder = block<I>();
    std::byte* const encoded = coder.encoded(side);
    copy_in_shared<Threads>(encoded, row_, plan::template side_begin<I>(flow_), side);
    if (side % 4 != 0) device::sync_block();  // what comes next begins in the last word
    copy_behind(encoded + side, kept);
    device::sync_block();
    return coder.decode_assembled(codec.template stage<I>(), side, side + kept, flow_.values[I], sink);
  }
  // The begin of the row, to any place.
  __device__ void copy_behind(std::byte* to, uint32_t bytes) const {
    if (reinterpret_cast<uintptr_t>(to) % 4 == 0) {
      copy_in_shared<Threads>(to, row_, 0, bytes);
    } else {
#pragma unroll 1
      for (uint32_t i = threadIdx.x; i < bytes; i += Threads) to[i] = row_[i];
    }
  }

  chain_flow<chain_type>& flow_;
  std::byte* row_;
  StageStorage& stages_;
};

}  // namespace detail
}  // namespace tuck::inline TUCK_ABI
