#!/usr/bin/env python3
"""Tests of bench/papers/networks and bench/support/gpus.json: the tables are what the scripts make, and what the
architectures' authors published."""

import importlib.util
import json
import math
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ among the sources
ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "bench" / "papers" / "networks"
KINDS = {"convolution", "activation", "pooling", "normalization", "fully_connected", "softmax", "other"}
BRANCHING = {"squeezenet", "googlenet", "resnet50"}

# Multiply-adds and weights; the sources are in bench/papers/README.md.
PUBLISHED = {
    "alexnet": (724e6, 61e6), "overfeat": (2810e6, 145e6), "nin": (None, 7.6e6), "vgg16": (15.5e9, 138.36e6),
    "vgg19": (19.6e9, 143.67e6), "squeezenet": (837e6, 1.25e6), "googlenet": (1.58e9, 6.99e6),
    "mobilenet": (569e6, 4.23e6), "resnet50": (4.09e9, 25557032), "plain20": (41e6, 0.27e6),
}  # fmt: skip

# Sides of what rows make, by the papers' tables and figures.
SIDES = {
    "alexnet": {"conv1": 55, "pool1": 27, "conv2": 27, "pool2": 13, "conv5": 13, "pool5": 6},
    "overfeat": {"conv1": 56, "pool1": 28, "conv2": 24, "pool2": 12, "conv5": 12, "pool5": 6},
    "nin": {"conv1": 54, "pool1": 27, "pool2": 13, "pool3": 6, "cccp8": 6},
    "vgg16": {"conv1_2": 224, "pool1": 112, "pool2": 56, "pool3": 28, "pool4": 14, "pool5": 7},
    "vgg19": {"conv3_4": 56, "conv5_4": 14, "pool5": 7},
    "squeezenet": {"conv1": 111, "pool1": 55, "pool4": 27, "pool8": 13, "conv10": 13},
    "googlenet": {"conv1": 112, "pool1": 56, "pool2": 28, "3b/concat": 28, "pool3": 14, "pool4": 7, "5b/concat": 7},
    "mobilenet": {"conv1": 112, "conv3/depthwise": 56, "conv5/pointwise": 28, "conv14/pointwise": 7},
    "resnet50": {"conv1": 112, "pool1": 56, "conv3_1/1x1a": 56, "conv3_1/3x3": 28, "conv4_6/add": 14, "conv5_3/add": 7},
    "plain20": {"conv1": 32, "conv2_6": 32, "conv3_6": 16, "conv4_6": 8},
}  # fmt: skip


def load(script):
    spec = importlib.util.spec_from_file_location(script, FOLDER / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


derive, sparsity = load("derive"), load("sparsity")
TABLES = {name: json.loads((FOLDER / f"{name}.json").read_text()) for name in PUBLISHED}
NETWORKS = [(name, table["layers"], {layer["name"]: layer for layer in table["layers"]})
            for name, table in TABLES.items()]


class Networks(unittest.TestCase):
    def test_the_files_are_what_the_script_makes(self):
        self.assertEqual(set(derive.networks()), set(PUBLISHED))
        for name, network in derive.networks().items():
            self.assertEqual((FOLDER / f"{name}.json").read_text(), derive.text(network), name)

    def test_totals_are_the_published_ones(self):
        for name, layers, _ in NETWORKS:
            with self.subTest(name):
                for key, published in zip(("macs", "weights"), PUBLISHED[name]):
                    total = sum(layer[key] for layer in layers)
                    self.assertEqual(total, TABLES[name]["totals"][key])
                    if published:
                        self.assertLess(abs(total / published - 1), 0.02, key)

    def test_sides_are_the_published_ones(self):
        for name, _, by_name in NETWORKS:
            with self.subTest(name):
                for row, side in SIDES[name].items():
                    self.assertEqual(by_name[row]["output"][1:], [side, side], row)

    def test_each_row_of_a_chain_reads_what_the_one_before_made(self):
        for name, layers, _ in NETWORKS:
            with self.subTest(name):
                if name in BRANCHING:
                    continue
                for before, layer in zip(layers, layers[1:]):
                    flat = layer["kind"] == "fully_connected"
                    self.assertEqual(math.prod(before["output"]), math.prod(layer["input"]), layer["name"])
                    self.assertTrue(flat or before["output"] == layer["input"], layer["name"])
                    self.assertEqual(layer["input_values"], 0 if layer["in_place"] else before["output_values"])
                    self.assertFalse(layer["shared"])
                    self.assertEqual(layer["from"], [before["name"]])

    def test_rows_make_sense(self):
        for name, layers, by_name in NETWORKS:
            with self.subTest(name):
                self.assertEqual(len(by_name), len(layers), "names differ")
                for at, layer in enumerate(layers):
                    self.assertIn(layer["kind"], KINDS)
                    self.assertIn(layer["input_is"], {"image", "dense", "relu", "pooled_relu"})
                    self.assertEqual(layer["output_values"], math.prod(layer["output"]))
                    self.assertIn(layer["input_values"], (0, math.prod(layer["input"])))
                    self.assertTrue(0 <= layer["depth"] <= 1)
                    reads = [by_name[maker] for maker in layer["from"]]
                    self.assertTrue(all(layers.index(maker) < at for maker in reads))
                    self.assertEqual(bool(reads), layer["input_is"] != "image")
                    if layer["name"].endswith("concat"):
                        self.assertEqual(sum(maker["output_values"] for maker in reads), layer["output_values"])
                    for maker in reads[:1]:
                        self.assertEqual(math.prod(maker["output"]), math.prod(layer["input"]))
                    if layer["in_place"]:
                        self.assertEqual((layer["input_values"], layer["shared"]), (0, False))
                    self.assertEqual(layer["shared"], "kept_by" in layer)
                    if layer["shared"]:
                        keeper = by_name[layer["kept_by"]]
                        self.assertGreater(layers.index(keeper), at)
                        self.assertEqual((keeper["input_values"], keeper["input"], keeper["input_is"]),
                                         (math.prod(layer["input"]), layer["input"], layer["input_is"]))
                relus = [layer["depth"] for layer in layers if layer["input_is"] == "relu"]
                self.assertEqual((min(relus), max(relus)), (0, 1))

    def test_what_is_kept(self):
        def kept(name, **where):
            return sum(layer["input_values"] for layer in TABLES[name]["layers"]
                       if all(layer[key] == value for key, value in where.items()))

        # VGG16 by hand: the image, what the convolutions and the pooling of each block make, what the fc layers make.
        blocks = [(64, 224, 2), (128, 112, 2), (256, 56, 3), (512, 28, 3), (512, 14, 3)]
        of_blocks = sum(channels * (side**2 * convs + (side // 2) ** 2) for channels, side, convs in blocks)
        self.assertEqual(kept("vgg16"), 3 * 224**2 + of_blocks + 4096 + 4096 + 1000)
        # ResNet-50's convolutions make 11.11 million values, and each is followed by batch normalization.
        self.assertEqual(kept("resnet50", kind="normalization"), 11113984)
        # An identity block's input is kept once, at the addition; that of a block with a convolution beside, there.
        rows = {layer["name"]: layer for layer in TABLES["resnet50"]["layers"]}
        self.assertEqual([rows[f"conv2_2/{row}"]["input_values"] for row in ("1x1a", "add")], [0, 256 * 56 * 56])
        self.assertEqual([rows[f"conv3_1/{row}"]["input_values"] for row in ("1x1a", "shortcut", "add")],
                         [0, 256 * 56 * 56, 0])
        # A module of GoogLeNet keeps its input at the pooling, its last reader.
        rows = {layer["name"]: layer for layer in TABLES["googlenet"]["layers"]}
        self.assertEqual([rows[f"3b/{row}"]["input_values"] for row in ("1x1", "3x3_reduce", "5x5_reduce", "pool")],
                         [0, 0, 0, 256 * 28 * 28])


class Sparsity(unittest.TestCase):
    def test_the_cuts_tell_about_the_same_as_the_recordings(self):
        committed = json.loads((FOLDER / "sparsity.json").read_text())
        of_cuts = sparsity.table(ROOT / "examples" / "data")
        for key in ("schema", "provenance", "layers", "depths", "epochs"):
            self.assertEqual(committed[key], of_cuts[key])
        for row, of_cut in zip(committed["relu"], of_cuts["relu"], strict=True):
            for zeros, of_cut_zeros in zip(row, of_cut, strict=True):
                self.assertAlmostEqual(zeros, of_cut_zeros, delta=0.025)
        self.assertAlmostEqual(committed["pooled"]["ratio"], of_cuts["pooled"]["ratio"], delta=0.01)


class Gpus(unittest.TestCase):
    def test_each_figure_has_a_source(self):
        gpus = json.loads((ROOT / "bench" / "support" / "gpus.json").read_text())
        self.assertTrue(gpus["assumed"]["why"])
        for entry in gpus["gpus"] + gpus["links"]:
            self.assertTrue(entry["source"], entry["name"])
        for gpu in gpus["gpus"]:
            with self.subTest(gpu["name"]):
                # Cores of a processor, which multiply and add in each clock: near what the sheet has at its own clock.
                cores = 64 if gpu["name"].startswith(("V100", "RTX", "A100")) else 128
                flops = 2 * cores * gpu["processors"] * gpu["clock_hz"]
                self.assertAlmostEqual(flops / gpu["fp32_flops"], 1, delta=0.13)
                self.assertTrue(64 << 10 <= gpu["shared_bytes"] <= 228 << 10)
        self.assertLessEqual({"V100-SXM2", "A100-SXM4-80GB", "H200", "B200"}, {gpu["name"] for gpu in gpus["gpus"]})
        self.assertTrue(0.8 <= gpus["assumed"]["copy_efficiency"] <= 0.95)
        for link in gpus["links"]:
            self.assertLess(max(link["d2h"], link["h2d"]), link["peak"], link["name"])


if __name__ == "__main__":
    unittest.main()
