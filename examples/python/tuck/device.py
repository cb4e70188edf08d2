# SPDX-License-Identifier: Apache-2.0
"""Tensors in memory of a GPU, for the calls of __init__.py. Calls are asynchronous on a stream."""

import ctypes
import os.path
from functools import lru_cache
from math import prod
from typing import Any, List, NamedTuple, Optional, Tuple

from . import _tuck
from .errors import (ByteOrderError, ContiguityError, DeviceError, DtypeError, OutputTooSmallError, OverlapError,
                     ReadOnlyError, SizeError, UnknownCodecError, WrongBaseError, error_of, of_tensor)
from .types import AS_INTEGERS, NUMPY, OWN, TORCH, check_dense, is_torch, np, torch_type

_BYTES = {name: 1 if of == "bool" else int(of.lstrip("uintfloa")) // 8 for name, of in NUMPY.items()}
_LEGACY = 1  # the default stream, as CUDA numbers it
_CUDA, _MANAGED = 2, 13  # of DLPack
_OUTCOME = [("bytes", "<u8"), ("code", "<u4"), ("first_bad_chunk", "<u4")]  # tuck::outcome
_NO_CHUNK = 2**32 - 1
# A tensor and its frame, as device.cu has it.
_ITEM = [("values", "u8"), ("value_bytes", "u8"), ("frame", "u8"), ("frame_bytes", "u8"), ("base", "u8"),
         ("bound", "f8"), ("mode", "i4"), ("row", "u4"), ("metadata_bytes", "u4"), ("codec", "S44"), ("type", "S8")]


def is_on_device(x) -> bool:
    if isinstance(x, (np.ndarray, np.generic, bytes, bytearray, memoryview)):
        return False
    if is_torch(x):
        return x.device.type == "cuda"
    if hasattr(x, "__cuda_array_interface__"):
        return True
    return hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] in (_CUDA, _MANAGED)


@lru_cache(maxsize=None)
def _library():
    path = os.path.join(os.path.dirname(__file__), "libtuck_device.so")
    if not os.path.exists(path):
        raise DeviceError("this build of tuck has no GPU code: pass a copy in memory of the CPU")
    loaded = ctypes.CDLL(path)
    p, size, text, number = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_int
    for name, result, arguments in (
            ("encode", size, (p, size, number, number, text, size, p, ctypes.POINTER(size), number, p)),
            ("decode", size, (p, size, number, p, number, p, ctypes.POINTER(size), number, p)),
            ("after", size, (p, p, number)), ("wait", size, (p, p, size, number, p)),
            ("allocate", size, (size, number, p, ctypes.POINTER(p))), ("free", None, (p, number, p)),
            ("of", number, (p,)), ("message", text, (size,))):
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

    def __init__(self, shape, dtype, device: int, stream: int, base: "Optional[DeviceArray]" = None,
                 offset: int = 0) -> None:
        """dtype: of tuck. base: of which it is a part, from a byte on."""
        self.shape, self.dtype, self.device, self.stream, self._base = tuple(shape), dtype, device, stream, base
        self.nbytes = prod(self.shape) * _BYTES[dtype]
        self.pointer: ctypes.c_void_p = ctypes.c_void_p(None if base is None else (base.pointer.value or 0) + offset)
        if base is None:
            number = _library().tuck_device_allocate(max(self.nbytes, 1), device, stream, ctypes.byref(self.pointer))
            _check(number, f"{self.nbytes} bytes")

    def _part(self, shape, dtype, offset: int = 0) -> "DeviceArray":
        return DeviceArray(shape, dtype, self.device, self.stream, self, offset)

    def __del__(self) -> None:
        if getattr(self, "_base", self) is None and self.pointer:
            _library().tuck_device_free(self.pointer, self.device, self.stream)

    @property
    def __cuda_array_interface__(self) -> dict:
        own = NUMPY[self.dtype]
        return {"data": (self.pointer.value or 0, False), "shape": self.shape, "typestr": np.dtype(own).str,
                "strides": None, "version": 3, "stream": self.stream or _LEGACY}

    def numpy(self) -> "np.ndarray":
        """Copies the values to the CPU. Waits for the stream."""
        out = np.empty(self.shape, NUMPY[self.dtype])
        _check(_library().tuck_device_wait(self.pointer, out.ctypes.data, self.nbytes, self.device, self.stream))
        return out


class DeviceFrame:
    """A frame in memory of a GPU, whose size only the GPU knows until it is asked for.

    buffer   uint8 array on the device, with the frame and unused bytes behind it
    outcome  array of two int64 on the device: the size of the frame in bytes, and what wait() checks; or None
    codec, dtype, shape  of the frame, which are not read from it

    Make one of an array to decode a frame that is on the device. tuck.info(array) reads what to pass, but waits."""

    def __init__(self, buffer, codec: str, dtype: str, shape, outcome=None, stream=None) -> None:
        self.buffer, self.codec, self.dtype, self.shape, self.outcome = buffer, codec, dtype, tuple(shape), outcome
        self._stream: Any = stream

    @property
    def size(self):
        """The size in bytes as an array without dimensions on the device. A frame that was made of an array has none:
        DeviceError."""
        if self.outcome is None:
            raise DeviceError("the size of a frame that was made of an array is in its header; wait() reads it")
        return self.outcome[0] if is_torch(self.outcome) else self.outcome._part((), "i64")

    def wait(self) -> int:
        """Waits for the stream. Returns the size in bytes. Raises OutputTooSmallError, or what else went wrong."""
        if self.outcome is None:
            return _tuck.info(head(self))[6]  # frame_bytes of tuck.Info
        place = _place(self.outcome, "the outcome")
        seen = _wait(place.pointer, 1, place.device, self._stream)[0]
        if error_of(int(seen["code"])) is OutputTooSmallError:
            room = _place(self.buffer, "out").bytes
            raise OutputTooSmallError(f"out has {room} bytes; the frame needs {seen['bytes']}")
        _check_outcome(seen, f"codec '{self.codec}': ")
        return int(seen["bytes"])

    def trimmed(self):
        """Waits, and returns the frame without the unused bytes: a part of the buffer."""
        size = self.wait()
        return self.buffer._part((size,), "u8") if isinstance(self.buffer, DeviceArray) else self.buffer[:size]


def _wait(outcomes: int, count: int, device: int, stream: int) -> "np.ndarray":
    seen = np.zeros(count, _OUTCOME)
    _check(_library().tuck_device_wait(outcomes, seen.ctypes.data, seen.nbytes, device, stream))
    return seen


def _check_outcome(seen, subject: str = "") -> None:
    if seen["code"]:
        text = subject + _library().tuck_device_message(int(seen["code"])).decode()
        chunk = int(seen["first_bad_chunk"])
        raise error_of(int(seen["code"]))(text if chunk == _NO_CHUNK else f"{text}, chunk {chunk}")


def head(frame) -> "np.ndarray":
    """The first bytes of a frame or of an array with one, for _tuck.info. Waits."""
    is_frame = isinstance(frame, DeviceFrame)
    if is_frame and frame.outcome is not None:
        frame.wait()
    buffer = frame.buffer if is_frame else frame
    stream = frame._stream if is_frame and frame._stream is not None else _stream_of(None, buffer).handle
    place = _place(buffer, "the frame", stream=stream)
    _order(_Stream(stream, None), place)
    first = np.empty(min(place.bytes, 4096), np.uint8)
    _check(_library().tuck_device_wait(place.pointer, first.ctypes.data, first.nbytes, place.device, stream))
    return first


def _declared(own, bytes, dtype, role):
    if dtype is None:
        if own is None:
            raise DtypeError(f"{role} has a dtype that tuck does not have; it has {', '.join(_BYTES)}")
        return own
    if dtype not in _BYTES:
        raise DtypeError(f"dtype '{dtype}' is none of {', '.join(_BYTES)}")
    if own != dtype and not (own is None or own[0] in "ui") or _BYTES[dtype] != bytes:
        raise DtypeError(f"{role} has dtype {own}; dtype '{dtype}' needs integers of {8 * _BYTES[dtype]} bits")
    return dtype


def _check_strides(shape, strides, bytes, role):
    expected = bytes
    for size, stride in zip(reversed(shape), reversed(strides or ())):
        if size != 1 and stride != expected and 0 not in shape:
            raise ContiguityError(f"{role} is not contiguous" + ("" if role == "out" else "; pass a copy"))
        expected *= size


_NAMES = {of: name for name, of in OWN.items()}
_TORCH_NAMES = {of: name for name, of in TORCH.items()}


def _in_frame(dtype: str) -> str:
    return "u8" if dtype == "bool" else dtype


def _stands_for(own: str, wanted: str) -> bool:
    """Whether values of a type may be those of a frame. Integers are for types that NumPy does not have."""
    return own == wanted or wanted in AS_INTEGERS and own[0] in "ui" and _BYTES[own] == _BYTES[wanted]


@lru_cache(maxsize=None)
def _type_of(typestr):
    of = np.dtype(typestr)
    return _NAMES.get(of.name), of.itemsize, of.isnative


def _place(x, role, dtype=None, is_written=False, stream=None) -> _Place:
    """stream: of the call, which what DLPack gives is ordered by."""
    if not is_on_device(x):
        raise DeviceError(f"{role} is not in memory of the GPU")
    if is_torch(x):
        check_dense(x, role)
        if x.is_neg():
            raise DtypeError(f"{role} has other signs than its memory; pass x.resolve_neg()")
        x = x.detach()
        own = _TORCH_NAMES.get(str(x.dtype).split(".")[1])
        if not x.is_contiguous():
            raise ContiguityError(f"{role} is not contiguous" + ("" if role == "out" else "; pass x.contiguous()"))
        return _Place(x.data_ptr(), x.numel() * x.element_size(), _declared(own, x.element_size(), dtype, role),
                      tuple(x.shape), x.device.index or 0, None, True)
    if hasattr(x, "__cuda_array_interface__"):
        seen = x.__cuda_array_interface__
        (pointer, is_locked), shape, producer = seen["data"], tuple(seen["shape"]), seen.get("stream")
        own, bytes, is_native = _type_of(seen["typestr"])
        if not is_native:
            raise ByteOrderError(f"{role} is big-endian")
        if seen.get("mask") is not None:
            raise TypeError(f"{role} is a masked array: its values and its mask are two arrays")
        if is_written and is_locked:
            raise ReadOnlyError(f"{role} is read-only")
        _check_strides(shape, seen.get("strides"), bytes, role)
    else:
        number = _LEGACY if stream is None else stream or _LEGACY
        pointer, shape, strides, own, bytes = _tuck.dlpack_on_device(x.__dlpack__(stream=number))
        _check_strides(shape, strides, bytes, role)
        own, producer = own or None, None
    if isinstance(x, DeviceArray):
        own = x.dtype
    size = prod(shape) * bytes
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
        return (protocol() if callable(protocol) else protocol)[1]  # pyright: ignore
    for name in ("cuda_stream", "ptr"):  # of PyTorch and of CuPy
        if hasattr(stream, name):
            return getattr(stream, name)
    raise TypeError("stream: pass a number, or a stream of PyTorch, CuPy, or with __cuda_stream__")


def _new(shape, dtype, like: _Place, stream: _Stream):
    if not like.is_torch:
        return DeviceArray(shape, dtype, like.device, stream.handle)
    import torch

    with torch.cuda.stream(stream.torch or torch.cuda.ExternalStream(stream.handle, like.device)):
        return torch.empty(shape, dtype=torch_type(torch, dtype), device=f"cuda:{like.device}")


def _order(stream: _Stream, *places: _Place) -> None:
    """Lets the stream wait for those of the arrays."""
    handle = stream.handle or _LEGACY
    for other in {p.stream or _LEGACY for p in places if p.stream is not None} - {handle}:
        _check(_library().tuck_device_after(stream.handle, other, places[0].device))


def _check_device(first: _Place, *others: _Place) -> None:
    if any(p.device != first.device for p in others):
        raise DeviceError("the arrays are on different GPUs")


def _check_apart(a: _Place, b: _Place, text: str) -> None:
    if a.pointer < b.pointer + b.bytes and b.pointer < a.pointer + a.bytes:
        raise OverlapError(text)


def _check_delta_codec(name: str) -> None:
    if name not in _tuck.device_delta_codecs:
        raise UnknownCodecError(f"deltas on a GPU take {', '.join(_tuck.device_delta_codecs)}, not '{name}'")


def most_bytes(x, how, dtype, is_delta) -> int:
    values = _place(x, "the tensor", dtype)
    return _tuck.plan_of(values.dtype, list(values.shape), how, is_delta)[0]


def encode(xs, how, bound, dtype=None, checksums=True, stream=None, bases=None, outs=None,
           keys=None) -> List[DeviceFrame]:
    """Encodes tensors in one call, relative to their bases if there are any. keys: of a batch."""
    on = _stream_of(stream, xs[0])
    items, texts, places, frames = np.zeros(len(xs), _ITEM), [], [], []
    is_delta = bases is not None
    with of_tensor(keys) as tensor:
        for tensor.at, x in enumerate(xs):
            values = _place(x, "the tensor", dtype, stream=on.handle)
            most, codec, row, text = _tuck.plan_of(values.dtype, list(values.shape), how, is_delta)
            out = outs[tensor.at] if outs else None
            if out is None:
                out = _new((most,), "u8", values, on)
            frame = _place(out, "out", is_written=True, stream=on.handle)
            _check_apart(values, frame, "out overlaps the tensor")
            places += [values, frame]
            base = None
            if is_delta:
                _check_delta_codec(codec)
                base = _place(bases[tensor.at], "the base", dtype, stream=on.handle)
                if _in_frame(base.dtype) != _in_frame(values.dtype):
                    raise SizeError(f"the base has dtype {base.dtype}, the tensor {values.dtype}")
                if base.bytes != values.bytes:
                    raise SizeError(f"the base has shape {base.shape}, the tensor {values.shape}")
                _check_apart(base, frame, "out overlaps the base")
                places.append(base)
            if _BYTES[frame.dtype] != 1 or len(frame.shape) != 1:
                raise DtypeError(f"out is {frame.dtype} of {len(frame.shape)} dimension(s); for a frame pass a uint8 "
                                 "array of one")
            _check_device(places[0], values, frame, base or values)
            items[tensor.at] = (values.pointer, values.bytes, frame.pointer, frame.bytes, base.pointer if base else 0,
                                bound[1], bound[0], row, len(text), codec.encode(), _in_frame(values.dtype).encode())
            texts.append(text)
            frames.append(DeviceFrame(out, codec, values.dtype, values.shape, None, on.handle))
        text, like = b"".join(texts), places[0]
        outcomes = _run(tensor, "encode", items, on, places, is_delta, checksums, text, len(text))
    for i, f in enumerate(frames):
        f.outcome = outcomes[i] if like.is_torch else outcomes._part((2,), "i64", 16 * i)
    return frames


def decode(frames, check, stream, bases: Any = None, outs=None, keys=None) -> list:
    """Decodes frames in one call, or deltas if there are bases. keys: of a batch."""
    with of_tensor(keys) as tensor:
        for tensor.at, frame in enumerate(frames):
            if not isinstance(frame, DeviceFrame):
                raise DeviceError("a frame on the GPU cannot tell what it has without waiting: pass "
                                  "tuck.DeviceFrame(array, codec, dtype, shape); tuck.info(array) waits")
        first = frames[0]
        on = _stream_of(stream if stream is not None or is_torch(first.buffer) else first._stream, first.buffer)
        items, places, made, memory, is_delta = np.zeros(len(frames), _ITEM), [], [], [], bases is not None
        for tensor.at, frame in enumerate(frames):
            of = _place(frame.buffer, "the delta" if is_delta else "the frame", stream=on.handle)
            if of.stream is None:
                of = of._replace(stream=frame._stream)
            like, shape, dtype = of, frame.shape, frame.dtype
            if is_delta:
                _check_delta_codec(frame.codec)
                like = _place(bases[tensor.at], "the base", stream=on.handle)
                shape, dtype = like.shape, like.dtype
                if not _stands_for(_in_frame(dtype), _in_frame(frame.dtype)):
                    raise DtypeError(f"the base has dtype {dtype}, the delta {frame.dtype}")
                places.append(like)
            out = outs[tensor.at] if outs else None
            if out is None:
                out = _new(shape, dtype, like, on)
            values = _place(out, "out", is_written=True, stream=on.handle)
            if not _stands_for(values.dtype, frame.dtype) and frame.dtype != {"u8": "bool"}.get(values.dtype):
                raise DtypeError(f"out has dtype {values.dtype}, the frame {frame.dtype}")
            size = prod(frame.shape) * _BYTES[frame.dtype]
            if is_delta and like.bytes != size:
                raise WrongBaseError("the base has another number of values than the delta")
            if values.bytes != size:
                raise SizeError(f"out has {values.bytes} bytes; the tensor has {size}")
            if is_delta:
                text = "out overlaps the delta, or a part of the base; it may be the base itself"
                _check_apart(values, of, text)
                if values.pointer != like.pointer:
                    _check_apart(values, like, text)
            else:
                _check_apart(values, of, "out overlaps the frame")
            places += [of, values]
            memory.append((of.pointer, of.bytes, like.pointer, like.bytes, values.pointer, values.bytes))
            _check_device(places[0], of, values, like)
            items[tensor.at] = (values.pointer, values.bytes, of.pointer, of.bytes, like.pointer if is_delta else 0,
                                1, 0 if frame.codec in _lossy() else -1, 1, 0, frame.codec.encode(),
                                _in_frame(frame.dtype).encode())
            made.append(out)
        writers = np.array(writers_of(tensor, memory) if is_delta else [], "u8")

        def run(passes, outcomes=None):
            return _run(tensor, "decode", items, on, places, is_delta, writers.ctypes.data, passes, outcomes=outcomes)

        verifies_first = check and is_delta and len(frames) > 1
        outcomes = run(_tuck.verify_delta if verifies_first else 0)
        if check:
            place = _place(outcomes, "the outcome")
            for tensor.at, seen in enumerate(_wait(place.pointer, len(frames), place.device, on.handle)):
                _check_outcome(seen)
        if verifies_first:
            run(_tuck.write_delta, outcomes)
            _check(_library().tuck_device_wait(None, None, 0, place.device, on.handle))
    return made


def writers_of(tensor, memory) -> List[int]:
    """For each delta of a batch the index of that which writes its output. memory: addresses and sizes of each."""
    writers, which = _tuck.delta_writers(memory)
    if which >= 0:
        tensor.at = which
        raise OverlapError("out overlaps memory of another tensor of the batch")
    return writers


@lru_cache(maxsize=None)
def _lossy():
    return {name for name, _, is_lossy in _tuck.codecs() if is_lossy}


def _run(tensor, call, items, on: _Stream, places, *arguments, outcomes=None) -> Any:
    """Calls the library. Returns an array of outcomes, which the call will write."""
    _order(on, *places)
    outcomes, which = _new((len(items), 2), "i64", places[0], on) if outcomes is None else outcomes, ctypes.c_uint64()
    number = getattr(_library(), "tuck_device_" + call)(
        items.ctypes.data, len(items), *arguments, _place(outcomes, "the outcome").pointer, ctypes.byref(which),
        places[0].device, on.handle)
    tensor.at = min(which.value, len(items) - 1)
    _check(number, f"codec '{items['codec'][tensor.at].decode()}'")
    return outcomes
