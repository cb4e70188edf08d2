#!/usr/bin/env python3
"""Tests of bench/model: the table, and which files are taken."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
TODAY = ROOT / "bench/results/model-today-7cd052aa6b.json"


class Files(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        self.bench = self.folder / "tuck-bench"
        self.bench.write_text("#!/bin/sh\nexit 3\n")
        self.bench.chmod(0o755)

    def run_with(self, *words):
        return subprocess.run([sys.executable, ROOT / "bench/model/model.py", *words], capture_output=True, text=True)

    def ends_with(self, said, *words):
        ran = self.run_with(*words)
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertTrue(ran.stderr.rstrip().endswith(said), ran.stderr)
        self.assertNotIn("Traceback", ran.stderr)

    def test_the_table_has_both_ways_of_a_codec(self):
        ran = self.run_with(TODAY)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("| 256 MiB f32, 60 % zeros | zvc | 2.32 | 1874 / 1871 | 0.98 / 0.98 | 0.21 / 0.17 | 8 / 6 | global 67, "
                      "barrier 14 / global 46, barrier 36 |\n", ran.stdout)

    def test_other_files_are_neither_read_nor_overwritten(self):
        for text in "[]", '{"schema": "tuck-bench/1", "rows": []}', '{"schema": "tuck-model/1", "rows": [{}]}':
            path = self.folder / "other.json"
            path.write_text(text)
            for words in [path], [self.bench, "--out", path]:
                self.ends_with("other.json is no file of model.py", *words)
            self.assertEqual(path.read_text(), text)
        self.ends_with("No such file or directory: '" + str(self.folder / "none.json") + "'", self.folder / "none.json")

    def test_a_program_that_fails_is_named(self):
        self.ends_with("tuck-bench ended with 3", self.bench, "--out", self.folder / "new.json")


if __name__ == "__main__":
    unittest.main()
