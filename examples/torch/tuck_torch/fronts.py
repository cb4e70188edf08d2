"""Which weights are in front of a tensor: those that an error of its gradient reaches before it meets another weight.

Every tensor that a known function gives is noted with the weights in front of it, by weight:

  factor  the variance of the error of the weight's gradient, in the mean over its elements, where each element of the
          tensor's gradient has an error of variance 1

A weight's own operation begins: linear layers, convolutions and embeddings have bounds.front_weight, and nothing
before them counts. Further operations multiply factors by their gain, for each of their arguments, and all branches are
followed. Where a branch leads through an operation that is not known, or to a parameter that is not the optimizer's,
the whole is None: nothing is known of it. A parameter that an operation reads itself is in front of it, but for biases,
and what of one dimension is added: their true gradients may be zero.

Gains are known of

  shape        views, copies and casts, by the names of autograd's nodes, which all versions of PyTorch have: values of
               the gradient are moved, or summed over copies, so results / arguments in number. Up to STEPS in a row
  add, sub     the same, where alpha is 1
  by numbers   products and quotients: the square
  cat, stack   1 each; errors of different pieces are independent
  dropout      1 / (1 - p)
  sum, mean    of n values: all have the same error, and a weight that sums over them has its n-fold, of variance n^2
               instead of n. So n, and n / n^2
  relu         the share of what it passes
  the rest     PROBED: the operation is done again, and an error of independent signs is passed through its gradient.
               The gain is the mean square of what comes out, or, where that is more, of its sums over all but the
               features, as errors that agree over positions add up in a weight's gradient

Errors that come to a tensor by two ways may agree: their deviations are added, not their variances."""

from __future__ import annotations

import weakref

import torch
from tuck.saved import tensors_of

from . import bounds
from .policies import zeros_of

STEPS = 100

SHAPES = {f"{name}Backward0" for name in (
    "Alias", "Clone", "ConstantPadNd", "Diagonal", "Expand", "Flip", "Gather", "Im2Col", "Index", "IndexSelect",
    "MaskedFill", "MaskedSelect", "Neg", "Permute", "PixelShuffle", "PixelUnshuffle", "Repeat", "ReshapeAlias", "Roll",
    "Select", "Slice", "SplitWithSizes", "Split", "Squeeze", "T", "ToCopy", "Transpose", "Tril", "Triu", "Unbind",
    "Unfold", "UnsafeSplit", "UnsafeView", "Unsqueeze", "View")} | {
    "SqueezeBackward1", "SqueezeBackward2", "SqueezeBackward3", "MaskedFillBackward1"}

ADDS = {"add", "add_", "__add__", "__radd__", "__iadd__", "sub", "sub_", "subtract", "__sub__", "__rsub__", "__isub__"}
MULS = {"mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"}
DIVS = {"div", "div_", "divide", "true_divide", "__truediv__", "__itruediv__"}
CATS = {"cat", "concat", "concatenate", "stack", "hstack", "vstack"}
REDUCTIONS, RELUS = {"sum", "mean"}, {"relu", "relu_"}
DROPOUTS = {"dropout", "dropout1d", "dropout2d", "dropout3d"}
LAYERS = {"linear", "conv1d", "conv2d", "conv3d", "embedding"}
POOLINGS = {f"{kind}_pool{d}d" for kind in ("max", "avg", "adaptive_avg", "adaptive_max") for d in (1, 2, 3)}
POINTWISE = {
    "abs", "atan", "celu", "clamp", "clamp_max", "clamp_min", "cos", "elu", "erf", "exp", "expm1", "gelu",
    "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "lerp", "log", "log1p", "logsigmoid", "maximum",
    "minimum", "mish", "pow", "reciprocal", "relu6", "rsqrt", "selu", "sigmoid", "silu", "sin", "softplus",
    "softsign", "sqrt", "square", "tanh", "where", "__pow__", "__rpow__", "__rtruediv__", "__rdiv__"}
PROBED = POINTWISE | POOLINGS | (LAYERS - {"embedding"}) | {
    "baddbmm", "addmm", "batch_norm", "bmm", "group_norm", "layer_norm", "log_softmax", "matmul", "mm", "__matmul__",
    "__rmatmul__", "normalize", "rms_norm", "scaled_dot_product_attention", "softmax"} | {
    name for name in MULS | DIVS if not name.endswith("_") or name.endswith("__") and not name.startswith("__i")}
KNOWN = ADDS | MULS | DIVS | CATS | REDUCTIONS | RELUS | DROPOUTS | LAYERS | PROBED
BIASES = {"linear": 2, "conv1d": 2, "conv2d": 2, "conv3d": 2, "layer_norm": 3, "group_norm": 3, "batch_norm": 4}


class Fronts:
    """Of one policy. `held`: ids of the optimizer's parameters."""

    known = KNOWN

    def __init__(self) -> None:
        self.held: object = ()
        self._key = f"tuck fronts {id(self)}"
        self._pools: dict[torch.device, torch.Tensor] = {}  # of random signs; training's own random numbers stay

    def of(self, t: torch.Tensor) -> dict[int, tuple] | None:
        """By weight's id: a weak reference to it, and the factor. None: that is not known."""
        if not t.requires_grad:
            return {}
        if t.grad_fn is None:
            return self._leaf(t, t.numel())
        node, number = t.grad_fn, t.output_nr
        for _ in range(STEPS):
            variable = getattr(node, "variable", None)
            if variable is not None:
                return self._leaf(variable, t.numel())
            noted = node.metadata.get(self._key, {}).get(number)
            if noted is not None:
                fronts, count = noted
                gain = t.numel() / max(count, 1)
                return fronts and {key: (w, factor * gain) for key, (w, factor) in fronts.items()}
            ahead = [pair for pair in node.next_functions if pair[0] is not None]
            if node.name() not in SHAPES or len(ahead) != 1:
                return None
            node, number = ahead[0]
        return None

    def _leaf(self, t: torch.Tensor, count: int) -> dict[int, tuple] | None:
        return {id(t): (weakref.ref(t), count / max(t.numel(), 1))} if id(t) in self.held else None

    # Functions that are called.

    def before(self, name: str, args: tuple, kwargs: dict) -> list[tuple]:
        """The arguments that lead on, with their fronts and nodes."""
        place = BIASES.get(name)
        bias = kwargs.get("bias", args[place] if place is not None and len(args) > place else None)
        inputs = []
        for t in tensors_of((*args, *kwargs.values())):
            if not t.requires_grad:
                continue
            skipped = t is bias or (name in ADDS and t.is_leaf and t.dim() <= 1 and id(t) in self.held)
            inputs.append((t, {} if skipped else self.of(t), t.grad_fn))
        return inputs

    def after(self, name: str, function, args: tuple, kwargs: dict, inputs: list[tuple], output: object) -> None:
        nodes = [node for _, _, node in inputs if node is not None]
        if not isinstance(output, torch.Tensor) or output.grad_fn is None or any(output.grad_fn is n for n in nodes):
            return
        noted = output.grad_fn.metadata.setdefault(self._key, {})
        if output.output_nr not in noted:
            noted[output.output_nr] = self._given(name, function, args, kwargs, inputs, output), output.numel()

    def note(self, output: torch.Tensor, fronts: dict, gain: float) -> None:
        """Of a result of which more is known than its function: the fronts of its input, and the gain."""
        if output.grad_fn is not None:
            noted = output.grad_fn.metadata.setdefault(self._key, {})
            noted[output.output_nr] = _merged([(gain, fronts)], False), output.numel()

    def _given(self, name: str, function, args: tuple, kwargs: dict, inputs: list[tuple],
               output: torch.Tensor) -> dict | None:
        if name in LAYERS:
            weight = args[1] if len(args) > 1 else kwargs.get("weight")
            if weight.requires_grad and weight.is_leaf and id(weight) in self.held:
                return {id(weight): (weakref.ref(weight), _layer(name, args[0] if args else kwargs["input"], weight,
                                                                 output))}
        if any(fronts is None for _, fronts, _ in inputs) or kwargs.get("out") is not None:
            return None
        if not any(fronts for _, fronts, _ in inputs):
            return {}
        gains = self._gains(name, function, args, kwargs, [t for t, _, _ in inputs], output)
        return None if gains is None else _merged(zip(gains, (f for _, f, _ in inputs)), name in CATS)

    def _gains(self, name: str, function, args: tuple, kwargs: dict, inputs: list, output: torch.Tensor):
        count = output.numel()
        if name in ADDS:
            return [count / max(t.numel(), 1) for t in inputs] if kwargs.get("alpha", 1) == 1 else None
        if name in MULS | DIVS:
            number = [a for a in (*args, *kwargs.values()) if isinstance(a, (int, float))]
            if len(args) + len(kwargs) == 2 and len(number) == 1:
                return [float(number[0]) ** 2 if name in MULS else 1 / max(float(number[0]) ** 2, 1e-300)]
        if name in CATS:
            return [1.0] * len(inputs)
        if name in REDUCTIONS:
            n = inputs[0].numel() / max(count, 1)
            return [n if name == "sum" else 1 / n]
        if name in RELUS:
            return [1 - zeros_of(output.detach())]
        if name in DROPOUTS:
            p, training = (kwargs.get(k, args[i] if len(args) > i else d)
                           for i, k, d in ((1, "p", 0.5), (2, "training", kwargs.get("train", True))))
            return [1 / max(1 - p, 1e-9) if training else 1.0]
        gains = self._probe(name, function, args, kwargs) if name in PROBED else None
        if gains and name == "softmax":  # few undecided rows may have all of it, and chance says nothing of them
            dim = kwargs.get("dim", args[1] if len(args) > 1 else -1)
            gains = [max(gains[0], bounds.softmax_gain(output.detach(), -1 if dim is None else dim))]
        return gains

    def _probe(self, name: str, function, args: tuple, kwargs: dict) -> list[float] | None:
        if kwargs.get("dropout_p") or (name == "scaled_dot_product_attention" and len(args) > 4 and args[4]):
            return None  # another draw, and of the training's random numbers
        copies = []

        def copy(a):
            if not isinstance(a, torch.Tensor):
                return a
            if not a.requires_grad:
                return a.clone() if name == "batch_norm" else a  # it has running means
            copies.append(a.detach().requires_grad_())
            return copies[-1]

        try:
            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(_same, _same):
                output = function(*(copy(a) for a in args), **{key: copy(a) for key, a in kwargs.items()})
                gains = [0.0] * len(copies)
                times = 1 if name in POINTWISE or output.numel() >= 1 << 16 else 2 if output.numel() >= 1 << 13 else 8
                for i in range(times):
                    errors = torch.autograd.grad(output, copies, self._signs(output, i), retain_graph=i + 1 < times,
                                                 allow_unused=True)
                    gains = [gain + (0.0 if e is None else bounds.probed(e)) / times for gain, e in zip(gains, errors)]
        except (RuntimeError, TypeError, AttributeError):  # in place, or results of other types
            return None
        return gains

    def _signs(self, like: torch.Tensor, number: int) -> torch.Tensor:
        """The same for tensors of a size, but for another number."""
        count, first = like.numel(), 997 * number
        pool = self._pools.get(like.device)
        if pool is None or pool.numel() < first + count:
            random = torch.Generator(like.device).manual_seed(1)
            pool = torch.empty(first + 2 * count, device=like.device).bernoulli_(0.5, generator=random).mul_(2).sub_(1)
            self._pools[like.device] = pool
        return pool[first:first + count].view(like.shape).to(like.dtype)


def _same(t: torch.Tensor) -> torch.Tensor:
    return t


def _layer(name: str, x: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> float:
    if name == "embedding":  # of rows of one 1
        return bounds.front_weight(x.numel(), 1 / weight.shape[0])
    return bounds.front_weight(output.numel() / weight.shape[0], bounds.product(x.detach()))


def _merged(branches, apart: bool) -> dict[int, tuple]:
    """Of (gain, fronts): what reaches the same weight agrees in the worst case, but for pieces that are apart."""
    answer: dict[int, tuple] = {}
    for gain, fronts in branches:
        for key, (weight, factor) in fronts.items():
            before, factor = answer.get(key, (None, 0.0))[1], factor * gain
            answer[key] = weight, before + factor if apart else (before ** 0.5 + factor ** 0.5) ** 2
    return answer
