// SPDX-License-Identifier: Apache-2.0
// Bit streams, one per thread, and tables, packed values and bit fields in shared memory, without branches.
//
// An operand that is written while others are still to be read has `&`. Without it, the compiler may keep it in one
// register with an input of the same value, as where both are known to be 0. The simulator has a twin of this file,
// which must do the same.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::device {

// A table of words in shared memory. The index is the field of x of `Bits` bits from bit `First` on.
class shared_words {
 public:
  __device__ __forceinline__ explicit shared_words(const uint32_t* first)
      : at_(static_cast<uint32_t>(__cvta_generic_to_shared(first))) {}

  template <uint32_t First, uint32_t Bits> __device__ __forceinline__ uint32_t of(uint32_t x) const {
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address<First, Bits>(x)) : "memory");
    return word;
  }
  // Adds 1 to the entry, atomically.
  template <uint32_t First, uint32_t Bits> __device__ __forceinline__ void count(uint32_t x) const {
    asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(address<First, Bits>(x)) : "memory");
  }

 private:
  template <uint32_t First, uint32_t Bits> __device__ __forceinline__ uint32_t address(uint32_t x) const {
    if constexpr (Bits == 8 && First % 8 == 0) return dot4<4u << First>(x, at_);
    uint32_t at;
    asm("{.reg .b32 t; bfe.u32 t, %1, %3, %4; mad.lo.u32 %0, t, 4, %2;}"
        : "=r"(at)
        : "r"(x), "r"(at_), "n"(First), "n"(Bits));
    return at;
  }

  uint32_t at_;
};

// A table of entries of 16 or 32 bits in shared memory. The index is the highest `Bits` bits of a window. The low five
// bits of an entry are the number of bits that its code has.
template <uint32_t Bits, class Entry = uint16_t> class shared_codes {
 public:
  __device__ __forceinline__ explicit shared_codes(const Entry* first)
      : at_(static_cast<uint32_t>(__cvta_generic_to_shared(first))) {}

  __device__ __forceinline__ uint32_t of(uint32_t window) const {
    uint32_t entry;
    if constexpr (sizeof(Entry) == 2)
      asm volatile("{.reg .b32 t; shr.u32 t, %1, %3; mad.lo.u32 t, t, 2, %2; ld.shared.u16 %0, [t];}"
                   : "=r"(entry)
                   : "r"(window), "r"(at_), "n"(32 - Bits)
                   : "memory");
    else
      asm volatile("{.reg .b32 t; shr.u32 t, %1, %3; mad.lo.u32 t, t, 4, %2; ld.shared.u32 %0, [t];}"
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
  __device__ __forceinline__ uint32_t get() {
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

// Writes a stream of codes, highest bit first, to every `step`-th word of shared memory. A code has its bits at the top
// of a word, its length in the low four bits, and zeros between them.
class codes_to_shared {
 public:
  __device__ __forceinline__ codes_to_shared(uint32_t* words, uint32_t first_bit, uint32_t step)
      : at_(static_cast<uint32_t>(__cvta_generic_to_shared(words + first_bit / 32))),
        step_(4 * step),
        end_(first_bit % 32),
        begin_(first_bit % 32) {}

  // Appends two codes of up to 10 bits. The second may be 0.
  __device__ __forceinline__ void put(uint32_t a, uint32_t b) {
    uint32_t end;
    asm volatile(
        "{.reg .pred p; .reg .b32 t; add.u32 t, %4, %5; shf.l.wrap.b32 %0, %1, %0, t; shf.l.wrap.b32 %1, %4, %1, %4;"
        " shf.l.wrap.b32 %1, %5, %1, %5; add.u32 %2, t, %7; lop3.b32 t, %2, %7, 32, 0x28; setp.ne.u32 p, t, 0;"
        " @p shf.r.wrap.b32 t, %1, %0, %2; @p st.shared.u32 [%3], t; @p add.u32 %3, %3, %6;}"
        : "+&r"(before_), "+&r"(last_), "=&r"(end), "+r"(at_)
        : "r"(a), "r"(b), "r"(step_), "r"(end_)
        : "memory");
    end_ = end;
  }
  // Appends four codes of 10 bits at most, unless their lengths are more than 32 in all or one of them is marked by 32
  // more. Returns whether they were appended.
  __device__ __forceinline__ bool put_four(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    uint32_t joined, bits;
    asm("{.reg .b32 x, y, s, t; shf.r.wrap.b32 x, %3, 0, %2; lop3.b32 x, x, %2, 0xfffff000, 0xa8; add.u32 s, %2, %3;"
        " shf.r.wrap.b32 y, %5, 0, %4; lop3.b32 y, y, %4, 0xfffff000, 0xa8; add.u32 t, %4, %5;"
        " shf.r.wrap.b32 y, y, 0, s; or.b32 %0, x, y; add.u32 %1, s, t; and.b32 %1, %1, 255;}"
        : "=r"(joined), "=r"(bits)
        : "r"(a), "r"(b), "r"(c), "r"(d));
    if (bits > 32) return false;
    put_bits(joined, bits);
    return true;
  }
  // Appends the `bits` <= 32 bits at the top of x; ignores the other bits of x.
  __device__ __forceinline__ void put_bits(uint32_t x, uint32_t bits) {
    uint32_t end;
    asm volatile(
        "{.reg .pred p; .reg .b32 t; shf.l.clamp.b32 %0, %1, %0, %4; shf.l.clamp.b32 %1, %5, %1, %4;"
        " add.u32 %2, %4, %7; lop3.b32 t, %2, %7, 32, 0x28; setp.ne.u32 p, t, 0;"
        " @p shf.r.wrap.b32 t, %1, %0, %2; @p st.shared.u32 [%3], t; @p add.u32 %3, %3, %6;}"
        : "+&r"(before_), "+&r"(last_), "=&r"(end), "+r"(at_)
        : "r"(bits), "r"(x), "r"(step_), "r"(end_)
        : "memory");
    end_ = end;
  }
  // Goes back to `last` if the next word lies behind it. Bits that follow overwrite others.
  __device__ __forceinline__ void stay_before(uint32_t* last) {
    const auto limit = static_cast<uint32_t>(__cvta_generic_to_shared(last));
    at_ = at_ < limit ? at_ : limit;
  }
  // Returns the number of bits that were appended: fewer than 2^22.
  __device__ __forceinline__ uint32_t bits() const { return (end_ - begin_) & ((1u << 22) - 1); }
  // Writes the last, incomplete word, with zeros after its bits. It may have no bits.
  __device__ __forceinline__ void finish() {
    asm volatile(
        "{.reg .b32 t; and.b32 t, %1, 31; sub.u32 t, 32, t; shl.b32 t, %2, t; st.shared.u32 [%0], t;}" ::"r"(at_),
        "r"(end_), "r"(last_)
        : "memory");
  }
  // The same, unless it has no bits.
  __device__ __forceinline__ void finish_any() {
    if (end_ % 32 != 0) finish();
  }
  // Adds the bits of the last, incomplete word to those of other threads. Call it after a barrier.
  __device__ __forceinline__ void merge() {
    asm volatile(
        "{.reg .pred p; .reg .b32 t; and.b32 t, %1, 31; setp.ne.u32 p, t, 0; sub.u32 t, 32, t; shl.b32 t, %2, t;"
        " @p red.shared.or.b32 [%0], t;}" ::"r"(at_),
        "r"(end_), "r"(last_)
        : "memory");
  }

 private:
  uint32_t at_, step_, before_ = 0, last_ = 0;  // the 64 bits before the end: those of `before_` are the earlier ones
  uint32_t end_, begin_;                        // positions in bits; the highest 10 bits of `end_` are arbitrary
};

// Bits in words of shared memory, highest first. Positions behind the last word are as those in it.
class bits_in_shared {
 public:
  // There must be at least one word. The word after the last one is read too.
  __device__ __forceinline__ bits_in_shared(const uint32_t* words, uint32_t count)
      : at_(static_cast<uint32_t>(__cvta_generic_to_shared(words))), last_(count - 1) {}

  // Returns the 32 bits from bit `bit` on.
  __device__ __forceinline__ uint32_t from(uint32_t bit) const {
    uint32_t x;
    asm volatile(
        "{.reg .b32 a, b; shr.u32 a, %1, 5; min.u32 a, a, %3; mad.lo.u32 a, a, 4, %2; ld.shared.u32 b, [a + 4];"
        " ld.shared.u32 a, [a]; shf.l.wrap.b32 %0, b, a, %1;}"
        : "=r"(x)
        : "r"(bit), "r"(at_), "r"(last_)
        : "memory");
    return x;
  }

 private:
  uint32_t at_, last_;
};

// A position in an array of U in shared memory. Values of 8 bytes may be at multiples of 4.
template <class U> class shared_position {
  static constexpr int size = sizeof(U);
  using word = std::conditional_t<size == 8, uint64_t, uint32_t>;

 public:
  shared_position() = default;
  // `offset` is in bytes. base + offset is a multiple of the size of U, or of 4 for 8 bytes.
  __device__ __forceinline__ shared_position(const void* base, uint32_t offset)
      : at_(static_cast<uint32_t>(__cvta_generic_to_shared(base)) + offset) {}

  // Returns the position `count` values further.
  __device__ __forceinline__ shared_position after(uint32_t count) const {
    shared_position p = *this;
    p.at_ += count * size;
    return p;
  }
  // The same; byte `Byte` of `counts` is the number of values.
  template <int Byte> __device__ __forceinline__ shared_position after_byte(uint32_t counts) const {
    shared_position p;
    p.at_ = dot4<uint32_t{size} << (8 * Byte)>(counts, at_);
    return p;
  }
  // Returns the number of values from `begin` to this position.
  __device__ __forceinline__ uint32_t values_from(shared_position begin) const { return (at_ - begin.at_) / size; }

// The instructions of the members without the memory type: for values of up to 4 bytes, and for halves of 8 bytes.
#define TUCK_PUT(registers, store)                                                                                \
  asm volatile("{.reg .pred p; .reg .b32 t, l, h; and.b32 t, %1, %3; setp.ne.b32 p, t, 0; " store "}" ::"r"(at_), \
               "r"(mask), registers(v), "n"(Bits)                                                                 \
               : "memory")
#define TUCK_GET(registers, load)                                                                    \
  asm volatile("{.reg .pred p; .reg .b32 t, l, h; and.b32 t, %2, %3; setp.ne.b32 p, t, 0; " load "}" \
               : "=&" registers(v)                                                                   \
               : "r"(at_), "r"(mask), "n"(Bits)                                                      \
               : "memory")
#define TUCK_GET_SMALL(type) TUCK_GET("r", "mov.b32 %0, 0; @p ld.shared." type " %0, [%1];")

  // Writes the low bytes of v if `mask & Bits` is not 0.
  template <uint32_t Bits> __device__ __forceinline__ void put_if(uint32_t mask, word v) const {
    if constexpr (size == 8)
      TUCK_PUT("l", "mov.b64 {l, h}, %2; @p st.shared.b32 [%0], l; @p st.shared.b32 [%0 + 4], h;");
    if constexpr (size == 4) TUCK_PUT("r", "@p st.shared.b32 [%0], %2;");
    if constexpr (size == 2) TUCK_PUT("r", "@p st.shared.b16 [%0], %2;");
    if constexpr (size == 1) TUCK_PUT("r", "@p st.shared.b8 [%0], %2;");
  }

  // Returns the value here if `mask & Bits` is not 0, else 0.
  template <uint32_t Bits> __device__ __forceinline__ word get_if(uint32_t mask) const {
    word v;
    if constexpr (size == 8)
      TUCK_GET("l",
               "mov.b32 l, 0; mov.b32 h, 0; @p ld.shared.b32 l, [%1]; @p ld.shared.b32 h, [%1 + 4];"
               " mov.b64 %0, {l, h};");
    if constexpr (size == 4) TUCK_GET_SMALL("b32");
    if constexpr (size == 2) TUCK_GET_SMALL("u16");
    if constexpr (size == 1) TUCK_GET_SMALL("u8");
    return v;
  }

#undef TUCK_PUT
#undef TUCK_GET
#undef TUCK_GET_SMALL

  // Returns the value before this position.
  __device__ __forceinline__ word before() const {
    const auto* const from = address<std::conditional_t<size == 8, uint32_t, U>>(at_ - size);
    if constexpr (size == 8)
      return join_words(from[0], from[1]);
    else
      return from[0];
  }
  // Returns the next four bytes. Reads the words that they are in, or one more.
  __device__ __forceinline__ uint32_t four_bytes() const {
    const auto* const from = address<uint32_t>(at_ / 4 * 4);
    return funnel_shift_right(from[0], from[1], 8 * at_);
  }

 private:
  friend class shared_bit_writer;
  template <class V> __device__ __forceinline__ static const V* address(uint32_t at) {
    return static_cast<const V*>(__cvta_shared_to_generic(at));
  }

  uint32_t at_;
};

// Writes bits into words of shared memory that are zero, next to the bits of other threads.
class shared_bit_writer {
 public:
  // Begins at bit `bit` after `base`, which is a multiple of 4.
  __device__ __forceinline__ shared_bit_writer(void* base, uint32_t bit)
      : at_(static_cast<uint32_t>(__cvta_generic_to_shared(base)) + bit / 32 * 4), end_(bit % 32) {}
  __device__ __forceinline__ explicit shared_bit_writer(shared_position<uint8_t> begin)
      : at_(begin.at_ / 4 * 4), end_(begin.at_ % 4 * 8) {}

  // Appends the low `bits` <= 32 of x; ignores the other bits of x.
  __device__ __forceinline__ void put(uint32_t x, uint32_t bits) {
    uint32_t end;
    asm volatile(
        "{.reg .pred p; .reg .b32 t; shf.r.clamp.b32 %0, %0, %1, %5; shf.r.clamp.b32 %1, %1, %4, %5;"
        " add.u32 %2, %6, %5; lop3.b32 t, %2, %6, 32, 0x28; setp.ne.u32 p, t, 0; @p shf.l.wrap.b32 t, %0, %1, %2;"
        " @p red.shared.or.b32 [%3], t; @p add.u32 %3, %3, 4;}"
        : "+&r"(before_), "+&r"(last_), "=&r"(end), "+r"(at_)
        : "r"(x), "r"(bits), "r"(end_)
        : "memory");
    end_ = end;
  }
  // The same for a word of 4 or 8 bytes.
  template <class Word> __device__ __forceinline__ void put_word(Word x, uint32_t bits) {
    put(static_cast<uint32_t>(x), bits < 32 ? bits : 32);
    if constexpr (sizeof(Word) == 8)
      if (bits > 32) put(static_cast<uint32_t>(x >> 32), bits - 32);
  }
  __device__ __forceinline__ void finish() {
    asm volatile(
        "{.reg .pred p; .reg .b32 t; shf.l.wrap.b32 t, %1, 0, %2; setp.ne.b32 p, t, 0; @p red.shared.or.b32 [%0], "
        "t;}" ::"r"(at_),
        "r"(last_), "r"(end_)
        : "memory");
  }

 private:
  uint32_t at_, before_ = 0, last_ = 0;  // the 64 bits before the end: those of `before_` are the earlier ones
  uint32_t end_;                         // only the low five bits count
};

// If x is not 0, multiplies `piece` by `factor`, which frees its lowest bits, adds `field`, and adds `width` to `bits`.
__device__ __forceinline__ void join_if_not_zero(uint32_t x, uint32_t field, uint32_t& piece, uint32_t& bits,
                                                 uint32_t factor, uint32_t width) {
  asm("{.reg .pred p; setp.ne.b32 p, %2, 0; @p mad.lo.u32 %0, %0, %4, %3; @p add.u32 %1, %1, %5;}"
      : "+&r"(piece), "+r"(bits)
      : "r"(x), "r"(field), "r"(factor), "r"(width));
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
// Returns `bits` <= 8 sizeof(Word) bits from bit `bit` on of words in shared memory, as shared_window.
template <class Word> __device__ Word shared_bits(const uint32_t* words, uint32_t bit, uint32_t bits) {
  const uint32_t low = shared_window(words, bit) & low_mask(bits);
  if constexpr (sizeof(Word) == 8)
    if (bits > 32) return low | static_cast<Word>(shared_window(words, bit + 32) & low_mask(bits - 32)) << 32;
  return static_cast<Word>(low);
}
// If `mask & Bit` is not 0, returns base + (window & field), and removes `width` bits from the window. Otherwise
// returns `absent`.
template <uint32_t Bit>
__device__ __forceinline__ uint32_t unpack_if(uint32_t mask, uint32_t& window, uint32_t field, uint32_t width,
                                              uint32_t base, uint32_t absent) {
  uint32_t x;
  asm("{.reg .pred p; .reg .b32 t; and.b32 t, %2, %6; setp.ne.b32 p, t, 0; mov.b32 %0, %7; and.b32 t, %1, %3;"
      " @p add.u32 %0, t, %5; @p shr.u32 %1, %1, %4;}"
      : "=&r"(x), "+r"(window)
      : "r"(mask), "r"(field), "r"(width), "r"(base), "n"(Bit), "r"(absent));
  return x;
}

}  // namespace tuck::inline TUCK_ABI::device
