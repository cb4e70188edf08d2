#!/usr/bin/env python3
"""Cuts .npy arrays along their first dimension to at most 128 KiB of data: cut.py FROM_DIRECTORY [TO_DIRECTORY].

Prints the table of README.md. Float32 in C order only, which is all there is to cut; needs no NumPy.
"""

import ast
import math
import struct
import sys
from pathlib import Path

MOST_BYTES = 128 * 1024


def read(path):
    """Shape and data of a float32 array in format version 1.0."""
    content = path.read_bytes()
    if content[:8] != b"\x93NUMPY\x01\x00":
        raise SystemExit(f"{path}: not a .npy file of version 1.0")
    end = 10 + struct.unpack("<H", content[8:10])[0]
    header = ast.literal_eval(content[10:end].decode("latin1").strip())
    if header["descr"] != "<f4" or header["fortran_order"] or not header["shape"]:
        raise SystemExit(f"{path}: not float32 in C order")
    return header["shape"], content[end:]


def write(path, shape, data):
    header = repr({"descr": "<f4", "fortran_order": False, "shape": shape})[:-1] + ", }"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin1") + data)


def cut(shape, data):
    row = 4 * math.prod(shape[1:])
    rows = min(shape[0], MOST_BYTES // row)
    return (rows, *shape[1:]), data[: rows * row]


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__.splitlines()[0])
    target = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(__file__).parent
    print("| name | shape | zeros |\n|---|---|---|")
    for path in sorted(Path(sys.argv[1]).glob("*.npy")):
        shape, data = cut(*read(path))
        write(target / path.name, shape, data)
        zeros = sum(word == 0 for (word,) in struct.iter_unpack("<I", data))
        print(f"| `{path.stem}` | {' x '.join(map(str, shape))} | {400 * zeros / len(data):.1f} % |")


if __name__ == "__main__":
    main()
