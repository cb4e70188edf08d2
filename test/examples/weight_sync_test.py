#!/usr/bin/env python3
"""examples/weight_sync: weights stay the same bit for bit, faults are noticed and repaired, and nobody waits forever."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES / "weight_sync"))
sys.dont_write_bytecode = True

try:
    import numpy as np
    import torch
    import torch.distributed as dist
    import tuck
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
if not dist.is_available():
    print("skipped: this PyTorch has no torch.distributed")
    sys.exit(77)

import sizes

PROGRAM = str(EXAMPLES / "weight_sync" / "weight_sync.py")
SMALL = ["--width", "64", "--layers", "1", "--warm-up", "3"]
WAIT = 120  # seconds, for what takes a few


def run(*options):
    return subprocess.run([sys.executable, PROGRAM, *options], capture_output=True, text=True, timeout=WAIT)


class Runs(unittest.TestCase):
    def run_small(self, *options):
        done = run(*SMALL, *options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("the server has the same weights, bit for bit", done.stdout)
        return done.stdout

    def test_nothing_goes_wrong(self):
        out = self.run_small("--steps", "20", "--rates", "")
        self.assertIn("20 deltas and 1 full frames applied", out)
        self.assertIn("22 answers: 22 from the weights of their step, 22 of these equal to the trainer's own", out)
        self.assertNotIn("refused,", out)
        self.assertNotIn("Bytes a step", out)

    def test_faults_are_noticed_and_repaired(self):
        out = self.run_small("--steps", "12", "--drop", "3,4,12", "--repeat", "6", "--damage", "8", "--rates", "1e-5")
        refused = re.findall(r"server: step (\d+): (.*); (.*)", out)
        base = "the base is not the tensor that the delta was made against"
        self.assertEqual([refused[0], refused[1], refused[3]],
                         [("5", base, "asks for a full frame"), ("6", base, "it is applied already"),
                          ("12", base, "asks for a full frame")])
        self.assertEqual((refused[2][0], refused[2][2]), ("8", "asks for a full frame"))
        self.assertEqual(len(refused), 4)
        self.assertEqual(re.findall(r"trainer: step (\d+): a full frame", out), ["0", "5", "8", "12"])
        self.assertRegex(out, r"AdamW 1e-05 +\d+\.\d\d %")
        self.assertIn("7 deltas and 4 full frames applied", out)

    def test_recorded_pair(self):
        with tempfile.TemporaryDirectory() as folder:
            old, new = (str(Path(folder) / name) for name in ("old.npy", "new.npy"))
            values = np.arange(70000, dtype=np.uint16)
            np.save(old, values)
            values[::100] ^= 1
            np.save(new, values)
            out = self.run_small("--steps", "1", "--rates", "", "--pair", old, new)
            self.assertRegex(out, r"recorded +1\.00 % +140,000 +4,200 +2,800 ")
            np.save(new, values[:-1])
            done = run(*SMALL, "--steps", "1", "--timeout", "3", "--pair", old, new)
            self.assertEqual(done.returncode, 1)
            self.assertIn("no two arrays of 16 bits and one shape", done.stderr)

    def test_usage(self):
        for options in (["--steps", "0"], ["--drop", "101"], ["--drop", "x"], ["--rate", "inf"], ["--width", "65"],
                        ["--role", "server"], ["--nonsense"]):
            with self.subTest(options):
                done = run(*options)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stdout, "")


class Peers(unittest.TestCase):
    """One side fails; the other ends in a line."""

    def start(self, seconds="20", server=SMALL):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        common = ["--rendezvous", f"file://{folder.name}/meet", "--timeout", seconds]
        both = []
        for role, options in (("trainer", [*SMALL, "--steps", "100000", "--rates", ""]), ("server", server)):
            both.append(subprocess.Popen([sys.executable, PROGRAM, "--role", role, *options, *common], text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            self.addCleanup(lambda p=both[-1]: (p.kill(), p.communicate()))
        return both

    def expect_end(self, process, pattern):
        _, err = process.communicate(timeout=WAIT)
        self.assertEqual(process.returncode, 1, err)
        self.assertRegex(err, pattern)
        self.assertEqual(len(err.splitlines()), 1, err)

    def test_killed_or_stopped(self):
        for which, sent in ((0, signal.SIGKILL), (1, signal.SIGKILL), (0, signal.SIGSTOP), (1, signal.SIGSTOP)):
            with self.subTest(which=which, signal=sent):
                both = self.start()
                while "full frame" not in both[0].stdout.readline():
                    self.assertIsNone(both[0].poll())
                both[which].send_signal(sent)
                self.expect_end(both[1 - which], rf"^{('server', 'trainer')[which]}: the "
                                                 rf"{('trainer', 'server')[which]} is gone: ")

    def test_nobody_comes(self):
        both = self.start("2")
        both[0].kill()
        self.expect_end(both[1], "^server: (cannot meet the trainer|the trainer is gone): ")

    def test_another_model(self):
        both = self.start(server=["--width", "128", "--layers", "1"])
        self.expect_end(both[0], "takes no full frame; do both have the same --width and --layers")
        self.expect_end(both[1], "the trainer is gone")

    def test_a_killed_child_fails_the_whole(self):
        whole = subprocess.Popen([sys.executable, PROGRAM, *SMALL, "--steps", "100000", "--timeout", "20"], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lambda: (whole.kill(), whole.communicate()))
        while "full frame" not in whole.stdout.readline():
            self.assertIsNone(whole.poll())
        trainer, server = Path(f"/proc/{whole.pid}/task/{whole.pid}/children").read_text().split()
        os.kill(int(server), signal.SIGKILL)
        _, err = whole.communicate(timeout=WAIT)
        self.assertEqual(whole.returncode, 1)
        self.assertIn("weight_sync: the server was killed by signal 9", err)


class Deltas(unittest.TestCase):
    def setUp(self):
        draws = torch.Generator().manual_seed(1)
        self.old = torch.randn(100000, generator=draws).bfloat16()
        self.new = self.old.clone()
        changed = torch.randperm(100000, generator=draws)[:2000]
        self.new.view(torch.int16)[changed] ^= 1

    def test_in_place_or_not(self):
        for codec in sizes.DELTA_CODECS:
            frame, base = tuck.encode_delta(self.new, self.old, codec), self.old.clone()
            for restored in (tuck.apply_delta(frame, base), tuck.apply_delta(frame, base, out=base)):
                self.assertTrue(torch.equal(restored.view(torch.int16), self.new.view(torch.int16)))
            self.assertEqual(tuck.digest(base), tuck.digest(self.new))

    def test_damage_changes_nothing(self):
        frame, base = tuck.encode_delta(self.new, self.old), self.old.clone()
        refused = 0
        for i in range(0, frame.numel(), 7):
            damaged = frame.clone()
            damaged[i] ^= 1 << i % 8
            try:
                tuck.apply_delta(damaged, base, out=base)
                self.assertTrue(torch.equal(base.view(torch.int16), self.new.view(torch.int16)))
                base.copy_(self.old)
            except tuck.TuckError:
                refused += 1
                self.assertTrue(torch.equal(base.view(torch.int16), self.old.view(torch.int16)))
        self.assertGreater(refused, frame.numel() / 7 * 0.9)

    def test_sizes(self):
        self.assertEqual(sizes.gap_entries(np.array([0, 1, 65537])), 3)
        self.assertEqual(sizes.gap_entries(np.array([0, 1, 65538, 200000])), 7)
        self.assertEqual(sizes.entropy(np.array([4, 4, 0])), 1)
        moved = (self.old.float() + 1e-3 * torch.randn(100000, generator=torch.Generator().manual_seed(2))).bfloat16()
        by_steps, *others = (tuck.encode_delta(moved, self.old, codec).numel() for codec in sizes.DELTA_CODECS)
        self.assertLess(by_steps, min(others))
        self.assertEqual(by_steps, tuck.encode_delta(moved, self.old).numel())


if __name__ == "__main__":
    unittest.main()
