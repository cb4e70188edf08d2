"""Bytes of a step in several formats: the table of weight_sync.py."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable, Iterable

import numpy as np
import torch
import tuck

INDEX, GAP, VALUE = 4, 2, 2  # bytes
DELTA_CODECS = ("steps", "zvc+rle+huffman")


def zstd_of(level: int) -> Callable[[bytes], int] | None:
    """Returns a function that computes the size of compressed data; None without the module and the library."""
    try:
        import zstandard
        return lambda data: len(zstandard.ZstdCompressor(level=level).compress(data))
    except ImportError:
        pass
    name = ctypes.util.find_library("zstd")
    if not name:
        return None
    library = ctypes.CDLL(name)
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    library.ZSTD_compressBound.restype, library.ZSTD_compressBound.argtypes = size, (size,)
    library.ZSTD_compress.restype = size
    library.ZSTD_compress.argtypes = pointer, size, ctypes.c_char_p, size, ctypes.c_int

    def compressed_bytes(data: bytes) -> int:
        room = ctypes.create_string_buffer(library.ZSTD_compressBound(len(data)))
        done = library.ZSTD_compress(room, len(room), data, len(data), level)
        if done > len(room):
            raise RuntimeError("zstd refused")
        return done

    return compressed_bytes


def entropy(counts: np.ndarray) -> float:
    """Returns the entropy in bytes of independent draws with these counts."""
    counts = counts[counts > 0].astype(float)
    return float(-(counts * np.log2(counts / counts.sum())).sum() / 8)


def gap_entries(places: np.ndarray) -> int:
    """Counts the changes, and one entry without a change for each 65536 zeros in a gap."""
    gaps = np.diff(places, prepend=-1) - 1
    return len(places) + int((gaps // 65536).sum())


def columns() -> tuple[dict[str, Callable[[torch.Tensor, torch.Tensor, np.ndarray, np.ndarray], float]], list[str]]:
    """Returns the columns as functions of (old, new, XOR, positions of changes), and the names of missing columns."""
    table = {
        "int32 + values": lambda old, new, xor, places: (INDEX + VALUE) * len(places),
        "gaps + values": lambda old, new, xor, places: (GAP + VALUE) * gap_entries(places),
    }
    missing = []
    for level in (1, 19):
        compressed_bytes = zstd_of(level)
        if compressed_bytes is None:
            missing.append(f"zstd -{level}")
        else:
            table[f"zstd -{level}"] = lambda old, new, xor, places, f=compressed_bytes: f(xor.tobytes())
    for codec in DELTA_CODECS:
        table[codec] = lambda old, new, xor, places, c=codec: tuck.encode_delta(new, old, c).numel()
    table["bound"] = lambda old, new, xor, places: (entropy(np.array([len(places), len(xor) - len(places)])) +
                                                    entropy(np.bincount(xor[places])))
    return table, missing


def print_table(pairs: Iterable[tuple[str, torch.Tensor, torch.Tensor]]) -> None:
    """Prints a row for each pair of bf16 tensors: name, old, new."""
    table, missing = columns()
    names = ["changed", "tensor", *table]
    print("\nBytes a step, and how many times smaller than the tensor:")
    print(f"{'weights':14}" + "".join(f"{name:>16}" for name in names))
    for name, old, new in pairs:
        old_bits, new_bits = (t.view(torch.int16).numpy().view(np.uint16) for t in (old, new))
        xor = old_bits ^ new_bits
        places = np.flatnonzero(xor)
        print(f"{name:14}{100 * len(places) / len(xor):14.2f} %{xor.nbytes:16,}", end="", flush=True)
        sizes = [size(old, new, xor, places) for size in table.values()]
        print("".join(f"{round(size):16,}" for size in sizes))
        print(" " * 46 + "".join(f"{xor.nbytes / max(size, 1):16.1f}" for size in sizes), flush=True)
    print("steps and zvc+rle+huffman: tuck's; bound: the entropy of independent positions and changes")
    for name in missing:
        print(f"skipped: {name}, for there is neither the Python module zstandard nor libzstd")


def recorded_pair(old_path: str, new_path: str) -> tuple[str, torch.Tensor, torch.Tensor]:
    """Reads two .npy files with bf16 values as 16-bit integers."""
    arrays = [np.load(path) for path in (old_path, new_path)]
    if any(a.dtype.itemsize != 2 for a in arrays) or arrays[0].shape != arrays[1].shape:
        raise ValueError(f"{old_path}, {new_path}: no two arrays of 16 bits and one shape")
    old, new = (torch.from_numpy(np.ascontiguousarray(a).reshape(-1).view(np.int16)).view(torch.bfloat16)
                for a in arrays)
    return "recorded", old, new
