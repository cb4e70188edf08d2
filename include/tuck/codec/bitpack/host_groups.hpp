// SPDX-License-Identifier: Apache-2.0
// Groups of integers on one thread. This code defines the bytes that groups.hpp describes.
#pragma once

#include <tuck/codec/bitpack/groups.hpp>
#include <tuck/codec/concept.hpp>

#include <type_traits>
#include <utility>

namespace tuck::inline TUCK_ABI::detail {

// Encodes and decodes chunks of up to 64 KiB of integers.
template <uint32_t Bytes> class host_groups : integer_groups<Bytes> {
  using layout = integer_groups<Bytes>;
  using bits = typename layout::bits;
  using number = typename layout::number;
  using word = typename layout::word;
  using summary = typename layout::summary;
  using shape = typename layout::shape;
  using stored = std::make_signed_t<bits>;
  using layout::group;
  static_assert(group == mask_window, "tuck: masks and the operations of CPUs are of so many values");

 public:
  // Writes `count` integers. Returns the size in bytes, or `incompressible` if that is more than `limit`. `extra` is a
  // field of the chunk's head. `out`: at least `limit` bytes. `memory`: as large as workspace_bytes(count) says.
  static uint32_t encode(const std::byte* integers, uint32_t count, bool differences, uint32_t extra, uint32_t limit,
                         std::byte* out, workspace memory) noexcept;
  static constexpr uint32_t workspace_bytes(uint32_t count) noexcept {
    const uint32_t groups = layout::count(count) < layout::max_groups ? layout::count(count) : layout::max_groups;
    return workspace::bytes_of<uint32_t>(groups + 1) + workspace::bytes_of<std::byte>(sizeof(summary) * groups) +
           workspace::bytes_of<uint8_t>(groups) + workspace::bytes_of<std::byte>(packed_bytes(groups));
  }

  // Reads `count` integers from untrusted bytes. Returns false if they are malformed. Otherwise `end` is the end of the
  // groups, at most encoded.size().
  static bool decode(const_bytes encoded, uint32_t count, uint32_t max_width, std::byte* integers,
                     uint32_t& end) noexcept;

 private:
  // The non-zero integers of sparse groups. Whole groups are read and written, hence the extra group.
  static constexpr uint32_t packed_bytes(uint32_t groups) noexcept { return (groups + 1) * group * Bytes; }

  struct widths {
    uint32_t first_bits, base_bits;
  };
  struct parts : layout::offsets, widths {};

  // Summarizes all groups that are not zero.
  template <class Cpu>
  [[gnu::__always_inline__]] static widths summarize_all(const std::byte* integers, uint32_t count, bool differences,
                                                         const uint32_t* non_zeros, summary* of_group) noexcept {
    bits padded[group + 1];
    word firsts = 0, bases = 0;
    for (uint32_t g = 0; g < layout::count(count); ++g) {
      if (non_zeros[g] == 0) continue;
      of_group[g] = summarize<Cpu>(group_at(integers, count, g, padded), non_zeros[g], differences);
      firsts |= zigzag(of_group[g].first);
      bases |= zigzag(of_group[g].lowest);
    }
    return {differences ? tuck::bit_width(firsts) : 0, tuck::bit_width(bases)};
  }

  template <class Cpu>
  [[gnu::__always_inline__]] static uint32_t write(const std::byte* integers, uint32_t count, bool differences,
                                                   uint32_t extra, uint32_t limit, std::byte* out,
                                                   workspace memory) noexcept {
    using loops = masks_on<Cpu>;
    const uint32_t groups = layout::count(count);
    if (groups > layout::max_groups) return incompressible;
    auto* const non_zeros = memory.take<uint32_t>(groups + 1);
    loops::template masks_of<ones::non_zeros, Bytes>(integers, count, reinterpret_cast<std::byte*>(non_zeros));
    auto* const of_group = reinterpret_cast<summary*>(
        memory.take<std::byte>(sizeof(summary) * groups));  // uninitialized for groups of zeros
    bits padded[group + 1];
    const auto [first_bits, base_bits] = summarize_all<Cpu>(integers, count, differences, non_zeros, of_group);

    auto* const shapes = memory.take<uint8_t>(groups);
    // Packed long before it is read, because loads that overlap recent vector stores stall.
    auto* const packed = memory.take<std::byte>(packed_bytes(groups));
    std::byte* next = packed;
    uint32_t non_zero_groups = 0, sparse_groups = 0, payload_bits = 0;
    for (uint32_t g = 0; g < groups; ++g) {
      if (non_zeros[g] == 0) continue;
      const auto [chosen, bits] =
          layout::choose(of_group[g], Cpu::popcount(non_zeros[g]), first_bits, base_bits, differences);
      shapes[non_zero_groups++] = chosen.byte;
      payload_bits += bits;
      if (chosen.is_sparse()) {
        ++sparse_groups;
        const std::byte* const mask = reinterpret_cast<const std::byte*>(non_zeros + g);
        next = loops::template pack<Bytes>(group_at(integers, count, g, padded), group, mask, next,
                                           packed + packed_bytes(groups));
      }
    }
    const auto at = layout::offsets_of(count, non_zero_groups, sparse_groups, payload_bits);
    if (at.end > limit) return incompressible;

    std::memset(out, 0, at.masks);
    store_unaligned(out, first_bits | base_bits << 8 | extra << 16);
    std::memcpy(out + at.shapes, shapes, non_zero_groups);
    const uint8_t* next_shape = shapes;
    std::byte* next_mask = out + at.masks;
    next = packed;
    payload_position payload(out + at.payload, out + at.end);
    for (uint32_t g = 0; g < groups; ++g) {
      if (non_zeros[g] == 0) continue;
      payload.begin_group();
      out[layout::head_bytes + g / 8] |= static_cast<std::byte>(1 << g % 8);
      const shape coding{*next_shape++};
      if (coding.is_sparse()) {
        store_unaligned(next_mask, non_zeros[g]);
        next_mask += 4;
        const uint32_t present = Cpu::popcount(non_zeros[g]);
        put_group<Cpu>(payload, next, present, of_group[g], coding, first_bits, base_bits);
        next += present * Bytes;
      } else {
        put_group<Cpu>(payload, group_at(integers, count, g, padded), group, of_group[g], coding, first_bits,
                       base_bits);
      }
    }
    payload.finish();
    return at.end;
  }

  template <class Cpu>
  [[gnu::__always_inline__]] static bool read(const_bytes encoded, uint32_t count, uint32_t max_width,
                                              std::byte* integers, uint32_t& end) noexcept {
    parts at;
    if (layout::count(count) > layout::max_groups || !find_parts<Cpu>(encoded, count, max_width, at)) return false;
    end = at.end;
    const std::byte* const in = encoded.data();
    const std::byte *next_shape = in + at.shapes, *next_mask = in + at.masks, *payload = in + at.payload;
    // Each group is read as if all its integers were present. So the last bytes are copied, with zeros after them.
    std::byte last[2 * slack], padded[group * Bytes];
    bool is_last = false;
    uint32_t bit = 0;
    for (uint32_t g = 0; g < layout::count(count); ++g) {
      const uint32_t left = count - group * g;
      std::byte* const to = left < group ? padded : integers + group * Bytes * g;
      if ((static_cast<uint32_t>(in[layout::head_bytes + g / 8]) >> g % 8 & 1) == 0) {
        std::memset(to, 0, group * Bytes);
      } else {
        if (!is_last && in + encoded.size() - (payload + bit / 8) < slack) {
          is_last = true;
          payload += bit / 8;
          bit %= 8;
          const auto rest = static_cast<size_t>(in + encoded.size() - payload);
          std::memcpy(last, payload, rest);
          std::memset(last + rest, 0, sizeof last - rest);
          payload = last;
        }
        const shape coding{static_cast<uint8_t>(*next_shape++)};
        unpack_group<Cpu>(payload, bit, coding, at, next_mask, to);
        const uint32_t ones = coding.is_sparse() ? Cpu::popcount(load_unaligned<uint32_t>(next_mask)) : 0;
        bit += coding.payload_bits(ones, at.first_bits, at.base_bits);
        next_mask += coding.is_sparse() ? 4 : 0;
      }
      if (left < group) std::memcpy(integers + group * Bytes * g, padded, left * Bytes);
    }
    return true;
  }

  // -- integers of a group -------------------------------------------------------------------------------------------
  // The loops have a known length, so that compilers vectorize them.

  // Returns a whole group, padded with zeros. The integer after its last may be read.
  [[gnu::__always_inline__]] static const std::byte* group_at(const std::byte* integers, uint32_t count, uint32_t g,
                                                              bits (&padded)[group + 1]) noexcept {
    const uint32_t left = count - group * g;
    integers += group * Bytes * g;
    if (left > group) return integers;
    std::memset(padded, 0, sizeof padded);
    std::memcpy(padded, integers, left * Bytes);
    return reinterpret_cast<const std::byte*>(padded);
  }
  [[gnu::__always_inline__]] static word at(const std::byte* integers, uint32_t i) noexcept {
    return static_cast<word>(layout::number_of(load_unaligned<bits>(integers + i * Bytes)));
  }
  // Returns the zigzag difference from integer i to the next; 0 for the last integer.
  [[gnu::__always_inline__]] static word difference(const std::byte* integers, uint32_t i) noexcept {
    const word z = zigzag(at(integers + Bytes, i) - at(integers, i));
    return select(i == group - 1, word{0}, z);
  }

  template <class Cpu>
  [[gnu::__always_inline__]] static summary summarize(const std::byte* x, uint32_t non_zeros, bool predicts) noexcept {
    stored lowest, highest;
    Cpu::find_range(x, lowest, highest);
    word differences = 0;
    if (predicts)
      for (uint32_t i = 0; i < group; ++i) differences |= difference(x, i);
    return {lowest, highest, static_cast<number>(at(x, 0)), differences, non_zeros};
  }

  // Where the next bit goes. The bits of *to below `bit` < 8 are in use, and those above it are 0.
  struct position {
    std::byte* to;
    uint32_t bit;

    void advance(uint32_t bits) noexcept {
      to += (bit + bits) / 8;
      bit = (bit + bits) % 8;
    }
    // Appends up to 64 bits, and zeros after them.
    void put(uint64_t x, uint32_t width) noexcept {
      const uint64_t before = static_cast<uint64_t>(*to);
      store_unaligned(to, before | x << bit);
      if (Bytes == 8) store_unaligned(to + 8, static_cast<uint32_t>(x >> 1 >> (63 - bit)));
      advance(width);
    }
    // Appends 32 fields, merged into N units of up to 64 bits, and zeros after them. Of these only the first `count`
    // fields stay. A unit is written together with the end of the one before it, so that none waits for another.
    template <size_t N>
    [[gnu::__always_inline__]] void put(const uint64_t (&units)[N], uint64_t width, uint32_t count) noexcept {
      constexpr uint64_t fields = group / N;  // of a unit; eight fill whole bytes
      uint64_t before = static_cast<uint64_t>(*to);
      TUCK_UNROLL(17)
      for (uint64_t k = 0; k <= N; ++k) {
        const uint64_t at = fields == 8 ? bit : bit + k * fields * width, byte = fields == 8 ? k * width : at / 8;
        if (k > 0) before = units[k - 1] >> 1 >> (fields * width - 1 - at % 8);
        store_unaligned(to + byte, k < N ? before | units[k] << at % 8 : before);
      }
      advance(count * static_cast<uint32_t>(width));
    }
  };

  // The most bytes of a group, and the bytes that are read or written after it.
  static constexpr uint32_t slack = 33 * 8 + 32;

  // Groups are written as if all their integers were present. So the last groups go to other memory first.
  struct payload_position : position {
    std::byte *end, *last_bytes = nullptr;  // where the bytes of `last` belong, or null
    std::byte last[2 * slack];  // uninitialized. Less than `slack` up to `end`, and as much as a group writes

    payload_position(std::byte* begin, std::byte* its_end) noexcept : position{begin, 0}, end(its_end) {
      if (begin != end) *begin = {};  // else there are no groups, and `begin` may be the end of the memory
    }
    // Each group has at least one bit, so that `to` is before `end`.
    void begin_group() noexcept {
      if (last_bytes != nullptr || end - position::to >= slack) return;
      last_bytes = std::exchange(position::to, last);
      last[0] = *last_bytes;
    }
    void finish() const noexcept {
      if (last_bytes != nullptr) std::memcpy(last_bytes, last, static_cast<size_t>(end - last_bytes));
    }
  };

  template <class Cpu>
  [[gnu::__always_inline__]] static void put_group(position& payload, const std::byte* x, uint32_t integers,
                                                   const summary& s, shape coding, uint32_t first_bits,
                                                   uint32_t base_bits) noexcept {
    word fields[group];
    if (coding.is_difference()) {
      payload.put(zigzag(s.first), first_bits);
      for (uint32_t i = 0; i < group; ++i) fields[i] = difference(x, i);
      return put_fields<Cpu>(payload, fields, group - 1, coding.width());
    }
    const word lead = zigzag(s.lowest), base = coding.base(lead);
    if (coding.scheme() == layout::based) payload.put(lead, base_bits);
    Cpu::template subtract<stored>(x, integers, base, fields);
    put_fields<Cpu>(payload, fields, integers, coding.width());
  }

  // Writes the first `count` fields, as many at once as fit in 64 bits. Other fields are 0.
  template <class Cpu>
  [[gnu::__always_inline__]] static void put_fields(position& payload, const word* fields, uint32_t count,
                                                    uint32_t width) noexcept {
    if (width == 0) return;
    if constexpr (sizeof(word) == 4) {
      if (width == 32) {  // floats of both signs
        Cpu::shift(fields, payload.bit, static_cast<uint64_t>(*payload.to), payload.to);
        return payload.advance(32 * count);
      }
    }
    if (width > 32) {
      for (uint32_t i = 0; i < count; ++i) payload.put(fields[i], width);
      return;
    }
    uint64_t pairs[group / 2], fours[group / 4], eights[group / 8];
    Cpu::merge(fields, width, pairs);
    if (width > 16) return payload.put(pairs, width, count);
    Cpu::merge(pairs, 2 * width, fours);
    if (width > 8) return payload.put(fours, width, count);
    Cpu::merge(fours, 4 * width, eights);
    payload.put(eights, width, count);
  }
  template <class Cpu>
  [[gnu::__always_inline__]] static void unpack_group(const std::byte* payload, uint32_t bit, shape coding,
                                                      const parts& at, const std::byte* mask, std::byte* to) noexcept {
    const uint32_t lead_bits = coding.lead_bits(at.first_bits, at.base_bits);
    const word base = coding.base(lead_bits == 0 ? 0 : bits_from<word>(payload, bit, lead_bits));
    word fields[group];
    auto* const x = Bytes == sizeof(word) && !coding.is_sparse() ? to : reinterpret_cast<std::byte*>(fields);
    Cpu::unpack_fields(payload, bit + lead_bits, coding.width(), coding.is_difference() ? 0 : base, x);
    if (coding.is_difference()) Cpu::add_differences(base, x);
    if (x == to) return;
    bits narrow[group];
    const std::byte* stored = x;
    if constexpr (Bytes < sizeof(word)) {
      for (uint32_t i = 0; i < group; ++i) narrow[i] = static_cast<bits>(fields[i]);
      stored = reinterpret_cast<const std::byte*>(narrow);
    }
    if (coding.is_sparse())
      masks_on<Cpu>::template spread<ones::non_zeros, Bytes>(mask, stored, stored + group * Bytes, to, group);
    else
      std::memcpy(to, stored, group * Bytes);
  }

  // Finds the offsets of all parts. Nothing is read before its presence is checked. Returns false if the bytes are
  // malformed.
  template <class Cpu>
  [[gnu::__always_inline__]] static bool find_parts(const_bytes encoded, uint32_t count, uint32_t max_width,
                                                    parts& at) noexcept {
    const std::byte* const in = encoded.data();
    const uint32_t groups = layout::count(count), shapes = layout::offsets_of(count, 0, 0, 0).shapes;
    if (encoded.size() < shapes) return false;
    at.first_bits = static_cast<uint32_t>(in[0]);
    at.base_bits = static_cast<uint32_t>(in[1]);
    if (at.first_bits > max_width || at.base_bits > max_width) return false;
    uint32_t non_zero_groups = 0, last = 0;
    for (uint32_t i = layout::head_bytes; i < shapes; i += 4) {
      last = load_unaligned<uint32_t>(in + i);
      non_zero_groups += Cpu::popcount(last);
    }
    if (groups % 32 != 0 && (last & ~low_mask(groups % 32)) != 0) return false;
    const uint32_t masks = layout::offsets_of(count, non_zero_groups, 0, 0).masks;
    if (encoded.size() < masks) return false;
    uint32_t sparse_groups = 0;
    for (uint32_t i = 0; i < non_zero_groups; ++i)
      sparse_groups += shape{static_cast<uint8_t>(in[shapes + i])}.is_sparse() ? 1u : 0u;
    if (encoded.size() < masks + 4 * uint64_t{sparse_groups}) return false;
    uint32_t payload_bits = 0;
    const std::byte* next_mask = in + masks;
    for (uint32_t i = 0; i < non_zero_groups; ++i) {
      const shape coding{static_cast<uint8_t>(in[shapes + i])};
      if (!coding.is_sound(max_width)) return false;
      uint32_t non_zeros = 0;
      if (coding.is_sparse()) {
        non_zeros = Cpu::popcount(load_unaligned<uint32_t>(next_mask));
        next_mask += 4;
      }
      payload_bits += coding.payload_bits(non_zeros, at.first_bits, at.base_bits);
    }
    static_cast<typename layout::offsets&>(at) =
        layout::offsets_of(count, non_zero_groups, sparse_groups, payload_bits);
    return at.end <= encoded.size();
  }
};

template <uint32_t Bytes>
uint32_t host_groups<Bytes>::encode(const std::byte* integers, uint32_t count, bool differences, uint32_t extra,
                                    uint32_t limit, std::byte* out, workspace memory) noexcept {
  return vectorized(
      [=]<class Cpu>(Cpu) { return write<Cpu>(integers, count, differences, extra, limit, out, memory); });
}
template <uint32_t Bytes>
bool host_groups<Bytes>::decode(const_bytes encoded, uint32_t count, uint32_t max_width, std::byte* integers,
                                uint32_t& end) noexcept {
  return vectorized([=, &end]<class Cpu>(Cpu) { return read<Cpu>(encoded, count, max_width, integers, end); });
}

}  // namespace tuck::inline TUCK_ABI::detail
