// SPDX-License-Identifier: Apache-2.0
// All codecs of the library: a codec is one more line here. The program `tuck`, the Python package, golden frames and
// tuck-bench take theirs from these lists.
#pragma once

#include <tuck/codec/bitpack/bitpack.hpp>
#include <tuck/codec/chain/chains.hpp>
#include <tuck/codec/codebooks/codebooks.hpp>
#include <tuck/codec/deflate/deflate.hpp>
#include <tuck/codec/mask/rle.hpp>
#include <tuck/codec/mask/zvc.hpp>
#include <tuck/codec/quantize/quantize.hpp>
#include <tuck/codec/steps/steps.hpp>

namespace tuck::inline TUCK_ABI {

/// Joins lists: decltype(codec_list<...>{} + codec_list<...>{}).
template <codec... As, codec... Bs>
constexpr codec_list<As..., Bs...> operator+(codec_list<As...>, codec_list<Bs...>) noexcept {
  return {};
}

namespace detail {
// A codec that sees values as integers is one for all types of a size.
template <template <class> class Codec>
using over_all_types = codec_list<Codec<untyped<1>>, Codec<untyped<2>>, Codec<untyped<4>>, Codec<untyped<8>>>;
template <template <class> class Codec>
using over_floating_types = codec_list<Codec<f16>, Codec<bf16>, Codec<float>, Codec<double>>;
template <template <class> class Codec>
using over_coded_types = codec_list<Codec<f16>, Codec<bf16>, Codec<float>, Codec<f8e4m3>, Codec<f8e5m2>>;

template <class... Lists> using joined_lists = decltype((Lists{} + ...));
}  // namespace detail

// clang-format off
/// The codecs of one stage, for all types that they take.
using single_codecs = detail::joined_lists<
    detail::over_all_types<zvc>,
    detail::over_all_types<rle>,
    detail::over_all_types<deflate>,
    detail::over_all_types<huffman>,
    detail::over_all_types<bitpack>,
    detail::over_coded_types<codebooks>,
    detail::over_coded_types<steps>,
    detail::over_floating_types<quantize>>;

/// The chains that have a name (codec/chain/chains.hpp), for all types that they take.
using chain_codecs = detail::joined_lists<
    detail::over_all_types<zvc_huffman>,
    detail::over_all_types<zvc_rle_huffman>,
    detail::over_all_types<rows_zvc_huffman>,
    detail::over_all_types<delta_rle_bitpack>,
    detail::over_floating_types<quantize_delta_huffman>>;
// clang-format on

/// All codecs of the library: host::decode(all_codecs{}, frame, out) decodes what any of them wrote. Such a call takes
/// half a minute to compile, so make it in one source of a program; a list of the codecs in use takes less.
using all_codecs = detail::joined_lists<single_codecs, chain_codecs>;

}  // namespace tuck::inline TUCK_ABI
