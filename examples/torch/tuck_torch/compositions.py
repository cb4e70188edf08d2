"""Norms that are written by hand: x * rsqrt(mean(x^2) + eps), in whatever names.

    square  pow(x, 2), square(x), x * x
    mean    of all that square gave, over dimensions that are kept; a constant may be added
    rsqrt   rsqrt(mean), mean ** -0.5
    sqrt    sqrt(mean)

Then a product of x with rsqrt, or a quotient of x and sqrt, is a norm: what its errors pass on to rsqrt or sqrt reaches
x alone. Each may be cast to another type on its way, and so may x.

Results are noted at their nodes in autograd's graph, with their versions. So nothing is taken for one of them that is
another tensor, that was written to, or that is differentiated in another way. Who else reads them does not matter:
errors are those of what is passed back from here. A square that no norm follows is read in ways that are not known."""

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

    def square_of(self, x: torch.Tensor, by: torch.Tensor, quotient: bool) -> Call | None:
        """The call that squared x, if `by` divides it by the root of its mean square."""
        stage, source, square = self._noted(by)
        return square if stage == ("sqrt" if quotient else "rsqrt") and source == self._identity(x) else None

    def _stage(self, call: Call, output: torch.Tensor) -> tuple | None:
        kind, x, other = call.kind, call.arguments.get("input"), call.arguments.get("other")
        if kind == "add" and not isinstance(x, torch.Tensor):
            x, other = other, x
        if not isinstance(x, torch.Tensor) or x.grad_fn is None or x.grad_fn is output.grad_fn:
            return None
        if is_power(call, 2):
            return "square", self._identity(x), call
        stage, source, square = self._noted(x)
        if kind == "cast":
            return (stage, source, square) if stage is not None else ("cast", self._identity(x), None)
        if kind == "mean" and stage == "square" and output.dim() == x.dim():
            return "mean", source, square
        if stage != "mean" or output.shape != x.shape or (isinstance(other, torch.Tensor) and other.requires_grad):
            return None
        stage = "mean" if kind == "add" else "rsqrt" if is_power(call, -0.5) else kind
        return (stage, source, square) if stage in ("mean", "rsqrt", "sqrt") else None

    def _noted(self, t: torch.Tensor) -> tuple:
        noted = t.grad_fn.metadata.get(self._key, {}).get(t.output_nr) if t.grad_fn is not None else None
        return noted[:3] if noted is not None and noted[3] == t._version else (None, None, None)

    def _identity(self, t: torch.Tensor) -> tuple | None:
        """What tells a result from others: of a cast, that of what was cast. Leaves have none."""
        stage, source, _ = self._noted(t)
        if stage == "cast":
            return source
        return (t.grad_fn, t.output_nr, t._version) if t.grad_fn is not None else None


def is_power(call: Call, exponent: float) -> bool:
    given = call.arguments.get("exponent", 2)
    return call.kind == "power" and isinstance(given, (int, float)) and given == exponent
