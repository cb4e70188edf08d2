"""Chunks of deflate, alone (codec/deflate/layout.hpp) and at the end of a chain (codec/deflate/sections_layout.hpp).

zlib restores their streams. What it does not know is checked behind it: that there is a block a section, no code longer
and no match farther than lanes can decode, and that the index says where the lanes' sub-blocks are.
"""

from __future__ import annotations

import struct
import zlib
from typing import Optional

from bits import ceil_div, require, round_up

LITERAL_BITS, DISTANCE_BITS, PRECODE_BITS = 11, 7, 7  # the longest codes
END_OF_BLOCK, STORED, DYNAMIC = 256, 0, 2
GROUP_BYTES = 64
PRECODE_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)

Table = list[Optional[tuple[int, int]]]  # symbol and length of the code that the next bits begin with
Entry = tuple[int, Optional[int]]  # groups and bits of a sub-block; None: nobody says


def meanings(base: int, extra_bits: list[int]) -> list[tuple[int, int]]:
    """The smallest value of each symbol and its extra bits (RFC 1951, section 3.2.5)."""
    return [(base + sum(1 << e for e in extra_bits[:i]), extra) for i, extra in enumerate(extra_bits)]


LENGTHS = meanings(3, [0] * 8 + [e for e in range(1, 6) for _ in range(4)]) + [(258, 0)]
DISTANCES = meanings(1, [0] * 4 + [e for e in range(1, 14) for _ in range(2)])


def code_table(lengths: list[int], most: int) -> Table:
    require(max(lengths) <= most, f"deflate: a code of more than {most} bits")
    table = [None] * (1 << most)
    code = 0
    for length in range(1, most + 1):
        for symbol in (i for i, of_symbol in enumerate(lengths) if of_symbol == length):
            first = int(f"{code:0{length}b}"[::-1], 2)
            table[first :: 1 << length] = [(symbol, length)] * (1 << (most - length))
            code += 1
        code <<= 1
    return table


class BitReader:
    """The bits of a stream, lowest first; zeros past its end."""

    def __init__(self, stream: bytes) -> None:
        self.stream, self.at = stream, 0

    def peek(self, width: int) -> int:
        byte = self.at >> 3
        return int.from_bytes(self.stream[byte : byte + 4], "little") >> (self.at & 7) & (1 << width) - 1

    def take(self, width: int) -> int:
        bits = self.peek(width)
        self.at += width
        return bits

    def symbol(self, table: Table, most: int) -> int:
        entry = table[self.peek(most)]
        require(entry is not None, "deflate: bits that are no symbol's code")
        self.at += entry[1]
        return entry[0]

    def codes(self) -> tuple[Table, Table]:
        """Of literals and of distances, from the begin of a dynamic block."""
        literals, distances, precodes = 257 + self.take(5), 1 + self.take(5), 4 + self.take(4)
        of_precode, lengths = [0] * len(PRECODE_ORDER), []
        for symbol in PRECODE_ORDER[:precodes]:
            of_precode[symbol] = self.take(3)
        precode = code_table(of_precode, PRECODE_BITS)
        while len(lengths) < literals + distances:
            symbol = self.symbol(precode, PRECODE_BITS)
            if symbol < 16:
                lengths.append(symbol)
            elif symbol == 16:
                lengths += lengths[-1:] * (3 + self.take(2))
            else:
                lengths += [0] * (3 + self.take(3) if symbol == 17 else 11 + self.take(7))
        return code_table(lengths[:literals], LITERAL_BITS), code_table(lengths[literals:], DISTANCE_BITS)


def walk_sub_block(bits: BitReader, literals: Table, distances: Table, size: int) -> None:
    """Steps over symbols that restore exactly `size` bytes and reach no farther back than these."""
    done = 0
    while done < size:
        symbol = bits.symbol(literals, LITERAL_BITS)
        if symbol < END_OF_BLOCK:
            done += 1
            continue
        require(symbol != END_OF_BLOCK, "deflate: a block ends within a sub-block")
        base, extra = LENGTHS[symbol - END_OF_BLOCK - 1]
        length = base + bits.take(extra)
        base, extra = DISTANCES[bits.symbol(distances, DISTANCE_BITS)]
        distance = base + bits.take(extra)
        require(distance in (1, 2, 4, 8), f"deflate: a match at distance {distance}")
        require(distance <= done, "deflate: a match reaches before its sub-block")
        done += length
    require(done == size, "deflate: a match reaches past its sub-block")


def check_index(stream: bytes, sizes: list[int], entries: list[Entry], stored: int) -> None:
    """Is a sound stream a block for each section that is not empty, and do the entries say where sub-blocks are?"""
    bits, left = BitReader(stream), iter(entries)
    sections = [(i, size) for i, size in enumerate(sizes) if size]
    require(stored & ~sum(1 << i for i, _ in sections) == 0, "deflate: no such section to be stored")
    for i, size in sections:
        kind = STORED if stored >> i & 1 else DYNAMIC
        is_last = (i, size) == sections[-1]
        require(bits.take(3) == kind << 1 | is_last, "deflate: a block of another kind")
        if kind == STORED:
            bits.at = round_up(bits.at, 8)
            require(bits.take(16) == size, "deflate: a stored block of another size")
            bits.at += 16 + 8 * size
            continue
        literals, distances = bits.codes()
        done = 0
        while done < size:
            groups, width = next(left, (0, 0))
            fits = 0 < groups and done + groups * GROUP_BYTES < size + GROUP_BYTES
            require(fits, "deflate: the sub-blocks do not cover a section")
            begin, end = bits.at, min(done + groups * GROUP_BYTES, size)
            walk_sub_block(bits, literals, distances, end - done)
            require(width is None or bits.at - begin == width, "deflate: a sub-block of another number of bits")
            done = end
        require(bits.symbol(literals, LITERAL_BITS) == END_OF_BLOCK, "deflate: a block and its section end apart")
    require(next(left, None) is None, "deflate: more sub-blocks than the sections have")
    require(ceil_div(bits.at, 8) == len(stream), "deflate: the stream does not end with its last block")


def inflate(stream: bytes, size: int) -> bytes:
    inflater = zlib.decompressobj(-15)
    try:
        data = inflater.decompress(stream, size + 1)
    except zlib.error as error:
        raise ValueError(f"deflate: {error}") from None
    require(inflater.eof and not inflater.unused_data, "deflate: the stream and the chunk do not end together")
    require(len(data) == size, f"deflate: {len(data)} bytes instead of {size}")
    return data


def decode_sections(data: bytes, sizes: list[int], stored: Optional[int] = None) -> bytes:
    """Restores sections of these sizes, one behind the other. Which are stored says `data`, if nobody else does."""
    behind = 2 if stored is None else 1  # bytes behind the index
    stream_size = len(data) - behind - 3 * data[-1] if data else 0
    require(stream_size > 0, "deflate: no room for the index")
    entries = [(groups + 1, bits) for groups, bits in struct.iter_unpack("<BH", data[stream_size:-behind])]
    row = inflate(data[:stream_size], sum(sizes))
    if stored is not None and not entries:
        entries = [(ceil_div(sizes[0], GROUP_BYTES), None)]
    check_index(data[:stream_size], sizes, entries, data[-2] if stored is None else stored)
    return row


def decode_chunk(data: bytes, size: int) -> bytes:
    return decode_sections(data, [size], stored=0)
