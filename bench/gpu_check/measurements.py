"""How fast is it? tuck-experiments, tuck-bench and Nsight Compute."""

import json
import re

import environment
from step import Outcome, failed, plural

SMALL = "64KiB"  # of tensors on the simulator


def work_experiment(name, size, read, place):
    """An experiment of tuck-experiments."""
    ran = place.run([place.program("tuck-experiments"), name, "--size", SMALL if place.simulated else size])
    if ran.code != 0:
        return failed(ran)
    records = [json.loads(line) for line in ran.text.splitlines() if line.startswith('{"experiment"')]
    if not records:
        return Outcome("FAILED", "it has measured nothing")
    detail = "on the simulator: without times" if place.simulated else read(records)
    return Outcome("ok", f"{plural(len(records), 'point')}; {detail}", records)


def read_copies(records):
    rates = {(r["what"], r["raw_bytes"]): r["gb_per_s"] for r in records}
    largest = max(r["raw_bytes"] for r in records)
    return ", ".join(f"{what} {rates[what, largest]:.0f} GB/s" for what in ("kernel", "to the host", "from the host"))


def read_worst(figure, records):
    worst = min((r for r in records if r.get(figure) is not None), key=lambda r: r[figure])
    what = " ".join(str(worst[key]) for key in ("codec", "type", "path", "operation", "what") if key in worst)
    return f"least {figure.replace('_', ' ')}: {worst[figure]:.2f} ({what} at {worst['sparsity']:g} of zeros)"


def read_best(figure, records):
    return f"at most {max(r[figure] for r in records if r.get(figure) is not None):.2f} {figure.replace('_', ' ')}"


def read_shortest(records):
    shortest = min(records, key=lambda r: r["median_seconds"])
    return (f"shortest: {shortest['operation']} of {shortest['raw_bytes'] >> 10} KiB in "
            f"{shortest['median_seconds'] * 1e6:.1f} us ({shortest['way']})")  # fmt: skip


KEPT = ("operation", "codec", "peer", "lossy", "type", "sparsity", "pattern", "raw_bytes", "where", "encoded_bytes",
        "ratio", "runs", "best_seconds", "median_seconds", "cv", "gb_per_s", "R", "moved_per_byte",
        "max_error")  # fmt: skip


def bench(place, words):
    """Runs tuck-bench on the device; gives what ran and its rows, none where it has failed."""
    result = place.scratch / "bench.json"
    ran = place.run([place.program("tuck-bench"), "--where", "device", "--out", result, *words])
    if ran.code != 0:
        return ran, []
    rows = json.loads(result.read_text(encoding="utf-8"))["rows"]
    return ran, [{key: row[key] for key in KEPT} for row in rows]


def work_sweep(place):
    """tuck-bench's quick sweep over all codecs."""
    ran, rows = bench(place, ["--quick", "--no-peers"])
    if ran.code != 0:
        return failed(ran)
    detail = "on the simulator: bytes alone" if place.simulated else read_worst("R", [r for r in rows if large(r)])
    return Outcome("ok", f"{plural(len(rows), 'row')}; {detail}", rows)


def work_codecs(size, types, place):
    """Each codec both ways at one size, 60 % zeros."""
    ran, rows = bench(place, ["--no-peers", "--size", SMALL if place.simulated else size, "--type", types])
    if ran.code != 0:
        return failed(ran)
    detail = "on the simulator: bytes alone" if place.simulated else read_worst("R", [r for r in rows if large(r)])
    return Outcome("ok", f"{plural(len(rows), 'row')}; {detail}", rows)


def work_dense(place):
    """huffman and exponents on dense tensors: keys and values that come with tuck, and --recordings."""
    files = sorted((place.data / "kv").glob("*_bf16.npy"))[:2]
    files += sorted(place.recordings.glob("*.npy")) if place.recordings else []
    rows = []
    for file in files:
        words = ["--no-peers", "--data", file, "--type", TYPES.get(file.stem.split("_")[-1], file.stem.split("_")[-1]),
                 "--size", SMALL if place.simulated else "256MiB", "--codec", "huffman,exponents"]  # fmt: skip
        ran, more = bench(place, words)
        if ran.code != 0:
            return failed(ran)
        rows += [row | {"recording": file.stem} for row in more]
    best = {} if place.simulated else {(r["codec"], r["operation"]): r["gb_per_s"] for r in rows}
    detail = ", ".join(f"{codec} {way} {speed:.0f} GB/s" for (codec, way), speed in best.items())
    return Outcome("ok" if rows else "FAILED", f"{plural(len(files), 'tensor')}: {detail or 'no times'}", rows)


TYPES = {"fp8": "f8e4m3", "e4m3": "f8e4m3", "e5m2": "f8e5m2"}


def work_ans(place):
    """nvCOMP's ANS with the types that it knows, by chunks of 64 KiB to 1 MiB."""
    listing = place.run([place.program("tuck-bench"), "--where", "device", "--quick", "--list"])
    if listing.code != 0:
        return failed(listing)
    if "nvcomp-ans" not in listing.text:
        return Outcome("skipped", "these programs were built without nvCOMP")
    rows = []
    for chunk in (64, 128, 256, 512, 1024):
        for words in (["--type", "bf16", "--data", place.data / "kv"], ["--type", "f8e4m3", "--sparsity", "0"]):
            ran, more = bench(place, ["--codec", "nvcomp-ans", "--size", "256MiB", "--peer-chunk", f"{chunk}KiB",
                                      *words])  # fmt: skip
            if ran.code != 0:
                return failed(ran)
            rows += [row | {"chunk_bytes": chunk << 10} for row in more]
    return Outcome("ok", plural(len(rows), "row"), rows)


def work_trace(what, read, place):
    """What tuck-trace notes from inside kernels."""
    size = ["--size", SMALL] if place.simulated else []
    raw = [] if what != "blocks" or place.simulated else ["--raw", place.log.with_suffix(".csv")]
    records = []
    for codec in TRACED[what]:
        if raw:
            raw[1] = place.log.with_suffix(f".{codec}.csv")
        ran = place.run([place.program("tuck-trace"), what, *codec.split(), *size, *raw])
        if ran.code != 0:
            return failed(ran)
        records += [json.loads(line) for line in ran.text.splitlines() if line.startswith('{"experiment"')]
    if not records:
        return Outcome("FAILED", "it has measured nothing")
    detail = "on the simulator: without times" if place.simulated else read(records)
    return Outcome("ok", f"{plural(len(records), 'point')}; {detail}", records)


TRACED = {"machine": [""], "phases": ["huffman", "zvc+rle+huffman", "deflate", "quantize"],
          "blocks": ["quantize", "bitpack", "zvc"]}  # fmt: skip


def read_machine(records):
    of = {r["what"]: r["latency_clocks"] for r in records}
    return ", ".join(f"{what} {of[what]:.0f}" for what in ("shared_load", "load, second level", "load, DRAM"))


def read_phases(records):
    sums = {}
    for r in records:
        sums[r["codec"], r["operation"]] = sums.get((r["codec"], r["operation"]), 0) + r["clocks"]
    return ", ".join(f"{codec} {way} {clocks}" for (codec, way), clocks in sums.items()) + " clocks"


def read_blocks(records):
    ends = {r["codec"]: r["end_last_us"] for r in records}
    return ", ".join(f"{codec} {end:.0f} us" for codec, end in ends.items())


def large(row):
    return row["raw_bytes"] >= 2**20 and row["operation"] != "copy" and row["R"] is not None


def work_peers(place):
    """nvCOMP and CUB beside the codecs."""
    listing = place.run([place.program("tuck-bench"), "--where", "device", "--quick", "--list"])
    if listing.code != 0:
        return failed(listing)
    peers = sorted(set(re.findall(r"^\w+/((?:nvcomp|cub)-[^/]+)/", listing.text, re.MULTILINE)))
    if not peers:
        return Outcome("skipped", "these programs were built without nvCOMP and CUB")
    ran, rows = bench(place, ["--quick", "--codec", ",".join(peers)])
    if ran.code != 0:
        return failed(ran)
    without = "" if any(peer.startswith("nvcomp") for peer in peers) else "; nvCOMP was not found by the build"
    return Outcome("ok", f"{plural(len(rows), 'row')}: {', '.join(peers)}{without}", rows)


# -- ncu -----------------------------------------------------------------------------------------------------------


def slowest(rows, count=2):
    """The rows of the least R, of one kernel each: a codec's encoder or decoder."""
    chosen = {}
    for row in sorted((r for r in rows if large(r) and not r["peer"]), key=lambda r: r["R"]):
        chosen.setdefault((row["codec"], row["operation"]), row)
    return list(chosen.values())[:count]


def work_ncu(place):
    """Nsight Compute on the two kernels of the least R in the sweep."""
    ncu = environment.find_tool("ncu")
    if ncu is None:
        return Outcome("skipped", "ncu is not here")
    rows = slowest(place.earlier.get("codecs/256MiB", []) or place.earlier.get("sweep", []))
    if not rows:
        return Outcome("skipped", "there are no codecs/256MiB and no sweep to choose kernels from")
    for row in rows:
        words = [place.program("tuck-bench"), "--where", "device", "--codec", row["codec"], "--type", row["type"],
                 "--pattern", row["pattern"], "--size", row["raw_bytes"]]  # fmt: skip
        if row["pattern"] in ("iid", "clustered"):
            words += ["--sparsity", row["sparsity"]]
        ran = place.run([ncu, "--kernel-name", f"regex:{row['operation']}_kernel", "--launch-skip", 2,
                         "--launch-count", 1, *words])  # fmt: skip
        if "ERR_NVGPUCTRPERM" in ran.text:
            return Outcome("skipped", "ncu may not read the GPU's counters here (ERR_NVGPUCTRPERM)")
        if ran.code != 0 or "No kernels were profiled" in ran.text:
            return Outcome("FAILED", f"{row['operation']} of {row['codec']}: {ran.why()}")
    return Outcome("ok", ", ".join(f"{row['operation']} of {row['codec']}" for row in rows) + ": in the log")
