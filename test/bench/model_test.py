#!/usr/bin/env python3
"""Tests of bench/model: which rows are compared, how errors and orders are counted, and which files are taken."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ among the sources
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench" / "model"))
import rows


def row(codec="zvc", measured=1e-5, predicted=1e-5, **more):
    return {"operation": "encode", "codec": codec, "type": "f32", "pattern": "clustered", "sparsity": .6,
            "raw_bytes": 16 * rows.MIB, "ratio": 2, "unseen": codec != "zvc",
            "measured_seconds": measured, "predicted_seconds": predicted,
            "waits": {"issued": .5, "barrier": .3, "global": .2, "nothing": 0}, **more}


class Rows(unittest.TestCase):
    def test_kendall(self):
        self.assertEqual(rows.kendall([(1, 10), (2, 20), (3, 30)]), 1)
        self.assertEqual(rows.kendall([(1, 30), (2, 20), (3, 10)]), -1)
        self.assertAlmostEqual(rows.kendall([(1, 10), (2, 30), (3, 20)]), 1 / 3)
        self.assertEqual(rows.kendall([(1, 5), (2, 5)]), 0)

    def test_errors_are_of_the_time(self):
        self.assertAlmostEqual(rows.error(row(measured=2e-5, predicted=1e-5)), -.5)
        self.assertAlmostEqual(rows.error(row(measured=1e-5, predicted=2e-5)), 1)

    def test_each_measured_row_is_compared_once(self):
        found = rows.measured(ROOT / "bench" / "results")
        coders = [key for key in found if key[1] != "copy"]
        self.assertEqual(len(coders), 22 * (5 + 2) + 4 * 2 * 3)
        self.assertEqual(len([key for key in coders if not rows.was_seen(found[key])]), 22 * 4 + 4 * 2 * 3)
        runs = [key for _, keys in rows.runs(found) for key in keys]
        self.assertEqual(sorted(map(str, runs)), sorted(map(str, found)))

    def test_table_has_each_row_and_its_errors(self):
        table = rows.table([row(), row("rle", predicted=1.2e-5), row("quantize", 3e-5, 2.4e-5)])
        self.assertIn("| 16 MiB f32 60 % | encode | rle | unseen | 10.0 | 12.0 | +20 % | barrier 30, global 20 |", table)
        self.assertIn("| error, % | 16 MiB f32 60 % |\n|---|---|\n| zvc | +0 / - |\n| rle | +20 / - |", table)
        self.assertIn("| all unseen | 2 | 20 % | 20 % (", table)
        self.assertIn("| 16 MiB, seen | 1 | 0 % | 0 %", table)

    def test_codec_list_is_cut_to_what_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "codec_list.hpp"
            path.write_text((ROOT / "examples/tuck/codec_list.hpp").read_text())
            rows.keep_measured_codecs(path)
            text = path.read_text()
        self.assertIn("codec_list<exponents<bf16>, exponents<float>>", text)
        self.assertNotIn("over_all_types<", text[text.index("using program_codecs"):text.index(">::type;")])


class Files(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        (self.folder / "build/ptx/bin").mkdir(parents=True)
        self.bench = self.folder / "build/ptx/bin/tuck-bench"
        self.bench.write_text("#!/bin/sh\nexit 3\n")
        self.bench.chmod(0o755)

    def ends_with(self, said, *words):
        ran = subprocess.run([sys.executable, ROOT / "bench/model/model.py", *words], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertTrue(ran.stderr.rstrip().endswith(said), ran.stderr)
        self.assertNotIn("Traceback", ran.stderr)

    def test_other_files_are_neither_read_nor_overwritten(self):
        for text in "[]", '{"schema": "tuck-bench/1", "rows": []}':
            path = self.folder / "other.json"
            path.write_text(text)
            for words in ["table", path], ["today", self.bench, "--out", path], ["compare", self.folder, "--out", path]:
                self.ends_with("other.json is no file of model.py", *words)
            self.assertEqual(path.read_text(), text)
        self.ends_with("No such file or directory: '" + str(self.folder / "none.json") + "'", "table",
                       self.folder / "none.json")

    def test_the_two_kinds_of_files_are_kept_apart(self):
        compared = self.folder / "compared.json"
        compared.write_text(json.dumps({"schema": "tuck-model/1", "rows": [row()]}))
        self.ends_with("compared.json is a file of compare", "today", self.bench, "--out", compared)
        of_today = max((ROOT / "bench/results").glob("model-today-*.json"))
        self.ends_with(f"{of_today} is a file of today", "compare", self.folder, "--out", of_today)

    def test_a_program_that_fails_is_named(self):
        self.ends_with("tuck-bench ended with 3", "today", self.bench, "--out", self.folder / "new.json")


if __name__ == "__main__":
    unittest.main()
