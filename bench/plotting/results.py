"""What tuck-bench measured, of schema tuck-bench/1, and what of it each plot shows.

Sizes are bytes, times seconds, throughputs 1e9 bytes of the raw tensor a second.
"""

import json
import math
from copy import copy
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from statistics import median
from typing import NamedTuple

from plotting.page import make_styles

NONE = "as it is"  # a swap without a codec
NOISY = 0.05  # of files that do not say which rows are noisy: from this error of the median on


class BadFile(Exception):
    """What is wrong with a file."""


class TooLittle(Exception):
    """What a plot needs and the rows do not have."""


@dataclass(frozen=True)
class Row:
    """One measurement; what was not measured is None."""

    operation: str
    codec: str
    where: str
    raw_bytes: int
    peer: bool = False
    lossy: bool = False
    type: str | None = None
    pattern: str | None = None
    sparsity: float | None = None
    encoded_bytes: float | None = None
    ratio: float | None = None
    runs: int | None = None
    best_seconds: float | None = None
    median_seconds: float | None = None
    median_low_seconds: float | None = None
    median_high_seconds: float | None = None
    noisy: bool | None = None
    cv: float | None = None
    gb_per_s: float | None = None
    max_error: float | None = None
    threads: int | None = None
    cpu_level: str | None = None
    blocks: int | None = None
    chunk_bytes: int | None = None

    @property
    def key(self):
        return (self.peer, self.codec)

    @property
    def share(self):
        """The share of zeros where it was chosen; recordings and fields have the one that they have."""
        return None if self.pattern in ("recorded", "smooth") else self.sparsity

    @property
    def between(self):
        """The least and the greatest time that the median may have, with 95 %. Of files that do not say it, as if times
        were normal: the median's standard error is then 1.25 times the mean's."""
        if self.median_low_seconds and self.median_high_seconds:
            return self.median_low_seconds, self.median_high_seconds
        error = 1.96 * 1.2533 * self.cv / math.sqrt(self.runs) if self.cv and self.runs else 0
        least = max(self.median_seconds * (1 - error), min(self.best_seconds or 0, self.median_seconds))
        return least or self.median_seconds, self.median_seconds * (1 + error)

    @property
    def speeds(self):
        """The same as GB/s."""
        low, high = self.between
        return self.raw_bytes / high * 1e-9, self.raw_bytes / low * 1e-9

    @property
    def is_noisy(self):
        low, high = self.between
        return self.noisy if self.noisy is not None else max(1 - low / self.median_seconds,
                                                             high / self.median_seconds - 1) > NOISY

    @property
    def way(self):
        """How the host or the device ran it, in words."""
        words = [self.cpu_level,
                 self.threads and f"{self.threads} thread{'s' * (self.threads != 1)}",
                 self.blocks and f"{self.blocks} block{'s' * (self.blocks != 1)}",
                 self.chunk_bytes and f"chunks of {human(self.chunk_bytes)}"]  # fmt: skip
        return ", ".join(filter(None, words))


def to_row(where, fields):
    """A row of checked types; `where` names it in what is said of it."""
    if not isinstance(fields, dict):
        raise BadFile(f"{where} is no object")
    known = {}
    for name, kind in Row.__annotations__.items():
        value = fields.get(name)
        if value is None and hasattr(Row, name):
            continue
        if kind in (int, int | None, float | None):
            sound = type(value) in (int, float) and 0 <= value < 1e300
        else:
            sound = isinstance(value, bool if kind in (bool, bool | None) else str)
        if not sound:
            what = f"{name} is {json.dumps(value)[:40]}" if name in fields else f"there is no {name}"
            raise BadFile(f"{where}: {what}")
        known[name] = value
    for name, values in (("operation", ("encode", "decode", "copy")), ("where", ("host", "gpu", "sim", "ptx"))):
        if known[name] not in values:
            raise BadFile(f"{where}: {name} is none of {', '.join(values)}")
    if known["raw_bytes"] <= 0:
        raise BadFile(f"{where}: raw_bytes is 0")
    row = Row(**known)
    if row.median_seconds and row.gb_per_s:
        speed = row.raw_bytes / row.median_seconds * 1e-9
        if not 0.99 < row.gb_per_s / speed < 1.01:
            raise BadFile(f"{where}: gb_per_s is {row.gb_per_s:.4g}, raw_bytes / median_seconds is {speed:.4g} GB/s")
    return row


def of_check(content):
    """What a file of gpu_check has of tuck-bench: its quick sweep and the libraries beside it."""
    environment = content.get("environment")
    if not isinstance(environment, dict) or not isinstance(content.get("steps"), list):
        raise BadFile("it lacks an environment or steps")
    device = {"name": environment.get("gpu"), "driver": environment.get("driver"), "runtime": environment.get("cuda"),
              "clocks": environment.get("highest_clocks")}  # fmt: skip
    figures = {step["name"]: step["figures"] for step in content["steps"]
               if isinstance(step, dict) and isinstance(step.get("name"), str) and isinstance(step.get("figures"), list)}
    peers = [row for row in figures.get("peers", []) if isinstance(row, dict) and row.get("peer")]
    return {"environment": environment | {"device": device, "date": content.get("date"),
                                          "command": "gpu_check.py: tuck-bench --where device --quick"},
            "rows": figures.get("sweep", []) + peers}  # fmt: skip


def content_of(path, *schemas):
    """The object in a JSON file of one of these schemas."""
    try:
        content = json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(getattr(error, "strerror", None) or f"no JSON: {error}") from error
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema not in schemas:
        raise BadFile(f"its schema is {json.dumps(schema)[:40]}, not \"{schemas[0]}\"")
    return content


def read(path):
    """Environment and rows of a file of schema tuck-bench/1, or of gpu_check."""
    content = content_of(path, "tuck-bench/1", "tuck-gpu-check/1")
    if content["schema"] == "tuck-gpu-check/1":
        content = of_check(content)
    environment, rows = content.get("environment"), content.get("rows")
    if not isinstance(environment, dict) or not isinstance(rows, list):
        raise BadFile("it lacks an environment or rows")
    return environment, by_way([to_row(f"row {i}", fields) for i, fields in enumerate(rows)])


def by_way(rows):
    """The rows; where codecs ran in several ways at one place, their names say in which."""
    ways = defaultdict(set)
    coded = [not r.peer and r.operation != "copy" for r in rows]
    for r in compress(rows, coded):
        ways[r.where].add(r.way)
    return [replace(r, codec=f"{r.codec} ({r.way})") if is_coded and r.way and len(ways[r.where]) > 1 else r
            for r, is_coded in zip(rows, coded)]


class Results:
    """The timed rows of one place, of one element type, and how their codecs are drawn."""

    def __init__(self, environment, rows, where, link, wanted_type=None):
        self.environment, self.where, self.link = environment, where, link
        timed = [r for r in rows if r.where == where and r.median_seconds and r.gb_per_s]
        coded = [r for r in timed if r.operation != "copy"]
        self.types = Counter(r.type for r in coded)
        self.type = wanted_type or ("f32" if "f32" in self.types else max(self.types, key=self.types.get, default=None))
        self.rows = [r for r in coded if r.type == self.type]
        copies = defaultdict(list)  # of the same bytes, whatever they are
        for r in timed:
            if r.operation == "copy" and not r.is_noisy:
                copies[r.raw_bytes].append(r.gb_per_s)
        self.copies = sorted((size, median(speeds)) for size, speeds in copies.items())
        self.copy_name = next((r.codec for r in timed if r.operation == "copy"), "copy")
        self.lossy = {r.key for r in rows if r.lossy or r.max_error}
        self.styles = make_styles({r.key for r in rows if r.operation != "copy"})

    def choose(self, sizes, sparsities):
        """Only rows of these sizes and sparsities, where there are some; patterns without a share of zeros are left."""
        for name, wanted, field in (("size", sizes, "raw_bytes"), ("sparsity", sparsities, "share")):
            there = {getattr(r, field) for r in self.rows} - {None}
            if missing := [value for value in wanted or () if value not in there]:
                raise BadFile(f"no row of {self.where} has {name} {shown(name, missing[0])}; there are "
                              + ", ".join(shown(name, value) for value in sorted(there)))
            if wanted:
                self.rows = [r for r in self.rows if getattr(r, field) in (None, *wanted)]

    def by_pattern(self):
        """{pattern: its rows alone}, that with most of them first."""
        found = {}
        patterns = Counter(r.pattern for r in self.rows)
        for pattern in sorted(patterns, key=lambda p: (-patterns[p], p != "clustered", str(p))):
            found[pattern] = copy(self)
            found[pattern].rows = [r for r in self.rows if r.pattern == pattern]
        return found


def shown(name, value):
    return human(value) if name == "size" else f"{value:g}"


def grouped(rows, across, along):
    """{value of `across`: its rows}, ascending, of those that have two or more values of `along`."""
    groups = defaultdict(list)
    for r in rows:
        if getattr(r, along) is not None:
            groups[getattr(r, across)].append(r)
    groups = {value: g for value, g in groups.items() if len({getattr(r, along) for r in g}) > 1}
    if not groups:
        raise TooLittle(f"needs two values of {along.replace('share', 'sparsity')}, all else equal")
    return dict(sorted(groups.items(), key=lambda item: item[0] or 0))


class Point(NamedTuple):
    """A point of a line, and the interval that has it."""

    x: float
    y: float
    low: float
    high: float
    noisy: bool


def series(rows, x, y):
    """{(peer, codec): [Point, ...]}, ascending in x; of rows that share an x the last."""
    points = defaultdict(dict)
    for r in rows:
        at, value = getattr(r, x), getattr(r, y)
        if at is not None and value:
            timed = y == "gb_per_s"
            points[r.key][at] = Point(at, value, *(r.speeds if timed else (value, value)), timed and r.is_noisy)
    return {key: [of_key[at] for at in sorted(of_key)] for key, of_key in points.items()}


def human(size):
    """1536 -> 1.5 KiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if size >= 100 else f"{size:.3g} {unit}"
        size /= 1024


def duration(seconds):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def shares(rows):
    """The share of zeros of the rows: "0.6", "0.611 to 0.618"."""
    found = [f"{f(r.sparsity for r in rows if r.sparsity is not None):.3g}" for f in (min, max)]
    return " to ".join(dict.fromkeys(found))


def point(rows, *fields, others=0):
    """What the rows of a plot share, in words; others: how many points like this the file has besides."""
    row = rows[0]
    words = {
        "type": row.type,
        "pattern": f"{row.pattern} zeros" if row.pattern in ("iid", "clustered") else row.pattern,
        "raw_bytes": human(row.raw_bytes),
        "sparsity": None if row.sparsity is None else f"sparsity {shares(rows)}",
    }
    more = f" (one of {others + 1} in the file)" if others else ""
    return ", ".join(words[f] for f in fields if words[f]) + more


def swaps(results):
    """{(raw bytes, share of zeros): (factor, codec, sure)}: the fastest way out and back, against no codec at all. Not
    sure: by what is known of the times another one, or none, may be as fast. Recordings have no share."""
    halves, found, cells = defaultdict(dict), defaultdict(list), {}
    for r in results.rows:
        if not r.peer and r.key not in results.lossy and r.encoded_bytes and r.sparsity is not None:
            halves[r.raw_bytes, r.share, r.codec][r.operation] = r
    for (size, share, codec), half in halves.items():
        if len(half) == 2:
            encode, decode, link = half["encode"], half["decode"], results.link * 1e9
            times = zip(*(half[way].between for way in ("encode", "decode")))
            high, low = (2 * size / link / (sum(both) + 2 * encode.encoded_bytes / link) for both in times)
            coded = encode.median_seconds + 2 * encode.encoded_bytes / link + decode.median_seconds
            found[size, share].append((2 * size / link / coded, codec, low, high))
    for at, ways in found.items():
        best, *others = sorted([*ways, (1.0, NONE, 1.0, 1.0)], reverse=True)
        cells[at] = (*best[:2], all(other[3] < best[2] for other in others))
    return cells


def front(points):
    """Those (x, y) that none other exceeds in both, by x."""
    kept = []
    for x, y in sorted(points, reverse=True):
        if not kept or y > kept[-1][1]:
            kept.append((x, y))
    return kept[::-1]
