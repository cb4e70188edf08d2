"""What a step of a check is, where it works, and what becomes of it."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import programs


@dataclass(frozen=True)
class Outcome:
    result: str  # ok, FAILED or skipped
    detail: str = ""
    cut_off: bool = False  # it was stopped at its limit


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
    recordings: "Path | None" = None  # a folder of dense tensors besides
    figures: list = field(default_factory=list)  # what was measured: kept, however the step ends

    @property
    def simulated(self):
        return self.kernels == "simulator"

    def program(self, name):
        return self.folder / "bin" / name

    def run(self, command, env=None):
        return programs.run(command, self.seconds_left(), self.log, env)

    def run_together(self, commands):
        return programs.run_together(commands, self.seconds_left(), self.log)

    def seconds_left(self):
        return max(self.deadline - time.monotonic(), 0.01)


@dataclass(frozen=True)
class Step:
    name: str
    what: str
    seconds: float  # at most
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
    return Outcome("FAILED", ran.why(), ran.timed_out)


def plural(count, what):
    return f"{count} {what}{'' if count == 1 else 's'}"
