// SPDX-License-Identifier: Apache-2.0
// For programs with several source files: the host's code that takes longest to compile, compiled once.
//
//   #include <tuck/compiled.hpp>    // in each source, in place of tuck/host.hpp or beside it
//
//   #define TUCK_COMPILE            // and so in one source of the program, before it includes anything of tuck
//   #include <tuck/compiled.hpp>
//
// Without that one source, the linker names members of tuck that nobody has compiled. A source that includes only
// tuck/host.hpp works as well, and compiles them again. Frames, results and errors stay the same. What is compiled once
// is the work on chunks; calls are still templates.
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

namespace packed_masks {
TUCK_TEMPLATE class host_coder<1>;
TUCK_TEMPLATE class host_coder<2>;
TUCK_TEMPLATE class host_coder<4>;
TUCK_TEMPLATE class host_coder<8>;
}  // namespace packed_masks

namespace detail {
TUCK_TEMPLATE class host_groups<1>;
TUCK_TEMPLATE class host_groups<2>;
TUCK_TEMPLATE class host_groups<4>;
TUCK_TEMPLATE class host_groups<8>;
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

namespace codebooks_format {
TUCK_TEMPLATE class host_coder<1>;
TUCK_TEMPLATE class host_coder<2>;
TUCK_TEMPLATE class host_coder<4>;
}  // namespace codebooks_format

// Only what the host alone uses: kernels use the other members of these classes.
TUCK_TEMPLATE uint32_t steps<f8e4m3>::encode_chunk(span<const f8e4m3>, span<const f8e4m3>, bytes,
                                                   workspace) const noexcept;
TUCK_TEMPLATE status steps<f8e4m3>::decode_chunk(const_bytes, span<const f8e4m3>, span<f8e4m3>,
                                                 workspace) const noexcept;
TUCK_TEMPLATE uint32_t steps<f8e5m2>::encode_chunk(span<const f8e5m2>, span<const f8e5m2>, bytes,
                                                   workspace) const noexcept;
TUCK_TEMPLATE status steps<f8e5m2>::decode_chunk(const_bytes, span<const f8e5m2>, span<f8e5m2>,
                                                 workspace) const noexcept;
TUCK_TEMPLATE uint32_t steps<f16>::encode_chunk(span<const f16>, span<const f16>, bytes, workspace) const noexcept;
TUCK_TEMPLATE status steps<f16>::decode_chunk(const_bytes, span<const f16>, span<f16>, workspace) const noexcept;
TUCK_TEMPLATE uint32_t steps<bf16>::encode_chunk(span<const bf16>, span<const bf16>, bytes, workspace) const noexcept;
TUCK_TEMPLATE status steps<bf16>::decode_chunk(const_bytes, span<const bf16>, span<bf16>, workspace) const noexcept;
TUCK_TEMPLATE uint32_t steps<float>::encode_chunk(span<const float>, span<const float>, bytes,
                                                  workspace) const noexcept;
TUCK_TEMPLATE status steps<float>::decode_chunk(const_bytes, span<const float>, span<float>, workspace) const noexcept;
TUCK_TEMPLATE uint32_t quantize<f16>::encode_chunk(span<const f16>, bytes, workspace) const noexcept;
TUCK_TEMPLATE status quantize<f16>::decode_chunk(const_bytes, span<f16>) const noexcept;
TUCK_TEMPLATE uint32_t quantize<bf16>::encode_chunk(span<const bf16>, bytes, workspace) const noexcept;
TUCK_TEMPLATE status quantize<bf16>::decode_chunk(const_bytes, span<bf16>) const noexcept;
TUCK_TEMPLATE uint32_t quantize<float>::encode_chunk(span<const float>, bytes, workspace) const noexcept;
TUCK_TEMPLATE status quantize<float>::decode_chunk(const_bytes, span<float>) const noexcept;
TUCK_TEMPLATE uint32_t quantize<double>::encode_chunk(span<const double>, bytes, workspace) const noexcept;
TUCK_TEMPLATE status quantize<double>::decode_chunk(const_bytes, span<double>) const noexcept;
TUCK_TEMPLATE uint32_t quantize_codes<f16>::encode_chunk(span<const f16>, bytes, workspace) const noexcept;
TUCK_TEMPLATE status quantize_codes<f16>::decode_chunk(const_bytes, span<f16>) const noexcept;
TUCK_TEMPLATE uint32_t quantize_codes<bf16>::encode_chunk(span<const bf16>, bytes, workspace) const noexcept;
TUCK_TEMPLATE status quantize_codes<bf16>::decode_chunk(const_bytes, span<bf16>) const noexcept;
TUCK_TEMPLATE uint32_t quantize_codes<float>::encode_chunk(span<const float>, bytes, workspace) const noexcept;
TUCK_TEMPLATE status quantize_codes<float>::decode_chunk(const_bytes, span<float>) const noexcept;
TUCK_TEMPLATE uint32_t quantize_codes<double>::encode_chunk(span<const double>, bytes, workspace) const noexcept;
TUCK_TEMPLATE status quantize_codes<double>::decode_chunk(const_bytes, span<double>) const noexcept;

}  // namespace tuck::inline TUCK_ABI

#undef TUCK_TEMPLATE
