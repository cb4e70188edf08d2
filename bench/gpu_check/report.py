"""What was found: a JSON file that is whole after every step, and a summary for people."""

import json
import os
import tempfile
from pathlib import Path

import predictions

SCHEMA = "tuck-gpu-check/1"
IDENTITY = {"gpu": "GPU", "commit": "commit", "programs": "set of programs"}
RESULTS = ("ok", "FAILED", "skipped")

class BadReport(Exception):
    """A file that cannot be gone on with, and why."""


def fresh(environment, minutes, date):
    return {"schema": SCHEMA, "complete": False, "date": date, "minutes": minutes, "environment": environment,
            "steps": []}  # fmt: skip


def read(path, environment):
    """The report in a file, to be gone on with here. Raises BadReport."""
    try:
        report = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadReport(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise BadReport(f"{path} is not JSON: {error}") from error
    check_shape(path, report)
    try:
        summary(report)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise BadReport(f"{path} has figures that cannot be read: {error!r}") from error
    for key, name in IDENTITY.items():
        there, here = report["environment"].get(key), environment.get(key)
        if there != here:
            raise BadReport(f"{path} was made with another {name}: {there or 'none'}, and here it is {here or 'none'}")
    return report


def latest(paths, environment):
    """The path of the last report that was made here; None where there is none."""
    for path in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            read(path, environment)
        except BadReport:
            continue
        return path
    return None


def check_shape(path, report):
    if not isinstance(report, dict) or report.get("schema") != SCHEMA:
        raise BadReport(f"{path} is no file of {SCHEMA}")
    steps = report.get("steps")
    if not isinstance(report.get("environment"), dict) or not isinstance(steps, list):
        raise BadReport(f"{path} has no environment or no steps")
    for step in steps:
        if not isinstance(step, dict) or not isinstance(step.get("name"), str) or step.get("result") not in RESULTS:
            raise BadReport(f"{path} has a step that is none: {str(step)[:80]}")
        figures = step.get("figures")
        if not isinstance(figures, list) or not all(isinstance(figure, dict) for figure in figures):
            raise BadReport(f"{path} has figures that cannot be read: those of {step['name']}")
    if len({step["name"] for step in steps}) != len(steps):
        raise BadReport(f"{path} has a step twice")
    if not isinstance(report.get("predictions", {}), dict):
        raise BadReport(f"{path} has predictions that cannot be read")


def write(path, text):
    """The whole text is there, or what was there before. Raises OSError."""
    handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise


def as_text(report):
    """As JSON, with a line for each figure."""
    head = json.dumps({key: value for key, value in report.items() if key != "steps"}, indent=1)
    steps = ",\n".join(json.dumps(step | {"figures": 0})[: -len("0}")] + lines(step["figures"]) + "}"
                       for step in report["steps"])  # fmt: skip
    return head[: -len("\n}")] + f',\n "steps": [\n{steps}\n]}}\n'


def lines(figures):
    return "[" + ",".join("\n  " + json.dumps(figure) for figure in figures) + "]"


def save(path, report):
    """The report, and the summary beside it."""
    write(path, as_text(report))
    try:
        text = summary(report)
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # the steps that follow are worth more
        text = f"{steps_table(report)}\nNo summary can be made of these figures: {error!r}\n"
    write(path.with_suffix(".txt"), text)


# -- the summary ---------------------------------------------------------------------------------------------------


def figures_of(report, name):
    return next((s["figures"] for s in report["steps"] if s["name"] == name and s.get("figures")), [])


def summary(report):
    parts = [head(report), steps_table(report)]
    if report["environment"]["kernels"] == "gpu":
        tables = (machine_table, copy_table, sweep_table, swap_table, blocks_table, latency_table, python_table,
                  model_table)
        parts += [make(report) for make in tables]
    else:
        parts.append("No GPU has run this: there are no speeds here.\n")
    return "\n".join(part for part in parts if part)


def head(report):
    e = report["environment"]
    device = f"{e['gpu']}, driver {e['driver']}, CUDA {e['cuda']}" if e["gpu"] else "no GPU"
    if e["kernels"] == "simulator":
        device += "; kernels on the simulator"
    done = "" if report["complete"] else "NOT COMPLETE: --resume goes on with what is missing.\n"
    clocks = f"clocks at most {e['highest_clocks']}\n" if e["highest_clocks"] else ""
    machine = f"{device}\n{clocks}{e['cpu']}, {e['cores']} cores\n"
    return f"tuck {e['version']} at {e['commit']}, {report['date']}\n{machine}{e['command']}\n{done}"


def line_of(step):
    """A step as one line, as it is shown while it runs too."""
    seconds = f"{step['seconds']:.0f} s" if step["result"] != "skipped" else ""
    return f"{step['name']:<25} {step['result']:<7} {seconds:>6}  {step['detail']}".rstrip()


def steps_table(report):
    return "".join(line_of(step) + "\n" for step in report["steps"])


def table(title, header, rows):
    """Columns as wide as they must be; '' where there are no rows."""
    if not rows:
        return ""
    lines = [header, *rows]
    widths = [max(len(str(line[i])) for line in lines) for i in range(len(header))]
    text = ("  ".join(str(cell).ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)
    return f"{title}\n" + "".join(f"  {line}\n" for line in text)


def number(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def copy_table(report):
    rows = [(r["what"], f"{r['raw_bytes'] / 2**20:g} MiB", number(r["gb_per_s"], 1))
            for r in figures_of(report, "copy")]
    return table("Copies: GB/s of what is copied", ("what", "size", "GB/s"), rows)


def sweep_table(report):
    rows = [(r.get("recording") or r["pattern"], r["codec"] + chunks_of(r), r["type"], r["operation"],
             f"{r['raw_bytes'] / 2**20:g} MiB", number(r["sparsity"]), number(r["ratio"]), number(r["gb_per_s"], 1),
             number(r["R"]))
            for step in report["steps"] if step["name"].split("/")[0] in ("dense", "codecs", "sweep", "peers", "ans")
            for r in step["figures"] if r["raw_bytes"] >= 2**20 and r["operation"] != "copy"]
    return table("Codecs and peers, of 1 MiB and more",
                 ("tensor", "codec", "type", "", "size", "zeros", "ratio", "GB/s", "R"), rows)


def chunks_of(row):
    return f" by {row['chunk_bytes'] >> 10} KiB" if row.get("chunk_bytes") else ""


def machine_table(report):
    rows = [(r["what"].replace("_", " "), r.get("instructions", ""), number(r.get("latency_clocks"), 1),
             number(r.get("clocks_each"), 3), number(r.get("bytes_a_clock"), 0), number(r.get("of_asked")))
            for r in figures_of(report, "machine")]
    return table("Clocks of a step of a chain, and of each of 32 warps; bytes a clock; sleep, over what was asked",
                 ("what", "instructions", "latency", "each", "bytes", "of asked"), rows)


def model_table(report):
    rows = [(predictions.name(row), number(row["sparsity"]), number(row["median_seconds"] * 1e6, 1),
             number(seconds * 1e6, 1), number(seconds / row["median_seconds"]))
            for row, seconds in predictions.pairs(report)]
    return table("Times, measured and predicted, in microseconds",
                 ("what", "zeros", "measured", "predicted", "predicted / measured"), rows) + predictions.errors(report)


def swap_table(report):
    rows = [(r["path"], r["operation"], number(r["sparsity"]), number(r["gb_per_s"], 1), number(r["of_link"]))
            for r in figures_of(report, "swap")]
    return table("Swapping: GB/s of raw bytes; of link: what crossed it, over what a copy would have moved",
                 ("path", "", "zeros", "GB/s", "of link"), rows)


def blocks_table(report):
    rows = [(r["max_blocks"], "yes" if r["beside"] else "no", number(r["sparsity"]), number(r["gb_per_s"], 1),
             number(r["of_link"]), number(r.get("processors_taken"), 1))
            for r in figures_of(report, "experiment/blocks")]
    return table("The direct path by blocks, alone and beside a kernel that computes",
                 ("blocks", "beside", "zeros", "GB/s", "of link", "SMs taken"), rows)


def latency_table(report):
    rows = [(f"{r['raw_bytes'] >> 10} KiB", r["operation"], r["way"],
             number(r["median_seconds"] and r["median_seconds"] * 1e6, 1))
            for r in figures_of(report, "experiment/latency")]
    return table("Short calls, microseconds each",
                 ("size", "", "way", "us"), rows)


def python_table(report):
    rows = [(r["codec"], r["operation"], f"{r['raw_bytes'] / 2**20:g} MiB", number(r["ratio"]),
             number(r["gb_per_s"], 1), number(r["call_seconds"] * 1e6, 1)) for r in figures_of(report, "python")]
    return table("Calls of the Python package on f32: GB/s of the GPU, in a graph; microseconds until one returns",
                 ("codec", "", "size", "ratio", "GB/s", "us"), rows)
