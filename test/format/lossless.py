"""Chunks of zvc, rle and bitpack, and the transform delta: the headers codec/*/*.hpp have their formats.

What keeps some values as they are returns the values, and how many bytes stand before those kept.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Sequence

import groups
from bits import GROUP, ceil_div, flags, little, ones, pack, require, round_up, unpack, unzigzag


def spread(mask: int, kept: Sequence[int], count: int, width: int, runs: bool) -> bytes:
    """Puts the kept values where the mask has ones; between them are zeros, or the last value again."""
    require(mask >> count == 0, "the mask has ones past the end")
    require(ones(mask) == len(kept), f"{len(kept)} values are kept, the mask has {ones(mask)} ones")
    following, value, values = iter(kept), 0, []
    for one in flags(mask, count):
        value = next(following) if one else value if runs else 0
        values.append(value)
    return pack(values, width)


def zvc(data: bytes, count: int, width: int) -> tuple[bytes, int]:
    side = 4 * ceil_div(count, GROUP)
    require(side <= len(data) < count * width, f"zvc: {len(data)} bytes cannot be a chunk")
    return spread(little(data[:side]), unpack(data[side:], width), count, width, runs=False), side


def rle(data: bytes, count: int, width: int, kinds: int) -> tuple[bytes, int]:
    kind = little(data[:4])  # and three zeros
    blocks = ceil_div(count, 64)  # of 8 mask bytes
    l1 = 4 + 4 * ceil_div(blocks, 32)
    require(l1 <= len(data) < count * width, f"rle: {len(data)} bytes cannot be a chunk")
    require(kind < kinds, f"rle: kind {kind} is unknown")
    l2 = little(data[4:l1])
    require(l2 >> blocks == 0, "rle: L2 has bits past the end")
    l0 = l1 + ones(l2)
    l0_end = l0 + sum(ones(byte) for byte in data[l1:l0])
    side = round_up(l0_end, width)
    require(side <= len(data) and all(data[l1:l0_end]), "rle: L1 or L0 is damaged")
    require(not any(data[l0_end:side]), "rle: the padding is not zero")
    l1_bytes, l0_bytes, mask = iter(data[l1:l0]), iter(data[l0:l0_end]), bytearray()
    for there in flags(l2, blocks):
        bits = next(l1_bytes) if there else 0
        mask += bytes(next(l0_bytes) if bits >> i & 1 else 0 for i in range(8))
    return spread(little(mask), unpack(data[side:], width), count, width, runs=kind == 1), side


def bitpack(data: bytes, count: int, width: int) -> bytes:
    require(len(data) < count * width, f"bitpack: {len(data)} bytes cannot be a chunk")
    values, end = groups.decode(data, count, width, allowed={1: 9, 2: 17, 4: 32, 8: 64}[width])
    require(end == len(data) and little(data[2:4]) == 0, f"bitpack: {len(data)} bytes instead of {end}, or exceptions")
    return pack(values, width)


def exponents(data: bytes, count: int, width: int) -> bytes:
    """Floats whose bits were rotated left by one: the upper bytes as groups, the planes of the others behind them."""
    plane, bits = round_up(count, 4), 8 * width
    require(len(data) < count * width, f"exponents: {len(data)} bytes cannot be a chunk")
    rotated, end = groups.decode(data, count, 1, allowed=8, signed=False)
    require(len(data) == end + (width - 1) * plane, f"exponents: {len(data)} bytes, whose groups end at {end}")
    for at in range(end, len(data), plane):
        rotated = [x << 8 | byte for x, byte in zip(rotated, data[at : at + count])]
    return pack([x >> 1 | (x & 1) << bits - 1 for x in rotated], width)


def undo_delta(data: bytes, width: int, form: int) -> bytes:
    """Restores values from the codes of their differences (form 0), from their codes (1), or as they are (2)."""
    if form == 2:
        return data
    values = (unzigzag(z) for z in unpack(data, width))
    return pack([value % 2 ** (8 * width) for value in (accumulate(values) if form == 0 else values)], width)


# Gaps


def gaps(data: bytes, count: int, width: int) -> bytes:
    require(len(data) >= 4, "gaps: no header")
    bits, end, at = int.from_bytes(data, "little"), 8 * len(data), 0

    def take(n: int) -> int:
        nonlocal at
        require(at + n <= end, "gaps: the chunk is cut short")
        at += n
        return bits >> at - n & (1 << n) - 1

    def zeros() -> int:
        start = at
        while not take(1):
            pass
        return at - start - 1

    k, r, w, has_classes, rest = take(16), take(4), take(7), take(1), take(4)
    require(rest == 0 and k <= count // 4 and w <= 8 * width, "gaps: the header is none of such a chunk")
    remainders = [take(r) for _ in range(k)]
    steps = [(zeros() << r) + remainder + 1 for remainder in remainders]
    require(sum(steps) <= count, "gaps: a value behind the last")
    classes = [zeros() if has_classes else 3 for _ in range(k)]
    require(max(classes, default=0) <= 8 * width, "gaps: a class that no value has")
    values, place = [0] * count, -1
    for step, c in zip(steps, classes):
        place += step
        values[place] = take(w) if c == 3 else (1 << c + (c < 3)) - 1
    require(end - at < 8 and bits >> at == 0, "gaps: bits behind the last")
    return pack(values, width)
