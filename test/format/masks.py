"""Masks that compress themselves (codec/mask/packed.hpp), which rle and packed zvc are made of.

A mask is an integer: bit i is that of value i.
"""

from __future__ import annotations

from bits import WORD, ceil_div, fields, flags, little, ones, require

INVERTED, DISTANCES = 1, {2: 1, 3: 2, 4: 16, 5: 32}  # rules; 0: the marks are the mask
RULES = 2 + len(DISTANCES)


class Parts:
    """The parts of a packed mask, each a string of bits, taken from its begin on."""

    def __init__(self, data: bytes) -> None:
        self.data, self.end = data, 0

    def take(self, bits: int, unit: int = 8) -> int:
        """So many bits, padded with zeros to a multiple of `unit` bits."""
        start, self.end = self.end, self.end + ceil_div(bits, unit) * unit // 8
        require(self.end <= len(self.data), "mask: the chunk is cut short")
        string = little(self.data[start : self.end])
        require(string >> bits == 0, "mask: padding that is not zero")
        return string


def unpack(data: bytes, count: int, rule: int) -> tuple[int, int]:
    """The mask of `count` values that `data` begins with, and its bytes there."""
    parts, words = Parts(data), ceil_div(count, WORD)
    there = [w for w, one in enumerate(flags(parts.take(words, WORD), words)) if one]
    some = fields(parts.take(4 * len(there)), 0, 4, len(there))
    require(all(some), "mask: a word of marks that is 0, but there")
    places = [32 * w + 8 * k for w, nibble in zip(there, some) for k in range(4) if nibble >> k & 1]
    more = flags(parts.take(len(places)), len(places))
    sizes = [8 if many else 3 for many in more]
    string, at, marks = parts.take(sum(sizes)), 0, bytearray(4 * words)
    require(parts.end < 4 * words, f"mask: {parts.end} bytes, though it is no larger unpacked")
    for place, size in zip(places, sizes):
        stored = string >> at & 2**size - 1
        require(size == 3 or ones(stored) > 1, "mask: a byte of one 1 at most, as if it had more")
        marks[place // 8] = stored if size == 8 else 1 << stored
        at += size
    mask = little(bytes(marks))
    require(mask >> count == 0, "mask: marks past the end")
    if rule == INVERTED:
        mask ^= (1 << count) - 1
    distance = DISTANCES.get(rule, count)
    while distance < count:  # each bit becomes the XOR of all marks at multiples of the distance up to it
        mask ^= mask << distance
        distance *= 2
    return mask % 2**count, parts.end
