#!/usr/bin/env python3
"""Runs a small language model whose keys and values are in pages of libtuck_pages.so. Compares tokens and perplexity
with raw, lossless and bounded pages. lm.npz has the weights. They were trained with `lm.py --train 600` on an earlier
state of this repository's text.

    lm.py --library LIBTUCK_PAGES [--simulator LIBPAGES_DEVICE]

Without --simulator the library's kernels run on PyTorch's CUDA device. The model runs on the CPU, so that its tokens
are the same everywhere.
"""

import argparse
import ctypes
import math
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import tuck_pages

CONTEXT, PAGE_TOKENS, LAYERS, WIDTH, HEADS = 128, 32, 2, 96, 4
HEAD = WIDTH // HEADS
ROOT = Path(__file__).resolve().parents[2]


def text():
    """The bytes of files as tokens: those to train on, and LICENSE, which is held out."""
    files = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("include/tuck/**/*.*")])
    train, held = b"".join(path.read_bytes() for path in files), (ROOT / "LICENSE").read_bytes()
    return [torch.frombuffer(bytearray(t), dtype=torch.uint8).long().clamp(max=127) for t in (train, held)]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache):
        """`cache(k, v)` appends rows and returns all rows."""
        q, k, v = self.qkv(self.norms[0](x)).split(WIDTH, -1)
        k, v = cache(k, v)
        q, k, v = (t.unflatten(-1, (HEADS, HEAD)).transpose(-3, -2) for t in (q, k, v))
        seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])
        weights = (q @ k.transpose(-2, -1) / math.sqrt(HEAD)).masked_fill(~seen, -math.inf).softmax(-1)
        x = x + self.out((weights @ v).transpose(-3, -2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(128, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 128)

    def forward(self, tokens, first=0, cache=lambda layer: lambda k, v: (k, v)):
        x = self.tokens(tokens) + self.places(torch.arange(first, first + tokens.shape[-1]))
        for i, layer in enumerate(self.layers):
            x = layer(x, cache(i))
        return self.head(self.norm(x))


WEIGHTS = Path(__file__).with_name("lm.npz")


def train(steps, path, seed=1, batch=8):
    """Trains a model and writes its weights every 20 steps."""
    torch.manual_seed(seed)
    model, (tokens, _) = Model(), text()
    optimizer = torch.optim.AdamW(model.parameters(), 4e-3, weight_decay=.01)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 4e-3 * min(1, (step + 1) / 20, 3 * (steps - step) / steps)
        begins = torch.randint(len(tokens) - CONTEXT - 1, (batch,))
        rows = torch.stack([tokens[b:b + CONTEXT + 1] for b in begins])
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        if step % 20 == 19:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)
            np.savez_compressed(path, **{name: t.numpy().astype(np.float16) for name, t in model.state_dict().items()})


def load(path=WEIGHTS):
    model, weights = Model(), np.load(path)
    model.load_state_dict({name: torch.from_numpy(weights[name].astype(np.float32)) for name in weights.files})
    return model.eval()


class Device:
    """Allocates memory that the library's kernels can use, as tensors of bytes."""

    def __init__(self, simulator=None):
        self._simulator = ctypes.CDLL(simulator, ctypes.RTLD_GLOBAL) if simulator else None
        if self._simulator:
            self._simulator.pages_device_allocate.restype = ctypes.c_void_p
            self._simulator.pages_device_wait.argtypes = [ctypes.c_void_p]

    def zeros(self, size):
        if not self._simulator:
            return torch.zeros(size, dtype=torch.uint8, device="cuda")
        memory = self._simulator.pages_device_allocate(ctypes.c_size_t(size))
        return torch.frombuffer((ctypes.c_ubyte * size).from_address(memory), dtype=torch.uint8)

    def wait(self):
        if (self._simulator.pages_device_wait(None) if self._simulator else torch.cuda.synchronize()):
            raise RuntimeError("the device has failed")


class ColdPages:
    """All full pages of a sequence of CONTEXT tokens: keys and values of each layer. `budget` is the most bytes of a
    page. `bound` is the error that is allowed, as a share of the page's range. Refused pages stay raw."""

    def __init__(self, library, device, budget, bound=0.0):
        self._library, self._device = library, device
        self._count = LAYERS * 2 * (CONTEXT // PAGE_TOKENS)
        values = PAGE_TOKENS * WIDTH
        self._config = tuck_pages.Config(
            type=tuck_pages.BF16, loss=tuck_pages.OF_RANGE if bound else tuck_pages.NO_LOSS, bound=bound,
            page_values=values, page_stride=2 * values, page_count=self._count, slot_bytes=budget // 16 * 16,
            slot_stride=budget // 16 * 16, slot_count=self._count, most_pairs=self._count)
        self._pages = device.zeros(self._count * 2 * values)
        self._slots = device.zeros(self._count * self._config.slot_stride)
        self._pairs = device.zeros(8 * self._count)
        self._results = device.zeros(ctypes.sizeof(tuck_pages.Result) * self._count)
        self._workspace = device.zeros(library.workspace_bytes(self._config))
        library.initialize(self._config, self._workspace, self._workspace.numel(), 0)
        self.forms, self.bytes = {form: 0 for form in range(3)}, 0

    def encode(self, pages):
        """Encodes pages: {index: (tokens, WIDTH) of bf16}. Returns the refused pages."""
        hot = self._pages.view(torch.bfloat16).view(self._count, PAGE_TOKENS, WIDTH)
        for index, page in pages.items():
            hot[index] = page.to(hot.device)
        results = self._run(self._library.encode, pages, self._pages, self._slots)
        for result in results.values():
            if result.status not in (tuck_pages.OK, tuck_pages.NO_FIT):
                raise tuck_pages.PagesError(result.status, self._library.message(result.status))
            self.forms[result.form] += 1
            self.bytes += result.bytes if result.status == tuck_pages.OK else self._config.page_stride
        for index in pages:
            hot[index] = 0  # decoded values can come only from the frame
        return {i: pages[i] for i, r in results.items() if r.status == tuck_pages.NO_FIT}

    def decode(self, indices):
        results = self._run(self._library.decode, indices, self._slots, self._pages)
        for result in results.values():
            if result.status != tuck_pages.OK:
                raise tuck_pages.PagesError(result.status, self._library.message(result.status))
        hot = self._pages.view(torch.bfloat16).view(self._count, PAGE_TOKENS, WIDTH)
        return {i: hot[i].cpu().clone() for i in indices}

    def _run(self, call, indices, source, target):
        count = len(indices)
        pairs = torch.tensor([[i, i] for i in indices], dtype=torch.int32).view(torch.uint8).flatten()
        self._pairs[:8 * count] = pairs.to(self._pairs.device)
        call(self._config, self._pairs, count, source, target, self._results, self._workspace,
             self._workspace.numel(), 0)
        self._device.wait()
        raw = bytes(self._results[:ctypes.sizeof(tuck_pages.Result) * count].cpu().tolist())
        return dict(zip(indices, (tuck_pages.Result * count).from_buffer_copy(raw)))


class Cache:
    """The keys and values of one sequence in bf16. With `cold`, full pages are encoded, and decoded for each step."""

    def __init__(self, cold=None):
        self._cold, self._encoded, self._refused = cold, set(), {}
        self._rows = [[torch.empty(0, WIDTH, dtype=torch.bfloat16)] * 2 for _ in range(LAYERS)]

    def __call__(self, layer):
        def add(k, v):
            rows = [torch.cat([old, fresh.to(torch.bfloat16)]) for old, fresh in zip(self._rows[layer], (k, v))]
            self._rows[layer] = rows
            return rows[0].float(), rows[1].float()

        return add

    def end_step(self):
        """Encodes pages that are full, and decodes all encoded pages."""
        if self._cold is None:
            return
        full = {}
        for layer, rows in enumerate(self._rows):
            for which, row in enumerate(rows):
                for page in range(len(row) // PAGE_TOKENS):
                    index = (layer * 2 + which) * (CONTEXT // PAGE_TOKENS) + page
                    if index not in self._encoded and index not in self._refused:
                        full[index] = row[page * PAGE_TOKENS:(page + 1) * PAGE_TOKENS]
        if full:
            self._refused.update(self._cold.encode(full))
            self._encoded |= full.keys() - self._refused.keys()
        if self._encoded:
            for index, page in self._cold.decode(sorted(self._encoded)).items():
                place, page_index = divmod(index, CONTEXT // PAGE_TOKENS)
                row = self._rows[place // 2][place % 2]
                row[page_index * PAGE_TOKENS:(page_index + 1) * PAGE_TOKENS] = page


@torch.no_grad()
def generate(model, prompt, cold=None):
    cache, tokens, done = Cache(cold), prompt, 0
    while len(tokens) < CONTEXT:
        logits = model(tokens[done:], done, cache)
        done = len(tokens)
        cache.end_step()
        tokens = torch.cat([tokens, logits[-1].argmax()[None]])
    return tokens


@torch.no_grad()
def perplexity(model, windows, cold=None):
    """Returns the perplexity of all tokens after the first page. Each window is read page by page."""
    losses = []
    for window in windows:
        cache = Cache(cold)
        for first in range(0, CONTEXT, PAGE_TOKENS):
            logits = model(window[first:first + PAGE_TOKENS], first, cache)
            if first != 0:
                losses.append(F.cross_entropy(logits, window[first + 1:first + PAGE_TOKENS + 1]).item())
            if first + PAGE_TOKENS < CONTEXT:
                cache.end_step()
    return math.exp(sum(losses) / len(losses))


# Budget of a page as a share of its bytes, and bound as a share of its range.
PLANS = {"lossless": (1, 0), "within 1e-2": (1 / 2, 1e-2), "within 3e-2": (1 / 3, 3e-2), "within 1e-1": (1 / 4, 1e-1)}


def compare(model, library, device, windows, plans=PLANS, prompts=2):
    """Returns {plan: (perplexity, tokens equal to raw pages, raw bytes / stored bytes, forms)}."""
    _, held = text()
    starts = torch.arange(windows) * ((len(held) - CONTEXT - 1) // windows)
    rows = [held[s:s + CONTEXT + 1] for s in starts]
    wanted = [generate(model, row[:PAGE_TOKENS]) for row in rows[:prompts]]
    found = {"raw": (perplexity(model, rows), len(wanted) * (CONTEXT - PAGE_TOKENS), 1.0, {})}
    for name, (share, bound) in plans.items():
        page = 2 * PAGE_TOKENS * WIDTH
        cold = ColdPages(library, device, int(share * page), bound)
        same = sum(int((generate(model, row[:PAGE_TOKENS], cold) == raw)[PAGE_TOKENS:].sum())
                   for row, raw in zip(rows, wanted))
        measured = perplexity(model, rows, cold)
        found[name] = (measured, same, sum(cold.forms.values()) * page / cold.bytes, cold.forms)
    return found, len(wanted) * (CONTEXT - PAGE_TOKENS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--library", help="libtuck_pages.so")
    parser.add_argument("--simulator", help="libpages_device.so: run the library's kernels on the simulator")
    parser.add_argument("--weights", default=WEIGHTS)
    parser.add_argument("--windows", type=int, default=16)
    parser.add_argument("--train", type=int, metavar="STEPS", help="train, write the weights, and exit")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.train:
        return train(options.train, options.weights)
    if not options.library:
        parser.error("--library is needed")
    device, library = Device(options.simulator), tuck_pages.Library(options.library)
    found, tokens = compare(load(options.weights), library, device, options.windows)
    print("pages         perplexity   tokens as raw   times smaller   lossless  bounded  raw")
    for name, (measured, same, ratio, forms) in found.items():
        print(f"{name:12} {measured:11.4f} {same:9} / {tokens} {ratio:15.2f} {forms.get(1, 0):10} "
              f"{forms.get(2, 0):8} {forms.get(0, 0):4}")


if __name__ == "__main__":
    main()
