#!/usr/bin/env python3
"""Tables of compression ratios on folders of .npy files: tuck's codecs beside other libraries.

bench_ratio measures tuck and the libraries that it was built with. This script adds peers from PyPI, as far as they
are installed: pip install pcodec openzl zipnn pysz. The tables are Markdown."""

import argparse
import csv
import importlib.metadata
import math
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILT_IN = ["zlib-6", "libdeflate-6", "lz4", "zstd-1", "zstd-19", "zfp"]  # of bench_ratio, if CMake found them
MARK = "<!-- Below: printed by bench/ratio/ratios.py -->"


class Pcodec:
    """Level 12, the highest."""

    def __init__(self):
        import pcodec
        self.config = pcodec.ChunkConfig(compression_level=12, enable_8_bit=True)
        self.of = pcodec.standalone

    def coded(self, values, _):
        frame = self.of.simple_compress(values, self.config)
        yield frame, self.of.simple_decompress(frame)


class OpenZL:
    """The library's own choice, and graphs that model floats: values as tokens, bytes apart, exponents apart."""

    def __init__(self):
        import openzl.ext
        self.zl = openzl.ext

    def graphs(self, type, size):
        g, n = self.zl.graphs, self.zl.nodes
        yield lambda c: g.Compress()(c)
        if size == 1:
            yield lambda c: g.Entropy()(c)
            return
        yield lambda c: n.Zigzag()(c, g.Compress()(c))
        for of_bytes in (g.Compress(), g.Entropy()):
            yield lambda c: n.ConvertNumToStructLE()(c, n.TransposeSplit()(c, of_bytes(c)))
        if size == 2:
            yield lambda c: n.TokenizeNumeric(sort=True)(c, g.Compress()(c), g.Entropy()(c))
        apart = {"bf16": n.BFloat16Deconstruct, "f16": n.Float16Deconstruct, "f32": n.Float32Deconstruct}.get(type)
        if apart:
            yield lambda c: apart()(c, n.TransposeSplit()(c, g.Compress()(c)), g.Entropy()(c))

    def coded(self, values, type):
        zl, values = self.zl, values.view(f"u{values.itemsize}")
        for graph in self.graphs(type, values.itemsize):
            compressor, context = zl.Compressor(), zl.CCtx()
            compressor.select_starting_graph(graph(compressor))
            context.ref_compressor(compressor)
            context.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
            frame = context.compress([zl.Input(zl.Type.Numeric, values)])
            yield frame, zl.DCtx().decompress(frame)[0].content.as_nparray()


class ZipNN:
    """Its own choice of methods."""

    TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}

    def __init__(self):
        import zipnn
        self.make = zipnn.ZipNN

    def coded(self, values, type):
        if type in self.TYPES:
            coder = self.make(bytearray_dtype=self.TYPES[type], input_format="byte", threads=1)
            frame = coder.compress(values.tobytes())
            yield frame, coder.decompress(frame)


class SZ3:
    """Its default predictor, with an absolute bound."""

    def __init__(self):
        import pysz
        self.sz = pysz

    def coded(self, values, bound):
        config = self.sz.szConfig()
        config.errorBoundMode, config.absErrorBound = self.sz.szErrorBoundMode.ABS, bound
        frame, _ = self.sz.sz.compress(values, config)
        yield frame, self.sz.sz.decompress(frame, values.dtype, values.shape)[0]


PACKAGES = {"pcodec": (Pcodec, "pcodec"), "OpenZL": (OpenZL, "openzl"), "ZipNN": (ZipNN, "zipnn"), "SZ3": (SZ3, "pysz")}
LOSSY = {"SZ3"}


def packages(left_out):
    """The peers from PyPI that are installed, by name, and what to call them."""
    found = {}
    for name, (peer, package) in PACKAGES.items():
        try:
            import numpy  # which all of them take
            found[name] = peer(), f"{package} {importlib.metadata.version(package)}"
        except ImportError as error:
            left_out.append(f"{name}: {error}; pip install {package}")
    return found


def steps_between(base, values):
    """Differences as counts of steps from float to float, 0, -1, 1, -2 and so on as 0, 1, 2, 3. The base undoes it."""
    bits = 8 * values.itemsize
    sign = values.dtype.type(1 << (bits - 1))
    in_order = [bits_of ^ ((bits_of >> (bits - 1)) * (sign - 1)) for bits_of in (base, values)]
    steps = in_order[1] - in_order[0]
    return (steps << 1) ^ ((steps >> (bits - 1)) * ~values.dtype.type(0))


def inputs(folder, row):
    """What peers get: the values, or their XOR with the base and the steps between."""
    import numpy
    values, *base = (numpy.load(folder / f"{row[name]}.npy") for name in ("tensor", "base") if row[name])
    if base or values.dtype.kind == "V":  # how NumPy stores types of other modules
        values, *base = (a.view(f"u{a.itemsize}") for a in (values, *base))
    return [base[0] ^ values, steps_between(base[0], values)] if base else [values]


def smallest(frames, is_restored):
    """The least bytes of the frames that a peer made, each of which must restore the values. None without a frame."""
    sizes = []
    for frame, restored in frames:
        if not is_restored(restored):
            raise ValueError("the decoded values differ")
        sizes.append(len(frame))
    return min(sizes, default=None)


def encoded_bytes(peer, values, row):
    """None if the peer does not take the type."""
    bound = float(row["bound"])
    if bound == 0:
        values = values.ravel(order="K")
        return smallest(peer.coded(values, row["type"]), lambda out: memoryview(out).cast("B") == values.tobytes())
    bound *= float(values.max()) - float(values.min())
    return smallest(peer.coded(values, bound), lambda out: abs(out.astype("f8") - values).max() <= bound)


def of_packages(rows, folder, left_out):
    """Rows of the peers from PyPI."""
    peers, added = packages(left_out), []
    for row in {(r["tensor"], r["base"], r["bound"]): r for r in rows}.values():
        for name, (peer, library) in peers.items():
            if (name in LOSSY) != (float(row["bound"]) != 0):
                continue
            try:
                sizes = [encoded_bytes(peer, values, row) for values in inputs(folder, row)]
            except Exception as error:  # whatever the library throws
                left_out.append(f"{name} on {row['tensor']}: {' '.join(str(error).split())[:100]}")
                continue
            if None not in sizes:
                added.append(row | {"coder": name, "library": library, "encoded_bytes": min(sizes)})
    return added


def measured(bench, folder):
    """The rows of bench_ratio, whose messages go to stderr."""
    try:
        done = subprocess.run([bench, str(folder)], stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise SystemExit(f"ratios.py: {bench}: {error.strerror}; cmake --build --preset auto --target bench_ratio")
    if done.returncode:
        raise SystemExit(done.returncode)
    return list(csv.DictReader(done.stdout.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


class Ratios:
    """Ratios by tensor, coder and bound."""

    def __init__(self, rows):
        self.rows, self.of = {}, {}
        self.coders = list(dict.fromkeys(r["coder"] for r in rows))
        self.tuck = {r["coder"] for r in rows if r["library"].startswith("tuck ")}
        for r in rows:
            key = r["tensor"], r["base"]
            self.rows.setdefault(key, r)
            self.of[key, r["coder"], float(r["bound"])] = int(r["raw_bytes"]) / int(r["encoded_bytes"])

    def groups(self):
        """Names of groups, and their tensors."""
        found = {}
        for key, row in self.rows.items():
            found.setdefault(row["group"], []).append(key)
        return dict(sorted(found.items()))

    def best(self, key, of_tuck):
        """The largest lossless ratio, and whose it is."""
        those = [(self.of[key, c, 0.0], c) for c in self.coders if (c in self.tuck) == of_tuck and (key, c, 0.0) in self.of]
        return max(those, default=(None, "-"))

    def mean(self, keys, coder, bound=0.0):
        return geometric_mean([self.of.get((key, coder, bound)) for key in keys])


def geometric_mean(ratios):
    """None if a ratio is missing."""
    if not ratios or None in ratios:
        return None
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def text(ratio):
    if ratio is None:
        return "-"
    return f"{ratio:.3f}" if ratio < 9.9995 else f"{ratio:.1f}" if ratio < 99.95 else f"{ratio:.0f}"


def quotient(a, b):
    return a / b if a and b else None


def table(head, lines):
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines]) + "\n"


def table_of_means(ratios, groups):
    """A line a lossless coder, a column a group."""
    lines, both = [], []
    for of_tuck in (True, False):
        for coder in ratios.coders:
            measured = any((key, coder, 0.0) in ratios.of for keys in groups.values() for key in keys)
            if measured and (coder in ratios.tuck) == of_tuck:
                lines.append([coder, *(text(ratios.mean(keys, coder)) for keys in groups.values())])
        best = [geometric_mean([ratios.best(key, of_tuck)[0] for key in keys]) for keys in groups.values()]
        lines.append(["**best of tuck**" if of_tuck else "best peer", *map(text, best)])
        both.append(best)
    lines.append(["tuck / peer", *map(text, map(quotient, *both))])
    return table(["", *(f"{name} ({len(keys)})" for name, keys in groups.items())], lines)


def table_of_tensors(ratios, groups, zeros):
    lines = []
    for keys in groups.values():
        for key in keys:
            ours, theirs = ratios.best(key, True), ratios.best(key, False)
            name, base = key
            lines.append([f"{name}, base {base}" if base else name, f"{100 * float(ratios.rows[key]['zeros']):.1f} %",
                          f"{text(ours[0])} {ours[1]}", f"{text(theirs[0])} {theirs[1]}", text(quotient(ours[0], theirs[0]))])
    return table(["tensor", zeros, "best of tuck", "best peer", "tuck / peer"], lines)


def table_of_lossy(ratios, groups, bounds):
    """Geometric means of groups, and a line a tensor."""
    coders = [c for c in ratios.coders if any((key, c, b) in ratios.of for key in ratios.rows for b in bounds)]
    lines = []
    for name, keys in groups.items():
        for title, those in [(f"**{name} ({len(keys)})**", keys), *((key[0], [key]) for key in keys)]:
            lines.append([title, *(" / ".join(text(ratios.mean(those, c, b)) for b in bounds) for c in coders)])
    return table([f"bound {' / '.join(f'{b:g}' for b in bounds)}", *coders], lines)


def page(title, rows, left_out):
    """What is printed of a folder."""
    ratios = Ratios(rows)
    bounds = sorted({float(r["bound"]) for r in rows} - {0.0}, reverse=True)
    groups = ratios.groups()
    tensors = {name: keys for name, keys in groups.items() if not keys[0][1]}
    deltas = {name: keys for name, keys in groups.items() if keys[0][1]}
    lossy = {name: lossy for name, keys in tensors.items()
             if (lossy := [key for key in keys if any((key, c, b) in ratios.of for c in ratios.coders for b in bounds)])}
    parts = [f"## {title}\n", f"Measured with {', '.join(dict.fromkeys(r['library'] for r in rows))}.\n"]
    parts += [f"Left out: {what}.\n" for what in dict.fromkeys(left_out)]
    for name, those, zeros in (("Lossless", tensors, "zeros"), ("Deltas", deltas, "unchanged")):
        if those:
            parts += [f"### {name}\n", table_of_means(ratios, those), table_of_tensors(ratios, those, zeros)]
    if lossy:
        parts += ["### Within an error bound\n", table_of_lossy(ratios, lossy, bounds)]
    return "\n".join(parts)


def default_bench():
    return next((str(p) for p in sorted((ROOT / "build").glob("*/bin/bench_ratio"))), "bench_ratio")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER[=TITLE]", help="a folder of .npy files, and its headline")
    parser.add_argument("--bench", default=default_bench(), help="the program bench_ratio (default: that of build/)")
    parser.add_argument("--page", type=Path, help="a page to renew: the tables replace what is below its mark")
    options = parser.parse_args()
    pages = []
    for argument in options.folders:
        folder, _, title = argument.partition("=")
        rows = measured(options.bench, Path(folder))
        built = {r["coder"] for r in rows}
        lossy = any(float(r["bound"]) for r in rows)
        left_out = [f"{c}: bench_ratio was built without it" for c in BUILT_IN if c not in built and (c != "zfp" or lossy)]
        rows += of_packages(rows, Path(folder), left_out)
        pages.append(page(title or Path(folder).name, rows, left_out))
    if options.page is None:
        print("\n".join(pages), end="")
        return
    above, mark, _ = options.page.read_text().partition(MARK)
    if not mark:
        raise SystemExit(f"ratios.py: {options.page}: there is no line {MARK}")
    options.page.write_text(f"{above}{mark}\n\n" + "\n".join(pages))


if __name__ == "__main__":
    main()
