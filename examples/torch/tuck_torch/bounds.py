"""What an error in a saved tensor does to gradients: the formulas behind Comet's bounds.

All say how large the variance of a gradient's error is, in the mean over its elements, where each value of the saved
tensor has an independent error of variance 1, as an error-bounded codec leaves them, of variance bound^2 / 3. Values
that are zero have none. g is the gradient of the operation's output. Each follows from the operation's gradient by

    variance of sum_i a_i e_i = sum_i a_i^2

where the same e_i meets many a_i of changing signs, as over the positions of a sequence, cross terms are left out.
`apart` takes care that errors of different positions do not agree.

Two kinds of gradients have to be kept:

  weights      G_kj = sum_t g_tk x_tj, whose error is compared with the weight's momentum m: COMET's rule,
               sigma = share * mean |m|

  activations  what an operation passes on becomes g of the weights in front of it, through known operations. An error
               of variance v there gives each of their gradients one of variance T * mean(x^2) * v, over T positions:
               `front_weight`.

Gradients are linear in the gradients they come from, so the second rule holds behind several operations, with the
product of their gains: fronts.py. Variances are means over all elements: where large errors meet large values more
often than by chance, as where few rows of a softmax are undecided, errors are larger than these say."""

from __future__ import annotations

import torch


def _sum(t: torch.Tensor) -> float:
    return t.sum().item()


def _square(t: torch.Tensor) -> torch.Tensor:
    return t.float().square() if t.dtype in (torch.float16, torch.bfloat16) else t.square()


def _mean(t: torch.Tensor) -> float:
    return _sum(t) / max(t.numel(), 1)


def weight(g: torch.Tensor, channels: int) -> float:
    """Linear layers and convolutions, of the input x: dG_kj = sum_t g_tk e_tj, so sum_t g_tk^2, in the mean over the
    output channels k (Jin et al., VLDB 2022, before their estimate)."""
    return _sum(_square(g)) / channels


def front_weight(positions: float, mean_square: float) -> float:
    """A weight in front, of whose output the gradient has an error d: dG_kj = sum_t d_tk x_tj, so T * mean(x^2)."""
    return positions * mean_square


def probed(error: torch.Tensor) -> float:
    """The gain of an operation through whose gradient signs were passed: error is what came out. Weights in front sum
    over positions, the dimensions but that of features, which is the last or the second: the mean square of the errors,
    and of their sums over positions, as a share of what independent errors have there. The larger one."""
    error, n = error.double(), max(error.numel(), 1)
    gains = [_sum(error.square()) / n]
    for features in ((-1,), (1,), (1, -1)) if error.dim() > 1 else ():
        kept = {i % error.dim() for i in features}
        sums = error.sum([i for i in range(error.dim()) if i not in kept]) if len(kept) < error.dim() else error
        if sums.numel() >= 4:  # of fewer, chance says too much
            gains.append(_sum(sums.square()) / n)
    return max(gains)


def agreement(g: torch.Tensor, features: int) -> float:
    """Which share of a gradient's power is the same at all positions, the dimensions but that of features."""
    g = g.float().transpose(features, -1).reshape(-1, g.shape[features]) if g.dim() > 1 else g.float().reshape(-1, 1)
    return _mean(g.mean(0).square()) / max(_mean(g.square()), 1e-30)


def apart(t: torch.Tensor, features: tuple[int, int], bound: float, agreeing: float) -> float:
    """By what a bound has to be multiplied for errors not to agree over positions: the sum of T independent ones has T
    times the variance bound^2 / 3, those of values that are alike, or mostly below the bound, up to T times that; in a
    gradient, times the share in which what meets them agrees, too. AGREE times is taken for chance. features: how many,
    and so many values of each are next to each other."""
    count, inner = features
    t = t.reshape(-1, count, inner) if count * inner and t.numel() % (count * inner) == 0 else t.reshape(-1, 1, 1)
    t, factor = t.float(), 1.0
    err = max(torch.count_nonzero(t).item(), 1) / max(t.numel(), 1) / 3
    for _ in range(20):
        step = 2 * bound * factor
        sums = torch.round(t / step).mul_(step).sub_(t).sum((0, 2)) if step > 0 else t.new_zeros(1)
        excess = agreeing * _sum(sums.square()) / max(t.numel(), 1) / max(err * (bound * factor) ** 2, 1e-300)
        if not excess > AGREE:
            break
        factor /= min(max(excess ** 0.5, 2.0), 4.0)
    return factor


AGREE = 4.0


def gelu(g: torch.Tensor, x: torch.Tensor, approximate: str = "none") -> float:
    """y = x Phi(x), so dx = g y'(x) with the error g y''(x) e, and y'' = phi(x) (2 - x^2). The approximation by tanh
    has nearly the same."""
    x = x.float()
    second = torch.exp(-0.5 * x * x) * (0.3989422804014327 * (2 - x * x))
    return _mean((g.float() * second).square())


def silu(g: torch.Tensor, x: torch.Tensor) -> float:
    """y = x s(x), s the logistic function: y'' = s (1 - s) (2 + x (1 - 2 s))."""
    x = x.float()
    s = torch.sigmoid(x)
    return _mean((g.float() * s * (1 - s) * (2 + x * (1 - 2 * s))).square())


GELU_SLOPE, SILU_SLOPE = 1.13, 1.1  # the largest |y'|: by which the error of x becomes that of y, computed again


def _rows(t: torch.Tensor, normalized: int) -> torch.Tensor:
    return t.float().reshape(-1, normalized)


def norm(g: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, normalized: int, eps: float,
         centred: bool) -> tuple[float, float]:
    """LayerNorm, and RMSNorm where not `centred`: z = (x - mean) r, y = w z. Mean and r are saved apart, and exact; z
    has the error r e. With h = w g and d values a row,

        dx = r (h - mean(h) - z mean(h z)),  error  -r^2 (e mean(h z) + z mean(h e))

    of variance r^4 (mean(h z)^2 + mean(h^2) / d), since mean(z^2) = 1; the terms' covariance is of order 1 / d of the
    first. Also dw = sum_t g z with the error sum_t g r e: sum_t (g r)^2, in the mean over w. Returns both."""
    x, g = _rows(x, normalized), _rows(g, normalized)
    z = x - x.mean(1, keepdim=True) if centred else x
    r = (z.square().mean(1, keepdim=True) + eps).rsqrt()
    z = z * r
    h = g if weight is None else g * weight.detach().float().reshape(-1)
    passed = r.pow(4) * ((h * z).mean(1, keepdim=True).square() + h.square().mean(1, keepdim=True) / normalized)
    return _mean(passed), _sum((g * r).square()) / normalized


def magnitude(t: torch.Tensor) -> float:
    """The root of the mean square: by which an error of one factor becomes that of a product."""
    return _mean(t.detach().float().square()) ** 0.5


def norm_slope(x: torch.Tensor, weight: torch.Tensor | None, normalized: int, eps: float, centred: bool) -> float:
    """By which the error of x becomes that of y, computed again: the root of mean(w^2) mean(r^2)."""
    x = _rows(x, normalized)
    power = (x - x.mean(1, keepdim=True) if centred else x).square().mean(1)
    scale = 1.0 if weight is None else _mean(weight.detach().float().square())
    return (scale * _mean(1 / (power + eps))) ** 0.5


def matmul(g: torch.Tensor) -> tuple[float, float]:
    """C = A B: dA = g B^T, dB = A^T g. Errors of A reach dB, dB_jp having sum_i g_ip^2 = rows of g * mean(g^2); those
    of B reach dA, dA_ij having sum_p g_ip^2 = columns of g * mean(g^2). Returns both, of A and of B."""
    square = _mean(_square(g))
    return square * g.shape[-2], square * g.shape[-1]


def product(g: torch.Tensor) -> float:
    """c = a b: da = g b with the error g e, so mean(g^2)."""
    return _mean(_square(g))


def square(g: torch.Tensor) -> float:
    """c = a^2: da = 2 g a with the error 2 g e, so 4 mean(g^2)."""
    return 4 * product(g)


def scale(g: torch.Tensor, count: int) -> float:
    """c = a b, b of `count` values that repeat: db is the sum of g a over their copies, with the error sum g e: the sum
    of all g^2, in the mean over b."""
    return _sum(_square(g)) / max(count, 1)


def root_mean_square(g: torch.Tensor, x: torch.Tensor, r: torch.Tensor) -> float:
    """z = x r, r = (mean(x^2) + eps)^(-1/2) of d values each, where r is exact and x has the error e in this product:

        dr = sum(g x)   dx = r g - r^3 x dr / d,  error  -r^3 x sum(g e) / d  of variance  (r^3 / d)^2 x^2 sum(g^2)

    in the mean over x. With `square`, where the other error of x is, this is what `norm` has."""
    of_g, of_x = (t.float().square().sum_to_size(r.shape).double() for t in (g, x))
    return _sum((r.double().pow(3) * (r.numel() / x.numel())).square() * of_g * of_x) / x.numel()


def softmax(g: torch.Tensor, p: torch.Tensor, dim: int = -1) -> float:
    """dS = p (g - D), D = sum p g. Errors of p: e_i (g_i - D) - p_i sum_j e_j g_j, of variance

        (g_i - D)^2 + p_i^2 sum_j g_j^2 - 2 (g_i - D) p_i g_i

    over those i with p_i != 0: the others have no error, and sums are over them alone. A row's errors add up to
    -D sum_i e_i, as if they had D^2 each, where what they meet next is alike: the larger one."""
    g, p = g.float(), p.float()
    g = torch.where(p != 0, g, torch.zeros_like(g))
    d = (p * g).sum(dim, keepdim=True)
    own = (g - d).square() - 2 * (g - d) * p * g
    each = _mean(torch.where(p != 0, own, torch.zeros_like(g)) + p.square() * g.square().sum(dim, keepdim=True))
    return max(each, _mean(torch.where(p != 0, d.square(), torch.zeros_like(g))))


def softmax_gain(p: torch.Tensor, dim: int = -1) -> float:
    """Of an error d that g has already: p_i (d_i - sum_j p_j d_j), of variance p_i^2 (1 - 2 p_i + sum_j p_j^2)."""
    p = p.float()
    square = p.square()
    return _mean(square * (1 - 2 * p + square.sum(dim, keepdim=True)))


def log_softmax(row_sum: torch.Tensor | float, y: torch.Tensor) -> float:
    """y = log softmax: dx = g - exp(y) G, G the sum of a row of g; the error -exp(y) G e has exp(2 y) G^2."""
    return _mean(torch.exp(2 * y.float()) * (row_sum ** 2))


def attention(g: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, causal: bool,
              scale: float | None) -> dict[str, dict[str, float]]:
    """Scaled dot product attention, whose backward pass computes P again from q, k and the saved logarithm of its sums:

        P = exp(s q k^T - L)   dV = P^T g   dP = g v^T   D = sum g o   dS = P (dP - D)   dQ = s dS k   dK = s dS^T q

    Over the keys j of a query t, and the a of a head, errors give (the variances' sums over a in the mean):

        of q:  dQ  s^4 sum_j dS^2 |k|^4           dK  s^2 sum_t dS^2 c    dV  s^2 sum_t P^2 |k|^2 |g|^2
        of k:  dQ  s^2 sum_j dS^2 c               dK  s^4 sum_t dS^2 |q|^4   dV  s^2 sum_t P^2 |q|^2 |g|^2
        of v:  dQ  s^2 sum_j P^2 |g|^2 |k|^2      dK  s^2 sum_t P^2 |g|^2 |q|^2
        of o:  dQ  s^2 |g|^2 |P k|^2              dK  s^2 sum_t P^2 |g|^2 |q|^2

    with c = d + 2 s q.k + s^2 |q|^2 |k|^2, d the size of a head: an error of k is in dQ itself and in dS. Returns
    {saved: {gradient: variance}}."""
    g, q, k, v, o = (t.float() for t in (g, q, k, v, o))
    size = q.shape[-1]
    s = size ** -0.5 if scale is None else scale
    products = s * (q @ k.transpose(-2, -1))
    if causal:
        hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        p = products.masked_fill(hidden, float("-inf")).softmax(-1)
    else:
        p = products.softmax(-1)
    ds = (p * (g @ v.transpose(-2, -1) - (g * o).sum(-1, keepdim=True))).square()
    pp = p.square()
    qq, gg = (t.square().sum(-1, keepdim=True) for t in (q, g))
    kk = k.square().sum(-1).unsqueeze(-2)
    both = _sum(ds * (size + 2 * products + s * s * qq * kk)) * s ** 2
    ppg = pp * gg
    reach_k, reach_q = _sum(ppg * qq) * s ** 2, _sum(ppg * kk) * s ** 2
    of_o = _sum(gg * (p @ k).square()) * s ** 2
    nq, nk, nv = q.numel(), k.numel(), v.numel()
    return {
        "query": {"query": _sum(ds * kk.square()) * s ** 4 / nq, "key": both / nk, "value": reach_q / nv},
        "key": {"query": both / nq, "key": _sum(ds * qq.square()) * s ** 4 / nk, "value": reach_k / nv},
        "value": {"query": reach_q / nq, "key": reach_k / nk},
        "output": {"query": of_o / nq, "key": reach_k / nk},
    }
