#!/usr/bin/env python3
"""Derives sparsity.json from recorded activations: sparsity.py [DIRECTORY], by default the cuts of examples/data.

The share of zeros by relative depth and epoch, and how it changes by pooling. Standard library only.
"""

import json
import math
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ among the sources
FOLDER = Path(__file__).parent
CUTS = FOLDER.parents[2] / "examples" / "data"
sys.path.insert(0, str(CUTS))
from cut import read

POOL, BEFORE = "pool1", "relu2"  # the pooling takes the greatest of 2 x 2 values of that ReLU


def zeros(path, images):
    shape, data = read(path)
    values = memoryview(data).cast("f")[: images * math.prod(shape[1:])]
    return round(sum(value == 0 for value in values) / len(values), 4)


def images(path):
    return read(path)[0][0]


def table(directory):
    paths = {}
    for path in directory.glob("*.npy"):
        epoch, layer = re.fullmatch(r".*_epoch(\d+)_(\w+)", path.stem).groups()
        paths[int(epoch), layer] = path
    epochs = sorted({epoch for epoch, _ in paths})
    layers = sorted({layer for _, layer in paths if layer.startswith("relu")})
    (pooled_epoch,) = (epoch for epoch, layer in paths if layer == POOL)
    pooled, before = paths[pooled_epoch, POOL], paths[pooled_epoch, BEFORE]
    common = min(images(pooled), images(before))
    after_pooling, before_pooling = zeros(pooled, common), zeros(before, common)
    depths = [round(i / (len(layers) - 1), 4) for i in range(len(layers))]
    return {
        "schema": "tuck-sparsity/1",
        "provenance": "outputs of a VGG-style network on scikit-learn's handwritten digits, recorded during a training "
                      "run; examples/data/README.md has more",
        "images": min(map(images, paths.values())),
        "layers": layers, "depths": depths, "epochs": epochs,
        "relu": [[zeros(paths[epoch, layer], images(paths[epoch, layer])) for layer in layers] for epoch in epochs],
        "pooled": {"epoch": pooled_epoch, "depth": depths[layers.index(BEFORE)], "window": 2, "zeros": after_pooling,
                   "before": before_pooling, "ratio": round(after_pooling / before_pooling, 4)},
    }  # fmt: skip


def main():
    if len(sys.argv) > 2:
        raise SystemExit(__doc__.splitlines()[0])
    made = table(Path(sys.argv[1]) if len(sys.argv) == 2 else CUTS)
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in made.items()]
    text = "{" + ",\n".join(lines) + "}\n"
    (FOLDER / "sparsity.json").write_text(text.replace("], [", "],\n ["))


if __name__ == "__main__":
    main()
