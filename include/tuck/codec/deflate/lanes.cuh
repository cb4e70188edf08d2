// What a lane decodes a sub-block with: bits from global memory, and bytes on their way out.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/core/span.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

// bit_input for a stream in global memory, from some bit on; nothing outside the stream's 16-byte words is read.
class lane_input {
 public:
  __device__ lane_input(const_bytes stream, uint32_t first_bit)
      : skipped_(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(stream.data()) % 16)),
        end_(static_cast<uint32_t>(stream.size()) + skipped_),
        words_(reinterpret_cast<const device::vec128*>(stream.data() - skipped_)) {
    const uint32_t bit = first_bit + 8 * skipped_;
    next_ = bit / 128;
    load();
    for (uint32_t i = 0; i < bit % 128 / 32; ++i) shift_out();
    bits_ = uint64_t{queue_.w[0]} >> (bit % 32);
    fill_ = 32 - bit % 32;
    shift_out();
  }

  // Makes the next 32 bits available.
  __device__ void refill() {
    if (fill_ > 32) return;
    if (left_ == 0) load();
    bits_ |= uint64_t{queue_.w[0]} << fill_;
    fill_ += 32;
    shift_out();
  }
  __device__ uint32_t peek() const { return static_cast<uint32_t>(bits_); }
  __device__ void drop(uint32_t width) {
    bits_ >>= width;
    fill_ -= width;
  }
  __device__ uint32_t position() const { return 128 * next_ - 32 * left_ - fill_ - 8 * skipped_; }
  __device__ bool overrun() const { return position() > 8 * (end_ - skipped_); }
  __device__ bool ends_here() const { return (position() + 7) / 8 == end_ - skipped_; }

 private:
  __device__ void shift_out() {
    queue_.w[0] = queue_.w[1];
    queue_.w[1] = queue_.w[2];
    queue_.w[2] = queue_.w[3];
    --left_;
  }
  __device__ void load() {
    const uint32_t first = 16 * next_;
    left_ = 4;
    if (first + 16 <= end_) {
      queue_ = device::load(words_ + next_);
    } else {
      const auto* const from = reinterpret_cast<const std::byte*>(words_);
      uint64_t low = 0, high = 0;
#pragma unroll 1
      for (uint32_t i = first + 16; i-- > first;) {
        high = high << 8 | low >> 56;
        low = low << 8 | (i < end_ ? static_cast<uint64_t>(device::load(from + i)) : 0);
      }
      queue_ = {{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                 static_cast<uint32_t>(high >> 32)}};
    }
    ++next_;
  }

  uint32_t skipped_;  // bytes of the first vector before the stream
  uint32_t end_;      // of the stream, in bytes from words_
  const device::vec128* words_;
  device::vec128 queue_;
  uint64_t bits_;
  uint32_t next_;  // vector
  uint32_t left_;  // words in the queue
  uint32_t fill_;
};

// Hands a sub-block to a sink of the block codec, 16 bytes at a time.
template <element T, class Sink> class lane_output {
 public:
  static constexpr bool takes_literals_at_once = false;  // lanes would part

  __device__ lane_output(uint32_t first_byte, Sink& sink) : sink_(sink), at_(first_byte) {}

  __device__ void put(uint32_t byte) {
    word_ |= uint64_t{byte} << (8 * fill_);
    if (++fill_ == 8) next_word();
  }
  // distance 1, 2, 4 or 8: the last eight bytes, each at its place modulo 8, go on for ever.
  __device__ void repeat(uint32_t distance, uint32_t length) {
    const uint64_t from_here = ~uint64_t{0} << (8 * fill_);
    const uint64_t before = word_ | (last_ & from_here);
    uint64_t pattern = rotated_right(before, fill_) >> (64 - 8 * distance);
    if (distance == 1) pattern *= 0x0101010101010101u;
    if (distance == 2) pattern *= 0x0001000100010001u;
    if (distance == 4) pattern *= 0x0000000100000001u;
    pattern = rotated_right(pattern, 8 - fill_);
    word_ |= pattern & from_here;
    for (uint32_t room = 8 - fill_; length >= room; room = 8) {
      length -= room;
      next_word();
      word_ = pattern;
    }
    fill_ += length;
    word_ &= ~(~uint64_t{0} << (8 * fill_));
  }
  // Behind the last byte: the words that are left.
  __device__ void finish() {
    using word = typename block_tile<T, block_threads>::word;
    const bool holds = at_ % 16 != 0;
    uint64_t low = holds ? last_ : word_, high = holds ? word_ : 0;
    for (uint32_t first = holds ? at_ - 8 : at_; first < at_ + fill_; first += sizeof(word)) {
      sink_(first / uint32_t{sizeof(T)}, static_cast<word>(low));
      low = sizeof(word) == 8 ? high : low >> 32 | high << 32;
      high >>= 32;
    }
  }

 private:
  __device__ static uint64_t rotated_right(uint64_t x, uint32_t bytes) {
    return x >> (8 * (bytes % 8)) | x << (8 * ((8 - bytes) % 8));
  }
  __device__ void next_word() {
    if (at_ % 16 != 0)
      sink_((at_ - 8) / uint32_t{sizeof(T)},
            device::vec128{{static_cast<uint32_t>(last_), static_cast<uint32_t>(last_ >> 32),
                            static_cast<uint32_t>(word_), static_cast<uint32_t>(word_ >> 32)}});
    at_ += 8;
    last_ = word_;
    word_ = 0;
    fill_ = 0;
  }

  Sink& sink_;
  uint64_t word_ = 0;  // the bytes since at_, zeros behind them
  uint64_t last_ = 0;  // the eight bytes before at_, handed over together with those
  uint32_t at_;        // a multiple of 8
  uint32_t fill_ = 0;  // < 8
};

}  // namespace tuck::inline TUCK_ABI::deflate_format
