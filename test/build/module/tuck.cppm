// A module of tuck's names, as users make one: the headers are included in its global fragment.
module;
#include <tuck/host.hpp>
#include <tuck/model.hpp>
export module tuck;

export namespace tuck {
using tuck::advisor, tuck::any_codec, tuck::as_bytes, tuck::as_writable_bytes, tuck::bitpack, tuck::bytes,
    tuck::codebooks, tuck::codec_list, tuck::const_bytes, tuck::deflate, tuck::delta_rle_bitpack, tuck::error_bound,
    tuck::frame_options, tuck::huffman, tuck::max_delta_bytes, tuck::max_frame_bytes, tuck::message,
    tuck::outcome, tuck::quantize, tuck::quantize_delta_huffman, tuck::result, tuck::rle,
    tuck::rows_zvc_huffman, tuck::span, tuck::status, tuck::steps, tuck::zvc, tuck::zvc_huffman, tuck::zvc_rle_huffman;
namespace host {
using tuck::host::decode, tuck::host::decode_delta, tuck::host::encode, tuck::host::encode_delta, tuck::host::execution;
}
}  // namespace tuck
