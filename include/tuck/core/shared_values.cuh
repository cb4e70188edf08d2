// Values one behind the other in shared memory, written and read by one thread, without branches.
#pragma once

#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::device {

// Where the next value of U is written or read, in steps of a value, if `mask & Bits`. 8-byte values may be at
// multiples of 4.
template <class U> class shared_cursor {
  static constexpr int size = sizeof(U);
  using word = std::conditional_t<size == 8, uint64_t, uint32_t>;

 public:
  __device__ __forceinline__ shared_cursor(const void* base, uint32_t offset)
      : at_(static_cast<uint32_t>(__cvta_generic_to_shared(base)) + offset) {}

// The instructions below but for the type that memory has, of values of up to 4 bytes; of 8-byte values each half's.
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

  // The next value, or 0.
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

  // The value before the next one, after a step if `mask & Bits`.
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

// Bytes into words of shared memory that are zero, next to other threads' bytes.
class shared_byte_writer {
 public:
  __device__ __forceinline__ shared_byte_writer(void* base, uint32_t offset)
      : at_((static_cast<uint32_t>(__cvta_generic_to_shared(base)) + offset) & ~3u), fill_(offset * 8 % 32) {}

  // The low `bits` / 8 <= 4 bytes of x, whose others are zero; the base is a multiple of 4.
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

}  // namespace tuck::inline TUCK_ABI::device
