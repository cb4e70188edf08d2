// SPDX-License-Identifier: Apache-2.0
// inflate by one warp of a kernel. Lane 0 decodes 32 tokens at a time into shared memory. The whole warp stages the
// stream, fills the tables, stores the literals and copies the matches.
#pragma once

#include <tuck/codec/inflate/inflate.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI {

namespace deflate_format {

// The input of lane 0 of a warp. The next part of the stream is in shared memory, in words that are aligned in global
// memory. The whole warp calls the members, unless they are for lane 0.
class warp_bit_input : public bit_buffer {
  static constexpr uint32_t ring_words = 128;
  // The most that lane 0 reads between two calls of stage: the header of a dynamic block has at most 2293 bits, 32
  // tokens have at most 1536, and refills read up to 64 bits ahead.
  static constexpr uint32_t words_ahead = (2293 + 64 + 31) / 32;
  static_assert(words_ahead + device::warp_size <= ring_words);

 public:
  static constexpr uint32_t refilled_bits = 32;

  struct TempStorage {
    uint32_t word[ring_words];  // word i of the stream is at i mod ring_words
  };

  __device__ warp_bit_input(TempStorage& ring, const_bytes stream)
      : ring_(ring),
        lead_(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(stream.data()) % 4)),
        words_(stream.data() - lead_),
        end_(lead_ + stream.size()) {
    seek(0);
  }

  // -- for lane 0, which takes one block header or 32 tokens between two calls of stage
  __device__ void refill() {
    if (fill_ > 32) return;
    bits_ |= uint64_t{ring_.word[next_ % ring_words]} << fill_;
    fill_ += 32;
    ++next_;
  }
  __device__ uint64_t position() const { return 32 * next_ - fill_ - 8 * lead_; }
  __device__ bool overrun() const { return 32 * next_ - fill_ > 8 * end_; }

  // Loads the words that lane 0 may read next.
  __device__ void stage() {
    const uint64_t end = device::shfl(next_, 0) + words_ahead;
    for (; staged_ < end; staged_ += device::warp_size) {
      const uint64_t i = staged_ + device::lane_id();
      ring_.word[i % ring_words] = fetch(i);
    }
    device::sync_warp();
  }
  __device__ void seek(uint64_t byte) {
    const uint64_t at = lead_ + byte;
    next_ = at / 4;
    bits_ = 0;
    fill_ = 0;
    if (staged_ < next_) staged_ = next_;
    stage();
    refill();
    drop(static_cast<uint32_t>(at % 4) * 8);
  }

 private:
  // Returns word i, with zeros for the bytes outside the stream.
  __device__ uint32_t fetch(uint64_t i) const {
    if (4 * i >= lead_ && 4 * i + 4 <= end_) return device::load(reinterpret_cast<const uint32_t*>(words_) + i);
    uint32_t word = 0;
    for (uint32_t b = 0; b < 4; ++b)
      if (4 * i + b >= lead_ && 4 * i + b < end_)
        word |= static_cast<uint32_t>(device::load(words_ + 4 * i + b)) << (8 * b);
    return word;
  }

  TempStorage& ring_;
  uint32_t lead_;           // bytes of word 0 before the stream
  const std::byte* words_;  // word 0
  uint64_t end_;            // of the stream, in bytes from word 0
  uint64_t staged_ = 0;     // words loaded so far
  uint64_t next_ = 0;       // index of the next word; this and the bits are valid in lane 0
};

}  // namespace deflate_format

/// Decodes one raw DEFLATE stream by one warp; see inflate for what it accepts.
/// All lanes call it and get the same result. Stream and output are in global memory and must not overlap. The kernel
/// must not write the stream. The warp sees the output after a sync_warp().
class inflate_warp {
  using input = deflate_format::warp_bit_input;
  using token = deflate_format::token;

 public:
  /// Shared memory for one warp; it may be reused after a sync_warp().
  struct TempStorage {
    input::TempStorage ring;
    deflate_format::block block;
    token tokens[device::warp_size];
    uint16_t offsets[device::warp_size];  // offset of each token in the output
    uint32_t token_count;
    uint32_t size;  // of the output of the tokens
    status code;
    bool block_ended;
  };

  __device__ explicit inflate_warp(TempStorage& temp) : temp_(temp) {}

  /// Decodes the stream at the beginning of `stream` into `out`, like inflate.
  __device__ inflate_result operator()(const_bytes stream, bytes out) {
    input in(temp_.ring, stream);
    inflate_result result;
    bool is_final = false, fixed_codes = false;  // fixed_codes: the tables are those of fixed blocks
    do {
      in.stage();
      if (device::lane_id() == 0) temp_.code = temp_.block.read(in, fixed_codes);
      device::sync_warp();
      result.code = temp_.code;
      if (result.code != status::ok) break;
      is_final = temp_.block.is_final;
      const deflate_format::block_type type = temp_.block.type;
      if (type == deflate_format::stored) {
        result.code = copy_stored(in, stream, out, result.bytes);
        continue;
      }
      if (type == deflate_format::dynamic || !fixed_codes) temp_.block.fill(device::lane_id(), device::warp_size);
      fixed_codes = type == deflate_format::fixed;
      result.code = decode_tokens(in, out, result.bytes);
    } while (result.code == status::ok && !is_final);
    const uint64_t position = device::shfl(in.position(), 0);
    if (result.code == status::ok) result.consumed = ceil_div(position, uint64_t{8});
    return result;
  }

 private:
  __device__ status copy_stored(input& in, const_bytes stream, bytes out, uint64_t& produced) {
    const uint64_t from = device::shfl(in.position(), 0) / 8, left = stream.size() - from,
                   capacity = out.size() - produced;
    uint32_t count = temp_.block.stored_bytes;
    if (count > left) count = static_cast<uint32_t>(left);
    if (count > capacity) count = static_cast<uint32_t>(capacity);
#pragma unroll 4
    for (uint32_t i = device::lane_id(); i < count; i += device::warp_size)
      device::store(out.data() + produced + i, device::load(stream.data() + from + i));
    produced += count;
    in.seek(from + count);
    return temp_.block.after_stored(count, capacity);
  }

  __device__ status decode_tokens(input& in, bytes out, uint64_t& produced) {
    for (;;) {
      in.stage();
      if (device::lane_id() == 0) read_tokens(in, produced, out.size() - produced);
      device::sync_warp();
      write_tokens(out.data() + produced);
      produced += temp_.size;
      if (temp_.block_ended) return temp_.code;
    }
  }

  // Called by lane 0. Decodes tokens up to the end of the block, 32 tokens, or the capacity of the output.
  __device__ void read_tokens(input& in, uint64_t produced, uint64_t capacity) {
    uint32_t count = 0, size = 0;
    temp_.block_ended = true;
    for (; count < device::warp_size; ++count) {
      token t = read_token(in, temp_.block);
      if (in.overrun()) return end_tokens(count, size, status::deflate_ends_early);
      if (!t.is_literal() && !t.is_match()) return end_tokens(count, size, t.why());
      if (t.distance() > produced + size) return end_tokens(count, size, status::deflate_distance);
      temp_.offsets[count] = static_cast<uint16_t>(size);
      if (t.length() > capacity - size) {
        if (t.is_match()) temp_.tokens[count++] = token::match(static_cast<uint32_t>(capacity) - size, t.distance());
        return end_tokens(count, static_cast<uint32_t>(capacity), status::deflate_too_long);
      }
      temp_.tokens[count] = t;
      size += t.length();
    }
    temp_.block_ended = false;
    end_tokens(count, size, status::ok);
  }
  __device__ void end_tokens(uint32_t count, uint32_t size, status code) {
    temp_.token_count = count;
    temp_.size = size;
    temp_.code = code;
  }

  // Stores literals first: a match may copy from any token before it, so matches follow one by one.
  __device__ void write_tokens(std::byte* out) {
    const unsigned lane = device::lane_id();
    const bool has_token = lane < temp_.token_count;
    if (has_token && temp_.tokens[lane].is_literal())
      device::store(out + temp_.offsets[lane], temp_.tokens[lane].byte());
    unsigned matches = device::ballot(has_token && temp_.tokens[lane].is_match());
    device::sync_warp();
    for (; matches != 0; matches &= matches - 1) {
      const int k = device::ffs(matches) - 1;
      copy_match(out + temp_.offsets[k], temp_.tokens[k].length(), temp_.tokens[k].distance());
      device::sync_warp();
    }
  }

  // A match that overlaps its own source repeats its first `distance` bytes, which exist already.
  __device__ static void copy_match(std::byte* to, uint32_t length, uint32_t distance) {
    const std::byte* const from = to - distance;
#pragma unroll 1
    for (uint32_t i = device::lane_id(); i < length; i += device::warp_size)
      device::store(to + i, device::load_written(from + (i < distance ? i : i % distance)));
  }

  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI
