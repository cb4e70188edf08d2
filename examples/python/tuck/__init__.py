"""tuck compresses tensors: NumPy arrays, PyTorch tensors, and anything with DLPack, in memory of the CPU.

    frame = tuck.encode(x)                            # a frame: bytes that also say type, shape and codec
    y = tuck.decode(frame)

    frame = tuck.encode(x, "quantize", bound=tuck.absolute(1e-3))
    delta = tuck.encode_delta(new, old)               # few changes take few bytes
    new = tuck.apply_delta(delta, old)

The bytes are those of the C++ library. The program `tuck`, which `python -m tuck` runs, reads and writes the same
frames as files.
"""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache

import numpy as np

from . import _tuck
from .errors import *  # noqa: F401,F403
from .errors import __all__ as _errors

__version__ = "1.0.0"
__all__ = ["absolute", "apply_delta", "codecs", "decode", "decode_batch", "decode_into", "encode", "encode_batch",
           "encode_delta", "info", "load", "max_frame_bytes", "pointwise", "range_relative", "save", "Bound", "Codec",
           "Info", *_errors]

Bound = namedtuple("Bound", "mode value")
Bound.__doc__ = """An error bound. Made by absolute, range_relative and pointwise."""
Codec = namedtuple("Codec", "name dtypes is_lossy")
Codec.__doc__ = """A codec: its name, the names of the types that it takes, and whether it needs a bound."""
Info = namedtuple("Info", "dtype shape codec bound values raw_bytes frame_bytes chunk_values is_delta has_checksums")
Info.__doc__ = """What a frame says about itself. bound is None, or the Bound of a lossy codec."""

_OF_DELTAS = object()  # the codec that the library takes for deltas of the type
_MODES = ("absolute", "range", "pointwise")
# Types that NumPy has not are integers there, unless ml_dtypes is installed.
_AS_INTEGERS = {"bf16": "uint16", "f8e4m3": "uint8", "f8e5m2": "uint8"}
_NUMPY = {"u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32",
          "u64": "uint64", "i64": "int64", "f16": "float16", "f32": "float32", "f64": "float64"}
_TORCH = {"u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32",
          "u64": "uint64", "i64": "int64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
          "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
_NATIVE = {np.dtype(name) for name in [*_NUMPY.values(), "bool"]}
_ML_DTYPES = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}


def absolute(value: float) -> Bound:
    """Bounds |x - x'| by `value`, for each finite value x that is restored as x'."""
    return Bound(0, float(value))


def range_relative(value: float) -> Bound:
    """Bounds |x - x'| by `value` times (highest - lowest), over the finite values of the tensor."""
    return Bound(1, float(value))


def pointwise(value: float) -> Bound:
    """Bounds |x - x'| by `value` times |x|."""
    return Bound(2, float(value))


@lru_cache(maxsize=256)
def _settings(codec, dtype, bound, checksums, threads):
    if bound is None:
        mode, value = -1, 0.0
    elif isinstance(bound, Bound):
        mode, value = bound
    else:
        raise TypeError("bound: pass tuck.absolute(x), tuck.range_relative(x) or tuck.pointwise(x)")
    if not isinstance(codec, str) and codec is not _OF_DELTAS:
        raise TypeError("codec: pass its name, such as 'zvc'")
    return _tuck.Settings("" if codec is _OF_DELTAS else codec or "none", dtype or "", mode, value, bool(checksums), threads)


def _is_torch(x):
    return type(x).__module__.split(".", 1)[0] == "torch" and hasattr(x, "data_ptr")


def _array(x, role, dtype=None):
    """What the extension takes for x, and the name of its type if the array does not tell."""
    if type(x) is np.ndarray:
        if x.dtype in _NATIVE:
            return x, dtype
        if not x.dtype.isnative:
            raise ByteOrderError(f"{role} is big-endian; pass x.astype(x.dtype.newbyteorder('='))")
        if x.dtype.kind == "V" or x.dtype.name in _ML_DTYPES:
            own = _ML_DTYPES.get(x.dtype.name)
            if own is None and dtype is None:
                raise DtypeError(f"{role} has dtype {x.dtype}, which tuck does not have")
            return x.view(f"u{x.dtype.itemsize}"), dtype or own
        return x, dtype
    if isinstance(x, np.generic):
        return np.asarray(x), dtype
    if _is_torch(x):
        if x.layout is not _torch().strided or x.is_quantized:
            raise DtypeError(f"{role} is not a dense tensor")
        x = x.detach()
        if x.is_conj() or x.is_neg():
            x = x.resolve_conj().resolve_neg()
        if x.device.type != "cpu":
            raise DeviceError(f"{role} is on {x.device}; this build of tuck encodes memory of the CPU: pass x.cpu()")
        name = str(x.dtype).split(".")[1]
        if name == "bool":  # DLPack of older versions does not take it
            return x.view(_torch().uint8), dtype
        if name == "bfloat16":
            return x.view(_torch().int16), dtype or "bf16"
        if name in _ML_DTYPES:
            return x.view(_torch().uint8), dtype or _ML_DTYPES[name]
        return x, dtype
    return x, dtype


def _torch():
    import torch

    return torch


def _room(bytes, like):
    return _torch().empty(bytes, dtype=_torch().uint8) if _is_torch(like) else np.empty(bytes, np.uint8)


def _used(room, bytes):
    if type(room) is np.ndarray:
        room.resize(bytes, refcheck=False)  # gives back what the frame does not need
        return room
    return room[:bytes].clone()


def encode(x, codec="zvc", *, bound=None, out=None, dtype=None, checksums=False, threads=1):
    """Encodes a tensor.

    x          array of any shape, contiguous, in memory of the CPU
    codec      name of a codec or chain; see codecs()
    bound      for lossy codecs, and only for them: absolute(v), range_relative(v) or pointwise(v)
    out        None, or uint8 array for the frame; max_frame_bytes(x, ...) are always enough
    dtype      None, or what integers of the same size stand for: "bf16", "f8e4m3" or "f8e5m2"
    checksums  whether the frame has a digest of each chunk, which decoding compares
    threads    most threads; 0: one per core

    Returns the frame: a uint8 array, or a uint8 torch tensor for a torch tensor. With `out`, its first bytes.
    Raises a subclass of TuckError."""
    x, dtype = _array(x, "the tensor", dtype)
    how = _settings(codec, dtype, bound, checksums, threads)
    if out is None:
        room = _room(_tuck.most_bytes(x, how, False), x)
        return _used(room, _tuck.encode(x, room, how))
    return out[: _tuck.encode(x, _array(out, "out")[0], how)]


def encode_delta(x, base, codec=None, *, out=None, dtype=None, threads=1):
    """Encodes a tensor relative to a base of the same type and size, such as the weights of the step before. Lossless.

    codec   None, or a name; None is "steps" for floats of up to 4 bytes, and "gaps" for other types

    The other parameters are those of encode. Deltas always have checksums. Returns the delta, which is a frame."""
    x, dtype = _array(x, "the tensor", dtype)
    base, _ = _array(base, "the base", dtype)
    how = _settings(codec or _OF_DELTAS, dtype, None, True, threads)
    if out is None:
        room = _room(_tuck.most_bytes(x, how, True), x)
        return _used(room, _tuck.encode_delta(x, base, room, how))
    return out[: _tuck.encode_delta(x, base, _array(out, "out")[0], how)]


def _new_tensor(seen, like):
    """An uninitialized array for the tensor that a frame has, and what the extension may write."""
    dtype, order = seen["dtype"], "F" if seen["fortran_order"] else "C"
    if _is_torch(like):
        torch = _torch()
        if not hasattr(torch, _TORCH[dtype]):
            raise DtypeError(f"this version of PyTorch has no {_TORCH[dtype]}; decode into an array of integers")
        shape = tuple(reversed(seen["shape"])) if order == "F" else seen["shape"]
        made = torch.empty(shape, dtype=getattr(torch, _TORCH[dtype]))
        return made.permute(*reversed(range(made.dim()))) if order == "F" and made.dim() > 1 else made, made
    if dtype not in _AS_INTEGERS:
        made = np.empty(seen["shape"], _NUMPY[dtype], order)
    else:
        made = np.empty(seen["shape"], _AS_INTEGERS[dtype], order)
    return made, made.T if order == "F" else made


def decode(frame, *, out=None, threads=1):
    """Decodes a frame.

    frame    uint8 array, torch tensor, bytes, or anything with the buffer protocol or DLPack
    out      None, or contiguous array for the values, of the frame's type and number of values
    threads  most threads; 0: one per core

    Returns `out`, or a new array of the frame's type and shape: a torch tensor if the frame is one. NumPy gets bf16 and
    8-bit floats as integers. Raises DamagedFrameError if the frame is not valid; new arrays are then not returned, and
    the damaged chunks of `out` are 0."""
    from_, _ = _array(_as_array(frame), "the frame")
    if out is not None:
        _tuck.decode(from_, _array(out, "out")[0], threads)
        return out
    seen = _tuck.info(from_)
    made, room = _new_tensor(seen, frame)
    _tuck.decode(from_, _array(room, "out")[0], threads)
    return made


def decode_into(frame, out, *, threads=1):
    """Decodes a frame into an array. The same as decode(frame, out=out)."""
    return decode(frame, out=out, threads=threads)


def apply_delta(delta, base, *, out=None, threads=1):
    """Restores the tensor that encode_delta has encoded.

    base   the base of the delta, bit for bit; WrongBaseError if it is another, and nothing is written
    out    None, or array for the values, which may be `base` itself

    Returns `out`, or a new array like `base`."""
    from_, _ = _array(_as_array(delta), "the delta")
    before, _ = _array(base, "the base")
    if out is None:
        out = _torch().empty_like(base) if _is_torch(base) else np.empty_like(base)
    _tuck.apply_delta(from_, before, _array(out, "out")[0], threads)
    return out


def encode_batch(tensors, codec="zvc", *, bound=None, threads=1, checksums=False):
    """Encodes each tensor of a list or dict. Returns the frames in a list, or in a dict with the same keys."""
    def one(x):
        return encode(x, codec, bound=bound, threads=threads, checksums=checksums)

    return {k: one(x) for k, x in tensors.items()} if isinstance(tensors, dict) else [one(x) for x in tensors]


def decode_batch(frames, *, threads=1):
    """Decodes each frame of a list or dict. Returns the tensors in a list, or in a dict with the same keys."""
    if isinstance(frames, dict):
        return {k: decode(f, threads=threads) for k, f in frames.items()}
    return [decode(f, threads=threads) for f in frames]


def _as_array(frame):
    return np.frombuffer(frame, np.uint8) if isinstance(frame, (bytes, bytearray, memoryview)) else frame


def info(frame) -> Info:
    """Reads what a frame says about itself, without decoding it."""
    seen = _tuck.info(_array(_as_array(frame), "the frame")[0])
    mode = seen.get("bound_mode")
    bound = Bound(_MODES.index(mode), seen["bound"]) if mode is not None else None
    return Info(seen["dtype"], seen["shape"], seen["codec"], bound, seen["values"], seen["raw_bytes"],
                seen["frame_bytes"], seen["chunk_values"], seen["is_delta"], seen["has_checksums"])


def max_frame_bytes(x, codec="zvc", *, bound=None, dtype=None, checksums=False, is_delta=False) -> int:
    """Returns the size of an `out` that is enough for any tensor of the shape and type of x."""
    x, dtype = _array(x, "the tensor", dtype)
    return _tuck.most_bytes(x, _settings(codec, dtype, bound, checksums or is_delta, 1), is_delta)


def codecs() -> list:
    """Lists the codecs and chains."""
    return [Codec(name, tuple(types.split(", ")), lossy) for name, types, lossy in _tuck.codecs()]


def save(path, x, codec="zvc", *, bound=None, dtype=None, threads=0):
    """Writes a tensor to a .tuck file, as `tuck encode` does. The file appears at once or not at all."""
    import os
    import tempfile

    frame = encode(x, codec, bound=bound, dtype=dtype, checksums=True, threads=threads)
    folder = os.path.dirname(os.path.abspath(path))
    handle, fresh = tempfile.mkstemp(prefix=".tuck-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(memoryview(frame.numpy() if _is_torch(frame) else frame))
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(fresh, 0o666 & ~mask)
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise


def load(path, *, threads=0):
    """Reads a .tuck file: the tensor that it holds, as a NumPy array."""
    return decode(np.fromfile(path, np.uint8), threads=threads)
