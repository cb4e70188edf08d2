"""Which operation saves a tensor, and as what: known from torch.nn.functional's and torch's functions when called.

A TorchFunctionMode sees every call of this thread, by a module or not. What autograd saves until the function returns
is compared with its arguments, by memory first and by value where the function has made a copy (a cast under autocast, the
operands of a batched product). What cannot be told has no role, and whoever asks has to expect anything."""

from __future__ import annotations

import weakref

import torch
from tuck.saved import Filling, is_in_memory, is_traced, tensors_of

_CONVOLUTION = ("input", "weight", "bias")

# By the function's name: the kind of operation, and the names of its tensor arguments. Out of place only.
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "linear": ("linear", _CONVOLUTION),
    "conv1d": ("convolution", _CONVOLUTION), "conv2d": ("convolution", _CONVOLUTION),
    "conv3d": ("convolution", _CONVOLUTION),
    "embedding": ("embedding", ("input", "weight")),
    "gelu": ("gelu", ("input",)), "silu": ("silu", ("input",)), "relu": ("relu", ("input",)),
    "relu_": ("relu", ("input",)),
    "max_pool1d": ("pooling", ("input",)), "max_pool2d": ("pooling", ("input",)), "max_pool3d": ("pooling", ("input",)),
    "layer_norm": ("layer_norm", ("input", "normalized_shape", "weight", "bias", "eps")),
    "rms_norm": ("rms_norm", ("input", "normalized_shape", "weight", "eps")),
    "softmax": ("softmax", ("input", "dim")), "log_softmax": ("log_softmax", ("input", "dim")),
    "cross_entropy": ("cross_entropy", ("input", "target", "weight", "size_average", "ignore_index", "reduce",
                                        "reduction", "label_smoothing")),
    "dropout": ("dropout", ("input", "p", "training", "inplace")),
    "scaled_dot_product_attention": ("attention", ("query", "key", "value", "attn_mask", "dropout_p", "is_causal",
                                                   "scale", "enable_gqa")),
    **{name: ("matmul", ("input", "other")) for name in ("matmul", "bmm", "__matmul__")},
    **{name: ("mul", ("input", "other")) for name in ("mul", "multiply", "__mul__", "__rmul__")},
    **{name: ("div", ("input", "other")) for name in ("div", "true_divide", "__truediv__")},
    **{name: ("power", ("input", "exponent")) for name in ("pow", "__pow__", "square")},
    **{name: ("add", ("input", "other")) for name in ("add", "__add__", "__radd__")},
    **{name: ("cast", ("input",)) for name in ("to", "type_as", "float", "double", "half", "bfloat16")},
    **{name: (name, ("input",)) for name in ("mean", "rsqrt", "sqrt")},
}
KEYWORDS = {"mat2": "other"}

# The operations that save their result.
SAVES_OUTPUT = ("relu", "softmax", "log_softmax", "cross_entropy", "attention")


class Use:
    """That a call's backward pass reads a tensor as its `role`: an argument's name, "output" or "mask"."""

    __slots__ = ("call", "role")

    def __init__(self, call: Call, role: str) -> None:
        self.call, self.role = call, role


class Call:
    """A call of a recognised function. `key` is the same in each iteration that calls the same functions.

    arguments: by name, and the tensors among them: only while it runs. gradient: of its output, where a policy has asked
    for it. noted: what the policy keeps of it. seen: the arguments that were saved."""

    __slots__ = ("kind", "function", "arguments", "tensors", "key", "site", "gradient", "noted", "handles", "seen",
                 "__weakref__")

    def __init__(self, kind: str, function, arguments: dict, key: tuple, site) -> None:
        self.kind, self.function, self.arguments, self.key, self.site = kind, function, arguments, key, site
        self.tensors = [(name, a) for name, a in arguments.items() if isinstance(a, torch.Tensor)]
        self.gradient, self.noted, self.seen = None, {}, set()
        self.handles: dict[str, weakref.ref] = {}  # by role: what autograd holds of it

    def role_of(self, t: torch.Tensor) -> str | None:
        pointer, count = t.data_ptr(), t.numel()
        same = [name for name, a in self.tensors
                if a.data_ptr() == pointer and a.numel() == count and a.dtype == t.dtype]
        if len(same) == 1:
            self.seen.add(same[0])
            return same[0]
        if same:  # an operation of a tensor and itself
            return None
        if not self.tensors or not t.is_floating_point():
            return None
        _, first = self.tensors[0]
        if self.kind == "dropout":
            return "mask" if t.shape == first.shape else None
        equal = [name for name, a in self.tensors if _is_copy(a, t)]
        if len(equal) == 1:
            self.seen.add(equal[0])
            return equal[0]
        # A copy of one is the others' equal, too, where they are equal: nobody can tell them apart. Attention that does
        # not save its query and key as they are has others of their size.
        if equal or self.kind not in SAVES_OUTPUT or t.numel() != first.numel():
            return None
        return "output" if self.kind != "attention" or {"query", "key", "value"} <= self.seen else None


def _is_copy(a: torch.Tensor, t: torch.Tensor) -> bool:
    """Of its values, or of those of the transposed matrix, as weights are saved."""
    if not a.is_floating_point() or a.numel() != t.numel() or a.device != t.device:
        return False
    a, t = a.detach(), t.detach()
    forms = [a.reshape(t.shape)] + ([a.t()] if a.dim() == 2 and a.shape == t.shape[::-1] else [])
    return any(torch.equal(form.to(t.dtype), t) for form in forms)


class Functions(Filling):
    """While it is entered, `running` is the recognised call that autograd saves tensors of; None for all others.

    calling(call) comes before each of them, returned(call, output) after it. passing: a fronts.Fronts that follows all
    functions."""

    def __init__(self, site, calling, returned, passing=None) -> None:
        super().__init__()
        self._passing = passing
        self.running: Call | None = None
        self._site, self._calling, self._returned = site, calling, returned
        self._numbers: dict[tuple, int] = {}

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if is_traced():  # what a tracer makes of it is no function that is known
            return function(*args, **kwargs)
        name = getattr(function, "__name__", None)
        known = KINDS.get(name) if torch.is_grad_enabled() else None
        passing = self._passing if self._passing and name in self._passing.known and torch.is_grad_enabled() else None
        if (known or passing) and not (all(issubclass(t, torch.Tensor) for t in types)  # and not torch.fx's
                                       and all(map(is_in_memory, tensors_of((*args, *kwargs.values()))))):
            known = passing = None
        inputs = passing.before(name, args, kwargs) if passing else None
        outer, self.running, self.filling = self.running, None, self.filled_by(function, args, kwargs)
        try:
            output = function(*args, **kwargs) if known is None else self._known(*known, function, args, kwargs)
        finally:
            self.running, self.filling = outer, None
        if inputs:
            passing.after(name, function, args, kwargs, inputs, output)
        return output

    def _known(self, kind: str, names: tuple[str, ...], function, args: tuple, kwargs: dict):
        site = self._site()
        place = site.label, site.call, kind
        number = self._numbers.get(place, 0)
        self._numbers[place] = number + 1
        arguments = dict(zip(names, args))
        arguments.update((KEYWORDS.get(name, name), value) for name, value in kwargs.items())
        if kind == "mul" and arguments.get("input") is arguments.get("other"):
            kind, arguments = "power", {"input": arguments["input"], "exponent": 2}
        call = Call(kind, function, arguments, (*place, number), site)
        try:
            self._calling(call)
            self.running = call
            output = function(*args, **kwargs)
            self.running = None
            self._returned(call, output)
        finally:
            call.arguments, call.tensors = {}, []
        return output
