// A chain by one thread block. It writes the bytes of chain.hpp.
#pragma once

#include <tuck/codec/chain/chain_row.cuh>

namespace tuck::inline TUCK_ABI {

namespace detail {

// Blocks have 48 KiB of shared memory on every architecture, of which the kernels of the frame need some.
inline constexpr uint32_t most_shared_bytes = 46 * 1024;

// Applies the last stage to a row if it is huffman.
template <class Chain, int Threads> class chain_finisher {
  using plan = row_plan<Chain>;
  using encoder = huffman_format::block_encoder<value_t<typename Chain::last_stage>, Threads, plan::bytes>;
  using preparer = chain_preparer<Chain, Threads>;

 public:
  static constexpr int blocks_a_processor = encoder::blocks_a_processor;

  struct preparation {
    alignas(16) std::byte row[plan::bytes];
    typename preparer::StageStorage stages;
  };
  struct TempStorage {
    union {
      preparation before;
      typename encoder::TempStorage sections_storage;  // begins with the row
    };
    row_sections sections;
    uint32_t records[max_stages];
  };

  __device__ explicit chain_finisher(TempStorage& temp) : temp_(temp), encoder_(temp.sections_storage) {}

  __device__ uint32_t measure(const Chain&, const chain_flow<Chain>& flow) {
    if (threadIdx.x == 0) {
      plan::list_sections(flow, temp_.sections);
      flow.list_records(temp_.records);
    }
    device::sync_block();
    return encoder_.measure(temp_.sections) + Chain::record_bytes;
  }
  __device__ void pack(const Chain&, const chain_flow<Chain>&, bytes out) {
    encoder_.pack(temp_.records, Chain::splitters, out);
  }

 private:
  TempStorage& temp_;
  encoder encoder_;
};

// Applies the last stage to a row if it is any other codec.
template <class Chain, int Threads>
  requires(!takes_sides<typename Chain::last_stage>)
class chain_finisher<Chain, Threads> {
  using plan = row_plan<Chain>;
  using last = typename Chain::last_stage;
  using coder = block_codec<last, Threads>;
  using tile = block_tile<value_t<last>, Threads>;
  using preparer = chain_preparer<Chain, Threads>;
  static constexpr int at_last = Chain::size - 1;

 public:
  static constexpr int blocks_a_processor = 5;  // 96 registers; shared memory allows no more blocks

  struct TempStorage {
    struct {
      alignas(16) std::byte row[plan::bytes];
      union {
        typename preparer::StageStorage stages;
        typename coder::TempStorage last_storage;
      };
    } before;
    uint32_t records[max_stages];
  };

  __device__ explicit chain_finisher(TempStorage& temp) : temp_(temp), coder_(temp.before.last_storage) {}

  __device__ uint32_t measure(const Chain& codec, const chain_flow<Chain>& flow) {
    const uint32_t raw = flow.bytes(at_last);
    uint32_t used = incompressible;
    if (raw != 0) {
      tile chunk = row_tile(flow);
      used = measure_chunk(coder_, codec.template stage<at_last>(), chunk);
    }
    shrinks_ = used != incompressible && used < raw;
    used_ = shrinks_ ? used : raw;
    if (threadIdx.x == 0) flow.list_records(temp_.records);
    return used_ + flow.sides_before(at_last) + Chain::record_bytes;
  }

  __device__ void pack(const Chain& codec, const chain_flow<Chain>& flow, bytes out) {
    const bytes target = out.subspan(0, round_up_pow2(used_, 4));
    if (shrinks_) {
      tile chunk = row_tile(flow);
      pack_chunk(coder_, codec.template stage<at_last>(), chunk, target);
    } else {
      copy_from_shared<Threads>(target, temp_.before.row, used_);
    }
    device::sync_block();  // side streams overwrite its last bytes
    pack_sides(flow, out, used_);
  }

 private:
  __device__ tile row_tile(const chain_flow<Chain>& flow) const {
    tile values;
    load_from_row(values, flow.values[at_last], temp_.before.row);
    return values;
  }
  // Writes the side streams, and the records after that of the first splitter.
  __device__ void pack_sides(const chain_flow<Chain>& flow, bytes out, uint32_t at) {
    uint32_t left = Chain::splitters;
    for (int i = at_last - 1; i >= 0; --i) {
      if (!Chain::splits(i)) continue;
      std::byte* const side = temp_.before.row + plan::side_begin(flow, i);
      uint32_t size = flow.side(i);
      if (--left == 0) {
        if constexpr (Chain::record_bytes > 0)
          for (uint32_t k = threadIdx.x; k < Chain::record_bytes; k += Threads)
            side[size + k] = static_cast<std::byte>(temp_.records[k / 4] >> (8 * (k % 4)));
        size += Chain::record_bytes;
        device::sync_block();
      }
      copy_to_frame<Threads>(out.subspan(at, size), side);
      at += size;
    }
    for (uint64_t i = at + threadIdx.x; i < out.size(); i += Threads) device::store(out.data() + i, std::byte{});
  }

  TempStorage& temp_;
  coder coder_;
  uint32_t used_ = 0;
  bool shrinks_ = false;
};

}  // namespace detail

/// Block codec of a chain; block.cuh documents the members.
template <class... Stages, int Threads> class block_codec<chain<Stages...>, Threads> {
  using chain_type = chain<Stages...>;
  using preparer = detail::chain_preparer<chain_type, Threads>;
  using finisher = detail::chain_finisher<chain_type, Threads>;

 public:
  using tile = block_tile<value_t<chain_type>, Threads>;

  static constexpr int blocks_a_processor = finisher::blocks_a_processor;

  struct TempStorage {
    detail::chain_flow<chain_type> flow;
    typename finisher::TempStorage rest;
  };
  static_assert(sizeof(TempStorage) <= detail::most_shared_bytes,
                "tuck: this chain needs more shared memory to encode than a block has");

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp), finisher_(temp.rest) {}

  /// A lossy chain leaves the restored values in the tile.
  __device__ void take(const chain_type& codec, tile& values) {
    if constexpr (is_lossy<chain_type>) {
      stages().apply_first(codec, values);
    } else {
      tile copy = values;
      stages().apply_first(codec, copy);
    }
  }
  __device__ uint32_t measure(const chain_type& codec) {
    stages().apply_others(codec);
    return finisher_.measure(codec, temp_.flow);
  }
  template <class Chunk> __device__ void pack(const chain_type& codec, Chunk&, bytes out) {
    finisher_.pack(codec, temp_.flow, out);
  }

 private:
  __device__ preparer stages() { return {temp_.flow, temp_.rest.before.row, temp_.rest.before.stages}; }

  TempStorage& temp_;
  finisher finisher_;
};

/// Block decoder of a chain; block.cuh documents the members.
template <class... Stages, int Threads> class block_decoder<chain<Stages...>, Threads> {
  using chain_type = chain<Stages...>;
  using last = typename chain_type::last_stage;
  using plan = detail::row_plan<chain_type>;
  using preparer = detail::chain_preparer<chain_type, Threads>;
  static constexpr int at_last = chain_type::size - 1;
  static constexpr bool takes_sides = detail::takes_sides<last>;
  struct no_sections {};

 public:
  using decoder = std::conditional_t<takes_sides, huffman_format::block_decoder<value_t<last>, Threads, plan::bytes>,
                                     block_decoder<last, Threads>>;

  /// 80 registers: shared memory allows no more blocks.
  static constexpr int blocks_a_processor = [] {
    if constexpr (takes_sides) return decoder::blocks_a_processor;
    return 6;
  }();

  struct TempStorage {
    detail::chain_flow<chain_type> flow;
    std::conditional_t<takes_sides, row_sections, no_sections> sections;
    alignas(4) std::byte records[4 * max_stages];
    bool sound;
    alignas(16) std::byte row[plan::bytes];
    union {
      typename decoder::TempStorage last_storage;
      typename preparer::StageStorage stages;
    };
  };
  static_assert(sizeof(TempStorage) <= detail::most_shared_bytes,
                "tuck: this chain needs more shared memory to decode than a block has");

  __device__ explicit block_decoder(TempStorage& temp) : temp_(temp) {}

  template <class Sink>
  __device__ status decode(const chain_type& codec, const_bytes encoded, uint32_t count, Sink& sink) {
    const_bytes body = encoded;
    if constexpr (chain_type::splitters > 0) {
      if (encoded.size() < chain_type::record_bytes) return status::bad_payload;
      body = encoded.subspan(0, encoded.size() - chain_type::record_bytes);
      if (threadIdx.x < chain_type::record_bytes)
        temp_.records[threadIdx.x] = device::load(body.data() + body.size() + threadIdx.x);
      device::sync_block();
    }
    if (threadIdx.x == 0) {
      temp_.flow.values[0] = count;
      temp_.sound = temp_.flow.read(temp_.records);
      if constexpr (takes_sides)
        if (temp_.sound) plan::list_sections(temp_.flow, temp_.sections);
    }
    device::sync_block();
    if (!temp_.sound) return status::bad_payload;
    if (const status s = restore_row(codec, body); s != status::ok) return s;
    device::sync_block();
    return preparer(temp_.flow, temp_.row, temp_.stages).undo(codec, sink);
  }

 private:
  __device__ status restore_row(const chain_type& codec, const_bytes body) {
    if constexpr (takes_sides) {
      detail::row_sink<value_t<last>, Threads> to_row{temp_.row};
      return decoder(temp_.last_storage).decode(body, temp_.sections, temp_.row, to_row);
    } else {
      const uint32_t raw = temp_.flow.bytes(at_last);
      const uint32_t sides = temp_.flow.sides_before(at_last);
      if (body.size() < sides || body.size() - sides > raw) return status::bad_payload;
      const auto used = static_cast<uint32_t>(body.size()) - sides;
      uint32_t at = used;
      for (int i = at_last - 1; i >= 0; --i) {
        load(temp_.row + plan::side_begin(temp_.flow, i), body.subspan(at, temp_.flow.side(i)));
        at += temp_.flow.side(i);
      }
      if (used == raw) {
        load(temp_.row, body.subspan(0, used));
        return status::ok;
      }
      if (used == 0) return status::bad_payload;
      detail::row_sink<value_t<last>, Threads> to_row{temp_.row};
      return decoder(temp_.last_storage)
          .decode(codec.template stage<at_last>(), body.subspan(0, used), temp_.flow.values[at_last], to_row);
    }
  }
  __device__ static void load(std::byte* to, const_bytes from) {
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < from.size(); i += Threads) to[i] = device::load(from.data() + i);
  }

  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI
