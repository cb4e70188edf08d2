// The codecs of the library, by name and element type.
#pragma once

#include "codecs.hpp"

#include <tuck/compiled.hpp>

#include <type_traits>

namespace tuck::tools {

// Calls visitor with each codec of the list until it returns true. Returns whether it did.
template <codec... Cs, class Visitor> bool any_codec(codec_list<Cs...>, const Visitor& visitor) {
  return (visitor(Cs{}) || ...);
}

// Calls visitor with the chosen codec of a list, for elements of `type`. Returns false if there is no such codec.
template <class List = all_codecs, class Visitor>
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
