"""What stores tensors: the package tuck on the CPU, and libtuck_torch.so on CUDA devices."""

from __future__ import annotations

import collections
import ctypes
import os
from pathlib import Path
from typing import NamedTuple

import torch
import tuck
from tuck import training
from tuck.saved import Error

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DTYPES = (*FLOATS, torch.uint8, torch.int32, torch.int64)
# By name: whether it is lossy. Integers have a codec of their own, bitpack, whatever the policy.
CODECS = {"zvc": False, "rle": False, "zvc+rle+huffman": False, "quantize": True, "quantize+delta+zvc+huffman": True,
          "bitpack": False}
NOT_TAKEN = (tuck.DtypeError, tuck.BoundError)

LIFT, REST = 1.001, 0.99  # of a bound: just above the half step of a codec, and what rounding leaves for it


class Choice(NamedTuple):
    """How a tensor is stored."""
    codec: str
    bound: float | None = None  # of lossy codecs: no value is farther from what it was than this
    pointwise: bool = False     # ... than this share of it, which keeps its sign below 1
    above_zero: bool = False    # absolute bound, of values from 0 on: those that are above it stay above it

    def encoded_type(self, dtype: torch.dtype) -> torch.dtype:
        """bfloat16 has no room for what above_zero adds."""
        return torch.float32 if self.above_zero and dtype == torch.bfloat16 else dtype

    def lifted(self, t: torch.Tensor) -> tuple[torch.Tensor, float]:
        """What is encoded where above_zero is set, and within which bound: values above zero, lifted by the bound, are
        not rounded to zero."""
        bound = self._within(t.dtype)
        t = t.to(self.encoded_type(t.dtype))
        return torch.nn.functional.threshold(t + LIFT * bound, LIFT * bound, 0.0), REST * bound

    def lower(self, t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Takes that back, in place unless the type changes."""
        return t.sub_(LIFT * self._within(dtype)).clamp_min_(0).to(dtype)

    def _within(self, dtype: torch.dtype) -> float:
        """Rounding to bfloat16, of which the value was, may double its error."""
        return self.bound / 2 if dtype == torch.bfloat16 else self.bound


def _library(name: str) -> ctypes.CDLL:
    here = Path(__file__).resolve().parents[1]
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


def encode_job(choice: Choice, t: torch.Tensor) -> training.Job:
    """A job that encodes a dense tensor's memory. Raises one of NOT_TAKEN where the codec is not for it."""
    bound = choice.bound
    if choice.above_zero:
        t, bound = choice.lifted(t)
    mode = tuck.pointwise if choice.pointwise else tuck.absolute
    return training.encode_job(t, choice.codec, bound=mode(bound or 0.0) if CODECS[choice.codec] else None)


def begin_encode(choice: Choice, t: torch.Tensor) -> training.Job:
    """The same, started. Nobody else may write to the tensor meanwhile."""
    job = encode_job(choice, t)
    job.start()
    return job


def finish_encode(job: training.Job) -> tuple[torch.Tensor, float]:
    """Waits for it, or does it if it has not begun: its frame, and the seconds it took."""
    size, seconds = job.wait()
    frame = torch.empty(size, dtype=torch.uint8, device="cpu")
    job.copy_frame(frame)
    return frame, seconds


class Swap:
    """libtuck_torch.so, whose contract is ../torch_allocator/tuck_torch.h: a swap stream for each CUDA device."""

    TYPES = {torch.float16: 1, torch.bfloat16: 2, torch.float32: 3, torch.float64: 4}  # all others are bytes
    KEPT = 1
    LEAVING = 256 << 20  # bytes of tensors of a device that may be on their way to the host at once

    def __init__(self) -> None:
        function = _prototypes(_library("tuck_torch"))
        self._offload = function("tuck_offload_as", _INT, _POINTER, ctypes.c_size_t, _INT, _TEXT, _INT, _REAL, _INT,
                                 _POINTER, ctypes.POINTER(_SIZE))
        self._restore = function("tuck_restore", _INT, _SIZE, _POINTER, ctypes.c_size_t, _POINTER)
        self._drop = function("tuck_drop", _INT, _SIZE)
        self._stored = function("tuck_stored_bytes", _INT, _SIZE, ctypes.POINTER(_SIZE))
        self._wait = function("tuck_wait", _INT, _INT)
        self._last_error = function("tuck_last_error", _TEXT)
        self._process = os.getpid()
        self._streams: dict[int, torch.cuda.Stream] = {}
        self._leaving = collections.defaultdict(collections.deque)  # by device: event behind it, bytes; oldest first
        self._sizes: dict[torch.device, int] = collections.Counter()  # ... the sum of their bytes
        try:  # a plugged-in allocator, such as libtuck_torch.so's, knows nothing of record_stream
            self._records_streams = torch.cuda.get_allocator_backend() != "pluggable"
        except AttributeError:  # PyTorch is older, or has no CUDA
            self._records_streams = True

    @staticmethod
    def codec_of(choice: Choice | None, dtype: torch.dtype) -> str:
        """The codec that stores a tensor. Those that are not for float64 on a device are replaced by zvc; integers are
        copied."""
        if choice is None or dtype not in FLOATS:
            return "raw"
        return "zvc" if dtype == torch.float64 and choice.codec != "rle" else choice.codec

    def offload(self, choice: Choice | None, t: torch.Tensor) -> int | None:
        """The number of a dense tensor that is on its way to the host; None where it has to stay. The current stream
        is the one whose work has written the tensor."""
        codec, bound = self.codec_of(choice, t.dtype), (choice and choice.bound) or 0.0
        if choice is not None and choice.above_zero:
            t, bound = choice.lifted(t)
        side, number_ = self._side(t.device), ctypes.c_uint64()
        code = self._offload(t.data_ptr(), t.numel() * t.element_size(), self.TYPES.get(t.dtype, 0), codec.encode(),
                             2 if choice and choice.pointwise else 0, bound, t.device.index, side.cuda_stream,
                             ctypes.byref(number_))
        if code == self.KEPT:
            self._drop(number_.value)
            return None
        self._check(code)
        if self._records_streams:
            t.record_stream(side)  # its memory is others' only once the side stream has read it
            self._wait_for_oldest(t.device, side, t.numel() * t.element_size())
        else:
            torch.cuda.current_stream(t.device).wait_stream(side)
        return number_.value

    def restore(self, offloaded: int, into: torch.Tensor) -> None:
        """Later work on the current stream, on which `into` was allocated, sees the values."""
        side = self._side(into.device)
        self._check(self._restore(offloaded, into.data_ptr(), into.numel() * into.element_size(), side.cuda_stream))
        torch.cuda.current_stream(into.device).wait_stream(side)

    def drop(self, offloaded: int) -> None:
        if self._process == os.getpid():  # a child of fork() has no CUDA
            self._drop(offloaded)

    def stored_bytes(self, offloaded: int) -> int:
        stored = ctypes.c_uint64()
        self._check(self._stored(offloaded, ctypes.byref(stored)))
        return stored.value

    def synchronize(self) -> None:
        for device in self._streams:
            self._check(self._wait(device))

    def _wait_for_oldest(self, device: torch.device, side: torch.cuda.Stream, size: int) -> None:
        """The CPU waits while more than LEAVING bytes are on their way. If it ran ahead, PyTorch would allocate memory
        for later tensors before these have left."""
        leaving, self._sizes[device] = self._leaving[device], self._sizes[device] + size
        leaving.append((side.record_event(), size))
        while leaving and (leaving[0][0].query() or self._sizes[device] > self.LEAVING and len(leaving) > 1):
            event, left = leaving.popleft()
            event.synchronize()
            self._sizes[device] -= left

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


_swap: Swap | None = None


def swap() -> Swap:
    global _swap
    _swap = _swap or Swap()
    return _swap


def codecs() -> list[str]:
    """Names that Codec takes."""
    return [name for name in CODECS if name != "bitpack"]


def synchronize() -> None:
    """Waits for what the swap streams were asked for. Raises Error where some of it failed since the last time."""
    if _swap is not None:
        _swap.synchronize()
