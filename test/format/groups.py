"""Integers in groups of 32 (codec/bitpack/groups.hpp), which bitpack and quantize are made of."""

from __future__ import annotations

from itertools import accumulate

from bits import WORD, ceil_div, fields, flags, little, ones, require, round_up, unpack, unzigzag

GROUP = 32  # integers that have a shape in common

PLAIN, CENTERED, BASED, DIFFERENCE = range(4)  # schemes


def decode(data: bytes, count: int, width: int, allowed: int) -> tuple[list[int], int]:
    """The integers modulo 2^(8 width), in up to `allowed` bits each, and where they end in `data`."""
    groups, unit = ceil_div(count, GROUP), 2 if width == 8 else 1
    shapes_at = 4 + 4 * ceil_div(groups, WORD)
    require(len(data) >= shapes_at, "groups: the chunk is cut short")
    first_bits, base_bits = data[:2]
    require(max(first_bits, base_bits) <= allowed, f"groups: {first_bits} and {base_bits} bits of what leads groups")
    non_zero = little(data[4:shapes_at])
    masks_at = shapes_at + round_up(ones(non_zero), 4)
    require(len(data) >= masks_at and non_zero >> groups == 0, "groups: the bits of which are zero are damaged")
    shapes = data[shapes_at : shapes_at + ones(non_zero)]
    payload_at = masks_at + 4 * sum(shape >> 5 & 1 for shape in shapes)
    require(len(data) >= payload_at, "groups: the masks are cut short")

    shape_after, mask_after = iter(shapes), iter(unpack(data[masks_at:payload_at], 4))
    payload, at, integers = little(data[payload_at:]), 0, []
    for there in flags(non_zero, groups):
        if not there:
            integers += [0] * GROUP
            continue
        shape = next(shape_after)
        scheme, sparse = shape >> 6, shape >> 5 & 1
        mask = next(mask_after) if sparse else 2**GROUP - 1
        bits = ((shape & 31) + (scheme < BASED)) * unit
        require(bits <= allowed and not (scheme >= BASED and sparse), f"groups: one of shape {shape:#x}")
        lead_bits = {BASED: base_bits, DIFFERENCE: first_bits}.get(scheme, 0)
        lead = unzigzag(fields(payload, at, lead_bits, 1)[0])
        at += lead_bits
        if scheme == DIFFERENCE:
            integers += accumulate([lead] + [unzigzag(z) for z in fields(payload, at, bits, GROUP - 1)])
            at += bits * (GROUP - 1)
        else:
            base = -(1 << bits - 1) if scheme == CENTERED else lead
            following = iter(fields(payload, at, bits, ones(mask)))
            integers += [base + next(following) if one else 0 for one in flags(mask, GROUP)]
            at += bits * ones(mask)
    end = payload_at + 4 * ceil_div(at, 32)
    require(len(data) >= end, f"groups: {len(data)} bytes instead of {end}")
    return [x % 2 ** (8 * width) for x in integers[:count]], end
