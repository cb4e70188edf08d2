#!/usr/bin/env python3
"""Tests of bench/papers/tuner.py: with a script in place of tuck-bench, and the table of the surface in bench/results."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[3]
SURFACE = ROOT / "bench/results/surface-model-h100.json"

# Writes the rows that were asked for. More blocks are faster, and the second largest chunk.
BENCH = f"""#!{sys.executable}
import json, sys
given = dict(zip(sys.argv[1:], sys.argv[2:]))
rows = [{{"operation": operation, "codec": codec, "type": given["--type"], "pattern": given["--pattern"],
          "raw_bytes": 1 << 20, "blocks": int(blocks), "chunk_bytes": 1024 * int(chunk[:-3]), "ratio": 2.0,
          "model": {{"gpu": "h100", "seconds": (1 + abs(8 - int(chunk[:-3]))) / int(blocks) * 1e-6}}}}
        for codec in given["--codec"].split(",") for chunk in given["--chunk"].split(",")
        for blocks in given["--blocks"].split(",") for operation in ("encode", "decode")]
open(given["--out"], "w").write(json.dumps({{"environment": {{"commit": "0123456789"}}, "rows": rows}}))
"""


class Tuner(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        self.bench = self.folder / "tuck-bench"
        self.bench.write_text(BENCH)
        self.bench.chmod(0o755)

    def run_with(self, *words):
        return subprocess.run([sys.executable, ROOT / "bench/papers/tuner.py", *words], capture_output=True, text=True)

    def test_a_surface_is_recorded_and_read_again(self):
        out = self.folder / "surface.json"
        ran = self.run_with(self.bench, "--out", out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        # The default: 9 / 8 us each way. The best: 1 / 8. The slowest: 1 block, 16 KiB: 9 us.
        self.assertIn("| 1 MiB f32, 60 % zeros | zvc | 1.1 / 1.1 | 2.00 | 8, 8 KiB | 89 | 2.00 | 8 | 8 / 8 |\n", ran.stdout)
        file = json.loads(out.read_text())
        self.assertEqual((file["schema"], file["commit"], len(file["rows"])), ("tuck-surface/1", "0123456789", 3 * 32))
        self.assertEqual(self.run_with(out).stdout, ran.stdout)

    def test_the_page_has_the_table_of_the_recorded_surface(self):
        ran = self.run_with(SURFACE)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(ran.stdout, (ROOT / "bench/papers/README.md").read_text())

    def test_other_files_are_not_read(self):
        other = ROOT / "bench/results/model-today-7cd052aa6b.json"
        ran = self.run_with(other)
        self.assertEqual(ran.returncode, 1)
        self.assertEqual(ran.stderr, f"tuner.py: {other} is no file of tuner.py\n")


if __name__ == "__main__":
    unittest.main()
