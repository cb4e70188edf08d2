# SPDX-License-Identifier: Apache-2.0
"""The types of tuck by the names that NumPy and PyTorch have for them."""

import sys
from typing import TYPE_CHECKING

from .errors import DeviceError, DtypeError


class _Lazy:
    """NumPy, imported when something of it is used first: that takes longer than to import all else."""

    def __getattr__(self, name):
        import numpy

        setattr(self, name, getattr(numpy, name))
        return getattr(numpy, name)


if TYPE_CHECKING:
    import numpy as np
else:
    np = _Lazy()

# Booleans are u8 in a frame, whose metadata says what they are. NumPy gets integers for types that it has not.
AS_INTEGERS = {"bf16": "uint16", "f8e4m3": "uint8", "f8e5m2": "uint8"}
OWN = {"bool": "bool", "u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32",
       "u64": "uint64", "i64": "int64", "f16": "float16", "f32": "float32", "f64": "float64"}
NUMPY = {**OWN, **AS_INTEGERS}
TORCH = {**OWN, "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}


def torch_type(torch, name: str):
    """The type of PyTorch for one of tuck's, or one that has the same name in both."""
    of = TORCH.get(name, name)
    if not hasattr(torch, of):
        raise DtypeError(f"this version of PyTorch has no {of}; decode to a NumPy array")
    return getattr(torch, of)


def check_dense(x, role: str) -> None:
    """Checks a tensor of PyTorch."""
    if x.is_nested or x.is_quantized or str(x.layout) != "torch.strided" or x._is_zerotensor():
        what = ("is nested" if x.is_nested else "is quantized" if x.is_quantized else
                "is of zeros without memory" if x._is_zerotensor() else f"has layout {x.layout}")
        raise DtypeError(f"{role} {what}; tuck takes dense tensors")
    try:
        is_there = x.numel() == 0 or x.data_ptr() != 0
    except RuntimeError:  # within torch.func
        is_there = False
    if not is_there:
        raise DeviceError(f"{role} has no memory of its own, or it has been freed: a {type(x).__name__} on {x.device}")


def is_torch(x) -> bool:
    return isinstance(x, getattr(sys.modules.get("torch"), "Tensor", ()))
