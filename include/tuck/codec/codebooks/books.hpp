// SPDX-License-Identifier: Apache-2.0
// The fixed codes of codebooks, and the tables that encoders and decoders make of them.
#pragma once

#include <tuck/core/bits.hpp>

namespace tuck::inline TUCK_ABI::codebooks_format {

inline constexpr uint32_t books = 32, first_of_second = 16, raw = books - 1;
inline constexpr uint32_t code_bits = 8, symbols = 64, escape = symbols - 1;
inline constexpr uint32_t dear = 51;  // bits of 16 values at which a part gets a second look

// Of each book the lengths of the codes of symbols 0 to 62 and of the escape, as decimal digits; 0: no code. Codes are
// in the order of their lengths, then of symbols.
inline constexpr char lengths[books][symbols + 1] = {
    "7322334668888800000000000000000000000000000000000000000000000008",
    "6222355678888800000000000000000000000000000000000000000000000008",
    "8422244667888800000000000000000000000000000000000000000000000008",
    "5222356678888800000000000000000000000000000000000000000000000008",
    "4124457888880000000000000000000000000000000000000000000000000008",
    "8532234456678888000000000000000000000000000000000000000000000008",
    "8753223356778888000000000000000000000000000000000000000000000008",
    "8642233455678888000000000000000000000000000000000000000000000008",
    "8875322344567888000000008800000000000000000000000000000000000008",
    "8888865322335688000000000000000000000000000000000000000000000008",
    "6432234567788888888808800000000000000000000000000000000000000008",
    "8654124567888800000000000000000000000000000000000000000000000008",
    "8887542233456788000000000800000000000000000000000000000000000007",
    "1234578888000000000000000000000000000000000000000000000000000007",
    "8876512445788888000000000000000000000000000000000000000000000008",
    "1000000000000000000000000000533356688880000000000000000000000006",
    "0732233466888880000000000000000000000000000000000000000000000008",
    "4422334578888800000000000000000000000000000000000000000000000008",
    "4853223456778880000008880000000000000000000000000000000000000008",
    "1633346778880000000000000000000000000000000000000000000000000008",
    "1865433456888888000000000000000000000000000000000000000000000008",
    "2223457888880000000000000000000000000000000000000000000000000008",
    "3875332344567888000000000000000000000000000000000000000000000006",
    "4887754333334456788800000000000000000000000000000000000000000008",
    "0865412456788880000000000000000000000000000000000000000000000008",
    "7865332334566677888888088000000000000000000000000000000000000008",
    "1888875444455566788888888888888800000000000000000000000000000008",
    "3888888777666555555555555555666666666666777777778888888888888888",
    "3135778800000000866788800000075556788800000000000000000000000008",
    "1000000000000000000000000000000000000000000000000000000000000001",
    "1087554556678800000000000000000000000000000000000000000000000082",
    "0000000000000000000000000000000000000000000000000000000000000000"};

// Entries of tables: a code's bits at the top or the symbol from bit 8 on, its length in the low bits, and `no_code`.
inline constexpr uint32_t no_code = 32;

struct book_tables {
  // Of symbols a and b, at a + 16 b: their two codes. no_code if one has none.
  alignas(16) uint32_t pair[books][256] = {};
  // Of a symbol: its code, or with no_code that of the escape.
  alignas(16) uint32_t single[books][symbols] = {};
  // Of the next 8 bits: a symbol, or no_code for the escape.
  alignas(16) uint16_t decode[books][1u << code_bits] = {};
  // Of a symbol: its bits in each book of a look, at most 15; those of `escape` for all further symbols too.
  alignas(16) uint8_t cost[2][symbols][first_of_second] = {};

  constexpr book_tables() {
    for (uint32_t b = 0; b < books; ++b) {
      uint32_t code = 0;
      for (uint32_t length = 0; length <= code_bits; ++length)
        for (uint32_t s = 0; s < symbols; ++s) {
          const auto digit = static_cast<uint32_t>(lengths[b][s] - '0');
          if (digit != length || (length == 0 && (s != escape || b != raw))) continue;
          const uint32_t places = 1u << (code_bits - length), mark = s == escape ? no_code : 0;
          single[b][s] = code << (32 - code_bits) | mark | length;
          for (uint32_t i = 0; i < places; ++i) decode[b][code + i] = static_cast<uint16_t>(s << 8 | mark | length);
          code += places;
        }
      for (uint32_t s = 0; s < symbols; ++s) {
        if (lengths[b][s] == '0') single[b][s] = single[b][escape];
        const bool coded = (single[b][s] & no_code) == 0;
        const uint32_t bits = single[b][s] % 16 + (coded ? 0 : 8);
        cost[b / first_of_second][s][b % first_of_second] = static_cast<uint8_t>(bits < 15 ? bits : 15);
      }
      for (uint32_t i = 0; i < 256; ++i) {
        const uint32_t x = single[b][i % 16], y = single[b][i / 16], length = x % 16;
        pair[b][i] = ((x | y) & no_code) != 0 ? no_code : (x & ~15u) | (y & ~15u) >> length | (length + y % 16);
      }
    }
  }
};

#if defined(TUCK_HOST)
inline constexpr book_tables tables{};
#endif

}  // namespace tuck::inline TUCK_ABI::codebooks_format
