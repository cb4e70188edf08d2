"""The steps of a check, in their order: what each one runs, and how its outcome is read."""

import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import environment
import programs

HALF_HOUR = 30  # minutes that the steps' limits are made for

# Experiments that a half hour on a new GPU should have, but for which the library has no kernels.
NOT_THERE = (
    ("look-back: windows of 32, 128 and 256, tickets of 1, 2 and 4, delays",
     "there is one look-back; experiment/look_back has its share by chunks that are small"),
    ("an input ring of 1 to 3 stages", "kernels keep a chunk in registers"),
    ("frames by 128 and 512 threads", "their kernels have 256; experiment/threads varies the block coder's alone"),
    ("chunks of 32 KiB, but of deflate", "chunks on the device have 16 KiB at most"),
    ("reads of host memory by 1 to 16 blocks", "swap_stream brings frames back by the copy engine"),
    ("a GEMM beside a swap", "experiment/blocks has a kernel that computes and touches no memory in its place"),
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    result: str  # ok, FAILED or skipped
    detail: str = ""
    figures: list = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    """Where a step works."""

    folder: Path  # with bin/ and lib/
    data: Path  # recorded tensors
    kernels: str  # gpu, simulator or none
    scratch: Path  # a folder of files for this step alone
    log: Path
    deadline: float  # of time.monotonic
    earlier: dict  # figures of steps by their names

    @property
    def simulated(self):
        return self.kernels == "simulator"

    def program(self, name):
        return self.folder / "bin" / name

    def run(self, command, env=None):
        return programs.run(command, max(self.deadline - time.monotonic(), 0.01), self.log, env)


@dataclass(frozen=True)
class Step:
    name: str
    what: str
    minutes: float  # at most, of half an hour
    work: Callable
    gpu_only: bool = False
    program: str = ""  # without which it is skipped

    def why_not(self, place):
        """Why it cannot be done there; '' where it can."""
        if self.gpu_only and place.kernels != "gpu":
            return "needs a GPU"
        if place.kernels == "none":
            return "there is no GPU, and these programs are for one"
        if self.program and not place.program(self.program).is_file():
            return f"{self.program} is not built"
        return ""


def failed(ran):
    return Outcome("FAILED", ran.why())


def plural(count, what):
    return f"{count} {what}{'' if count == 1 else 's'}"


# -- tests ---------------------------------------------------------------------------------------------------------

# A few small tests of every codec: for compute-sanitizer and the simulator, which take long. ctest has all of them on
# the simulator.
FEW_TESTS = {
    "device_test": "device_suite/*.options_make*:device_suite/*.any_range*:append_suite/*:frame_buffer_suite/*",
    "batch_test": "device_batch_suite/*.a_room_that*:device_batch_suite/*.a_corrupt_frame*",
    "stages_test": "own_stages.*:block_transforms/*",
    "swap_test": "swap_stream.many_at_once*:swap_stream.a_frame_that*",
}


def work_test(program, place):
    """A GoogleTest program: all of it, and on the simulator a few tests."""
    result = place.scratch / "tests.json"
    command = [place.program(program), "--gtest_brief=1", f"--gtest_output=json:{result}"]
    if place.simulated:
        command.append(f"--gtest_filter={FEW_TESTS.get(program, '*')}")
    library = place.folder / "lib" / "libtuck_torch.so"
    ran = place.run(command, {"TUCK_TORCH_LIBRARY": str(library)} if library.is_file() else None)
    try:
        suites = json.loads(result.read_text(encoding="utf-8"))["testsuites"]
        tests = [test for suite in suites for test in suite["testsuite"] if test["status"] == "RUN"]
    except (OSError, ValueError, KeyError):  # it ended before it wrote them
        return failed(ran)
    bad = [f"{test['classname']}.{test['name']}" for test in tests if test.get("failures")]
    skipped = sum(test["result"] == "SKIPPED" for test in tests)
    counts = f"{len(tests) - len(bad) - skipped} passed, {len(bad)} failed, {skipped} skipped"
    if ran.code != 0 or bad or not tests:
        return Outcome("FAILED", f"{counts}: {', '.join(bad[:3])}" if bad else f"{counts}; {ran.why()}")
    return Outcome("ok", counts + (", of a few" if place.simulated and program in FEW_TESTS else ""))


EXAMPLES = (("any_frame",), ("fused_relu",), ("small_tensors",), ("evicting_pool",), ("kv_cache",),
            ("inflate_batch", "--on", "device", "DATA"), ("swap_training", "--epochs", "2"))  # fmt: skip


def work_examples(place):
    """The example programs, each of which checks what it does."""
    bad, missing = [], []
    for name, *words in EXAMPLES:
        if not place.program(name).is_file():
            missing.append(name)
            continue
        ran = place.run([place.program(name), *(place.data if word == "DATA" else word for word in words)])
        if ran.code != 0:
            bad.append(f"{name}: {ran.why()}")
    if bad:
        return Outcome("FAILED", "; ".join(bad))
    if len(missing) == len(EXAMPLES):
        return Outcome("skipped", "no example is built")
    return Outcome("ok", f"{len(EXAMPLES) - len(missing)} programs"
                   + (f"; not built: {', '.join(missing)}" if missing else ""))  # fmt: skip


# -- compute-sanitizer ---------------------------------------------------------------------------------------------

FOUND_ERRORS = 86  # its exit code where it has found some
CANNOT_RUN = re.compile(r"not supported|Unable to find|Failed to initialize|insufficient permission|requires? .*driver"
                        r"|could not be (attached|injected)|Internal Sanitizer Error", re.IGNORECASE)  # fmt: skip


def work_sanitizer(tool, place):
    """A few tests of every codec under one of compute-sanitizer's tools."""
    sanitizer = environment.find_tool("compute-sanitizer")
    if sanitizer is None:
        return Outcome("skipped", "compute-sanitizer is not here")
    there = [name for name in FEW_TESTS if place.program(name).is_file()]
    if not there:
        return Outcome("skipped", "no tests are built")
    for name in there:
        ran = place.run([sanitizer, "--tool", tool, "--error-exitcode", FOUND_ERRORS, place.program(name),
                         "--gtest_brief=1", f"--gtest_filter={FEW_TESTS[name]}"])  # fmt: skip
        errors = re.findall(r"=+ .*SUMMARY: .*", ran.text)
        refused = None if errors or ran.timed_out else CANNOT_RUN.search(ran.text)
        if refused:
            line = next(line for line in ran.text.splitlines() if refused.group() in line)
            return Outcome("skipped", f"compute-sanitizer cannot run here: {line.strip('= ')[:120]}")
        if ran.code != 0:
            return Outcome("FAILED", f"{name}: {errors[-1].strip('= ') if errors else ran.why()}")
    return Outcome("ok", ", ".join(there))


# -- measurements --------------------------------------------------------------------------------------------------

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
    return Outcome("ok", f"{plural(len(records), 'point')}, {detail}", records)


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
    return Outcome("ok", f"{plural(len(rows), 'row')}, {detail}", rows)


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


# -- all of them ---------------------------------------------------------------------------------------------------


def test(program, minutes):
    return Step(f"test/{program}", "its tests", minutes, lambda place: work_test(program, place), program=program)


def sanitizer(tool):
    return Step(f"sanitizer/{tool}", "a few tests of every codec under compute-sanitizer", 3,
                lambda place: work_sanitizer(tool, place), gpu_only=True)  # fmt: skip


def experiment(name, what, minutes, read, size="64MiB", step=None):
    return Step(step or f"experiment/{name}", what, minutes, lambda place: work_experiment(name, size, read, place),
                program="tuck-experiments")  # fmt: skip


def worst(figure):
    return lambda records: read_worst(figure, records)


STEPS = (
    experiment("copy", "copies on the device and over the link", 1, read_copies, "256MiB", "copy"),
    test("device_test", 5), test("batch_test", 4), test("stages_test", 2), test("swap_test", 4),
    test("device_bench_test", 2), test("gpu_gzip_device_test", 1), test("kv_pool_test", 1),
    test("evicting_pool_test", 1), test("torch_allocator_test", 1),
    Step("examples", "the example programs", 2, work_examples),
    sanitizer("memcheck"), sanitizer("racecheck"), sanitizer("initcheck"), sanitizer("synccheck"),
    experiment("look_back", "ZVC by small chunks, where look-back decides", 1,
               lambda records: read_best("chunks_per_us", records)),
    experiment("chunks", "each codec at six sparsities, by chunk size", 4, worst("R")),
    experiment("threads", "ZVC's block coder by 128, 256 and 512 threads", 1, worst("R")),
    experiment("ablation", "ZVC with checksums, other alignments, counting alone", 1, worst("R")),
    experiment("blocks", "swapping out by 1 to 64 blocks, alone and beside a kernel", 2, worst("of_link")),
    experiment("latency", "short calls: alone, in a row, in a graph, in a batch", 1, read_shortest),
    Step("sweep", "tuck-bench --quick", 3, work_sweep, program="tuck-bench"),
    experiment("swap", "swapping out and in by each path", 2, worst("of_link"), "256MiB", "swap"),
    Step("peers", "nvCOMP, where it was found, and CUB beside", 2, work_peers, gpu_only=True, program="tuck-bench"),
    Step("ncu", "Nsight Compute on the two kernels of the least R", 2, work_ncu, gpu_only=True, program="tuck-bench"),
)  # fmt: skip


def program_names():
    """Of all programs that steps run."""
    return sorted({step.program for step in STEPS if step.program} | {name for name, *_ in EXAMPLES})


def chosen(names):
    """The steps of these names or groups, in their own order; raises ValueError about one that is none."""
    if not names:
        return list(STEPS)
    for name in names:
        if not any(is_of(step, name) for step in STEPS):
            raise ValueError(f"{name} is no step; --list has them")
    return [step for step in STEPS if any(is_of(step, name) for name in names)]


def is_of(step, name):
    return step.name == name or step.name.startswith(f"{name}/")
