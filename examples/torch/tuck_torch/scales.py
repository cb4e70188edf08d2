"""By what the optimizer's gradients are smaller than those of the backward pass: by GradScaler's factor, by clipping.

Momentum is the sum of what the optimizer was given at its steps. So the error that a backward pass brings is compared
with it only at the step, when both sizes of a gradient are known."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping

import torch
from tuck.saved import is_in_memory


def _is_optimizer(o: object) -> bool:
    try:
        return isinstance(o.state, Mapping) and all("params" in group for group in o.param_groups)
    except Exception:  # of any object, whose attributes may raise anything
        return False


def _parameters(optimizer) -> set[int]:
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


def innermost(optimizer: object) -> object:
    """The optimizer that does the steps where others wrap it, as accelerate's prepare() does: one that an attribute
    holds, and that has all parameters of the wrapper."""
    if not _is_optimizer(optimizer):
        raise ValueError(f"optimizer: {type(optimizer).__name__} has no state by parameter")
    seen = [optimizer]
    while True:
        held = [o for o in getattr(seen[-1], "__dict__", {}).values() if _is_optimizer(o)]
        within = [o for o in held if all(o is not s for s in seen) and _parameters(o) >= _parameters(seen[-1])]
        if len(within) != 1:
            return seen[-1]
        seen += within


class Scales:
    """Of one optimizer. stepping() is called when its step begins, unless GradScaler skips it. `known`: whether this
    optimizer says so, as those of PyTorch 2 do."""

    def __init__(self, optimizer: torch.optim.Optimizer, stepping: weakref.WeakMethod) -> None:
        self._optimizer = optimizer
        self._sizes: dict[int, torch.Tensor | None] = {}  # of the gradient of each watched weight, by its id
        self._hooks: list = []
        try:
            hook = optimizer.register_step_pre_hook(lambda *_: _call(stepping))
            weakref.finalize(self, hook.remove)
            self.known = True
        except AttributeError:  # also of a subclass that has not called Optimizer.__init__
            self.known = False

    def watch(self, weight: torch.Tensor) -> None:
        """Measures its gradient in this backward pass, and in others before the step."""
        if self.known and id(weight) not in self._sizes:
            self._sizes[id(weight)] = None
            sizes, of = weakref.ref(self), weakref.ref(weight)
            self._hooks.append(weight.register_hook(lambda gradient: _measure(sizes(), of(), gradient)))

    def of(self, weight: torch.Tensor) -> float:
        """The size of its gradient at the step, as a share of that after the backward pass; no positive number where
        there is none."""
        before = self._sizes.get(id(weight))
        if not self.known or before is None:
            return 1.0
        now = _size(weight.grad) if weight.grad is not None else None
        if now is None or not before.item() > 0:
            return math.nan
        factor = getattr(self._optimizer, "grad_scale", None)  # which fused steps take off themselves
        return now.item() / before.item() / (1.0 if factor is None else float(factor))

    def overflowed(self) -> bool:
        """Whether a fused step is going to leave the weights as they are."""
        found = getattr(self._optimizer, "found_inf", None)
        return found is not None and float(found) != 0

    def forget(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._sizes.clear()


def _call(method: weakref.WeakMethod) -> None:
    bound = method()
    if bound is not None:
        bound()


def _measure(scales: Scales | None, weight: torch.Tensor | None, gradient: torch.Tensor) -> None:
    if scales is not None and weight is not None:
        before = weight.grad
        both = before is None or (before.shape == gradient.shape and is_in_memory(before) and is_in_memory(gradient))
        with torch.no_grad():
            scales._sizes[id(weight)] = _size(gradient if before is None else gradient + before) if both else None


def _size(t: torch.Tensor) -> torch.Tensor | None:
    """The sum of magnitudes, which do not overflow as squares do."""
    return torch.linalg.vector_norm(t.detach(), 1, dtype=torch.float64) if is_in_memory(t) else None
