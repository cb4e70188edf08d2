"""Chunks of zvc, rle, bitpack and steps, and the transforms delta and rows: the headers codec/*/*.hpp have their formats.

zvc and rle return the values, and the size of the side stream in bytes.
"""

from __future__ import annotations

from itertools import accumulate, repeat
from typing import Iterable, Sequence

import groups
import masks
from bits import WORD, Dtype, ceil_div, flags, little, ones, pack, require, round_up, unpack, unzigzag

RUNS, BOTH_ZEROS, NEGATIVE_ZEROS = 1, 2, 3  # kinds of masks, and 0: of what is not zero


def spread(mask: int, kept: Sequence[int], count: int, width: int, between: Iterable[int] | None) -> bytes:
    """Puts the kept values where the mask has ones; the others are `between`, or the last value again."""
    require(mask >> count == 0, "the mask has ones past the end")
    require(ones(mask) == len(kept), f"{len(kept)} values are kept, the mask has {ones(mask)} ones")
    following, others, value, values = iter(kept), iter(between or ()), 0, []
    for one in flags(mask, count):
        value = next(following) if one else value if between is None else next(others)
        values.append(value)
    return pack(values, width)


def zvc(data: bytes, count: int, width: int) -> tuple[bytes, int]:
    side = 4 * ceil_div(count, WORD)
    require(side <= len(data) < count * width, f"zvc: {len(data)} bytes cannot be a chunk")
    return spread(little(data[:side]), unpack(data[side:], width), count, width, repeat(0)), side


def with_packed_mask(data: bytes, count: int, width: int, has_runs: bool) -> tuple[bytes, int]:
    """A chunk of rle, or of packed zvc, which has no runs."""
    require(4 <= len(data) < count * width, f"rle: {len(data)} bytes cannot be a chunk")
    head = little(data[:4])
    kind, rule, is_packed = head & 3, head >> 2 & 7, head >> 5
    require(is_packed < 2 and rule < (masks.RULES if is_packed else 1), f"rle: head {head:#x}")
    require(has_runs or kind != RUNS, "packed zvc: a mask of runs")
    mask_size = 4 * ceil_div(count, WORD)
    require(is_packed or 4 + mask_size <= len(data), "rle: the mask is cut short")
    mask = little(data[4 : 4 + mask_size])
    if is_packed:
        mask, mask_size = masks.unpack(data[4:], count, rule)
    zeros, signs_at = count - ones(mask), 4 + mask_size
    signs_end = signs_at + (ceil_div(zeros, 8) if kind == BOTH_ZEROS else 0)
    side = round_up(signs_end, width)
    require(side <= len(data), "rle: the signs are cut short")
    require(not any(data[signs_end:side]), "rle: the padding is not zero")
    between: Iterable[int] | None = repeat(1 << 8 * width - 1 if kind == NEGATIVE_ZEROS else 0)
    if kind == BOTH_ZEROS:
        signs = little(data[signs_at:signs_end])
        require(signs >> zeros == 0, "rle: signs of more zeros than there are")
        between = [sign << 8 * width - 1 for sign in flags(signs, zeros)]
    return spread(mask, unpack(data[side:], width), count, width, None if kind == RUNS else between), side


def bitpack(data: bytes, count: int, width: int) -> bytes:
    require(len(data) < count * width, f"bitpack: {len(data)} bytes cannot be a chunk")
    values, end = groups.decode(data, count, width, allowed={1: 9, 2: 17, 4: 32, 8: 64}[width])
    require(end == len(data) and little(data[2:4]) == 0, f"bitpack: {len(data)} bytes instead of {end}, or extra != 0")
    return pack(values, width)


def undo_delta(data: bytes, width: int, form: int) -> bytes:
    """Restores values from the codes of their differences (form 0), from their codes (1), or as they are (2)."""
    if form == 2:
        return data
    values = (unzigzag(z) for z in unpack(data, width))
    return pack([value % 2 ** (8 * width) for value in (accumulate(values) if form == 0 else values)], width)


def undo_rows(data: bytes, width: int, form: int, row: int) -> bytes:
    """Restores values from their XOR with those one row above (form 0), or as they are (1)."""
    values = list(unpack(data, width))
    for i in range(row, len(values) if form == 0 else 0):
        values[i] ^= values[i - row]
    return pack(values, width)


# Steps from a base


class Bits:
    """A string of bits, lowest bit of a byte first."""

    def __init__(self, data: bytes, name: str) -> None:
        self.bits, self.end, self.at, self.name = little(data), 8 * len(data), 0, name

    def take(self, n: int) -> int:
        require(self.at + n <= self.end, f"{self.name}: the chunk is cut short")
        self.at += n
        return self.bits >> self.at - n & (1 << n) - 1

    def zeros(self) -> int:
        """Takes zeros and the one that follows them."""
        start = self.at
        while not self.take(1):
            pass
        return self.at - start - 1

    def finish(self) -> None:
        require(self.at <= self.end, f"{self.name}: the chunk is cut short")
        require(self.end - self.at < 8 and self.bits >> self.at == 0, f"{self.name}: bits behind the last")


def steps(data: bytes, base: bytes, count: int, dtype: Dtype) -> bytes:
    """The values XOR those of the base, from the steps between the two."""
    require(0 < len(data) < count * dtype.width, f"steps: {len(data)} bytes cannot be a chunk")
    sign = 1 << 8 * dtype.width - 1
    before = unpack(base, dtype.width)
    bits = Bits(data + bytes(32), "steps")  # a header that is cut short is refused with what follows it
    threshold = bits.take(8)
    require(threshold < sign >> dtype.mantissa, "steps: a threshold that no exponent has")
    in_class: list[list[int]] = [[], [], [], []]
    for i, x in enumerate(before):
        exponent = (x & sign - 1) >> dtype.mantissa
        in_class[sum(exponent < max(threshold - 2 * c, 0) for c in range(3))].append(i)
    lengths = [len(of_class) for of_class in in_class]
    strings = []  # lengths, ones, entries and r of each class, of three rows
    for row in range(3):
        width = bits.take(5) if row == 0 or any(lengths) else 0
        require(width <= 17, "steps: a width that no count has")
        counts = [bits.take(width) for _ in range(4)]
        require(width == 0 or any(counts), "steps: a width without counts")
        require(all(k <= n for k, n in zip(counts, lengths)), "steps: more ones than bits")
        for n, k in zip(lengths, counts):
            entries = n - k if 2 * k > n else k
            strings.append((n, k, entries, (31 * (n - entries) // (64 * entries)).bit_length() if entries else 0))
        lengths = counts
    order = bits.take(5) if any(lengths) else 0
    remainders = [[bits.take(r) for _ in range(entries)] for _, _, entries, r in strings]
    signs = [bits.take(1) for _ in range(sum(k for _, k, _, _ in strings[:4]))]
    ones = []  # for each string, whether each of its bits is 1
    for (n, k, entries, r), rest in zip(strings, remainders):
        inverted, place = 2 * k > n, -1
        string = [inverted] * n
        for remainder in rest:
            place += (bits.zeros() << r) + remainder + 1
            require(place < n, "steps: an entry behind the string")
            string[place] = not inverted
        ones.append(iter(string))
    widths = [order + bits.zeros() for _ in range(sum(lengths))]
    require(max(widths, default=0) < 8 * dtype.width, "steps: an extra that no step has")
    extras = iter([(1 << w) + bits.take(w) - (1 << order) + 3 for w in widths])
    bits.end -= 8 * 32
    bits.finish()

    def ordered(x: int) -> int:
        return x ^ sign - 1 if x & sign else x

    changes, negative = [0] * count, iter(signs)
    for c, of_class in enumerate(in_class):
        for i in of_class:
            if not next(ones[c]):
                continue
            magnitude = 1 if not next(ones[4 + c]) else 2 if not next(ones[8 + c]) else next(extras)
            step = -magnitude if next(negative) else magnitude
            changes[i] = ordered((ordered(before[i]) + step) % (2 * sign)) ^ before[i]
    return pack(changes, dtype.width)
