"""Policies: how what is saved is stored, and what became of it."""

from __future__ import annotations

import collections
import math
import sys
import threading
import weakref
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from tuck.training import Advisor

from .library import CODECS, FLOATS, Choice, Error, codecs


class Site(NamedTuple):
    """Where a tensor is saved: in which call of which module of an iteration, counted from 0. None: in no module."""
    module: torch.nn.Module | None
    call: int
    label: str = "functions"  # as the policy's counts call the module


AGAIN = 100  # iterations until a lossless codec is tried again where it did not pay


@dataclass
class Counts:
    """Of one layer: the bytes of what was saved there, of each memory once, and what was made of it."""
    tensors: int = 0
    raw: int = 0
    stored: int = 0
    integer_raw: int = 0  # of pooling indices, say; not in the three above
    integer_stored: int = 0
    encode_seconds: float = 0.0  # on whichever thread
    decode_seconds: float = 0.0
    choices: dict[str, int] = field(default_factory=dict)  # tensors by codec, or "as it is", "computed again", ...
    bound: float | None = None  # the last one, where it is absolute

    def add(self, dtype: torch.dtype, raw: int, stored: int, seconds: float = 0.0,
            choice: Choice | str = "as it is") -> None:
        if dtype not in FLOATS:
            self.integer_raw += raw
            self.integer_stored += stored
            return
        self.tensors += 1
        self.raw += raw
        self.stored += stored
        self.encode_seconds += seconds
        name = choice if isinstance(choice, str) else choice.codec
        self.choices[name] = self.choices.get(name, 0) + 1
        if isinstance(choice, Choice) and choice.bound and not choice.pointwise:
            self.bound = choice.bound


def require_positive(name: str, value: object) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value <= sys.float_info.max:
        raise ValueError(f"{name}: {value!r} is no finite number above 0")


def zeros_of(t: torch.Tensor) -> float:
    """The share of a tensor's values that are zero."""
    return 1 - torch.count_nonzero(t).item() / max(t.numel(), 1)


class Policy:
    """Chooses how each tensor is stored. A subclass has `choose`, and may listen to what happens.

    Operations that are recognised are given as `functions.Use`: the call, and the role of the tensor in it."""

    least = 1.0  # times smaller: what lossless codecs have to reach
    follows_functions = False  # are `called`, `suffices`, `learn` and `recomputes` wanted?

    def __init__(self) -> None:
        self.iteration = -1  # of entered contexts; the first is 0
        self.counts: dict[str, Counts] = {}
        self._unsized: collections.deque = collections.deque()  # offloaded, of a size that is not known yet
        self._labels: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._of_class: dict[str, int] = {}
        self._poor: dict[tuple, int] = {}  # label, call and bytes -> the iteration in which it is tried again

    def __reduce__(self):
        raise TypeError(f"{type(self).__name__}: a policy belongs to one training and cannot be copied; make another")

    def choose(self, t: torch.Tensor, site: Site, uses: list) -> Choice | None:
        """How floating-point tensor t is stored, which operations read as `uses` say. None: as it is."""
        raise NotImplementedError

    def encoded(self, entry, seconds: float, size: int) -> None:
        """A frame of so many bytes is written: entry.site, entry.choice and entry.raw_bytes."""
        if entry.choice.bound is None and entry.raw_bytes < self.least * size:
            self._poor[entry.site.label, entry.site.call, entry.raw_bytes] = self.iteration + AGAIN

    def keeps(self, site: Site, raw_bytes: int) -> bool:
        """Has a tensor of that size at that site become less than `least` times smaller without loss? Then it stays as
        it is, until this is tried again."""
        return self.iteration < self._poor.get((site.label, site.call, raw_bytes), 0)

    def decoded(self, entry, t: torch.Tensor, seconds: float) -> None:
        """It was read, as the flat tensor t. On any thread."""

    def calling(self, call) -> None:
        """A recognised function is about to be called."""

    def called(self, call, output: object) -> None:
        """A recognised function has returned."""

    def suffices(self, choice: Choice | None, use, factor: float) -> bool:
        """May an operation read a tensor that is stored by this choice, or that has so many times its error?"""
        return True

    def recomputes(self, use) -> bool:
        """May what an operation reads be computed again, from what is stored within a bound?"""
        return False

    def learn(self, use, t: torch.Tensor) -> None:
        """The backward pass of an operation, of whose output use.call.gradient is the gradient, reads t."""

    def entered(self) -> None:
        """An iteration begins."""

    def passing(self) -> object | None:
        """A fronts.Fronts that follows the iteration's functions."""
        return None

    def label(self, module: torch.nn.Module) -> str:
        """Conv2d_1 is the first module of that class that ran."""
        label = self._labels.get(module)
        if label is None:
            kind = type(module).__name__
            self._of_class[kind] = self._of_class.get(kind, 0) + 1
            label = self._labels[module] = f"{kind}_{self._of_class[kind]}"
        return label

    def take_counts(self) -> dict[str, Counts]:
        """By layer, in the order in which they ran, since the last time."""
        self._count_offloaded(surely=True)
        taken, self.counts = self.counts, {}
        return taken

    def offloaded(self, entry) -> None:
        """A tensor is on its way to the host. It is counted as soon as its size is known."""
        self._unsized.append(entry)
        self._count_offloaded()

    def _count_offloaded(self, surely: bool = False) -> None:
        """Those whose size is known by now, oldest first. `surely`: waits for the device, and counts all."""
        for device in {entry.device for entry in self._unsized} if surely else ():
            torch.cuda.synchronize(device)
        while self._unsized and self._unsized[0].counted(surely):
            self._unsized.popleft()

    def count(self, site: Site) -> Counts:
        counts = self.counts.get(site.label)
        if counts is None:
            counts = self.counts[site.label] = Counts()
        return counts


class Raw(Policy):
    """Everything as it is: what the others are compared with."""

    def keeps(self, site: Site, raw_bytes: int) -> bool:
        return True

    def choose(self, t: torch.Tensor, site: Site, uses: list) -> Choice | None:
        return None


class Codec(Policy):
    """One codec for all, as `codecs` names them. Lossy ones need an absolute bound. What a lossless one makes less than
    `least` times smaller is stored as it is for the next 100 iterations (CSWAP's selection): it costs time for nothing."""

    def __init__(self, name: str, bound: float | None = None, least: float = 1.25) -> None:
        super().__init__()
        require_positive("least", least)
        self.least = least
        if name not in codecs():
            raise ValueError(f"codec: there is no {name!r}, but {', '.join(codecs())}")
        if CODECS[name]:
            require_positive(f"bound: {name}", bound)
        elif bound is not None:
            raise ValueError(f"bound: {name} loses nothing and takes none")
        self._choice = Choice(name, bound)

    def choose(self, t: torch.Tensor, site: Site, uses: list) -> Choice | None:
        return None if self.keeps(site, t.numel() * t.element_size()) else self._choice


class Advised(Policy):
    """CSWAP+: the lossless codec, or none, that costs least by tuck::advisor: what it takes to encode, to move the
    frame at `link` bytes a second out and in, and to decode, as measured on the way."""

    CODECS = ("zvc", "rle", "zvc+rle+huffman")

    def __init__(self, link: float) -> None:
        super().__init__()
        require_positive("link", link)
        if not 1e6 <= link <= 1e15:
            raise ValueError(f"link: {link!r} bytes per second are not 1e6 to 1e15")
        self._advisor = Advisor(link, link, len(self.CODECS))
        self._numbers: dict[tuple, int] = {}
        self._zeros: dict[int, float] = {}  # of each tensor's number, the last time
        self._largest = 0  # bytes of the noise that codecs were measured on
        self._lock = threading.Lock()  # frames are decoded on other threads, too

    def choose(self, t: torch.Tensor, site: Site, uses: list) -> Choice | None:
        if t.device.type != "cpu":
            raise Error(f"Advised: what codecs take on {t.device} is not measured; use Codec or Comet there")
        raw_bytes = t.numel() * t.element_size()
        if raw_bytes > self._largest:
            self._calibrate(raw_bytes)
        zeros, number = zeros_of(t), self._number(site, raw_bytes)
        with self._lock:
            self._zeros[number] = zeros
            best = self._advisor.decide(number, zeros)
        return None if best < 0 else Choice(self.CODECS[best])

    def encoded(self, entry, seconds, size):
        self._measured(entry.site, entry.choice, entry.raw_bytes, seconds, 0.0, entry.raw_bytes / size)

    def decoded(self, entry, t, seconds):
        self._measured(entry.site, entry.choice, entry.raw_bytes, 0.0, seconds, 0.0)

    def _measured(self, site, choice, raw_bytes, *figures):
        if choice.codec in self.CODECS:
            number = self._number(site, raw_bytes)
            with self._lock:
                self._advisor.measured(number, self.CODECS.index(choice.codec), self._zeros.get(number, math.nan),
                                       *figures)

    def _number(self, site: Site, raw_bytes: int) -> int:
        key = (site.label, site.call, raw_bytes)
        with self._lock:
            if key not in self._numbers:
                self._numbers[key] = self._advisor.add(raw_bytes)
            return self._numbers[key]

    def _calibrate(self, raw_bytes: int) -> None:
        """Codecs are chosen for tensors like measured ones only: noise of several sizes, up to that of the tensor, each
        of several sparsities."""
        while self._largest < max(1 << 20, raw_bytes):
            self._largest = 4 * self._largest or 1 << 16
            for zeros in (0.3, 0.6, 0.9) if self._largest <= 1 << 26 else (0.6,):
                self._measure_noise(self._largest // 4, zeros)

    def _measure_noise(self, size: int, zeros: float) -> None:
        from .store import Frame
        ours = torch.Generator("cpu").manual_seed(size)  # the training's own must not notice
        noise, chance = (f(size, generator=ours, dtype=torch.float32, device="cpu") for f in (torch.randn, torch.rand))
        sample = noise.masked_fill_(chance < zeros, 0)
        self._zeros[self._number(Site(None, size), 4 * size)] = zeros_of(sample)
        for name in self.CODECS:
            entry = Frame(sample, Site(None, size), self, None)
            entry.choice = Choice(name)
            entry.encode()
            self.encoded(entry, entry.seconds, entry.frame.numel())
            entry.value()
