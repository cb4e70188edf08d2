// Packed values and bit fields in shared memory, written and read by one thread without branches.
#pragma once

#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::device {

// A position in an array of U. Each operation accesses the next value and advances if `mask & Bits` is not 0. Values of
// 8 bytes may be at multiples of 4.
template <class U> class shared_cursor {
  static constexpr int size = sizeof(U);
  using word = std::conditional_t<size == 8, uint64_t, uint32_t>;

 public:
  __device__ __forceinline__ shared_cursor(const void* base, uint32_t offset)
      : at_(static_cast<uint32_t>(__cvta_generic_to_shared(base)) + offset) {}

// The instructions of the members without the memory type: for values of up to 4 bytes, and for halves of 8 bytes.
#define TUCK_PUT(registers, store)                                                                \
  asm volatile("{.reg .pred p; .reg .b32 t, l, h; and.b32 t, %1, %3; setp.ne.b32 p, t, 0; " store \
               " @p add.u32 %0, %0, %4;}"                                                         \
               : "+r"(at_)                                                                        \
               : "r"(mask), registers(v), "n"(Bits), "n"(size)                                    \
               : "memory")
#define TUCK_GET(registers, load)                                                                \
  asm volatile("{.reg .pred p; .reg .b32 t, l, h; and.b32 t, %2, %3; setp.ne.b32 p, t, 0; " load \
               : "=&" registers(v), "+r"(at_)                                                    \
               : "r"(mask), "n"(Bits), "n"(size)                                                 \
               : "memory")
#define TUCK_GET_SMALL(type) TUCK_GET("r", "mov.b32 %0, 0; @p ld.shared." type " %0, [%1]; @p add.u32 %1, %1, %4;}")
#define TUCK_STEP(registers, load) asm volatile(load : "=" registers(v) : "r"(at_), "n"(-size) : "memory")

  // Writes the low bytes of v.
  template <uint32_t Bits> __device__ __forceinline__ void put_if(uint32_t mask, word v) {
    if constexpr (size == 8)
      TUCK_PUT("l", "mov.b64 {l, h}, %2; @p st.shared.b32 [%0], l; @p st.shared.b32 [%0 + 4], h;");
    if constexpr (size == 4) TUCK_PUT("r", "@p st.shared.b32 [%0], %2;");
    if constexpr (size == 2) TUCK_PUT("r", "@p st.shared.b16 [%0], %2;");
    if constexpr (size == 1) TUCK_PUT("r", "@p st.shared.b8 [%0], %2;");
  }

  // Returns the next value, or 0 if the position does not advance.
  template <uint32_t Bits> __device__ __forceinline__ word get_if(uint32_t mask) {
    word v;
    if constexpr (size == 8)
      TUCK_GET("l",
               "mov.b32 l, 0; mov.b32 h, 0; @p ld.shared.b32 l, [%1]; @p ld.shared.b32 h, [%1 + 4];"
               " @p add.u32 %1, %1, %4; mov.b64 %0, {l, h};}");
    if constexpr (size == 4) TUCK_GET_SMALL("b32");
    if constexpr (size == 2) TUCK_GET_SMALL("u16");
    if constexpr (size == 1) TUCK_GET_SMALL("u8");
    return v;
  }

  // Advances if `mask & Bits` is not 0. Returns the value before the position.
  template <uint32_t Bits> __device__ __forceinline__ word step_if(uint32_t mask) {
    word v;
    asm volatile("{.reg .pred p; .reg .b32 t; and.b32 t, %1, %2; setp.ne.b32 p, t, 0; @p add.u32 %0, %0, %3;}"
                 : "+r"(at_)
                 : "r"(mask), "n"(Bits), "n"(size));
    if constexpr (size == 8)
      TUCK_STEP("l", "{.reg .b32 l, h; ld.shared.b32 l, [%1 + %2]; ld.shared.b32 h, [%1 + -4]; mov.b64 %0, {l, h};}");
    if constexpr (size == 4) TUCK_STEP("r", "ld.shared.b32 %0, [%1 + %2];");
    if constexpr (size == 2) TUCK_STEP("r", "ld.shared.u16 %0, [%1 + %2];");
    if constexpr (size == 1) TUCK_STEP("r", "ld.shared.u8 %0, [%1 + %2];");
    return v;
  }

#undef TUCK_PUT
#undef TUCK_GET
#undef TUCK_GET_SMALL
#undef TUCK_STEP

 private:
  uint32_t at_;
};

// Writes bits into words of shared memory that are zero, next to the bits of other threads.
class shared_bit_writer {
 public:
  // Begins at bit `bit` after `base`, which is a multiple of 4.
  __device__ __forceinline__ shared_bit_writer(void* base, uint32_t bit)
      : at_(static_cast<uint32_t>(__cvta_generic_to_shared(base)) + bit / 32 * 4), fill_(bit % 32) {}

  // Appends the low `bits` <= 32 of x; the other bits of x must be zero.
  __device__ __forceinline__ void put(uint32_t x, uint32_t bits) {
    asm volatile(
        "{.reg .pred p; .reg .b32 h, s; shl.b32 s, %3, %1; or.b32 %0, %0, s; shf.l.clamp.b32 h, %3, 0, %1;"
        " add.u32 %1, %1, %4; setp.ge.u32 p, %1, 32; @p red.shared.or.b32 [%2], %0; @p add.u32 %2, %2, 4;"
        " @p mov.b32 %0, h; @p sub.u32 %1, %1, 32;}"
        : "+r"(pending_), "+r"(fill_), "+r"(at_)
        : "r"(x), "r"(bits)
        : "memory");
  }
  __device__ __forceinline__ void finish() {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %1, 0; @p red.shared.or.b32 [%0], %1;}" ::"r"(at_), "r"(pending_)
                 : "memory");
  }

 private:
  uint32_t at_, fill_, pending_ = 0;
};

// If x is not 0, multiplies `piece` by `factor`, which frees its lowest bits for x, adds x, and adds `width` to `bits`.
__device__ __forceinline__ void join_if_not_zero(uint32_t x, uint32_t& piece, uint32_t& bits, uint32_t factor,
                                                 uint32_t width) {
  asm("{.reg .pred p; setp.ne.b32 p, %2, 0; @p mad.lo.u32 %0, %0, %3, %2; @p add.u32 %1, %1, %4;}"
      : "+r"(piece), "+r"(bits)
      : "r"(x), "r"(factor), "r"(width));
}

// Returns the 32 bits from bit `bit` on of words in shared memory. Nobody may write these words after `bit` is
// computed, because the compiler may move the read up to there.
__device__ __forceinline__ uint32_t shared_window(const uint32_t* words, uint32_t bit) {
  uint32_t x;
  asm("{.reg .b32 a, b; shr.u32 a, %2, 3; and.b32 a, a, 0xfffffffc; add.u32 a, a, %1; ld.shared.b32 b, [a + 4];"
      " ld.shared.b32 a, [a]; shf.r.wrap.b32 %0, a, b, %2;}"
      : "=r"(x)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(words))), "r"(bit));
  return x;
}
// If `mask & Bit` is not 0, returns base + (window & field), removes `width` bits from the window, and adds `width` to
// `bits`. Otherwise returns `absent`.
template <uint32_t Bit>
__device__ __forceinline__ uint32_t take_if(uint32_t mask, uint32_t& window, uint32_t& bits, uint32_t field,
                                            uint32_t width, uint32_t base, uint32_t absent) {
  uint32_t x;
  asm("{.reg .pred p; .reg .b32 t; and.b32 t, %3, %7; setp.ne.b32 p, t, 0; mov.b32 %0, %8; and.b32 t, %1, %4;"
      " @p add.u32 %0, t, %6; @p shr.u32 %1, %1, %5; @p add.u32 %2, %2, %5;}"
      : "=&r"(x), "+r"(window), "+r"(bits)
      : "r"(mask), "r"(field), "r"(width), "r"(base), "n"(Bit), "r"(absent));
  return x;
}

}  // namespace tuck::inline TUCK_ABI::device
