"""Chunks of huffman: the section huffman of docs/format.md describes them.

Encoders choose codes by rules. Here each code that a table can have is decoded, as decoders do.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from bits import ceil_div, fields, little, pack, require, round_up, unpack, unzigzag

SYMBOLS, ESCAPE, MAX_LENGTH = 64, 63, 10
EXPONENTS = {4: 4, 5: 5, 6: 8, 7: 11}  # by mapping

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
    mapping: int
    entry_bits: int
    bin: int
    escape_length: int
    table_words: int
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


def read_head(chunk: Input, width: int) -> Head:
    first, second = unpack(chunk.take(64), 4)
    shift, low, mapping, high, *fields_of, table = split(first, 6, 3, 3, 2, 4, 7, 4, 3)
    behind, streams, least = split(second, 17, 3, 12)
    head = Head(shift, mapping, *fields_of, table + 1, 8 << streams, 4 * least)
    bits, step = 8 * width, max(1, width // 2)
    require(mapping not in (2, 3), f"huffman: mapping {mapping}")
    require(streams <= 4, f"huffman: {head.streams} streams")
    require(not (low or high or behind), "huffman: bits of the head that have no meaning")
    if head.exponent:
        fits = head.exponent + 2 <= bits and head.top >> head.exponent == 0
        most = float_shift(width, head.exponent)
        fits = fits and head.shift <= most <= bits - head.exponent
        require(fits, f"huffman: an exponent of {head.exponent} bits, bin {head.bin}, a shift of {head.shift}")
    else:
        fits = head.shift + head.bin < bits and (head.shift + head.bin) % step == 0
        require(fits, f"huffman: integers with a shift of {head.shift} and {head.bin} zeros")
    return head


def table_of(lengths: list[int], most: int) -> Table:
    codes = sorted((length, symbol) for symbol, length in enumerate(lengths) if length)
    require(max(lengths) <= most, f"huffman: a code of more than {most} bits")
    table = [(symbol, length) for length, symbol in codes for _ in range(2**most >> length)]
    require(len(table) == 2**most, "huffman: codes that do not fill their space")
    return table


def read_table(chunk: Input, head: Head) -> Table:
    symbols = 8 * head.table_words
    stored = fields(little(chunk.take(4 * symbols)), 0, 4, symbols) + [0] * SYMBOLS
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


def values_of_stream(t: int, streams: int, count: int) -> list[int]:
    return [i for first in range(4 * t, count, 4 * streams) for i in range(first, min(first + 4, count))]


def read_upper_bits(chunk: Input, head: Head, count: int, width: int) -> list[int]:
    """The numbers without their rests."""
    upper_bits = 8 * width - head.zeros(width) - head.shift
    table = read_table(chunk, head)
    has = (symbol < 2**upper_bits or symbol == ESCAPE for symbol, _ in table)
    require(all(has), "huffman: a symbol that no value has")
    more = fields(little(chunk.take(head.streams * head.entry_bits)), 0, head.entry_bits, head.streams)
    ends = list(accumulate(head.least + bits for bits in more))
    used = chunk.take(ends[-1])
    require(not chunk.left, f"huffman: {len(chunk.left)} bytes behind the streams")
    bits, upper = Bits(used), [0] * count
    for t, end in enumerate(ends):
        for i in values_of_stream(t, head.streams, count):
            symbol = bits.symbol(table, MAX_LENGTH)
            upper[i] = bits.take(upper_bits) if symbol == ESCAPE else symbol
        require(bits.at == end, "huffman: a stream of another number of bits")
    return upper


def read_rests(chunk: Input, size: int, count: int) -> list[int]:
    """The lowest `size` bits of all numbers."""
    rests, at = [0] * count, 0
    for bits in [8] * (size // 8) + [bits for bits in (4, 2, 1) if size & bits]:
        plane = chunk.take(bits * count)
        fields_of = [byte >> low & 2**bits - 1 for byte in plane for low in range(0, 8, bits)]
        rests = [rest | field << at for rest, field in zip(rests, fields_of)]
        at += bits
    return rests


def decode_chunk(data: bytes, count: int, width: int) -> bytes:
    require(len(data) < count * width, "huffman: a chunk that is no smaller than its values")
    chunk = Input(data)
    head = read_head(chunk, width)
    rests = read_rests(chunk, head.shift, count)
    upper = read_upper_bits(chunk, head, count, width)
    numbers = (high << head.shift | rest for high, rest in zip(upper, rests))
    return pack([head.value(number, width) for number in numbers], width)
