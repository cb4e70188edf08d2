// Decodes deflate-lite by one thread block: one thread reads the header of the DEFLATE block, all build its tables, and
// then each has a sub-block, which it finds by the index and keeps to by sub_block.hpp. Shared memory holds the tables
// only; what a thread restores leaves it 16 bytes at a time.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/deflate/deflate.hpp>

namespace tuck::inline TUCK_ABI {

namespace deflate_format {

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

// The codec's decode.
template <element T, int Threads> class block_decoder {
  // The header of a block is at most 3 + 14 + 19 * 3 + (286 + 30) * 14 bits.
  static constexpr uint32_t header_bytes = 576;
  static_assert(8 * header_bytes >= 3 + 14 + 19 * 3 + (286 + 30) * 14);
  // Neighbouring sub-blocks of a thread's, of the 255 at most that there are.
  static constexpr uint32_t own = ceil_div(255u, uint32_t{Threads});

  // A canonical code, symbols ordered by the lengths of their codes.
  struct canonical {
    uint32_t count[max_code_bits + 1];
    uint32_t first_codeword[max_code_bits + 1];
    uint32_t first_symbol[max_code_bits + 1];
  };

 public:
  struct TempStorage {
    union {
      decode_tables tables;
      struct {
        alignas(16) std::byte bytes[header_bytes];
        precode_memory precode;
      } header;  // before the tables are built
    };
    code_lengths lengths;
    canonical literals, distances;
    uint16_t symbol[literal_symbols + distance_symbols];
    typename device::block_scan<Threads>::TempStorage scan_storage;
    uint32_t first_bit;  // of the symbols
    uint32_t failure;    // sub-block << 16 | status of the first that failed
    status verdict;      // on the header
  };

  __device__ explicit block_decoder(TempStorage& temp) : temp_(temp) {}

  template <class Sink> __device__ status decode(const deflate<T>&, const_bytes encoded, uint32_t count, Sink& sink) {
    if (encoded.empty()) return status::deflate_ends_early;
    const uint32_t sub_blocks =
        device::load_uniform(reinterpret_cast<const uint8_t*>(encoded.data() + encoded.size() - 1));
    chunk_parts parts;
    if (!split(encoded, sub_blocks, parts)) return status::deflate_index;
    if (const status s = read_header(parts.stream); s != status::ok) return s;
    build_tables();

    const uint32_t size = count * uint32_t{sizeof(T)};
    index_sums mine, all;
    for (uint32_t i = threadIdx.x * own; i < (threadIdx.x + 1) * own && i < sub_blocks; ++i)
      mine.add(entry(parts.index, i));
    index_sums before = sums_before(mine, all);
    if (sub_blocks != 0 && !all.fit(size, temp_.first_bit, parts.stream.size())) return status::deflate_index;
    for (uint32_t i = threadIdx.x * own; i < (threadIdx.x + 1) * own && (i == 0 || i < sub_blocks); ++i) {
      sub_block part{temp_.first_bit + before.bits,
                     static_cast<uint32_t>(8 * parts.stream.size()),
                     before.groups * group_bytes,
                     size,
                     sub_blocks != 0,
                     i + 1 >= sub_blocks};
      if (part.indexed) {
        before.add(entry(parts.index, i));
        part.end_bit = temp_.first_bit + before.bits;
        if (!part.is_last) part.end_byte = before.groups * group_bytes;
      }
      decode_sub_block(parts.stream, part, i, sink);
    }
    device::sync_block();
    return temp_.failure == no_failure ? status::ok : static_cast<status>(temp_.failure & 0xffff);
  }

 private:
  using scan = device::block_scan<Threads>;
  static constexpr uint32_t no_failure = ~0u;

  __device__ status read_header(const_bytes stream) {
    const uint32_t size = stream.size() < header_bytes ? static_cast<uint32_t>(stream.size()) : header_bytes;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < size; i += Threads) temp_.header.bytes[i] = device::load(stream.data() + i);
    device::sync_block();
    if (threadIdx.x == 0) {
      bit_input in({temp_.header.bytes, size});
      temp_.verdict = read_block_header(in, temp_.lengths, temp_.header.precode);
      temp_.first_bit = static_cast<uint32_t>(in.position());
      temp_.failure = no_failure;
    }
    device::sync_block();
    return temp_.verdict;
  }

  __device__ void build_tables() {
    const auto& lengths = temp_.lengths;
    if (threadIdx.x < 2) {
      canonical& code = threadIdx.x == 0 ? temp_.literals : temp_.distances;
      for (uint32_t l = 0; l <= max_code_bits; ++l) code.count[l] = 0;
    }
    device::sync_block();
    const uint32_t symbols = lengths.literals + lengths.distances;
    for (uint32_t i = threadIdx.x; i < symbols; i += Threads)
      if (const uint32_t l = lengths.of[i]; l != 0)
        device::atomic_add(&(i < lengths.literals ? temp_.literals : temp_.distances).count[l], 1u);
    device::sync_block();
    if (threadIdx.x < 2) {
      canonical& code = threadIdx.x == 0 ? temp_.literals : temp_.distances;
      first_codewords(code.count, code.first_codeword);
      uint32_t first = threadIdx.x == 0 ? 0 : lengths.literals;
      for (uint32_t l = 0; l <= max_code_bits; ++l) {
        code.first_symbol[l] = first;
        first += code.count[l];
      }
    }
    device::sync_block();
    for (uint32_t i = threadIdx.x; i < symbols; i += Threads) {
      const uint32_t l = lengths.of[i], begin = i < lengths.literals ? 0 : lengths.literals;
      if (l == 0) continue;
      uint32_t at = (begin == 0 ? temp_.literals : temp_.distances).first_symbol[l];
      for (uint32_t other = begin; other < i; ++other) at += lengths.of[other] == l;
      temp_.symbol[at] = static_cast<uint16_t>(i - begin);
    }
    device::sync_block();
    fill<max_literal_bits>(temp_.literals, temp_.tables.literal, 9);
    fill<max_distance_bits>(temp_.distances, temp_.tables.distance, 5);
    device::sync_block();
  }
  template <uint32_t Bits, class Entry>
  __device__ void fill(const canonical& code, Entry* table, uint32_t shift) const {
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < 1u << Bits; i += Threads) {
      const uint32_t bits = reversed(i, Bits);
      uint32_t found = 0;
#pragma unroll 1
      for (uint32_t l = 1; l <= Bits && found == 0; ++l) {
        const uint32_t rank = (bits >> (Bits - l)) - code.first_codeword[l];
        if (rank < code.count[l]) found = temp_.symbol[code.first_symbol[l] + rank] | l << shift;
      }
      table[i] = static_cast<Entry>(found);
    }
  }

  __device__ static index_entry entry(const_bytes index, uint32_t i) {
    const std::byte* const p = index.data() + index_entry_bytes * i;
    const auto byte = [p](int k) { return static_cast<uint32_t>(device::load(p + k)); };
    return {byte(0) + 1, byte(1) | byte(2) << 8};
  }
  // Of the threads before this one, and of all.
  __device__ index_sums sums_before(const index_sums& mine, index_sums& all) {
    uint64_t both;
    const uint64_t before = scan::exclusive_sum(temp_.scan_storage, uint64_t{mine.groups} << 32 | mine.bits, both);
    all = {static_cast<uint32_t>(both >> 32), static_cast<uint32_t>(both)};
    return {static_cast<uint32_t>(before >> 32), static_cast<uint32_t>(before)};
  }
  template <class Sink>
  __device__ void decode_sub_block(const_bytes stream, const sub_block& part, uint32_t i, Sink& sink) {
    lane_input in(stream, part.first_bit);
    lane_output<T, Sink> out(part.first_byte, sink);
    status s = deflate_format::decode_sub_block(temp_.tables, part, in, out);
    if (s == status::ok && part.is_last) {
      out.finish();
      s = read_end(temp_.tables, in);
    }
    if (s != status::ok) device::atomic_min(&temp_.failure, i << 16 | static_cast<uint32_t>(s));
  }

  TempStorage& temp_;
};

}  // namespace deflate_format

template <element T, int Threads>
struct block_decoder<deflate<T>, Threads> : deflate_format::block_decoder<T, Threads> {
  using deflate_format::block_decoder<T, Threads>::block_decoder;
};

}  // namespace tuck::inline TUCK_ABI
