#!/usr/bin/env python3
"""Trains small transformers on one thread, plainly and with their saved activations stored by tuck, seed by seed.

    python3 examples/torch/train_transformers.py --network gpt --seeds 10 --runs gpt.runs --json gpt.json --plot gpt.png

gpt, llama: 4 layers, 256 wide, of the characters of this repository's documents and headers. vit: 4 layers, 64 wide, of
scikit-learn's digits. Each run is a file in --runs, and is not done again where it is there: what was interrupted goes
on, and two processes may share the folder. Exit codes: 0 done, 2 bad usage.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import sys
import time
from pathlib import Path

try:
    import torch
    from sklearn.datasets import load_digits
except ImportError as missing:
    sys.exit(f"train_transformers.py: {missing}; on Debian: apt-get install python3-torch python3-sklearn")

sys.path.insert(0, str(Path(__file__).resolve().parent))
import networks
import tuck_torch
from torch.nn import functional as F


class Characters:
    """Batches of the text: nine tenths to train with, the rest to validate."""

    rate, smoothing, network = 1e-3, 0.0, networks.GPT

    def __init__(self, options: argparse.Namespace) -> None:
        self.batch, self.context, self.width = options.batch or 4, options.context, options.width or 256
        text = networks.text().long()
        cut = len(text) * 9 // 10
        self.device = options.device
        self.train, self.valid = text[:cut], text[cut:]

    def model(self) -> torch.nn.Module:
        return self.network(128, self.context, width=self.width)

    def batches(self, seed: int):
        random = torch.Generator().manual_seed(seed)
        while True:
            yield self._cut(self.train, torch.randint(len(self.train) - self.context - 1, (self.batch,),
                                                      generator=random))

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    def validation(self) -> list[tuple]:
        starts = torch.linspace(0, len(self.valid) - self.context - 1, 256).long()
        return [self._cut(self.valid, part) for part in starts.split(64)]

    def _cut(self, text: torch.Tensor, starts: torch.Tensor) -> tuple:
        pieces = text[starts[:, None] + torch.arange(self.context + 1)].to(self.device)
        return pieces[:, :-1], pieces[:, 1:]


class LlamaCharacters(Characters):
    network = networks.Llama


class Digits:
    """Images of 8x8 pixels scaled to 16x16: one half to train with, one to validate. Labels are smoothed for both."""

    rate, smoothing = 2e-3, 0.1

    def __init__(self, options: argparse.Namespace) -> None:
        self.batch, self.width = options.batch or 32, options.width or 64
        images, labels = load_digits(return_X_y=True)
        x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
        x, y = F.interpolate(x, size=16, mode="bilinear", align_corners=False), torch.tensor(labels)
        x, y = x.to(options.device), y.to(options.device)
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
        test, train = order[:len(y) // 2], order[len(y) // 2:]
        self.train, self.valid = (x[train], y[train]), (x[test], y[test])

    def model(self) -> torch.nn.Module:
        return networks.ViT(width=self.width)

    def batches(self, seed: int):
        random, (x, y) = torch.Generator().manual_seed(seed), self.train
        while True:
            for part in torch.randperm(len(y), generator=random).split(self.batch):
                yield x[part], y[part]

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x), y, label_smoothing=self.smoothing)

    def validation(self) -> list[tuple]:
        return [self.valid]


NETWORKS = {"gpt": Characters, "llama": LlamaCharacters, "vit": Digits}


def policy_of(name: str, optimizer: torch.optim.Optimizer, options: argparse.Namespace) -> tuck_torch.Policy | None:
    if name == "plain":
        return None
    if name == "raw":
        return tuck_torch.Raw()
    if name == "comet":
        return tuck_torch.Comet(optimizer, refresh=options.refresh, share=options.share)
    return tuck_torch.Codec(name)


def autocast(options: argparse.Namespace):
    if options.precision != "autocast":
        return contextlib.nullcontext()
    return torch.autocast(options.device.split(":")[0], torch.bfloat16)


class Training:
    """A network, its optimizer, and how what it saves is stored."""

    def __init__(self, name: str, seed: int, options: argparse.Namespace) -> None:
        self.options, self.name, self.task = options, name, NETWORKS[options.network](options)
        torch.manual_seed(seed)
        self.model = self.task.model().to(options.device)
        if options.precision == "bfloat16":
            self.model = self.model.to(torch.bfloat16)
        rate = options.rate or self.task.rate
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.01)
        warm = max(1, min(20, options.steps // 4))
        self.pace = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min(1, (step + 1) / warm) * (
            0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1, step / options.steps)))))
        self.policy, self.batches = policy_of(name, self.optimizer, options), self.task.batches(seed)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> float:
        if self.options.precision == "bfloat16" and x.is_floating_point():
            x = x.to(torch.bfloat16)
        self.optimizer.zero_grad()
        saving = tuck_torch.saved_tensors(self.policy) if self.policy else contextlib.nullcontext()
        with autocast(self.options), saving:
            loss = self.task.loss(self.model, x, y)
        loss.backward()
        self.optimizer.step()
        self.pace.step()
        return loss.item()


def train(name: str, seed: int, options: argparse.Namespace) -> dict:
    """One run: losses, bytes and times of every epoch."""
    of = Training(name, seed, options)
    model, task, policy = of.model, of.task, of.policy
    epochs, each = [], max(1, options.steps // options.epochs)
    loss_sum, wall, busy = 0.0, time.perf_counter(), time.process_time()
    for step in range(options.steps):
        loss_sum += of.step(*next(of.batches))
        if (step + 1) % each == 0:
            counts = policy.take_counts() if policy else {}
            raw, stored = (sum(getattr(c, what) for c in counts.values()) for what in ("raw", "stored"))
            now, worked = time.perf_counter(), time.process_time()
            epochs.append({"loss": loss_sum / each, **validated(model, task, options), "raw": raw, "stored": stored,
                           "ratio": raw / stored if stored else None, "seconds": now - wall, "cpu": worked - busy})
            loss_sum, wall, busy = 0.0, time.perf_counter(), time.process_time()
            print(f"{time.strftime('%H:%M:%S')} {options.network} {name} seed {seed} step {step + 1}: "
                  + ", ".join(f"{k} {v:.4f}" for k, v in epochs[-1].items() if isinstance(v, float)), flush=True)
    layers = {label: {"raw": c.raw, "stored": c.stored, "bound": c.bound, "choices": c.choices}
              for label, c in counts.items()} if seed == 1 else {}
    return {"network": options.network, "policy": name, "seed": seed, "epochs": epochs, "layers": layers}


def time_steps(options: argparse.Namespace) -> None:
    """A step of each policy after the other, on whole batches; the first 20 of each do not count."""
    clocks = time.perf_counter, time.thread_time, time.process_time
    trainings = [Training(name, options.seeds[0], options) for name in options.policy]
    taken: dict[str, list] = {of.name: [] for of in trainings}
    for i in range(options.time + 20):
        for of in trainings if i % 2 else trainings[::-1]:
            batch = next(b for b in of.batches if len(b[0]) == of.task.batch)
            begin = [clock() for clock in clocks]
            of.step(*batch)
            taken[of.name].append([clock() - b for clock, b in zip(clocks, begin)])
    base = None
    for of in trainings:
        columns = list(zip(*taken[of.name][20:]))
        figures = [f(c) for f in (statistics.median, statistics.mean) for c in columns]
        base = base or figures
        names = [f"{f} {c}" for f in ("median", "mean") for c in ("wall", "own thread", "all threads")]
        print(f"{options.network} {of.name}: " + ", ".join(
            f"{what} {1e3 * t:.1f} ms ({t / b:.2f})" for what, t, b in zip(names, figures, base)))


def validated(model: torch.nn.Module, task, options: argparse.Namespace) -> dict:
    model.eval()
    dtype = next(model.parameters()).dtype
    losses, right, total = [], 0, 0
    with torch.no_grad(), autocast(options):
        for x, y in task.validation():
            answers = model(x.to(dtype) if x.is_floating_point() else x).float().flatten(0, -2)
            losses.append(F.cross_entropy(answers, y.flatten(), label_smoothing=task.smoothing).item())
            right, total = right + (answers.argmax(-1) == y.flatten()).sum().item(), total + y.numel()
    model.train()
    return {"valid": statistics.mean(losses), "accuracy": right / total}


def differences(runs: list[dict]) -> list[dict]:
    """Of the final validation loss to the plain run of the same seed, in percent of the mean of the plain runs: mean
    and 95 % interval, by Student's t."""
    plain = {r["seed"]: r["epochs"][-1] for r in runs if r["policy"] == "plain"}
    answer = []
    for name in dict.fromkeys(r["policy"] for r in runs if r["policy"] != "plain"):
        pairs = [(r["epochs"][-1], plain[r["seed"]]) for r in runs if r["policy"] == name and r["seed"] in plain]
        if len(pairs) < 2:
            continue
        from scipy.stats import t as student
        base = statistics.mean(p["valid"] for _, p in pairs)
        percent = [100 * (e["valid"] - p["valid"]) / base for e, p in pairs]
        mean = statistics.mean(percent)
        half = student.ppf(0.975, len(percent) - 1) * statistics.stdev(percent) / math.sqrt(len(percent))
        ratios = [e["ratio"] for e, _ in pairs]
        answer.append({"policy": name, "seeds": len(pairs), "plain_loss": base, "percent": percent, "mean": mean,
                       "low": mean - half, "high": mean + half, "lowest_ratio": min(ratios),
                       "highest_ratio": max(ratios),
                       "points": statistics.mean(100 * (e["accuracy"] - p["accuracy"]) for e, p in pairs)})
    return answer


def plot(runs: list[dict], path: str) -> None:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4))
    for color, name in zip(pyplot.get_cmap("tab10").colors, dict.fromkeys(r["policy"] for r in runs)):
        for axes, what in ((left, "valid"), (right, "ratio")):
            of_all = [[e[what] for e in r["epochs"]] for r in runs if r["policy"] == name]
            if of_all[0][0] is None:
                continue
            steps = range(1, len(of_all[0]) + 1)
            axes.fill_between(steps, [min(v) for v in zip(*of_all)], [max(v) for v in zip(*of_all)], color=color,
                              alpha=0.15, linewidth=0)
            axes.plot(steps, [statistics.mean(v) for v in zip(*of_all)], color=color, marker="o", markersize=3,
                      label=name)
    left.set(xlabel="epoch", ylabel="validation loss")
    right.set(xlabel="epoch", ylabel="bytes saved / bytes stored", ylim=(0, None))
    left.legend(frameon=False)
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Mean over seeds; the band is from the least to the most", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="The README beside it says more.")
    parser.add_argument("--network", choices=NETWORKS, default="gpt", help="%(default)s")
    parser.add_argument("--policy", default="plain,comet", help="plain, raw, comet, or codecs' names; %(default)s")
    parser.add_argument("--steps", type=int, default=0, help="800 for vit, 400 for others")
    parser.add_argument("--epochs", type=int, default=4, help="parts of them that are reported; %(default)s")
    parser.add_argument("--batch", type=int, default=0, help="32 for vit, 4 for others")
    parser.add_argument("--rate", type=float, default=0.0, help="of learning: 0.002 for vit, 0.001 for others")
    parser.add_argument("--width", type=int, default=0, help="64 for vit, 256 for others")
    parser.add_argument("--context", type=int, default=64, help="characters that gpt and llama see; %(default)s")
    parser.add_argument("--seeds", default="1", help="so many, or FIRST-LAST; %(default)s")
    parser.add_argument("--share", type=float, default=0.01, help="comet: of the momentum; %(default)g")
    parser.add_argument("--refresh", type=int, default=20, help="comet: iterations between bounds; %(default)s")
    parser.add_argument("--precision", choices=("float32", "autocast", "bfloat16"), default="float32",
                        help="%(default)s; autocast computes products in bfloat16")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda where PyTorch has it")
    parser.add_argument("--time", type=int, default=0, metavar="STEPS",
                        help="train nothing to its end, but time so many steps of the policies, one after the other")
    parser.add_argument("--runs", type=Path, help="a folder of finished runs")
    parser.add_argument("--json", metavar="FILE", type=Path, help="all figures")
    parser.add_argument("--plot", metavar="FILE.png", help="loss and ratio over epochs")
    options = parser.parse_args(words)
    first, _, last = options.seeds.partition("-")
    try:
        options.seeds = list(range(int(first), int(last) + 1) if last else range(1, int(first) + 1))
    except ValueError:
        parser.error(f"--seeds: {options.seeds!r} is neither a number nor FIRST-LAST")
    options.steps = options.steps or (800 if options.network == "vit" else 400)
    if not options.seeds or not 1 <= options.epochs <= options.steps:
        parser.error("--seeds, --epochs: at least 1 is needed, and a step an epoch")
    options.policy = options.policy.split(",")
    try:
        for name in options.policy:
            policy_of(name, torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1), options)
        torch.empty(0, device=options.device)
    except (ValueError, RuntimeError, AssertionError) as wrong:  # the last is PyTorch's, without CUDA
        parser.error(str(wrong))
    return options


def main() -> int:
    options = arguments()
    torch.set_num_threads(1)
    networks.make_deterministic(options.device)
    if options.time:
        time_steps(options)
        return 0
    runs = []
    for seed in options.seeds:
        for name in options.policy:
            done = options.runs / f"{options.network}-{name}-{seed}.json" if options.runs else None
            if done is not None and done.exists():
                runs.append(json.loads(done.read_text()))
                continue
            runs.append(train(name, seed, options))
            if done is not None:
                done.parent.mkdir(parents=True, exist_ok=True)
                unfinished = done.with_suffix(".unfinished")
                unfinished.write_text(json.dumps(runs[-1], indent=1) + "\n")
                unfinished.rename(done)
    paired = differences(runs)
    for d in paired:
        print(f"{options.network}, {d['policy']} against plain, {d['seeds']} seeds: validation loss {d['mean']:+.3f} % "
              f"of {d['plain_loss']:.4f}, 95 % interval [{d['low']:+.3f}, {d['high']:+.3f}] %; last epoch "
              f"{d['lowest_ratio']:.2f} to {d['highest_ratio']:.2f} times smaller")
    if options.json:
        used = {k: v for k, v in vars(options).items() if k not in ("runs", "json", "plot")}
        report = {"schema": "tuck-transformers/1", "torch": torch.__version__, "options": used, "differences": paired,
                  "runs": runs}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if options.plot:
        plot(runs, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
