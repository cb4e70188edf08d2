// Chunks byte by byte, as hexadecimal digits, between which spaces do not count.
#pragma once

#include "support/codecs.hpp"

#include <array>

namespace tuck::test {

inline std::vector<std::byte> bytes_of(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += hex[i] == ' ' ? 1 : 2)
    if (hex[i] != ' ') bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}
// In words of four bytes.
inline std::string hex_of(const_bytes bytes) {
  std::string hex;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i % 4 == 0 && i != 0) hex += ' ';
    for (const auto digit : {static_cast<uint32_t>(bytes[i]) >> 4, static_cast<uint32_t>(bytes[i]) & 15})
      hex += "0123456789abcdef"[digit];
  }
  return hex;
}

template <codec C> std::vector<std::byte> encoded_chunk_of(const C& codec, const std::vector<value_t<C>>& values) {
  std::vector<std::byte> encoded(codec.max_chunk_bytes(static_cast<uint32_t>(values.size())), std::byte{0xee});
  encoded.resize(codec.encode_chunk(values, encoded));
  encoded.shrink_to_fit();
  return encoded;
}
// Of bytes that end where their memory does.
template <codec C>
status verdict(const C& codec, std::vector<std::byte> encoded, size_t count, value_t<C>* first = nullptr) {
  encoded.shrink_to_fit();
  std::vector<value_t<C>> values(count);
  const status s = codec.decode_chunk(encoded, values);
  if (first != nullptr) *first = values[0];
  return s;
}
template <codec C>
void expect_restored(const C& codec, const std::vector<value_t<C>>& values, const std::vector<std::byte>& encoded) {
  std::vector<value_t<C>> restored(values.size());
  ASSERT_EQ(codec.decode_chunk(encoded, restored), status::ok);
  ASSERT_TRUE(restores(codec, values, restored));
}
// What encodes to just these bytes, and is decoded from them.
template <codec C> void expect_chunk(const C& codec, const std::vector<value_t<C>>& values, const std::string& hex) {
  const auto encoded = encoded_chunk_of(codec, values);
  EXPECT_EQ(hex_of(encoded), hex);
  expect_restored(codec, values, encoded);
}

// How many groups of a sound chunk have each scheme, and four on from there those that are sparse.
inline std::array<int, 8> schemes_of(const_bytes encoded, uint64_t values) {
  std::array<int, 8> schemes{};
  const uint64_t shapes = 4 + 4 * ceil_div(values, uint64_t{1024});
  uint64_t next = shapes;
  for (uint64_t i = 4; i < shapes; ++i)
    for (uint32_t left = popcount(static_cast<uint32_t>(encoded[i])); left-- > 0; ++next)
      ++schemes[static_cast<size_t>(encoded[next]) >> 6 | (static_cast<size_t>(encoded[next]) >> 5 & 1) << 2];
  return schemes;
}

// A chunk of one group, of up to 1024 values, with a payload of ones and a side of zeros.
struct lone_group {
  uint32_t shape, first_bits = 0, base_bits = 0;

  std::vector<std::byte> chunk(uint32_t payload_bits, size_t side = 0) const {
    std::vector<std::byte> bytes(12);
    store_unaligned(bytes.data(), first_bits | base_bits << 8);
    bytes[4] = std::byte{1};
    bytes[8] = static_cast<std::byte>(shape);
    bytes.resize(12 + ceil_div(payload_bits, 32u) * 4, std::byte{0xff});
    bytes.resize(bytes.size() + side);
    return bytes;
  }
};
// Decoders take lone groups of each scheme, without a mask, just where no width has more bits than they allow.
template <codec C> void expect_widths(const C& codec, uint32_t allowed, size_t side = 0) {
  constexpr uint32_t unit = sizeof(value_t<C>) == 8 ? 2 : 1;
  const auto expected = [&](uint32_t bits) { return bits <= allowed ? status::ok : status::bad_payload; };
  for (uint32_t field = 0; field < 32; ++field)
    for (uint32_t scheme = 0; scheme < 4; ++scheme) {
      const uint32_t width = (field + (scheme < 2)) * unit;
      const auto chunk = lone_group{field | scheme << 6}.chunk((scheme == 3 ? 31 : 32) * width, side);
      EXPECT_EQ(verdict(codec, chunk, 300), expected(width)) << width << ' ' << scheme;
    }
  for (const uint32_t bits : {allowed, allowed + 1, 255u}) {
    EXPECT_EQ(verdict(codec, lone_group{0xc0, bits, 0}.chunk(bits, side), 300), expected(bits)) << bits;
    EXPECT_EQ(verdict(codec, lone_group{0x80, 0, bits}.chunk(bits, side), 300), expected(bits)) << bits;
  }
}

}  // namespace tuck::test
