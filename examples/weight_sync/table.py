#!/usr/bin/env python3
"""Shows the sizes of what finetune.py has published, and the speed, beside other codings of the same steps.

FOLDER is that of finetune.py. Each step is coded tensor by tensor. Sizes are the bytes of all tensors, divided by those
of their deltas. Speeds are in GB/s of tensors: by the CPU time of one thread, and by the clock with all; the best of
three."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, NamedTuple

import numpy as np
from tuck import foreign, published
from tuck.streams import Receiver, tensors_of


class Coding(NamedTuple):
    """Encodes the bf16 bits of a tensor relative to those of its base, and applies the result."""

    encode: Callable[[np.ndarray, np.ndarray], np.ndarray]
    apply: Callable[[np.ndarray, np.ndarray], np.ndarray]


def compressed(data: np.ndarray, level: int) -> np.ndarray:
    return np.frombuffer(foreign.zstd().compress(np.ascontiguousarray(data).view(np.uint8), level), np.uint8)


def filled(delta: np.ndarray, room: np.ndarray) -> np.ndarray:
    return room[:foreign.zstd().fill(delta, room)]


def zstd(level: int) -> Coding:
    return Coding(lambda old, new: compressed(old ^ new, level),
                  lambda delta, old: old ^ filled(delta, np.empty(old.nbytes, np.uint8)).view(np.uint16))


def split(level: int) -> Coding:
    """The low bytes of all values, then the high ones."""
    def apply(delta, old):
        xor = filled(delta, np.empty(old.nbytes, np.uint8)).reshape(2, -1)
        return old ^ np.ascontiguousarray(xor.T).view(np.uint16).reshape(-1)

    return Coding(lambda old, new: compressed((old ^ new).view(np.uint8).reshape(-1, 2).T, level), apply)


def gaps(level: int) -> Coding:
    """16-bit gaps between changed values, and their XOR. Longer gaps take entries that change nothing."""
    def encode(old, new):
        xor = old ^ new
        places = np.flatnonzero(xor)
        gap = np.diff(places, prepend=-1) - 1
        at = np.cumsum(1 + gap // 65536) - 1
        entries = np.zeros((2, len(at) and at[-1] + 1), np.uint16)
        entries[0] = 65535
        entries[0, at], entries[1, at] = gap % 65536, xor[places]
        return compressed(entries, level)

    def apply(delta, old):
        entries = filled(delta, np.empty(4 * len(old) + 64, np.uint8)).view(np.uint16).reshape(2, -1)
        out = old.copy()
        out[np.cumsum(entries[0].astype(np.int64) + 1) - 1] ^= entries[1]
        return out

    return Coding(encode, apply)


def tuck_streams() -> Coding:
    """What tuck.streams does, but for the checksums of whole tensors."""
    form = published.Form("tuck", "xor", "adler32")

    def apply(delta, old):
        out = np.empty_like(old)
        published.apply(delta, old.view(np.uint8), out.view(np.uint8), "bf16", form, published.Worker())
        return out

    return Coding(lambda old, new: published.encode(new.view(np.uint8), old.view(np.uint8), "bf16", form, 1,
                                                    published.Worker()), apply)


CODINGS = {"XOR, zstd -1": zstd(1), "XOR, zstd -19": zstd(19), "byte-split XOR, zstd -1": split(1),
           "gaps, values, zstd -1": gaps(1),
           "tuck": tuck_streams()}


def all_of(call: Callable, rows: list, threads: int) -> list:
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda row: call(*row), rows))


def best_seconds(call: Callable, threads: int, tries: int) -> float:
    clock = time.process_time if threads == 1 else time.perf_counter
    times = []
    for _ in range(tries):
        begin = clock()
        call()
        times.append(clock() - begin)
    return min(times)


def pair(folder: Path, step: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The bf16 tensors of a step and of the one before, large ones first."""
    with tempfile.TemporaryDirectory(dir=folder) as work:
        states = []
        for version in (step - 1, step):
            shutil.copytree(folder / "base", f"{work}/{version}")
            if version:
                Receiver(folder / "weights", f"{work}/{version}").pull(version)
            states.append({name: np.array(x).reshape(-1) for name, x in tensors_of(f"{work}/{version}").items()
                           if x.dtype == np.uint16})
    old, new = states
    return [(old[name], new[name]) for name in sorted(old, key=lambda name: -old[name].size)
            if not np.array_equal(old[name], new[name])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--steps", type=lambda text: [int(s) for s in text.split(",")], default=[10, 40, 70, 100])
    parser.add_argument("--speed", metavar="RATE", help="a folder in FOLDER, whose last step is timed, too")
    parser.add_argument("--pair", nargs=2, metavar=("OLD.npy", "NEW.npy"), help="a tensor in bf16, at two steps")
    given = parser.parse_args()
    rows: dict[str, list] = {}
    if given.pair:
        rows["recorded"] = [[tuple(np.load(path).view(np.uint16).reshape(-1) for path in given.pair)]]
    for folder in sorted((f for f in given.folder.iterdir() if f.is_dir()), key=lambda f: float(f.name)):
        rows[folder.name] = [pair(folder, step) for step in given.steps]
    print("| rate | changed | " + " | ".join(CODINGS) + " | tuck / (XOR, zstd -1) |")
    for name, pairs in rows.items():
        tensors = [p for step in pairs for p in step]
        values, changed = (sum(int(f(old, new)) for old, new in tensors) for f in
                           (lambda old, new: old.size, lambda old, new: np.count_nonzero(old != new)))
        sizes = {n: sum(map(len, all_of(c.encode, tensors, os.cpu_count() or 1))) for n, c in CODINGS.items()}
        ratios = " | ".join(f"{2 * values / size:.1f}" for size in sizes.values())
        print(f"| {name} | {100 * changed / values:.2f} % | {ratios} "
              f"| {sizes['tuck'] / sizes['XOR, zstd -1']:.2f} |", flush=True)
    if not given.speed:
        return
    tensors, cores = rows[given.speed][-1], os.cpu_count() or 1
    bytes = sum(old.nbytes for old, _ in tensors)
    print(f"\n| {bytes / 1e6:.0f} MB | encode, 1 core | encode, {cores} cores | apply, 1 core | apply, {cores} cores |")
    for name, coding in CODINGS.items():
        deltas = all_of(coding.encode, tensors, cores)
        to_apply = [(delta, old) for delta, (old, _) in zip(deltas, tensors)]
        assert all(np.array_equal(made, new) for made, (_, new) in zip(all_of(coding.apply, to_apply, 1), tensors))
        tries = 1 if "19" in name else 3
        speeds = [bytes / 1e9 / best_seconds(lambda: all_of(call, what, threads), threads, tries)
                  for call, what in ((coding.encode, tensors), (coding.apply, to_apply)) for threads in (1, cores)]
        print(f"| {name} | " + " | ".join(f"{s:.2g}" for s in speeds) + " |", flush=True)


if __name__ == "__main__":
    main()
