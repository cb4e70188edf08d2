"""COMET: saved activations within bounds that follow each layer's gradients and momentum."""

from __future__ import annotations

import math
import weakref

import torch
from tuck.saved import is_in_memory, kept
from tuck.training import BoundController

from . import bounds
from .compositions import FOLLOWED, Norms, is_power
from .fronts import Fronts
from .functions import Call, Use
from .library import CODECS, Choice, codecs
from .policies import Policy, Site, require_positive, zeros_of
from .scales import Scales, innermost

# What a use of a tensor needs: a bound, or one of these; None is every bit.
SIGN, NOTHING = "sign", "nothing"

# Kinds of operations -> which saved tensors' errors reach which arguments' gradients.
REACHES = {
    "gelu": {"input": ("input",)}, "silu": {"input": ("input",)}, "layer_norm": {"input": ("input",)},
    "rms_norm": {"input": ("input",)}, "softmax": {"output": ("input",)}, "log_softmax": {"output": ("input",)},
    "cross_entropy": {"output": ("input",)}, "power": {"input": ("input",)},
    "matmul": {"input": ("other",), "other": ("input",)}, "mul": {"input": ("other",), "other": ("input",)},
    "attention": {"query": ("query", "key", "value"), "key": ("query", "key", "value"), "value": ("query", "key"),
                  "output": ("query", "key")},
}
WEIGHTED = ("linear", "convolution")
PRODUCT, SCALE, NORM = "product", "scale", "norm"  # forms: of tensors of a shape, with a parameter, by a mean square
SPARSE = 0.1  # from this share of zeros on, the chain of codecs is taken


class Comet(Policy):
    """COMET: what known operations save is stored within absolute bounds, which tuck::bound_controller sets for each
    call of an iteration from its gradients and momentum (SGD's momentum_buffer, Adam's exp_avg / (1 - beta1), which is
    the same sum of gradients) after 1, 2, 4, ... iterations and then every `refresh` of them, when the optimizer steps:
    at first momentum grows and gradients shrink within a few. Each weight's gradient is
    measured there and in the backward pass, so bounds follow what GradScaler and clipping do to it. Nothing is learnt
    from a step that GradScaler skips. Optimizers without a hook for their steps, as those of PyTorch 1.13, are taken to
    leave gradients as they are. Before, and always where the optimizer has no momentum or, as
    RMSprop, one of its steps, they are `first`, times the tensor's largest magnitude if that is less than 1. bounds.py
    has the formulas, for inputs of convolutions and linear layers, of GELU, SiLU, LayerNorm and RMSNorm, operands of
    products, queries, keys, values and results of attention, and results of softmax and its logarithm. A tensor that
    several read has the smallest of their bounds, and a smaller one where errors would agree over positions. If a ReLU
    is among them, what is above zero stays above zero, whatever the bound: gradients that it lost where values are
    small would be ten times as much as the bound allows. (float16, and bfloat16 on a device, have no room for that, and
    are stored without loss.) What has to be stored without loss stays as it is where that makes it less than `least`
    times smaller.

    An operation that passes an error on is held to all weights in front of it, along each branch until the first one:
    fronts.py. Biases are not held, nor what is in front of those weights.

    What GELU, SiLU, the norms, casts and products give is computed again from what is stored of their parts. A norm may
    be written by hand: compositions.py. What only ReLU that made it and
    pooling read - for its sign, and not at all - is stored within half of each value (Gist keeps a bit of it): no
    gradient becomes another by that. Masks of dropout are bits.

    All else is stored without loss: what unknown operations read, what weights read that are not the optimizer's own
    parameters, where no such weight is in front, and where an unknown operation or another parameter is on the way to
    one.

    share: the standard deviation of a weight gradient's error, as a share of the mean momentum, that each stored tensor
    may bring. Bounds stay in [lowest, highest]. estimate: "exact" takes the deviation from the sum of the squared
    gradients of the layer's output, sigma^2 = bound^2 / 3 * sum l^2 over the weight's activations that are not zero;
    "paper" is a * mean |l| * sqrt(batch * nonzero) * bound with a = 0.32, which leaves out over how many places a
    convolution sums; it is for convolutions and linear layers."""

    follows_functions = True

    def __init__(self, optimizer: torch.optim.Optimizer, *, lossy: str = "quantize+delta+zvc+huffman",
                 dense: str = "quantize", lossless: str = "zvc+rle+huffman", estimate: str = "exact",
                 share: float = 0.01, refresh: int = 1000, first: float = 1e-4, lowest: float = 1e-8,
                 highest: float = 1e-1, least: float = 1.25) -> None:
        super().__init__()
        self.least = least
        for name, codec, is_lossy in (("lossy", lossy, True), ("dense", dense, True), ("lossless", lossless, False)):
            if codec not in codecs() or CODECS[codec] != is_lossy:
                kind = "lossy" if is_lossy else "lossless"
                raise ValueError(f"{name}: {codec!r} is no {kind} codec of {', '.join(codecs())}")
        if estimate not in ("exact", "paper"):
            raise ValueError(f"estimate: {estimate!r} is neither 'exact' nor 'paper'")
        optimizer = innermost(optimizer)
        if isinstance(optimizer, torch.optim.LBFGS):  # its line searches need gradients that become ever more exact
            raise ValueError("optimizer: LBFGS has no momentum, which error bounds are to follow")
        for name, value in (("share", share), ("first", first), ("lowest", lowest), ("highest", highest),
                            ("least", least)):
            require_positive(name, value)
        if not lowest <= first <= highest:
            raise ValueError(f"first: {first} is not from lowest, {lowest}, to highest, {highest}")
        if not isinstance(refresh, int) or not 1 <= refresh < 2**63:
            raise ValueError(f"refresh: {refresh!r} is no number of iterations")
        self._lossless = Choice(lossless)
        self._sign = Choice(lossy, 0.5, pointwise=True)
        self._optimizer, self._lossy, self._dense, self._exact = optimizer, lossy, dense, estimate == "exact"
        self._options = (1.0, share, 1, first, lowest, highest)
        self._a, self._lowest = 0.32, lowest
        self._refresh, self._period = refresh, 1  # iterations: the longest between bounds, and the current one
        self._updated: int | None = None
        self._looking = True
        self._controllers: dict[tuple, BoundController] = {}  # by call and role
        self._bounds: dict[tuple, float] = {}          # ... its bound
        self._learnt: set[tuple] = set()               # ... whether it has been learnt
        self._zeros: dict[tuple, float] = {}           # call and role -> share of zeros
        self._slopes: dict[tuple, tuple] = {}          # call and form -> of its output's error to those of its parts
        self._fronts: dict[tuple, dict] = {}           # call and form -> by role, arguments and the weights in front
        self._agreeing: dict[tuple, float] = {}        # ... the share of what its errors meet that positions share
        self._apart: dict[tuple, float] = {}           # ... by what its bound is less for errors not to agree
        self._momenta: dict[int, float | None] = {}    # id of a weight -> of this iteration
        self._passing, self._norms = Fronts(), Norms()
        self._seen: dict[tuple, tuple] = {}            # call and role -> iteration, errors by weight, what agrees
        self._scales = Scales(optimizer, weakref.WeakMethod(self._stepping))

    def entered(self) -> None:
        if not self._scales.known:
            self._stepping()
        self._seen.clear()  # of a step that was skipped
        self._scales.forget()
        self._looking = self._updated is None or self.iteration - self._updated >= self._period
        self._betas = {id(p): group.get("betas", (0.0,))[0] for group in self._optimizer.param_groups
                       for p in group["params"]}
        self._passing.held = self._betas
        self._momenta.clear()

    def passing(self) -> Fronts | None:
        return self._passing if self._looking else None

    # What is called.

    def calling(self, call: Call) -> None:
        kind, arguments = call.kind, call.arguments
        if kind in FOLLOWED:
            return
        shape = tuple(getattr(arguments["input" if kind != "attention" else "query"], "shape", ())) or (1,)
        channels = -arguments["weight"].dim() + 1 if kind == "convolution" else -1
        call.noted["features"] = shape[channels], math.prod(shape[channels:][1:])
        if kind in WEIGHTED:
            weight = arguments.get("weight")
            if isinstance(weight, torch.nn.Parameter) and id(weight) in self._betas and weight.requires_grad:
                call.noted["weight"] = weakref.ref(weight)
            return
        if kind in ("mul", "div"):
            self._note_product(call)
        if not self._is_plain(call):
            return
        place = call.key, call.noted.get("form")
        if self._looking:
            self._fronts[place] = self._fronts_of(call)
        call.noted["fronts"] = self._fronts.get(place, {})
        if kind in ("gelu", "silu", "layer_norm", "rms_norm"):
            self._note_norm(call)
        if kind == "cross_entropy":
            rows, target = arguments["input"].shape[0], arguments["target"]
            ignored = (target == arguments.get("ignore_index", -100)).sum().item() if self._looking else 0
            call.noted["rows"] = math.sqrt(max(rows * (rows - ignored), 1))  # 1 / (rows - ignored) in some, 0 in others
        if kind == "attention":
            call.noted["attention form"] = bool(arguments.get("is_causal")), arguments.get("scale")

    def called(self, call: Call, output: object) -> None:
        self._norms.after(call, output)
        if (call.kind == "cast" and isinstance(output, torch.Tensor)
                and output.data_ptr() != call.arguments["input"].data_ptr()):
            to = output.device, output.dtype
            call.noted.update(again=lambda t: t.to(*to), parts=["input"], slopes=(1.0,))
        if not self._looking or not isinstance(output, torch.Tensor) or not output.requires_grad:
            return
        if call.noted.get("form") == NORM:  # what is between would be taken for less than it is
            full, small = call.noted["names"]
            fronts, gain = self._passing.of(call.arguments[full]), self._slopes[call.key, NORM][0] ** 2
            if fronts is not None:
                self._passing.note(output, fronts, gain)
        if call.kind in REACHES or call.kind in WEIGHTED:
            noted = weakref.ref(call)
            output.register_hook(lambda gradient: _note_gradient(noted(), gradient))

    @staticmethod
    def _is_plain(call: Call) -> bool:
        """Is it called in a form of which the formulas hold?"""
        a, x = call.arguments, call.arguments.get("input")
        if call.kind == "attention":
            return a.get("attn_mask") is None and not a.get("dropout_p") and not a.get("enable_gqa")
        if call.kind == "cross_entropy":
            return (x.dim() == 2 and a.get("weight") is None and a.get("reduction", "mean") == "mean"
                    and a.get("reduce") is None and a.get("size_average") is None)
        if call.kind in ("softmax", "log_softmax"):
            return a.get("dim") in (-1, x.dim() - 1)
        if call.kind == "matmul":
            y = a.get("other")
            return (isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) and x.dim() == y.dim() >= 2
                    and x.shape[:-2] == y.shape[:-2])
        if call.kind in ("mul", "div"):
            return "form" in call.noted
        return call.kind != "power" or is_power(call, 2)

    def _note_product(self, call: Call) -> None:
        """Which form it has, and how its result is computed again. Factors that repeat stay exact."""
        x, y, quotient = call.arguments["input"], call.arguments.get("other"), call.kind == "div"
        if (not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor) or len(call.arguments) != 2
                or not x.is_floating_point() or not y.is_floating_point()):
            return
        names = ("input", "other") if x.numel() >= y.numel() or quotient else ("other", "input")
        full, small = (call.arguments[name] for name in names)
        square = self._norms.square_of(full, small, quotient)
        if x.shape == y.shape and x.dim() >= 1 and not quotient:
            form = PRODUCT
        elif full.numel() <= small.numel() or not _repeats(small.shape, full.shape):
            return
        elif square is not None:
            form, square.noted["normed"] = NORM, True
        elif small.is_leaf and (id(small) in self._betas or not small.requires_grad) and not quotient:
            form = SCALE
        else:
            return
        place, function = (call.key, form), call.function
        if self._looking or place not in self._slopes:
            by = [bounds.magnitude(t.detach().reciprocal() if quotient else t) for t in (small, full)]
            self._slopes[place] = (by[0], 0.0) if form != PRODUCT else (2 ** 0.5 * by[0], 2 ** 0.5 * by[1])
        again = function if names[0] == "input" else lambda t, by: function(by, t)
        call.noted.update(form=form, names=names, count=small.numel(), again=again, parts=names,
                          slopes=self._slopes[place])

    def _note_norm(self, call: Call) -> None:
        """How its output is computed again. Weights that change before that are an error."""
        a, function, x = call.arguments, call.function, call.arguments["input"]
        if call.kind in ("gelu", "silu"):
            others = {name: value for name, value in a.items() if name not in ("input", "inplace")}
            if not a.get("inplace"):
                slopes = (bounds.GELU_SLOPE if call.kind == "gelu" else bounds.SILU_SLOPE,)
                call.noted.update(again=lambda t: function(t, **others), parts=["input"], slopes=slopes)
            return
        shape, eps = tuple(a["normalized_shape"]), a.get("eps", 1e-5)
        eps = torch.finfo(x.dtype).eps if eps is None else eps
        weights = [a.get(name) for name in ("weight", "bias")[:2 if call.kind == "layer_norm" else 1]]
        if any(w is not None and w.grad_fn is not None for w in weights):
            call.noted["fronts"] = {}
            return
        if weights[0] is not None and weights[0].requires_grad and id(weights[0]) not in self._betas:
            call.noted["fronts"] = {}
        parts = [kept(w, is_small=True) if w is not None else None for w in weights]
        call.noted["norm"] = weights[0], math.prod(shape), eps, call.kind == "layer_norm"
        if isinstance(weights[0], torch.nn.Parameter) and id(weights[0]) in self._betas:
            call.noted["weight"] = weakref.ref(weights[0])
        place = call.key, None
        if self._looking or place not in self._slopes:
            self._slopes[place] = (bounds.norm_slope(x.detach(), *call.noted["norm"]),)
        call.noted.update(again=lambda t: function(t, shape, *(part and part.view() for part in parts), eps),
                          parts=["input"], slopes=self._slopes[place])

    def _fronts_of(self, call: Call) -> dict:
        """By role, the arguments that errors reach, with the weights in front; None where these are not known."""
        fronts, form = {}, call.noted.get("form")
        reaches = REACHES.get(call.kind, {})
        if form in (NORM, SCALE):
            full, small = call.noted["names"]
            reaches = {full: (full if form == NORM else small,)}
        for role, reached in reaches.items():
            of = [(name, self._passing.of(call.arguments[name])) for name in reached]
            fronts[role] = of if all(f is not None for _, f in of) and any(f for _, f in of) else None
        return fronts

    # What is stored.

    def choose(self, t: torch.Tensor, site: Site, uses: list) -> Choice | None:
        limit, sees_sign, most, bounded = math.inf, False, None, []
        for use, factor in uses:
            need = self._need(use)
            if need is None:
                break
            if need == SIGN:
                sees_sign = True
            elif need != NOTHING:
                key = use.call.key, use.role
                if key not in self._learnt:  # `first` must not be more than small values are
                    most = (t.detach().abs().max().item() if t.numel() else 0.0) if most is None else most
                    need *= min(1.0, most) or 1.0
                limit = min(limit, need / max(factor, 1e-30))
                bounded.append(key)
        above_zero = sees_sign and limit < math.inf
        if need is None or (above_zero and not _has_room(t)):
            return None if self.keeps(site, t.numel() * t.element_size()) else self._lossless
        if limit == math.inf:
            return self._sign
        if self._looking or bounded[0] not in self._zeros:
            zeros = zeros_of(t)
            self._zeros.update((key, zeros) for key in bounded)
        if any(key not in self._apart for key in bounded):  # their bounds have changed
            agreeing = max(self._agreeing.get(key, 1.0) for key in bounded)
            features = next(use.call.noted["features"] for use, _ in uses if (use.call.key, use.role) == bounded[0])
            apart = bounds.apart(t.detach(), features, limit, agreeing)
            self._apart.update((key, apart) for key in bounded)
        limit = max(limit * self._apart[bounded[0]], min(limit, self._lowest))
        return Choice(self._lossy if self._zeros[bounded[0]] >= SPARSE else self._dense, limit, False, above_zero)

    def suffices(self, choice: Choice | None, use: Use | None, factor: float) -> bool:
        if choice is None or choice.bound is None:
            return True
        need = self._need(use)
        if need in (None, SIGN, NOTHING):
            return need == NOTHING or (need == SIGN and (choice.pointwise or choice.above_zero))
        return not choice.pointwise and choice.bound * factor <= need

    def recomputes(self, use: Use) -> bool:
        return isinstance(self._need(use), float)

    def _need(self, use: Use | None) -> float | str | None:
        if use is None:
            return None
        kind, role, noted = use.call.kind, use.role, use.call.noted
        if kind == "relu" and role == "output":
            return SIGN
        if kind == "pooling":
            return NOTHING
        if kind in WEIGHTED:
            return self.bound(use) if role == "input" and "weight" in noted else None
        if kind == "power" and "normed" not in noted:
            return None
        return self.bound(use) if noted.get("fronts", {}).get(role) else None

    def bound(self, use: Use) -> float:
        key = use.call.key, use.role
        bound = self._bounds.get(key)
        if bound is None:
            bound = self._bounds[key] = self._controller(key).bound
        return bound

    # What is learnt.

    def learn(self, use: Use, t: torch.Tensor) -> None:
        key = use.call.key, use.role
        if self._need(use) in (None, SIGN, NOTHING) or not self._controller(key).wants(self.iteration):
            return
        size = self._normalize(use.call)
        errors = self._errors(use, t) if size > 0 else None
        if errors is None or any(weight is None or not weight.requires_grad for weight, _ in errors):
            return
        kind = use.call.kind
        agreeing = bounds.agreement(use.call.gradient, -1 if kind == "linear" else 1) if kind in WEIGHTED else None
        for weight, _ in errors:
            self._scales.watch(weight)
        deviations = [(weakref.ref(weight), math.sqrt(error / 3) * size) for weight, error in errors]
        self._seen[key] = self.iteration, deviations, agreeing

    def _stepping(self) -> None:
        """Sets bounds by what the backward pass has seen."""
        seen, self._seen = self._seen, {}
        before = self._updated
        for key, (iteration, deviations, agreeing) in seen.items() if not self._scales.overflowed() else ():
            shares = [self._share(weight(), deviation) for weight, deviation in deviations]
            worst = max(shares, default=0.0)
            if not all(map(math.isfinite, shares)) or not worst > 0:
                continue
            nonzero = max(1 - self._zeros.get(key, 0.0), 1e-9)
            self._controller(key).update(iteration, worst, 1.0, nonzero, 1.0)
            if agreeing is not None:
                self._agreeing[key] = agreeing
            self._bounds.pop(key, None)
            self._apart.pop(key, None)
            self._learnt.add(key)
            self._updated = iteration
        if before is not None and self._updated != before:
            self._period = min(2 * self._period, self._refresh)
        self._scales.forget()
        self._momenta.clear()

    def _share(self, weight: torch.Tensor | None, deviation: float) -> float:
        """The deviation of a weight gradient's error, as a share of the momentum. NaN if that is not known."""
        momentum = self._momentum(weight)
        if momentum is None or not momentum > 0:
            return math.nan
        scale = self._scales.of(weight)
        return deviation * scale / momentum if scale > 0 else math.nan

    @staticmethod
    def _normalize(call: Call) -> float:
        """Divides the call's gradient once by a power of two, so that no square of it overflows or vanishes. Returns
        that; 0 where the gradient is zero or not finite."""
        if "size" not in call.noted:
            g = call.gradient
            largest = g.abs().max().item() if g.numel() else 0.0
            most = 1000 if g.dtype == torch.float64 else 120
            exponent = math.frexp(largest)[1] if 0 < largest < math.inf else None
            call.noted["size"] = size = 0.0 if exponent is None else 2.0 ** min(max(exponent, -most), most)
            if size > 0:
                call.gradient = g / size
        return call.noted["size"]

    def _errors(self, use: Use, t: torch.Tensor) -> list[tuple] | None:
        """Of the gradients of weights: variances where values have errors of variance 1."""
        call, g = use.call, use.call.gradient
        if call.kind in WEIGHTED:
            weight = call.noted["weight"]()
            channels = weight.shape[0]
            if self._exact:
                return [(weight, bounds.weight(g, channels))]
            return [(weight, 3 * (self._a * g.abs().mean().item()) ** 2 * g.shape[0])]
        passed = self._passed(use, t)
        if passed is None:
            return None
        errors: dict[int, tuple] = {}
        for name, fronts in call.noted["fronts"][use.role]:
            for key, (weight, factor) in fronts.items():
                errors[key] = weight(), errors.get(key, (None, 0.0))[1] + factor * passed[name]
        if "own" in passed and "weight" in call.noted:
            weight = call.noted["weight"]()
            errors[id(weight)] = weight, errors.get(id(weight), (None, 0.0))[1] + passed["own"]
        return list(errors.values())

    def _passed(self, use: Use, t: torch.Tensor) -> dict[str, float] | None:
        """The variances of the errors of the gradients that are passed on, by argument."""
        call, g = use.call, use.call.gradient
        if call.kind == "gelu":
            return {"input": bounds.gelu(g, t)}
        if call.kind == "silu":
            return {"input": bounds.silu(g, t)}
        if call.kind in ("layer_norm", "rms_norm"):
            passed, own = bounds.norm(g, t, *call.noted["norm"])
            return {"input": passed, "own": own}
        if call.kind == "softmax":
            return {"input": bounds.softmax(g, t.view(g.shape))}
        if call.kind == "log_softmax":
            return {"input": bounds.log_softmax(g.float().sum(-1, keepdim=True), t.view(g.shape))}
        if call.kind == "cross_entropy":
            return {"input": bounds.log_softmax(g.item() / call.noted["rows"], t)}
        if call.kind == "power":
            return {"input": bounds.square(g)}
        if call.kind in ("mul", "div"):
            return self._passed_by_product(use, t)
        if call.kind == "matmul":
            of_input, of_other = bounds.matmul(g)
            return {"other": of_input, "input": of_other}
        return self._passed_by_attention(use, t)

    @staticmethod
    def _passed_by_product(use: Use, t: torch.Tensor) -> dict[str, float] | None:
        call, g = use.call, use.call.gradient
        if call.noted["form"] == PRODUCT:
            return {name: bounds.product(g) for name in ("input", "other")}
        full, small = call.noted["names"]
        if call.noted["form"] == SCALE:
            return {small: bounds.scale(g, call.noted["count"])}
        handle = call.handles[small]() if small in call.handles else None
        if handle is None:
            return None
        r = handle.view()
        return {full: bounds.root_mean_square(g, t, r.reciprocal() if call.kind == "div" else r)}

    @staticmethod
    def _passed_by_attention(use: Use, t: torch.Tensor) -> dict[str, float] | None:
        call = use.call
        if "attention" not in call.noted:
            parts = {role: handle().view() for role, handle in call.handles.items() if handle() is not None}
            if not {"query", "key", "value", "output"} <= set(parts):
                return None
            causal, scale = call.noted["attention form"]
            call.noted["attention"] = bounds.attention(call.gradient, parts["query"], parts["key"], parts["value"],
                                                       parts["output"], causal, scale)
        return call.noted["attention"][use.role]

    def _momentum(self, weight: torch.Tensor | None) -> float | None:
        """The mean of |m|, m the sum of the gradients that the optimizer's decay has left."""
        if id(weight) not in self._momenta:
            self._momenta[id(weight)] = self._momentum_now(weight)
        return self._momenta[id(weight)]

    def _momentum_now(self, weight: torch.Tensor | None) -> float | None:
        state = self._optimizer.state.get(weight, {}) if weight is not None else {}
        if state.get("square_avg") is not None:  # RMSprop's momentum is of steps, not of gradients
            return None
        if state.get("momentum_buffer") is not None:
            return _mean_magnitude(state["momentum_buffer"])
        if state.get("exp_avg") is not None:
            mean = _mean_magnitude(state["exp_avg"])
            return mean and mean / (1 - self._betas.get(id(weight), 0.0))
        return None

    def _controller(self, key: tuple) -> BoundController:
        if key not in self._controllers:
            self._controllers[key] = BoundController(*self._options)
        return self._controllers[key]


def _has_room(t: torch.Tensor) -> bool:
    """For what Choice.above_zero adds."""
    return t.dtype in (torch.float32, torch.float64) or (t.dtype == torch.bfloat16 and t.device.type == "cpu")


def _repeats(small: torch.Size, full: torch.Size) -> bool:
    """Does a tensor become one of the other shape by repeating what it has?"""
    return len(small) <= len(full) and all(a in (1, b) for a, b in zip(small[::-1], full[::-1]))


def _mean_magnitude(t: torch.Tensor) -> float | None:
    """None where the optimizer keeps it in a form that does not say its values."""
    if is_in_memory(t):
        return t.abs().mean().item()
    try:
        return t.dequantize().abs().mean().item()
    except Exception:  # a subclass may raise any
        return None


def _note_gradient(call: Call | None, gradient: torch.Tensor) -> None:
    if call is not None:
        call.gradient = gradient.detach() if is_in_memory(gradient) else None
        call.noted.pop("size", None)  # of an earlier backward pass through the same graph
        call.noted.pop("attention", None)
