#!/usr/bin/env python3
"""Records activations of train.py's network as .npy files, as examples/data has them.

    python3 examples/torch/record.py --epochs 0,3,8 out/

What is recorded after so many epochs: the outputs of each ReLU of the convolutions, and of each pooling, for the first
images of the test set; float32, [images, channels, height, width]. Exit codes: 0 done, 1 cannot write, 2 bad usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import train  # the script beside this one: its network and its data
import numpy
import torch
from torch import nn
from torch.nn import functional as F


def activations(model: nn.Sequential, images: torch.Tensor) -> dict[str, torch.Tensor]:
    """By name: relu1, relu2, pool1, ..."""
    recorded: dict[str, torch.Tensor] = {}
    kinds = {nn.ReLU: "relu", nn.MaxPool2d: "pool"}
    with torch.no_grad():
        x = images
        for layer in model:
            x = layer(x)
            kind = kinds.get(type(layer))
            if kind and x.dim() == 4:
                number = 1 + sum(name.startswith(kind) for name in recorded)
                recorded[f"{kind}{number}"] = x
    return recorded


def record(model: nn.Sequential, images: torch.Tensor, epoch: int, folder: Path) -> None:
    for name, values in activations(model, images).items():
        path = folder / f"vgg_digits_epoch{epoch:02}_{name}.npy"
        unfinished = path.with_suffix(".unfinished")
        with open(unfinished, "wb") as file:
            numpy.save(file, values.numpy())
        unfinished.rename(path)
        zeros = 1 - torch.count_nonzero(values).item() / values.numel()
        print(f"{path.name:<32} {' x '.join(map(str, values.shape)):<18} {100 * zeros:5.1f} % zeros")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="made if it is not there; files of the same names are replaced")
    parser.add_argument("--epochs", default="0,3,8", metavar="N,...", help="record after so many; %(default)s")
    parser.add_argument("--images", type=int, default=4, help="%(default)s")
    parser.add_argument("--samples", type=int, default=1797, help="digits to train and test with; all %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="%(default)s")
    options = parser.parse_args()
    try:
        epochs = sorted({int(text) for text in options.epochs.split(",")})
    except ValueError:
        parser.error(f"--epochs: {options.epochs!r} are no whole numbers")
    if epochs[0] < 0:
        parser.error(f"--epochs: {epochs[0]} is less than 0")
    if not 40 <= options.samples <= 1797:
        parser.error(f"--samples: {options.samples} is not from 40 to 1797")
    x, y, test_x, _ = train.digits(options.samples)
    if not 1 <= options.images <= len(test_x):
        parser.error(f"--images: {options.images} is not from 1 to {len(test_x)}, the test set")
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        model = train.network(options.seed)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        order = torch.Generator().manual_seed(options.seed)
        for epoch in range(epochs[-1] + 1):
            if epoch in epochs:
                record(model, test_x[:options.images], epoch, options.folder)
            if epoch == epochs[-1]:
                return 0
            for batch in torch.randperm(len(y), generator=order).split(64):
                optimizer.zero_grad()
                F.cross_entropy(model(x[batch]), y[batch]).backward()
                optimizer.step()
    except OSError as error:
        print(f"record.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
