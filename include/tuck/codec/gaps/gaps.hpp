// Gaps stores sparse values: the number of zeros before each non-zero value as a Golomb-Rice code, and the value.
// It is for deltas (frame/host_delta.hpp): at least three quarters of a chunk's values must be zeros, and it is best
// with more than nine tenths. If changes are independent, the size is close to the entropy. No tables are needed.
//
// A chunk has n values. k <= n / 4 of them are not zero. A gap is the number of zeros between a non-zero value and the
// non-zero value before it, or the beginning. The chunk is one string of bits, lowest bit of a byte first, padded with
// zeros to a whole byte:
//
//   header      32 bits       bits 0 to 15: k; 16 to 19: r; 20 to 26: w; 27: has classes; others: 0
//   remainders  k times r     the lowest r bits of each gap
//   quotients   unary         the other bits q of each gap: q zeros, then a one
//   classes     unary         class c of each non-zero value: c zeros, then a one. Only if bit 27 is set
//   values      w bits each   the stored values: those of class 3, or all non-zero values if there are no classes
//
//   class    value
//   0, 1, 2  2^(c + 1) - 1
//   3        stored
//   4, 5...  2^c - 1
//
// From one training step to the next, weights often change by one in their last place. The XOR of their bits is then a
// run of ones from the lowest bit. Such values have low classes, which take few bits. Zeros after the last non-zero
// value are not written.
// Encoders set r = bit_width(31 (n - k) / (64 k)), or 0 if k is 0. They set w to the width of the widest stored value,
// and use classes if they make the chunk smaller. A chunk that would not be smaller than its values, or with more than
// n / 4 non-zero values, is incompressible. The bytes are canonical: host and device write the same.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/bits.hpp>

#include <bit>

namespace tuck::inline TUCK_ABI {

namespace gaps_format {

inline constexpr uint32_t header_bits = 32, stored_class = 3;

struct header {
  uint32_t word = 0;

  TUCK_HD static constexpr header make(uint32_t k, uint32_t r, uint32_t w, bool classes) noexcept {
    return {k | r << 16 | w << 20 | uint32_t{classes} << 27};
  }
  TUCK_HD constexpr uint32_t values() const noexcept { return word & 0xffff; }
  TUCK_HD constexpr uint32_t remainder_bits() const noexcept { return word >> 16 & 15; }
  TUCK_HD constexpr uint32_t value_bits() const noexcept { return word >> 20 & 127; }
  TUCK_HD constexpr bool has_classes() const noexcept { return (word >> 27 & 1) != 0; }
  // Returns whether a chunk of `count` values with `most_bits` bits each can have this header.
  TUCK_HD constexpr bool fits(uint32_t count, uint32_t most_bits) const noexcept {
    return word >> 28 == 0 && values() <= count / 4 && value_bits() <= most_bits;
  }
};

TUCK_HD constexpr uint32_t remainder_bits(uint32_t k, uint32_t count) noexcept {
  return k == 0 ? 0 : tuck::bit_width(31 * (count - k) / (64 * k));
}

template <class U> TUCK_HD constexpr uint32_t width_of(U value) noexcept {
  return tuck::bit_width(static_cast<std::conditional_t<sizeof(U) == 8, uint64_t, uint32_t>>(value));
}

// Returns the class of a non-zero value.
template <class U> TUCK_HD constexpr uint32_t class_of(U value) noexcept {
  if ((value & static_cast<U>(value + 1)) != 0) return stored_class;
  const uint32_t bits = width_of(value);
  return bits <= stored_class ? bits - 1 : bits;
}
// Returns the value of a class other than stored_class. The result is unspecified for classes that no type has.
TUCK_HD constexpr uint64_t ones(uint32_t c) noexcept {
  return ~uint64_t{0} >> (c < stored_class ? 63 - c : c <= 64 ? 64 - c : 0);
}

}  // namespace gaps_format

/// Codec for sparse values, such as deltas: at least three quarters of each chunk are zeros. Lossless.
/// concept.hpp documents the members that are not described here.
/// @tparam T element type
template <element T> struct gaps {
  using value_type = T;

  static constexpr uint32_t chunk_bytes = 16 * 1024;

  TUCK_HD static constexpr stage description() noexcept { return {.id = codec_id::gaps, .version = 1}; }
  TUCK_HD constexpr stage_list stages() const noexcept { return {{description()}}; }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, gaps&) noexcept {
    return match_single_stage(stages, description());
  }
  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count * uint32_t{sizeof(T)} + 16; }
  uint32_t encode_chunk(span<const T> values, bytes room) const noexcept;
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

 private:
  using word = bits_t<T>;
  static constexpr uint32_t most_values = max_chunk_raw_bytes / sizeof(T) / 4;
  // The indices and bits of a chunk's non-zero values.
  struct found {
    uint32_t count = 0;
    uint16_t at[most_values + 8];
    word value[most_values + 8];
  };
  static bool find(span<const T> values, found& all) noexcept;
};

namespace gaps_format {

// Writes bits to a buffer of zeros, which must extend 8 bytes beyond the last written byte.
class host_writer {
 public:
  explicit host_writer(std::byte* to) noexcept : to_(to) {}

  void put(uint64_t value, uint32_t bits) noexcept {
    if (bits > 32) {
      put(value & 0xffffffff, 32);
      value >>= 32;
      bits -= 32;
    }
    std::byte* const p = to_ + bit_ / 8;
    store_unaligned(p, load_unaligned<uint64_t>(p) | value << bit_ % 8);
    bit_ += bits;
  }
  void put_unary(uint32_t n) noexcept {
    bit_ += n;
    to_[bit_ / 8] |= static_cast<std::byte>(1 << bit_ % 8);
    ++bit_;
  }

 private:
  std::byte* to_;
  uint64_t bit_ = 0;
};

// Reads bits of a chunk. 16 bytes of zeros must follow the chunk.
class host_reader {
 public:
  host_reader(const std::byte* from, uint64_t bit) noexcept : from_(from), bit_(bit) {}

  uint64_t bit() const noexcept { return bit_; }
  uint64_t get(uint32_t bits) noexcept {
    if (bits > 32) {
      const uint64_t low = get(32);
      return low | get(bits - 32) << 32;
    }
    const uint64_t x = load_unaligned<uint64_t>(from_ + bit_ / 8) >> bit_ % 8 & ((uint64_t{1} << bits) - 1);
    bit_ += bits;
    return x;
  }
  // Reads a number in unary. Returns false if all bits before `end` are 0.
  bool get_unary(uint64_t end, uint32_t& n) noexcept {
    n = 0;
    for (; bit_ < end; n += 56, bit_ += 56) {
      const uint64_t x = load_unaligned<uint64_t>(from_ + bit_ / 8) >> bit_ % 8 & low_bits;
      if (x == 0) continue;
      const auto zeros = static_cast<uint32_t>(std::countr_zero(x));
      n += zeros;
      bit_ += zeros + 1;
      return true;
    }
    return false;
  }

 private:
  static constexpr uint64_t low_bits = (uint64_t{1} << 56) - 1;
  const std::byte* from_;
  uint64_t bit_;
};

}  // namespace gaps_format

// Returns false if more than a quarter of the values is not zero.
template <element T> bool gaps<T>::find(span<const T> values, found& all) noexcept {
  constexpr uint32_t together = 8 / sizeof(T);
  const auto count = static_cast<uint32_t>(values.size());
  const auto* const from = reinterpret_cast<const std::byte*>(values.data());
  uint32_t k = 0;
  const auto add = [&](uint32_t i) {
    all.at[k] = static_cast<uint16_t>(i);
    all.value[k] = bits_at(values.data(), i);
    k += all.value[k] != 0;
  };
  uint32_t i = 0;
  for (; i + together <= count; i += together) {
    if (load_unaligned<uint64_t>(from + i * sizeof(T)) == 0) continue;
    if (k > count / 4) return false;
    for (uint32_t j = 0; j < together; ++j) add(i + j);
  }
  if (k > count / 4) return false;
  for (; i < count; ++i) add(i);
  all.count = k;
  return k <= count / 4;
}

template <element T> uint32_t gaps<T>::encode_chunk(span<const T> values, bytes room) const noexcept {
  using namespace gaps_format;
  const auto count = static_cast<uint32_t>(values.size());
  found all;
  if (values.size_bytes() > max_chunk_raw_bytes || !find(values, all)) return incompressible;
  const uint32_t k = all.count, r = remainder_bits(k, count);
  uint64_t quotients = 0, classes = 0;
  uint32_t stored = 0, before = 0;
  word any = 0, any_stored = 0;
  for (uint32_t i = 0; i < k; ++i) {
    quotients += ((all.at[i] - before) >> r) + 1;
    before = all.at[i] + 1u;
    const uint32_t c = class_of(all.value[i]);
    classes += c + 1;
    any |= all.value[i];
    stored += c == stored_class;
    any_stored |= c == stored_class ? all.value[i] : word{0};
  }
  const uint32_t all_wide = width_of(any), stored_wide = width_of(any_stored);
  const uint64_t with_classes = classes + uint64_t{stored} * stored_wide;
  const bool has_classes = with_classes < uint64_t{k} * all_wide;
  const uint32_t w = has_classes ? stored_wide : all_wide;
  const uint64_t bits = header_bits + uint64_t{k} * r + quotients + (has_classes ? with_classes : uint64_t{k} * w);
  const uint64_t size = ceil_div(bits, uint64_t{8});
  if (size >= values.size_bytes()) return incompressible;

  std::memset(room.data(), 0, size + 8);
  host_writer out(room.data());
  out.put(header::make(k, r, w, has_classes).word, header_bits);
  before = 0;
  for (uint32_t i = 0; i < k; ++i) {
    out.put((all.at[i] - before) & low_mask(r), r);
    before = all.at[i] + 1u;
  }
  before = 0;
  for (uint32_t i = 0; i < k; ++i) {
    out.put_unary((all.at[i] - before) >> r);
    before = all.at[i] + 1u;
  }
  if (has_classes)
    for (uint32_t i = 0; i < k; ++i) out.put_unary(class_of(all.value[i]));
  for (uint32_t i = 0; i < k; ++i)
    if (!has_classes || class_of(all.value[i]) == stored_class) out.put(all.value[i], w);
  return static_cast<uint32_t>(size);
}

template <element T> status gaps<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  using namespace gaps_format;
  const auto count = static_cast<uint32_t>(restored.size());
  if (encoded.size() < header_bits / 8 || encoded.size() >= restored.size_bytes() ||
      restored.size_bytes() > max_chunk_raw_bytes)
    return status::bad_payload;
  alignas(16) std::byte chunk[max_chunk_raw_bytes + 16];
  std::memcpy(chunk, encoded.data(), encoded.size());
  std::memset(chunk + encoded.size(), 0, 16);
  const header h{load_unaligned<uint32_t>(chunk)};
  if (!h.fits(count, 8 * sizeof(T))) return status::bad_payload;
  const uint32_t k = h.values(), r = h.remainder_bits(), w = h.value_bits();
  const uint64_t end = 8 * encoded.size();
  host_reader remainders(chunk, header_bits), in(chunk, header_bits + uint64_t{k} * r);
  if (in.bit() > end) return status::bad_payload;

  uint16_t at[most_values];
  uint64_t next = 0;
  for (uint32_t i = 0; i < k; ++i) {
    uint32_t q;
    if (!in.get_unary(end, q)) return status::bad_payload;
    next += (uint64_t{q} << r | remainders.get(r));
    if (next >= count) return status::bad_payload;
    at[i] = static_cast<uint16_t>(next++);
  }
  std::memset(static_cast<void*>(restored.data()), 0, restored.size_bytes());
  const auto set = [&](uint32_t i, word value) { restored[at[i]] = __builtin_bit_cast(T, value); };
  uint32_t stored = k;
  if (h.has_classes()) {
    stored = 0;
    for (uint32_t i = 0; i < k; ++i) {
      uint32_t c;
      if (!in.get_unary(end, c) || c > 8 * sizeof(T)) return status::bad_payload;
      set(i, static_cast<word>(gaps_format::ones(c)));
      if (c == stored_class) at[stored++] = at[i];
    }
  }
  if (in.bit() + uint64_t{stored} * w > end) return status::bad_payload;
  for (uint32_t i = 0; i < stored; ++i) set(i, static_cast<word>(in.get(w)));
  const uint64_t rest = end - in.bit();
  return rest < 8 && in.get(static_cast<uint32_t>(rest)) == 0 ? status::ok : status::bad_payload;
}

static_assert(codec<gaps<float>>);

}  // namespace tuck::inline TUCK_ABI
