"""Tensors in memory of a GPU, for tuck.encode and tuck.decode. Calls are asynchronous on a stream."""

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Optional, Tuple

from . import _tuck
from .errors import (ByteOrderError, ContiguityError, DeviceError, DtypeError, OverlapError, ReadOnlyError, SizeError,
                     error_of)
from .types import AS_INTEGERS, NUMPY, TORCH, is_torch, np, torch_type

_BYTES = {name: int(of.lstrip("uintfloa")) // 8 for name, of in {**NUMPY, **AS_INTEGERS}.items()}
_LEGACY = 1  # the default stream, as CUDA numbers it
_CUDA, _MANAGED = 2, 13  # of DLPack
_OUTCOME = [("bytes", "<u8"), ("code", "<u4"), ("first_bad_chunk", "<u4")]  # tuck::outcome


def is_on_device(x) -> bool:
    if isinstance(x, (np.ndarray, np.generic)):
        return False
    if is_torch(x):
        return x.device.type == "cuda"
    if hasattr(x, "__cuda_array_interface__"):
        return True
    return hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] in (_CUDA, _MANAGED)


@lru_cache(maxsize=None)
def _library():
    path = Path(__file__).with_name("libtuck_device.so")
    if not path.exists():
        raise DeviceError("this build of tuck has no GPU code: pass a copy in memory of the CPU")
    loaded = ctypes.CDLL(str(path))
    p, size, text, number = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_int
    for name, result, arguments in (
            ("encode", size,
             (text, number, ctypes.c_double, ctypes.c_uint32, text, p, size, p, size, number, p, number, p)),
            ("decode", size, (text, text, p, size, p, size, p, number, p)), ("after", size, (p, p, number)),
            ("wait", size, (p, p, size, number, p)), ("allocate", size, (size, number, p, ctypes.POINTER(p))),
            ("free", None, (p, number, p)), ("of", number, (p,)), ("message", text, (size,))):
        function = getattr(loaded, "tuck_device_" + name)
        function.restype, function.argtypes = result, arguments
    return loaded


def _check(number: int, subject: str = "") -> None:
    if number:
        text = _library().tuck_device_message(number).decode()
        raise error_of(number & 0xffffffff)(f"{subject}: {text}" if subject else text)


class _Stream(NamedTuple):
    handle: int
    torch: Any  # where PyTorch allocates; None: it does not


class _Place(NamedTuple):
    """An array in device memory."""

    pointer: int
    bytes: int
    dtype: str
    shape: Tuple[int, ...]
    device: int
    stream: Optional[int]  # on which its values are written; None: they are there
    is_torch: bool


class DeviceArray:
    """Memory of a GPU, allocated by tuck, with __cuda_array_interface__: cupy.asarray takes it without a copy. It is
    freed in the order of its stream."""

    def __init__(self, shape, dtype, device: int, stream: int, base: "Optional[DeviceArray]" = None) -> None:
        """dtype: of tuck. base: whose first bytes it is."""
        self.shape, self.dtype, self.device, self.stream, self._base = tuple(shape), dtype, device, stream, base
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * _BYTES[dtype]
        self.pointer = ctypes.c_void_p() if base is None else base.pointer
        if base is None:
            number = _library().tuck_device_allocate(max(self.nbytes, 1), device, stream, ctypes.byref(self.pointer))
            _check(number, f"{self.nbytes} bytes")

    def __del__(self) -> None:
        if getattr(self, "_base", self) is None and self.pointer:
            _library().tuck_device_free(self.pointer, self.device, self.stream)

    @property
    def __cuda_array_interface__(self) -> dict:
        own = NUMPY.get(self.dtype) or AS_INTEGERS[self.dtype]
        return {"data": (self.pointer.value or 0, False), "shape": self.shape, "typestr": np.dtype(own).str,
                "strides": None, "version": 3, "stream": self.stream or _LEGACY}

    def numpy(self) -> "np.ndarray":
        """Copies the values to the CPU. Waits for the stream."""
        out = np.empty(self.shape, NUMPY.get(self.dtype) or AS_INTEGERS[self.dtype])
        _check(_library().tuck_device_wait(self.pointer, out.ctypes.data, self.nbytes, self.device, self.stream))
        return out


class DeviceFrame:
    """A frame in memory of a GPU, whose size only the GPU knows until it is asked for.

    buffer   uint8 array on the device, with the frame and unused bytes behind it
    outcome  array of two int64 on the device: the size of the frame in bytes, and what wait() checks; or None
    codec, dtype, shape  of the frame, which are not read from it

    Make one of an array to decode a frame that is on the device."""

    def __init__(self, buffer, codec: str, dtype: str, shape, outcome=None, stream=None) -> None:
        self.buffer, self.codec, self.dtype, self.shape, self.outcome = buffer, codec, dtype, tuple(shape), outcome
        self._stream = stream

    @property
    def size(self):
        """The size in bytes as an array without dimensions on the device."""
        if is_torch(self.outcome):
            return self.outcome[0]
        return DeviceArray((), "i64", self.outcome.device, self.outcome.stream, self.outcome)

    def wait(self) -> int:
        """Waits for the stream. Returns the size in bytes. Raises OutputTooSmallError, or what else went wrong."""
        place = _place(self.outcome, "the outcome")
        return _wait(place.pointer, place.device, self._stream, "the frame")

    def trimmed(self):
        """Waits, and returns the frame without the unused bytes: a part of the buffer."""
        size = self.wait()
        if isinstance(self.buffer, DeviceArray):
            return DeviceArray((size,), "u8", self.buffer.device, self.buffer.stream, self.buffer)
        return self.buffer[:size]


def _wait(outcome: int, device: int, stream: int, subject: str) -> int:
    seen = np.zeros(1, _OUTCOME)
    _check(_library().tuck_device_wait(outcome, seen.ctypes.data, seen.nbytes, device, stream))
    _check(int(seen["code"][0]), subject)
    return int(seen["bytes"][0])


def _declared(own, bytes, dtype, role):
    if dtype is None:
        if own is None:
            raise DtypeError(f"{role} has a dtype that tuck does not have")
        return own
    if dtype not in _BYTES:
        raise DtypeError(f"dtype '{dtype}' is not one of tuck's")
    if own != dtype and not (own is None or own[0] in "ui") or _BYTES[dtype] != bytes:
        raise DtypeError(f"{role}: dtype '{dtype}' needs integers of {8 * _BYTES[dtype]} bits")
    return dtype


def _check_strides(shape, strides, bytes, role):
    expected = bytes
    for size, stride in zip(reversed(shape), reversed(strides or ())):
        if size != 1 and stride != expected and 0 not in shape:
            raise ContiguityError(f"{role} is not contiguous; pass a copy")
        expected *= size


_NAMES = {of: name for name, of in [*NUMPY.items(), ("u8", "bool")]}
_TORCH_NAMES = {of: name for name, of in [*TORCH.items(), ("u8", "bool")]}


def _place(x, role, dtype=None, is_written=False, stream=None) -> _Place:
    """stream: of the call, which what DLPack gives is ordered by."""
    if not is_on_device(x):
        raise DeviceError(f"{role} is not in memory of the GPU")
    if is_torch(x):
        x = x.detach()
        own = _TORCH_NAMES.get(str(x.dtype).split(".")[1])
        if not x.is_contiguous():
            raise ContiguityError(f"{role} is not contiguous; pass x.contiguous()")
        return _Place(x.data_ptr(), x.numel() * x.element_size(), _declared(own, x.element_size(), dtype, role),
                      tuple(x.shape), x.device.index or 0, None, True)
    if hasattr(x, "__cuda_array_interface__"):
        seen = x.__cuda_array_interface__
        (pointer, is_locked), shape, of = seen["data"], tuple(seen["shape"]), np.dtype(seen["typestr"])
        if not of.isnative:
            raise ByteOrderError(f"{role} is big-endian")
        if is_written and is_locked:
            raise ReadOnlyError(f"{role} is read-only")
        _check_strides(shape, seen.get("strides"), of.itemsize, role)
        own, bytes, producer = _NAMES.get(of.name), of.itemsize, seen.get("stream")
    else:
        number = _LEGACY if stream is None else stream or _LEGACY
        pointer, shape, strides, own, bytes = _tuck.dlpack_on_device(x.__dlpack__(stream=number))
        _check_strides(shape, strides, bytes, role)
        own, producer = own or None, None
    if isinstance(x, DeviceArray):
        own = x.dtype
    size = int(np.prod(shape, dtype=np.int64)) * bytes
    device = _library().tuck_device_of(pointer) if size else 0
    if device < 0:
        raise DeviceError(f"{role} is not in memory of the GPU")
    return _Place(pointer, size, _declared(own, bytes, dtype, role), shape, device, producer, False)


def _stream_of(stream, x) -> _Stream:
    """The stream of a call with x: a number, or an object of PyTorch, CuPy, or with __cuda_stream__."""
    if is_torch(x):
        import torch

        if stream is None:
            stream = torch.cuda.current_stream(x.device)
        handle = _handle(stream)
        is_own = hasattr(stream, "cuda_stream")
        return _Stream(handle, stream if is_own else torch.cuda.ExternalStream(handle, x.device))
    if stream is None:
        interface = getattr(x, "__cuda_array_interface__", {})
        return _Stream(interface.get("stream") or _LEGACY, None)
    return _Stream(_handle(stream), None)


def _handle(stream) -> int:
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return (protocol() if callable(protocol) else protocol)[1]
    for name in ("cuda_stream", "ptr"):  # of PyTorch and of CuPy
        if hasattr(stream, name):
            return getattr(stream, name)
    raise TypeError("stream: pass a number, or a stream of PyTorch, CuPy, or with __cuda_stream__")


def _new(shape, dtype, like: _Place, stream: _Stream):
    if not like.is_torch:
        return DeviceArray(shape, dtype, like.device, stream.handle)
    import torch

    with torch.cuda.stream(stream.torch):
        return torch.empty(shape, dtype=torch_type(torch, dtype), device=f"cuda:{like.device}")


def _order(stream: _Stream, *places: _Place) -> None:
    for p in places:
        if p.device != places[0].device:
            raise DeviceError("the arrays are on different GPUs")
        if p.stream is not None and p.stream != (stream.handle or _LEGACY):
            _check(_library().tuck_device_after(stream.handle, p.stream, p.device))


def _check_apart(a: _Place, b: _Place, text: str) -> None:
    if a.pointer < b.pointer + b.bytes and b.pointer < a.pointer + a.bytes:
        raise OverlapError(text)


def most_bytes(x, how, dtype) -> int:
    values = _place(x, "the tensor", dtype)
    return _tuck.most_bytes_of(values.dtype, list(values.shape), how)


def _row_length(shape) -> int:
    return min(max(shape[-1] if shape else 1, 1), 2**32 - 1)


def encode(x, codec, how, mode, bound, out, dtype, checksums, stream) -> DeviceFrame:
    on = _stream_of(stream, x)
    values = _place(x, "the tensor", dtype, stream=on.handle)
    most = _tuck.most_bytes_of(values.dtype, list(values.shape), how)
    if out is None:
        out = _new((most,), "u8", values, on)
    frame = _place(out, "out", is_written=True, stream=on.handle)
    _check_apart(values, frame, "out overlaps the tensor")
    _order(on, values, frame)
    outcome = _new((2,), "i64", values, on)
    _check(_library().tuck_device_encode(
        codec.encode(), mode, bound, _row_length(values.shape), values.dtype.encode(), values.pointer, values.bytes,
        frame.pointer, frame.bytes, checksums, _place(outcome, "the outcome").pointer, values.device, on.handle), f"codec '{codec}'")
    return DeviceFrame(out, codec, values.dtype, values.shape, outcome, on.handle)


def decode(frame, out, check, stream):
    if not isinstance(frame, DeviceFrame):
        raise DeviceError("a frame on the GPU cannot tell what it has without waiting: pass "
                          "tuck.DeviceFrame(array, codec, dtype, shape)")
    on = _stream_of(stream if stream is not None or is_torch(frame.buffer) else frame._stream, frame.buffer)
    of = _place(frame.buffer, "the frame", stream=on.handle)
    if of.stream is None:
        of = of._replace(stream=frame._stream)
    if out is None:
        out = _new(frame.shape, frame.dtype, of, on)
    values = _place(out, "out", is_written=True, stream=on.handle)
    if values.dtype != frame.dtype and not (values.dtype[0] in "ui" and _BYTES[values.dtype] == _BYTES[frame.dtype]):
        raise DtypeError(f"out has type {values.dtype}, the frame {frame.dtype}")
    size = int(np.prod(frame.shape, dtype=np.int64)) * _BYTES[frame.dtype]
    if values.bytes != size:
        raise SizeError(f"out has {values.bytes} bytes; the tensor has {size}")
    _check_apart(values, of, "out overlaps the frame")
    _order(on, of, values)
    outcome = _new((2,), "i64", of, on)
    place = _place(outcome, "the outcome")
    _check(_library().tuck_device_decode(
        frame.codec.encode(), frame.dtype.encode(), of.pointer, of.bytes, values.pointer, values.bytes, place.pointer,
        of.device, on.handle), f"codec '{frame.codec}'")
    if check:
        _wait(place.pointer, of.device, on.handle, "the frame")
    return out
