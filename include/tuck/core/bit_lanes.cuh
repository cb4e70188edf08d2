// Bit streams, one per thread, and tables in shared memory, without branches.
#pragma once

#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::device {

// A table of words in shared memory. The index is the field of x of `Bits` bits from bit `First` on.
class shared_words {
 public:
  __device__ __forceinline__ explicit shared_words(const uint32_t* first)
      : at_(static_cast<uint32_t>(__cvta_generic_to_shared(first))) {}

  template <uint32_t First, uint32_t Bits> __device__ __forceinline__ uint32_t of(uint32_t x) const {
    uint32_t word;
    asm volatile("{.reg .b32 t; bfe.u32 t, %1, %3, %4; mad.lo.u32 t, t, 4, %2; ld.shared.u32 %0, [t];}"
                 : "=r"(word)
                 : "r"(x), "r"(at_), "n"(First), "n"(Bits)
                 : "memory");
    return word;
  }
  // Adds 1 to the entry, atomically.
  template <uint32_t First, uint32_t Bits> __device__ __forceinline__ void count(uint32_t x) const {
    asm volatile("{.reg .b32 t; bfe.u32 t, %0, %2, %3; mad.lo.u32 t, t, 4, %1; red.shared.add.u32 [t], 1;}" ::"r"(x),
                 "r"(at_), "n"(First), "n"(Bits)
                 : "memory");
  }

 private:
  uint32_t at_;
};

// A table of 16-bit entries in shared memory. The index is the highest `Bits` bits of a window. The low five bits of an
// entry are the number of bits that its code has, and its high byte is a symbol.
template <uint32_t Bits> class shared_codes {
 public:
  __device__ __forceinline__ explicit shared_codes(const uint16_t* first)
      : at_(static_cast<uint32_t>(__cvta_generic_to_shared(first))) {}

  __device__ __forceinline__ uint32_t of(uint32_t window) const {
    uint32_t entry;
    asm volatile("{.reg .b32 t; shr.u32 t, %1, %3; mad.lo.u32 t, t, 2, %2; ld.shared.u16 %0, [t];}"
                 : "=r"(entry)
                 : "r"(window), "r"(at_), "n"(32 - Bits)
                 : "memory");
    return entry;
  }
  // Returns the window after the code of an entry.
  __device__ __forceinline__ static uint32_t behind(uint32_t window, uint32_t entry) {
    uint32_t x;
    asm("shf.l.wrap.b32 %0, 0, %1, %2;" : "=r"(x) : "r"(window), "r"(entry));
    return x;
  }

 private:
  uint32_t at_;
};

// Every `step`-th word in shared memory from `begin` on, up to `end`.
class shared_steps {
 public:
  __device__ __forceinline__ shared_steps(const uint32_t* words, uint32_t begin, uint32_t end, uint32_t step)
      : at_(static_cast<uint32_t>(__cvta_generic_to_shared(words + begin))), step_(4 * step) {
    end_ = at_ + 4 * (end - begin);
    if (begin >= end) end_ = at_;
  }
  __device__ __forceinline__ bool has_more() const { return at_ < end_; }
  __device__ __forceinline__ uint32_t take() {
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at_) : "memory");
    at_ += step_;
    return word;
  }
  __device__ __forceinline__ void put(uint32_t word) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at_), "r"(word) : "memory");
    at_ += step_;
  }

 private:
  uint32_t at_, end_, step_;
};

enum class bit_order { highest_first, lowest_first };

// Writes a bit stream to shared memory, word by word. `finish` adds the last, incomplete word.
template <bit_order Order> class bits_to_shared {
 public:
  __device__ __forceinline__ bits_to_shared(uint32_t* words, uint32_t first_bit)
      : at_(static_cast<uint32_t>(__cvta_generic_to_shared(words + first_bit / 32))), fill_(first_bit % 32) {}

  // Appends the first `count` < 32 bits of `bits`; the others must be 0.
  __device__ __forceinline__ void put(uint32_t bits, uint32_t count) {
#define TUCK_PUT(there, back)                                                                                    \
  asm volatile("{.reg .pred p; .reg .b32 t; " there                                                              \
               " t, %3, %1; or.b32 %0, %0, t; add.u32 %1, %1, %4;"                                               \
               " setp.ge.u32 p, %1, 32; @p st.shared.u32 [%2], %0; @p add.u32 %2, %2, 4; @p sub.u32 %1, %1, 32;" \
               " sub.u32 t, %4, %1; @p " back " %0, %3, t;}"                                                     \
               : "+r"(word_), "+r"(fill_), "+r"(at_)                                                             \
               : "r"(bits), "r"(count)                                                                           \
               : "memory")
    if constexpr (Order == bit_order::highest_first)
      TUCK_PUT("shr.u32", "shl.b32");
    else
      TUCK_PUT("shl.b32", "shr.u32");
#undef TUCK_PUT
  }
  // Appends two codes, the second of which may be 0. A code has its bits where `Codes` has ones, and its length in the
  // low five bits.
  template <uint32_t Codes> __device__ __forceinline__ void put_codes(uint32_t a, uint32_t b) {
    static_assert(Order == bit_order::highest_first);
    uint32_t bits;
    asm("{.reg .b32 t; shf.r.wrap.b32 t, %2, 0, %1; lop3.b32 %0, t, %1, %3, 0xa8;}"
        : "=r"(bits)
        : "r"(a), "r"(b), "n"(Codes));
    put(bits, (a + b) & 31);
  }
  __device__ __forceinline__ void finish() {  // call after a barrier
    asm volatile("{.reg .pred p; setp.ne.u32 p, %0, 0; @p red.shared.or.b32 [%1], %2;}" ::"r"(fill_), "r"(at_),
                 "r"(word_)
                 : "memory");
  }

 private:
  uint32_t at_, fill_, word_ = 0;
};

// Reads bits, highest first, from global memory that the kernel does not write. After the last word, it repeats that
// word.
class bits_from_global {
 public:
  // There must be at least one word.
  __device__ __forceinline__ bits_from_global(const uint32_t* words, uint32_t count, uint32_t first_bit)
      : words_(words), last_(count - 1), next_(first_bit / 32 + 2), offset_(first_bit % 32), first_bit_(first_bit) {
    high_ = word(next_ - 2);
    low_ = word(next_ - 1);
  }

  __device__ __forceinline__ uint32_t peek() const {  // the next 32 bits
    uint32_t x;
    asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(x) : "r"(low_), "r"(high_), "r"(offset_));
    return x;
  }
  __device__ __forceinline__ void skip(uint32_t bits) {  // at most 32
    asm volatile(
        "{.reg .pred p; .reg .b32 t; .reg .b64 a; add.u32 %0, %0, %4; setp.ge.u32 p, %0, 32; @p sub.u32 %0, %0, 32;"
        " min.u32 t, %3, %6; @p mov.b32 %1, %2; mad.wide.u32 a, t, 4, %5; @p ld.global.nc.u32 %2, [a];"
        " @p add.u32 %3, %3, 1;}"
        : "+r"(offset_), "+r"(high_), "+r"(low_), "+r"(next_)
        : "r"(bits), "l"(words_), "r"(last_));
  }
  __device__ __forceinline__ uint32_t skipped() const { return 32 * (next_ - 2) + offset_ - first_bit_; }

 private:
  __device__ __forceinline__ uint32_t word(uint32_t i) const { return load(words_ + (i < last_ ? i : last_)); }

  const uint32_t* words_;
  uint32_t last_, next_, offset_, first_bit_, high_, low_;
};

}  // namespace tuck::inline TUCK_ABI::device
