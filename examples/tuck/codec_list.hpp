// All codecs of the program, by name and element type.
#pragma once

#include "codecs.hpp"

#include <tuck/compiled.hpp>

#include <type_traits>

namespace tuck::tools {

// Lossless codecs are instantiated once per element size.
template <template <class> class Codec>
using over_all_types = codec_list<Codec<untyped<1>>, Codec<untyped<2>>, Codec<untyped<4>>, Codec<untyped<8>>>;

template <template <class> class Codec>
using over_floating_types = codec_list<Codec<f16>, Codec<bf16>, Codec<float>, Codec<double>>;

template <class...> struct joined_lists;
template <codec... Cs> struct joined_lists<codec_list<Cs...>> {
  using type = codec_list<Cs...>;
};
template <codec... As, codec... Bs, class... Others>
struct joined_lists<codec_list<As...>, codec_list<Bs...>, Others...>
    : joined_lists<codec_list<As..., Bs...>, Others...> {};

// To add a codec of the library to the program, add a line here. Each list has a source: they compile at the same time.
// clang-format off
using single_codecs = joined_lists<
    over_all_types<zvc>,
    over_all_types<rle>,
    over_all_types<deflate>,
    over_all_types<huffman>,
    over_all_types<bitpack>,
    codec_list<codebooks<f16>, codebooks<bf16>, codebooks<float>, codebooks<f8e4m3>, codebooks<f8e5m2>>,
    codec_list<steps<f16>, steps<bf16>, steps<float>, steps<f8e4m3>, steps<f8e5m2>>,
    over_floating_types<quantize>
>::type;
using chain_codecs = joined_lists<
    over_all_types<zvc_huffman>,
    over_all_types<zvc_rle_huffman>,
    over_all_types<rows_zvc_huffman>,
    over_all_types<delta_rle_bitpack>,
    over_floating_types<quantize_delta_huffman>
>::type;
// clang-format on
using program_codecs = joined_lists<single_codecs, chain_codecs>::type;

// Calls visitor with each codec of the list until it returns true. Returns whether it did.
template <codec... Cs, class Visitor> bool any_codec(codec_list<Cs...>, const Visitor& visitor) {
  return (visitor(Cs{}) || ...);
}

// Calls visitor with the chosen codec of a list, for elements of `type`. Returns false if there is no such codec.
template <class List = program_codecs, class Visitor>
bool with_codec(const codec_choice& choice, dtype type, const Visitor& visitor) {
  return any_codec(List{}, [&]<codec C>(const C& candidate) {
    if (!holds<value_t<C>>(type) || stage_names(candidate.stages()) != choice.name) return false;
    if constexpr (tuck::is_lossy<C>)
      visitor(C(choice.bound));
    else if constexpr (std::is_constructible_v<C, const uint32_t&>) {
      static_assert(C{}.stages().at[0].id == codec_id::rows, "a number is a row length: other parameters have a type");
      visitor(C(choice.row));
    } else
      visitor(candidate);
    return true;
  });
}

}  // namespace tuck::tools
