# SPDX-License-Identifier: Apache-2.0
"""LMCache: KV pages through tuck on their way to a storage tier. `import tuck.lmcache` registers the serde "tuck":

    {"type": "fs", "base_path": "/cache", "serde": {"type": "tuck"}}
    {"type": "fs", "base_path": "/cache", "serde": {"type": "tuck", "codec": "quantize", "pointwise": 0.01}}

Each tensor of an object becomes a frame. Without a codec, `codebooks` encodes floats of up to 4 bytes, and `huffman`
the other types, both without loss. Frames have checksums. Each failure is an exception, which LMCache counts as a
failed store or as a miss. So no empty entry is stored, and a damaged or foreign frame never becomes pages.
"""

from __future__ import annotations

from typing import Any, Iterator

import torch
from lmcache.v1.distributed.serde.async_processor import AsyncSerdeProcessor
from lmcache.v1.distributed.serde.base import Deserializer, Serializer
from lmcache.v1.distributed.serde.factory import register_serde_factory

from . import (Bound, DtypeError, SizeError, _settings, _tuck, absolute, codecs, decode, encode, info, pointwise,
               range_relative)
from .types import TORCH

_BOUNDS = {"absolute": absolute, "range_relative": range_relative, "pointwise": pointwise}
_OF_CODEBOOKS = next(codec.dtypes for codec in codecs() if codec.name == "codebooks")
_NAMES = {getattr(torch, of): name for name, of in TORCH.items() if hasattr(torch, of)}


def _name(dtype) -> str:
    if dtype not in _NAMES:
        raise DtypeError(f"the pages have dtype {dtype}, which tuck does not have")
    return _NAMES[dtype]


def _tensors(obj, role: str) -> Iterator[torch.Tensor]:
    """The tensors of an object, which may have several groups of layers."""
    groups = len(obj.metadata.shapes or ())
    for t in (obj.get_tensor(i) for i in range(groups)) if groups else (obj.tensor,):
        if t is None:
            raise ValueError(f"{role} of the serde has no tensor: it was freed, or is no TensorMemoryObj")
        yield t


class TuckSerializer(Serializer):
    def __init__(self, codec: str | None = None, bound: Bound | None = None) -> None:
        self.codec, self.bound = codec, bound
        self._most_bytes((1,), torch.float32)  # raises what is wrong with them

    def _codec(self, name: str) -> str:
        return self.codec or ("codebooks" if name in _OF_CODEBOOKS else "huffman")

    def _most_bytes(self, shape, dtype) -> int:
        name = _name(dtype)
        how = _settings(self._codec(name), None, self.bound, True, 1)
        return _tuck.plan_of(name, list(shape), how, False)[0]

    def estimate_serialized_size(self, layout_desc) -> int:
        return sum(map(self._most_bytes, layout_desc.shapes, layout_desc.dtypes))

    def serialize(self, src, dst, key) -> int:
        room, size = memoryview(dst.byte_array).cast("B"), 0
        for t in _tensors(src, "the source"):
            codec = self._codec(_name(t.dtype))
            size += len(encode(t, codec, bound=self.bound, out=room[size:], checksums=True))
        return size


class TuckDeserializer(Deserializer):
    def deserialize(self, src, dst, key) -> None:
        frames = memoryview(src.byte_array).cast("B")
        for t in _tensors(dst, "the destination"):
            of = info(frames)
            if (of.dtype, of.shape) != (_name(t.dtype), tuple(t.shape)):
                raise SizeError(f"the frame has {of.dtype} {of.shape}, the pages {_name(t.dtype)} {tuple(t.shape)}")
            decode(frames, out=t)
            frames = frames[of.frame_bytes:]


def create(options: dict[str, Any]) -> AsyncSerdeProcessor:
    """Makes the serde. Options: codec, a name; for a lossy one absolute, range_relative or pointwise, a number;
    max_workers, how many threads (1). Raises ValueError or a TuckError, which names what is wrong."""
    wrong = sorted(set(options) - {"codec", "max_workers", *_BOUNDS})
    bounds = [_BOUNDS[name](value) for name, value in options.items() if name in _BOUNDS]
    if wrong or len(bounds) > 1:
        raise ValueError(f"serde tuck: {', '.join(wrong) + ' is no option' if wrong else 'more than one bound'}")
    serializer = TuckSerializer(options.get("codec"), *bounds)
    return AsyncSerdeProcessor(serializer, TuckDeserializer(), max_workers=int(options.get("max_workers", 1)))


register_serde_factory("tuck", create)
