#!/usr/bin/env python3
"""examples/torch with transformers: formulas by Monte-Carlo, functions recognised, bfloat16, and a training."""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "torch"
sys.path.insert(0, str(EXAMPLE))

try:
    import torch
    import sklearn  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import networks
import tuck_torch
from torch import nn
from torch.nn import functional as F
from tuck_torch import bounds
from tuck_torch.functions import Functions

ATTENTION = getattr(F, "scaled_dot_product_attention", None)


def gradients(function, tensors, head, role=None, bound=0.0):
    """Of function(*tensors) . head; errors within the bound are added to what is saved in that role, zeros excepted."""
    functions = Functions(lambda: tuck_torch.Site(None, 0), lambda module: "", lambda call: None,
                          lambda call, output: None)

    def pack(t):
        call = functions.running
        return t.detach(), call is not None and role is not None and call.role_of(t) == role

    def unpack(packed):
        t, noisy = packed
        if not noisy:
            return t
        unpacked.append(t.shape)
        return torch.where(t != 0, t + (2 * torch.rand_like(t) - 1) * bound, t)

    unpacked = []
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack), functions:
        out = function(*tensors)
    answer = torch.autograd.grad((out * head).sum(), [t for t in tensors if t.requires_grad])
    assert role is None or unpacked, f"nothing is saved as {role}"
    return answer


class Formulas(unittest.TestCase):
    """Of the error that autograd's own backward passes have, with errors in what they saved."""

    def setUp(self):
        torch.manual_seed(0)

    def variances(self, function, tensors, head, role, bound, trials=60):
        """Of each gradient's error, in the mean over its elements, for errors of variance 1."""
        exact = gradients(function, tensors, head)
        sums = [0.0] * len(exact)
        for _ in range(trials):
            for i, (a, b) in enumerate(zip(exact, gradients(function, tensors, head, role, bound))):
                sums[i] += (a - b).square().mean().item() / (bound * bound / 3)
        return [s / trials for s in sums]

    def check(self, measured, formula, within=0.1):
        self.assertGreater(formula, 0)
        self.assertLess(abs(measured / formula - 1), within, (measured, formula))

    def test_linear(self):
        x, w, g = torch.randn(64, 24), torch.randn(16, 24), torch.randn(64, 16)
        tensors = x, w.requires_grad_()
        (of_w,) = self.variances(F.linear, tensors, g, "input", 1e-2)
        self.check(of_w, bounds.weight(g, 16))

    def test_weight_in_front(self):
        x, w = torch.randn(64, 24), torch.randn(16, 24, requires_grad=True)
        exact, wrong = torch.randn(64, 16), torch.randn(200, 64, 16)
        of_w = torch.stack([d.T @ x for d in wrong]).square().mean().item()
        self.check(of_w, bounds.front_weight(64, bounds.product(x)))

    def test_gelu_and_silu(self):
        x, g = 1.5 * torch.randn(100, 50), torch.randn(100, 50)
        for function, formula, slope in ((F.gelu, bounds.gelu, bounds.GELU_SLOPE),
                                         (lambda t: F.gelu(t, approximate="tanh"), bounds.gelu, bounds.GELU_SLOPE),
                                         (F.silu, bounds.silu, bounds.SILU_SLOPE)):
            (of_x,) = self.variances(function, [x.clone().requires_grad_()], g, "input", 1e-2)
            self.check(of_x, formula(g, x))
            line = torch.linspace(-8, 8, 10001, dtype=torch.float64)
            y = function(line)
            self.assertLessEqual(((y[1:] - y[:-1]) / (line[1:] - line[:-1])).abs().max().item(), slope)

    def test_norms(self):
        w = (1 + 0.3 * torch.randn(64)).requires_grad_()
        x, g = (0.5 + 2 * torch.randn(50, 64)), torch.randn(50, 64) + 0.5 * torch.randn(50, 1)
        kinds = [(lambda a, b: F.layer_norm(a, (64,), b, None, 1e-5), True)]
        if hasattr(F, "rms_norm"):
            kinds.append((lambda a, b: F.rms_norm(a, (64,), b, 1e-5), False))
        for function, centred in kinds:
            of_x, of_w = self.variances(function, [x.clone().requires_grad_(), w], g, "input", 1e-2)
            passed, own = bounds.norm(g, x, w, 64, 1e-5, centred)
            self.check(of_x, passed, 0.15)
            if centred or of_w > 0:  # in parts, the product for the weight's gradient is saved apart
                self.check(of_w, own)
            noise = (2 * torch.rand(50, 64) - 1) * 1e-2
            error = (function(x + noise, w) - function(x, w)).detach().square().mean().item() / (1e-4 / 3)
            self.check(error ** 0.5, bounds.norm_slope(x, w, 64, 1e-5, centred))

    def test_products(self):
        a, b = torch.randn(3, 20, 30, requires_grad=True), torch.randn(3, 30, 10, requires_grad=True)
        g = torch.randn(3, 20, 10)
        of_a, of_b = bounds.matmul(g)
        for function in (torch.matmul, torch.bmm):
            self.check(self.variances(function, (a, b), g, "input", 1e-2)[1], of_a)
            self.check(self.variances(function, (a, b), g, "other", 1e-2)[0], of_b)
        wrong = torch.randn(50, 3, 20, 10)
        self.check((wrong @ b.detach().transpose(-2, -1)).square().mean().item(), bounds.matmul_gain(10, b.detach()))
        x, y, g = (torch.randn(50, 40, requires_grad=r) for r in (True, True, False))
        self.check(self.variances(torch.mul, (x, y), g, "other", 1e-2)[0], bounds.product(g))
        self.check(self.variances(torch.mul, (x, y), g, "input", 1e-2)[1], bounds.product(g))

    def test_softmax(self):
        x, g = 2 * torch.randn(80, 32), torch.randn(80, 32)
        x = x.masked_fill(torch.rand(80, 32) < 0.3, float("-inf")).requires_grad_()
        soft = lambda t: F.softmax(t, -1)
        p = soft(x).detach()
        self.check(self.variances(soft, [x], g, "output", 1e-3)[0], bounds.softmax(g, p))
        wrong = torch.randn(100, 80, 32)
        self.check((p * (wrong - (p * wrong).sum(-1, keepdim=True))).square().mean().item(), bounds.softmax_gain(p))
        x = torch.randn(80, 32, requires_grad=True)
        self.check(self.variances(lambda t: F.log_softmax(t, -1), [x], g, "output", 1e-3)[0],
                   bounds.log_softmax(g.sum(-1, keepdim=True), F.log_softmax(x, -1).detach()))
        y = torch.randint(32, (80,))
        self.check(self.variances(lambda t: F.cross_entropy(t, y), [x], 1, "output", 1e-3)[0],
                   bounds.log_softmax(1 / 80, F.log_softmax(x, -1).detach()))

    @unittest.skipIf(ATTENTION is None, "this PyTorch has no scaled_dot_product_attention")
    def test_attention(self):
        q, k, v = (torch.randn(2, 3, 48, 16, requires_grad=True) for _ in range(3))
        g = torch.randn(2, 3, 48, 16)
        for causal in (False, True):
            attend = lambda a, b, c: ATTENTION(a, b, c, is_causal=causal)
            o = attend(q, k, v).detach()
            formula = bounds.attention(g, *(t.detach() for t in (q, k, v)), o, causal, None)
            for role, of in formula.items():
                measured = dict(zip(("query", "key", "value"), self.variances(attend, (q, k, v), g, role, 1e-3)))
                for name, variance in of.items():
                    with self.subTest(causal=causal, of=role, reaches=name):
                        self.check(measured[name], variance, 0.2)
                for name in set(measured) - set(of):
                    self.assertLess(measured[name], 1e-6)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    unittest.main()
