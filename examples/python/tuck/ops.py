# SPDX-License-Identifier: Apache-2.0
"""The PyTorch operators torch.ops.tuck.encode and decode, which `import tuck.ops` registers. torch.compile takes them
into its graphs, and FakeTensorMode knows the shapes of their results. They need PyTorch 2.4.

    frame, size = torch.ops.tuck.encode(x, "zvc")
    y = torch.ops.tuck.decode(frame, x.shape, x.dtype, codec="zvc")

On a GPU they are asynchronous on the current stream and wait for nothing, so CUDA graphs take them.
"""

from typing import List, Tuple

import numpy as np
import torch

from . import Bound, DeviceError, DeviceFrame, DtypeError, _settings, _tuck, is_on_device
from . import decode as _decode
from . import encode as _encode
from .types import TORCH

if not hasattr(torch.library, "custom_op"):
    raise ImportError(f"tuck.ops needs PyTorch 2.4; this is {torch.__version__}")

_NAMES = {getattr(torch, name): short for short, name in TORCH.items() if hasattr(torch, name)}


def _name(dtype, role):
    if dtype not in _NAMES:
        raise DtypeError(f"{role} has dtype {dtype}, which tuck does not have")
    return _NAMES[dtype]


def _most_bytes(x, codec, mode, bound, checksums):
    name = _name(x.dtype, "the tensor")
    how = _settings(codec, None, Bound(mode, bound) if mode >= 0 else None, checksums, 1)
    return _tuck.plan_of(name, list(x.shape), how, False)[0]


@torch.library.custom_op("tuck::encode", mutates_args=())
def encode(x: torch.Tensor, codec: str, bound_mode: int = -1, bound: float = 0.0, checksums: bool = False,
           threads: int = 1) -> Tuple[torch.Tensor, torch.Tensor]:
    """Encodes a tensor of any shape, contiguous, in memory of the CPU or of a GPU.

    bound_mode, bound  those of a tuck.Bound; -1: no bound

    Returns a uint8 tensor with room for the largest frame, whose other bytes are 0, on a GPU undefined, and the size of
    the frame in bytes: an int64 tensor without dimensions. Both are where x is. Raises what tuck.encode raises."""
    if is_on_device(x):
        of_bound = Bound(bound_mode, bound) if bound_mode >= 0 else None
        frame = _encode(x, codec, bound=of_bound, checksums=checksums)
        return frame.buffer, frame.size
    # NumPy's zeros take no time where nothing is written.
    room = torch.from_numpy(np.zeros(_most_bytes(x, codec, bound_mode, bound, checksums), np.uint8))
    of_bound = Bound(bound_mode, bound) if bound_mode >= 0 else None
    frame = _encode(x, codec, bound=of_bound, out=room, checksums=checksums, threads=threads)
    return room, torch.tensor(frame.numel())


@encode.register_fake
def _(x, codec, bound_mode=-1, bound=0.0, checksums=False, threads=1):
    if all(isinstance(size, int) for size in x.shape):
        most = _most_bytes(x, codec, bound_mode, bound, checksums)
    else:
        most = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(most, dtype=torch.uint8), x.new_empty((), dtype=torch.int64)


@torch.library.custom_op("tuck::decode", mutates_args=())
def decode(frame: torch.Tensor, shape: List[int], dtype: torch.dtype, threads: int = 1,
           codec: str = "") -> torch.Tensor:
    """Decodes a frame: a uint8 tensor, behind whose frame there may be other bytes.

    shape, dtype  those of the frame
    codec         that of the frame; only needed on a GPU, where the operator cannot read it without waiting

    Returns a tensor of the shape and dtype. Raises what tuck.decode raises. On a GPU what is wrong with the frame is no
    error: damaged chunks become zeros, and a frame of another codec, shape or dtype leaves the result undefined."""
    out = frame.new_empty(shape, dtype=dtype)
    if not is_on_device(frame):
        return _decode(frame, out=out, threads=threads)
    if not codec:
        raise DeviceError("codec: for a frame on a GPU pass its codec, which cannot be read without waiting")
    return _decode(DeviceFrame(frame, codec, _name(dtype, "the result"), shape), out=out)


@decode.register_fake
def _(frame, shape, dtype, threads=1, codec=""):
    return frame.new_empty(shape, dtype=dtype)
