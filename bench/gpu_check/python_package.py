"""Does the Python package work with arrays on a GPU? The package's own test, and times of calls."""

import json
import re
import shutil
import sys

from step import Outcome, failed

TEST = "python_device_test.py"
PROBE = """import numpy, tuck.device
tuck.device._library()
try:
    import torch
    print("torch", torch.cuda.is_available())
except ImportError:
    pass"""


def work_python(place):
    """The tests, and times of 64 MiB by each codec."""
    package = place.folder / "python"
    extensions = sorted(package.glob("tuck/_tuck.*.so"))
    if not extensions:
        why = package / "why_not.txt"
        return Outcome("skipped", why.read_text(encoding="utf-8").strip() if why.is_file() else
                       "the Python package is not built: build the target gpu_check")  # fmt: skip
    env = {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    python, reasons = find_python(place, version_of(extensions[0]), env)
    if python is None:
        return Outcome("skipped", f"the package, for Python {version_of(extensions[0])}, cannot be imported: {reasons}")
    test = place.folder / "gpu_check" / TEST
    ran = place.run([python, test, "--verbose"], env)
    if ran.code == 77:
        return Outcome("skipped", ran.text.strip().splitlines()[-1])
    counts = read_counts(ran.text)
    if ran.code != 0:
        return Outcome("FAILED", counts, False) if counts else failed(ran)
    timed = place.run([python, test, "--times", 1 << (16 if place.simulated else 26)], env)
    place.figures.extend(json.loads(line) for line in timed.text.splitlines() if line.startswith('{"codec"'))
    if timed.code != 0:
        return failed(timed)
    return Outcome("ok", counts + ("" if place.simulated else read_best(place.figures)))


def version_of(extension):
    """3.11 of _tuck.cpython-311-x86_64-linux-gnu.so."""
    match = re.search(r"cpython-(\d)(\d+)", extension.name)
    return ".".join(match.groups()) if match else "3"


def find_python(place, version, env):
    """The first Python here that can import the package, rather one with a PyTorch that sees a GPU; None and why."""
    reasons, found = [], None
    for python in dict.fromkeys([sys.executable, *map(shutil.which, (f"python{version}", "python3"))]):
        if python is None:
            continue
        ran = place.run([python, "-c", PROBE], env)
        if ran.code == 0 and ("torch True" in ran.text or place.simulated):
            return python, ""
        found = found or (python if ran.code == 0 else None)
        reasons.append(ran.why())
    return found, reasons[0] if reasons else "there is no Python"


def read_counts(text):
    """14 passed, 1 failed, 3 skipped (why): the names of what failed; '' where unittest said nothing."""
    ran = re.search(r"^Ran (\d+) test", text, re.MULTILINE)
    if not ran:
        return ""
    bad = list(dict.fromkeys(re.findall(r"^(?:FAIL|ERROR): (\w+)", text, re.MULTILINE)))
    why = re.findall(r" \.\.\. skipped [\"'](.*)[\"']$", text, re.MULTILINE)
    counts = f"{int(ran[1]) - len(bad) - len(why)} passed, {len(bad)} failed, {len(why)} skipped"
    counts += f" ({'; '.join(dict.fromkeys(why))})" if why else ""
    return counts + (f": {', '.join(bad[:3])}" if bad else "")


def read_best(rows):
    best = max(rows, key=lambda row: row["gb_per_s"])
    return f"; most: {best['operation']} of {best['codec']}, {best['gb_per_s']:.0f} GB/s"
