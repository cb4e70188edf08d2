"""Chunks of codebooks: the section codebooks of docs/format.md describes them.

Encoders choose books by rules. Here each book is decoded with whatever symbols it has, as decoders do.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from typing import NamedTuple

import huffman
from bits import Dtype, ceil_div, fields, flags, little, pack, require, unpack

PART, ROW, CELL = 4096, 512, 16  # bytes
STREAMS, ROWS = ROW // CELL, PART // ROW
SECOND = 16  # the first of the books in which symbol 0 is exponent field 0
ESCAPE, MAX_LENGTH = 63, 8
HEAD = 8  # bytes

# Of each book the lengths of the codes of all symbols, the last one the escape's; 0: no code.
BOOKS = (
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
    "0000000000000000000000000000000000000000000000000000000000000000",
)


class Head(NamedTuple):
    """What the two words of a part say."""

    top: int
    least: int  # bits of the shortest stream, or fewer
    entry: int  # bits
    zeros: int  # the lowest bits of all mantissas that are 0
    book: int
    words: int
    masked: int
    reserved: int


class Part(huffman.Input):
    """The words of a part, taken from its begin on."""

    def take(self, bits: int) -> bytes:
        require(4 * ceil_div(bits, 32) <= len(self.left), "codebooks: a part is cut short")
        return super().take(bits)


@cache
def table_of(book: int) -> huffman.Table:
    lengths = [int(digit) for digit in BOOKS[book]]
    return huffman.table_of(lengths, MAX_LENGTH) if any(lengths) else [(ESCAPE, 0)] * 2**MAX_LENGTH


def read_head(data: bytes, count: int, dtype: Dtype) -> Head:
    """The head of a part of `count` values."""
    first, second = unpack(data, 4)
    head = Head(*huffman.split(first, 8, 10, 4, 5, 5), *huffman.split(second, 16, 1, 15))
    require(head.reserved == 0, "codebooks: bits 17 to 31 of the second word of a head")
    require(head.zeros <= dtype.mantissa, f"codebooks: {head.zeros} zeros in a mantissa of {dtype.mantissa} bits")
    require(not head.masked or count * dtype.width == PART, f"codebooks: masks of {count} values")
    require(head.words % 2 == 0, f"codebooks: a part of {head.words} words")
    return head


def read_exponents(part: Part, head: Head, cells: list[int], cell_values: int) -> dict[int, int]:
    """The exponent fields of the values of these cells, by index in the part; of values behind the last one too."""
    more = fields(little(part.take(STREAMS * head.entry)), 0, head.entry, STREAMS)
    ends = list(accumulate(head.least + bits for bits in more))
    bits, exponents, table = huffman.Bits(part.take(ends[-1])), {}, table_of(head.book)
    require(len(part.left) < 8, f"codebooks: {len(part.left)} bytes behind the streams of a part")
    for stream, end in enumerate(ends):
        for first in (cell * cell_values for cell in cells if cell % STREAMS == stream):
            for i in range(first, first + cell_values):
                symbol = bits.symbol(table, MAX_LENGTH)
                if symbol == ESCAPE:
                    exponents[i] = bits.take(8)
                else:
                    exponents[i] = 0 if symbol == 0 and head.book >= SECOND else head.top - symbol
        require(bits.at == end, "codebooks: a stream of another number of bits")
    return exponents


def decode_part(data: bytes, head: Head, count: int, dtype: Dtype) -> list[int]:
    part, cell_values = Part(data), CELL // dtype.width
    cells = list(range(ceil_div(count, cell_values)))
    if head.masked:
        masks = flags(little(part.take(32 * ROWS)), STREAMS * ROWS)
        cells = [cell for cell, stored in enumerate(masks) if stored]
    places = [i for cell in cells for i in range(cell * cell_values, (cell + 1) * cell_values) if i < count]
    rests = huffman.read_rests(part, dtype.mantissa + 1 - head.zeros, len(places))
    exponents = read_exponents(part, head, cells, cell_values)
    values, exponent_bits = [0] * count, 8 * dtype.width - 1 - dtype.mantissa
    for i, rest in zip(places, rests):
        sign, mantissa = divmod(rest << head.zeros, 2**dtype.mantissa)
        values[i] = (sign << exponent_bits | exponents[i] % 2**exponent_bits) << dtype.mantissa | mantissa
    return values


def decode_chunk(data: bytes, count: int, dtype: Dtype) -> bytes:
    part_values = PART // dtype.width
    counts = [min(part_values, count - first) for first in range(0, count, part_values)]
    at = HEAD * len(counts)
    fits = len(data) % 4 == 0 and at <= len(data) < count * dtype.width
    require(fits, f"codebooks: {len(data)} bytes cannot be a chunk of {count} values")
    values = []
    for i, here in enumerate(counts):
        head = read_head(data[HEAD * i : HEAD * (i + 1)], here, dtype)
        end = at + 4 * head.words
        require(end <= len(data), "codebooks: the chunk is cut short")
        values += decode_part(data[at:end], head, here, dtype)
        at = end
    require(at == len(data), f"codebooks: {len(data) - at} bytes behind the last part")
    return pack(values, dtype.width)
