# SPDX-License-Identifier: Apache-2.0
"""Encoding and decoding on a thread beside a training, and the models that decide how a tensor is stored.

    job = tuck.training.encode_job(x, "zvc")
    job.start()                                  # else wait does the work
    bytes, seconds = job.wait()

A job keeps its arrays, which must not change until it is done. Its frame has no shape. The thread does jobs in the
order in which they were started, and is woken for 512 KiB of values. Who waits for a job that has not begun does it. A
job that is freed before it begins is never done. A child of fork() may wait for the jobs of its parent and free them:
what was not done begins anew."""

from math import isfinite
from operator import index
from typing import Any, Optional

from . import Array, Bound, _array, _out, _settings, _tuck
from ._tuck import Job

__all__ = ["Advisor", "BoundController", "Job", "decode_job", "encode_job"]
_A, _SHARE, _REFRESH, _FIRST, _LOWEST, _HIGHEST = _tuck.bound_control_options


def _number(role: str, value) -> float:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{role}: pass a number, not {value!r}")
    return float(value)


def _positive(role: str, value) -> float:
    number = _number(role, value)
    if not (number > 0 and isfinite(number)):
        raise ValueError(f"{role}: pass a positive, finite number, not {value!r}")
    return number


def _count(role: str, value, bits: int = 64) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError(f"{role}: pass a whole number, not {value!r}")
    if not 0 <= index(value) < 2**bits:
        raise ValueError(f"{role}: pass a number from 0 to 2**{bits} - 1, not {value!r}")
    return index(value)


class Advisor(_tuck.Advisor):
    """tuck::advisor of the C++ library, for lossless codecs with numbers from 0."""

    def __init__(self, d2h: float, h2d: float, codecs: int) -> None:
        """d2h, h2d: bytes per second. codecs: how many. Raises ValueError."""
        super().__init__(_number("d2h", d2h), _number("h2d", h2d), _count("codecs", codecs, 16))

    def add(self, bytes: int, hidden_out: float = 0.0, hidden_in: float = 0.0) -> int:
        """Adds a tensor. hidden_out, hidden_in: seconds. Returns its number."""
        return super().add(_count("bytes", bytes), _number("hidden_out", hidden_out), _number("hidden_in", hidden_in))

    def decide(self, tensor: int, sparsity: float) -> int:
        """Returns the number of a codec, or -1: as it is. Raises IndexError."""
        return super().decide(_count("tensor", tensor), _number("sparsity", sparsity))

    def measured(self, tensor: int, codec: int, sparsity: float, encode: float, decode: float, ratio: float) -> None:
        """Learns from a measurement, in seconds; 0: not measured. Raises IndexError."""
        super().measured(_count("tensor", tensor), _count("codec", codec), _number("sparsity", sparsity),
                         _number("encode", encode), _number("decode", decode), _number("ratio", ratio))


class BoundController(_tuck.BoundController):
    """tuck::bound_controller of the C++ library, for one layer. bound: what values may change by, now."""

    def __init__(self, a: float = _A, share: float = _SHARE, refresh: int = _REFRESH, first: float = _FIRST,
                 lowest: float = _LOWEST, highest: float = _HIGHEST) -> None:
        """share: of the mean momentum. refresh: iterations. first, lowest, highest: absolute bounds. Raises
        ValueError."""
        super().__init__(_positive("a", a), _positive("share", share), _count("refresh", refresh),
                         _positive("first", first), _positive("lowest", lowest), _positive("highest", highest))

    def wants(self, iteration: int) -> bool:
        """Returns whether update should be called now."""
        return super().wants(_count("iteration", iteration))

    def update(self, iteration: int, mean_gradient: float, batch: float, nonzero: float, mean_momentum: float) -> None:
        """Computes the bound from the statistics of an iteration."""
        super().update(_count("iteration", iteration), _number("mean_gradient", mean_gradient), _number("batch", batch),
                       _number("nonzero", nonzero), _number("mean_momentum", mean_momentum))


def encode_job(x: Array, codec: str = "zvc", *, bound: Optional[Bound] = None, dtype: Optional[str] = None) -> Job:
    """Makes a job that encodes x, as tuck.encode does on one thread. Job.copy_frame copies the frame."""
    x, dtype = _array(x, "the tensor", dtype)
    return _tuck.encode_job(x, _settings(codec, dtype, bound, False, 1))


def decode_job(frame: Array, out: Any) -> Job:
    """Makes a job that decodes a frame into `out`, as tuck.decode does on one thread. Raises what is wrong with the
    header or with `out`; Job.wait raises the rest."""
    return _tuck.decode_job(_array(frame, "the frame")[0], *_out(out))
