// deflate by one thread block: the bytes of layout.hpp, of a chunk alone and of a chain's row.
#pragma once

#include <tuck/codec/deflate/decoder.cuh>
#include <tuck/codec/deflate/deflate.hpp>
#include <tuck/codec/deflate/encoder.cuh>
#include <tuck/codec/row_block.cuh>

namespace tuck::inline TUCK_ABI {

template <element T, int Threads, uint32_t RowBytes> struct row_block<deflate<T>, Threads, RowBytes> {
  using encoder = deflate_format::block_encoder<sizeof(T), Threads, RowBytes>;

  class decoder : public deflate_format::block_decoder<sizeof(T), Threads, RowBytes> {
    using base = deflate_format::block_decoder<sizeof(T), Threads, RowBytes>;

   public:
    using base::base;

    template <class Sink>
    __device__ status decode(const_bytes encoded, const row_sections& sections, std::byte* row, Sink& sink) {
      const status s = base::decode(encoded, sections, row);
      if constexpr (!std::is_same_v<Sink, detail::row_sink<T, Threads>>) {
        if (s != status::ok) return s;
        device::sync_block();
        detail::give_row<block_tile<T, Threads>>(row, sections.list.size(0) / uint32_t{sizeof(T)}, sink);
      }
      return s;
    }
  };
};

template <element T, int Threads>
class block_codec<deflate<T>, Threads> : public detail::row_block_codec<deflate<T>, Threads> {
  using detail::row_block_codec<deflate<T>, Threads>::row_block_codec;
};
template <element T, int Threads>
class block_decoder<deflate<T>, Threads> : public detail::row_block_decoder<deflate<T>, Threads> {
  using detail::row_block_decoder<deflate<T>, Threads>::row_block_decoder;
};

}  // namespace tuck::inline TUCK_ABI
