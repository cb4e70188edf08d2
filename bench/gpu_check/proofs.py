"""Does it work? The tests, the examples, and a few tests under compute-sanitizer."""

import json
import os
import re

import environment
from step import Outcome, failed

MOST_SHARDS = 8  # of a test program

# A few small tests of every codec: for compute-sanitizer and the simulator, which take long. ctest has all of them on
# the simulator.
FEW_TESTS = {
    "device_test": "device_suite/*.options_make*:device_suite/*.any_range*:append_suite/*:frame_buffer_suite/*",
    "batch_test": "device_batch_suite/*.a_room_that*:device_batch_suite/*.a_corrupt_frame*",
    "block_test": "own_stages.*:block_transforms/*",
    "delta_test": "device_delta.*:device_delta_batches/*",
    "swap_test": "swap_stream.many_at_once*:swap_stream.a_frame_that*",
}


def work_test(program, place):
    """A GoogleTest program: all of it, by as many processes as half of the processors; on the simulator, which is slow
    and where ctest runs all, one of them, with an eighth of the tests that compute-sanitizer gets."""
    library = place.folder / "lib" / "libtuck_torch.so"
    env = {"TUCK_TORCH_LIBRARY": str(library)} if library.is_file() else {}
    shards = MOST_SHARDS if place.simulated else max(min((os.cpu_count() or 1) // 2, MOST_SHARDS), 1)
    results = [place.scratch / f"tests.{i}.json" for i in range(1 if place.simulated else shards)]
    few = ["--gtest_filter=" + FEW_TESTS.get(program, "*")] if place.simulated else []
    ran = place.run_together([
        ([place.program(program), f"--gtest_output=json:{result}", *few],
         env | ({"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(i)} if shards > 1 else {}))
        for i, result in enumerate(results)])  # fmt: skip
    worst = max(ran, key=lambda one: (one.code != 0, one.timed_out))
    try:
        tests = {(test["classname"], test["name"]): test for result in results for test in tests_in(result)}
    except (OSError, ValueError, KeyError):  # it ended before it wrote them
        broken = [why_ended(one) for one in ran if unfinished_test(one.text)]
        return Outcome("FAILED", "; ".join(broken)) if broken else failed(worst)
    bad = [f"{test['classname']}.{test['name']}" for test in tests.values() if test.get("failures")]
    skipped = sum(test["result"] == "SKIPPED" for test in tests.values())
    counts = f"{len(tests) - len(bad) - skipped} passed, {len(bad)} failed, {skipped} skipped"
    if worst.code != 0 or bad or not tests:
        return Outcome("FAILED", f"{counts}: {', '.join(bad[:3])}" if bad else f"{counts}; {worst.why()}")
    return Outcome("ok", counts + ("; a few of them, ctest has all" if few else ""))


def tests_in(result):
    suites = json.loads(result.read_text(encoding="utf-8"))["testsuites"]
    return [test for suite in suites for test in suite["testsuite"] if test["status"] == "RUN"]


def unfinished_test(text):
    """The test that a GoogleTest program has begun and not ended; '' if there is none."""
    _, begun, after = text.rpartition("[ RUN      ] ")
    name, _, printed = after.partition("\n")
    return name if begun and f"] {name}" not in printed else ""


def why_ended(ran):
    """How a GoogleTest program ended, with the test that it was running."""
    test = unfinished_test(ran.text)
    return f"{test}: {ran.why()}" if test else ran.why()


EXAMPLES = (("any_frame",), ("fused_relu",), ("small_tensors",), ("evicting_pool",), ("kv_cache", "DATA/kv"),
            ("inflate_batch", "--on", "device", "DATA"), ("swap_training", "--epochs", "2"))  # fmt: skip


def work_examples(place):
    """The example programs, each of which checks what it does. One takes long on the simulator, and ctest has it."""
    bad, missing = [], []
    for name, *words in EXAMPLES:
        if name == "kv_cache" and place.simulated:
            continue
        if not place.program(name).is_file():
            missing.append(name)
            continue
        words = [place.data / word[5:] if word.startswith("DATA") else word for word in words]
        ran = place.run([place.program(name), *words])
        if ran.code != 0:
            bad.append(f"{name}: {ran.why()}")
    if bad:
        return Outcome("FAILED", "; ".join(bad))
    run = len(EXAMPLES) - len(missing) - place.simulated
    if run <= 0:
        return Outcome("skipped", "no example is built")
    return Outcome("ok", f"{run} programs" + (f"; not built: {', '.join(missing)}" if missing else ""))


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
    commands = [([sanitizer, "--tool", tool, "--error-exitcode", FOUND_ERRORS, place.program(name),
                  f"--gtest_filter={FEW_TESTS[name]}"], {}) for name in there]  # fmt: skip
    for name, ran in zip(there, place.run_together(commands)):
        errors = re.findall(r"=+ .*SUMMARY: .*", ran.text)
        refused = None if errors or ran.timed_out else CANNOT_RUN.search(ran.text)
        if refused:
            line = next(line for line in ran.text.splitlines() if refused.group() in line)
            return Outcome("skipped", f"compute-sanitizer cannot run here: {line.strip('= ')[:120]}")
        if ran.code != 0:
            return Outcome("FAILED", f"{name}: {errors[-1].strip('= ') if errors else why_ended(ran)}")
    return Outcome("ok", ", ".join(there))
