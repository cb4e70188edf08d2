#!/usr/bin/env python3
"""Lines for the table of a GPU in test/ptx/time/machines.cpp, from the step `machine` of a report: constants.py REPORT.
What is measured here is a start for the model, which also has waits of its own: look at each before you take it."""

import json
import re
import sys
from pathlib import Path

MACHINES = Path(__file__).resolve().parents[2] / "test" / "ptx" / "time" / "machines.cpp"
SCHEDULERS = 4

# A constant, the record that tells it, the figure, and what it is made to: of a record of two instructions the latency
# of the other one is taken off; a pipe that each scheduler has is four times as long in use as that of all together.
CONSTANTS = (
    ("alu", "logic", "latency_clocks", None), ("alu_every", "logic", "clocks_each", SCHEDULERS),
    ("fma_every", "mad", "clocks_each", SCHEDULERS), ("wide", "multiply_high", "latency_clocks", None),
    ("fp32_every", "fma_f32", "clocks_each", SCHEDULERS), ("fp64_every", "add_f64", "clocks_each", SCHEDULERS),
    ("fp64", "add_f64", "latency_clocks", None), ("slow", "popc", "latency_clocks", None),
    ("slow_every", "popc", "clocks_each", SCHEDULERS), ("mufu", "exp2_f32", "latency_clocks", None),
    ("vote", "vote", "latency_clocks", "logic"), ("match", "match", "latency_clocks", None),
    ("shuffle", "shuffle", "latency_clocks", None), ("shuffle_every", "shuffle", "clocks_each", 1),
    ("shared", "shared_load", "latency_clocks", None), ("wavefront_every", "shared_load", "clocks_each", 1),
    ("shared_atomic", "shared_atomic", "latency_clocks", None),
    ("atomic_wavefront_every", "shared_atomic", "clocks_each", 1),
    ("barrier", "barrier", "latency_clocks", None), ("fence", "fence_after_store", "latency_clocks", None),
    ("first_code", "logic", "first_code_clocks", None), ("sleep", "sleep", "of_asked", None),
    ("l1", "load, first level", "latency_clocks", None), ("l2", "load, second level", "latency_clocks", None),
    ("dram", "load, DRAM", "latency_clocks", None), ("atomic", "atomic, second level", "latency_clocks", None),
    ("atomic_every", "draw from one word, 1024 blocks", "clocks_each", 1),
    ("port_bytes", "port", "bytes_a_clock", None), ("l2_bytes", "second level", "bytes_a_clock", None),
    ("first_blocks", "between the first blocks", "latency_clocks", None),
    ("next_block", "next block", "latency_clocks", None),
)  # fmt: skip
NOT_MEASURED = ("special", "redux", "to_guard", "queue", "bulk", "warp_sync", "taken", "not_taken", "divergent",
                "launch_us", "dram_bytes")  # fmt: skip


def measured(records):
    """{constant: value} of what these records tell."""
    of = {record["what"]: record for record in records}
    found = {}
    for name, what, figure, made in CONSTANTS:
        value = of.get(what, {}).get(figure)
        if isinstance(made, str):
            other = of.get(made, {}).get(figure)
            value = None if value is None or other is None else value - other
        elif value is not None:
            value *= made or 1
        if value is not None:
            found[name] = value
    return found


def earlier(text):
    """{constant: value} that the H100 has in machines.cpp."""
    body = text[text.index("machine h100()") :]
    body = body[: body.index("return m;")]
    return {name: float(value) for name, value in re.findall(r"m\.(\w+) = ([\d.]+)[,;]", body)}


def lines(report, machines):
    """A line for each constant that a report has measured, with the one of the H100's table beside it."""
    records = next((step["figures"] for step in report["steps"] if step["name"] == "machine"), [])
    there = earlier(machines)
    return [f"m.{name} = {value:.4g};  // measured; the H100's is {there.get(name, float('nan')):g}"
            for name, value in measured(records).items()]  # fmt: skip


def main():
    if len(sys.argv) != 2:
        print("constants.py REPORT.json", file=sys.stderr)
        return 2
    try:
        report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        text = MACHINES.read_text(encoding="utf-8") if MACHINES.is_file() else "machine h100() return m;"
        made = lines(report, text)
    except (OSError, KeyError, TypeError, ValueError) as error:
        print(f"constants.py: {sys.argv[1]} cannot be read: {error!r}", file=sys.stderr)
        return 2
    if not made:
        print(f"constants.py: {sys.argv[1]} has no figures of the step machine", file=sys.stderr)
        return 1
    print("\n".join(made))
    print(f"// not measured: {', '.join(NOT_MEASURED)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
