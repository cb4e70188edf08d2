#!/usr/bin/env python3
"""What the model of time predicts: beside what an H100 measured, and for the kernels of today.

    model.py prepare DIR                   the measured kernels, under this tree's engine: checks out, grafts, builds
    model.py compare DIR --out FILE        runs them under the model, beside the measured rows
    model.py table FILE                    the table of such a file again, or of one of `today`
    model.py today BENCH --out FILE        predictions of a tuck-bench of preset ptx, and where four codecs wait

Python 3.9 and nothing else. On one core `prepare` compiles for five minutes, and `compare` takes half an hour. It goes
on with what FILE lacks."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import rows

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "5c9dcd72f4"  # that the H100 ran
GRAFTED = ["test/ptx", "test/cudasim", "bench/micro", "bench/support/gpus.json", "cmake/TuckBackend.cmake"]


def run(*command, **more):
    print("+", *command, file=sys.stderr, flush=True)
    try:
        ran = subprocess.run([str(word) for word in command], **more)
    except OSError as wrong:
        sys.exit(f"model.py: {command[0]} cannot be run: {wrong}")
    if ran.returncode != 0:
        sys.exit(f"model.py: {command[0]} ended with {ran.returncode}")


def prepare(directory):
    directory.mkdir(parents=True, exist_ok=True)
    found = subprocess.run(["git", "-C", str(ROOT), "archive", COMMIT], stdout=subprocess.PIPE)
    if found.returncode != 0:
        sys.exit(f"model.py: this clone lacks commit {COMMIT}; fetch it (git fetch --unshallow)")
    archive = found.stdout
    subprocess.run(["tar", "x", "-C", str(directory)], input=archive, check=True)
    for path in GRAFTED:
        there = directory / path
        run("rm", "-rf", there)
        run("cp", "-r", ROOT / path, there)
    # There is no such function at that commit. It chooses vectors of the host, which nobody times here.
    runner = directory / "bench/micro/runner.cpp"
    lines = runner.read_text().splitlines(True)
    kept = [line for line in lines if "level_in_use()" not in line]
    assert len(kept) == len(lines) - 1, f"{runner}: one line with level_in_use() was expected"
    runner.write_text("".join(kept))
    # The measured codecs and types alone: nvcc takes most of the time.
    rows.keep_measured_codecs(directory / "examples/tuck/codec_list.hpp")
    run("cmake", "--preset", "ptx", "-DTUCK_PTX_ARCH=90", cwd=directory)
    run("cmake", "--build", "--preset", "ptx", "--target", "tuck_bench", cwd=directory)


def predicted(bench, options):
    """The rows of one run of tuck-bench."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        run(bench, "--where", "model", "--no-peers", "--out", out, *options)
        if not out.exists():
            sys.exit(f"model.py: {bench} wrote no rows")
        return json.loads(out.read_text())


def write(path, value):
    fresh = path.with_suffix(".fresh")
    fresh.write_text(json.dumps(value, indent=1) + "\n")
    fresh.replace(path)


def read(path, measured=None):
    """A file that `compare` (measured) or `today` (not) wrote; None: either."""
    try:
        file = json.loads(path.read_text())
    except (OSError, ValueError) as wrong:
        sys.exit(f"model.py: {path} cannot be read: {wrong}")
    if not isinstance(file, dict) or file.get("schema") != "tuck-model/1" or not isinstance(file.get("rows"), list):
        sys.exit(f"model.py: {path} is no file of model.py")
    if measured is not None and any(("measured_seconds" in row) != measured for row in file["rows"]):
        sys.exit(f"model.py: {path} is a file of {'today' if measured else 'compare'}")
    return file


def table(file):
    measured = all("measured_seconds" in row for row in file["rows"])
    return rows.table(file["rows"]) if measured else rows.today_table(file["rows"])


def compare(directory, out):
    bench = directory / "build/ptx/bin/tuck-bench"
    check(bench, out)
    file = read(out, True) if out.exists() else {"schema": "tuck-model/1", "commit": COMMIT, "rows": []}
    measured = rows.measured(ROOT / "bench/results")
    for options, keys in rows.runs(measured):
        known = {rows.key(row) for row in file["rows"]}
        if all(key in known for key in keys):
            continue
        for row in predicted(bench, options + ["--gpu", "h100"])["rows"]:
            if rows.key(row) in measured and rows.key(row) not in known:
                file["rows"].append(rows.beside(row, measured[rows.key(row)]))
        write(out, file)
    print(rows.table(file["rows"]))


TODAY = [["--size", "256MiB", "--type", "f32,bf16", "--sparsity", ".6", "--pattern", "clustered"],
         ["--size", "256MiB", "--type", "bf16", "--pattern", "recorded", "--data", ROOT / "examples/data/kv",
          "--codec", "huffman,exponents"]]
PROFILED = [["--codec", "quantize,zvc+rle+huffman,deflate", "--size", "256MiB", "--type", "f32"],
            ["--codec", "huffman", "--size", "256MiB", "--type", "bf16", "--pattern", "recorded",
             "--data", ROOT / "examples/data/kv"]]


def check(bench, out):
    """Before minutes of work: is all there?"""
    if not bench.exists():
        sys.exit(f"model.py: {bench} is not there; build it first")
    if not out.parent.is_dir():
        sys.exit(f"model.py: {out.parent} is no folder")


def today(bench, out):
    check(bench, out)
    if out.exists():
        read(out, False)  # no other file is overwritten
    file = {"schema": "tuck-model/1", "commit": None, "rows": []}
    for options in TODAY:
        found = predicted(bench, options)
        file["commit"] = found["environment"]["commit"]
        file["rows"] += [rows.short(row) for row in found["rows"]]
        write(out, file)
    print(rows.today_table(file["rows"]))
    for options in PROFILED:
        run(bench, "--where", "model", "--no-peers", "--profile", *options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("prepare").add_argument("directory", type=Path)
    sub = commands.add_parser("compare")
    sub.add_argument("directory", type=Path)
    sub.add_argument("--out", type=Path, required=True)
    commands.add_parser("table").add_argument("file", type=Path)
    sub = commands.add_parser("today")
    sub.add_argument("bench", type=Path)
    sub.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.command == "prepare":
        prepare(given.directory)
    elif given.command == "compare":
        compare(given.directory, given.out)
    elif given.command == "table":
        print(table(read(given.file)))
    else:
        today(given.bench, given.out)


if __name__ == "__main__":
    main()
