"""The dense tensors that coders are compared on: keys and values that come with tuck, and --recordings."""

import array
import math
import struct
import sys

TYPES = {"fp8": "f8e4m3", "e4m3": "f8e4m3", "e5m2": "f8e5m2"}


def dense(place, types=()):
    """(name, type, path) of each: keys and values as they were recorded (bf16), the same cast to fp8, and those of the
    folder --recordings, the type being the last part of their name. Only these types, where some are given."""
    kv = place.data / "kv"
    found = [("kv", "bf16", kv), ("kv", "f8e4m3", cast(kv, place.scratch / "kv"))]
    for file in sorted(place.recordings.glob("*.npy")) if place.recordings else []:
        kind = file.stem.split("_")[-1]
        found.append((file.stem, TYPES.get(kind, kind), file))
    return [one for one in found if not types or one[1] in types]


def cast(source, target):
    """A folder of bf16 recordings as f8e4m3, written to another folder."""
    target.mkdir(exist_ok=True)
    table = bytes(e4m3_of(struct.unpack("<f", struct.pack("<I", bits << 16))[0]) for bits in range(1 << 16))
    for file in source.glob("*_bf16.npy"):
        header, values = read_npy(file)
        text = header.replace("<u2", "|u1").ljust(len(header) - 1)[: len(header) - 1] + "\n"
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + bytes(table[v] for v in values)
        (target / file.name.replace("_bf16", "_f8e4m3")).write_bytes(content)
    return target


def read_npy(file):
    """The header of a file of 16-bit values, as text, and its values. Raises ValueError where it is none."""
    content = file.read_bytes()
    if content[:8] != b"\x93NUMPY\x01\x00" or b"<u2" not in content[:200]:
        raise ValueError(f"{file.name} is no .npy file of version 1 with 16-bit values")
    begin = 10 + struct.unpack("<H", content[8:10])[0]
    values = array.array("H", content[begin:])
    if sys.byteorder == "big":
        values.byteswap()
    return content[10:begin].decode("latin-1"), values


def e4m3_of(value):
    """The byte of the nearest f8e4m3, ties to even; what is too large becomes the largest, 448."""
    sign = 0x80 if math.copysign(1, value) < 0 else 0
    if math.isnan(value):
        return sign | 0x7F
    size = min(abs(value), 448.0)
    exponent = max(math.frexp(size)[1] - 1, -6) if size else -6
    steps = round(size * 2.0 ** (3 - exponent))  # 8 to 16 for a normal number
    return sign | (steps if exponent == -6 else ((exponent + 6) << 3) + steps)
