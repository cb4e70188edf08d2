#!/usr/bin/env python3
"""Tests of bench/ratio: ratios_test.py BENCH_RATIO. How files are grouped, what is left out, and what the tables say."""

import csv
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True  # no __pycache__ among the sources
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench" / "ratio"))
import ratios

try:
    import numpy
except ImportError:
    numpy = None
BENCH = sys.argv.pop() if len(sys.argv) > 1 else ratios.default_bench()
SCRIPT = ROOT / "bench" / "ratio" / "ratios.py"


def write_npy(path, descr, values, form, row=None):
    shape = f"({len(values)},)" if row is None else f"({len(values) // row}, {row})"
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     struct.pack(f"<{len(values)}{form}", *values))


def bf16(value):
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.folder = self.scratch / "tensors"
        self.folder.mkdir()

    def fill(self):
        random.seed(1)
        normal = [random.gauss(0, 1) for _ in range(20000)]
        weights = [bf16(value) for value in normal]
        write_npy(self.folder / "w_one_bf16.npy", "<u2", weights, "H")
        write_npy(self.folder / "w_two_bf16.npy", "<u2", weights[:9000], "H")
        write_npy(self.folder / "kv_k_e4m3.npy", "|u1", [byte & 0xbf for byte in random.randbytes(5000)], "B")
        write_npy(self.folder / "a_relu_f32.npy", "<f4", [max(value, 0.) for value in normal], "f")
        write_npy(self.folder / "a_gelu.npy", "<f4", normal, "f")
        write_npy(self.folder / "mine.npy", "<f8", [1., -0.] * 2000, "d")
        write_npy(self.folder / "d_fine_step008_bf16.npy", "<u2", weights, "H")
        changed = [word ^ (i % 50 == 0) for i, word in enumerate(weights)]
        write_npy(self.folder / "d_fine_step009_bf16.npy", "<u2", changed, "H")
        write_npy(self.folder / "d_fine_step010_bf16.npy", "<u2", changed[::-1], "H")

    def run_bench(self, *folder):
        return subprocess.run([BENCH, *(folder or [str(self.folder)])], capture_output=True, text=True)

    def run_script(self, *arguments):
        """With no package from PyPI."""
        shadows = self.scratch / "shadows"
        shadows.mkdir(exist_ok=True)
        for _, package in ratios.PACKAGES.values():
            (shadows / f"{package}.py").write_text(f"raise ImportError('no {package} here')\n")
        return subprocess.run([sys.executable, SCRIPT, "--bench", BENCH, *map(str, arguments)], capture_output=True,
                              text=True, env=os.environ | {"PYTHONPATH": str(shadows)})


class Bench(Folder):
    def test_names_types_and_zeros_make_groups(self):
        self.fill()
        done = self.run_bench()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = list(csv.DictReader(done.stdout.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
        self.assertEqual({(r["group"], r["tensor"], r["base"]) for r in rows}, {
            ("weights bf16", "w_one_bf16", ""), ("weights bf16", "w_two_bf16", ""),
            ("keys and values f8e4m3", "kv_k_e4m3", ""), ("activations f32, sparse", "a_relu_f32", ""),
            ("activations f32", "a_gelu", ""), ("tensors f64, sparse", "mine", ""),
            ("delta of d_fine_bf16, 1 step", "d_fine_step009_bf16", "d_fine_step008_bf16"),
            ("delta of d_fine_bf16, 2 steps", "d_fine_step010_bf16", "d_fine_step008_bf16")})
        of = {(r["tensor"], r["coder"], float(r["bound"])): r for r in rows}
        self.assertEqual(len(of), len(rows))
        weights = of["w_one_bf16", "huffman", 0]
        self.assertEqual((weights["raw_bytes"], weights["type"], weights["library"][:5]), ("40000", "bf16", "tuck "))
        self.assertLess(int(weights["encoded_bytes"]), 40000 / 1.4)
        self.assertAlmostEqual(float(of["mine", "zvc", 0]["zeros"]), .5)
        delta = of["d_fine_step009_bf16", "zvc+huffman", 0]
        self.assertAlmostEqual(float(delta["zeros"]), .98)
        self.assertLess(int(delta["encoded_bytes"]), 40000 / 20)
        sizes = [int(of["a_gelu", "quantize", bound]["encoded_bytes"]) for bound in (1e-2, 1e-3, 1e-4)]
        self.assertEqual(sizes, sorted(sizes))
        self.assertNotIn(("w_one_bf16", "quantize", 1e-3), of)  # bounds are for f32
        self.assertNotIn(("mine", "codebooks", 0), of)  # which does not take f64

    def test_rows_have_the_length_of_the_last_dimension(self):
        values = random.Random(1).sample(range(1 << 16), 120) * 100
        for name, row in (("g_flat_bf16", None), ("g_rows_bf16", 120)):
            write_npy(self.folder / f"{name}.npy", "<u2", values, "H", row)
        lines = [line.split("\t") for line in self.run_bench().stdout.splitlines()]
        size = {line[1]: int(line[-1]) for line in lines if line[6] == "rows+zvc+huffman"}
        self.assertLess(size["g_rows_bf16"], size["g_flat_bf16"] / 5)

    def test_unfit_files_are_named_and_left_out(self):
        self.fill()
        (self.folder / "bad.npy").write_text("garbage")
        write_npy(self.folder / "ids.npy", "<u4", range(100), "I")
        write_npy(self.folder / "none_f32.npy", "<f4", [], "f")
        write_npy(self.folder / "lone_step1_bf16.npy", "<u2", range(100), "H")
        write_npy(self.folder / "d_fine_step011_bf16.npy", "<u2", range(100), "H")
        done = self.run_bench()
        self.assertEqual(done.returncode, 0)
        for file, reason in (("bad", "not a .npy file"), ("ids", "its values are integers"), ("none_f32", "no values"),
                             ("lone_step1_bf16", "there is no other step of its series"),
                             ("d_fine_step011_bf16", "another type or shape than the first step, d_fine_step008_bf16")):
            self.assertRegex(done.stderr, f"(?m)^bench_ratio: left out: .*{file}.npy: .*{reason}")
            self.assertNotIn(file, done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 5)

    def test_values_without_a_range_have_no_bound(self):
        write_npy(self.folder / "same.npy", "<f4", [2.] * 100, "f")
        write_npy(self.folder / "nan.npy", "<f4", [1., float("nan")] * 50, "f")
        done = self.run_bench()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("quantize", done.stdout)

    def test_bad_calls_and_folders(self):
        self.assertEqual(self.run_bench("--help").returncode, 2)
        for folder, reason in ((self.scratch / "nowhere", "No such file or directory"),
                               (self.folder, "there are no .npy files")):
            done = self.run_bench(str(folder))
            self.assertEqual((done.returncode, done.stderr), (1, f"bench_ratio: {folder}: {reason}\n"))
        (self.folder / "bad.npy").write_text("garbage")
        done = self.run_bench()
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.endswith(f"{self.folder}: there are no tensors to measure\n"), done.stderr)


class Script(Folder):
    def test_prints_tables_and_names_absent_peers(self):
        self.fill()
        done = self.run_script(f"{self.folder}=My tensors")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("## My tensors\n"), done.stdout)
        for name, (_, package) in ratios.PACKAGES.items():
            self.assertRegex(done.stdout, f"(?m)^Left out: {name}: .*; pip install {package}\\.$")
        for coder in ratios.BUILT_IN:
            self.assertRegex(done.stdout, f"(?m)^Left out: {coder}: bench_ratio was built without it\\.$|\\| {coder} \\|")
        for text in ("| weights bf16 (2) |", "| **best of tuck** |", "| tuck / peer |", "| w_two_bf16 | 0.0 % |",
                     "| delta of d_fine_bf16, 1 step (1) |", "| d_fine_step009_bf16, base d_fine_step008_bf16 | 98.0 % |",
                     "| bound 0.01 / 0.001 / 0.0001 | quantize |", "| **activations f32 (1)** |"):
            self.assertIn(text, done.stdout)

    def test_renews_a_page(self):
        write_npy(self.folder / "w_x_bf16.npy", "<u2", range(1000), "H")
        page = self.scratch / "page.md"
        page.write_text(f"By hand.\n{ratios.MARK}\nold\n")
        self.assertEqual(self.run_script("--page", page, self.folder).returncode, 0)
        self.assertTrue(page.read_text().startswith(f"By hand.\n{ratios.MARK}\n\n## tensors\n"))
        self.assertNotIn("old", page.read_text())
        page.write_text("By hand.\n")
        done = self.run_script("--page", page, self.folder)
        self.assertEqual((done.returncode, page.read_text()), (1, "By hand.\n"))
        self.assertIn("there is no line", done.stderr)

    def test_errors(self):
        done = self.run_script(self.scratch / "nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("No such file or directory", done.stderr)
        done = self.run_script("--bench", self.scratch / "nothing", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--target bench_ratio", done.stderr)


def row(tensor, coder, encoded, library="tuck 1", group="weights bf16", bound="0", base=""):
    return {"group": group, "tensor": tensor, "base": base, "type": "bf16", "zeros": "0", "raw_bytes": "1000",
            "coder": coder, "library": library, "bound": bound, "encoded_bytes": encoded}


class Tables(unittest.TestCase):
    def test_means_are_geometric_and_need_every_tensor(self):
        page = ratios.page("t", [row("a", "huffman", 500), row("b", "huffman", 125), row("a", "zvc", 250),
                                 row("a", "zstd-1", 500, "zstd 1"), row("b", "zstd-1", 250, "zstd 1")], [])
        for line in ("| huffman | 4.000 |", "| zvc | - |", "| **best of tuck** | 5.657 |", "| zstd-1 | 2.828 |",
                     "| tuck / peer | 2.000 |", "| a | 0.0 % | 4.000 zvc | 2.000 zstd-1 | 2.000 |"):
            self.assertIn(line, page)

    def test_without_peers(self):
        page = ratios.page("t", [row("a", "huffman", 500)], ["zstd-1: why"])
        self.assertIn("| a | 0.0 % | 2.000 huffman | - - | - |", page)
        self.assertIn("Left out: zstd-1: why.", page)


class Readme(unittest.TestCase):
    def test_ratios_are_those_of_the_page(self):
        page = (ROOT / "docs" / "ratios.md").read_text().partition(ratios.MARK)[2].partition("\n## ")[2].partition("\n## ")[0]
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
        groups = next(line for line in lines if line[0] == "")
        of = {line[0]: dict(zip(groups, line)) for line in lines if len(line) == len(groups)}
        bounds = next(line for line in lines if line[0].startswith("bound "))
        lossy = dict(zip(bounds, next(line for line in lines if line[0] == "**activations f32, sparse (2)**")))
        rows = re.findall(r"(?m)^\| `(\w+)` \| ([\d.]+) \| ([\d.]+|-) \|", (ROOT / "README.md").read_text())
        self.assertEqual(len(rows), 10)
        for codec, sparse, weights in rows:
            name = codec.replace("_", "+").replace("delta+huffman", "delta+zvc+huffman")
            there = of.get(name, {"activations f32, sparse (2)": lossy.get(name, "").split(" / ")[-2:][0]})
            self.assertAlmostEqual(float(sparse), float(there["activations f32, sparse (2)"]), delta=.0056, msg=codec)
            if weights != "-":
                self.assertAlmostEqual(float(weights), float(there["weights bf16 (2)"]), delta=.0056, msg=codec)


class Fake:
    """Stores values as they are, or with a wrong byte."""

    wrong = False

    def coded(self, values, _):
        yield values.tobytes()[:100], bytes(len(values.tobytes())) if self.wrong else values.tobytes()


@unittest.skipUnless(numpy, "there is no NumPy")
class Packages(Folder):
    def of_fake(self, rows):
        left_out = []
        with mock.patch.object(ratios, "PACKAGES", {"Fake": (Fake, "fake")}), \
             mock.patch.object(ratios.importlib.metadata, "version", lambda _: "9"):
            return ratios.of_packages(rows, self.folder, left_out), left_out

    def test_rows_are_joined(self):
        write_npy(self.folder / "a.npy", "<u2", range(1, 500), "H")
        added, left_out = self.of_fake([row("a", "zvc", 5), row("a", "rle", 6)])
        self.assertEqual((added, left_out), ([row("a", "Fake", 100, "fake 9")], []))

    def test_what_does_not_restore_is_left_out(self):
        write_npy(self.folder / "a.npy", "<u2", range(1, 500), "H")
        with mock.patch.object(Fake, "wrong", True):
            added, left_out = self.of_fake([row("a", "zvc", 5)])
        self.assertEqual((added, left_out), ([], ["Fake on a: the decoded values differ"]))

    def test_steps_between_floats(self):
        for bits in (8, 16, 32):
            kind = f"u{bits // 8}"
            sign = 1 << (bits - 1)
            in_order = numpy.array([sign + 2, sign + 1, sign, 0, 1, 2], kind)  # -0.0 is a step below 0.0
            steps = ratios.steps_between(numpy.zeros(6, kind), in_order)
            self.assertEqual(steps.tolist(), [5, 3, 1, 0, 2, 4])
            self.assertEqual(steps.dtype, numpy.dtype(kind))


if __name__ == "__main__":
    unittest.main()
