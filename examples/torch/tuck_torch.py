"""Activations that autograd saves for the backward pass, tucked away until it comes.

    policy = tuck_torch.Codec("zvc+rle+huffman")     # or Raw(), Advised(), Comet(optimizer)
    for x, y in batches:
        optimizer.zero_grad()
        with tuck_torch.saved_tensors(policy):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

What is saved on the CPU becomes a frame of tuck's host codecs (libtuck_host.so); what is saved on a CUDA device goes
through that device's swap stream to pinned host memory (libtuck_torch.so). Parameters, tensors below `smallest` bytes
and those that are not dense in memory are left alone. A tensor that several operations save is stored once, as long as
nothing has written to it between them; writes that PyTorch does not count, as through `.data`, are not seen, and views
of another shape are tensors of their own.

Policies count what they stored, by layer: `policy.take_counts()`. One policy is for one training loop; in a
DistributedDataParallel training each process has its own, and one swap stream for each device that it uses.

On a CUDA device, chains of codecs become their first stage, zvc or quantize; Raw copies to the host what the GPU needs
no more, as vDNN does; what the pinned memory has no room for (TUCK_PINNED_BYTES, 1 GiB) stays where it is. Nothing
waits there, so what went wrong in a decode is said later, by `synchronize()`.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules import module as modules

__all__ = ["saved_tensors", "Raw", "Codec", "Advised", "Comet", "Policy", "Counts", "Error", "codecs", "encode", "decode",
           "encode_delta", "decode_delta", "digest"]

# As tuck's frames number them.
FLOATS = {torch.float16: 9, torch.bfloat16: 10, torch.float32: 11, torch.float64: 12}
INTEGERS = {torch.uint8: 1, torch.int32: 6, torch.int64: 8}
DTYPES = {**FLOATS, **INTEGERS}


class Error(RuntimeError):
    """A codec or a swap stream refused, or found what it stored to be damaged."""


def _library(name: str) -> ctypes.CDLL:
    here = Path(__file__).resolve().parent
    wanted = os.environ.get(name.upper() + "_LIBRARY")
    places = [Path(wanted)] if wanted else [
        here / f"lib{name}.so", *(here.parent.parent / "build" / b / "lib" / f"lib{name}.so" for b in ("auto", "sim"))]
    for place in places:
        if place.exists():
            return ctypes.CDLL(str(place))
    raise Error(f"lib{name}.so is in none of: {', '.join(map(str, places))}; {name.upper()}_LIBRARY may name it")


_TEXT, _SIZE, _INT, _UINT = ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_uint
_POINTER, _REAL = ctypes.c_void_p, ctypes.c_double


def _prototypes(lib: ctypes.CDLL):
    def function(name, result, *arguments):
        f = getattr(lib, name)
        f.restype, f.argtypes = result, arguments
        return f

    return function


class _Host:
    """libtuck_host.so: tuck_host.h has the contract."""

    def __init__(self) -> None:
        function = _prototypes(_library("tuck_host"))
        self.message = function("tuck_host_message", _TEXT, _INT)
        self.is_lossy = function("tuck_host_is_lossy", _INT, _TEXT)
        self._room = function("tuck_host_room", _SIZE, _TEXT, _INT, _REAL, _INT, _SIZE)
        self._encode = function("tuck_host_encode", _INT, _TEXT, _INT, _REAL, _INT, _POINTER, _SIZE, _POINTER, _SIZE,
                                _UINT, ctypes.POINTER(_SIZE))
        self._decode = function("tuck_host_decode", _INT, _POINTER, _SIZE, _INT, _POINTER, _SIZE, _UINT)
        self._delta_room = function("tuck_host_delta_room", _SIZE, _TEXT, _INT, _SIZE)
        self._encode_delta = function("tuck_host_encode_delta", _INT, _TEXT, _INT, _POINTER, _POINTER, _SIZE, _POINTER,
                                      _SIZE, _UINT, ctypes.POINTER(_SIZE))
        self._decode_delta = function("tuck_host_decode_delta", _INT, _POINTER, _SIZE, _INT, _POINTER, _POINTER, _SIZE,
                                      _UINT)
        self.digest = function("tuck_host_digest", _SIZE, _POINTER, _SIZE)
        self.advisor_new = function("tuck_advisor_new", _POINTER, _REAL, _REAL, _UINT)
        self.advisor_free = function("tuck_advisor_free", None, _POINTER)
        self.advisor_add = function("tuck_advisor_add", ctypes.c_int64, _POINTER, _SIZE, _REAL, _REAL)
        self.advisor_decide = function("tuck_advisor_decide", ctypes.c_int64, _POINTER, _SIZE, _REAL)
        self.advisor_measured = function("tuck_advisor_measured", None, _POINTER, _SIZE, _SIZE, _REAL, _REAL, _REAL,
                                         _REAL)
        self.bound_new = function("tuck_bound_new", _POINTER, _REAL, _REAL, _SIZE, _REAL, _REAL, _REAL)
        self.bound_free = function("tuck_bound_free", None, _POINTER)
        self.bound_now = function("tuck_bound_now", _REAL, _POINTER)
        self.bound_wants = function("tuck_bound_wants", _INT, _POINTER, _SIZE)
        self.bound_update = function("tuck_bound_update", None, _POINTER, _SIZE, _REAL, _REAL, _REAL, _REAL)
        names = function("tuck_host_codecs", ctypes.POINTER(_TEXT))()
        self.codecs = []
        while names[len(self.codecs)] is not None:
            self.codecs.append(names[len(self.codecs)].decode())
        self._scratch = threading.local()

    def encode(self, choice: Choice, t: torch.Tensor) -> torch.Tensor:
        """The frame of a dense tensor's memory. Raises BufferError where the codec is not for its type."""
        dtype, count = DTYPES[t.dtype], t.numel()
        how = choice.codec.encode(), 2 if choice.pointwise else 0, choice.bound or 0.0
        room = self._room(*how, dtype, count)
        if room == 0:
            raise BufferError(f"{choice.codec} is not for {t.dtype}")
        buffer = getattr(self._scratch, "buffer", None)
        if buffer is None or buffer.numel() < room:
            buffer = self._scratch.buffer = torch.empty(room, dtype=torch.uint8)
        used = ctypes.c_uint64()
        self._check(self._encode(*how, dtype, t.data_ptr(), count, buffer.data_ptr(), buffer.numel(),
                                 torch.get_num_threads(), ctypes.byref(used)), f"encode by {choice.codec}")
        return buffer[:used.value].clone()

    def decode(self, frame: torch.Tensor, into: torch.Tensor) -> None:
        self._check(self._decode(frame.data_ptr(), frame.numel(), DTYPES[into.dtype], into.data_ptr(), into.numel(),
                                 torch.get_num_threads()), "decode")

    def encode_delta(self, t: torch.Tensor, base: torch.Tensor, codec: str) -> torch.Tensor:
        dtype, count = DTYPES[t.dtype], t.numel()
        room = self._delta_room(codec.encode(), dtype, count)
        if room == 0:
            raise BufferError(f"{codec} is not for deltas of {t.dtype}")
        frame = torch.empty(room, dtype=torch.uint8)
        used = ctypes.c_uint64()
        self._check(self._encode_delta(codec.encode(), dtype, t.data_ptr(), base.data_ptr(), count, frame.data_ptr(),
                                       frame.numel(), torch.get_num_threads(), ctypes.byref(used)),
                    f"encode a delta by {codec}")
        return frame[:used.value].clone()

    def decode_delta(self, frame: torch.Tensor, base: torch.Tensor, into: torch.Tensor) -> None:
        self._check(self._decode_delta(frame.data_ptr(), frame.numel(), DTYPES[into.dtype], base.data_ptr(),
                                       into.data_ptr(), into.numel(), torch.get_num_threads()), "decode a delta")

    def _check(self, status: int, what: str) -> None:
        if status != 0:
            raise Error(f"{what}: {self.message(status).decode()}")


class _Swap:
    """libtuck_torch.so, whose contract is ../torch_allocator/tuck_torch.h: a swap stream for each CUDA device."""

    TYPES = {torch.float16: 1, torch.bfloat16: 2, torch.float32: 3, torch.float64: 4}  # all others are bytes
    KEPT = 1

    def __init__(self) -> None:
        function = _prototypes(_library("tuck_torch"))
        self._park = function("tuck_park_as", _INT, _POINTER, ctypes.c_size_t, _INT, _TEXT, _INT, _REAL, _INT,
                              _POINTER, ctypes.POINTER(_SIZE))
        self._restore = function("tuck_restore", _INT, _SIZE, _POINTER, ctypes.c_size_t, _POINTER)
        self._drop = function("tuck_drop", _INT, _SIZE)
        self._stored = function("tuck_stored_bytes", _INT, _SIZE, ctypes.POINTER(_SIZE))
        self._wait = function("tuck_wait", _INT, _INT)
        self._last_error = function("tuck_last_error", _TEXT)
        self._streams: dict[int, torch.cuda.Stream] = {}

    def park(self, choice: Choice | None, t: torch.Tensor) -> int | None:
        """The number of a dense tensor that is on its way to the host; None where it has to stay."""
        codec, bound = ("raw", 0.0) if choice is None or t.dtype not in FLOATS else (
            choice.codec.partition("+")[0], choice.bound or 0.0)
        if codec not in ("raw", "zvc", "quantize") or (codec == "quantize" and t.dtype == torch.float64):
            codec = "zvc"
        side, number_ = self._side(t.device), ctypes.c_uint64()
        code = self._park(t.data_ptr(), t.numel() * t.element_size(), self.TYPES.get(t.dtype, 0), codec.encode(),
                          2 if choice and choice.pointwise else 0, bound, t.device.index, side.cuda_stream,
                          ctypes.byref(number_))
        if code == self.KEPT:
            self._drop(number_.value)
            return None
        self._check(code)
        t.record_stream(side)  # its memory is others' only once the side stream has read it
        return number_.value

    def restore(self, parked: int, into: torch.Tensor) -> None:
        side = self._side(into.device)
        self._check(self._restore(parked, into.data_ptr(), into.numel() * into.element_size(), side.cuda_stream))
        torch.cuda.current_stream(into.device).wait_stream(side)

    def drop(self, parked: int) -> None:
        self._drop(parked)

    def stored_bytes(self, parked: int) -> int:
        stored = ctypes.c_uint64()
        self._check(self._stored(parked, ctypes.byref(stored)))
        return stored.value

    def synchronize(self) -> None:
        for device in self._streams:
            self._check(self._wait(device))

    def _side(self, device: torch.device) -> torch.cuda.Stream:
        """A stream of our own, behind what the caller's has been given, which need not wait for it."""
        if device.index not in self._streams:
            self._streams[device.index] = torch.cuda.Stream(device)
        side = self._streams[device.index]
        side.wait_stream(torch.cuda.current_stream(device))
        return side

    def _check(self, code: int) -> None:
        if code != 0:
            raise Error(self._last_error().decode())


_loaded: dict[type, object] = {}


def _loaded_once(kind: type):
    if kind not in _loaded:
        _loaded[kind] = kind()
    return _loaded[kind]


def _host() -> _Host:
    return _loaded_once(_Host)


def _swap() -> _Swap:
    return _loaded_once(_Swap)


def codecs() -> list[str]:
    """Names that Codec takes. Integers have one of their own, bitpack, whatever the policy."""
    return [name for name in _host().codecs if name != "bitpack"]


def synchronize() -> None:
    """Waits for what the swap streams were asked for. Raises Error where some of it failed since the last time."""
    if _Swap in _loaded:
        _swap().synchronize()


def _dense(*tensors: torch.Tensor) -> None:
    for t in tensors:
        if t.device.type != "cpu" or not t.is_contiguous():
            raise ValueError("frames are made of contiguous tensors on the CPU")
        if t.dtype != tensors[0].dtype or t.numel() != tensors[0].numel():
            raise ValueError("a tensor and its base have one type and size")


def encode(t: torch.Tensor, codec: str) -> torch.Tensor:
    """The frame of a contiguous tensor on the CPU, by a lossless codec. Raises BufferError where that is not for it."""
    _dense(t)
    return _host().encode(Choice(codec), t)


def decode(frame: torch.Tensor, into: torch.Tensor) -> None:
    _dense(into)
    _host().decode(frame, into)


def encode_delta(t: torch.Tensor, base: torch.Tensor, codec: str = "gaps") -> torch.Tensor:
    """The frame of what `t` has other than `base`: by gaps, for few changes, or zvc+rle+huffman. Raises BufferError where
    the codec is not for the type."""
    _dense(t, base)
    return _host().encode_delta(t, base, codec)


def decode_delta(frame: torch.Tensor, base: torch.Tensor, into: torch.Tensor | None = None) -> None:
    """Restores a tensor from its delta and its base, in place unless `into` is given. Frame and base are verified
    first: raises Error where one of them is wrong, and nothing has changed."""
    into = base if into is None else into
    _dense(base, into)
    _host().decode_delta(frame, base, into)


def digest(t: torch.Tensor) -> int:
    """What a delta calls its base by: a checksum of 64 bits, which finds accidents, not forgers."""
    _dense(t)
    return _host().digest(t.data_ptr(), t.numel() * t.element_size())


@dataclass(frozen=True)
class Choice:
    codec: str
    bound: float | None = None  # of lossy codecs: no value is farther from what it was than this
    pointwise: bool = False     # ... than this share of it, which keeps its sign below 1


@dataclass(frozen=True)
class Site:
    """Where a tensor is saved: in which call of which module of an iteration, counted from 0; None outside of all."""
    module: torch.nn.Module | None
    call: int


@dataclass
class Counts:
    """Of one layer: the bytes of what was saved there for the first time, and what was made of it."""
    tensors: int = 0
    raw: int = 0
    stored: int = 0
    integer_raw: int = 0  # of pooling indices, say; not in the three above
    integer_stored: int = 0
    encode_seconds: float = 0.0
    decode_seconds: float = 0.0
    choices: dict[str, int] = field(default_factory=dict)  # tensors by codec, "as it is" where there was none
    bound: float | None = None  # the last one, where it is absolute

    def add(self, t: torch.Tensor, stored: int, seconds: float = 0.0, choice: Choice | None = None) -> None:
        size = t.numel() * t.element_size()
        if t.dtype not in FLOATS:
            self.integer_raw += size
            self.integer_stored += stored
            return
        self.tensors += 1
        self.raw += size
        self.stored += stored
        self.encode_seconds += seconds
        name = choice.codec if choice else "as it is"
        self.choices[name] = self.choices.get(name, 0) + 1
        if choice and choice.bound and not choice.pointwise:
            self.bound = choice.bound


def _require_positive(name: str, value: object) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value <= sys.float_info.max:
        raise ValueError(f"{name}: {value!r} is no finite number above 0")


def _is_plain(module: torch.nn.Module | None, kinds: tuple) -> bool:
    """Is it of one of these classes, none derived from them, and does it only what that class does? Then what it saves
    is known."""
    return (type(module) in kinds and not module._forward_pre_hooks and "forward" not in module.__dict__
            and all(isinstance(getattr(hook, "__self__", None), _Session)
                    for hook in modules._global_forward_pre_hooks.values()))


def _is_running(module: torch.nn.Module) -> bool:
    """Is one of its methods among the callers? Its forward_hook is not called where it raises."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_locals.get("self") is module:
            return True
        frame = frame.f_back
    return False


class Policy:
    """Chooses how each tensor is stored. A subclass has `choose`, and may listen to what happens."""

    def __init__(self) -> None:
        self.iteration = -1  # of entered contexts; the first is 0
        self.counts: dict[str, Counts] = {}
        self._labels: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._of_class: dict[str, int] = {}

    def choose(self, t: torch.Tensor, site: Site) -> Choice | None:
        """How floating-point tensor t is stored; None: as it is."""
        raise NotImplementedError

    def encoded(self, t: torch.Tensor, site: Site, choice: Choice, seconds: float, size: int) -> None: ...

    def decoded(self, t: torch.Tensor, site: Site, choice: Choice, seconds: float) -> None: ...

    def saved_again(self, first: Site, site: Site) -> None:
        """What was saved at `first` is saved at `site` too."""

    def after_forward(self, module: torch.nn.Module, output: object) -> None: ...

    def entered(self) -> None:
        """An iteration begins."""

    def label(self, module: torch.nn.Module | None) -> str:
        """Conv2d_1 is the first module of that class that ran."""
        if module is None:
            return "functions"
        if module not in self._labels:
            kind = type(module).__name__
            self._of_class[kind] = self._of_class.get(kind, 0) + 1
            self._labels[module] = f"{kind}_{self._of_class[kind]}"
        return self._labels[module]

    def take_counts(self) -> dict[str, Counts]:
        """By layer, in the order in which they ran, since the last time."""
        taken, self.counts = self.counts, {}
        return taken

    def count(self, site: Site) -> Counts:
        return self.counts.setdefault(self.label(site.module), Counts())


class Raw(Policy):
    """Everything as it is: what the others are compared with."""

    def choose(self, t: torch.Tensor, site: Site) -> Choice | None:
        return None


class Codec(Policy):
    """One codec for all, as `codecs` names them; lossy ones need an absolute bound."""

    def __init__(self, name: str, bound: float | None = None) -> None:
        super().__init__()
        if name not in codecs():
            raise ValueError(f"codec: there is no {name!r}, but {', '.join(codecs())}")
        if _host().is_lossy(name.encode()):
            _require_positive(f"bound: {name}", bound)
        elif bound is not None:
            raise ValueError(f"bound: {name} loses nothing and takes none")
        self._choice = Choice(name, bound)

    def choose(self, t: torch.Tensor, site: Site) -> Choice | None:
        return self._choice


class Advised(Policy):
    """CSWAP+: the lossless codec, or none, that costs least by tuck::advisor: what it takes to encode, to move the
    frame at `link` bytes a second out and in, and to decode, as measured on the way."""

    CODECS = ("zvc", "rle", "zvc+rle+huffman")

    def __init__(self, link: float) -> None:
        super().__init__()
        _require_positive("link", link)
        host = _host()
        self._advisor = host.advisor_new(link, link, len(self.CODECS))
        if not self._advisor:
            raise MemoryError("advisor")
        weakref.finalize(self, host.advisor_free, self._advisor)
        self._numbers: dict[tuple, int] = {}
        self._calibrated = False

    def choose(self, t: torch.Tensor, site: Site) -> Choice | None:
        if t.device.type != "cpu":
            raise Error(f"Advised: what codecs take on {t.device} is not measured; use Codec or Comet there")
        if not self._calibrated:
            self._calibrate()
        best = _host().advisor_decide(self._advisor, self._number(t, site), self._zeros(t))
        return None if best < 0 else Choice(self.CODECS[best])

    def encoded(self, t, site, choice, seconds, size):
        self._measured(t, site, choice, self._zeros(t), seconds, 0.0, t.numel() * t.element_size() / size)

    def decoded(self, t, site, choice, seconds):
        self._measured(t, site, choice, self._zeros(t), 0.0, seconds, 0.0)

    def _measured(self, t, site, choice, *figures):
        if choice.codec in self.CODECS:
            _host().advisor_measured(self._advisor, self._number(t, site), self.CODECS.index(choice.codec), *figures)

    def _number(self, t: torch.Tensor, site: Site) -> int:
        size = t.numel() * t.element_size()
        key = (self.label(site.module), site.call, size)
        if key not in self._numbers:
            self._numbers[key] = _host().advisor_add(self._advisor, size, 0.0, 0.0)
        return self._numbers[key]

    @staticmethod
    def _zeros(t: torch.Tensor) -> float:
        return 1 - torch.count_nonzero(t).item() / t.numel()

    def _calibrate(self) -> None:
        """Codecs that nothing is known of are not chosen: a few tensors of noise, each of its own sparsity."""
        self._calibrated = True
        ours = torch.Generator().manual_seed(0)  # the training's own must not notice
        noise, chance = torch.randn(1 << 18, generator=ours), torch.rand(1 << 18, generator=ours)
        for zeros in (0.3, 0.6, 0.9):
            for size in (1 << 14, 1 << 16, 1 << 18):
                sample = noise[:size].masked_fill(chance[:size] < zeros, 0)
                for name in self.CODECS:
                    _Frame(sample, Site(None, size), Choice(name), self).restore(self)


class Comet(Policy):
    """COMET: the inputs of convolutions and linear layers within absolute bounds, which tuck::bound_controller sets for
    each layer from its gradients and momentum (SGD's momentum_buffer, Adam's exp_avg) every `refresh` iterations, and
    which are `first` before. Where another operation has saved such a tensor before the layer does, that is known from
    the iteration before. A ReLU that shares it sees what is smaller than the bound as zero.

    What only an nn.ReLU that made it and nn.MaxPool read - for its sign, and not at all - is stored within half of each
    value (Gist keeps a bit of it): no gradient becomes another by that.

    All else is stored without loss: also what layers save that are of derived classes, are parametrized or have
    forward_pre_hooks, as nobody knows what those read.

    share: the standard deviation of a weight gradient's error, as a share of the mean momentum. Bounds stay in [lowest,
    highest]. estimate: "exact" takes the deviation from the sum of the squared gradients of the layer's output,
    sigma^2 = bound^2 / 3 * sum l^2 over the weight's activations that are not zero; "paper" is a * mean |l| *
    sqrt(batch * nonzero) * bound with a = 0.32, which leaves out over how many places a convolution sums."""

    READERS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d, torch.nn.Linear)
    SIGN_READERS = (torch.nn.ReLU, torch.nn.MaxPool1d, torch.nn.MaxPool2d, torch.nn.MaxPool3d)

    def __init__(self, optimizer: torch.optim.Optimizer, *, lossy: str = "quantize+delta+zvc+huffman",
                 lossless: str = "zvc+rle+huffman", estimate: str = "exact", share: float = 0.01,
                 refresh: int = 1000, first: float = 1e-4, lowest: float = 1e-8, highest: float = 1e-1) -> None:
        super().__init__()
        for name, codec, is_lossy in (("lossy", lossy, True), ("lossless", lossless, False)):
            if codec not in codecs() or bool(_host().is_lossy(codec.encode())) != is_lossy:
                raise ValueError(f"{name}: {codec!r} is no {name} codec of {', '.join(codecs())}")
        if estimate not in ("exact", "paper"):
            raise ValueError(f"estimate: {estimate!r} is neither 'exact' nor 'paper'")
        if not isinstance(getattr(optimizer, "state", None), Mapping):
            raise ValueError(f"optimizer: {type(optimizer).__name__} has no state by parameter")
        for name, value in (("share", share), ("first", first), ("lowest", lowest), ("highest", highest)):
            _require_positive(name, value)
        if not lowest <= first <= highest:
            raise ValueError(f"first: {first} is not from lowest, {lowest}, to highest, {highest}")
        if not isinstance(refresh, int) or not 1 <= refresh < 2**63:
            raise ValueError(f"refresh: {refresh!r} is no number of iterations")
        self._lossless = Choice(lossless)
        self._sign = Choice(lossy, 0.5, pointwise=True)
        self._optimizer, self._lossy, self._exact = optimizer, lossy, estimate == "exact"
        self._options = (1.0 if self._exact else 0.32, share, refresh, first, lowest, highest)
        self._bounds: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # layer -> its bound_controller
        self._nonzero: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # layer -> share of its last input
        # Where tensors are first saved -> who else read them, the last time that they were.
        self._seen: dict[Site, list[weakref.ref]] = {}
        self._reading: dict[Site, list[weakref.ref]] = {}

    def entered(self) -> None:
        self._seen, self._reading = self._reading, {}

    def choose(self, t: torch.Tensor, site: Site) -> Choice | None:
        self._reading[site] = []
        others = [reader() for reader in self._seen.get(site, ())]
        layers = [m for m in (site.module, *others) if _is_plain(m, self.READERS)]
        if layers:
            nonzero = torch.count_nonzero(t).item() / t.numel()
            for layer in layers:
                self._nonzero[layer] = nonzero
            return Choice(self._lossy, min(_host().bound_now(self._controller(layer)) for layer in layers))
        only_signs = (site in self._seen and _is_plain(site.module, (torch.nn.ReLU,))
                      and all(_is_plain(m, self.SIGN_READERS) for m in others))
        return self._sign if only_signs else self._lossless

    def saved_again(self, first: Site, site: Site) -> None:
        self._reading.setdefault(first, []).append(weakref.ref(site.module) if site.module else lambda: None)

    def after_forward(self, module: torch.nn.Module, output: object) -> None:
        if not _is_plain(module, self.READERS) or not getattr(output, "requires_grad", False):
            return
        if module in self._nonzero and _host().bound_wants(self._controller(module), self.iteration):
            output.register_hook(lambda gradient, m=weakref.ref(module): self._learn(m(), gradient))

    def _learn(self, module: torch.nn.Module | None, gradient: torch.Tensor) -> None:
        weight = module._parameters.get("weight") if module is not None else None
        state = self._optimizer.state.get(weight, {})
        momentum = state.get("momentum_buffer", state.get("exp_avg"))
        if momentum is None:  # before the first step
            return
        if self._exact:
            # The sums of l^2 that an output channel's weights have, in the mean; as bound_control.hpp has it, sigma is
            # a * mean_gradient * sqrt(batch * nonzero) * bound.
            channels = weight.shape[0]
            figures = (math.sqrt(gradient.double().square().sum().item() / channels / 3), 1.0)
        else:
            figures = gradient.abs().mean().item(), float(gradient.shape[0])
        _host().bound_update(self._controller(module), self.iteration, *figures, self._nonzero[module],
                             momentum.abs().mean().item())

    def _controller(self, module: torch.nn.Module) -> int:
        if module not in self._bounds:
            controller = _host().bound_new(*self._options)
            if not controller:
                raise MemoryError("bound_controller")
            weakref.finalize(module, _host().bound_free, controller)
            self._bounds[module] = controller
        return self._bounds[module]


class _Stored:
    """A tensor that is stored elsewhere, whoever saved it: `room` is what it takes there, as far as it is known."""

    __slots__ = ("shape", "stride", "dtype", "site", "choice", "saves", "identity", "__weakref__")

    def __init__(self, t: torch.Tensor, site: Site, choice: Choice | None, identity: object) -> None:
        self.shape, self.stride, self.dtype = t.shape, t.stride(), t.dtype
        self.site, self.choice, self.saves, self.identity = site, choice, 1, identity


class _Frame(_Stored):
    """In CPU memory. Raises BufferError where the codec is not for the type."""

    __slots__ = ("frame",)

    def __init__(self, t: torch.Tensor, site: Site, choice: Choice, policy: Policy, identity: object = None) -> None:
        super().__init__(t, site, choice, identity)
        begin = time.perf_counter()
        self.frame = _host().encode(choice, t)
        seconds = time.perf_counter() - begin
        if t.dtype in FLOATS:
            policy.encoded(t, site, choice, seconds, self.frame.numel())
        if identity is not None:
            policy.count(site).add(t, self.frame.numel(), seconds, choice)

    def restore(self, policy: Policy) -> torch.Tensor:
        begin = time.perf_counter()
        t = torch.empty_strided(self.shape, self.stride, dtype=self.dtype)
        _host().decode(self.frame, t)
        seconds = time.perf_counter() - begin
        if t.dtype in FLOATS:
            policy.decoded(t, self.site, self.choice, seconds)
            if self.identity is not None:
                policy.count(self.site).decode_seconds += seconds
        return t


class _Parked(_Stored):
    """In pinned memory, by a swap stream. Raises BufferError where that has no room."""

    __slots__ = ("number", "device", "counted")

    def __init__(self, t: torch.Tensor, site: Site, choice: Choice | None, policy: Policy, identity: object) -> None:
        super().__init__(t, site, choice, identity)
        self.device, self.counted = t.device, False
        self.number = _swap().park(choice, t)
        if self.number is None:
            raise BufferError
        weakref.finalize(self, _swap().drop, self.number)

    def restore(self, policy: Policy) -> torch.Tensor:
        t = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device)
        _swap().restore(self.number, t)
        if not self.counted:  # when it was parked, its size was not known
            policy.count(self.site).add(t, _swap().stored_bytes(self.number), 0.0, self.choice)
            self.counted = True
        return t


class _Kept:
    """A tensor as it is. Autograd does not look for later writes where there are hooks, so this does."""

    __slots__ = ("tensor", "version", "site", "saves", "__weakref__")

    def __init__(self, t: torch.Tensor, site: Site | None = None) -> None:
        self.tensor = t.detach()  # a result that knew its operation would be a circle that is never freed
        self.version = t._version
        self.site, self.saves = site, 1

    def restore(self) -> torch.Tensor:
        if self.tensor._version != self.version:
            raise Error("a tensor that is needed for the backward pass was modified in place: "
                        f"shape {tuple(self.tensor.shape)}, version {self.tensor._version} instead of {self.version}")
        return self.tensor


class _Session:
    """One entered context."""

    def __init__(self, policy: Policy, smallest: int) -> None:
        self.policy, self.smallest = policy, smallest
        self.known: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
        self.inside: list[Site] = []
        self.calls: dict[torch.nn.Module, int] = {}
        self.recent = threading.local()
        self.thread = threading.get_ident()  # hooks of modules are every thread's, those of autograd this one's

    def enter(self, module, _inputs) -> None:
        if threading.get_ident() != self.thread:
            return
        call = self.calls.get(module, 0)
        self.calls[module] = call + 1
        self.inside.append(Site(module, call))
        self.policy.label(module)

    def leave(self, module, _inputs, output) -> None:
        if threading.get_ident() != self.thread:
            return
        while self.inside and self.inside.pop().module is not module:
            pass  # a module within raised, and whoever called it went on
        self.policy.after_forward(module, output)

    def site(self) -> Site:
        while self.inside and not _is_running(self.inside[-1].module):
            self.inside.pop()
        return self.inside[-1] if self.inside else Site(None, 0)

    def pack(self, t: torch.Tensor):
        if not self._is_wanted(t):
            return _Kept(t)
        site = self.site()
        # While the weak reference lives, no other storage has its number.
        storage = StorageWeakRef(t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage())
        key = (storage.cdata, t.storage_offset(), t.shape, t.stride(), t.dtype, t._version)
        known = self.known.get(key)
        if known is not None:
            known.saves += 1
            self.policy.saved_again(known.site, site)
            return known
        self.known[key] = packed = self._store(t, site, storage)
        return packed

    def _store(self, t: torch.Tensor, site: Site, storage: StorageWeakRef):
        choice = self._choose(t, site)
        try:
            if t.device.type == "cuda":
                return _Parked(t.detach(), site, choice, self.policy, storage)
            if choice:
                return _Frame(t.detach(), site, choice, self.policy, storage)
        except BufferError:  # there is no room; it stays
            pass
        self.policy.count(site).add(t, t.numel() * t.element_size())
        return _Kept(t, site)

    def unpack(self, packed) -> torch.Tensor:
        if isinstance(packed, _Kept):
            return packed.restore()
        # Operations that share a tensor often follow each other: the one that was decoded last is kept for the next.
        last, t = getattr(self.recent, "decoded", (None, None))
        if last is not packed:
            t = packed.restore(self.policy)
        packed.saves -= 1
        if packed.saves > 0:
            self.recent.decoded = packed, t
        elif last is packed:
            self.recent.decoded = None, None
        return t

    def _choose(self, t: torch.Tensor, site: Site) -> Choice | None:
        if t.dtype in FLOATS:
            return self.policy.choose(t.detach(), site)
        return None if isinstance(self.policy, Raw) else Choice("bitpack")

    def _is_wanted(self, t: torch.Tensor) -> bool:
        parameter = torch.nn.Parameter
        return (t.dtype in DTYPES and t.layout is torch.strided and t.device.type in ("cpu", "cuda")
                and not isinstance(t, parameter) and not isinstance(t._base, parameter)
                and t.numel() * t.element_size() >= self.smallest and _is_dense(t))


def _is_dense(t: torch.Tensor) -> bool:
    """Do its values fill a piece of memory, each once, in whatever order?"""
    expected = 1
    for stride, size in sorted(zip(t.stride(), t.shape)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


@contextlib.contextmanager
def saved_tensors(policy: Policy | str, *, smallest: int = 4096):
    """While it is entered, what autograd saves is stored as the policy - or the codec of that name - says; `as` gives
    the policy. The backward pass may come inside or outside, and more than once where the graph is retained."""
    if isinstance(policy, str):
        policy = Codec(policy)
    if not isinstance(policy, Policy):
        raise TypeError(f"policy: {policy!r} is neither a Policy nor a codec's name")
    if not isinstance(smallest, int) or smallest < 0:
        raise ValueError(f"smallest: {smallest!r} is no number of bytes")
    policy.iteration += 1
    policy.entered()
    session = _Session(policy, smallest)
    hooks = [modules.register_module_forward_pre_hook(session.enter),
             modules.register_module_forward_hook(session.leave)]
    try:
        with saved_tensors_hooks(session.pack, session.unpack):
            yield policy
    finally:
        for hook in hooks:
            hook.remove()
        session.inside.clear()
        session.calls.clear()
