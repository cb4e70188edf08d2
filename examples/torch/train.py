#!/usr/bin/env python3
"""Trains a small VGG-style network on scikit-learn's handwritten digits, its saved activations stored by tuck.

    python3 examples/torch/train.py --policy raw,zvc,advised,comet
    python3 examples/torch/train.py --policy raw,comet --seeds 10 --json comet.json --plot comet.png

The network: four 3x3 convolutions of 32, 32, 64 and 64 channels with ReLU, two poolings, two linear layers; float32;
digits of 8x8 pixels scaled to 32x32. Needs python3-torch and python3-sklearn, with --plot python3-matplotlib. Exit
codes: 0 done, 1 a lossless policy ended with other weights than raw, or cannot write, 2 bad usage.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path

try:
    import torch
    from sklearn.datasets import load_digits
except ImportError as missing:
    sys.exit(f"train.py: {missing}; on Debian: apt-get install python3-torch python3-sklearn")

sys.path.insert(0, str(Path(__file__).resolve().parent))
import networks
import tuck_torch
from torch import nn
from torch.nn import functional as F

LOSSLESS = "zvc+rle+huffman"


def network(seed: int, width: int = 1) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    channels = 1
    for wider, pooled in ((32 * width, False), (32 * width, True), (64 * width, False), (64 * width, True)):
        layers += [nn.Conv2d(channels, wider, 3, padding=1), nn.ReLU()] + [nn.MaxPool2d(2)] * pooled
        channels = wider
    layers += [nn.Flatten(), nn.Linear(channels * 8 * 8, 128), nn.ReLU(), nn.Linear(128, 10)]
    for layer in layers:
        if hasattr(layer, "weight"):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def digits(samples: int) -> tuple[torch.Tensor, ...]:
    """Training images and labels, test images and labels: three quarters and one, of the first `samples`."""
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images[:samples], dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    x = F.interpolate(x, size=32, mode="bilinear", align_corners=False)
    y = torch.tensor(labels[:samples])
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    test, train = order[:len(y) // 4], order[len(y) // 4:]
    return x[train], y[train], x[test], y[test]


def policy_of(name: str, optimizer: torch.optim.Optimizer,
              options: argparse.Namespace) -> tuck_torch.Policy | None:
    """None for those that are not tuck's."""
    if name in ("plain", "save_on_cpu"):
        return None
    if name == "raw":
        return tuck_torch.Raw()
    if name == "advised":
        return tuck_torch.Advised(options.link)
    if name == "comet":
        return tuck_torch.Comet(optimizer, refresh=options.refresh, share=options.share,
                                estimate=options.estimate)
    return tuck_torch.Codec(name, options.bound if name.startswith("quantize") else None)


def saving(name: str, policy: tuck_torch.Policy | None):
    """The context of a forward pass."""
    if name == "save_on_cpu":
        return torch.autograd.graph.save_on_cpu(pin_memory=torch.cuda.is_available())
    return contextlib.nullcontext() if policy is None else tuck_torch.saved_tensors(policy)


def accuracy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    with torch.no_grad():
        right = sum((model(a).argmax(1) == b).sum().item() for a, b in zip(x.split(256), y.split(256)))
    return right / len(y)


def layer_row(counts: tuck_torch.Counts) -> dict:
    ratio = counts.raw / counts.stored if counts.stored else None
    return {"raw": counts.raw, "stored": counts.stored, "ratio": ratio, "bound": counts.bound,
            "codecs": counts.choices, "encode_seconds": counts.encode_seconds,
            "decode_seconds": counts.decode_seconds,
            "indices_raw": counts.integer_raw, "indices_stored": counts.integer_stored}


def train(name: str, seed: int, options: argparse.Namespace, data: tuple[torch.Tensor, ...]) -> dict:
    """One run: accuracy, bytes and times of every epoch, and the weights at the end."""
    x, y, test_x, test_y = (t.to(options.device) for t in data)
    model = network(seed, options.width).to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = -(-len(y) // options.batch)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * batches)
    policy = policy_of(name, optimizer, options)
    order = torch.Generator().manual_seed(seed)
    epochs = []
    for epoch in range(options.epochs):
        if options.device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
        begin = time.perf_counter()
        for batch in torch.randperm(len(y), generator=order).split(options.batch):
            optimizer.zero_grad()
            with saving(name, policy):
                loss = F.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            slower.step()
        tuck_torch.synchronize()
        loss.item()  # waits for the device
        seconds = time.perf_counter() - begin
        layers = {label: layer_row(c) for label, c in (policy.take_counts() if policy else {}).items()}
        total = {key: sum(row[key] for row in layers.values())
                 for key in ("raw", "stored", "encode_seconds", "decode_seconds", "indices_raw", "indices_stored")}
        if options.device.startswith("cuda"):
            # Active, not allocated: memory that the swap stream still reads counts.
            total["peak_device_bytes"] = torch.cuda.memory_stats()["active_bytes.all.peak"]
        epochs.append({"accuracy": accuracy(model, test_x, test_y), "loss": loss.item(), "seconds": seconds,
                       "ratio": total["raw"] / max(total["stored"], 1), **total, "layers": layers})
        if sys.stderr.isatty():
            print(f"\r{name}, seed {seed}: epoch {epoch + 1} of {options.epochs}", end="", file=sys.stderr,
                  flush=True)
    if sys.stderr.isatty():
        print("\r" + " " * 70, end="\r", file=sys.stderr)
    return {"policy": name, "seed": seed, "epochs": epochs,
            "weights": [p.detach().cpu().clone() for p in model.parameters()]}


def print_run(run: dict) -> None:
    print(f"\n{run['policy']}, seed {run['seed']}")
    on_device = "peak_device_bytes" in run["epochs"][-1]  # where nobody waits for a codec to time it
    print(f"{'epoch':>6} {'accuracy':>9} {'saved MiB':>10} {'stored MiB':>11} {'ratio':>6} {'indices':>8} "
          f"{'seconds':>8} {'encode':>7} {'decode':>7}")
    for i, e in enumerate(run["epochs"], 1):
        indices = e["indices_raw"] / e["indices_stored"] if e["indices_stored"] else math.nan
        print(f"{i:6} {100 * e['accuracy']:7.2f} % {e['raw'] / 2**20:10.1f} {e['stored'] / 2**20:11.1f} "
              f"{e['ratio']:6.2f} {indices:8.2f} {e['seconds']:8.1f} " + ("      -       -" if on_device else
              f"{e['encode_seconds']:7.1f} {e['decode_seconds']:7.1f}"))
    if on_device:
        print(f"  at most {run['epochs'][-1]['peak_device_bytes'] / 2**20:.1f} MiB on the device")
    first, last = run["epochs"][0]["layers"], run["epochs"][-1]["layers"]
    if not last:
        return
    print(f"  {'saved in':<12} {'MiB':>7} {'ratio: first':>12} {'last epoch':>11} {'bound':>9}  codecs in it")
    for label, row in last.items():
        if row["raw"] == 0:
            continue
        before = first[label]["ratio"]
        bound = f"{row['bound']:9.1e}" if row["bound"] else " " * 9
        used = ", ".join(f"{name} {n}" for name, n in row["codecs"].items())
        print(f"  {label:<12} {row['raw'] / 2**20:7.1f} {before:12.2f} {row['ratio']:11.2f} {bound}  {used}")


def differences(runs: list[dict]) -> list[dict]:
    """Of final accuracy to the raw run of the same seed: mean and 95 % interval, by Student's t."""
    raw = {r["seed"]: r["epochs"][-1]["accuracy"] for r in runs if r["policy"] == "raw"}
    answer = []
    for name in dict.fromkeys(r["policy"] for r in runs if r["policy"] != "raw"):
        points = [100 * (r["epochs"][-1]["accuracy"] - raw[r["seed"]]) for r in runs
                  if r["policy"] == name and r["seed"] in raw]
        if len(points) < 2:
            continue
        from scipy.stats import t as student
        half = student.ppf(0.975, len(points) - 1) * statistics.stdev(points) / math.sqrt(len(points))
        answer.append({"policy": name, "seeds": len(points), "points": points, "mean": statistics.mean(points),
                       "low": statistics.mean(points) - half, "high": statistics.mean(points) + half})
    return answer


def same_weights(run: dict, other: dict) -> bool:
    return all(torch.equal(a, b) for a, b in zip(run["weights"], other["weights"]))


def differing_weights(runs: list[dict]) -> list[str]:
    """Lossless runs whose weights are not bit for bit those of the raw run."""
    raw = {r["seed"]: r for r in runs if r["policy"] == "raw"}
    return [f"{r['policy']}, seed {r['seed']}" for r in runs
            if r["seed"] in raw and r["policy"] != "comet" and not r["policy"].startswith("quantize")
            and not same_weights(raw[r["seed"]], r)]


def repeats(runs: list[dict], options: argparse.Namespace, data: tuple[torch.Tensor, ...]) -> bool:
    """Whether a second raw run of a seed ends with the weights of the first: else those of others mean nothing."""
    first = next(r for r in runs if r["policy"] == "raw")
    return same_weights(first, train("raw", first["seed"], options, data))


def plot(runs: list[dict], path: str) -> None:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4))
    names = list(dict.fromkeys(r["policy"] for r in runs))
    for color, name in zip(pyplot.get_cmap("tab10").colors, names):
        for axes, value in ((left, lambda e: 100 * e["accuracy"]), (right, lambda e: e["ratio"])):
            of_all = [[value(e) for e in r["epochs"]] for r in runs if r["policy"] == name]
            steps = range(1, len(of_all[0]) + 1)
            if len(of_all) > 1:
                axes.fill_between(steps, [min(v) for v in zip(*of_all)], [max(v) for v in zip(*of_all)], color=color,
                                  alpha=0.15, linewidth=0)
            axes.plot(steps, [statistics.mean(v) for v in zip(*of_all)], color=color, marker="o", markersize=3,
                      label=name)
    left.set(xlabel="epoch", ylabel="test accuracy, %")
    right.set(xlabel="epoch", ylabel="bytes saved / bytes stored, activations", ylim=(0, None))
    left.legend(frameon=False)
    figure.suptitle("Mean over seeds; the band is from the least to the most" if len(runs) > len(names) else "",
                    fontsize=9)
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="The README beside it says more.")
    parser.add_argument("--policy", default=f"raw,zvc,{LOSSLESS},advised,comet", metavar="NAME,...",
                        help="plain and save_on_cpu (PyTorch's own), raw, advised, comet, or a codec; %(default)s")
    parser.add_argument("--epochs", type=int, default=8, help="%(default)s")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each policy; %(default)s")
    parser.add_argument("--batch", type=int, default=64, help="%(default)s")
    parser.add_argument("--samples", type=int, default=1797, help="digits, a quarter for tests; all %(default)s")
    parser.add_argument("--width", type=int, default=1, help="so many times the channels; %(default)s")
    parser.add_argument("--link", type=float, default=1e9, metavar="BYTES/S",
                        help="advised: the rate at which what is stored would travel; %(default)g")
    parser.add_argument("--bound", type=float, default=1e-3, help="absolute, of quantize as a policy; %(default)g")
    parser.add_argument("--refresh", type=int, default=20, help="comet: iterations between bounds; %(default)s")
    parser.add_argument("--share", type=float, default=0.01,
                        help="comet: of the momentum that a gradient's error may have; %(default)g")
    parser.add_argument("--estimate", choices=("exact", "paper"), default="exact",
                        help="comet: how that error is estimated; %(default)s")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda where PyTorch has it")
    parser.add_argument("--json", metavar="FILE", help="all figures")
    parser.add_argument("--plot", metavar="FILE.png", help="accuracy and ratio over epochs")
    options = parser.parse_args(words)
    for name in ("epochs", "seeds", "batch", "refresh", "width"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: {getattr(options, name)} is less than 1")
    if not 40 <= options.samples <= 1797:
        parser.error(f"--samples: {options.samples} is not from 40 to 1797")
    for name in ("json", "plot"):  # a place that cannot be written to is an error now
        path = getattr(options, name)
        if path and (Path(path).is_dir() or not os.access(Path(path).parent, os.W_OK)):
            parser.error(f"--{name}: {path} is a folder, or in none that can be written to")
    if options.plot and Path(options.plot).suffix not in (".png", ".svg", ".pdf"):
        parser.error(f"--plot: {options.plot} does not end in .png, .svg or .pdf")
    options.policy = options.policy.split(",")
    try:
        probe = torch.optim.SGD(network(0).parameters(), lr=1)
        for name in options.policy:
            policy_of(name, probe, options)
        torch.empty(0, device=options.device)
    except (ValueError, RuntimeError, AssertionError) as wrong:  # the last is PyTorch's, without CUDA
        parser.error(str(wrong))
    return options


def main() -> int:
    options = arguments()
    networks.make_deterministic(options.device)
    data = digits(options.samples)
    runs = []
    for seed in range(1, options.seeds + 1):
        for name in options.policy:
            runs.append(train(name, seed, options, data))
            if seed == 1:
                print_run(runs[-1])
            else:
                last = runs[-1]["epochs"][-1]
                print(f"{name}, seed {seed}: accuracy {100 * last['accuracy']:.2f} %, ratio {last['ratio']:.2f}",
                      flush=True)
    others, paired = differing_weights(runs), differences(runs)
    for d in paired:
        print(f"\n{d['policy']} against raw, {d['seeds']} seeds: accuracy {d['mean']:+.2f} points, "
              f"95 % interval [{d['low']:+.2f}, {d['high']:+.2f}]")
    if "raw" in options.policy:
        print("\nlossless policies: " + ("other weights than raw: " + "; ".join(others) if others else
                                         "bit for bit the weights of raw"))
        if others and not repeats(runs, options, data):
            print("That shows nothing: a second raw run ends with other weights than the first, too. This device and "
                  "version of PyTorch do not repeat a training.")
    try:
        save(options, runs, paired, others)
    except OSError as error:
        sys.exit(f"train.py: {error.filename}: {error.strerror}")
    return 1 if others else 0


def save(options: argparse.Namespace, runs: list[dict], paired: list[dict], others: list[str]) -> None:
    if options.json:
        for r in runs:
            del r["weights"]
            for e in r["epochs"] if r["seed"] != 1 else ():  # layers once: they are most of the file
                del e["layers"]
        Path(options.json).write_text(json.dumps(
            {"schema": "tuck-training/1", "torch": torch.__version__, "options": vars(options), "differences": paired,
             "other_weights": others, "runs": runs}, indent=1) + "\n")
    if options.plot:
        plot(runs, options.plot)


if __name__ == "__main__":
    sys.exit(main())
