"""The hooks of one entered context: of autograd, of modules, and of functions."""

from __future__ import annotations

import collections
import math
import threading
import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from tuck.saved import (Copy, Reference, Unfilled, digest_of, flat_of, is_in_memory, is_parameter, is_traced, kept,
                        storage_of, untraced, whole_of)

from .functions import Call, Functions, Use
from .library import DTYPES, FLOATS, Choice
from .policies import Policy, Raw, Site
from .store import Derived, Frame, Handle, Mask, Offloaded, Recipe, Stored, is_offloaded

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
        self.waiting: collections.deque[tuple] = collections.deque()  # what is to be stored, and its size
        self.encoding: collections.deque[Frame] = collections.deque()
        self.order: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # by index
        self.count = 0
        self.recent: collections.deque[weakref.ref] = collections.deque()
        # Digest of an output that can be computed again -> its call, as long as the output's node holds that.
        self.outputs: weakref.WeakValueDictionary = weakref.WeakValueDictionary()

    def enter(self, module, _inputs) -> None:
        if is_traced() or threading.get_ident() != self.thread:
            return
        call = self.calls.get(module, 0)
        self.calls[module] = call + 1
        self.inside.append(Site(module, call, self.policy.label(module)))

    def leave(self, module, _inputs, _output) -> None:
        if is_traced() or threading.get_ident() != self.thread:
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
        if is_known and output.grad_fn is not None and output.is_contiguous():
            call.noted["parts"] = [self._part(call, name) for name in call.noted["parts"]]
            key = _key(output)
            if None not in call.noted["parts"] and key is not None and key not in self.outputs:
                output.grad_fn.metadata.setdefault("tuck call", {})[output.output_nr] = call
                self.outputs[key] = call

    def _part(self, call: Call, name: str):
        """What gives a part of the call's recipe, or None: what autograd holds of it, or the call that made it."""
        if name in call.handles:
            return call.handles[name]
        t = call.arguments[name]
        made = self.outputs.get(_key(t)) if t.is_contiguous() else None
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
            self._store(*self.waiting.popleft())
        for stored in reversed(self.encoding):  # the package's thread comes from the other end
            stored.encode()
        for stored in self.encoding:
            stored.settle()
        self.encoding.clear()
        self.inside.clear()
        self.calls.clear()
        self.outputs.clear()
        self.functions = None  # it knows this, and both would stay until garbage is collected

    # The hooks of autograd.

    @untraced
    def pack(self, t: torch.Tensor):
        if self.functions is None or is_traced() or not is_in_memory(t):  # contexts may be left in another order
            return kept(t)
        if self.functions.is_unfilled(t):
            return Unfilled(t)
        call, is_small = self.functions.running, t.numel() * t.element_size() < self.smallest
        if is_small or t.dtype not in DTYPES or is_parameter(t):
            part = kept(t, is_small)
            if call is not None and call.kind in KEEPING:
                call.handles[call.role_of(t)] = part
            return part
        role = call.role_of(t) if call is not None else None
        use = Use(call, role) if role is not None else None
        whole = whole_of(t)
        if role == "weight" and isinstance(call.arguments["weight"], torch.nn.Parameter):
            return Reference(t, True)  # autocast's copy, which it keeps itself
        if whole is None:
            part = Copy(t)
            if call is not None and call.kind == "attention":
                call.handles[role] = part
            return part
        if is_offloaded(t) and whole is not t:  # of which other views could not share it
            t = whole = t.detach().clone()
        key = _key(whole)
        stored = self.known.get(key)
        if stored is None or not self._joins(stored, use):
            stored = self._derived(key, whole, use) or self._repeated(t, whole, use) or self._new(key, whole, use)
            stored.index = self.count
            self.count += 1
            self.order[stored.index] = stored
            if key is not None:
                self.known[key] = stored
        elif not stored.was_seen(whole):  # plain training would keep this, too
            self.policy.count(self.site()).add(whole.dtype, stored.raw_bytes, 0, 0.0, "stored already")
        stored.seen[whole.data_ptr()] = StorageWeakRef(storage_of(whole))
        handle = Handle(stored, t.shape, t.stride(), t.storage_offset() - whole.storage_offset(), use)
        if use is not None:
            call.handles[role] = weakref.ref(handle)
        while len(self.waiting) > WAITING:
            self._store(*self.waiting.popleft())
        return handle

    def unpack(self, packed) -> torch.Tensor:
        if torch.is_inference_mode_enabled():
            with torch.inference_mode(False):  # else writes to what is decoded would not be counted
                return self.unpack(packed)
        if type(packed) is not Handle:
            return packed.view()
        stored = packed.stored
        for index in range(stored.index - 1, max(stored.index - AHEAD, 0) - 1, -1):
            before = self.order.get(index)
            for base in (b for b, _ in before.recipe.bases()) if type(before) is Derived else (before,):
                if type(base) is Frame and base.heavy:
                    base.prepare()
        t = packed.view()
        stored.left -= 1
        if stored.left <= 0:
            stored.forget()
        else:
            stored.giving()
            if weakref.ref(stored) not in self.recent:  # operations that share a tensor often follow each other
                self.recent.append(weakref.ref(stored))
                oldest = self.recent.popleft()() if len(self.recent) > AHEAD else None
                if oldest is not None:
                    oldest.forget()
        if packed.use is not None and packed.use.call.gradient is not None:
            self.policy.learn(packed.use, t)
        return t

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

    def _derived(self, key: tuple | None, whole: torch.Tensor, use: Use | None) -> Derived | None:
        call = self.outputs.get(key)
        if call is None and use is not None and key is not None:  # or of a copy that autocast has made
            argument = use.call.arguments.get(use.role)
            if isinstance(argument, torch.Tensor) and argument.dtype != whole.dtype and _is_cast(whole, argument):
                call = self.outputs.get(_key(argument))
        recipe = self._recipe(call, whole.shape) if call is not None and whole.is_contiguous() else None
        if recipe is None or not self._may_derive(recipe, use):
            return None
        return Derived(recipe, whole.dtype, whole.numel(), self.site(), self.policy)

    def _repeated(self, t: torch.Tensor, whole: torch.Tensor, use: Use | None) -> Derived | None:
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
        stored = self._new(_key(once), once, use)
        recipe = Recipe(lambda t: t.expand(shape), [Handle(stored, once.shape, once.stride(), 0, use)], (1.0,), m.shape)
        stored.left = 0  # autograd does not read it itself
        return Derived(recipe, whole.dtype, whole.numel(), self.site(), self.policy, stored.raw_bytes)

    def _new(self, key: tuple | None, whole: torch.Tensor, use: Use | None) -> Stored:
        site = self.site()
        if use is not None and use.role == "mask" and not is_offloaded(whole) and not isinstance(self.policy, Raw):
            mask = _mask(whole, site, self.policy)
            if mask is not None:
                return mask
        copy = flat_of(whole).clone()  # others may write to the memory, or free it
        stored = Offloaded(copy, site, self.policy) if key is None else Frame(copy, site, self.policy, key[0])
        stored.uses.append((use, 1.0))
        self.waiting.append((weakref.ref(stored), site, stored.dtype, stored.raw_bytes))
        return stored

    def _store(self, reference: weakref.ref, site: Site, dtype: torch.dtype, raw_bytes: int) -> None:
        stored = reference()
        if stored is None:  # its graph was freed meanwhile
            return self.policy.count(site).add(dtype, raw_bytes, raw_bytes)
        stored.pending = False
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


def _is_cast(t: torch.Tensor, a: torch.Tensor) -> bool:
    """Of a, in the same order. A copy of a matrix may be of the transposed one."""
    return a.is_contiguous() and (t.dim() != 2 or t.shape != a.shape[::-1] or torch.equal(a.detach().to(t.dtype), t))


def _key(t: torch.Tensor) -> tuple | None:
    """What tells a dense tensor's values from others, wherever they are."""
    return None if is_offloaded(t) else (digest_of(t), t.dtype, t.numel())


def _mask(t: torch.Tensor, site: Site, policy: Policy) -> Mask | None:
    """A tensor of zeros and one other value, by its bits."""
    flat = flat_of(t)
    bits, scale = flat != 0, flat.max().item()
    if not torch.equal(bits.to(t.dtype).mul_(scale), flat):
        return None
    frame = Frame(bits.to(torch.uint8), site, policy, None)
    frame.choice = Choice("bitpack")
    frame.encode()
    return Mask(frame, scale, flat, site, policy) if frame.frame is not None else None
