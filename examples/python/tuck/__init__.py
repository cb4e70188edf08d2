# SPDX-License-Identifier: Apache-2.0
"""tuck compresses tensors: NumPy arrays, PyTorch tensors, and anything with DLPack, in memory of the CPU or of a GPU.

    frame = tuck.encode(x)                            # a frame: bytes that also say type, shape and codec
    y = tuck.decode(frame)

    frame = tuck.encode(x, "quantize", bound=tuck.absolute(1e-3))
    delta = tuck.encode_delta(new, old)               # few changes take few bytes
    new = tuck.apply_delta(delta, old)

The bytes are those of the C++ library. The program `tuck`, which `python -m tuck` runs, reads and writes the same
frames as files.
"""

from __future__ import annotations

from functools import lru_cache
from os import PathLike, fsdecode, fsencode
from typing import (TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, TypeVar, Union,
                    overload)

from . import _tuck, device, errors
from .device import DeviceArray, DeviceFrame, is_on_device
from .errors import *  # noqa: F403
from .types import NUMPY, check_dense, is_torch, torch_type

__version__: str = _tuck.version
__all__ = ["absolute", "apply_delta", "apply_delta_batch", "codecs", "decode", "decode_batch", "decode_into", "digest",
           "encode", "encode_batch", "encode_delta", "encode_delta_batch", "info", "load", "max_frame_bytes",
           "pointwise", "range_relative", "save", "saved_tensors", "Bound", "Codec", "DeviceArray", "DeviceFrame",
           "Info"]
__all__ += errors.__all__

if TYPE_CHECKING:
    import numpy as np
    import torch

    from .saved import SavedTensors
else:
    from .types import np

# NumPy arrays, PyTorch tensors, and anything else with the buffer protocol or DLPack.
Array = Any
Bytes = Union[bytes, bytearray, memoryview]
Path = Union[str, bytes, "PathLike[str]", "PathLike[bytes]"]
T = TypeVar("T")
Key = TypeVar("Key")


class Bound(NamedTuple):
    """An error bound. Made by absolute, range_relative and pointwise."""

    mode: int
    value: float


class Codec(NamedTuple):
    """A codec: its name, the names of the types that it takes, and whether it needs a bound."""

    name: str
    dtypes: Tuple[str, ...]
    is_lossy: bool


class Info(NamedTuple):
    """What a frame says about itself."""

    dtype: str  # of tuck: "f32", "bf16"; "bool" for booleans
    shape: Tuple[int, ...]
    codec: str
    bound: Optional[Bound]  # None: lossless
    values: int
    raw_bytes: int
    frame_bytes: int
    chunk_values: int
    is_delta: bool
    has_checksums: bool
    fortran_order: bool  # whether the values are stored in Fortran order, as the program does for such arrays


_OF_DELTAS = object()  # the codec that the library takes for deltas of the type
_NATIVE = "?bBhHiIlLqQefd"  # NumPy's characters for what the extension takes
_ML_DTYPES = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}


def _bound(mode: int, value: float) -> Bound:
    if not 0 < float(value) < float("inf"):
        raise BoundError(f"a bound is positive and finite, not {value!r}")
    return Bound(mode, float(value))


def absolute(value: float) -> Bound:
    """Bounds |x - x'| by `value`, for each finite value x that is restored as x'. A bound is positive and finite, else
    BoundError."""
    return _bound(0, value)


def range_relative(value: float) -> Bound:
    """Bounds |x - x'| by `value` times (highest - lowest), over the finite values of the tensor."""
    return _bound(1, value)


def pointwise(value: float) -> Bound:
    """Bounds |x - x'| by `value` times |x|. With each kind of bound, infinities and NaN are restored exactly; -0.0 may
    become 0.0."""
    return _bound(2, value)


def _mode(bound):
    if bound is None:
        return -1, 0.0
    if isinstance(bound, Bound) and bound.mode in (0, 1, 2) and isinstance(bound.value, (int, float)):
        return bound
    raise TypeError("bound: pass tuck.absolute(x), tuck.range_relative(x) or tuck.pointwise(x)")


def _check_name(value, role, example):
    if not isinstance(value, str) or not value.isprintable() or not value:
        raise TypeError(f"{role}: pass a name, such as {example!r}, not {value!r}")


@lru_cache(maxsize=256)
def _cached_settings(codec, dtype, bound, checksums, threads, for_gpu):
    mode, value = _mode(bound)
    name = "" if codec is _OF_DELTAS else codec or None  # which is a TypeError
    return _tuck.Settings(name, dtype or "", mode, value, bool(checksums), threads,  # pyright: ignore
                          bool(for_gpu))


def _settings(codec, dtype, bound, checksums, threads, for_gpu=False):
    try:
        return _cached_settings(codec, dtype, bound, checksums, threads, for_gpu)
    except TypeError:  # perhaps of what the cache cannot hold
        if codec is not _OF_DELTAS:
            _check_name(codec, "codec", "zvc")
        if dtype is not None:
            _check_name(dtype, "dtype", "bf16")
        return _cached_settings.__wrapped__(codec, dtype, bound, checksums, threads, for_gpu)


def _own_type(own, x, role, dtype):
    """The name of the type of x, unless it was declared to be another."""
    if dtype not in (None, own):
        raise DtypeError(f"{role} has dtype {x.dtype}; dtype='{dtype}' is for integers")
    return own


def _array(x, role, dtype=None):
    """What the extension takes for x, and the name of its type if the array does not tell."""
    if isinstance(x, np.ndarray):
        if type(x) is not np.ndarray:
            if isinstance(x, np.ma.MaskedArray):
                raise TypeError(f"{role} is a masked array; " +
                                ("pass out.data" if role == "out" else "encode x.data and x.mask"))
            x = x.view(np.ndarray)
        if x.dtype.char in _NATIVE and x.dtype.isnative:
            return x, dtype
        if not x.dtype.isnative:
            raise ByteOrderError(f"{role} is big-endian; pass x.astype(x.dtype.newbyteorder('='))")
        own = _ML_DTYPES.get(x.dtype.name)
        if own:
            return x.view(f"u{x.dtype.itemsize}"), _own_type(own, x, role, dtype)
        if x.dtype.type is np.void and dtype and x.dtype.names is None and x.dtype.itemsize <= 2:
            return x.view(f"u{x.dtype.itemsize}"), dtype
        if x.dtype.kind == "V" or x.dtype.hasobject:  # whose values are elsewhere
            _refuse_type(x, role)
        return x, dtype
    if isinstance(x, np.generic):
        return np.asarray(x), dtype
    if is_torch(x):
        check_dense(x, role)
        if x.device.type != "cpu":
            raise DeviceError(f"{role} is on {x.device}; pass x.cpu()")
        x = x.detach()
        if x.is_conj() or x.is_neg():
            if role == "out":
                raise DtypeError("out has other signs than its memory; pass out.resolve_neg()")
            x = x.resolve_conj().resolve_neg()
        if not x.is_contiguous():
            raise ContiguityError(f"{role} is not contiguous" + ("" if role == "out" else "; pass x.contiguous()"))
        name = str(x.dtype).split(".")[1]
        if name == "bool":  # DLPack of older versions does not take it
            return x.view(_torch().uint8), dtype or "bool"
        if name == "bfloat16":
            return x.view(_torch().int16), _own_type("bf16", x, role, dtype)
        if name in _ML_DTYPES:
            return x.view(_torch().uint8), _own_type(_ML_DTYPES[name], x, role, dtype)
        if name.startswith(("int", "uint", "bits")) and name not in NUMPY.values():  # to DLPack they are others
            _refuse_type(x, role)
        return x, dtype
    if x is None:
        raise TypeError(f"{role} is None; pass a NumPy array or a torch tensor")
    if is_on_device(x):
        raise DeviceError(f"{role} is in memory of a GPU")
    return x, dtype


def _refuse_type(x, role):
    raise DtypeError(f"{role} has dtype {x.dtype}; tuck takes {', '.join(codecs()[0].dtypes)} and booleans")


def _out(out, role="out") -> Tuple[Any, str]:
    """What the extension takes for an array of values, and the name of its type, or ""."""
    room, dtype = _array(out, role)
    return room, dtype or ""


def _in_order_of(frame, x, role):
    """x, or for a frame in Fortran order its transpose, whose memory has the order of the frame."""
    if not _tuck.is_fortran(frame):
        return x
    if is_torch(x):
        x = x.detach().permute(*range(x.dim())[::-1])
        is_right = x.dim() > 1 and x.is_contiguous()
    else:
        x = np.asarray(x).T
        is_right = x.ndim > 1 and x.flags.c_contiguous
    if not is_right:
        raise ContiguityError(f"the frame is in Fortran order; {role} must be, too, and have two or more dimensions")
    return x


def _torch():
    import torch

    return torch


def _on_gpu(x) -> bool:
    return isinstance(x, DeviceFrame) or is_on_device(x)


def _refuse_stream(stream) -> None:
    if stream is not None:
        raise DeviceError("stream is for arrays on a GPU")


def _need_checksums(checksums) -> None:
    if not checksums:
        raise TuckError("checksums=False is not for deltas, which are verified by checksums")


def _room(bytes, like):
    return _torch().empty(bytes, dtype=_torch().uint8, device="cpu") if is_torch(like) else np.empty(bytes, np.uint8)


def _count_write(out):
    """Tells autograd of a write that PyTorch has not made, by one of its own that changes no value."""
    if is_torch(out) and not out.is_inference():
        out.detach().as_strided((0,), (1,)).zero_()


def _used(room, bytes):
    if type(room) is np.ndarray:
        room.resize(bytes, refcheck=False)  # gives back what the frame does not need
        return room
    return room[:bytes].clone()


@overload
def encode(x: np.ndarray, codec: str = "zvc", *, bound: Optional[Bound] = None, out: Optional[Array] = None,
           dtype: Optional[str] = None, checksums: bool = False, threads: int = 1) -> np.ndarray: ...
@overload
def encode(x: Array, codec: str = "zvc", *, bound: Optional[Bound] = None, out: Optional[Array] = None,
           dtype: Optional[str] = None, checksums: bool = False, stream: Any) -> DeviceFrame: ...
@overload
def encode(x: Array, codec: str = "zvc", *, bound: Optional[Bound] = None, out: Optional[Array] = None,
           dtype: Optional[str] = None, checksums: bool = False, threads: int = 1, stream: Any = None) -> Any: ...
def encode(x, codec="zvc", *, bound=None, out=None, dtype=None, checksums=False, threads=1, stream=None):
    """Encodes a tensor.

    x          array of any shape, contiguous, in memory of the CPU, or of a GPU where the package was built for GPUs
    codec      name of a codec or chain; see codecs()
    bound      for lossy codecs, and only for them: absolute(v), range_relative(v) or pointwise(v)
    out        None, or uint8 array of one dimension for the frame; max_frame_bytes(x, ...) are always enough
    dtype      None, or what integers of the same size stand for: "bf16", "f8e4m3" or "f8e5m2"
    checksums  whether the frame has a digest of each chunk, which decoding compares
    threads    most threads; 0: one per core
    stream     for arrays on a GPU, on whose stream the call is asynchronous: a number as CUDA has it, or a stream of
               PyTorch, CuPy, or with __cuda_stream__. None: PyTorch's current stream, that of the array's
               __cuda_array_interface__, or the default stream. x and `out` must stay until it has done the work

    Returns the frame: a uint8 array, or a uint8 torch tensor for a torch tensor. With `out`, its first bytes. On a GPU,
    returns a DeviceFrame, whose bytes are the same. Raises a subclass of TuckError; on a GPU OutputTooSmallError may
    come from DeviceFrame.wait."""
    if is_on_device(x):
        how = _settings(codec, None, bound, checksums, 1)
        return device.encode([x], how, _mode(bound), dtype, checksums, stream, outs=[out])[0]
    _refuse_stream(stream)
    x, dtype = _array(x, "the tensor", dtype)
    how = _settings(codec, dtype, bound, checksums, threads)
    if out is None:
        room = _room(_tuck.most_bytes(x, how, False), x)
        return _used(room, _tuck.encode(x, room, how))
    return out[: _tuck.encode(x, _array(out, "out")[0], how)]


@overload
def encode_delta(x: np.ndarray, base: Array, codec: Optional[str] = None, *, out: Optional[Array] = None,
                 dtype: Optional[str] = None, checksums: bool = True, threads: int = 1,
                 for_gpu: bool = False) -> np.ndarray: ...
@overload
def encode_delta(x: Array, base: Array, codec: Optional[str] = None, *, out: Optional[Array] = None,
                 dtype: Optional[str] = None, checksums: bool = True, stream: Any) -> DeviceFrame: ...
@overload
def encode_delta(x: Array, base: Array, codec: Optional[str] = None, *, out: Optional[Array] = None,
                 dtype: Optional[str] = None, checksums: bool = True, threads: int = 1, stream: Any = None,
                 for_gpu: bool = False) -> Any: ...
def encode_delta(x, base, codec=None, *, out=None, dtype=None, checksums=True, threads=1, stream=None, for_gpu=False):
    """Encodes a tensor relative to a base of the same type and size, such as the weights of the step before. Lossless.

    codec      None, or a name; None is "steps" for floats of up to 4 bytes, and "zvc+huffman" for other types. On
               a GPU one of "rle", "steps", "zvc" and "zvc+huffman"
    checksums  True: deltas always have checksums
    for_gpu    whether a GPU is to apply a delta that the CPU encodes: its chunks are then as small as a GPU needs them,
               and its bytes those of a GPU. A GPU does not take other deltas of "steps" and "zvc+huffman" from the CPU

    The other parameters are those of encode. On a GPU the base is there too. Returns the delta, which is a frame: what
    encode returns. Raises SizeError if the base has another type or size, OverlapError if
    `out` overlaps it, and what encode raises."""
    _need_checksums(checksums)
    if is_on_device(x):
        how = _settings(codec or _OF_DELTAS, None, None, True, 1, True)
        return device.encode([x], how, _mode(None), dtype, True, stream, [base], [out])[0]
    _refuse_stream(stream)
    x, own = _array(x, "the tensor", dtype)
    base, of_base = _array(base, "the base", dtype)
    how = _settings(codec or _OF_DELTAS, own, None, True, threads, for_gpu)
    if out is None:
        room = _room(_tuck.most_bytes(x, how, True), x)
        return _used(room, _tuck.encode_delta(x, base, of_base or "", room, how))
    return out[: _tuck.encode_delta(x, base, of_base or "", _array(out, "out")[0], how)]


def _new_tensor(frame, like):
    """An uninitialized array for the tensor of a frame; then an array and a type that the extension takes for it."""
    dtype, shape, is_fortran = _tuck.tensor_of(frame)
    if is_torch(like):
        torch = _torch()
        made = torch.empty(shape[::-1] if is_fortran else shape, dtype=torch_type(torch, dtype), device="cpu")
        return (made.permute(*range(made.dim())[::-1]) if is_fortran else made, *_out(made))
    if is_fortran:
        made = np.empty(shape, NUMPY[dtype], "F")
        return made, made.T, ""
    made = np.empty(shape, NUMPY[dtype])
    return made, made, ""


@overload
def decode(frame: Union[Array, Bytes, DeviceFrame], *, out: T, threads: int = 1, stream: Any = None,
           check: bool = False) -> T: ...
@overload
def decode(frame: DeviceFrame, *, out: None = None, stream: Any = None, check: bool = False) -> Any: ...
@overload
def decode(frame: Union[np.ndarray, Bytes], *, out: None = None, threads: int = 1) -> np.ndarray: ...
@overload
def decode(frame: torch.Tensor, *, out: None = None, threads: int = 1) -> torch.Tensor: ...
@overload
def decode(frame: Array, *, out: None = None, threads: int = 1, stream: Any = None, check: bool = False) -> Any: ...
def decode(frame, *, out=None, threads=1, stream=None, check=False):
    """Decodes a frame.

    frame    uint8 array, torch tensor, bytes, or anything with the buffer protocol or DLPack
    out      None, or contiguous array for the values, of the frame's type and number of values
    threads  most threads; 0: one per core
    stream   for a DeviceFrame, on whose stream the call is asynchronous, as for encode
    check    for a DeviceFrame: whether to wait for the stream and to raise DamagedFrameError. Else damage shows only as
             values that are 0

    Returns `out`, or a new array of the frame's type and shape: a torch tensor if the frame is one; for another frame
    on a GPU a DeviceArray. NumPy gets bf16 and 8-bit floats as integers. Raises DamagedFrameError if the frame is not
    valid; new arrays are then not returned, and the damaged chunks of `out` are 0."""
    if _on_gpu(frame):
        return device.decode([frame], check, stream, outs=[out])[0]
    _refuse_stream(stream)
    from_, _ = _array(_as_array(frame), "the frame")
    if out is not None:
        room = _out(_in_order_of(from_, out, "out"))
        try:
            _tuck.decode(from_, *room, threads)
        finally:  # the values before the damage may have been written
            _count_write(out)
        return out
    made, room, dtype = _new_tensor(from_, frame)
    _tuck.decode(from_, room, dtype, threads)
    return made


def decode_into(frame: Union[Array, Bytes, DeviceFrame], out: T, *, threads: int = 1, stream: Any = None,
                check: bool = False) -> T:
    """Decodes a frame into an array. The same as decode(frame, out=out)."""
    return decode(frame, out=out, threads=threads, stream=stream, check=check)


def apply_delta(delta: Union[Array, Bytes, DeviceFrame], base: T, *, out: Optional[T] = None, threads: int = 1,
                stream: Any = None, check: bool = False) -> T:
    """Restores the tensor that encode_delta has encoded.

    delta   frame, as for decode; a DeviceFrame on a GPU, where the base is too
    base    the base of the delta, bit for bit; WrongBaseError if it is another
    out     None, or array for the values, which may be `base` itself
    stream  for a DeviceFrame, on whose stream the call is asynchronous, as for encode
    check   for a DeviceFrame: whether to wait for the stream and to raise WrongBaseError, NotADeltaError or
            DamagedFrameError. Else `out` shows nothing of them: it is not written, a new array not even initialized

    Returns `out`, or a new array like `base`: on a GPU a torch tensor or a DeviceArray. After an error, also a
    DamagedFrameError, `out` is as it was."""
    if _on_gpu(delta):
        return device.decode([delta], check, stream, [base], [out])[0]
    _refuse_stream(stream)
    made, arrays = _arrays_of_delta(delta, base, out)
    _tuck.apply_delta(*arrays, threads)
    _count_write(made)
    return made


def _arrays_of_delta(delta, base, out) -> Tuple[Any, Tuple[Any, Any, str, Any, str]]:
    """`out`, or a new array, and what the extension takes: delta, base and its type, out and its type."""
    from_, _ = _array(_as_array(delta), "the delta")
    before = _out(_in_order_of(from_, base, "the base"), "the base")
    if out is None:
        out = _torch().empty_like(base, device="cpu") if is_torch(base) else np.empty_like(base)
    return out, (from_, *before, *_out(_in_order_of(from_, out, "out")))


def _apply_deltas(keys, deltas, bases, outs, threads, stream) -> list:
    """Verifies all deltas of a batch, then writes."""
    _refuse_stream(stream)
    with errors.of_tensor(keys) as tensor:
        made: List[Any] = []
        all_arrays: List[Tuple[Any, Any, str, Any, str]] = []
        for tensor.at, row in enumerate(zip(deltas, bases, outs)):
            out, arrays = _arrays_of_delta(*row)
            made.append(out)
            all_arrays.append(arrays)
        writers = device.writers_of(tensor, [_tuck.delta_memory(a[0], a[1], a[3]) for a in all_arrays])
        for tensor.at, writer in enumerate(writers):
            if writer != tensor.at and not _tuck.same_delta(all_arrays[tensor.at][0], all_arrays[writer][0]):
                raise OverlapError(f"out is that of tensor {keys[writer]!r}, whose delta is another")  # noqa: F405
        for passes in (_tuck.verify_delta, _tuck.write_delta):
            for tensor.at, (writer, arrays) in enumerate(zip(writers, all_arrays)):
                if passes == _tuck.verify_delta or writer == tensor.at:
                    _tuck.apply_delta(*arrays, threads, passes)
        for out in made:
            _count_write(out)
    return made


def _each(call):
    """A call for each tensor of a batch."""
    def calls(keys, *rows):
        made = []
        with errors.of_tensor(keys) as tensor:
            for tensor.at, row in enumerate(zip(*rows)):
                made.append(call(*row))
        return made

    return calls


def _batch(on_cpu, on_gpu, **columns):
    """Calls for a batch. columns: lists or dicts with the same keys, or None, which stands for None of each key."""
    first, given = next(iter(columns)), {role: c for role, c in columns.items() if c is not None}
    is_dict = isinstance(columns[first], Mapping)
    for role, c in {first: columns[first], **given}.items():
        if isinstance(c, (str, bytes, bytearray, memoryview)) or hasattr(c, "shape") or not isinstance(c, Iterable):
            raise TypeError(f"{role}: pass a list or a dict, not {type(c).__name__}")
        if isinstance(c, Mapping) != is_dict:
            raise TypeError(f"{role}: pass a {'dict' if is_dict else 'list'}, as {first} is one")
        given[role] = c if is_dict else list(c)
    keys = given[first].keys() if is_dict else range(len(given[first]))
    for role, c in given.items():
        if len(c) != len(keys) and not is_dict:
            raise SizeError(f"{role} has {len(c)} elements, {first} has {len(keys)}")
        for key in keys:
            if is_dict and key not in c:
                raise KeyError(f"{role}: there is no {key!r}, which {first} has")
    rows = [[given[role][k] if role in given else None for k in keys] for role in columns]
    if any(map(_on_gpu, rows[0])):
        made = on_gpu(list(keys), *rows)
    else:
        made = on_cpu(list(keys), *rows)
    return dict(zip(keys, made)) if is_dict else made


@overload
def encode_batch(  # type: ignore[overload-overlap]
        tensors: Mapping[Key, Array], codec: str = "zvc", *, bound: Optional[Bound] = None, threads: int = 1,
        checksums: bool = False, stream: Any = None) -> Dict[Key, Any]: ...
@overload
def encode_batch(tensors: Iterable[Array], codec: str = "zvc", *, bound: Optional[Bound] = None, threads: int = 1,
                 checksums: bool = False, stream: Any = None) -> List[Any]: ...
def encode_batch(tensors, codec="zvc", *, bound=None, threads=1, checksums=False, stream=None):
    """Encodes each tensor of a list or dict, as encode does; types and shapes may differ. Tensors on a GPU are all on
    one, and the call is on one stream.

    Returns the frames in a list, or in a dict with the same keys. Raises what encode raises, with the key or index of
    the tensor."""
    return _batch(
        _each(lambda x: encode(x, codec, bound=bound, threads=threads, checksums=checksums, stream=stream)),
        lambda keys, xs: device.encode(xs, _settings(codec, None, bound, checksums, 1), _mode(bound),
                                       checksums=checksums, stream=stream, keys=keys), tensors=tensors)


@overload
def decode_batch(  # type: ignore[overload-overlap]
        frames: Mapping[Key, Any], *, out: Optional[Mapping[Key, Any]] = None, threads: int = 1, stream: Any = None,
        check: bool = False) -> Dict[Key, Any]: ...
@overload
def decode_batch(frames: Iterable[Any], *, out: Optional[Iterable[Any]] = None, threads: int = 1, stream: Any = None,
                 check: bool = False) -> List[Any]: ...
def decode_batch(frames, *, out=None, threads=1, stream=None, check=False):
    """Decodes each frame of a list or dict, as decode does. With `check` a batch on a GPU waits once.

    out  None, or list of as many arrays for the values, or dict with the same keys, and maybe more

    Returns the tensors in a list, or in a dict with the same keys. Raises what decode raises, with the key or index of
    the frame."""
    return _batch(_each(lambda frame, to: decode(frame, out=to, threads=threads, stream=stream)),
                  lambda keys, all, to: device.decode(all, check, stream, outs=to, keys=keys), frames=frames, out=out)


@overload
def encode_delta_batch(  # type: ignore[overload-overlap]
        tensors: Mapping[Key, Array], bases: Mapping[Key, Array], codec: Optional[str] = None, *,
        checksums: bool = True, threads: int = 1, stream: Any = None, for_gpu: bool = False) -> Dict[Key, Any]: ...
@overload
def encode_delta_batch(tensors: Iterable[Array], bases: Iterable[Array], codec: Optional[str] = None, *,
                       checksums: bool = True, threads: int = 1, stream: Any = None,
                       for_gpu: bool = False) -> List[Any]: ...
def encode_delta_batch(tensors, bases, codec=None, *, checksums=True, threads=1, stream=None, for_gpu=False):
    """Encodes each tensor of a list or dict relative to its base, as encode_delta does.

    bases  list of as many bases, or dict with the same keys, and maybe more

    Returns the deltas, as encode_batch returns frames. Raises what encode_delta raises, with the key or index of the
    tensor."""
    _need_checksums(checksums)
    how = _settings(codec or _OF_DELTAS, None, None, True, 1, True)
    return _batch(
        _each(lambda x, base: encode_delta(x, base, codec, threads=threads, stream=stream, for_gpu=for_gpu)),
        lambda keys, xs, all: device.encode(xs, how, _mode(None), stream=stream, bases=all, keys=keys),
        tensors=tensors, bases=bases)


@overload
def apply_delta_batch(  # type: ignore[overload-overlap]
        deltas: Mapping[Key, Any], bases: Mapping[Key, T], *, out: Optional[Mapping[Key, T]] = None,
        threads: int = 1, stream: Any = None, check: bool = False) -> Dict[Key, T]: ...
@overload
def apply_delta_batch(deltas: Iterable[Any], bases: Iterable[T], *, out: Optional[Iterable[T]] = None,
                      threads: int = 1, stream: Any = None, check: bool = False) -> List[T]: ...
def apply_delta_batch(deltas, bases, *, out=None, threads=1, stream=None, check=False):
    """Restores the tensor of each delta of a list or dict, as apply_delta does.

    bases  list of as many bases, or dict with the same keys, and maybe more
    out    None, or list or dict of arrays for the values, which may be `bases` itself. The same array may be there
           several times, as tied weights are, if its deltas have the same base and result: it is written once. An
           array that otherwise shares memory with other arrays of the batch is an OverlapError
    check  for a GPU: whether to wait and to raise errors

    Returns the tensors in a list or dict. Raises what apply_delta raises, with the key or index of the delta. All
    deltas are verified before anything is written: after an error nothing is. On a GPU this needs `check`, which waits
    for the verification and for the end; without it each array on its own is written or not, and the same array with
    two different deltas is not."""
    return _batch(lambda keys, all, before, to: _apply_deltas(keys, all, before, to, threads, stream),
                  lambda keys, all, before, to: device.decode(all, check, stream, before, to, keys),
                  deltas=deltas, bases=bases, out=out)


def _as_array(frame):
    return np.frombuffer(frame, np.uint8) if isinstance(frame, (bytes, bytearray, memoryview)) else frame


def info(frame: Union[Array, Bytes, DeviceFrame]) -> Info:
    """Reads what a frame says about itself, without decoding it. For a frame on a GPU, a DeviceFrame or an array, it
    waits for the stream. Raises DamagedFrameError if the header is not valid."""
    seen = Info(*_tuck.info(device.head(frame) if _on_gpu(frame) else _array(_as_array(frame), "the frame")[0]))
    return seen._replace(bound=Bound(*seen.bound)) if seen.bound else seen


def digest(x: Array) -> int:
    """Returns the 64-bit checksum of the bytes of an array, as frames have them. It finds accidents, not forgery."""
    return _tuck.digest(_array(x, "the tensor")[0])


def saved_tensors(codec: str, *, bound: Optional[Bound] = None, smallest: int = 4096) -> SavedTensors:
    """Makes a context for training with PyTorch: while it is entered, what autograd saves for the backward pass is
    stored as frames.

        with tuck.saved_tensors("zvc+huffman"):
            loss = criterion(model(x), y)
        loss.backward()

    codec     name of a codec or chain. Tensors of types that it does not take are copied
    bound     for lossy codecs; pointwise(v) keeps the signs of values
    smallest  bytes; smaller tensors are copied

    The backward pass reads what was there when a tensor was saved, whoever writes to the memory later. Parameters are
    not copied: if one has changed, the backward pass raises tuck.saved.Error. On a GPU, frames stay on it, and each
    save waits for the stream. `with ... as saved` counts saved.raw_bytes and saved.stored_bytes, of each memory once.
    The context may be entered again. Raises what encode raises for the codec and the bound, and ImportError without
    PyTorch."""
    from .saved import SavedTensors

    return SavedTensors(codec, bound, smallest)


def max_frame_bytes(x: Array, codec: Optional[str] = "zvc", *, bound: Optional[Bound] = None,
                    dtype: Optional[str] = None, checksums: bool = False, is_delta: bool = False) -> int:
    """Returns the size in bytes of an `out` that is enough for any tensor of the shape and type of x.

    codec     as for encode, or, with `is_delta`, for encode_delta
    is_delta  whether `out` is for encode_delta

    The other parameters are those of encode. Raises what encode raises for them."""
    name = _OF_DELTAS if is_delta and codec is None else codec
    if is_on_device(x):
        return device.most_bytes(x, _settings(name, None, bound, checksums or is_delta, 1, True), dtype, is_delta)
    x, dtype = _array(x, "the tensor", dtype)
    return _tuck.most_bytes(x, _settings(name, dtype, bound, checksums or is_delta, 1, True), is_delta)


def codecs() -> List[Codec]:
    """Lists the codecs and chains."""
    return [Codec(name, tuple(types.split(", ")), lossy) for name, types, lossy in _tuck.codecs()]


def _path(path) -> bytes:
    name = fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte in path")
    return b"./-" if name == b"-" else name  # which stands for a standard stream


def save(path: Path, x: Union[Array, Mapping[str, Array]], codec: Optional[str] = None, *,
         bound: Optional[Bound] = None, base: Any = None, dtype: Any = None, threads: int = 0) -> Dict[str, str]:
    """Writes a tensor or several to a file, as `tuck encode` does. The file appears when it is complete and on the disk,
    or not at all.

    path     for one tensor, a .tuck file: its frame. For several, a safetensors file of frames, whose name ends in
             .safetensors or .tuck; tensors whose frame would not be smaller are stored as they are
    x        array, or dict of arrays by name
    codec    as for encode. For a dict also by type: "f32=quantize,bf16=codebooks,*=zvc". None: "zvc", or with a base
             what encode_delta takes
    base     None, or what the file is to be a delta of, as for encode_delta: an array, or for a dict a dict with the
             same names, and maybe more
    dtype    as for encode. For a dict a dict by name
    threads  most threads; 0: one per core

    Returns which tensors of a dict are stored as they are because the codec does not take their type: a dict from name
    to reason, mostly empty. Raises OSError if the file cannot be written, and a subclass of TuckError."""
    name, shown, is_dict = _path(path), fsdecode(path), isinstance(x, Mapping)
    if dtype is not None and is_dict == isinstance(dtype, str):
        raise TypeError("dtype: pass a str for a tensor, a dict by name for a dict of tensors")
    if base is not None and is_dict != isinstance(base, Mapping):
        raise TypeError("base: pass an array for a tensor, a dict by name for a dict of tensors")
    if base is not None and bound is not None:
        raise BoundError("a delta is lossless and takes no bound")
    if codec is not None:
        _check_name(codec, "codec", "zvc")
    if not is_dict:
        if isinstance(x, (list, tuple)) or hasattr(x, "state_dict"):
            raise TypeError(f"x: pass an array, or a dict of arrays by name, not {type(x).__name__}")
        if not name.endswith(b".tuck"):
            raise TuckError(f"{shown}: the name of a file of one tensor must end in .tuck; for one in .safetensors pass "
                            "a dict of tensors by name")
        _array(x, "the tensor", dtype)  # is on the CPU
        if base is None:
            frame = encode(x, codec or "zvc", bound=bound, dtype=dtype, checksums=True, threads=threads)
        else:
            frame = encode_delta(x, base, codec, dtype=dtype, threads=threads)
        _tuck.write_frame(name, frame)
        return {}
    if not name.endswith((b".safetensors", b".tuck")):
        raise TuckError(f"{shown}: the name of a file of several tensors must end in .safetensors or .tuck")
    bases = x if base is None else base
    for role, missing in (("dtype", dtype and dtype.keys() - x.keys()), ("base", x.keys() - bases.keys())):
        if missing:
            raise KeyError(f"{role}: there is no tensor {min(missing, key=str)!r}")
    mode, value = _mode(bound)
    tensors = []
    for key, tensor in x.items():
        if not isinstance(key, str):
            raise TypeError(f"the name of a tensor is a str, not {key!r}")
        if key == "__metadata__":
            raise TuckError("safetensors files have no tensor of the name '__metadata__'")
        key.encode()  # UnicodeEncodeError for what no file can have
        as_type = dtype.get(key) if dtype else None
        own, own_type = _array(tensor, f"tensor '{key}'", as_type)
        of_base, base_type = (None, None) if base is None else _array(base[key], f"the base of tensor '{key}'", as_type)
        tensors.append((key, own, own_type or "", of_base, base_type or ""))
    codec = codec or ("zvc" if base is None else "")
    return dict(_tuck.write_tensors(name, tensors, codec, mode, value, threads))


def load(path: Path, *, names: Union[str, Iterable[str], None] = None, base: Any = None, torch: bool = False,
         threads: int = 0) -> Any:
    """Reads a file of save, of the program, or any safetensors file.

    names    of the tensors to decode: a list, or one name; None: all
    base     for a file of deltas, their base: an array, or a dict of arrays by name
    torch    whether to return PyTorch tensors rather than NumPy arrays
    threads  most threads; 0: one per core

    Returns the tensor of a .tuck file of one, else a dict of the tensors by name, in the order of the file, which is
    that of save; also for one name. NumPy gets bf16 and 8-bit floats as integers. Types that neither tuck nor NumPy has
    are flat arrays of bytes. Raises OSError, DamagedFrameError, NeedsBaseError, WrongBaseError, or KeyError for a name
    that is not there."""
    file, shown = _tuck.TensorsFile(_path(path)), fsdecode(path)
    if base is not None and file.is_frame == isinstance(base, Mapping):
        raise TypeError("base: pass an array for a file of one tensor, a dict by name for one of several")
    if file.is_frame:
        if names is not None:
            raise KeyError(f"{shown} has one tensor, which has no name; pass no names")
        frame = file.frame()
        like = _torch().from_numpy(frame.copy()) if torch else frame
        if base is None:
            return decode(like, threads=threads)
        made, room, dtype = _new_tensor(frame, like)
        before = _out(_in_order_of(frame, base, "the base"), "the base")
        _tuck.apply_delta(frame, *before, room, dtype, threads)
        return made
    place = {name: i for i, name in enumerate(file.names)}
    wanted = set(place)
    if names is not None:
        if not isinstance(names, Iterable) or isinstance(names, bytes):
            raise TypeError(f"names: pass a list of names, not {names!r}")
        wanted = {names} if isinstance(names, str) else set(names)
        for name in wanted - place.keys():
            raise KeyError(f"{shown} has no tensor {name!r}; it has {_nearest(name, list(place))}")
    tensors = {}
    for which, (name, file_type, dtype, shape, size) in sorted(enumerate(file.tensors()), key=lambda t: place[t[1][0]]):
        if name not in wanted:
            continue
        values: Any = _torch().empty(size, dtype=_torch().uint8, device="cpu") if torch else np.empty(size, np.uint8)
        if base is not None and name not in base:
            raise KeyError(f"base: there is no tensor {name!r}")
        of_base: Tuple[Any, str] = (None, "")
        if base is not None:
            of_base = _out(base[name], f"the base of tensor '{name}'")
        file.read(which, _array(values, "out")[0], *of_base, threads)
        own = {"BOOL": "bool", "C64": "complex64"}.get(file_type, dtype if dtype != "u8" or file_type == "U8" else None)
        if own is not None:
            to = torch_type(_torch(), own) if torch else NUMPY.get(own, own)
            values = values.view(to).reshape(shape)
        tensors[name] = values
    return tensors


def _nearest(name, names) -> str:
    from difflib import get_close_matches

    most = 8
    near = get_close_matches(str(name), names, most, 0) if len(names) > most else names
    return ", ".join(map(repr, near)) + (f" and {len(names) - most} others" if len(names) > most else "")


def __dir__():
    return [*__all__, "streams", "training", "__doc__", "__version__"]


def __getattr__(name):
    if name in ("streams", "training"):  # not loaded before it is used
        from importlib import import_module

        return import_module(f"tuck.{name}")
    raise AttributeError(f"module 'tuck' has no attribute {name!r}")
