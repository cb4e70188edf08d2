#!/usr/bin/env python3
"""Decodes a frame of tuck as include/tuck/frame/format.hpp and the beginnings of the codecs' headers specify it.

usage: decode_frame.py FRAME.tuck OUT [BASE]

BASE is what a delta was made against, as raw values or a NumPy array. OUT gets the raw little-endian values or, where it ends in .npy, a NumPy array. What is not as specified is refused.
"""

from __future__ import annotations

import struct
import sys
from functools import cache
from operator import mul
from pathlib import Path
from typing import NamedTuple, Sequence

import codebooks
import deflate
import huffman
import lossless
import quantize
from bits import Dtype, ceil_div, require, round_up, unpack

DTYPES = {
    1: Dtype("u8", 1, "|u1"), 2: Dtype("i8", 1, "|i1"), 3: Dtype("u16", 2, "<u2"), 4: Dtype("i16", 2, "<i2"),
    5: Dtype("u32", 4, "<u4"), 6: Dtype("i32", 4, "<i4"), 7: Dtype("u64", 8, "<u8"), 8: Dtype("i64", 8, "<i8"),
    9: Dtype("f16", 2, "<f2", 10), 10: Dtype("bf16", 2, "<u2", 7), 11: Dtype("f32", 4, "<f4", 23),
    12: Dtype("f64", 8, "<f8", 52), 13: Dtype("f8e4m3", 1, "|u1", 3), 14: Dtype("f8e5m2", 1, "|u1", 2),
}  # fmt: skip

ZVC, RLE, QUANTIZE, DEFLATE, DELTA, BITPACK, QUANTIZE_CODES, HUFFMAN, STEPS, ROWS, CODEBOOKS = (
    1, 2, 4, 5, 7, 8, 9, 10, 13, 14, 15
)
SPLITTERS = (ZVC, RLE, QUANTIZE_CODES)
ENCODED, RAW, UNIFORM = range(3)  # kinds of chunks
FORMS = {DELTA: 3, ROWS: 2}  # of all transforms
PACKED = 1  # the mode of zvc whose masks compress themselves
NOT_SPLIT = (0xFFFF, 0x3FFF)  # what the record of a splitter has that was done without, beside the form
HEADER = struct.Struct("<HBBIIQQQ")  # behind the magic number, before the stages


class Stage(NamedTuple):
    id: int
    version: int
    mode: int
    small: int
    large: int


class Frame(NamedTuple):
    dtype: Dtype
    values: bytes
    metadata: bytes


def mix(x: int) -> int:
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 % 2**64
    x = (x ^ x >> 29) * 0x9E3779B97F4A7C15 % 2**64
    return x ^ x >> 32


@cache
def word_keys(count: int) -> list[int]:
    seeds = [(i * 0x9E3779B97F4A7C15 + 0xD6E8FEB86659FD93) % 2**64 for i in range(-(-count // 4))]
    keys = [(seed ^ seed >> 32 | 1) % 2**32 for seed in seeds]
    return [key * multiple % 2**32 for key in keys for multiple in (1, 0xCC9E2D53, 0x85EBCA6B, 0x1B873593)]


def checksum(data: bytes) -> int:
    words = unpack(data + bytes(-len(data) % 4), 4)
    return mix(sum(map(mul, words, word_keys(len(words)))) % 2**64 ^ len(data) * 0x9E3779B97F4A7C15 % 2**64)


def tensor_digest(data: bytes, chunk_bytes: int) -> int:
    chunks = [data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)]
    return sum(mix(checksum(c) ^ i * 0xD6E8FEB86659FD93 % 2**64) for i, c in enumerate(chunks, 1)) % 2**64


# Chains


class Step(NamedTuple):
    """A stage but the last, the values that reach it, the side of a splitter that was not done without, and the form
    of a transform."""

    stage: Stage
    count: int
    side: int = 0
    split: bool = False
    form: int = 0


def has_record(stages: list[Stage], i: int) -> bool:
    """Of a splitter, or of a transform with several forms that no splitter follows."""
    followed = any(stage.id in SPLITTERS for stage in stages[i + 1 : i + 2])
    return stages[i].id in SPLITTERS or (FORMS.get(stages[i].id, 1) > 1 and not followed)


def chain_steps(stages: list[Stage], records: Sequence[int], count: int, width: int) -> tuple[list[Step], int]:
    """The steps, and the number of the values that reach the last stage."""
    steps, following = [], iter(records)
    for i, stage in enumerate(stages):
        if not has_record(stages, i):
            steps.append(Step(stage, count))
            continue
        record = next(following)
        residuals, form, side = record >> 16, record >> 14 & 3, record & 0x3FFF
        told = i if stage.id in FORMS else i - 1  # the transform whose form this is
        forms = FORMS.get(stages[told].id, 1) if told >= 0 else 1
        require(form < forms, f"chain: form {form} is unknown")
        if told == i - 1 >= 0 and stages[told].id in FORMS:
            steps[told] = steps[told]._replace(form=form)
        if (residuals, side) == NOT_SPLIT:
            steps.append(Step(stage, count, form=form if told == i else 0))
            continue
        growth = 1028 if stage.id == QUANTIZE_CODES else 0
        fits = residuals <= count and side <= count * width and residuals * width + side < count * width + growth
        require(fits and told != i, f"chain: {residuals} values and a side of {side} bytes for {count} values")
        steps.append(Step(stage, count, side, split=True))
        count = residuals
    return steps, count


def decode_chain(data: bytes, count: int, dtype: Dtype, stages: list[Stage]) -> bytes:
    *before, last = stages
    records_at = len(data) - 4 * sum(has_record(before, i) for i in range(len(before)))
    width = dtype.width
    require(records_at >= 0, "chain: the records are cut short")
    require(len(data) < count * width, "chain: not smaller than the values")
    steps, left = chain_steps(before, unpack(data[records_at:], 4), count, width)
    body, sides = data[:records_at], b""
    for size in (step.side for step in steps):  # those of the last splitter are first
        start = len(body) - round_up(size, 4)
        require(start >= 0, "chain: the side streams are cut short")
        require(not any(body[start + size :]), "chain: padding that is not zero")
        sides, body = body[start : start + size] + sides, body[:start]
    require(len(body) <= left * width and (body or not left), f"chain: {len(body)} bytes for {left} values")
    values = decode_chunk(body, left, dtype, [last]) if len(body) < left * width else body
    for step in reversed(steps):
        if step.split:
            side, sides = sides[: step.side], sides[step.side :]
            values, size = split_chunk(side + values, step.count, dtype, step.stage)
            require(size == step.side, f"chain: a side of {size} bytes, recorded with {step.side}")
        elif step.stage.id == DELTA:
            values = lossless.undo_delta(values, width, step.form)
        elif step.stage.id == ROWS:
            values = lossless.undo_rows(values, width, step.form, step.stage.small)
        elif step.stage.id not in SPLITTERS:
            raise NotImplementedError(f"transform {step.stage.id}")
    return values


# The frame


def split_chunk(data: bytes, count: int, dtype: Dtype, stage: Stage) -> tuple[bytes, int]:
    if stage.id == QUANTIZE_CODES:
        return quantize.decode_codes(data, count, quantize.rule_of(dtype, *stage[2:], predictors=1))
    if stage.id == ZVC and stage.mode != PACKED:
        return lossless.zvc(data, count, dtype.width)
    return lossless.with_packed_mask(data, count, dtype.width, has_runs=stage.id == RLE)


def decode_chunk(data: bytes, count: int, dtype: Dtype, stages: list[Stage], base: bytes | None = None) -> bytes:
    if len(stages) > 1:
        return decode_chain(data, count, dtype, stages)
    if stages[0].id == QUANTIZE:
        return quantize.decode_chunk(data, count, quantize.rule_of(dtype, *stages[0][2:], predictors=2))
    if stages[0].id == DEFLATE:
        return deflate.decode_chunk(data, count * dtype.width, dtype.width)
    if stages[0].id == HUFFMAN:
        return huffman.decode_chunk(data, count, dtype.width)
    if stages[0].id == CODEBOOKS:
        return codebooks.decode_chunk(data, count, dtype)
    if stages[0].id == STEPS:
        return lossless.steps(data, base or bytes(count * dtype.width), count, dtype)
    if stages[0].id == BITPACK:
        return lossless.bitpack(data, count, dtype.width)
    return split_chunk(data, count, dtype, stages[0])[0]


def check_stages(stages: list[Stage], dtype: Dtype) -> list[Stage]:
    """Those that are used."""
    used = [stage for stage in stages if stage.id]
    require(stages == used + [Stage(0, 0, 0, 0, 0)] * (4 - len(used)), "header: unused stages are not zero")
    *before, last = (stage.id for stage in used)
    fits = last in (ZVC, RLE, BITPACK, HUFFMAN) or (last in (QUANTIZE, DEFLATE, CODEBOOKS, STEPS) and not before)
    fits = fits and all(i in FORMS or i in SPLITTERS for i in before) and QUANTIZE_CODES not in before[1:]
    fits = fits and (last not in (CODEBOOKS, STEPS) or (dtype.mantissa > 0 and dtype.width <= 4))
    require(fits, f"the codec {before + [last]} is unknown")
    for stage in used:
        require(stage.version == 1, f"codec {stage.id}: version {stage.version} is unknown")
        if stage.id in (QUANTIZE, QUANTIZE_CODES):
            quantize.rule_of(dtype, *stage[2:], predictors=2 if stage.id == QUANTIZE else 1)
        elif stage.id == ROWS:
            fits = stage.mode == 0 and stage.small > 0 and stage.large == 0
            require(fits, f"codec {stage.id}: it has no such parameters")
        else:
            modes = 2 if stage.id in (BITPACK, ZVC) else 1  # of bitpack the predictor, of zvc the mask
            require(stage.mode < modes and stage[3:] == (0, 0), f"codec {stage.id}: it has no such parameters")
    return used


def decode_entry(
    frame: bytes, entry: int, payloads: int, alignment: int, count: int, dtype: Dtype, stages: list[Stage], base: bytes | None
) -> bytes:
    """The chunk of `count` values that a directory entry describes; of a delta, their changes from `base`."""
    kind, length, start = entry >> 60, entry >> 40 & 0xFFFFF, (entry & 2**40 - 1) << alignment
    raw = count * dtype.width
    lengths = {ENCODED: range(1, raw), RAW: (raw,), UNIFORM: (0, dtype.width)}
    require(kind in lengths, f"kind {kind} is unknown")
    require(length in lengths[kind], f"{length} bytes cannot be {count} values of kind {kind}")
    inside = start + length <= len(frame) and (length == 0 or start >= payloads)
    require(inside, "its payload is outside the frame's")
    payload = frame[start : start + length]
    if kind == UNIFORM:
        return (payload or bytes(dtype.width)) * count
    return payload if kind == RAW else decode_chunk(payload, count, dtype, stages, base)


def exclusive_or(a: bytes, b: bytes) -> bytes:
    return (int.from_bytes(a, "little") ^ int.from_bytes(b, "little")).to_bytes(len(a), "little")


def decode(data: bytes, base: bytes | None = None) -> Frame:
    """Decodes the frame that `data` is, with nothing behind it; a delta against the values of `base`.

    Raises ValueError where it is not as specified.
    """
    require(data[:4] == b"TUCK", "this is no frame")
    require(len(data) >= 128, "the frame is truncated within its header")
    version, type_id, alignment, flag_bits, chunk_values, count, size, metadata_size = HEADER.unpack_from(data, 4)
    stages = [Stage(*struct.unpack_from("<HBBIQ", data, 40 + 16 * i)) for i in range(4)]
    base_digest, contents_digest, header_digest = struct.unpack_from("<QQQ", data, 104)
    require(version == 1, f"frame version {version} is unknown")
    require(header_digest == checksum(data[:120]), "header: its digest is wrong")
    require(type_id in DTYPES, f"header: element type {type_id} is unknown")
    dtype = DTYPES[type_id]
    require(4 <= alignment <= 12, f"header: alignment 2^{alignment}")
    require(size % (1 << alignment) == 0, f"header: {size} bytes are no multiple of 2^{alignment}")
    require(flag_bits in (0, 1, 3), "header: unknown flags")
    is_delta = flag_bits == 3
    require(is_delta or base_digest == 0, "header: the digest of a base, of which there is none")
    is_steps = stages[0].id == STEPS and stages[1].id == 0
    most_values = 65536 // (dtype.width // 2 if is_steps and dtype.width > 1 else dtype.width)
    fits = chunk_values > 0 and chunk_values % 32 == 0 and chunk_values <= most_values
    require(fits, f"header: chunks of {chunk_values} values")
    require(count <= (2**64 - 1) // 8, f"header: {count} values")
    require(stages[0].id != 0, "header: no codec")

    chunks = ceil_div(count, chunk_values)
    directory = 128 + round_up(metadata_size, 8)
    checksums = directory + 8 * chunks
    result = checksums + 8 * chunks * (flag_bits & 1)
    contents_end = result + 8 * is_delta
    payloads = round_up(contents_end, 1 << alignment)
    require(payloads <= size, f"header: a frame of {size} bytes has no room for {chunks} chunks")
    require(size <= len(data), f"the frame is truncated: {len(data)} bytes of {size}")
    require(size == len(data), f"{len(data) - size} bytes behind the frame")
    require(contents_digest == checksum(data[128:contents_end]), "metadata or directory: the digest is wrong")
    used = check_stages(stages, dtype)
    lossy = any(stage.id in (QUANTIZE, QUANTIZE_CODES) for stage in used)
    require(not (is_delta and lossy), "a delta cannot be quantized")
    require(is_delta or base is None, "the frame is no delta")
    require(not is_delta or base is not None, "the frame is a delta and needs its base")

    chunk_bytes = chunk_values * dtype.width
    if base is not None:
        fits = len(base) == count * dtype.width and tensor_digest(base, chunk_bytes) == base_digest
        require(fits, "the base is another")
    values = bytearray()
    digests = unpack(data[checksums:result], 8)
    for i, entry in enumerate(unpack(data[directory:checksums], 8)):
        try:
            here = min(chunk_values, count - i * chunk_values)
            before = None if base is None else base[i * chunk_bytes :][: here * dtype.width]
            chunk = decode_entry(data, entry, payloads, alignment, here, dtype, used, before)
            require(not digests or digests[i] == checksum(chunk), "the values' checksum is wrong")
        except ValueError as error:
            raise ValueError(f"chunk {i}: {error}") from None
        values += chunk
    if base is not None:
        values = exclusive_or(values, base)
        (result_digest,) = unpack(data[result:contents_end], 8)
        require(tensor_digest(values, chunk_bytes) == result_digest, "the result is another")
    return Frame(dtype, bytes(values), data[128 : 128 + metadata_size])


def npy_header(frame: Frame) -> bytes:
    """The .npy header that the frame keeps as metadata, or that of an array of one dimension."""
    if frame.metadata:
        require(frame.metadata.startswith(b"\x93NUMPY"), "the frame's metadata is not a .npy header")
        return frame.metadata
    count = len(frame.values) // frame.dtype.width
    text = f"{{'descr': '{frame.dtype.numpy}', 'fortran_order': False, 'shape': ({count},), }}"
    length = round_up(10 + len(text) + 1, 64) - 10
    return b"\x93NUMPY\1\0" + struct.pack("<H", length) + text.ljust(length - 1).encode() + b"\n"


def npy_values(data: bytes) -> bytes:
    """The values of a .npy file, or all of any other."""
    if not data.startswith(b"\x93NUMPY"):
        return data
    size = 2 if data[6] == 1 else 4
    return data[8 + size + int.from_bytes(data[8 : 8 + size], "little") :]


def main(frame_path: str, out_path: str, base_path: str | None = None) -> None:
    base = npy_values(Path(base_path).read_bytes()) if base_path else None
    frame = decode(Path(frame_path).read_bytes(), base)
    header = npy_header(frame) if out_path.endswith(".npy") else b""
    Path(out_path).write_bytes(header + frame.values)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except (OSError, ValueError) as reason:
        sys.exit(f"{sys.argv[1]}: {reason}")
