"""Running programs: with a time limit that nothing outlives, and a log of all that they print."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass

GRACE = 5  # seconds from a polite signal to the one that cannot be refused


@dataclass(frozen=True)
class Ran:
    code: "int | None"  # None: it was stopped at its limit
    text: str  # standard output and standard error, as they came
    seconds: float

    @property
    def timed_out(self):
        return self.code is None

    def why(self):
        """How it ended, in words, with the last thing that it said."""
        if self.timed_out:
            return f"stopped at its limit, after {self.seconds:.0f} s"
        ended = f"ended by {signal_name(-self.code)}" if self.code < 0 else f"exit code {self.code}"
        said = [line.strip() for line in self.text.splitlines() if line.strip()]
        return f"{ended}: {said[-1][:160]}" if said else ended


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Running:
    """A command that was started, and appends what it prints to the file `log`. Raises OSError where it cannot be."""

    def __init__(self, command, log, env=None):
        with open(log, "ab") as out:
            out.write(f"$ {' '.join(map(str, command))}\n".encode())
            self.log, self.begin_of_text, self.begin = log, out.tell(), time.monotonic()
            out.flush()
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, env={**os.environ, **(env or {})},
                                            start_new_session=True)  # fmt: skip

    def end(self, limit):
        """Waits until so many seconds after the start. It, and what it has started, is gone after that."""
        try:
            code = self.process.wait(timeout=max(self.begin + limit - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            stop(self.process)
        seconds = time.monotonic() - self.begin
        with open(self.log, "rb") as written:
            written.seek(self.begin_of_text)
            return Ran(code, written.read().decode("utf-8", "replace"), seconds)


def run(command, limit, log, env=None):
    """Runs a command for at most `limit` seconds. Raises OSError where it cannot be started."""
    return Running(command, log, env).end(limit)


def run_together(commands, limit, log):
    """The same for several at once, pairs of a command and its environment, with logs beside `log` but for the first."""
    running = []
    try:
        for i, (command, env) in enumerate(commands):
            running.append(Running(command, log.with_suffix(f".{i}.log") if i else log, env))
        return [one.end(limit) for one in running]
    finally:
        for one in running:
            if one.process.poll() is None:
                stop(one.process)


def stop(process):
    """Ends the process, if it runs, and all that it has left in its group."""
    if process.poll() is None:
        signal_group(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=GRACE)
        except subprocess.TimeoutExpired:
            pass  # it has had its chance
    signal_group(process.pid, signal.SIGKILL)
    try:
        process.wait(timeout=GRACE)
    except subprocess.TimeoutExpired:
        pass  # stuck in a driver, where no signal reaches it; the check goes on


def signal_group(group, number):
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass  # all of it is gone already
