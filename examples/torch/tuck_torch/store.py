"""Tensors that are stored for the backward pass. All of them are what was there when they were saved.

    Handle -> Frame | Offloaded | Derived  shape and strides of one that was saved, in the memory that is stored
    Copy                                   of what is not worth a codec
    Reference                              parameters, and what cannot be copied: as they are, or an error

A Copy and a Reference are those of the package tuck, whose module `saved` says why. What is stored is made from a copy
of our own, which is taken when the tensor is saved. On the CPU, tensors of the same digest are stored once, whatever
their shapes. A frame is encoded a few saves later, when it is known who reads it, on the
package's thread beside the forward pass; what the backward pass will want soon is decoded beside that."""

from __future__ import annotations

import threading
import weakref

import torch
from tuck import saved
from tuck.saved import Copy, Reference, digest_of, modified
from tuck.training import Job, decode_job

from .library import DTYPES, FLOATS, NOT_TAKEN, Error, begin_encode, encode_job, finish_encode, swap

WIDTHS = {dtype: torch.empty((), dtype=dtype, device="cpu").element_size() for dtype in DTYPES}
HEAVY = 1 << 16  # bytes of a tensor that the package's thread encodes and decodes; handing it over takes some 10 us


def is_offloaded(t: torch.Tensor) -> bool:
    """Whether it is stored by a swap stream. A digest of it would let the host wait."""
    return t.is_cuda


class Stored:
    """A piece of memory, as a tensor of one dimension, whoever saved it.

    source: a copy that is our own, until it is stored, or for good. digest: its; None on devices. left: so many of
    those who saved it have not read it yet. cached: what was decoded. given: the digest of what a backward function was
    given, and may have written to; of a device's memory, the version."""

    __slots__ = ("source", "dtype", "count", "site", "policy", "digest", "uses", "choice", "left", "index", "lock",
                 "cached", "given", "failed", "seconds", "pending", "settled", "seen", "__weakref__")

    def __init__(self, source: torch.Tensor | None, site, policy, digest: int | None) -> None:
        self.source, self.site, self.policy, self.digest = source, site, policy, digest
        if source is not None:
            self.dtype, self.count = source.dtype, source.numel()
        self.uses, self.choice, self.left, self.index = [], None, 0, -1
        self.lock, self.cached, self.given, self.failed, self.seconds = threading.RLock(), None, None, None, 0.0
        self.pending, self.settled = True, False
        self.seen: dict = {}  # address -> weak reference to the storage

    @property
    def raw_bytes(self) -> int:
        return self.count * WIDTHS[self.dtype]

    def was_seen(self, t: torch.Tensor) -> bool:
        """In that memory, which is still the same."""
        storage = self.seen.get(t.data_ptr())
        return storage is not None and not storage.expired()

    def value(self) -> torch.Tensor:
        with self.lock:
            if self.failed is not None:
                raise self.failed
            source, t = self.source, self.cached
            if source is not None:
                return self._copied(source)
            if t is None or (self.given is not None and self.given != _mark_of(t)):
                t, self.given = self._decode(), None
                self.cached = t
            return t

    def giving(self) -> None:
        """A backward function is given the value, and others will read it."""
        with self.lock:
            if self.given is None and self.cached is not None:
                self.given = _mark_of(self.cached)

    def forget(self) -> None:
        with self.lock:
            self.cached = None
            if self.source is None:
                self.given = None

    def _decode(self) -> torch.Tensor:
        raise NotImplementedError

    def _copied(self, source: torch.Tensor) -> torch.Tensor:
        """The source itself where it stays; the next reader has it if nobody has written to it."""
        if not self.settled or self.digest is None or is_offloaded(source):
            return source.clone()
        if self.given is not None and digest_of(source) != self.digest:
            raise modified(source)
        self.given = self.digest
        return source


def _mark_of(t: torch.Tensor) -> int:
    return t._version if is_offloaded(t) else digest_of(t)


class Frame(Stored):
    """In CPU memory."""

    # job: of the package's thread, which encodes it or decodes it ahead to `held`.
    __slots__ = ("frame", "job", "held", "heavy")

    def __init__(self, source, site, policy, digest) -> None:
        super().__init__(source, site, policy, digest)
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
        frame, failed, choice = None, None, self.choice
        try:
            frame, self.seconds = finish_encode(self.job or encode_job(choice, self.source))
        except NOT_TAKEN:
            choice = None
        except Exception as wrong:
            failed = wrong
        with self.lock:
            self.frame, self.failed, self.choice, self.job = frame, failed, choice, None
            if choice is not None:
                self.source = None

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
        self.settled = True
        if self.frame is not None:
            self.policy.count(self.site).add(self.dtype, self.raw_bytes, self.frame.numel(), self.seconds, self.choice)
            if self.dtype in FLOATS:
                self.policy.encoded(self, self.seconds, self.frame.numel())
        elif self.failed is None:
            self.policy.count(self.site).add(self.dtype, self.raw_bytes, self.raw_bytes)

    def _decode(self) -> torch.Tensor:
        job, t = (self.job, self.held) if self.job is not None else self._begin_decode()
        self.job, self.held = None, None
        _, seconds = job.wait()
        if self.choice.above_zero:
            t = self.choice.lower(t, self.dtype)
        if self.dtype in FLOATS:
            self.policy.decoded(self, t, seconds)
            if self.digest is not None:
                self.policy.count(self.site).decode_seconds += seconds
        return t


class Offloaded(Stored):
    """In pinned memory, by a swap stream; where that has no room, on the device."""

    # stream: that on which it was saved, then that on which it is restored.
    __slots__ = ("number", "device", "stream")

    def __init__(self, source, site, policy) -> None:
        super().__init__(source, site, policy, None)
        self.device, self.number = source.device, None
        self.stream = torch.cuda.current_stream(self.device)

    def encode(self) -> None:
        try:
            self.number = swap().offload(self.choice, self.source)
        except Error as wrong:
            self.failed, self.source = wrong, None
            return
        if self.number is not None:
            weakref.finalize(self, swap().drop, self.number)
            self.source = None  # whose memory is others' only once the swap stream has read it

    def settle(self) -> None:
        """Counts it: later, as the size of what was offloaded is known when the device has encoded it."""
        self.settled = True
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
        self.stream = torch.cuda.current_stream(self.device)
        t = torch.empty(self.count, dtype=self.dtype, device=self.device)
        swap().restore(self.number, t)
        if self.choice is not None and self.choice.above_zero:
            self.choice.lower(t, self.dtype)
        return t


class Recipe:
    """How a result of that shape is computed again: `again` of its parts, each a Handle, a Reference, a Copy or another
    Recipe.

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

    def __init__(self, recipe: Recipe, dtype, count: int, site, policy, counted: int = 0) -> None:
        """counted: bytes of it that are counted where they are stored."""
        super().__init__(None, site, policy, None)
        self.recipe, self.dtype, self.count, self.pending = recipe, dtype, count, False
        policy.count(site).add(dtype, self.raw_bytes - counted, 0, 0.0, "computed again")

    def _decode(self) -> torch.Tensor:
        with torch.no_grad():
            return self.recipe.view().to(self.dtype).contiguous().view(-1)


class Mask(Stored):
    """Two values, 0 and `scale`, of which a frame of bits says which: the mask of a dropout."""

    __slots__ = ("bits", "scale")

    def __init__(self, bits: Frame, scale: float, source, site, policy) -> None:
        super().__init__(source, site, policy, None)
        self.bits, self.scale, self.pending, self.source = bits, scale, False, None
        policy.count(site).add(self.dtype, self.raw_bytes, bits.frame.numel(), bits.seconds, "bits")

    def _decode(self) -> torch.Tensor:
        t = self.bits.value().to(self.dtype).mul_(self.scale)
        self.bits.forget()
        return t


class Handle(saved.Handle):
    """What autograd holds: a tensor within what is stored, and the operation that saved it."""

    __slots__ = ("use", "__weakref__")

    def __init__(self, stored: Stored, shape, stride, offset: int, use) -> None:
        super().__init__(stored, shape, stride, offset)
        self.use = use
        stored.left += 1
