"""What the parts of the decoder share: little-endian numbers, bit fields, masks, and how they refuse."""

from __future__ import annotations

import struct
from typing import NamedTuple, Sequence

WORD = 32  # bits in a word of a mask


class Dtype(NamedTuple):
    name: str
    width: int  # bytes
    numpy: str
    mantissa: int = 0  # bits, of floats


def require(condition: bool, reason: str) -> None:
    if not condition:
        raise ValueError(reason)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def round_up(x: int, multiple: int) -> int:
    return ceil_div(x, multiple) * multiple


def little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def unpack(data: bytes, width: int) -> Sequence[int]:
    require(len(data) % width == 0, f"{len(data)} bytes are no values of {width}")
    return struct.unpack(f"<{len(data) // width}{'.BH.I...Q'[width]}", data)


def pack(values: Sequence[int], width: int) -> bytes:
    return struct.pack(f"<{len(values)}{'.BH.I...Q'[width]}", *values)


def fields(bits: int, at: int, width: int, count: int) -> list[int]:
    """`count` numbers of `width` bits from bit `at` on, the lowest first."""
    part, mask = bits >> at & ((1 << width * count) - 1), (1 << width) - 1
    return [part >> width * i & mask for i in range(count)]


def flags(mask: int, count: int) -> list[bool]:
    return [bit == "1" for bit in reversed(f"{mask:0{count}b}")] if count else []


def ones(mask: int) -> int:
    return bin(mask).count("1")


def unzigzag(z: int) -> int:
    return z >> 1 ^ -(z & 1)
