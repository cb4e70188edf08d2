#!/usr/bin/env python3
"""minimize.py BIN SEEDS [MORE...]: replaces corpus/ by fewer inputs.

BIN has the fuzzers. SEEDS is the folder that make_corpus wrote. MORE are folders with the same subfolders, such as what
fuzzers found. Each subfolder of corpus/ keeps

  regressions   inputs that once failed. Their names say why; all other names are digits of the SHA-1
  seeds         those without a dot in their names: one of each codec, streams of zlib, files
  others        few inputs, from all folders and corpus/, that reach all code that any input reaches

Code is a position in the sources and the calls that are inlined around it. Instances of a template for several types
are the same code."""

import hashlib
import heapq
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
FUZZERS = {
    "chunk": ["chunk", "block"],
    "delta": ["delta"],
    "files": ["files"],
    "frame": ["frame", "device_frame"],
    "inflate": ["inflate", "warp_inflate"],
    "round_trip": ["round_trip"],
}
MOST_BYTES = 4096  # of an input


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, errors="replace", **options).stdout


def positions(fuzzer):
    """Returns the position in the sources of each place that libFuzzer counts."""
    section = re.search(r"__sancov_pcs +PROGBITS +(\w+) +\w+ +(\w+)", run("readelf", "-SW", fuzzer))
    begin, size = int(section[1], 16), int(section[2], 16)
    addresses = ["0"] * (size // 16)  # of an entry of 16 bytes the first 8, which the loader fills in
    for at, address in re.findall(r"^(\w+) +\w+ R_X86_64_RELATIVE +(\w+)", run("readelf", "-rW", fuzzer), re.MULTILINE):
        offset = int(at, 16) - begin
        if 0 <= offset < size and offset % 16 == 0:
            addresses[offset // 16] = "0x" + address
    found = run("llvm-symbolizer", f"--obj={fuzzer}", "--output-style=JSON", input="\n".join(addresses) + "\n")
    return [tuple((f["FileName"], f["Line"], f["Column"]) for f in json.loads(line).get("Symbol", []))
            for line in found.splitlines()]


def reached(fuzzer, folder):
    """Returns what each input in the folder reaches, by the name of the input."""
    places = positions(fuzzer)
    with tempfile.TemporaryDirectory() as scratch:
        control = Path(scratch) / "control"
        run(fuzzer, "-set_cover_merge=1", "-use_counters=0", f"-merge_control_file={control}",
            f"-max_len={MOST_BYTES}", "-rss_limit_mb=4096", scratch, folder)
        lines = control.read_text().splitlines()
    names = [Path(line).name for line in lines[2:2 + int(lines[0])]]
    features = [line.split()[1:] for line in lines if line.startswith("FT ")]
    return {names[int(i)]: {places[int(f)] for f in all_of if int(f) < len(places)} for i, *all_of in features}


def cover(inputs, sizes, done):
    """Yields few inputs that reach all that is not done: each time the one that adds most for its size."""
    def gain(name):
        return len(inputs[name] - done) / (64 + sizes[name])

    heap = [(-gain(name), sizes[name], name) for name in inputs]
    heapq.heapify(heap)
    while heap:
        _, size, name = heapq.heappop(heap)
        now = gain(name)
        if heap and now < -heap[0][0]:
            if now > 0:
                heapq.heappush(heap, (-now, size, name))
        elif now > 0:
            done |= inputs[name]
            yield name


def minimized(corpus, binaries, folders):
    """Returns the inputs that a folder of corpus/ keeps, by name."""
    kept, others = {}, {}
    for path in (CORPUS / corpus).iterdir():
        if not re.fullmatch("[0-9a-f]{8,40}", path.name):
            kept[path.name] = path.read_bytes()
    for i, folder in enumerate([*folders, CORPUS]):
        for path in sorted((folder / corpus).glob("*")):
            content = path.read_bytes()
            name = hashlib.sha1(content).hexdigest()[:8]
            if len(content) <= MOST_BYTES and content not in kept.values():
                others[name] = content
                if i == 0 and "." not in path.name:
                    kept[name] = content
    with tempfile.TemporaryDirectory() as scratch:
        for name, content in {**others, **kept}.items():
            (Path(scratch) / name).write_bytes(content)
        for fuzzer in FUZZERS[corpus]:
            inputs = reached(binaries / f"{fuzzer}_fuzz", scratch)
            done = set().union(*(inputs.get(name, set()) for name in kept))
            sizes = {name: os.path.getsize(Path(scratch) / name) for name in inputs}
            candidates = {name: inputs[name] for name in inputs if name in others}
            kept |= {name: others[name] for name in cover(candidates, sizes, done)}
    return kept


def main():
    binaries, *folders = map(Path, sys.argv[1:])
    for corpus in FUZZERS:
        kept = minimized(corpus, binaries, folders)
        for path in (CORPUS / corpus).iterdir():
            path.unlink()
        for name, content in kept.items():
            (CORPUS / corpus / name).write_bytes(content)
        print(f"{corpus}: {len(kept)} inputs, {sum(map(len, kept.values()))} bytes")


if __name__ == "__main__":
    main()
