"""Chunks of huffman, alone and at the end of a chain: the section huffman of docs/format.md describes them.

Encoders choose codes by rules. Here each code that a table can have is decoded, as decoders do.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import lossless
from bits import ceil_div, fields, little, pack, require, round_up, unpack, unzigzag

SYMBOLS, ESCAPE, MAX_LENGTH = 64, 63, 10  # of the values
NIBBLES, NIBBLE_LENGTH = 16, 7  # of flags and marks
PLAIN = 2
EXPONENTS = {4: 4, 5: 5, 6: 8, 7: 11}  # by mapping
DIFFERENCES, INVERTED = 0, 1  # rules of marks, and 2: as they are

Table = list[tuple[int, int]]  # symbol and length of the code that the next bits begin with


class Input:
    """The bytes of a chunk, taken from its begin on."""

    def __init__(self, data: bytes) -> None:
        require(len(data) % 4 == 0, f"huffman: {len(data)} bytes are no words")
        self.left = data

    def take(self, bits: int) -> bytes:
        """The words that have so many bits."""
        size = 4 * ceil_div(bits, 32)
        require(size <= len(self.left), "huffman: the chunk is cut short")
        taken, self.left = self.left[:size], self.left[size:]
        return taken


class Head(NamedTuple):
    """What the first two words say."""

    shift: int
    reserved: int
    mapping: int
    codes_flags: int
    codes_marks: int
    entry_bits: int
    bin: int
    escape_length: int
    table_words: int
    marks: int  # bytes
    rule: int
    streams: int
    least: int  # bits of the shortest stream, or fewer

    @property
    def exponent(self) -> int:
        """Bits; 0 for integers."""
        return EXPONENTS.get(self.mapping, 0)

    @property
    def top(self) -> int:
        return (self.bin + 1 << max(1, self.exponent - 7)) - 1

    def zeros(self, width: int) -> int:
        """The lowest bits of all values that are 0."""
        return float_shift(width, self.exponent) - self.shift if self.exponent else self.bin

    def value(self, number: int, width: int) -> int:
        zeros = self.zeros(width)
        if not self.exponent:
            integer = unzigzag(number) if self.mapping == 1 else number
            return (integer << zeros) % 2 ** (8 * width)
        number <<= zeros
        mantissa = 8 * width - self.exponent - 1  # bits
        rank, sign = number >> mantissa + 1, number >> mantissa & 1
        field = (self.top - rank) % 2**self.exponent
        return (sign << self.exponent | field) << mantissa | number % 2**mantissa

    def length_index(self, symbol: int) -> int:
        """Of the length of a symbol's code in the table."""
        if self.exponent in (0, 11):
            return symbol
        return (symbol & 2) << 4 | symbol >> 2 << 1 | symbol & 1


def float_shift(width: int, exponent: int) -> int:
    """The shift of floats without zeros."""
    return round_up(8 * width - exponent - 2, max(1, width // 2))


def split(word: int, *sizes: int) -> list[int]:
    """Fields of a word, lowest first."""
    return [word >> low & 2**size - 1 for low, size in zip(accumulate((0, *sizes)), sizes)]


def read_head(chunk: Input, count: int, sides: int, width: int) -> Head:
    first, second = unpack(chunk.take(64), 4)
    *fields_of, table = split(first, 6, 3, 3, 1, 1, 4, 7, 4, 3)
    marks, rule, streams, least = split(second, 15, 2, 3, 12)
    head = Head(*fields_of, table + 1, marks, rule, 8 << streams, 4 * least)
    bits, step = 8 * width, max(1, width // 2)
    require(head.mapping != 3, "huffman: mapping 3")
    require(rule <= 2, "huffman: rule 3 of marks")
    require(streams <= 4, f"huffman: {head.streams} streams")
    require(not head.reserved, "huffman: bits 6 to 8 of the head")
    require(head.mapping != PLAIN or not (head.shift or head.bin), "huffman: plain values with a shift")
    if head.exponent:
        fits = head.exponent + 2 <= bits and head.top >> head.exponent == 0
        most = float_shift(width, head.exponent)
        fits = fits and head.shift <= most <= bits - head.exponent
        require(fits, f"huffman: an exponent of {head.exponent} bits, bin {head.bin}, a shift of {head.shift}")
    else:
        fits = head.shift + head.bin < bits and head.shift % step == 0
        require(fits, f"huffman: integers with a shift of {head.shift} and {head.bin} zeros")
    require(head.marks <= sides, f"huffman: {head.marks} bytes of marks in side streams of {sides}")
    coded = head.mapping != PLAIN and count
    require(coded or not (head.escape_length or table), "huffman: a table of no values")
    used = coded or head.codes_flags or head.codes_marks
    require(used or not (head.least or head.entry_bits or streams), "huffman: no streams to be of any bits")
    return head


def read_lengths(chunk: Input, symbols: int) -> list[int]:
    return fields(little(chunk.take(4 * symbols)), 0, 4, symbols)


def table_of(lengths: list[int], most: int) -> Table:
    codes = sorted((length, symbol) for symbol, length in enumerate(lengths) if length)
    require(max(lengths) <= most, f"huffman: a code of more than {most} bits")
    table = [(symbol, length) for length, symbol in codes for _ in range(2**most >> length)]
    require(len(table) == 2**most, "huffman: codes that do not fill their space")
    return table


def read_table_of_symbols(chunk: Input, head: Head) -> Table:
    stored = read_lengths(chunk, 8 * head.table_words) + [0] * SYMBOLS
    lengths = [stored[head.length_index(symbol)] for symbol in range(ESCAPE)]
    return table_of([*lengths, head.escape_length], MAX_LENGTH)


class Bits:
    """The bits of all streams."""

    def __init__(self, words: bytes) -> None:
        self.string, self.at = "".join(f"{word:032b}" for word in unpack(words, 4)), 0

    def peek(self, count: int) -> int:
        return int(self.string[self.at : self.at + count].ljust(count, "0"), 2)

    def take(self, count: int) -> int:
        bits = self.peek(count)
        self.at += count
        return bits

    def symbol(self, table: Table, most: int) -> int:
        symbol, length = table[self.peek(most)]
        self.at += length
        return symbol


def items_of_stream(t: int, streams: int, count: int) -> list[int]:
    """Those of each four that stream t has."""
    return [i for first in range(4 * t, count, 4 * streams) for i in range(first, min(first + 4, count))]


def read_symbols(chunk: Input, head: Head, count: int, sizes: list[int], width: int) -> tuple[list[int], list[bytes]]:
    """The upper bits of all numbers, and the coded ones of the parts flags and marks."""
    upper_bits = 8 * width - head.zeros(width) - head.shift
    values = 0 if head.mapping == PLAIN else count
    table = read_table_of_symbols(chunk, head) if values else []
    has = (symbol < 2**upper_bits or symbol == ESCAPE for symbol, _ in table)
    require(all(has), "huffman: a symbol that no value has")
    coded = [head.codes_flags, head.codes_marks]
    tables = [table_of(read_lengths(chunk, NIBBLES), NIBBLE_LENGTH) if one else [] for one in coded]
    sizes = [size if one else 0 for size, one in zip(sizes, coded)]
    streams = head.streams if values or any(coded) else 0
    more = fields(little(chunk.take(streams * head.entry_bits)), 0, head.entry_bits, streams)
    ends = list(accumulate(head.least + bits for bits in more))
    used = chunk.take(ends[-1] if ends else 0)
    require(not chunk.left, f"huffman: {len(chunk.left)} bytes behind the streams")
    bits, upper, parts = Bits(used), [0] * values, [bytearray(size) for size in sizes]
    for t, end in enumerate(ends):
        for i in items_of_stream(t, streams, values):
            symbol = bits.symbol(table, MAX_LENGTH)
            upper[i] = bits.take(upper_bits) if symbol == ESCAPE else symbol
        for nibbles, part in zip(tables, parts):
            for i in items_of_stream(t, streams, len(part)):
                part[i] = bits.symbol(nibbles, NIBBLE_LENGTH)
                part[i] |= bits.symbol(nibbles, NIBBLE_LENGTH) << 4
        require(bits.at == end, "huffman: a stream of another number of bits")
    return upper, [bytes(part) for part in parts]


def read_rests(chunk: Input, head: Head, count: int) -> list[int]:
    """The numbers without their upper bits."""
    rests, at = [0] * count, 0
    partial = [bits for bits in (4, 2, 1) if head.shift & bits]
    for bits in [8] * (head.shift // 8) + partial:
        plane = chunk.take(bits * count)
        fields_of = [byte >> low & 2**bits - 1 for byte in plane for low in range(0, 8, bits)]
        rests = [rest | field << at for rest, field in zip(rests, fields_of)]
        at += bits
    return rests


def join_sides(flag_bytes: bytes, marks: bytes, size: int, rule: int) -> bytes:
    string = little(lossless.spread(little(flag_bytes), marks, size, 1, runs=False))
    shift = 1
    while rule == DIFFERENCES and shift < 8 * size:  # each bit becomes the sum of all marks up to it
        string ^= string << shift
        shift *= 2
    return (string % 2 ** (8 * size) ^ (2 ** (8 * size) - 1 if rule == INVERTED else 0)).to_bytes(size, "little")


def decode_row(data: bytes, sizes: list[int], width: int) -> bytes:
    """Restores sections of these sizes, one behind the other: values of `width` bytes, then side streams."""
    count, padded = sizes[0] // width, [round_up(size, 4) for size in sizes[1:]]
    chunk = Input(data)
    head = read_head(chunk, count, sum(padded), width)
    plain = head.mapping == PLAIN
    values = chunk.take(8 * sizes[0])[: sizes[0]] if plain else b""
    rests = [] if plain else read_rests(chunk, head, count)
    part_sizes, coded = [ceil_div(sum(padded), 8), head.marks], [head.codes_flags, head.codes_marks]
    stored = [b"" if one else chunk.take(8 * size)[:size] for size, one in zip(part_sizes, coded)]
    upper, parts = read_symbols(chunk, head, count, part_sizes, width)
    flag_bytes, marks = (part if one else kept for part, kept, one in zip(parts, stored, coded))
    if not plain:
        numbers = (high << head.shift | rest for high, rest in zip(upper, rests))
        values = pack([head.value(number, width) for number in numbers], width)
    sides = join_sides(flag_bytes, marks, sum(padded), head.rule)
    for size, room in zip(sizes[1:], padded):
        values += sides[:size]
        sides = sides[room:]
    return values


def decode_chunk(data: bytes, count: int, width: int) -> bytes:
    require(len(data) < count * width, "huffman: a chunk that is no smaller than its values")
    return decode_row(data, [count * width], width)
