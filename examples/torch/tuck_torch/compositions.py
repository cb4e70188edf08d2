"""Norms that are written by hand: x * rsqrt(mean(x^2) + eps), in whatever names.

    square  pow(x, 2), square(x), x * x     what was squared is noted
    mean    of all that square gave, over dimensions that are kept; a constant may be added
    rsqrt   rsqrt(mean), mean ** -0.5
    sqrt    sqrt(mean)

Then a product of x with rsqrt, or a quotient of x and sqrt, is a norm: what its errors pass on to rsqrt or sqrt reaches
x alone. Each may be cast to another type on its way, and so may x.

Results are noted at their nodes in autograd's graph, with their versions. So nothing is taken for one of them that is
another tensor, that was written to, or that is differentiated in another way. Who else reads them does not matter:
errors are those of what is passed back from here."""

from __future__ import annotations

import torch

from .functions import Call

FOLLOWED = ("mean", "add", "rsqrt", "sqrt", "cast")  # which save nothing, or what stays exact


class Norms:
    """Of one policy."""

    def __init__(self) -> None:
        self._key = f"tuck norms {id(self)}"

    def after(self, call: Call, output: object) -> None:
        if not isinstance(output, torch.Tensor) or output.grad_fn is None:
            return
        stage = self._stage(call, output)
        if stage is not None:
            output.grad_fn.metadata.setdefault(self._key, {})[output.output_nr] = (*stage, output._version)

    def are(self, x: torch.Tensor, by: torch.Tensor, quotient: bool) -> bool:
        """Is x divided by the root of its own mean square?"""
        stage, source = self._noted(by)
        return stage == ("sqrt" if quotient else "rsqrt") and source == self._identity(x)

    def _stage(self, call: Call, output: torch.Tensor) -> tuple | None:
        kind, x, other = call.kind, call.arguments.get("input"), call.arguments.get("other")
        if kind == "add" and not isinstance(x, torch.Tensor):
            x, other = other, x
        if not isinstance(x, torch.Tensor) or x.grad_fn is None or x.grad_fn is output.grad_fn:
            return None
        if is_power(call, 2):
            return "square", self._identity(x)
        stage, source = self._noted(x)
        if kind == "cast":
            return (stage, source) if stage is not None else ("cast", self._identity(x))
        if kind == "mean" and stage == "square" and output.dim() == x.dim():
            return "mean", source
        if stage != "mean" or output.shape != x.shape:
            return None
        if kind == "add":
            return None if isinstance(other, torch.Tensor) and other.requires_grad else (stage, source)
        return (kind, source) if kind in ("rsqrt", "sqrt") else ("rsqrt", source) if is_power(call, -0.5) else None

    def _noted(self, t: torch.Tensor) -> tuple:
        noted = t.grad_fn.metadata.get(self._key, {}).get(t.output_nr) if t.grad_fn is not None else None
        return noted[:2] if noted is not None and noted[2] == t._version else (None, None)

    def _identity(self, t: torch.Tensor) -> tuple | None:
        """What tells a result from others: of a cast, that of what was cast. Leaves have none."""
        stage, source = self._noted(t)
        if stage == "cast":
            return source
        return (t.grad_fn, t.output_nr, t._version) if t.grad_fn is not None else None


def is_power(call: Call, exponent: float) -> bool:
    given = call.arguments.get("exponent", 2)
    return call.kind == "power" and isinstance(given, (int, float)) and given == exponent
