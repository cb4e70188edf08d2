#!/usr/bin/env python3
"""examples/torch at its edges: types, optimizers and ways to differentiate that trainings seldom meet."""

import contextlib
import copy
import ctypes
import gc
import itertools
import os
import pickle
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path
from unittest import mock

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "torch"
sys.path.insert(0, str(EXAMPLE))

try:
    import numpy as np
    import torch
    import tuck
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import tuck_torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint
from tuck.training import Advisor, BoundController, decode_job
from tuck_torch.functions import Call
from tuck_torch.library import Choice, begin_encode, encode_job, finish_encode
from tuck_torch.session import Session
from tuck_torch.store import Recipe, Stored


LIBC = ctypes.CDLL(None)


@contextlib.contextmanager
def no_more_threads():
    """As where the system has no more: stacks of 128 TiB cannot be had."""
    before, other = (ctypes.create_string_buffer(256) for _ in range(2))
    LIBC.pthread_getattr_default_np(before)
    LIBC.pthread_attr_init(other)
    LIBC.pthread_attr_setstacksize(other, ctypes.c_size_t(1 << 47))
    LIBC.pthread_setattr_default_np(other)
    try:
        yield
    finally:
        LIBC.pthread_setattr_default_np(before)


def perceptron(dtype=torch.float32):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    x = torch.randn(256, 64)
    return model.to(dtype), x.to(dtype), (x @ torch.randn(64, 10)).argmax(1)


class Pool(nn.Module):
    """Few queries that are a parameter, or the first positions, look at all positions."""

    def __init__(self, learned):
        super().__init__()
        self.first, self.keys, self.values, self.out = (nn.Linear(64, 64) for _ in range(4))
        self.learned = nn.Parameter(torch.randn(2, 64)) if learned else None

    def forward(self, x):
        x = F.gelu(self.first(x))
        queries = x[:, :2] if self.learned is None else self.learned.expand(len(x), 2, 64)
        return self.out(F.scaled_dot_product_attention(queries, self.keys(x), self.values(x))).mean(1)


def gradients(model, x, y, policy, scale=1.0):
    model.zero_grad()
    with tuck_torch.saved_tensors(policy):
        loss = F.cross_entropy(model(x).float(), y) * scale
    loss.backward()
    return [p.grad.clone() for p in model.parameters()]


class Comet(unittest.TestCase):
    def shares(self, optimizer_of, trained, scale=1.0, **options):
        """Errors of weights' gradients as shares of the momentum after some steps."""
        model, x, y = trained
        optimizer = optimizer_of(model.parameters())
        policy = tuck_torch.Comet(optimizer, refresh=1, **{"share": 0.01, **options})
        sums = [torch.zeros_like(p, dtype=torch.float32) for p in model.parameters()]
        for _ in range(8):
            for m, g in zip(sums, gradients(model, x, y, policy, scale)):
                m.mul_(0.9).add_(g)
            optimizer.step()
        self.assertTrue(all(s["momentum_buffer"] is not None for s in optimizer.state.values()))
        policy.take_counts()
        mine, exact = (gradients(model, x, y, p, scale) for p in (policy, tuck_torch.Raw()))
        self.counts = policy.take_counts().values()
        return [((a - b).float().square().mean().sqrt() / m.abs().mean()).item()
                for a, b, m in zip(mine, exact, sums) if m.dim() > 1]

    def test_relus_in_bfloat16_keep_their_signs(self):
        """Those that were lost brought 4 to 7 times the share that is allowed."""
        for dtype in (torch.float32, torch.bfloat16):
            shares = self.shares(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), perceptron(dtype))
            raw, stored = (sum(getattr(c, name) for c in self.counts) for name in ("raw", "stored"))
            with self.subTest(dtype=dtype):
                self.assertLess(max(shares), 0.02)
                self.assertGreater(raw / stored, 2.5)

    def test_values_of_relus_stay_within_the_bound(self):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            t = torch.randn(20000, dtype=torch.float64).relu().to(dtype)
            t[:4] = torch.tensor([0.0, 1e-30, 1.0, 1e-3], dtype=dtype)
            for bound in (1e-3, 0.05):
                choice = Choice("quantize", bound, False, True)
                into = torch.empty(t.numel(), dtype=choice.encoded_type(dtype))
                decode_job(finish_encode(encode_job(choice, t))[0], into).wait()
                into = choice.lower(into, dtype)
                with self.subTest(dtype=dtype, bound=bound):
                    self.assertEqual(into.dtype, dtype)
                    self.assertTrue(torch.equal((into > 0)[2:], (t > 0)[2:]))
                    self.assertLessEqual((into.double() - t.double()).abs().max().item(), bound)

    def test_rmsprop_keeps_no_sum_of_gradients(self):
        """Its momentum is of steps, which do not shrink with the gradients."""
        shares = self.shares(lambda p: torch.optim.RMSprop(p, lr=1e-4, momentum=0.9), perceptron(), 1e-3)
        self.assertLess(max(shares), 0.02)

    def test_bounds_are_renewed_soon_at_first(self):
        model, x, y = perceptron()
        for refresh, periods in ((1000, [1, 2, 4, 8, 16]), (6, [1, 2, 4, 6, 6]), (1, [1] * 5)):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
            policy, renewed = tuck_torch.Comet(optimizer, refresh=refresh), []
            for _ in range(34):
                gradients(model, x, y, policy)
                optimizer.step()
                if policy._updated is not None and policy._updated not in renewed:
                    renewed.append(policy._updated)
            with self.subTest(refresh=refresh):
                self.assertEqual([b - a for a, b in zip(renewed, renewed[1:])][:5], periods)

    def test_gradients_that_shrink(self):
        """One batch is learnt by heart. Comet's loss was 8 times the plain one, for bounds were those of the start."""
        torch.manual_seed(1)
        x, y, losses = torch.randn(64, 128), torch.randint(32, (64,)), []
        for policy_of in (lambda o: tuck_torch.Raw(), tuck_torch.Comet):
            torch.manual_seed(5)
            model = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 128),
                                  nn.LayerNorm(128), nn.Linear(128, 32))
            optimizer = torch.optim.Adam(model.parameters(), 1e-3)
            policy = policy_of(optimizer)
            for _ in range(100):
                optimizer.zero_grad()
                with tuck_torch.saved_tensors(policy):
                    loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[1], 2 * losses[0])

    @unittest.skipIf(not hasattr(F, "scaled_dot_product_attention"), "this PyTorch has no such attention")
    def test_attention_of_queries_that_are_not_stored(self):
        """Bounds of keys and values follow from the queries, too. They stayed at the first ones."""
        for learned, rows in ((True, 64), (False, 2)):
            torch.manual_seed(0)
            model, x = Pool(learned), torch.randn(rows, 32, 64)
            y = torch.randint(64, (rows,))
            shares = self.shares(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), (model, x, y), share=1e-3,
                                 first=0.1)
            with self.subTest(learned=learned):
                self.assertLess(max(shares), 5e-3)


class Wrapper(torch.optim.Optimizer):
    """As accelerate's, which does not call Optimizer.__init__."""

    def __init__(self, optimizer):
        self.within = optimizer

    state = property(lambda self: self.within.state)
    param_groups = property(lambda self: self.within.param_groups)
    defaults = property(lambda self: self.within.defaults)

    def step(self, closure=None):
        return self.within.step(closure)


class Proxy:
    """As DeepSpeed's, which is no Optimizer."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def __getattr__(self, name):
        return getattr(self.__dict__["optimizer"], name)


class Ahead(torch.optim.Optimizer):
    """One whose own state is not the momentum."""

    def __init__(self, optimizer):
        super().__init__(optimizer.param_groups, {})
        self.base_optimizer = optimizer

    def step(self, closure=None):
        self.base_optimizer.step(closure)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["slow"] = p.detach().clone()


class Unknown(Wrapper):
    """Its optimizer is where nobody looks."""

    def __init__(self, optimizer):
        self.list = [optimizer]

    within = property(lambda self: self.list[0])


class Beside(torch.optim.SGD):
    """With another, of other parameters."""

    def __init__(self, parameters, **options):
        super().__init__(parameters, **options)
        self.other = torch.optim.Adam([nn.Parameter(torch.zeros(3))])


class WrappedOptimizers(unittest.TestCase):
    def bounds(self, wrap, optimizer_of=torch.optim.SGD):
        model, x, y = perceptron()
        optimizer = wrap(optimizer_of(model.parameters(), lr=0.05, momentum=0.9))
        policy = tuck_torch.Comet(optimizer, refresh=1)
        for _ in range(4):
            gradients(model, x, y, policy)
            optimizer.step()
        self.assertTrue(policy._learnt)
        return policy._bounds

    def test_bounds_follow_the_one_that_steps(self):
        plain = self.bounds(lambda o: o)
        self.assertNotIn(1e-4, plain.values())
        for wrap in (Wrapper, Proxy, Ahead, lambda o: Wrapper(Proxy(o)), lambda o: Proxy(Wrapper(Ahead(o)))):
            self.assertEqual(self.bounds(wrap), plain)
        self.assertEqual(self.bounds(lambda o: o, Beside), plain)
        self.bounds(Unknown)  # which does not say when it steps

    def test_what_is_no_optimizer_is_named(self):
        for wrong in (3, None, Proxy(3), Proxy(nn.Linear(2, 2)), nn.Linear(2, 2)):
            with self.assertRaisesRegex(ValueError, f"optimizer: {type(wrong).__name__} has no state by parameter"):
                tuck_torch.Comet(wrong)
        with self.assertRaisesRegex(ValueError, "optimizer: LBFGS has no momentum"):
            tuck_torch.Comet(torch.optim.LBFGS(nn.Linear(2, 2).parameters()))


class Filled(unittest.TestCase):
    """PyTorch saves the noise of RReLU before it is there."""

    def test_the_noise_of_rrelu(self):
        noise = lambda x: torch._C._nn.rrelu_with_noise(x, torch.zeros_like(x).fill_(5), 0.1, 0.3, True)
        for function in (nn.RReLU(), nn.RReLU(inplace=True), lambda x: torch.rrelu(x, training=True), noise):
            def gradient(context, size):
                torch.manual_seed(1)
                x = torch.randn(size, 64, requires_grad=True)
                with context:
                    loss = function(x * 1).square().sum() + x.sin().sum()
                loss.backward()
                return x.grad

            for size in (4, 200):  # small and encoded ones
                plain = gradient(contextlib.nullcontext(), size)
                for name, policy in ALL.items():
                    if name != "comet":
                        with self.subTest(size=size, policy=name):
                            same = gradient(tuck_torch.saved_tensors(policy()), size)
                            self.assertTrue(torch.equal(same, plain))


class Numbers(unittest.TestCase):
    def test_options_of_bounds_are_positive(self):
        good = [.32, .01, 1, 1e-4, 1e-8, 1e-1]
        for place in (0, 1, 3, 4, 5):
            for wrong in (-1.0, 0.0, float("nan"), float("inf")):
                with self.subTest(place=place, wrong=wrong), self.assertRaises(ValueError):
                    BoundController(*good[:place], wrong, *good[place + 1:])
        self.assertEqual(BoundController(*good).bound, 1e-4)

    def test_what_the_advisor_numbers(self):
        advisor = Advisor(1e9, 1e9, 1)
        tensor = advisor.add(1 << 20)
        for number in (1, 256, 2**32, 2**64 - 1):
            for call in (lambda: advisor.decide(number, 0.5),
                         lambda: advisor.measured(number, 0, 0.5, 1e-9, 1e-9, 2.0),
                         lambda: advisor.measured(tensor, number, 0.5, 1e-9, 1e-9, 2.0)):
                self.assertRaises(IndexError, call)
        self.assertEqual(advisor.decide(tensor, 0.5), -1)
        self.assertRaises(ValueError, Advisor, 1.0, 1e9, 1)


class Lossless(unittest.TestCase):
    def test_nothing_waits_for_the_collector_of_garbage(self):
        model, x, y = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for policy in (tuck_torch.Codec("zvc"), tuck_torch.Comet(optimizer, refresh=1)):
            for _ in range(3):
                gradients(model, x, y, policy)
                optimizer.step()
            self.assertEqual([o for o in gc.get_objects() if isinstance(o, (Session, Stored))], [])

    def test_advised_where_float64_is_the_default(self):
        self.addCleanup(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(torch.float64)
        model, x, y = perceptron(torch.float64)
        for a, b in zip(*(gradients(model, x, y, p) for p in (tuck_torch.Advised(1e6), tuck_torch.Raw()))):
            self.assertTrue(torch.equal(a, b))

    def test_forward_differentiation(self):
        found = []
        for policy in (tuck_torch.Raw(), tuck_torch.Codec("zvc")):
            model, x, y = perceptron()
            with tuck_torch.saved_tensors(policy), forward_ad.dual_level():
                out = model(forward_ad.make_dual(x, torch.ones_like(x)))
                tangent = forward_ad.unpack_dual(out).tangent
                (out * tangent).sum().backward()
            found.append([tangent.detach(), *(p.grad for p in model.parameters())])
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(*found)))

    def test_batches_of_gradients(self):
        model, x, _ = perceptron()
        for name in ("plain", *ALL):
            context = tuck_torch.saved_tensors(ALL[name](), smallest=0) if name in ALL else contextlib.nullcontext()
            with self.subTest(policy=name), context:
                y = model(x).sum(0)
                got, = torch.autograd.grad(y, model[0].weight, torch.eye(len(y)), retain_graph=True, is_grads_batched=True)
                one, = torch.autograd.grad(y[3], model[0].weight)  # by the graph that saw a batch before
            exact = got if name == "plain" else exact
            self.assertTrue(torch.equal(got, exact) and torch.allclose(one, exact[3]))

    def test_signs_that_are_still_to_be_written(self):
        w = torch.randn(128, 128, requires_grad=True)
        x = torch.randn(128, 128)
        with tuck_torch.saved_tensors("zvc"):
            loss = (w * torch._neg_view(x)).sum()
        loss.backward()
        self.assertTrue(torch.equal(w.grad, -x))

    def test_policies_cannot_be_copied(self):
        for policy in (tuck_torch.Advised(1e9), tuck_torch.Codec("zvc")):
            for call in (copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "a policy .* cannot be copied"):
                    call(policy)


def comet_of_others():
    return tuck_torch.Comet(torch.optim.SGD([nn.Parameter(torch.zeros(3, device="cpu"))], 0.1, momentum=0.9))


ALL = {"raw": tuck_torch.Raw, "zvc": lambda: tuck_torch.Codec("zvc", least=1e-9),
       "zvc+rle+huffman": lambda: tuck_torch.Codec("zvc+rle+huffman", least=1e-9),
       "advised": lambda: tuck_torch.Advised(1e7), "comet": comet_of_others}


class Overwriting(torch.autograd.Function):
    """The sine. Its backward function writes into the tensor that was saved, as kernels do that save memory."""

    overwrites, seen = True, True  # by PyTorch

    @staticmethod
    def forward(ctx, h):
        ctx.save_for_backward(h)
        return h.sin()

    @staticmethod
    def backward(ctx, gradient):
        (h,) = ctx.saved_tensors
        if not Overwriting.overwrites:
            return h.cos() * gradient
        return (h if Overwriting.seen else h.data).cos_().mul(gradient)


class Overwritten(unittest.TestCase):
    """The next reader has what was saved, or an error, as in PyTorch without hooks."""

    forms = {"before": lambda h: Overwriting.apply(h) + h * h, "after": lambda h: h * h + Overwriting.apply(h),
             "a view": lambda h: (h * h).flatten() + Overwriting.apply(h.flatten()),
             "twice": lambda h: Overwriting.apply(h) + Overwriting.apply(h) + h.exp() + h * h}

    def gradients(self, form, context):
        torch.manual_seed(0)
        x = torch.randn(64, 64, requires_grad=True)
        with context:
            y = form(x * 2).sum()
        found = []
        for _ in range(2):
            x.grad = None
            y.backward(retain_graph=True)
            found.append(x.grad)
        return torch.stack(found)

    def test_other_readers_have_what_was_saved(self):
        self.addCleanup(setattr, Overwriting, "overwrites", True)
        self.addCleanup(setattr, Overwriting, "seen", True)
        for Overwriting.seen, (name, form) in itertools.product((True, False), self.forms.items()):
            Overwriting.overwrites = False
            right = self.gradients(form, contextlib.nullcontext())
            Overwriting.overwrites = True
            for policy in ("raw", "zvc", "zvc+rle+huffman", "comet"):
                with self.subTest(form=name, policy=policy, seen=Overwriting.seen):
                    if policy == "raw":  # which keeps one copy
                        with self.assertRaisesRegex(RuntimeError, "a tensor that is needed .* modified in place: shape"):
                            self.gradients(form, tuck_torch.saved_tensors(ALL[policy]()))
                    else:
                        got = self.gradients(form, tuck_torch.saved_tensors(ALL[policy]()))
                        self.assertTrue(torch.equal(got, right))

    @unittest.skipIf(not hasattr(torch, "inference_mode"), "this PyTorch has no inference mode")
    def test_backward_in_inference_mode(self):
        x, found = torch.randn(4096, requires_grad=True), []
        for context in (contextlib.nullcontext(), tuck_torch.saved_tensors(ALL["zvc"]())):
            with context:
                h = x * 2
                y = (h * h + h.exp()).sum()
            x.grad = None
            with torch.inference_mode():
                y.backward()
            found.append(x.grad)
        self.assertTrue(torch.equal(*found))


class GivenBack(unittest.TestCase):
    """Memory of saved tensors that is given back, or moved, before it is encoded."""

    @staticmethod
    def storage(t):
        return t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage()

    def take(self, how, t):
        if how == "share_memory_":
            t.share_memory_()
        else:
            self.storage(t).resize_(0)

    def gradient(self, how, lag, context):
        random = torch.Generator().manual_seed(0)
        x = torch.randn(1 << 15, generator=random).requires_grad_()
        factors = [torch.randn(1 << 15, generator=random).relu() for _ in range(16)]
        copies, y = [w.clone() for w in factors], x
        with context:
            for i, w in enumerate(factors):
                y = y * w
                if i >= lag:
                    self.take(how, factors[i - lag])
                junk = torch.full((1 << 15,), 7.0)  # takes that memory
        del junk
        for w, before in zip(factors, copies):
            if self.storage(w).nbytes() == 0:
                self.storage(w).resize_(self.storage(before).nbytes() // (1 if hasattr(w, "untyped_storage") else 4))
                w.data.copy_(before)
        y.sum().backward()
        return x.grad

    def test_gradients_are_right(self):
        for how in ("resize_(0)", "share_memory_"):
            for lag in (0, 3, 8):
                right = self.gradient(how, lag, contextlib.nullcontext())
                for policy in ALL:
                    with self.subTest(how=how, lag=lag, policy=policy):
                        got = self.gradient(how, lag, tuck_torch.saved_tensors(ALL[policy]()))
                        self.assertTrue(torch.equal(got, right))


class Compared(Session):
    """Compares what the backward pass reads with what was saved, bit for bit."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.saved = []

    def pack(self, t):
        packed = super().pack(t)
        self.saved.append((packed, t.detach().clone()))
        return packed

    def unpack(self, packed):
        t = super().unpack(packed)
        assert all(torch.equal(t, before) for p, before in self.saved if p is packed), "not what was saved"
        return t


class Exact(tuck_torch.Comet):
    """Loses nothing but by computing again."""

    def choose(self, t, site, uses):
        return Choice("zvc")


class Grown(torch.autograd.Function):
    """The same memory, differentiated in another way."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return 100 * gradient


def inverse(v, eps=1e-5):
    return torch.rsqrt(v + eps)


def mean_square(x):
    return x.pow(2).mean(-1, keepdim=True)


def cast_norm(x, w):
    y = x.float()
    return (y * inverse(mean_square(y))).type_as(x) * w


def t5_norm(x, w):
    return w * (x * inverse(mean_square(x.to(torch.float32)))).to(x.dtype)


def in_place(change):
    """The mean is changed between the square and the product."""
    def norm(x, w):
        v = mean_square(x)
        change(v)
        return x * v.rsqrt() * w
    return norm


def without_graph(v):
    with torch.no_grad():
        v.mul_(3)


def shared(x, w):
    """Others read the square, the mean and the root, too."""
    square = x * x
    r = inverse(square.mean(-1, keepdim=True))
    return x * r * w + (r + square).tanh()


def written(x, w):
    y = x * inverse(mean_square(x)) * w
    z = (y * w).sum()
    return y.detach().mul_(2) * w + x + z.detach()


def frozen(x, w):
    """What the norm gives is computed again for the product, which does not save it; and read transposed."""
    y = x * inverse(mean_square(x)) * w.detach()
    y = y.view(32, 128) * torch.linspace(1, 2, 4096).view(32, 128)
    return y.view(64, 64) * w + (y.view(64, 64).t() * w).tanh() + y.view(128, 32).t().reshape(64, 64) * w


def chain(x, w):
    """Recipes of recipes, two for each: 2^30 ways to x."""
    y = total = x.tanh()
    for _ in range(30):
        y = F.silu(y) * y  # zeros after a dozen
        total = total + y
    return total * w


def casts(x, w):
    y = x * inverse(mean_square(x))
    for _ in range(50):
        y = y.double().float()
    return y * w


def swiglu(x, w):
    a, b = x.chunk(2, dim=-1)
    y = F.silu(a) * b
    return torch.cat((y, y), -1) * w


def of_a_view(x, w):
    """A product of which only a part is read, or another order."""
    y = F.silu(x) * F.silu(x + 1)
    return y.t() * w + (y[:32] * w).sum()


# What else is computed again, or is not.
OTHERS = {"written to": written, "frozen": frozen, "chain": chain, "casts": casts, "swiglu": swiglu,
          "of a view": of_a_view, "checkpoint": lambda x, w: checkpoint(KNOWN["rsqrt"], x, w, use_reentrant=False) * w,
          "reentrant checkpoint": lambda x, w: checkpoint(KNOWN["rsqrt"], x, w, use_reentrant=True) * w}

# Norms by hand, of x and w -> whether they are known as such.
KNOWN = {
    "rsqrt": lambda x, w: x * inverse(mean_square(x)) * w,
    "square": lambda x, w: w * (torch.rsqrt(1e-5 + torch.square(x).mean(dim=-1, keepdim=True)) * x),
    "product": lambda x, w: torch.mul(x, torch.pow(torch.mean(x * x, -1, True) + 1e-5, -0.5)) * w,
    "quotient": lambda x, w: x / (mean_square(x) + 1e-5).sqrt() * w,
    "over rows": lambda x, w: x * inverse((x ** 2).mean(0, keepdim=True)) * w,
    "over both": lambda x, w: x * inverse((x ** 2).mean((0, 1), keepdim=True)) * w,
    "cast": cast_norm, "cast for the mean": t5_norm,
    "shared": shared,
}
UNKNOWN = {
    "of other rows": lambda x, w: x * inverse(x.pow(2).mean(-1)) * w,
    "transposed": lambda x, w: x * inverse(mean_square(x)).t() * w,
    "of a copy": lambda x, w: x * inverse(mean_square(x.clone())) * w,
    "of a part": lambda x, w: x * inverse(mean_square(x[:, :32])) * w,
    "of a view": lambda x, w: x * inverse(mean_square(x.t())) * w,
    "of another graph": lambda x, w: Grown.apply(x) * inverse(mean_square(x)) * w,
    "detached": lambda x, w: x.detach() * inverse(mean_square(x)) * w,
    "another power": lambda x, w: x * torch.rsqrt(x.pow(4).mean(-1, keepdim=True) + 1) * w,
    "another root": lambda x, w: x * (mean_square(x) + 1e-5) ** -0.25 * w,
    "product with the root": lambda x, w: x * (mean_square(x) + 1e-5).sqrt() * w,
    "quotient by the inverse": lambda x, w: x / inverse(mean_square(x)) * w,
    "a sum": lambda x, w: x * inverse(x.pow(2).sum(-1, keepdim=True)) * w,
    "eps that is learnt": lambda x, w: x * inverse(mean_square(x), w.abs().mean()) * w,
    "twice": lambda x, w: x * inverse(inverse(mean_square(x))) * w,
    "in place": in_place(lambda v: v.add_(1)), "in place, without a graph": in_place(without_graph),
    "by two": lambda x, w: x * inverse((x ** torch.tensor(2.0)).mean(-1, keepdim=True)) * w,
    "two to the": lambda x, w: x * inverse((2 ** x).mean(-1, keepdim=True)) * w,
}


class Compositions(unittest.TestCase):
    """Norms by hand and what else is computed again."""

    def setUp(self):
        torch.manual_seed(0)
        self.layer, self.head = nn.Linear(64, 64), nn.Linear(64, 64)
        self.scale, self.x = nn.Parameter(1 + 0.3 * torch.randn(64)), torch.randn(64, 64)
        self.parameters = [*self.layer.parameters(), *self.head.parameters(), self.scale]
        self.optimizer = torch.optim.SGD(self.parameters, lr=1e-3, momentum=0.9)

    def gradients(self, form, policy=None, dtype=torch.float32, **options):
        """Of two backward passes through the same graph, which have to agree."""
        context = tuck_torch.saved_tensors(policy, smallest=0, **options) if policy else contextlib.nullcontext()
        with mock.patch.object(tuck_torch, "Session", Compared if type(policy) is Exact else Session), context:
            y = self.head(form(self.layer(self.x).to(dtype), self.scale).float()).sin().sum()
        found = []
        for _ in range(2):
            for p in self.parameters:
                p.grad = None
            y.backward(retain_graph=True)
            found.append([p.grad.clone() if p.grad is not None else torch.zeros(1) for p in self.parameters])
        self.assertTrue(all(map(torch.equal, *found)))
        return found[0]

    def choices(self, policy):
        counts = {}
        for c in policy.take_counts().values():
            for name, number in c.choices.items():
                counts[name] = counts.get(name, 0) + number
        return counts

    def check(self, form, known, dtype=torch.float32):
        """What is computed again is exact where what is stored is. The gradient of the first layer's bias, which
        follows from x and not from that layer's input, is exact unless x is stored within a bound."""
        right = self.gradients(form, dtype=dtype)
        exact = Exact(self.optimizer, refresh=1)
        self.assertTrue(all(map(torch.equal, self.gradients(form, exact, dtype), right)), "computed again")
        computed = self.choices(exact).get("computed again", 0)
        policy = tuck_torch.Comet(self.optimizer, refresh=1, first=1e-2, lowest=1e-2)
        got = self.gradients(form, policy, dtype)
        chosen = self.choices(policy)
        self.assertLess(max((a - b).norm() / b.norm().clamp(min=1e-3) for a, b in zip(got, right)), 0.1)
        self.assertEqual(torch.equal(got[1], right[1]), not known, chosen)
        if known:
            self.assertGreaterEqual(computed, 1)

    def test_norms_that_are_known(self):
        for name, form in KNOWN.items():
            for dtype in (torch.float32, torch.bfloat16):
                with self.subTest(norm=name, dtype=dtype):
                    self.check(form, True, dtype)

    def test_norms_that_are_not(self):
        for name, form in UNKNOWN.items():
            with self.subTest(norm=name):
                self.check(form, False)

    def test_others_are_exact(self):
        again = {}
        for name, form in OTHERS.items():
            for dtype in (torch.float32, torch.bfloat16):
                for autocast in (False, True):
                    with self.subTest(form=name, dtype=dtype, autocast=autocast), \
                            torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                        right = self.gradients(form, dtype=dtype)
                        exact = Exact(self.optimizer, refresh=1)
                        got = self.gradients(form, exact, dtype)
                        self.assertTrue(all(map(torch.equal, got, right)))
                        again[name] = max(again.get(name, 0), self.choices(exact).get("computed again", 0))
        for name, least in {"written to": 1, "frozen": 1, "chain": 12, "casts": 1, "swiglu": 2, "of a view": 2}.items():
            self.assertGreaterEqual(again[name], least, name)

    def test_norms_of_computed_weights(self):
        """Nothing is known of the way to them."""
        form = lambda x, w: F.layer_norm(x, (64,), w * 2) * w
        self.gradients(form, tuck_torch.Comet(self.optimizer, refresh=1))
        self.optimizer.step()
        right, got = self.gradients(form), self.gradients(form, tuck_torch.Comet(self.optimizer, refresh=1))
        self.assertTrue(torch.equal(got[1], right[1]))

    def test_differentiated_twice(self):
        """By the graph of the gradients, too, and within the context."""
        found = []
        for policy in (None, Exact(self.optimizer, refresh=1)):
            with tuck_torch.saved_tensors(policy, smallest=0) if policy else contextlib.nullcontext():
                x = self.layer(self.x)
                y = swiglu(KNOWN["rsqrt"](x, self.scale), self.scale).sum()
                first = torch.autograd.grad(y, self.parameters[:1] + [self.scale], create_graph=True)
                found.append([*first, *torch.autograd.grad(sum(g.square().sum() for g in first), [self.scale])])
        self.assertTrue(all(map(torch.equal, *found)))

    def test_parts_that_change_before_are_as_they_were(self):
        """Of a parameter there is no copy: that is an error, as without tuck, and also where PyTorch does not count."""
        for changed, rows, uncounted in (("root", 64, False), ("root", 2048, False), ("root", 2048, True),
                                         ("scale", 64, False), ("scale", 64, True), ("large", 64, False),
                                         ("large", 64, True)):
            torch.manual_seed(1)
            width = 2048 if changed == "large" else 64
            x, scale = nn.Linear(64, width)(torch.randn(rows, 64)), nn.Parameter(torch.ones(width))
            head, found = nn.Linear(width, 64), []
            optimizer = torch.optim.SGD([scale, *head.parameters(), *self.parameters], lr=1e-3, momentum=0.9)
            for changes in (False, True):
                with tuck_torch.saved_tensors(Exact(optimizer, refresh=1)):
                    r = inverse(mean_square(x))
                    y = (x * r * scale).sum() + head(x * r * scale).sum()
                    of = r if changed == "root" else scale
                    with torch.no_grad():
                        (of.data if uncounted else of).mul_(2 if changes else 1)
                with self.subTest(changed=changed, rows=rows, uncounted=uncounted):
                    if changed == "large" and (changes or not uncounted):
                        with self.assertRaisesRegex(RuntimeError, "a parameter that is needed .* modified in place"):
                            torch.autograd.grad(y, [scale, head.weight])
                    else:
                        found.append(torch.autograd.grad(y, [scale, head.weight]))
            self.assertTrue(all(all(map(torch.equal, found[0], f)) for f in found))

    def test_nothing_waits_for_the_collector_of_garbage(self):
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for form in (*KNOWN.values(), *UNKNOWN.values(), swiglu, frozen, casts):
            policy = tuck_torch.Comet(self.optimizer, refresh=1)
            with tuck_torch.saved_tensors(policy, smallest=0):
                y = form(self.layer(self.x), self.scale).sum()
            y.backward()
            del y, policy
        kinds = Session, Call, Recipe, Stored
        self.assertEqual([o for o in gc.get_objects() if isinstance(o, kinds)], [])

    def test_keys_that_repeat_are_stored_once(self):
        if not hasattr(F, "scaled_dot_product_attention"):
            self.skipTest("this PyTorch has no such attention")
        ways = {
            "expanded": lambda t: t[:, :, None].expand(2, 2, 3, 32, 16).reshape(2, 6, 32, 16),
            "repeated": lambda t: t.repeat_interleave(3, dim=1),
            "repeated in rows": lambda t: t.transpose(1, 2).repeat_interleave(3, dim=2).transpose(1, 2),
            "of zeros": lambda t: t.repeat_interleave(3, dim=1) * 0,
            "in turn": lambda t: t.repeat(1, 3, 1, 1),
            "but for one": lambda t: t.repeat_interleave(3, dim=1) + F.one_hot(torch.tensor(5), 6).view(1, 6, 1, 1),
            "by two": lambda t: t.repeat(1, 3, 1, 1)[:, [0, 0, 1, 1, 1, 1]],
        }
        for name, way in ways.items():
            found, policy = [], Exact(self.optimizer, refresh=1)
            for context in (contextlib.nullcontext(), tuck_torch.saved_tensors(policy, smallest=0)):
                torch.manual_seed(0)
                x = torch.randn(2 * 32, 64)
                with mock.patch.object(tuck_torch, "Session", Compared), context:
                    q = self.layer(x).view(2, 32, 4, 16)[:, :, [0, 1, 2, 3, 0, 1]].transpose(1, 2)
                    k, v = (self.head(x).view(2, 32, 4, 16).transpose(1, 2).split(2, 1))
                    y = F.scaled_dot_product_attention(q, way(k), way(v), is_causal=True).sin().sum()
                for p in self.parameters:
                    p.grad = None
                y.backward()
                found.append([p.grad.clone() for p in self.parameters[:4]])
            with self.subTest(way=name):
                self.assertTrue(all(map(torch.equal, *found)))
                computed = self.choices(policy).get("computed again", 0)
                self.assertEqual(computed, 0 if name in ("in turn", "but for one") else 2)


class Rewritten(unittest.TestCase):
    """Memory that is written to after it was saved, mostly unseen by PyTorch. What was saved is what comes back."""

    writers = {
        "in place": lambda t, new: t.copy_(new),
        "data": lambda t, new: t.data.copy_(new),
        "numpy": lambda t, new: np.copyto(t.view(torch.uint8).numpy(), new.view(torch.uint8).numpy()),
        "dlpack": lambda t, new: torch.from_dlpack(t.view(torch.uint8)).copy_(new.view(torch.uint8)),
        "address": lambda t, new: [ctypes.memmove(a.data_ptr(), b.data_ptr(), a.numel() * a.element_size())
                                   for a, b in zip(t, new)],
    }

    def setUp(self):
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.layer, self.norm, self.table = nn.Linear(64, 64), nn.LayerNorm(64), nn.Embedding(50, 64)
        self.parameters = [*self.layer.parameters(), *self.norm.parameters(), self.table.weight]
        self.x, self.other = torch.randn(96, 64), torch.randn(96, 64)

    # Forms: of a writer, yield the losses in the order in which their backward passes come.

    def between_two_readers(self, write):
        y = self.layer(self.x)
        first = y.sin() + y * y
        write(y, y * 2)
        yield (first + y.exp() + y.cos() * y).sum()

    def right_after(self, write):
        y = self.layer(self.x)
        z = (y * y).sum() + y[:3, :5].exp().sum() + y.t()[::2].sin().sum()  # large, small, and not dense
        write(y, y * 0 + 7)
        yield z

    def what_is_computed_again(self, write):
        y = F.gelu(self.layer(self.x))
        write(y, y + 1)
        z = self.norm(self.layer(y))
        write(z, z - 1)
        w = F.silu(z) * z
        write(w, w * 3)
        yield self.layer(w).sin().sum()

    def parts_of_what_is_computed_again(self, write):
        x = self.layer(self.x)
        r = inverse(mean_square(x))
        y = x * r * self.norm.weight
        z = self.layer(y).sin().sum() + self.layer(self.norm(x)).cos().sum()
        for t in (r, x, y):
            write(t, t * 0 + 3)
        yield z

    def of_other_types(self, write):
        y, mask, ids = self.layer(self.x), self.x > 0, torch.arange(96 * 8).view(96, 8) % 50
        half, fan = y.to(torch.bfloat16), torch.randn(64).expand(96, 64)
        z = torch.where(mask, y.sin(), y).sum() + (half * half).float().sum() + self.table(ids).sin().sum()
        z = z + (y * fan).sum() + torch.view_as_complex(y.view(96, 32, 2)).pow(2).abs().sum()
        z = z + torch.sparse.mm(torch.ones(4, 96).to_sparse(), y).sum()
        for t in (half, fan[0], ids, mask):
            write(t, torch.zeros_like(t))
        yield z

    def batches_in_one_buffer(self, write):
        """Backward passes end before it is refilled."""
        for _ in range(4):
            write(self.x, torch.randn(96, 64))
            yield self.norm(self.layer(self.x).relu()).square().sum()

    def batches_that_wait(self, write):
        """They come at the end."""
        losses = []
        for _ in range(4):
            write(self.x, torch.randn(96, 64))
            losses.append(self.norm(self.layer(self.x).relu()).square().sum())
        yield sum(losses)

    def memory_that_is_used_again(self, write):
        """By another tensor, of another shape and type."""
        for dtype, shape in ((torch.float32, (96, 64)), (torch.int64, (48, 64)), (torch.float64, (48, 64))) * 2:
            t = self.x.data.view(dtype).view(shape)
            write(t, torch.ones_like(t) if dtype == torch.int64 else torch.randn(shape, dtype=dtype))
            yield (self.table(t % 50).sin() if dtype == torch.int64 else self.layer(t.float()) * t).sum()

    def of_a_part(self, write):
        """Queries, keys and values are views of one result."""
        y = F.linear(self.x.view(2, 48, 64), self.layer.weight.repeat(3, 1))
        q, k, v = y[..., :64], y[..., 64:128], y[..., 128:]
        q = q * 1
        y = (torch.softmax(q @ k.transpose(1, 2), -1) @ v).sin().sum()
        write(k[0], v[0])
        z = (torch.softmax(q @ k.transpose(1, 2), -1) @ v).cos().sum()
        write(v[1], k[1])
        yield y + z + k.exp().mean() + v.exp().mean()

    forms = (between_two_readers, right_after, what_is_computed_again, parts_of_what_is_computed_again, of_other_types,
             batches_in_one_buffer, batches_that_wait, memory_that_is_used_again, of_a_part)

    def gradients(self, form, writer, context_of, nested=False):
        self.setUp()
        write = lambda t, new: self.writers[writer](t.detach(), new.detach().contiguous())
        found = []
        with context_of():
            for loss in form(self, write):
                with tuck_torch.saved_tensors("rle") if nested else contextlib.nullcontext():
                    loss = loss + self.layer(self.other).square().mean()
                loss.backward()
                found += [p.grad.clone() for p in self.parameters if p.grad is not None]
                del loss
        return found

    def test_what_was_saved_comes_back(self):
        copies = lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t)
        exact = lambda: Exact(torch.optim.SGD(self.parameters, lr=1e-3, momentum=0.9), refresh=1)
        for form in self.forms:
            for writer in self.writers:
                right = self.gradients(form, writer, copies)
                for name, policy in {**ALL, "exact": exact}.items():
                    if name == "zvc" or (writer == "data" and name != "advised"):
                        with self.subTest(form=form.__name__, writer=writer, policy=name):
                            smallest = 0 if writer == "data" else 4096
                            got = self.gradients(form, writer, lambda: tuck_torch.saved_tensors(
                                policy(), smallest=smallest), writer == "numpy")
                            self.assertTrue(all(map(torch.equal, got, right)))


    def test_nothing_outlives_its_graph(self):
        entries = lambda: sum(issubclass(type(o), (Stored, Call)) for o in gc.get_objects())
        gc.collect()
        for policy in (*ALL.values(), lambda: tuck_torch.Comet(torch.optim.SGD(self.parameters, lr=0.1))):
            before = entries()
            with tuck_torch.saved_tensors(policy(), smallest=0):
                for _ in range(20):
                    z = self.layer(self.norm(F.gelu(self.layer(self.x)))).relu().square().sum()
                    z.backward()
                    del z
                self.assertEqual(entries(), before)


class Wrapped(torch.Tensor):
    """A subclass whose values are in another tensor. `only`: the operations that it knows; all if that is empty."""

    only: tuple = ()
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, within):
        return torch.Tensor._make_wrapper_subclass(cls, within.shape, strides=within.stride(), dtype=within.dtype,
                                                   device=within.device, requires_grad=within.requires_grad)

    def __init__(self, within):
        self.within = within

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if cls.only and function.__name__.split(".")[0] not in cls.only:
            raise NotImplementedError(f"{cls.__name__}: {function}")
        inner = tree_map(lambda t: t.within if isinstance(t, Wrapped) else t, (args, kwargs or {}))
        back = cls if not cls.only or function.__name__.split(".")[0] in ("detach", "t") else lambda t: t
        return tree_map(lambda t: back(t) if type(t) is torch.Tensor else t, function(*inner[0], **inner[1]))


class Frozen(Wrapped):
    only = ("detach", "t", "mm", "addmm")


class State(Wrapped):
    only = ("detach",)

    def dequantize(self):
        return self.within


class Closed(Wrapped):
    only = ("detach",)


class Subclasses(unittest.TestCase):
    """Tensors without memory of their own train as without tuck."""

    @staticmethod
    def wrapped():
        x, w = (Wrapped(torch.randn(64, 64)).requires_grad_() for _ in range(2))
        yield
        h = x @ w
        for _ in range(8):
            h = torch.tanh(h) * h
        yield h.sum()
        yield [x.grad.within, w.grad.within]

    @staticmethod
    def adapters():
        """Trained matrices beside one that is frozen, and of a type that knows few operations."""
        frozen = Frozen(torch.randn(64, 64))
        a, b, x = nn.Linear(64, 8, bias=False), nn.Linear(8, 64, bias=False), torch.randn(64, 64)
        yield
        h = torch.tanh(F.linear(x, frozen) + b(a(x)))
        yield (F.linear(h, frozen) + b(a(h))).square().sum()
        yield [a.weight.grad, b.weight.grad]

    @staticmethod
    def without_operations():
        """Such as are in memory, and of another type: what is given back is of that type."""

        class Named(torch.Tensor):
            pass

        x = torch.randn(64, 64).as_subclass(Named).requires_grad_()
        yield
        yield (x.sin() * x.cos()).sum()
        yield [x.grad.as_subclass(torch.Tensor)]

    @staticmethod
    def of_their_type():
        """The backward function asks for the type of what was saved."""

        class Image(torch.Tensor):
            pass

        class Times(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, s):
                ctx.save_for_backward(x, s)
                return x * s.as_subclass(torch.Tensor)

            @staticmethod
            def backward(ctx, gradient):
                _, s = ctx.saved_tensors
                return gradient * s.as_subclass(torch.Tensor) * (2 if isinstance(s, Image) else 1), None

        x, s = torch.randn(64, 64, requires_grad=True), torch.randn(64, 64).relu().as_subclass(Image)
        yield
        yield Times.apply(x, s).sin().sum()
        yield [x.grad]

    @staticmethod
    def masked():
        from torch.masked import masked_tensor
        x = masked_tensor(torch.randn(64, 64), torch.rand(64, 64) > 0.5, requires_grad=True)
        yield
        yield (x * x).sum()
        yield [x.grad.get_data() * x.grad.get_mask()]

    @staticmethod
    def fake():
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            model, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), torch.randn(256, 64)
            yield
            yield model(x).square().sum()
            shapes = [p.grad.shape for p in model.parameters()]
        yield [torch.tensor(s) for s in shapes]

    @staticmethod
    def sparse():
        x, w = torch.randn(64, 64).relu().to_sparse(), torch.randn(64, 64, requires_grad=True)
        yield
        yield torch.sparse.mm(x, w.sin()).square().sum()
        yield [w.grad]

    def gradients(self, form, context):
        torch.manual_seed(0)
        steps = form()
        next(steps)
        with context:
            loss = next(steps)
        loss.backward()
        return list(next(steps))

    def test_train_as_without(self):
        for form in (self.wrapped, self.adapters, self.without_operations, self.of_their_type, self.masked, self.fake,
                     self.sparse):
            with self.subTest(form=form.__name__):
                try:
                    plain = self.gradients(form, contextlib.nullcontext())
                    hooked = self.gradients(form, torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t))
                except (ImportError, AttributeError, TypeError, NotImplementedError, RuntimeError) as missing:
                    self.skipTest(f"this PyTorch does not train such: {missing}")
                if not all(map(torch.equal, hooked, plain)):
                    self.skipTest("this PyTorch gives hooks a plain tensor for such")
                for policy in ALL:
                    got = self.gradients(form, tuck_torch.saved_tensors(ALL[policy](), smallest=0))
                    self.assertTrue(all(map(torch.equal, got, plain)), policy)

    def test_momentum_of_another_type(self):
        """It is used where it says its values; else bounds stay as they are at first."""

        class Optimizer(torch.optim.SGD):
            def step(self):
                for state in self.state.values():
                    state["momentum_buffer"] = getattr(state["momentum_buffer"], "within", state["momentum_buffer"])
                super().step()
                for state in self.state.values() if kind else ():
                    state["momentum_buffer"] = kind(state["momentum_buffer"])

        found = {}
        for kind in (None, State, Closed):
            model, x, y = perceptron()
            optimizer = Optimizer(model.parameters(), lr=0.0, momentum=0.9)
            policy = tuck_torch.Comet(optimizer, refresh=100)
            for _ in range(4):
                gradients(model, x, y, policy)
                optimizer.step()
            found[kind] = policy._bounds
        self.assertEqual(set(found[Closed].values()), {1e-4})
        self.assertEqual(found[State], found[None])
        self.assertNotIn(1e-4, found[State].values())


class Traced(unittest.TestCase):
    """What is traced within a context is what is traced without."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.last = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(64, 64)

        def forward(self, x):
            h = F.gelu(self.first(x.view(1, 1, 64, 64))).amax(1)[0]
            h = F.layer_norm(h * inverse(mean_square(h)), (64,))
            return F.silu(self.last(h)) * torch.softmax(h @ h.t(), -1)

    def traces(self, model, x):
        from torch.fx.experimental.proxy_tensor import make_fx
        weights = dict(model.named_parameters())

        def gradient(weights, x):
            loss = torch.func.functional_call(model, weights, (x,)).square().mean()
            return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(weights.values()))])

        yield lambda: torch.jit.trace(model, x)
        yield lambda: torch.fx.symbolic_trace(model)
        yield lambda: make_fx(lambda t: model(t))(x)
        traced = lambda: make_fx(gradient)(weights, x)
        yield lambda: (lambda x, made=traced(): made(weights, x))

    @unittest.skipIf(not hasattr(torch, "func"), "this PyTorch has other tracers")
    def test_by_each_tracer(self):
        model, x, other = self.Model(), torch.randn(64, 64), torch.randn(64, 64)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for number, trace in enumerate(self.traces(model, x)):
            right = trace()(other).detach()
            for policy in (*ALL.values(), lambda: tuck_torch.Comet(optimizer)):
                with self.subTest(tracer=number, policy=policy):
                    with tuck_torch.saved_tensors(policy()):
                        traced = trace()
                    self.assertTrue(torch.equal(traced(other), right))
                    if number < 3:  # the last gives gradients
                        traced(other).square().mean().backward()


@unittest.skipIf(not hasattr(torch, "set_default_device"), "this PyTorch has no default device")
class DefaultDevice(unittest.TestCase):
    def test_tensors_of_another_device(self):
        model, x, y = perceptron()
        plain = gradients(model, x, y, tuck_torch.Raw())
        torch.set_default_device("meta")
        self.addCleanup(torch.set_default_device, None)
        for policy in ALL:
            with self.subTest(policy=policy):
                self.assertTrue(all(map(torch.equal, gradients(model, x, y, ALL[policy]()), plain)))
        t = x.relu()
        for restored in (tuck.decode(tuck.encode(t)), tuck.apply_delta(tuck.encode_delta(t, x), x)):
            self.assertTrue(torch.equal(restored, t))


class Scaled(unittest.TestCase):
    """Losses that are scaled, by GradScaler or by hand."""

    def trained(self, scale, overflows=(), optimizer_of=lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9), clip=None,
                scaler=None, refresh=1, size=1.0, steps=6):
        """Relative errors of the first weight's gradient, by step, and bytes saved by bytes stored in the last."""
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
        x, y = torch.randn(128, 64) * size, torch.randn(128, 64)
        optimizer = optimizer_of(model.parameters())
        policy = tuck_torch.Comet(optimizer, refresh=refresh)
        weights, errors = list(model.parameters()), []
        for step in range(steps):
            policy.take_counts()
            optimizer.zero_grad(set_to_none=True)
            with tuck_torch.saved_tensors(policy):
                loss = (model(x) - y).square().mean()
            (exact,) = torch.autograd.grad((model(x) - y).square().mean(), weights[0])
            by = scaler.get_scale() if scaler else scale
            if step in overflows:  # of squares of gradients, or of all
                loss = loss * 1e38 * (1e38 if scaler else 1.0)
            (scaler.scale(loss) if scaler else loss * by).backward()
            if step not in overflows:
                errors.append(((weights[0].grad / by - exact).norm() / exact.norm()).item())
            if scaler:
                scaler.step(optimizer)
                scaler.update()
            elif step not in overflows:
                for w in weights:
                    w.grad.div_(by)
                if clip:
                    nn.utils.clip_grad_norm_(weights, clip)
                optimizer.step()
        counts = policy.take_counts().values()
        return errors, sum(c.raw for c in counts) / sum(c.stored for c in counts)

    def test_overflow_teaches_nothing(self):
        for overflows in ((), (1,), (1, 2), (3,), (0, 1, 4)):
            with self.subTest(overflows=overflows):
                errors, _ = self.trained(1.0, overflows, refresh=1000, size=1e-5)
                self.assertLess(max(errors), 0.1)

    @unittest.skipIf(not hasattr(torch.optim.Optimizer, "register_step_pre_hook"),
                     "optimizers of this PyTorch do not say when they step")
    def test_scaled_gradients_are_compared_with_momentum_of_their_scale(self):
        adam = lambda p: torch.optim.AdamW(p, lr=1e-4)
        _, plain = self.trained(1.0)
        for scale in (2.0 ** -100, 2.0 ** -16, 2.0 ** 16, 2.0 ** 100):  # whose squares are no float32
            with self.subTest(scale=scale):
                errors, ratio = self.trained(scale)
                self.assertAlmostEqual(ratio, plain, 3)
                self.assertLess(max(errors), 0.05)
        self.assertAlmostEqual(self.trained(1.0, clip=1e-3)[1], plain, 1)  # so is the momentum
        scaled, plain = (self.trained(scale, optimizer_of=adam)[1] for scale in (2.0 ** 16, 1.0))
        self.assertAlmostEqual(scaled, plain, 3)

    @unittest.skipIf(not hasattr(getattr(torch, "amp", None), "GradScaler"), "this PyTorch lacks it on the CPU")
    def test_grad_scaler(self):
        scaler = lambda: torch.amp.GradScaler("cpu", init_scale=2.0 ** 16, growth_interval=2)
        sgd, fused = (lambda p, f=f: torch.optim.SGD(p, lr=1e-2, momentum=0.9, fused=f) for f in (None, True))
        _, plain = self.trained(1.0)
        for optimizer_of in (sgd, fused):
            for overflows in ((), (1,), (2, 3)):
                with self.subTest(fused=optimizer_of is fused, overflows=overflows):
                    errors, ratio = self.trained(1.0, overflows, optimizer_of, scaler=scaler())
                    self.assertLess(max(errors), 0.05)
                    self.assertLess(abs(ratio / plain - 1), 0.05)


@unittest.skipIf(not hasattr(LIBC, "pthread_setattr_default_np"), "no default stack can be set")
class WithoutThreads(unittest.TestCase):
    def test_training_goes_on(self):
        """First, as the thread begins with the first job of a process."""
        script = f"""
import sys
sys.path[:0] = {sys.path!r}
import torch_edges_test as test
torch = test.torch
torch.set_num_threads(1)
model, x, y = test.perceptron()
x, y = x.repeat(8, 1), y.repeat(8)
right = test.gradients(model, x, y, test.tuck_torch.Raw())
for policy in test.ALL.values():
    for starts in False, True, False:
        with test.no_more_threads() if not starts else test.contextlib.nullcontext():
            got = test.gradients(model, x, y, policy())
        if policy is not test.comet_of_others:
            assert all(map(torch.equal, got, right)), policy
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)


@unittest.skipIf(not hasattr(os, "fork"), "this system has no fork")
class Forked(unittest.TestCase):
    def test_while_the_thread_encodes(self):
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)  # OpenMP's threads are not the child's
        choice, t, x = Choice("zvc+rle+huffman"), torch.randn(1 << 21).relu(), torch.randn(1 << 18, requires_grad=True)
        jobs = [begin_encode(choice, t) for _ in range(4)]
        with tuck_torch.saved_tensors(ALL["zvc+rle+huffman"]()):
            y = x
            for _ in range(12):
                y = torch.sinh(y).relu()
            time.sleep(0.01)
            child = os.fork()
            if child == 0:
                signal.alarm(30)  # ends it where it hangs
        frames = [finish_encode(job)[0] for job in jobs[1:]]
        del jobs
        job = begin_encode(choice, t)
        deadline = time.monotonic() + 20
        while not job.is_done and time.monotonic() < deadline:  # by a thread of the process's own
            time.sleep(0.001)
        done = job.is_done
        frames += [finish_encode(job)[0], finish_encode(encode_job(choice, t))[0]]
        right = done and all(torch.equal(frame, frames[-1]) for frame in frames)
        del y
        if child == 0:
            os._exit(0 if right else 1)
        self.assertTrue(right)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
