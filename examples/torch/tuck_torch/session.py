"""The hooks of one entered context: of autograd, of modules, and of functions."""

from __future__ import annotations

import collections
import math
import threading
import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .functions import Call, Functions, Use, is_compiling, is_in_memory
from .library import DTYPES, FLOATS, Choice, storage_of
from .policies import Policy, Raw, Site
from .store import Derived, Frame, Handle, Kept, Mask, Offloaded, Recipe, Stored, check_version, counts_writes, kept

WAITING = 6  # saves until one is stored: the operations that share it have been called by then
AT_ONCE = 6  # frames that the package's thread has to encode; the training's own does what is beyond
OUTSIDE = Site(None, 0)
AHEAD = 4    # tensors that are decoded before they are asked for, or kept for the next that asks
DEEPEST = 4  # recipes within recipes: each takes time, and multiplies errors
KEEPING = ("attention", "mul", "div")  # whose bounds or recipes need what they save, if it is too small to store, too


class Session:
    def __init__(self, policy: Policy, smallest: int) -> None:
        self.policy, self.smallest = policy, smallest
        self.known: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
        self.inside: list[Site] = []
        self.calls: dict[torch.nn.Module, int] = {}
        self.thread = threading.get_ident()  # hooks of modules are every thread's, those of autograd this one's
        self.functions = Functions(self.site, policy.calling, self.returned, policy.passing())
        self.waiting: collections.deque[Stored] = collections.deque()
        self.encoding: collections.deque[Frame] = collections.deque()
        self.order: list[weakref.ref] = []
        self.recent: collections.deque[Stored] = collections.deque()
        self.follows = policy.follows_functions
        self.kept: set[tuple] = set()  # what stays as it is: address, size, version
        self.outputs: dict[tuple, tuple] = {}  # memory of an output that can be computed again -> its call

    def enter(self, module, _inputs) -> None:
        if is_compiling() or threading.get_ident() != self.thread:
            return
        call = self.calls.get(module, 0)
        self.calls[module] = call + 1
        self.inside.append(Site(module, call, self.policy.label(module)))

    def leave(self, module, _inputs, _output) -> None:
        if is_compiling() or threading.get_ident() != self.thread:
            return
        while self.inside and self.inside.pop().module is not module:
            pass  # a module within raised, and whoever called it went on

    def site(self) -> Site:
        return self.inside[-1] if self.inside else OUTSIDE

    def returned(self, call: Call, output: object) -> None:
        if not self.policy.follows_functions:
            return
        self.policy.called(call, output)
        is_known = "again" in call.noted and isinstance(output, torch.Tensor) and is_in_memory(output)
        if is_known and output.is_contiguous():
            call.noted["parts"] = [self._part(call, name) for name in call.noted["parts"]]
            key, identity = _memory(output)
            if None not in call.noted["parts"] and key not in self.outputs:
                self.outputs[key] = call, identity

    def _part(self, call: Call, name: str):
        """What gives a part of the call's recipe, or None: what autograd holds of it, or the call that made it."""
        if name in call.handles:
            return call.handles[name]
        t = call.arguments[name]
        made, _ = self.outputs.get(_memory(t)[0], (None, None)) if t.is_contiguous() else (None, None)
        return (made, t.shape) if made is not None else None

    def _recipe(self, call: Call, shape) -> Recipe | None:
        parts = [self._recipe(*part) if type(part) is tuple else part() for part in call.noted["parts"]]
        if any(part is None for part in parts):
            return None
        recipe = Recipe(call.noted["again"], parts, call.noted["slopes"], shape)
        return recipe if recipe.depth <= DEEPEST else None

    def close(self) -> None:
        """What is saved is stored when this returns."""
        while self.waiting:
            self._store(self.waiting.popleft())
        for stored in reversed(self.encoding):  # the package's thread comes from the other end
            stored.encode()
        for stored in self.encoding:
            stored.settle()
        self.encoding.clear()
        self.inside.clear()
        self.calls.clear()
        self.outputs.clear()
        self.kept.clear()
        self.functions = None  # it knows this, and both would stay until garbage is collected

    # The hooks of autograd.

    def pack(self, t: torch.Tensor):
        if not is_in_memory(t) or self.functions is None:  # contexts were left in another order
            return kept(t)
        base, call = t._base, self.functions.running
        if (t.numel() * t.element_size() < self.smallest or t.dtype not in DTYPES or _is_parameter(t)
                or (base is not None and _is_parameter(base))):
            if call is not None and call.kind in KEEPING:
                call.handles[call.role_of(t)] = Kept(t)
            return kept(t)
        if not self.follows and t.is_cpu and self._stays(t, call):
            return kept(t)
        role = call.role_of(t) if call is not None else None
        use = Use(call, role) if role is not None else None
        whole = _whole(t)
        if whole is None or (role == "weight" and isinstance(call.arguments["weight"], torch.nn.Parameter)):
            if whole is None and call is not None and call.kind == "attention":
                call.handles[role] = Kept(t)
            return kept(t)  # the latter is autocast's copy, which it keeps itself
        key, identity = _memory(whole)
        stored = self.known.get(key)
        if stored is None or not self._joins(stored, use):
            stored = self._derived(key, whole, use, identity) or self._repeated(t, whole, use, identity) or self._new(
                whole, use, identity)
            stored.index = len(self.order)
            self.order.append(weakref.ref(stored))
            self.known[key] = stored
        handle = Handle(stored, t.shape, t.stride(), t.storage_offset() - whole.storage_offset(), use)
        if use is not None:
            call.handles[role] = weakref.ref(handle)
        while len(self.waiting) > WAITING:
            self._store(self.waiting.popleft())
        return handle

    def unpack(self, packed) -> torch.Tensor:
        if torch.is_inference_mode_enabled():
            with torch.inference_mode(False):  # else writes to what is decoded would not be counted
                return self.unpack(packed)
        if type(packed) is tuple:
            t, version = packed
            if t._version != version:
                check_version(t, version)
            return t
        stored = packed.stored
        for index in range(stored.index - 1, max(stored.index - AHEAD, 0) - 1, -1):
            before = self.order[index]()
            for base in (b for b, _ in before.recipe.bases()) if type(before) is Derived else (before,):
                if type(base) is Frame and base.heavy:
                    base.prepare()
        t = packed.view()
        stored.left -= 1
        if stored.left <= 0:
            stored.forget()
        elif stored not in self.recent:  # operations that share a tensor often follow each other
            self.recent.append(stored)
            if len(self.recent) > AHEAD:
                self.recent.popleft().forget()
        if packed.use is not None and packed.use.call.gradient is not None:
            self.policy.learn(packed.use, t)
        return t if stored.left <= 0 or counts_writes() else t.clone()

    def _stays(self, t: torch.Tensor, call: Call | None) -> bool:
        """Where nothing is going to be made of it, whoever reads it: it is counted, and that is all."""
        if t.dtype not in FLOATS or (call is not None and _may_be_mask_or_copy(t, call)):
            return False
        whole, site = _whole(t), self.site()
        if whole is None:
            return False
        raw_bytes = whole.numel() * whole.element_size()
        if not self.policy.keeps(site, raw_bytes):
            return False
        key = whole.data_ptr(), raw_bytes, whole._version
        if key not in self.kept:  # autograd holds it, so that no other has its address
            self.kept.add(key)
            self.policy.count(site).add(t.dtype, raw_bytes, raw_bytes)
        return True

    # How it is stored.

    def _joins(self, stored: Stored, use: Use | None) -> bool:
        """May it be read from what is stored already, or is going to be?"""
        if stored.pending:
            stored.uses.append((use, 1.0))
            return True
        if isinstance(stored, (Frame, Offloaded)):
            return self.policy.suffices(stored.choice, use, 1.0)
        return isinstance(stored, Derived) and self._may_derive(stored.recipe, use)

    def _may_derive(self, recipe: Recipe, use: Use | None) -> bool:
        if use is None or not self.policy.recomputes(use):
            return False
        bases = list(recipe.bases())
        stored = [(base, factor) for base, factor in bases if not base.pending]
        if any(not factor < math.inf for _, factor in bases) or not all(
                isinstance(base, (Frame, Offloaded)) and self.policy.suffices(base.choice, use, factor)
                for base, factor in stored):
            return False
        for base, factor in bases:
            if base.pending:
                base.uses.append((use, factor))
        return True

    def _derived(self, key: tuple, whole: torch.Tensor, use: Use | None, identity) -> Derived | None:
        call, _ = self.outputs.get(key, (None, None))
        if call is None and use is not None:  # or of a copy that autocast has made
            argument = use.call.arguments.get(use.role)
            if isinstance(argument, torch.Tensor) and argument.dtype != whole.dtype and _is_cast(whole, argument):
                call, _ = self.outputs.get(_memory(argument)[0], (None, None))
        recipe = self._recipe(call, whole.shape) if call is not None and whole.is_contiguous() else None
        if recipe is None or not self._may_derive(recipe, use):
            return None
        return Derived(recipe, whole.dtype, whole.numel(), self.site(), self.policy, identity)

    def _repeated(self, t: torch.Tensor, whole: torch.Tensor, use: Use | None, identity) -> Derived | None:
        """Keys and values of which several heads in a row have the same, as queries share them: each is stored once."""
        if (use is None or use.call.kind != "attention" or use.role not in ("key", "value") or t.dim() < 3
                or whole.numel() != t.numel() or not self.policy.recomputes(use)):
            return None
        order = sorted(range(t.dim()), key=t.stride, reverse=True)
        heads, m = order.index(t.dim() - 3), t.detach().permute(order)
        first, same = m.select(heads, 0), 1
        while same < m.shape[heads] and torch.equal(m.select(heads, same), first):
            same += 1
        if same == 1 or m.shape[heads] % same != 0 or not m.is_contiguous():
            return None
        shape = *m.shape[:heads], m.shape[heads] // same, same, *m.shape[heads + 1:]
        once = m.view(shape).narrow(heads + 1, 0, 1)
        if not torch.equal(m.view(shape), once.expand(shape)):
            return None
        once = once.contiguous()
        stored = self._new(once, use, None)
        recipe = Recipe(lambda t: t.expand(shape), [Handle(stored, once.shape, once.stride(), 0, use)], (1.0,), m.shape)
        stored.left = 0  # autograd does not read it itself
        return Derived(recipe, whole.dtype, whole.numel(), self.site(), self.policy, identity, stored.raw_bytes)

    def _new(self, whole: torch.Tensor, use: Use | None, identity) -> Stored:
        site = self.site()
        if use is not None and use.role == "mask" and whole.device.type == "cpu" and not isinstance(self.policy, Raw):
            mask = _mask(whole, site, self.policy, identity)
            if mask is not None:
                return mask
        flat = whole.detach().as_strided((whole.numel(),), (1,), whole.storage_offset())
        stored = (Offloaded if whole.device.type == "cuda" else Frame)(flat, site, self.policy, identity)
        stored.uses.append((use, 1.0))
        self.waiting.append(stored)
        return stored

    def _store(self, stored: Stored) -> None:
        stored.pending = False
        if not stored.has_source():  # so it stays as it is, whatever is there when it is read
            stored.uses = []
            return stored.settle()
        if isinstance(stored, Offloaded):
            with torch.cuda.stream(stored.stream):  # the current one may be another by now
                stored.choice = self._choose(stored)
                stored.encode()
            stored.uses = []
            return stored.settle()
        stored.choice = self._choose(stored)
        stored.uses = []
        if stored.choice is None:
            stored.settle()
        else:
            while self.encoding and self.encoding[0].job.is_done:
                self._settle()
            if stored.heavy and len(self.encoding) < AT_ONCE:
                stored.begin()
            if stored.job is not None:
                self.encoding.append(stored)
            else:
                stored.encode()
                stored.settle()

    def _settle(self) -> None:
        stored = self.encoding.popleft()
        stored.encode()
        stored.settle()

    def _choose(self, stored: Stored) -> Choice | None:
        if stored.dtype in FLOATS:
            return self.policy.choose(stored.source, stored.site, stored.uses)
        return None if isinstance(self.policy, Raw) else Choice("bitpack")


def _may_be_mask_or_copy(t: torch.Tensor, call: Call) -> bool:
    """Of a dropout; or of a weight, which autocast has made and keeps itself."""
    weight = call.arguments.get("weight")
    return call.kind == "dropout" or (isinstance(weight, torch.Tensor) and weight.dtype != t.dtype)


def _is_cast(t: torch.Tensor, a: torch.Tensor) -> bool:
    """Of a, in the same order. A copy of a matrix may be of the transposed one."""
    return a.is_contiguous() and (t.dim() != 2 or t.shape != a.shape[::-1] or torch.equal(a.detach().to(t.dtype), t))


def _is_parameter(t: torch.Tensor) -> bool:
    return type(t) is not torch.Tensor and isinstance(t, torch.nn.Parameter)


def _memory(t: torch.Tensor) -> tuple[tuple, StorageWeakRef]:
    """What tells a dense tensor's memory and contents from others. While the weak reference lives, no other storage has
    its number."""
    storage = StorageWeakRef(storage_of(t))
    return (storage.cdata, t.storage_offset(), t.numel(), t.dtype, t._version), storage


def _whole(t: torch.Tensor) -> torch.Tensor | None:
    """The dense tensor whose memory is stored for t: itself, or the result of which it is a view, as queries, keys and
    values are of one product."""
    if t.is_contiguous() or _is_dense(t):
        return t
    base = t._base
    is_result = base is not None and is_in_memory(base) and base.grad_fn is not None and base.dtype == t.dtype
    return base if is_result and base.numel() <= 4 * t.numel() and (base.is_contiguous() or _is_dense(base)) else None


def _is_dense(t: torch.Tensor) -> bool:
    """Do the values of a tensor that is not contiguous fill a piece of memory, each once, in whatever order?"""
    expected = 1
    for stride, size in sorted(zip(t.stride(), t.shape)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _mask(t: torch.Tensor, site: Site, policy: Policy, identity) -> Mask | None:
    """A tensor of zeros and one other value, by its bits."""
    flat = t.detach().as_strided((t.numel(),), (1,), t.storage_offset())  # in the order of memory
    bits, scale = flat != 0, flat.max().item()
    if not torch.equal(bits.to(t.dtype).mul_(scale), flat):
        return None
    frame = Frame(bits.to(torch.uint8), site, policy, None)
    frame.choice = Choice("bitpack")
    frame.encode()
    return Mask(frame, scale, flat, site, policy, identity) if frame.frame is not None else None
