"""Encoding and decoding on a thread beside a training, and the models that decide how a tensor is stored.

    job = tuck.training.encode_job(x, "zvc")
    job.start()                                  # else wait does the work
    bytes, seconds = job.wait()

A job keeps its arrays, which must not change until it is done. Its frame has no shape. The thread does jobs in the
order in which they were started, and is woken for 512 KiB of values. Who waits for a job that has not begun does it. A
job that is freed before it begins is never done. A child of fork() may wait for the jobs of its parent and free them:
what was not done begins anew."""

from typing import Any, Optional

from . import Array, Bound, _array, _out, _settings, _tuck
from ._tuck import Advisor, BoundController, Job

__all__ = ["Advisor", "BoundController", "Job", "decode_job", "encode_job"]


def encode_job(x: Array, codec: str = "zvc", *, bound: Optional[Bound] = None, dtype: Optional[str] = None) -> Job:
    """Makes a job that encodes x, as tuck.encode does on one thread. Job.copy_frame copies the frame."""
    x, dtype = _array(x, "the tensor", dtype)
    return _tuck.encode_job(x, _settings(codec, dtype, bound, False, 1))


def decode_job(frame: Array, out: Any) -> Job:
    """Makes a job that decodes a frame into `out`, as tuck.decode does on one thread. Raises what is wrong with the
    header or with `out`; Job.wait raises the rest."""
    return _tuck.decode_job(_array(frame, "the frame")[0], *_out(out))
