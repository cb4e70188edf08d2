"""Chunks of deflate, alone and at the end of a chain (codec/deflate/layout.hpp).

zlib restores their streams. What it does not know is checked behind it: the header that all blocks have, codes of at
most ten bits that fill their space, and that the index says where segments and sub-blocks are.
"""

from __future__ import annotations

import zlib

from bits import ceil_div, require, round_up

CODE_BITS, LENGTHS_OF_LITERALS, END_OF_BLOCK = 10, 285, 256
CELL_BYTES = 32
SEGMENTS, SEGMENT_SYMBOLS, SEGMENT_BITS = 17, 16, 7
MOST_CELL_BITS, MOST_SIZE_BITS = 11, 13
PRECODE_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1)
PRECODE = {0: 4, 1: 6, 2: 7, 3: 7, 4: 6, 5: 5, 6: 4, 7: 3, 8: 2, 9: 2, 10: 3, 17: 6, 18: 5}  # bits of each

Table = list[tuple[int, int]]  # symbol and length of the code that the next bits begin with


def code_table(lengths: dict[int, int], most: int) -> Table:
    table: list = [None] * (1 << most)
    code = 0
    for length in range(1, most + 1):
        for symbol in (s for s in sorted(lengths) if lengths[s] == length):
            require(code < 1 << length, "deflate: more codes than there is space for")
            first = int(f"{code:0{length}b}"[::-1], 2)
            table[first :: 1 << length] = [(symbol, length)] * (1 << (most - length))
            code += 1
        code <<= 1
    require(None not in table, "deflate: codes that do not fill their space")
    return table


PRECODE_TABLE = code_table(PRECODE, 7)
# The smallest length of each symbol from 257 on, and its extra bits (RFC 1951, section 3.2.5).
EXTRA = [0] * 8 + [e for e in range(1, 6) for _ in range(4)]
MATCHES = [(3 + sum(1 << e for e in EXTRA[:i]), extra) for i, extra in enumerate(EXTRA)]


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
        symbol, length = table[self.peek(most)]
        self.at += length
        return symbol


def read_prefix(bits: BitReader, width: int) -> int:
    """What each block begins with. Returns how many distances have a code length."""
    distances = 6 if width == 8 else width
    prefix = [(5, 3), (LENGTHS_OF_LITERALS - 257, 5), (distances - 1, 5), (18 - 4, 4)]
    prefix += [(PRECODE.get(symbol, 0), 3) for symbol in PRECODE_ORDER]
    require(all(bits.take(size) == value for value, size in prefix), "deflate: another header")
    return distances


def read_segment(bits: BitReader, size: int) -> list[int]:
    lengths: list[int] = []
    while len(lengths) < size:
        symbol = bits.symbol(PRECODE_TABLE, 7)
        if symbol < 16:
            lengths.append(symbol)
        else:
            lengths += [0] * (3 + bits.take(3) if symbol == 17 else 11 + bits.take(7))
    require(len(lengths) == size, "deflate: a run of zeros leaves its segment")
    return lengths


def read_code(bits: BitReader, segments: list[int], width: int) -> Table:
    distances = read_prefix(bits, width)
    lengths: list[int] = []
    for size in segments:
        begin = bits.at
        lengths += read_segment(bits, SEGMENT_SYMBOLS)
        require(bits.at == begin + size, "deflate: a segment of another number of bits")
    lengths += read_segment(bits, LENGTHS_OF_LITERALS - SEGMENTS * SEGMENT_SYMBOLS + distances)
    of_distances = [1 if i in (0, distances - 1) else 0 for i in range(distances)]
    require(lengths[LENGTHS_OF_LITERALS:] == of_distances, "deflate: other codes of distances")
    lengths = lengths[:LENGTHS_OF_LITERALS]
    require(lengths[END_OF_BLOCK] != 0, "deflate: no code of the block's end")
    return code_table({s: length for s, length in enumerate(lengths) if length}, CODE_BITS)


def walk_sub_block(bits: BitReader, code: Table, size: int, width: int) -> None:
    """Steps over tokens that restore exactly `size` bytes and reach no farther back than these."""
    done = 0
    while done < size:
        symbol = bits.symbol(code, CODE_BITS)
        if symbol < END_OF_BLOCK:
            done += 1
            continue
        require(symbol != END_OF_BLOCK, "deflate: a block ends within a sub-block")
        base, extra = MATCHES[symbol - END_OF_BLOCK - 1]
        length = base + bits.take(extra)
        distance = width if bits.take(1) else 1
        if width == 8 and distance == 8:
            require(bits.take(1) == 1, "deflate: a match at distance 7")
        require(distance <= done, "deflate: a match reaches before its sub-block")
        done += length
    require(done == size, "deflate: a match reaches past its sub-block")


def inflate(stream: bytes, size: int) -> bytes:
    inflater = zlib.decompressobj(-15)
    try:
        data = inflater.decompress(stream, size + 1)
    except zlib.error as error:
        raise ValueError(f"deflate: {error}") from None
    require(inflater.eof and not inflater.unused_data, "deflate: the stream and the chunk do not end together")
    require(len(data) == size, f"deflate: {len(data)} bytes instead of {size}")
    return data


def decode_chunk(data: bytes, size: int, width: int) -> bytes:
    """Restores `size` bytes of values that have `width` each."""
    require(len(data) >= 4, "deflate: no room for the index")
    stream_size, widths, sub_blocks = int.from_bytes(data[-4:-2], "little"), data[-2], data[-1] + 1
    cell_bits, size_bits = widths & 15, widths >> 4
    require(len(data) < size, "deflate: a chunk that is no smaller than its values")
    require(cell_bits <= MOST_CELL_BITS and size_bits <= MOST_SIZE_BITS, "deflate: entries of too many bits")
    require(sub_blocks <= max(size // 256, 1), f"deflate: {sub_blocks} sub-blocks")
    index_bits = SEGMENTS * SEGMENT_BITS + sub_blocks * (cell_bits + size_bits)
    end = round_up(8 * stream_size + index_bits, 32) // 8
    require(len(data) == end + 4, "deflate: an index of another size")
    stream, index = data[:stream_size], BitReader(data[stream_size:end])
    segments = [index.take(SEGMENT_BITS) for _ in range(SEGMENTS)]
    entries = [(index.take(cell_bits) + 1, index.take(size_bits)) for _ in range(sub_blocks)]
    require(index.take(8 * (end - stream_size) - index_bits) == 0, "deflate: padding that is not 0")
    row = inflate(stream, size)
    bits = BitReader(stream)
    code = read_code(bits, segments, width)
    done = 0
    for cells, size_of_tokens in entries:
        begin = bits.at
        require(done < size, "deflate: more sub-blocks than the chunk has")
        walk_sub_block(bits, code, min(cells * CELL_BYTES, size - done), width)
        require(bits.at - begin == size_of_tokens, "deflate: a sub-block of another number of bits")
        done += cells * CELL_BYTES
    require(done == round_up(size, CELL_BYTES), "deflate: the sub-blocks do not cover the chunk")
    require(bits.symbol(code, CODE_BITS) == END_OF_BLOCK, "deflate: a block and its chunk end apart")
    require(ceil_div(bits.at, 8) == stream_size, "deflate: the stream does not end with its block")
    return row
