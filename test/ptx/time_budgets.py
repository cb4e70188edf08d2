#!/usr/bin/env python3
"""Holds kernels to a budget of predicted time: time_budgets.py TUCK_BENCH ARCH COMPILER [TABLE].

More than 5 % above fails, and names the source lines that take longer. TUCK_UPDATE_BUDGETS=1 in the environment writes
the table anew. A table is of one architecture and compiler; others are skipped (77)."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST = 1.05
# A part of the GPU runs two rounds of chunks, in a minute for all codecs.
OPTIONS = ["--where", "model", "--no-peers", "--size", "32MiB", "--sample", "4", "--type", "f32,bf16", "--sparsity",
           ".6", "--pattern", "clustered", "--codec",
           "zvc,rle,bitpack,exponents,quantize,huffman,deflate,zvc+huffman,zvc+rle+huffman,delta+rle+bitpack,"
           "quantize+delta+zvc+huffman"]


def source(at):
    """The line's text behind the name of its file: its number changes with each edit."""
    path, number = at.rsplit(":", 1)
    name = path.rsplit("/", 1)[-1]
    try:
        return f"{name}: {(ROOT / path).read_text().splitlines()[int(number) - 1].strip()}"
    except (OSError, IndexError):
        return name


def times(rows):
    """{name: {"us", "lines"}} of what tuck-bench predicts. A line has its share of the time."""
    found = {}
    for row in rows:
        us = 1e6 * row["model"]["seconds"]
        lines = {}
        for line in row["model"]["lines"]:
            text = source(line["at"])
            lines[text] = round(lines.get(text, 0) + us * line["share"], 3)
        found[f"{row['codec']}.{row['type']}.{row['operation']}"] = {"us": round(us, 2), "lines": lines}
    return found


def slower(now, then):
    """What is over its budget, as text."""
    wrong = []
    for name, of in now.items():
        if name not in then:
            wrong.append(f"{name} has no budget: TUCK_UPDATE_BUDGETS=1")
        elif of["us"] > MOST * then[name]["us"]:
            wrong.append(f"{name}: {then[name]['us']} -> {of['us']} us")
            grown = [(us - then[name]["lines"].get(line, 0), line, us) for line, us in of["lines"].items()]
            for more, line, us in sorted(grown, reverse=True)[:8]:
                if more > .01 * of["us"]:
                    wrong.append(f"    {us - more:.2f} -> {us:.2f}  {line}")
    return wrong


def main():
    bench, arch, compiler = sys.argv[1:4]
    table = Path(sys.argv[4]) if len(sys.argv) > 4 else ROOT / "test/ptx/time_budgets.json"
    budgets = json.loads(table.read_text()) if table.exists() else {}
    kind, update = f"nvcc {compiler} sm_{arch}", "TUCK_UPDATE_BUDGETS" in os.environ
    if not Path(bench).exists():
        print("skipped: tuck-bench is not built")
        return 77
    if kind not in budgets and not update:
        print(f"skipped: budgets of time are of {', '.join(budgets)}, this is {kind}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        subprocess.run([bench, *OPTIONS, "--out", str(out)], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        now = times(json.loads(out.read_text())["rows"])
    if update:
        budgets[kind] = now
        table.write_text(json.dumps(budgets, indent=1, sort_keys=True) + "\n")
        return 0
    wrong = slower(now, budgets[kind])
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
