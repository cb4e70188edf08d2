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
    ran = place.run([place.program("tuck-bench"), "--where", "device", "--data", place.data, "--out", result, *words])
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
    rows = slowest(place.earlier.get("sweep", []))
    if not rows:
        return Outcome("skipped", "there is no sweep to choose kernels from")
    for row in rows:
        words = [place.program("tuck-bench"), "--where", "device", "--data", place.data, "--codec", row["codec"],
                 "--type", row["type"], "--pattern", row["pattern"], "--size", row["raw_bytes"]]  # fmt: skip
        if row["pattern"] in ("iid", "clustered"):
            words += ["--sparsity", row["sparsity"]]
        ran = place.run([ncu, "--kernel-name", f"regex:{row['operation']}_kernel", "--launch-skip", 2,
                         "--launch-count", 1, *words])  # fmt: skip
        if "ERR_NVGPUCTRPERM" in ran.text:
            return Outcome("skipped", "ncu may not read the GPU's counters here (ERR_NVGPUCTRPERM)")
        if ran.code != 0 or "No kernels were profiled" in ran.text:
            return Outcome("FAILED", f"{row['operation']} of {row['codec']}: {ran.why()}")
    return Outcome("ok", ", ".join(f"{row['operation']} of {row['codec']}" for row in rows) + ": in the log")
