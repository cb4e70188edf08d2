#!/usr/bin/env python3
"""Does tuck work on this machine's GPU, and how fast is it? Tests, compute-sanitizer, experiments and benchmarks, in
nine minutes, the most telling first; one JSON file and one summary. Without a GPU the kernels run on the simulator, and
what needs a GPU is skipped by name.

Exit code: 0 all is well or skipped, 1 something failed, 2 it cannot be done like that, 130 interrupted.
"""

import argparse
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ among the sources

import environment
import predictions
import programs
import report as reports
import steps
from step import Outcome, Place

HERE = Path(__file__).resolve().parent
CARRIED = HERE.parent if (HERE.parent / "bin").is_dir() else None  # a build's folder, with these scripts in it
ROOT = HERE.parents[1]
RESULTS = ROOT / "bench" / "results"
DATA = CARRIED / "data" if CARRIED else ROOT / "examples" / "data"
PREDICTIONS = max((HERE if CARRIED else RESULTS).glob("model-today-*.json"), default=None)
FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130
BUILD_LIMIT = 4 * 3600  # seconds: fat binaries on two cores take hours


class BadUsage(Exception):
    """It cannot be done like that, and why."""


class CannotBuild(Exception):
    """What the build said last."""


def minutes_of(text):
    minutes = float(text)
    if not 0 < minutes < math.inf:
        raise ValueError
    return minutes


minutes_of.__name__ = "number of minutes"  # argparse says "invalid ... value"


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--build", metavar="DIR", type=Path,
                        help="build the programs there (default: build/cuda, without a GPU build/sim)")
    source.add_argument("--prebuilt", metavar="DIR", type=Path,
                        help="take programs that are there: a build's folder, with the target gpu_check built; its "
                             "bin/, lib/, data/ and gpu_check/ may be carried anywhere")
    parser.add_argument("--sim", action="store_true", help="run the kernels on the simulator, GPU or not")
    parser.add_argument("--minutes", metavar="N", type=minutes_of, default=steps.MINUTES,
                        help="end after so many, building aside (default: 9)")
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--out", metavar="FILE", type=Path,
                        help="the JSON file (default: bench/results/<gpu>-<date>.json, without a GPU where the "
                             "programs are); beside it .txt, the summary, and .logs, what programs said")
    target.add_argument("--resume", metavar="FILE", type=Path, nargs="?", const=Path(),
                        help="go on with a file: what it lacks, then what was skipped or failed; without a name the "
                             "latest one of this GPU, commit and programs, or a new one if there is none")
    parser.add_argument("--predictions", metavar="FILE", type=Path,
                        help="what tuck-bench --where model or model.py wrote: each time stands beside the one that is "
                             "measured, and the errors at the end (default: model-today-*.json in bench/results)")
    parser.add_argument("--recordings", metavar="DIR", type=Path,
                        help="dense tensors to measure besides, as weights_bf16.npy and keys_f8e4m3.npy: the type is "
                             "the last part of the name")
    parser.add_argument("--only", metavar="STEP,...", type=lambda text: [s for s in text.split(",") if s], default=[],
                        help="only these steps or groups of them, as test or sanitizer/memcheck, done or not")
    parser.add_argument("--list", action="store_true", help="say what there is to do, and stop")
    options = parser.parse_args(arguments)
    if options.recordings is not None and not any(options.recordings.glob("*.npy")):
        parser.error(f"--recordings {options.recordings} is no folder with .npy files")
    if CARRIED and not (options.build or options.prebuilt):
        options.prebuilt = CARRIED
    return options


def show_list():
    print("Steps, and the seconds that each may take at most:")
    for step in steps.STEPS:
        print(f"  {step.name:<26} {step.seconds:4.0f}  {step.what}{' (GPU only)' if step.gpu_only else ''}")


# -- the programs --------------------------------------------------------------------------------------------------


def has_gpu(log):
    return bool(environment.query_gpus(log)) or os.path.exists("/dev/nvidiactl")


def build(folder, simulated, log):
    """Builds the programs. Gives the step's entry; raises CannotBuild."""
    cmake = shutil.which("cmake")
    if cmake is None:
        raise BadUsage("there is no cmake to build with; --prebuilt DIR takes programs that are there")
    print(f"building in {folder}, which may take long", flush=True)
    begin = time.monotonic()
    commands = [[cmake, "--build", folder, "--target", "gpu_check"]]
    if not (folder / "CMakeCache.txt").is_file():
        commands.insert(0, [cmake, "-S", ROOT, "--preset", "sim" if simulated else "cuda", "-B", folder])
    for command in commands:
        ran = programs.run(command, BUILD_LIMIT, log)
        if ran.code != 0:
            tail = "\n".join(ran.text.splitlines()[-20:])
            raise CannotBuild(f"the programs cannot be built ({ran.why()}); the last that was said:\n{tail}")
    return entry("build", Outcome("ok", "the target gpu_check"), time.monotonic() - begin, BUILD_LIMIT)


def take_programs(options, log):
    """The folder of the programs, and the entry of the step that has built them."""
    if options.prebuilt:
        outcome = Outcome("skipped", "the programs were built before")
        return options.prebuilt.resolve(), entry("build", outcome, 0, BUILD_LIMIT)
    simulated = options.sim or not has_gpu(log)
    folder = (options.build or ROOT / "build" / ("sim" if simulated else "cuda")).resolve()
    return folder, build(folder, simulated, log)


def look_around(options, folder, log):
    """The environment, and the entry of the step that has looked at it."""
    begin = time.monotonic()
    found = environment.look(folder, steps.program_names(), log, command_line())
    if options.sim and found["kernels"] != "simulator":
        raise BadUsage(f"--sim: the programs in {folder} are for a GPU")
    device = f"{found['gpu']}, {found['processors']} SMs, driver {found['driver']}, CUDA {found['cuda']}"
    detail = {"gpu": device, "simulator": "kernels run on the simulator", "none": "no GPU"}[found["kernels"]]
    outcome = Outcome("ok", f"{detail}; tuck {found['version']} at {found['commit']}")
    return found, entry("environment", outcome, time.monotonic() - begin, 60)


def command_line():
    """What was typed, without directories, which are nobody's business."""
    return " ".join(["gpu_check.py", *(os.path.basename(word.rstrip("/")) if "/" in word else word
                                       for word in sys.argv[1:])])  # fmt: skip


# -- the file ------------------------------------------------------------------------------------------------------


def path_of_results(options, folder, found):
    where = folder if not found["gpu"] else CARRIED or RESULTS
    path = where / f"{start_of_name(found)}-{time.strftime('%Y-%m-%d' if found['gpu'] else '%Y-%m-%dT%H%M%S')}.json"
    if options.resume == Path():  # the latest of here
        options.resume = reports.latest(where.glob(f"{start_of_name(found)}-*.json"), found)
        if options.resume is None and path.exists():  # of another commit or other programs
            path = path.with_name(f"{path.stem}T{time.strftime('%H%M%S')}.json")
    if options.resume or options.out:
        path = (options.resume or options.out).resolve()
        if path.suffix != ".json":
            raise BadUsage(f"{path}: the name ends in .json")
    if path.exists() and not options.resume:
        raise BadUsage(f"{path} is there already: --resume goes on with it, --out takes another name")
    return path


def start_of_name(found):
    return environment.short_name(found["gpu"]) if found["gpu"] else "gpu_check"


def open_report(options, path, found, first_steps):
    """The report to go on with, saved once: a place that cannot be written to is an error now."""
    if options.resume:
        report = reports.read(path, found)
    else:
        report = reports.fresh(found, options.minutes, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        report["steps"] = first_steps
    chosen = options.predictions or (PREDICTIONS if found["gpu"] and "predictions" not in report else None)
    if chosen:
        report["predictions"] = predictions.read(chosen, found["gpu"])
    try:
        logs_of(path).mkdir(exist_ok=True)
        reports.save(path, report)
    except OSError as error:
        raise BadUsage(f"{path} cannot be written: {error.strerror}; --out takes another place") from error
    return report


def logs_of(path):
    return path.with_suffix(".logs")


def entry(name, outcome, seconds, limit, log=None, forgone=False, figures=()):
    return {"name": name, "result": outcome.result, "detail": outcome.detail, "seconds": round(seconds, 2),
            "limit_seconds": round(limit, 2), "forgone": forgone, "cut_off": outcome.cut_off, "log": log,
            "figures": list(figures)}  # fmt: skip


def better(kept, made):
    """What to keep of a step that was done again: no figures are lost."""
    if not kept or not kept["figures"] and not made["forgone"]:
        return made
    if made["result"] == "skipped" and kept["result"] != "skipped":
        return kept
    if made["result"] == "ok" or len(made["figures"]) >= len(kept["figures"]):
        return made
    return made | {"figures": kept["figures"], "detail": f"{made['detail']}; the figures are those of an earlier try"}


def put(report, made):
    """Adds a step's entry, or replaces the one that there was; the steps keep their order."""
    order = ["build", "environment", *(step.name for step in steps.STEPS)]
    there = [step for step in report["steps"] if step["name"] != made["name"] and step["name"] in order]
    report["steps"] = sorted([*there, made], key=lambda step: order.index(step["name"]))
    done = {step["name"] for step in report["steps"] if not step["forgone"]}
    report["complete"] = done.issuperset(order)


# -- the course of a check -----------------------------------------------------------------------------------------


class Check:
    """Steps that are done one after the other until the time is over."""

    def __init__(self, options, folder, path, report):
        self.folder, self.path, self.report = folder, path, report
        self.recordings = options.recordings
        self.seconds = 60 * options.minutes
        self.end = time.monotonic() + self.seconds
        self.again = bool(options.only)

    def results(self):
        return {step["name"]: step for step in self.report["steps"]}

    def in_order(self, wanted):
        """What was never done comes before what failed: that may hang again."""
        done = self.results()
        return sorted(wanted, key=lambda step: done.get(step.name, {}).get("result") == "FAILED")

    def do(self, step):
        kept = self.results().get(step.name)
        if kept and kept["result"] == "ok" and not self.again:
            return show(kept, " (kept)")
        begin = time.monotonic()
        # A GPU is lent for minutes; the simulator's steps may take all of the time.
        limit = self.seconds if self.report["environment"]["kernels"] == "simulator" else step.seconds
        log = logs_of(self.path) / f"{step.name.replace('/', '-')}.log"
        figures = []
        if begin >= self.end:
            return self.keep(kept, entry(step.name, Outcome("skipped", "the time is over"), 0, limit, forgone=True))
        print_over(f"{step.name:<25} ...")
        outcome, forgone = Outcome("skipped", "interrupted"), True
        try:
            outcome, forgone = self.try_step(step, log, begin, limit, figures)
        finally:
            if figures or outcome.detail != "interrupted":
                seconds = time.monotonic() - begin
                made = entry(step.name, outcome, seconds, limit, log.name if log.exists() else None, forgone, figures)
                self.keep(kept, made)
        return made

    def keep(self, kept, made):
        put(self.report, better(kept, made))
        reports.save(self.path, self.report)
        return show(made)

    def try_step(self, step, log, begin, limit, figures):
        """What became of it, and whether it was given up because the time was over."""
        with tempfile.TemporaryDirectory(prefix="gpu_check.") as scratch:
            earlier = {name: entry["figures"] for name, entry in self.results().items()}
            place = Place(self.folder, DATA, self.report["environment"]["kernels"], Path(scratch), log,
                          min(begin + limit, self.end), earlier, self.recordings, figures)  # fmt: skip
            why_not = step.why_not(place)
            if why_not:
                return Outcome("skipped", why_not), False
            log.unlink(missing_ok=True)
            try:
                outcome = step.work(place)
            except Exception as error:  # of what programs wrote, or wrote not: the next steps are worth their time
                outcome = Outcome("FAILED", f"it cannot be run or read: {error!r}")
        if outcome.result == "FAILED" and time.monotonic() >= self.end and begin + limit > self.end:
            return Outcome("skipped", f"the time was over before it was done: {outcome.detail}"), True
        return outcome, False


def print_over(text):
    """A line that the next one takes the place of, where that can be done."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)


def show(made, more=""):
    print_over("")
    print(reports.line_of(made) + more, flush=True)
    return made


def interrupt(number, frame):
    raise KeyboardInterrupt


def check(options):
    try:
        wanted = steps.chosen(options.only)
    except ValueError as error:
        raise BadUsage(f"--only: {error}") from error
    with tempfile.TemporaryDirectory(prefix="gpu_check.") as scratch:
        log = Path(scratch) / "environment.log"
        folder, built = take_programs(options, log)
        found, looked = look_around(options, folder, log)
        path = path_of_results(options, folder, found)
        report = open_report(options, path, found, [built, looked])
        shutil.copy(log, logs_of(path))
    print(f"results go to {path}")
    for made in (built, looked):
        show(made)
    course = Check(options, folder, path, report)
    try:
        for step in course.in_order(wanted):
            course.do(step)
    except KeyboardInterrupt:
        print_over("")
        print(f"interrupted; what was done is kept, and --resume {path} goes on with the rest")
        return INTERRUPTED
    return conclude(path, report)


def conclude(path, report):
    made = [step["result"] for step in report["steps"]]
    counts = ", ".join(f"{made.count(result)} {result}" for result in reports.RESULTS)
    print(predictions.errors(report), end="")
    print(f"{counts}\nresults: {path}\nsummary: {path.with_suffix('.txt')}\nlogs:    {logs_of(path)}")
    if not report["complete"]:
        print(f"Not complete: --resume {path} goes on with the rest.")
    elif "FAILED" in made:
        print(f"--resume {path} tries again what failed.")
    return FAILED if "FAILED" in made else 0


def main(arguments=None):
    options = parse_arguments(arguments)
    if options.list:
        show_list()
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        return check(options)
    except (BadUsage, environment.NoEnvironment, reports.BadReport) as error:
        print(f"gpu_check.py: {error}", file=sys.stderr)
        return BAD_USAGE
    except (CannotBuild, OSError) as error:
        print(f"gpu_check.py: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("gpu_check.py: interrupted before its first step", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
