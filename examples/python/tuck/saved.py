# SPDX-License-Identifier: Apache-2.0
"""What autograd saves for the backward pass, kept as frames: tuck.saved_tensors. Needs PyTorch.

The backward pass reads what was there when a tensor was saved. Whoever has the memory may write to it, unseen by
PyTorch: NumPy, `x.data`, DLPack, another library. So what is stored is a frame or a copy.

    Handle -> Stored  shape and strides of a tensor that was saved, in the memory that is stored
    Copy              of what is not worth a codec
    Reference         parameters, and what cannot be copied: as they are, or an error"""

from __future__ import annotations

import ctypes
import sys
import weakref

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

import tuck

from .types import TORCH


class Error(RuntimeError):
    """What is stored for the backward pass cannot be restored, or is out of date."""


def modified(t: torch.Tensor, what: str = "tensor") -> Error:
    return Error(f"a {what} that is needed for the backward pass was modified in place: shape {tuple(t.shape)}")


# What a tensor is.

is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
_KEYS = getattr(torch._C, "_TorchDispatchModeKey", None)  # PyTorch 2.0 and older have none
_count_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0) if _KEYS is not None else lambda: 0


def is_traced() -> bool:
    """Whether what is done is written down, by torch.compile, torch.jit.trace or make_fx, or has no values."""
    if is_compiling() or torch._C._get_tracing_state() is not None:
        return True
    return _count_modes() > 0 and any(torch._C._get_dispatch_mode(key) is not None for key in (_KEYS.PROXY, _KEYS.FAKE))


# What vmap and its like see: it has no memory of its own. PyTorch 1.13 has these transforms in another package.
is_transformed = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", lambda t: False)

PLAIN = (torch.Tensor, torch.nn.Parameter)


def has_values(t: torch.Tensor) -> bool:
    """Whether a tensor's memory has its values as they are. Forward differentiation and complex numbers leave zeros and
    signs to be written. Batches of gradients have no storage."""
    return (t.layout is torch.strided and not t.is_nested and torch._C._has_storage(t) and not t.is_neg()
            and not t.is_conj() and not t._is_zerotensor() and not is_transformed(t))


def is_in_memory(t: torch.Tensor) -> bool:
    """Whether its values are in memory of its own. Subclasses, such as DTensor, may have them in another place."""
    return type(t) in PLAIN and (t.is_cpu or t.is_cuda) and has_values(t)


def tensors_of(arguments):
    """The tensors among a function's arguments, in order. They may be in lists and tuples."""
    for a in arguments:
        if isinstance(a, torch.Tensor):
            yield a
        elif isinstance(a, (tuple, list)):
            yield from tensors_of(a)


def storage_of(t: torch.Tensor):
    return t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage()


def is_dense(t: torch.Tensor) -> bool:
    """Do the values of a tensor fill a piece of memory, each once, in whatever order?"""
    expected = 1
    for stride, size in sorted(zip(t.stride(), t.shape)) if not t.is_contiguous() else ():
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def flat_of(t: torch.Tensor) -> torch.Tensor:
    """A dense tensor's memory, as it lies there."""
    return t.detach().as_strided((t.numel(),), (1,), t.storage_offset())


def digest_of(t: torch.Tensor) -> int:
    """Of the bytes of a tensor in memory of the CPU, in the order in which a dense one has them."""
    t = t if is_dense(t) else t.detach().contiguous()
    size = t.numel() * t.element_size()  # NumPy takes few types, and lets nobody resize what it was shown
    return tuck.digest((ctypes.c_ubyte * size).from_address(t.data_ptr())) if size else 0


def whole_of(t: torch.Tensor) -> torch.Tensor | None:
    """The dense tensor whose memory is stored for t: itself, or the result of which it is a view, as queries, keys and
    values are of one product."""
    if is_dense(t):
        return t
    base = t._base
    is_result = base is not None and is_in_memory(base) and base.grad_fn is not None and base.dtype == t.dtype
    return base if is_result and base.numel() <= 4 * t.numel() and is_dense(base) else None


def is_parameter(t: torch.Tensor) -> bool:
    """Or a view of one."""
    return any(type(of) is not torch.Tensor and isinstance(of, torch.nn.Parameter) for of in (t, t._base))


# What is not encoded.

class Reference:
    """A tensor that stays what and where it is. `is_watched`: what PyTorch does not count is an error, too.

    Called, as a weak reference to a Handle is, it gives what has the view; so does a Copy."""

    __slots__ = ("t", "version", "count", "digest")

    def __init__(self, t: torch.Tensor, is_watched: bool) -> None:
        self.t = t if t.grad_fn is None else t.detach()  # a result that knew its operation would never be freed
        self.version, self.count = t._version, t.numel()
        self.digest = digest_of(t) if is_watched and t.is_cpu else None

    def __call__(self) -> Reference:
        return self

    def view(self) -> torch.Tensor:
        t = self.t
        if t._version != self.version or (self.digest is not None and self._is_there() and
                                          digest_of(t) != self.digest):
            raise modified(t, "parameter" if is_parameter(t) else "tensor")
        return t

    def _is_there(self) -> bool:
        """A program may free its memory, and gather it again for whoever reads it."""
        t = self.t
        reached = 1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride()))
        return t.is_cpu and t.numel() == self.count and (
            storage_of(t).nbytes() >= (t.storage_offset() + reached) * t.element_size())


class Unfilled(Reference):
    """A tensor of an operation's own, which fills it after it was saved."""

    __slots__ = ()

    def __init__(self, t: torch.Tensor) -> None:
        super().__init__(t, False)

    def view(self) -> torch.Tensor:
        return self.t


class Copy:
    """Of the memory that a tensor has a part of, so that its strides stay. Each reader has one of its own."""

    __slots__ = ("flat", "shape", "stride")

    def __init__(self, t: torch.Tensor) -> None:
        t, self.shape = t.detach(), None
        if t.layout is torch.strided and not (t.is_contiguous() or t.is_neg() or t.is_conj()):
            spanned = 1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride()))
            if spanned <= 4 * t.numel():
                self.shape, self.stride = t.shape, t.stride()
                t = t.as_strided((spanned,), (1,), t.storage_offset())
        self.flat = t.clone()

    def __call__(self) -> Copy:
        return self

    def view(self) -> torch.Tensor:
        t = self.flat.clone()
        return t if self.shape is None else t.as_strided(self.shape, self.stride)


def kept(t: torch.Tensor, is_small: bool = False) -> Reference | Copy:
    """A tensor that is not encoded. Subclasses may have their values in another place, and tracers write down what is
    done here."""
    if (type(t) not in PLAIN or is_traced() or t.device.type == "meta" or t.layout not in (torch.strided, *SPARSE)
            or t.is_nested or t._is_zerotensor() or is_transformed(t)):
        return Reference(t, False)
    return Reference(t, True) if is_parameter(t) and not is_small and t.layout is torch.strided else Copy(t)


SPARSE = tuple(getattr(torch, f"sparse_{kind}") for kind in ("coo", "csr", "csc", "bsr", "bsc")
               if hasattr(torch, f"sparse_{kind}"))


# What is encoded.

class Stored:
    """A dense tensor in memory: its frame, or a copy if the frame is not smaller. Each reader has an array of its own,
    as a backward function may write to what it is given.

    storage: of the tensor that it was made of."""

    __slots__ = ("frame", "copy", "dtype", "shape", "codec", "storage", "__weakref__")

    def __init__(self, t: torch.Tensor, codec: str, bound: tuck.Bound | None) -> None:
        t = t.detach() if t.is_contiguous() else flat_of(t)
        self.dtype, self.shape, self.codec, self.copy = t.dtype, t.shape, codec, None
        self.storage = StorageWeakRef(storage_of(t))
        if tuck.is_on_device(t):
            aligned = t if t.data_ptr() % 16 == 0 else t.clone()
            self.frame = tuck.encode(aligned, codec, bound=bound).trimmed().clone()
        else:
            self.frame = tuck.encode(t, codec, bound=bound, threads=torch.get_num_threads())
        if self.frame.numel() >= t.numel() * t.element_size():
            self.frame, self.copy = None, t.clone()

    @property
    def size(self) -> int:
        return self.frame.numel() if self.copy is None else self.copy.numel() * self.copy.element_size()

    def value(self) -> torch.Tensor:
        if self.copy is not None:
            return self.copy.clone()
        if not tuck.is_on_device(self.frame):
            return tuck.decode(self.frame, threads=torch.get_num_threads())
        name = NAMES[self.dtype]
        return tuck.decode(tuck.DeviceFrame(self.frame, self.codec, name, self.shape))


NAMES = {getattr(torch, of): name for name, of in TORCH.items() if hasattr(torch, of)}


class Handle:
    """What autograd holds: a tensor within what is stored."""

    __slots__ = ("stored", "shape", "stride", "offset")

    def __init__(self, stored, shape, stride, offset: int) -> None:
        self.stored, self.shape, self.stride, self.offset = stored, shape, stride, offset

    def view(self) -> torch.Tensor:
        t = self.stored.value()
        return t.as_strided(self.shape, self.stride, t.storage_offset() + self.offset)


class Filling(TorchFunctionMode):
    """While it is entered, `filling` is the first argument of a function that saves a tensor and fills it then."""

    def __init__(self) -> None:
        super().__init__()
        self.filling: torch.Tensor | None = None

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if is_traced():
            return function(*args, **kwargs)
        self.filling = self.filled_by(function, args, kwargs)
        try:
            return function(*args, **kwargs)
        finally:
            self.filling = None

    @staticmethod
    def filled_by(function, args, kwargs) -> torch.Tensor | None:
        # The noise of rrelu. In all of PyTorch there are no others.
        fills = getattr(function, "__name__", None) in ("rrelu", "rrelu_", "rrelu_with_noise", "rrelu_with_noise_")
        return next(tensors_of((*args, *kwargs.values())), None) if fills else None

    def is_unfilled(self, t: torch.Tensor) -> bool:
        """Whether t is a tensor that the running function is going to fill."""
        return self.filling is not None and t.data_ptr() != self.filling.data_ptr()


def untraced(pack):
    """A hook of tensors with values: torch.jit.trace, which has them, is not to write down what is done here."""
    def hook(self, t: torch.Tensor):
        tracing = torch._C._get_tracing_state()
        if tracing is None:
            return pack(self, t)
        torch._C._set_tracing_state(None)
        try:
            return pack(self, t)
        finally:
            torch._C._set_tracing_state(tracing)

    return hook


def uncompiled(hook):
    """A hook that torch.compile leaves alone, where the program uses it."""
    dynamo = sys.modules.get("torch._dynamo")
    return dynamo.disable(hook) if dynamo is not None else hook


class SavedTensors(saved_tensors_hooks):
    """tuck.saved_tensors, which describes it."""

    def __init__(self, codec: str, bound: tuck.Bound | None, smallest: int) -> None:
        tuck.max_frame_bytes(torch.zeros(1, device="cpu"), codec, bound=bound)  # raises what is wrong with them
        if not isinstance(smallest, int) or smallest < 0:
            raise ValueError(f"smallest: pass a number of bytes, not {smallest!r}")
        (types,) = (c.dtypes for c in tuck.codecs() if c.name == codec)
        self.codec, self.bound, self.smallest = codec, bound, smallest
        self.dtypes = {dtype for dtype, name in NAMES.items() if ("u8" if name == "bool" else name) in types}
        self.raw_bytes = self.stored_bytes = 0
        self._known: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
        self._filling = Filling()

    def __enter__(self) -> SavedTensors:
        super().__init__(uncompiled(self.pack), uncompiled(self.unpack))
        super().__enter__()
        self._filling.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self._filling.__exit__(*error)
        super().__exit__(*error)
        del self.pack_hook, self.unpack_hook  # they know this, and would stay until garbage is collected
        self._known.clear()

    @untraced
    def pack(self, t: torch.Tensor):
        if is_traced() or not is_in_memory(t):
            return kept(t)
        if self._filling.is_unfilled(t):
            return Unfilled(t)
        is_small = t.numel() * t.element_size() < self.smallest
        whole = whole_of(t)
        if is_small or t.dtype not in self.dtypes or is_parameter(t) or whole is None:
            return kept(t, is_small)
        # Equal tensors are stored once. On a GPU, whose digests the host would wait for, only the same tensor is.
        on_device = tuck.is_on_device(whole)
        key = (whole.data_ptr(), whole._version) if on_device else (digest_of(whole),)
        key += whole.dtype, whole.numel()
        stored = self._known.get(key)
        if stored is None or (on_device and stored.storage.expired()):
            stored = self._known[key] = Stored(whole, self.codec, self.bound)
            self.raw_bytes += whole.numel() * whole.element_size()
            self.stored_bytes += stored.size
        return Handle(stored, t.shape, t.stride(), t.storage_offset() - whole.storage_offset())

    def unpack(self, packed) -> torch.Tensor:
        if torch.is_inference_mode_enabled():
            with torch.inference_mode(False):  # else writes to what is decoded would not be counted
                return packed.view()
        return packed.view()
