"""Chunks of quantize, alone (codec/quantize/quantize.hpp) and as the first stage of a chain.

Floats are bit for bit those of C++. Python's are IEEE doubles: a product of two f32 is exact in one, so that c_float's
rounding is the only one; from there struct rounds to f16 as IEEE does, and bf16 is rounded as the integer that it is.
"""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Callable, NamedTuple, Sequence

import groups
from bits import Dtype, little, pack, require, round_up, unpack

RANGE_RELATIVE, POINTWISE = 1, 2  # modes of a bound


class Rule(NamedTuple):
    """The parameters of a quantize stage, and the type that it is for."""

    dtype: Dtype
    mode: int
    bound: int  # the bits of a double

    @property
    def pointwise(self) -> bool:
        return self.mode == POINTWISE

    @property
    def exponent_bits(self) -> int:
        return 8 * self.dtype.width - 1 - self.dtype.mantissa

    @property
    def has_exponent(self) -> bool:
        return self.dtype.width == 2 or self.pointwise

    @property
    def allowed(self) -> int:
        """Bits of an integer in groups."""
        return {2: 17, 4: 32, 8: 64}[self.dtype.width] if self.pointwise else {2: 18, 4: 25, 8: 32}[self.dtype.width]


def rule_of(dtype: Dtype, mode: int, small: int, large: int, predictors: int) -> Rule:
    require(dtype.mantissa > 0 and dtype.width > 1, f"quantize: {dtype.name} is no float of 2 bytes or more")
    rule = Rule(dtype, mode & 15, large)
    of_range = rule.mode == RANGE_RELATIVE
    require(rule.mode <= POINTWISE and mode >> 4 < predictors, f"quantize: mode {mode:#x} is unknown")
    require(large < 0x7FF << 52 and (large > 0 or of_range), "quantize: the bound is none")
    is_factor = of_range and little(struct.pack("<f", 2**-125)) <= small <= little(struct.pack("<f", 2**120))
    require(small == 0 or is_factor, "quantize: the bound as asked for is none")
    return rule


def tolerance_of(rule: Rule) -> float:
    """What an absolute bound is computed with: rounded towards zero to f32, 0 where it is too small."""
    wide = rule.dtype.width == 8
    limit, least = (1000, -1000) if wide else (120, -125)
    exponent = (rule.bound >> 52) - 1023
    if exponent >= limit or exponent < least:
        return 2.0**limit if exponent >= limit else 0.0
    bits = rule.bound if wide else rule.bound >> 29 << 29
    return struct.unpack("<d", pack([bits], 8))[0]


def half_step(rule: Rule, tolerance: float, exponent: int) -> float:
    """Of 16-bit types, by the ulps of values up to the biased exponent."""
    bias = 2 ** (rule.exponent_bits - 1) - 1
    largest_ulp, binade = max(exponent, 1) - bias - rule.dtype.mantissa, math.frexp(tolerance)[1] - 1
    halves = [ctypes.c_float(tolerance * (1 - 2**-9)).value]
    for ulp in (2.0**e for e in range(binade - 7, binade + 1) if e <= largest_ulp):
        halves.append((tolerance // ulp + 0.5) * ulp)
    if binade + 1 <= largest_ulp:
        halves.append(2.0**binade)
    return min(halves)


def out_of_magic(q: int) -> float:
    """What f32 has in place of q: itself, if it is less than 2^22."""
    magic = 1.5 * 2**23
    moved = struct.unpack("<f", pack([(little(struct.pack("<f", magic)) + q) % 2**32], 4))[0]
    return ctypes.c_float(moved - magic).value


def signed(x: int, bits: int) -> int:
    """The number whose low bits, in two's complement, are those of x."""
    return (x + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def restorer(rule: Rule, exponent: int) -> Callable[[int], int]:
    """The function from a code, modulo 2^(8 width), to the bits of the value."""
    width, name = rule.dtype.width, rule.dtype.name
    sign = 1 << 8 * width - 1
    exponents = 2**rule.exponent_bits - 1 if rule.has_exponent else 1
    require(exponent < exponents, f"quantize: exponent {exponent}")
    if rule.pointwise:
        kept = min(max(1022 - (rule.bound >> 52), 0), rule.dtype.mantissa)
        dropped = rule.dtype.mantissa - kept

        def of_key(code: int) -> int:
            q = signed(code, 8 * width)
            key = abs(q) - 1 + (exponent << kept)
            return (key << dropped) % sign | (q < 0) * sign if q else 0

        return of_key

    tolerance = tolerance_of(rule)
    require(tolerance > 0, "quantize: with this bound no chunk is encoded")
    step = (half_step(rule, tolerance, exponent) if width == 2 else tolerance) * (2 - 2**-19)
    step = step if width == 8 else ctypes.c_float(step).value

    def restore(code: int) -> int:
        q = signed(code, 8 * width)
        if width == 8:
            return little(struct.pack("<d", q * step))
        value = ctypes.c_float(out_of_magic(q) * step).value
        if name == "f16" and abs(value) >= 65520:
            return 0x7C00 | (value < 0) * sign
        bits = little(struct.pack("<e" if name == "f16" else "<f", value))
        return bits + 0x7FFF + (bits >> 16 & 1) >> 16 if name == "bf16" else bits

    return restore


class Side(NamedTuple):
    """Where things are in a side (codec/quantize/quantizer.hpp) of so many exceptions."""

    positions: int
    values: int
    end: int


def side_of(exceptions: int, rule: Rule) -> Side:
    width, positions = rule.dtype.width, 2 if rule.has_exponent else 0
    values = round_up(positions + 2 * exceptions, width)
    return Side(positions, values, round_up(values + exceptions * width, 4))


def patch(values: list[int], data: bytes, exceptions: int, rule: Rule) -> bytes:
    """The chunk's values, with the exceptions that a side has."""
    width, side, before = rule.dtype.width, side_of(exceptions, rule), -1
    positions = unpack(data[side.positions : side.positions + 2 * exceptions], 2)
    for position, exception in zip(positions, unpack(data[side.values : side.values + exceptions * width], width)):
        require(before < position < len(values), "quantize: positions that do not ascend, or past the end")
        values[position] = exception
        before = position
    return pack(values, width)


def decode_chunk(data: bytes, count: int, rule: Rule) -> bytes:
    width = rule.dtype.width
    require(4 <= len(data) <= count * width - count * width // 8, f"quantize: {len(data)} bytes cannot be a chunk")
    codes, end = groups.decode(data, count, width, rule.allowed)
    exceptions, side = little(data[2:4]), data[end:]
    require(len(side) == side_of(exceptions, rule).end, f"quantize: no side has {len(side)} bytes")
    restore = restorer(rule, little(side[: side_of(0, rule).positions]))
    return patch([restore(code) for code in codes], side, exceptions, rule)


def from_chain(integer: int, rule: Rule) -> int:
    """The code, modulo 2^(8 width), that a chain has as another integer."""
    bits = 8 * rule.dtype.width
    return integer if rule.pointwise else signed(integer, {16: 16, 32: 24, 64: 31}[bits]) % 2**bits


def decode_codes(data: bytes, count: int, rule: Rule) -> tuple[bytes, int]:
    """The values of a chunk of quantize_codes, and the size of its side."""
    width = rule.dtype.width
    side = len(data) - count * width
    fitting = [m for m in range(1024 // (2 + width)) if side_of(m, rule).end == side]
    require(len(fitting) == 1, f"quantize: no side has {side} bytes")
    restore = restorer(rule, little(data[: side_of(0, rule).positions]))
    values = [restore(from_chain(code, rule)) for code in unpack(data[side:], width)]
    return patch(values, data[:side], fitting[0], rule), side
