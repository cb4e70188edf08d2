"""Chunks of quantize, alone (codec/quantize/layout.hpp) and as the first stage of a chain (codec/quantize/codes.hpp).

Floats are bit for bit those of C++. Python's are IEEE doubles: a product of two f32 is exact in one, so that c_float's
rounding is the only one; from there struct rounds to f16 as IEEE does, and bf16 is rounded as the integer that it is.
"""

from __future__ import annotations

import ctypes
import math
import struct
from itertools import accumulate
from typing import Callable, NamedTuple, Sequence

from bits import GROUP, Dtype, ceil_div, fields, flags, little, ones, pack, require, round_up, unpack, unzigzag

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
    def code_bits(self) -> int:
        return 15 if self.dtype.width == 2 else 30 if self.pointwise else 23 if self.dtype.width == 4 else 29


def rule_of(dtype: Dtype, mode: int, small: int, large: int, predictors: int) -> Rule:
    require(dtype.mantissa > 0, f"quantize: {dtype.name} is not of floating point")
    rule = Rule(dtype, mode & 15, large)
    of_range = rule.mode == RANGE_RELATIVE
    require(rule.mode <= POINTWISE and mode >> 4 < predictors, f"quantize: mode {mode:#x} is unknown")
    require(large < 0x7FF << 52 and (large > 0 or of_range), "quantize: the bound is none")
    require(small < (0x7F800000 if of_range else 1), "quantize: the bound as asked for is none")
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


def restorer(rule: Rule, exponent: int) -> Callable[[int, bool], int]:
    """The function from q, or a key, and its sign to the bits of the value."""
    width, name = rule.dtype.width, rule.dtype.name
    sign = 1 << 8 * width - 1
    exponents = 2**rule.exponent_bits - 1 if width == 2 and not rule.pointwise else 1
    require(exponent < exponents, f"quantize: exponent {exponent}")
    if rule.pointwise:
        kept = min(max(1022 - (rule.bound >> 52), 0), rule.dtype.mantissa)
        dropped = rule.dtype.mantissa - kept
        return lambda key, negative: key << dropped & 2 * sign - 1 | negative * sign

    tolerance = tolerance_of(rule)
    require(tolerance > 0, "quantize: with this bound no chunk is encoded")
    step = (half_step(rule, tolerance, exponent) if width == 2 else tolerance) * (2 - 2**-19)
    step = step if width == 8 else ctypes.c_float(step).value

    def restore(q: int, negative: bool) -> int:
        value = (q & (1 << rule.code_bits) - 1) * step
        if width == 8:
            return little(struct.pack("<d", value)) | negative * sign
        value = ctypes.c_float(value).value
        if name == "f16":
            return (0x7C00 if value >= 65520 else little(struct.pack("<e", value))) | negative * sign
        bits = little(struct.pack("<f", value))
        return (bits if name == "f32" else bits + 0x7FFF + (bits >> 16 & 1) >> 16) | negative * sign

    return restore


def replace_exceptions(values: list[int], positions: Sequence[int], exceptions: Sequence[int]) -> None:
    before = -1
    for position, exception in zip(positions, exceptions):
        require(before < position < len(values), "quantize: positions that do not ascend, or past the end")
        values[position] = exception
        before = position


def group_codes(shape: int, mask: int, payload: int, rule: Rule, base_bits: int) -> tuple[list[tuple[int, bool]], int]:
    """A group's codes - q or keys, and signs - from a payload that begins with them; and the bits that they take."""
    width, sparse, signed, delta = shape & 31, shape >> 5 & 1, shape >> 6 & 1, shape >> 7
    fits = width <= rule.code_bits + 2 if delta else 0 < width <= rule.code_bits + signed
    require(fits and not (delta and (rule.pointwise or sparse or signed)), f"quantize: a group of shape {shape:#x}")
    if delta:
        first = fields(payload, 0, base_bits, 1)[0]
        steps = [unzigzag(z) for z in fields(payload, base_bits, width, GROUP - 1)]
        wholes = [q % 2**32 for q in accumulate([-(first >> 1) if first & 1 else first >> 1] + steps)]
        return [(min(q, 2**32 - q), q >= 2**31) for q in wholes], base_bits + width * (GROUP - 1)
    base_bits = base_bits if rule.pointwise else 0
    base = fields(payload, 0, base_bits, 1)[0]
    following = iter(fields(payload, base_bits, width, ones(mask)))
    codes = [next(following) << (not signed) if one else 0 for one in flags(mask, GROUP)]
    return [((code >> 1) + (base if code > 1 else 0), bool(code & 1)) for code in codes], base_bits + width * ones(mask)


def decode_chunk(data: bytes, count: int, rule: Rule) -> bytes:
    require(len(data) >= 4, "quantize: the chunk is cut short")
    width, groups = rule.dtype.width, ceil_div(count, GROUP)
    base_bits, exponent, exceptions = struct.unpack_from("<BBH", data)
    require(base_bits <= (8 * width - 1 if rule.pointwise else rule.code_bits + 1), f"quantize: {base_bits} base bits")
    restore = restorer(rule, exponent)
    shapes_at = 4 + 4 * ceil_div(groups, GROUP)
    non_zero = little(data[4:shapes_at])
    masks_at = shapes_at + round_up(ones(non_zero), 4)
    require(len(data) >= masks_at and non_zero >> groups == 0, "quantize: the groups' bits are damaged")
    shapes = data[shapes_at : shapes_at + ones(non_zero)]
    payload_at = masks_at + 4 * sum(shape >> 5 & 1 for shape in shapes)
    require(len(data) >= payload_at, "quantize: the masks are cut short")

    shape_after, mask_after = iter(shapes), iter(unpack(data[masks_at:payload_at], 4))
    payload, taken, values = little(data[payload_at:]), 0, []
    for there in flags(non_zero, groups):
        if not there:
            values += [0] * GROUP
            continue
        shape = next(shape_after)
        mask = next(mask_after) if shape >> 5 & 1 else 2**GROUP - 1
        codes, bits = group_codes(shape, mask, payload >> taken, rule, base_bits)
        values += [restore(code, negative) for code, negative in codes]
        taken += bits

    values = values[:count]
    positions_at = payload_at + 4 * ceil_div(taken, 32)
    values_at = positions_at + round_up(2 * exceptions, 4)
    end = values_at + exceptions * width
    require(len(data) == end, f"quantize: {len(data)} bytes instead of {end}")
    positions = unpack(data[positions_at : positions_at + 2 * exceptions], 2)
    replace_exceptions(values, positions, unpack(data[values_at:], width))
    return pack(values, width)


def decode_codes(data: bytes, count: int, rule: Rule) -> tuple[bytes, int]:
    """The values of a chunk of quantize_codes, and the size of its side."""
    width, positions_at = rule.dtype.width, 2 if rule.dtype.width == 2 else 0
    side = len(data) - count * width
    exceptions = max(side - positions_at, 0) // (2 + width)
    values_at = round_up(positions_at + 2 * exceptions, width)
    fits = side == (round_up(values_at + exceptions * width, 4) if exceptions or positions_at else 0)
    require(fits and exceptions < 1024 // (2 + width), f"quantize: no side has {side} bytes")
    restore = restorer(rule, little(data[:positions_at]))
    top = (1 << 8 * width - 1) - 1
    values = [restore((~code if code > top else code) & top, code > top) for code in unpack(data[side:], width)]
    positions = unpack(data[positions_at : positions_at + 2 * exceptions], 2)
    replace_exceptions(values, positions, unpack(data[values_at : values_at + exceptions * width], width))
    return pack(values, width), side
