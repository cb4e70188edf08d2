"""The PyTorch operators torch.ops.tuck.encode and decode, which `import tuck.ops` registers. torch.compile takes them
into its graphs, and FakeTensorMode knows the shapes of their results. They need PyTorch 2.4.

    frame, size = torch.ops.tuck.encode(x, "zvc")
    y = torch.ops.tuck.decode(frame, x.shape, x.dtype)
"""

from typing import List, Tuple

import numpy as np
import torch

from . import Bound, DtypeError, _settings, _tuck
from . import decode as _decode
from . import encode as _encode
from .types import TORCH

if not hasattr(torch.library, "custom_op"):
    raise ImportError(f"tuck.ops needs PyTorch 2.4; this is {torch.__version__}")

_NAMES = {getattr(torch, name): short for short, name in TORCH.items() if hasattr(torch, name)}
_NAMES[torch.bool] = "u8"


def _most_bytes(x, codec, mode, bound, checksums):
    if x.dtype not in _NAMES:
        raise DtypeError(f"the tensor has dtype {x.dtype}, which tuck does not have")
    how = _settings(codec, None, Bound(mode, bound) if mode >= 0 else None, checksums, 1)
    return _tuck.most_bytes_of(_NAMES[x.dtype], list(x.shape), how)


@torch.library.custom_op("tuck::encode", mutates_args=())
def encode(x: torch.Tensor, codec: str, bound_mode: int = -1, bound: float = 0.0, checksums: bool = False,
           threads: int = 1) -> Tuple[torch.Tensor, torch.Tensor]:
    """Encodes a tensor of any shape, contiguous, in memory of the CPU.

    bound_mode, bound  those of a tuck.Bound; -1: no bound

    Returns a uint8 tensor with room for the largest frame, whose other bytes are 0, and the size of the frame in bytes:
    an int64 tensor without dimensions. Raises what tuck.encode raises."""
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
def decode(frame: torch.Tensor, shape: List[int], dtype: torch.dtype, threads: int = 1) -> torch.Tensor:
    """Decodes a frame: a uint8 tensor, behind whose frame there may be other bytes. Returns a tensor of the shape and
    dtype, which must be those of the frame. Raises what tuck.decode raises."""
    out = torch.empty(shape, dtype=dtype)
    return _decode(frame, out=out, threads=threads)


@decode.register_fake
def _(frame, shape, dtype, threads=1):
    return frame.new_empty(shape, dtype=dtype)
