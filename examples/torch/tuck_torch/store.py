"""Tensors that are stored for the backward pass.

    Handle -> Frame | Offloaded | Derived  shape and strides of one that was saved, in the memory that is stored
    kept                                   as it is

Memory that several operations save is stored once, whatever the shapes in which they see it. A frame is encoded a few
saves after it was asked for, when it is known who reads it, on the package's thread beside the forward pass; what the
backward pass will want soon is decoded beside that."""

from __future__ import annotations

import functools
import threading
import weakref

import torch
from tuck.training import Job, decode_job

from .library import DTYPES, FLOATS, NOT_TAKEN, Error, begin_encode, encode_job, finish_encode, storage_of, swap

WIDTHS = {dtype: torch.empty((), dtype=dtype, device="cpu").element_size() for dtype in DTYPES}
HEAVY = 1 << 16  # bytes of a tensor that the package's thread encodes and decodes; handing it over takes some 10 us


def kept(t: torch.Tensor) -> tuple:
    """A tensor as it is. Autograd does not look for later writes where there are hooks, so whoever reads it does. A
    result that knew its operation would be a circle that is never freed."""
    return (t if t.grad_fn is None else t.detach()), t._version


@functools.lru_cache(maxsize=None)
def counts_writes() -> bool:
    """Whether PyTorch counts, for what a hook has given back, writes to what it made of that. 1.13 does not."""
    given = torch.ones(1, device="cpu")
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(lambda t: given, lambda t: t):
        saved = torch.ones(1, device="cpu", requires_grad=True).exp().grad_fn._saved_result
    with torch.no_grad():
        saved.zero_()
    return given._version != 0


def check_version(t: torch.Tensor, version: int, shape: tuple | None = None) -> None:
    if t._version != version:
        raise Error("a tensor that is needed for the backward pass was modified in place: "
                    f"shape {shape or tuple(t.shape)}, version {t._version} instead of {version}")


class Stored:
    """A piece of memory, as a tensor of one dimension, whoever saved it.

    left: so many of those who saved it have not read it yet. cached: what was decoded, as of the version `decoded`."""

    # Until it is stored it is `source`, and stays that where it has to. `identity` keeps the storage's number its own.
    __slots__ = ("source", "version", "dtype", "count", "site", "policy", "identity", "uses", "choice", "left", "index",
                 "lock", "cached", "decoded", "failed", "seconds", "pending", "address", "__weakref__")

    def __init__(self, source: torch.Tensor | None, site, policy, identity: object) -> None:
        self.source, self.site, self.policy, self.identity = source, site, policy, identity
        if source is not None:
            self.version, self.dtype, self.count = source._version, source.dtype, source.numel()
            self.address = source.data_ptr()
        self.uses, self.choice, self.left, self.index = [], None, 0, -1
        self.lock, self.cached, self.failed, self.seconds = threading.RLock(), None, None, 0.0
        self.pending = True

    @property
    def raw_bytes(self) -> int:
        return self.count * WIDTHS[self.dtype]

    def value(self) -> torch.Tensor:
        with self.lock:
            if self.failed is not None:
                raise self.failed
            t = self.cached
            if t is None or t._version != self.decoded:  # a backward function has written to it
                t = self.cached = self._decode()
                self.decoded = t._version
            return t

    def has_source(self) -> bool:
        """Whether the source still has the memory that was saved. A program may free it, and fill it again later."""
        t = self.source
        end = (t.storage_offset() + self.count) * t.element_size()
        return t.data_ptr() == self.address and storage_of(t).nbytes() >= end

    def forget(self) -> None:
        with self.lock:
            self.cached = None

    def _decode(self) -> torch.Tensor:
        raise NotImplementedError

    def _keep(self) -> torch.Tensor:
        check_version(self.source, self.version)
        return self.source


class Frame(Stored):
    """In CPU memory."""

    # job: of the package's thread, which encodes it or decodes it ahead to `held`.
    __slots__ = ("frame", "job", "held", "heavy")

    def __init__(self, source, site, policy, identity) -> None:
        super().__init__(source, site, policy, identity)
        self.frame, self.job, self.held = None, None, None
        self.heavy = self.raw_bytes >= HEAVY  # worth another thread

    def begin(self) -> None:
        """Begins to encode it, on the package's thread. `encode` ends that."""
        try:
            self.job = begin_encode(self.choice, self.source)
        except NOT_TAKEN:  # encode says it again
            pass

    def encode(self) -> None:
        """Where the codec is not for the type, it stays as it is."""
        job, self.job = self.job, None
        try:
            self.frame, self.seconds = finish_encode(job or encode_job(self.choice, self.source))
            check_version(self.source, self.version)
            self.source = None
        except NOT_TAKEN:
            self.choice = None
        except Exception as wrong:
            self.failed, self.source, self.frame = wrong, None, None

    def prepare(self) -> None:
        """Begins to decode what is going to be read, on the package's thread."""
        with self.lock:
            if self.left > 0 and self.frame is not None and self.cached is None and self.job is None:
                self.job, self.held = self._begin_decode()
                self.job.start()

    def _begin_decode(self) -> tuple[Job, torch.Tensor]:
        into = torch.empty(self.count, dtype=self.choice.encoded_type(self.dtype), device="cpu")
        return decode_job(self.frame, into), into

    def settle(self) -> None:
        """Counts it, once it is encoded."""
        if self.frame is not None:
            self.policy.count(self.site).add(self.dtype, self.raw_bytes, self.frame.numel(), self.seconds, self.choice)
            if self.dtype in FLOATS:
                self.policy.encoded(self, self.seconds, self.frame.numel())
        elif self.failed is None:
            self.policy.count(self.site).add(self.dtype, self.raw_bytes, self.raw_bytes)

    def _decode(self) -> torch.Tensor:
        if self.frame is None:
            return self._keep()
        job, t = (self.job, self.held) if self.job is not None else self._begin_decode()
        self.job, self.held = None, None
        _, seconds = job.wait()
        if self.choice.above_zero:
            t = self.choice.lower(t, self.dtype)
        if self.dtype in FLOATS:
            self.policy.decoded(self, t, seconds)
            if self.identity is not None:
                self.policy.count(self.site).decode_seconds += seconds
        return t


class Offloaded(Stored):
    """In pinned memory, by a swap stream; where that has no room, on the device."""

    # stream: that on which it was saved, then that on which it is restored. watched: an empty tensor with the version
    # of the source, whose memory the swap stream may still read when `source` is given up.
    __slots__ = ("number", "device", "stream", "watched")

    def __init__(self, source, site, policy, identity) -> None:
        super().__init__(source, site, policy, identity)
        self.device, self.number, self.watched = source.device, None, None
        self.stream = torch.cuda.current_stream(self.device)

    def encode(self) -> None:
        try:
            check_version(self.source, self.version)
            self.number = swap().offload(self.choice, self.source)
        except Error as wrong:
            self.failed, self.source = wrong, None
            return
        if self.number is not None:
            weakref.finalize(self, swap().drop, self.number)
            self.watched, self.source = self.source, None
            self.watched.data = self.watched.new_empty(0)  # which keeps its version

    def settle(self) -> None:
        """Counts it: later, as the size of what was offloaded is known when the device has encoded it."""
        if self.number is not None and self.raw_bytes:
            self.policy.offloaded(self)
        elif self.failed is None:
            self.policy.count(self.site).add(self.dtype, self.raw_bytes, self.raw_bytes)

    def counted(self, surely: bool = False) -> bool:
        """Whether its size is known, and is counted now."""
        size = swap().stored_bytes(self.number)
        if size == 0 and not surely:
            return False
        codec = swap().codec_of(self.choice, self.dtype)
        chosen = self.choice is not None and codec == self.choice.codec
        self.policy.count(self.site).add(self.dtype, self.raw_bytes, size, 0.0, self.choice if chosen else codec)
        if chosen and size != 0:
            self.policy.encoded(self, 0.0, size)
        return True

    def value(self) -> torch.Tensor:
        t, now = super().value(), torch.cuda.current_stream(self.device)
        if self.number is not None and now != self.stream:  # another has restored it
            now.wait_stream(self.stream)
            t.record_stream(now)
        return t

    def _decode(self) -> torch.Tensor:
        if self.number is None:
            return self._keep()
        check_version(self.watched, self.version, (self.count,))
        self.stream = torch.cuda.current_stream(self.device)
        t = torch.empty(self.count, dtype=self.dtype, device=self.device)
        swap().restore(self.number, t)
        if self.choice is not None and self.choice.above_zero:
            self.choice.lower(t, self.dtype)
        return t


class Recipe:
    """How a result of that shape is computed again: `again` of its parts, each a Handle, a Kept or another Recipe.

    slopes: how many times the error of each part the result's error is. depth: of recipes within recipes."""

    __slots__ = ("again", "parts", "slopes", "shape", "depth")

    def __init__(self, again, parts: list, slopes: tuple, shape) -> None:
        self.again, self.parts, self.slopes, self.shape = again, parts, slopes, shape
        self.depth = 1 + max((r.depth for r in map(_recipe_of, parts) if r is not None), default=0)

    def view(self) -> torch.Tensor:
        t = self.again(*(part.view() for part in self.parts)).reshape(self.shape)
        for part in self.parts:
            if type(part) is Handle and part.stored.left <= 0:
                part.stored.forget()
        return t

    def bases(self, factor: float = 1.0):
        """What is stored of it, with the product of the slopes."""
        for part, slope in zip(self.parts, self.slopes):
            recipe = _recipe_of(part)
            if recipe is not None:
                yield from recipe.bases(factor * slope)
            elif type(part) is Handle:
                yield part.stored, factor * slope


def _recipe_of(part) -> Recipe | None:
    if type(part) is Handle:
        return part.stored.recipe if type(part.stored) is Derived else None
    return part if type(part) is Recipe else None


class Derived(Stored):
    """Computed again from what is stored."""

    __slots__ = ("recipe",)

    def __init__(self, recipe: Recipe, dtype, count: int, site, policy, identity, counted: int = 0) -> None:
        """counted: bytes of it that are counted where they are stored."""
        super().__init__(None, site, policy, identity)
        self.recipe, self.dtype, self.count, self.pending = recipe, dtype, count, False
        policy.count(site).add(dtype, self.raw_bytes - counted, 0, 0.0, "computed again")

    def _decode(self) -> torch.Tensor:
        with torch.no_grad():
            return self.recipe.view().to(self.dtype).contiguous().view(-1)


class Mask(Stored):
    """Two values, 0 and `scale`, of which a frame of bits says which: the mask of a dropout."""

    __slots__ = ("bits", "scale")

    def __init__(self, bits: Frame, scale: float, source, site, policy, identity) -> None:
        super().__init__(source, site, policy, identity)
        self.bits, self.scale, self.pending, self.source = bits, scale, False, None
        policy.count(site).add(self.dtype, self.raw_bytes, bits.frame.numel(), bits.seconds, "bits")

    def _decode(self) -> torch.Tensor:
        t = self.bits.value().to(self.dtype).mul_(self.scale)
        self.bits.forget()
        return t


class Kept:
    """Of what stays as it is: called, as a weak reference to a Handle is, it gives what has the view."""

    __slots__ = ("t", "version")

    def __init__(self, t: torch.Tensor) -> None:
        self.t, self.version = t.detach(), t._version

    def __call__(self) -> Kept:
        return self

    def view(self) -> torch.Tensor:
        check_version(self.t, self.version)
        return self.t


class Handle:
    """What autograd holds: a tensor within what is stored, and the operation that saved it."""

    __slots__ = ("stored", "shape", "stride", "offset", "use", "__weakref__")

    def __init__(self, stored: Stored, shape, stride, offset: int, use) -> None:
        self.stored, self.shape, self.stride, self.offset, self.use = stored, shape, stride, offset, use
        stored.left += 1

    def view(self) -> torch.Tensor:
        t = self.stored.value()  # what stays as it is may be a part of a storage
        return t.as_strided(self.shape, self.stride, t.storage_offset() + self.offset)
