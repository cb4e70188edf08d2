// For programs with several source files: the host's code that takes longest to compile, compiled once.
//
//   #include <tuck/compiled.hpp>    // in each source, in place of tuck/host.hpp or beside it
//
//   #define TUCK_COMPILE            // and so in exactly one source of the program, before it includes anything of tuck
//   #include <tuck/compiled.hpp>
//
// Without that one source the linker names what it misses. Nothing else changes: frames, results and errors are the
// same. What is compiled is the work on chunks, for each width of values; calls are still templates.
#pragma once

#include <tuck/host.hpp>

#if defined(TUCK_COMPILE)
#define TUCK_TEMPLATE template
#else
#define TUCK_TEMPLATE extern template
#endif

namespace tuck::inline TUCK_ABI {

TUCK_TEMPLATE struct mask_loops<ones::non_zeros, 1>;
TUCK_TEMPLATE struct mask_loops<ones::non_zeros, 2>;
TUCK_TEMPLATE struct mask_loops<ones::non_zeros, 4>;
TUCK_TEMPLATE struct mask_loops<ones::non_zeros, 8>;
TUCK_TEMPLATE struct mask_loops<ones::changes, 1>;
TUCK_TEMPLATE struct mask_loops<ones::changes, 2>;
TUCK_TEMPLATE struct mask_loops<ones::changes, 4>;
TUCK_TEMPLATE struct mask_loops<ones::changes, 8>;
TUCK_TEMPLATE struct value_loops<1>;
TUCK_TEMPLATE struct value_loops<2>;
TUCK_TEMPLATE struct value_loops<4>;
TUCK_TEMPLATE struct value_loops<8>;

namespace detail {
TUCK_TEMPLATE class host_groups<1>;
TUCK_TEMPLATE class host_groups<2>;
TUCK_TEMPLATE class host_groups<4>;
TUCK_TEMPLATE class host_groups<8>;
TUCK_TEMPLATE class host_groups<1, true>;
}  // namespace detail

namespace deflate_format {
TUCK_TEMPLATE class host_encoder<1>;
TUCK_TEMPLATE class host_encoder<2>;
TUCK_TEMPLATE class host_encoder<4>;
TUCK_TEMPLATE class host_encoder<8>;
TUCK_TEMPLATE class host_decoder<1>;
TUCK_TEMPLATE class host_decoder<2>;
TUCK_TEMPLATE class host_decoder<4>;
TUCK_TEMPLATE class host_decoder<8>;
}  // namespace deflate_format

namespace huffman_format {
TUCK_TEMPLATE class host_chunk<1>;
TUCK_TEMPLATE class host_chunk<2>;
TUCK_TEMPLATE class host_chunk<4>;
TUCK_TEMPLATE class host_chunk<8>;
}  // namespace huffman_format

TUCK_TEMPLATE struct steps<f8e4m3>;
TUCK_TEMPLATE struct steps<f8e5m2>;
TUCK_TEMPLATE struct steps<f16>;
TUCK_TEMPLATE struct steps<bf16>;
TUCK_TEMPLATE struct steps<float>;

TUCK_TEMPLATE class quantize<f16>;
TUCK_TEMPLATE class quantize<bf16>;
TUCK_TEMPLATE class quantize<float>;
TUCK_TEMPLATE class quantize<double>;
TUCK_TEMPLATE class quantize_codes<f16>;
TUCK_TEMPLATE class quantize_codes<bf16>;
TUCK_TEMPLATE class quantize_codes<float>;
TUCK_TEMPLATE class quantize_codes<double>;

}  // namespace tuck::inline TUCK_ABI

#undef TUCK_TEMPLATE
