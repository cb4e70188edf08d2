"""How fast is it? tuck-experiments, tuck-bench and Nsight Compute."""

import json
import re

import environment
import recordings
from step import Outcome, failed, plural

SMALL = "64KiB"  # of tensors on the simulator


def work_experiment(name, size, read, place):
    """An experiment of tuck-experiments, which prints a line of JSON for each point. They are kept, however it ends."""
    begin = place.log.stat().st_size if place.log.exists() else 0
    try:
        ran = place.run([place.program("tuck-experiments"), name, "--size", SMALL if place.simulated else size])
    finally:
        with open(place.log, "rb") as log:
            log.seek(begin)
            printed = log.read().decode("utf-8", "replace").splitlines()
        place.figures.extend(json.loads(line) for line in printed
                             if line.startswith('{"experiment"') and line.endswith("}"))  # fmt: skip
    return concluded(place, [ran], read, "point")


def concluded(place, ran, read, what):
    """What became of a step that has run programs: it fails if one did, and says how much there is nevertheless."""
    count = plural(len(place.figures), what)
    bad = [one for one in ran if one.code != 0]
    if bad:
        return Outcome("FAILED", f"{count}; {'; '.join(one.why() for one in bad)}", any(one.timed_out for one in bad))
    if not place.figures:
        return Outcome("FAILED", "it has measured nothing")
    detail = "on the simulator: without times" if place.simulated else read(place.figures)
    return Outcome("ok", f"{count}; {detail}" if detail else count)


def read_copies(records):
    rates = {(r["what"], r["raw_bytes"]): r["gb_per_s"] for r in records}
    largest = max(r["raw_bytes"] for r in records)
    return ", ".join(f"{what} {rates[what, largest]:.0f} GB/s" for what in ("kernel", "to the host", "from the host"))


def read_worst(figure, records):
    worst = min((r for r in records if r.get(figure) is not None), key=lambda r: r[figure])
    what = " ".join(str(worst[key]) for key in ("codec", "type", "path", "operation", "what") if key in worst)
    return f"least {figure.replace('_', ' ')}: {worst[figure]:.2f} ({what} at {worst['sparsity']:g} of zeros)"


def read_shortest(records):
    shortest = min(records, key=lambda r: r["median_seconds"])
    return (f"shortest: {shortest['operation']} of {shortest['raw_bytes'] >> 10} KiB in "
            f"{shortest['median_seconds'] * 1e6:.1f} us ({shortest['way']})")  # fmt: skip


KEPT = ("operation", "codec", "peer", "lossy", "type", "sparsity", "pattern", "raw_bytes", "where", "encoded_bytes",
        "ratio", "runs", "best_seconds", "median_seconds", "median_low_seconds", "median_high_seconds", "noisy", "cv",
        "gb_per_s", "R", "R_low", "R_high", "moved_per_byte",
        "max_error")  # fmt: skip


def bench(place, words, more=None):
    """Runs tuck-bench on the device. The rows that it wrote are kept with `more`, however it ends: at a polite signal
    it ends the row that it measures, and writes all."""
    result = place.scratch / "bench.json"
    result.unlink(missing_ok=True)
    try:
        return place.run([place.program("tuck-bench"), "--where", "device", "--out", result, *words])
    finally:
        if result.exists():
            rows = json.loads(result.read_text(encoding="utf-8"))["rows"]
            place.figures.extend({key: row[key] for key in KEPT if key in row} | (more or {}) for row in rows)


def bench_each(place, runs):
    """The same for pairs of words and `more`, one after the other: one that fails does not keep the others away."""
    ran = []
    for words, more in runs:
        if ran and place.seconds_left() < 1:
            break  # the last one was cut off
        ran.append(bench(place, words, more))
    return ran


def read_least_r(rows):
    return read_worst("R", [row for row in rows if large(row)])


def work_sweep(place):
    """tuck-bench's quick sweep over all codecs; on the simulator, where `codecs` has run each of them, over one."""
    words = ["--quick", "--no-peers", *(["--codec", "zvc"] if place.simulated else [])]
    return concluded(place, [bench(place, words)], read_least_r, "row")


def work_codecs(size, types, place):
    """Each codec both ways at one size, 60 % zeros."""
    size = ["--no-peers", "--size", SMALL if place.simulated else size]
    return concluded(place, bench_each(place, [([*size, "--type", one], {}) for one in types.split(",")]),
                     read_least_r, "row")  # fmt: skip


def work_dense(place):
    """huffman and codebooks on dense tensors."""
    size = SMALL if place.simulated else "256MiB"
    runs = [(["--no-peers", "--size", size, "--codec", "huffman,codebooks", "--data", path, "--type", kind],
             {"recording": name}) for name, kind, path in recordings.dense(place)]  # fmt: skip
    return concluded(place, bench_each(place, runs), read_dense, "row")


def read_dense(rows):
    best = {(r["recording"], r["codec"], r["operation"]): r["gb_per_s"] for r in rows if r["operation"] != "copy"}
    return ", ".join(f"{codec} {way} {speed:.0f} GB/s" for (name, codec, way), speed in best.items() if name == "kv")


def work_ans(place):
    """nvCOMP's ANS with the types that it knows, by chunks of 64 KiB to 1 MiB, on the tensors of `dense`."""
    listing = place.run([place.program("tuck-bench"), "--where", "device", "--quick", "--list"])
    if listing.code != 0:
        return failed(listing)
    if "nvcomp-ans" not in listing.text:
        return Outcome("skipped", "these programs were built without nvCOMP")
    words = ["--codec", "nvcomp-ans", "--size", "256MiB"]
    runs = [([*words, "--peer-chunk", f"{chunk}KiB", "--data", path, "--type", kind],
             {"recording": name, "chunk_bytes": chunk << 10})
            for name, kind, path in recordings.dense(place, ("bf16", "f8e4m3"))
            for chunk in (64, 128, 256, 512, 1024)]  # fmt: skip
    return concluded(place, bench_each(place, runs), lambda rows: "", "row")


def read_machine(records):
    of = {r["what"]: r.get("latency_clocks") for r in records}
    return ", ".join(f"{what} {of[what]:.0f}" for what in ("shared_load", "load, second level", "load, DRAM"))


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
    without = "" if any(peer.startswith("nvcomp") for peer in peers) else "; nvCOMP was not found by the build"
    return concluded(place, [bench(place, ["--quick", "--codec", ",".join(peers)])],
                     lambda rows: ", ".join(peers) + without, "row")  # fmt: skip


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
