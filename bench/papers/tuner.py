#!/usr/bin/env python3
"""What tuning a launch gains over the default, by the model of time:

    tuner.py BENCH --out FILE    BENCH: the tuck-bench of preset ptx; runs all combinations
    tuner.py FILE                the table of such a file again

Python 3.9 and nothing else. README.md says what the table means."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ among the sources
sys.path.insert(0, str(Path(__file__).parents[1] / "model"))
from model import KV, MIB, main, predicted, write

BLOCKS, CHUNKS = range(1, 9), ("2KiB", "4KiB", "8KiB", "16KiB")  # on a multiprocessor, at most; of values
TENSORS = [["--codec", "zvc,zvc+huffman", "--type", "f32", "--pattern", "clustered", "--sparsity", ".6"],
           ["--codec", "huffman", "--type", "bf16", "--pattern", "recorded", "--data", KV]]  # fmt: skip
NAMED = ("codec", "type", "pattern", "raw_bytes", "blocks", "chunk_bytes", "ratio")


def record(bench, out):
    file = {"schema": "tuck-surface/1", "commit": None, "gpu": None, "rows": []}
    for tensor in TENSORS:
        found = predicted(bench, [*tensor, "--size", "1MiB,256MiB", "--blocks", ",".join(map(str, BLOCKS)),
                                  "--chunk", ",".join(CHUNKS)])  # fmt: skip
        file["commit"], file["gpu"] = found["environment"]["commit"], found["rows"][0]["model"]["gpu"]
        pairs = {}
        for row in found["rows"]:
            of = {name: row[name] for name in NAMED}
            pairs.setdefault(tuple(of.values()), of)[row["operation"]] = row["model"]["seconds"]
        file["rows"] += pairs.values()
        write(out, file)
    print(table(file["rows"]))


def both(row):
    return row["encode"] + row["decode"]


def fewest(rows, operation):
    """Blocks on a multiprocessor that take at most 5 % longer than the last, which has the most."""
    return next(row["blocks"] for row in rows if row[operation] <= 1.05 * rows[-1][operation])


def table(rows):
    """Markdown: a line a codec and tensor."""
    tensors = {}
    for row in rows:
        tensors.setdefault((row["raw_bytes"], row["type"], row["pattern"], row["codec"]), []).append(row)
    lines = ["| tensor | codec | default, us: encode / decode | ratio | fastest: blocks, chunk | gain, % | ratio there "
             "| slowest, times | blocks within 5 %: encode / decode |", "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for (size, kind, pattern, codec), found in tensors.items():
        usual = sorted((row for row in found if row["chunk_bytes"] == 16384), key=lambda row: row["blocks"])
        default, best, worst = usual[-1], min(found, key=both), max(found, key=both)
        if both(best) > 0.995 * both(default):
            best = default  # the model is not that exact
        cells = [f"{size // MIB} MiB {kind}, {'dense' if pattern == 'recorded' else '60 % zeros'}", codec,
                 f"{1e6 * default['encode']:.1f} / {1e6 * default['decode']:.1f}", f"{default['ratio']:.2f}",
                 "the default" if best is default else f"{best['blocks']}, {best['chunk_bytes'] // 1024} KiB",
                 f"{100 * (1 - both(best) / both(default)):.0f}", f"{best['ratio']:.2f}",
                 f"{both(worst) / both(default):.0f}", f"{fewest(usual, 'encode')} / {fewest(usual, 'decode')}"]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main(__doc__, "tuck-surface/1", "chunk_bytes", record, table)
