"""Chunks of huffman, alone and at the end of a chain: codec/huffman/layout.hpp has their format, code.hpp the codes.

Encoders choose codes by rules; here any code that a table can have is decoded, as decoders do.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import lossless
from bits import GROUP, ceil_div, fields, flags, little, pack, require, round_up, unpack

MAX_LENGTH = 10  # bits of the longest code
SLOTS = 1 << MAX_LENGTH
ONLY_SYMBOL = 15  # instead of a length
FLAGS, EDGES, HEADS, UPPER = range(4)  # parts; behind them are the other planes
MOST_CODED = 8  # later parts are always stored
STREAMS = ((0, 0), (768, 8), (2048, 16), (4096, 32), (8192, 64))  # up to so many symbols: so many streams
MOST_STREAMS = 128

Table = list[tuple[int, int]]  # symbol and length of the code that the next bits begin with


class Input:
    """The bytes of a chunk, taken from its begin on."""

    def __init__(self, data: bytes) -> None:
        require(len(data) % 4 == 0, f"huffman: {len(data)} bytes are no words")
        self.left = data

    def take(self, size: int) -> bytes:
        require(0 <= size <= len(self.left), "huffman: the chunk is cut short")
        taken, self.left = self.left[:size], self.left[size:]
        return taken

    def word(self) -> int:
        return little(self.take(4))


class Shape(NamedTuple):
    """What the first two words say."""

    sizes: list[int]  # bytes of each part
    coded: list[int]  # parts; the others are stored
    shortest: int  # bits that each stream has at least
    has_heads: bool
    narrow: bool
    wide: bool
    rotated: bool
    dropped: int  # upper planes that are 0

    def symbols(self, part: int) -> int:
        return self.sizes[part] * (2 if part < UPPER else 1)

    def streams(self) -> int:
        symbols = sum(self.symbols(part) for part in self.coded)
        return next((streams for most, streams in STREAMS if symbols <= most), MOST_STREAMS)

    def is_narrow(self, part: int) -> bool:
        return self.narrow and part == len(self.sizes) - 1

    def stored_bytes(self, part: int) -> int:
        if not self.is_narrow(part):
            return round_up(self.sizes[part], 4)
        groups, rest = divmod(self.sizes[part], GROUP)
        return 4 * (7 * groups + min(7, ceil_div(rest, 4)))


def read_shape(chunk: Input, count: int, sides: int, width: int) -> Shape:
    header, second = chunk.word(), chunk.word()
    coded, heads, edges = header & 0xFF, header >> 16, second >> 15
    has_heads, narrow, wide, rotated = flags(header >> 8 & 15, 4)
    dropped = header >> 12 & 7
    require(dropped < width and not (rotated and dropped), f"huffman: {dropped} planes dropped of {width}")
    planes = width - dropped
    require(header & 0x8000 == 0 and coded >> UPPER + planes == 0, "huffman: unknown flags or parts")
    require(edges <= sides, f"huffman: {edges} bytes of edges in sides of {sides}")
    require(width > 1 or not rotated, "huffman: values of one byte are never rotated")
    require(rotated or not narrow, "huffman: only rotated values are narrow")
    fits = width > 1 and 0 < 8 * heads <= 5 * count if has_heads else heads == 0
    require(fits, f"huffman: {heads} heads of {count} values")
    upper = [ceil_div(count, 8), heads] if has_heads else [0, count]
    sizes = [ceil_div(sides, 8), edges, *upper] + [count] * (planes - 1)
    parts = [part for part in range(MOST_CODED) if coded >> part & 1]
    shape = Shape(sizes, parts, 2 * (second & 0x7FFF), has_heads, narrow, wide, rotated, dropped)
    require(shape.streams() or not (wide or shape.shortest), "huffman: no streams to be wide or of any bits")
    return shape


def read_table(chunk: Input, part: int) -> Table:
    groups = 3 if part < UPPER else chunk.word()
    lengths = []
    for there in flags(groups, 32):
        lengths += fields(chunk.word(), 0, 4, 8) if there else [0] * 8
    codes = sorted((length, symbol) for symbol, length in enumerate(lengths) if length)
    require(len(codes) > 0, "huffman: a table without codes")
    if len(codes) == 1 and codes[0][0] == ONLY_SYMBOL:
        return [(codes[0][1], 0)] * SLOTS
    require(codes[-1][0] <= MAX_LENGTH, f"huffman: a code of more than {MAX_LENGTH} bits")
    table = [(symbol, length) for length, symbol in codes for _ in range(SLOTS >> length)]
    require(len(table) == SLOTS, "huffman: codes that do not fill their space")
    return table


def read_coded(chunk: Input, shape: Shape, stored: int) -> dict[int, bytes]:
    """The coded parts, of a chunk in which `stored` bytes stand behind the streams."""
    tables = {part: read_table(chunk, part) for part in shape.coded}
    streams, width = shape.streams(), 2 if shape.wide else 1
    more = unpack(chunk.take(width * streams), width)
    words = unpack(chunk.take(len(chunk.left) - stored), 4)
    bits = "".join(f"{word:032b}" for word in words)
    begins = [0, *accumulate(shape.shortest + bits_more for bits_more in more)]
    require(ceil_div(begins[-1], 32) == len(words), f"huffman: {len(words)} words for {begins[-1]} bits")
    at, parts = begins[:-1], {}
    for part, table in tables.items():
        symbols = []
        for i in range(shape.symbols(part)):
            stream = i // (8 if part < UPPER else 4) % streams
            next_bits = bits[at[stream] : at[stream] + MAX_LENGTH]
            symbol, length = table[int(next_bits.ljust(MAX_LENGTH, "0"), 2)]
            at[stream] += length
            symbols.append(symbol)
        if part < UPPER:
            symbols = [low | high << 4 for low, high in zip(symbols[::2], symbols[1::2])]
        parts[part] = bytes(symbols)
    require(at == begins[1:], "huffman: a stream of another number of bits")
    return parts


def widen(data: bytes, count: int) -> bytes:
    """A plane of bytes whose lowest bit is 0, from the other seven bits of each."""
    words, plane = unpack(data, 4), []
    for first in range(0, len(words), 7):
        group = words[first : first + 7]
        quads = [word % 2**28 for word in group] + [sum(word >> 28 << 4 * i for i, word in enumerate(group))]
        for quad in quads:
            plane += fields(quad, 0, 7, 4)
    return bytes(seven << 1 for seven in plane[:count])


def read_parts(chunk: Input, shape: Shape) -> list[bytes]:
    stored = [part for part in range(len(shape.sizes)) if part not in shape.coded]
    parts = read_coded(chunk, shape, sum(shape.stored_bytes(part) for part in stored))
    for part in stored:
        data, size = chunk.take(shape.stored_bytes(part)), shape.sizes[part]
        parts[part] = widen(data, size) if shape.is_narrow(part) else data[:size]
    return [parts[part] for part in range(len(shape.sizes))]


def join_sides(flag_bytes: bytes, edges: bytes, size: int) -> bytes:
    string = little(lossless.spread(little(flag_bytes), edges, size, 1, runs=False))
    shift = 1
    while shift < 8 * size:  # each bit becomes the sum of all edges up to it
        string ^= string << shift
        shift *= 2
    return (string % 2 ** (8 * size)).to_bytes(size, "little")


def join_values(heads: bytes, planes: list[bytes], count: int, shape: Shape) -> bytes:
    if shape.has_heads:
        require(heads[0] & 1 == 1, "huffman: the first value is no head")
        planes = [lossless.spread(little(heads), planes[0], count, 1, runs=True)] + planes[1:]
    planes = [bytes(count)] * shape.dropped + planes
    width, values = len(planes), bytearray(len(planes) * count)
    for place, plane in enumerate(reversed(planes)):
        values[place::width] = plane
    if shape.rotated:
        values[:] = pack([x >> 1 | (x & 1) << 8 * width - 1 for x in unpack(values, width)], width)
    return bytes(values)


def decode_row(data: bytes, sizes: list[int], width: int) -> bytes:
    """Restores sections of these sizes, one behind the other: values of `width` bytes, then sides."""
    count, padded = sizes[0] // width, [round_up(size, 4) for size in sizes[1:]]
    chunk = Input(data)
    shape = read_shape(chunk, count, sum(padded), width)
    flag_bytes, edges, heads, *planes = read_parts(chunk, shape)
    row, sides = join_values(heads, planes, count, shape), join_sides(flag_bytes, edges, sum(padded))
    for size, room in zip(sizes[1:], padded):
        row += sides[:size]
        sides = sides[room:]
    return row


def decode_chunk(data: bytes, count: int, width: int) -> bytes:
    require(len(data) < count * width, "huffman: a chunk that is no smaller than its values")
    return decode_row(data, [count * width], width)
