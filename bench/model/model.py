#!/usr/bin/env python3
"""What the model of time predicts for the kernels of today, and where four codecs wait:

    model.py BENCH --out FILE     BENCH: the tuck-bench of preset ptx
    model.py FILE                 the table of such a file again

Python 3.9 and nothing else. gpu_check.py sets the predictions of FILE beside what a GPU measures."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

KV = Path(__file__).resolve().parents[2] / "examples/data/kv"
MIB = 1 << 20
PREDICTED = [["--size", "256MiB", "--type", "f32,bf16", "--sparsity", ".6", "--pattern", "clustered"],
             ["--size", "256MiB", "--type", "bf16", "--pattern", "recorded", "--data", KV,
              "--codec", "huffman,codebooks"]]  # fmt: skip
PROFILED = [["--codec", "quantize,zvc+rle+huffman,deflate", "--size", "256MiB", "--type", "f32"],
            ["--codec", "huffman", "--size", "256MiB", "--type", "bf16", "--pattern", "recorded", "--data", KV]]
KEPT = ("operation", "codec", "type", "pattern", "sparsity", "raw_bytes", "ratio")


def stop(reason):
    sys.exit(f"{Path(sys.argv[0]).name}: {reason}")


def run(*command):
    print("+", *command, file=sys.stderr, flush=True)
    try:
        ran = subprocess.run([str(word) for word in command])
    except OSError as wrong:
        stop(f"{command[0]} cannot be run: {wrong}")
    if ran.returncode != 0:
        stop(f"{command[0]} ended with {ran.returncode}")


def predicted(bench, options):
    """What one run of tuck-bench writes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        run(bench, "--where", "model", "--no-peers", "--out", out, *options)
        if not out.exists():
            stop(f"{bench} wrote no rows")
        return json.loads(out.read_text())


def read(path, schema, field):
    """A file of that schema, whose rows have that field."""
    try:
        file = json.loads(path.read_text())
    except (OSError, ValueError) as wrong:
        stop(f"{path} cannot be read: {wrong}")
    if not isinstance(file, dict) or file.get("schema") != schema or not isinstance(file.get("rows"), list) or \
            any(field not in row for row in file["rows"]):
        stop(f"{path} is no file of {Path(sys.argv[0]).name}")
    return file


def write(path, file):
    """A line a row. The file is written entirely or not at all."""
    fresh = path.with_suffix(".fresh")
    rows = ",\n".join(json.dumps(row) for row in file["rows"])
    head = json.dumps({name: value for name, value in file.items() if name != "rows"})
    fresh.write_text(f'{head[:-1]},\n"rows": [\n{rows}\n]}}\n')
    fresh.replace(path)


def short(row):
    """A row without what only a profile needs."""
    model = {name: value for name, value in row["model"].items() if name != "lines"}
    model["waits"] = {name: round(share, 4) for name, share in model["waits"].items()}
    return {name: row[name] for name in KEPT} | {"model": model}


def table(rows):
    """Markdown: a line a codec and tensor, encode / decode."""
    pairs = {}
    for row in rows:
        if row["codec"] != "copy":
            of = (row["raw_bytes"] // MIB, row["type"], row["pattern"], row["codec"])
            pairs.setdefault(of, {})[row["operation"]] = row
    lines = ["| tensor | codec | ratio | GB/s | R | issue active | resident blocks | warps wait for, % |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for (size, kind, pattern, codec), both in pairs.items():
        of = [both[operation] for operation in ("encode", "decode")]
        what = "dense" if pattern == "recorded" else "60 % zeros"
        cells = [f"{size} MiB {kind}, {what}", codec, f"{of[0]['ratio']:.2f}"]
        cells += [" / ".join(format(row["model"][name], how) for row in of) for name, how in
                  (("gb_per_s", ".0f"), ("R", ".2f"), ("issue_active", ".2f"), ("resident_blocks", ""))]  # fmt: skip
        cells.append(" / ".join(main_waits(row["model"]["waits"]) for row in of))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main_waits(waits):
    shares = sorted(((share, name) for name, share in waits.items() if name not in ("issued", "nothing")), reverse=True)
    return ", ".join(f"{name} {100 * share:.0f}" for share, name in shares[:2])


def predict(bench, out):
    file = {"schema": "tuck-model/1", "commit": None, "rows": []}
    for options in PREDICTED:
        found = predicted(bench, options)
        file["commit"] = found["environment"]["commit"]
        file["rows"] += [short(row) for row in found["rows"]]
        write(out, file)
    print(table(file["rows"]))
    for options in PROFILED:
        run(bench, "--where", "model", "--no-peers", "--profile", *options)


def main(about, schema, field, predict, table):
    """predict(bench, out) writes a file that read(path, schema, field) takes; table(rows) is what is printed of it."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", metavar="BENCH|FILE", type=Path)
    parser.add_argument("--out", metavar="FILE", type=Path)
    given = parser.parse_args()
    if not given.out:
        return print(table(read(given.what, schema, field)["rows"]))
    if not given.out.parent.is_dir():  # before minutes of work
        stop(f"{given.out.parent} is no folder")
    if given.out.exists():
        read(given.out, schema, field)  # no other file is overwritten
    predict(given.what, given.out)


if __name__ == "__main__":
    main(__doc__, "tuck-model/1", "model", predict, table)
