#!/usr/bin/env python3
"""Tests of bench/gpu_check with small scripts for the programs that it runs, and once with a build of the simulator:
gpu_check_test.py [BUILD]."""

import json
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ among the sources
ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "bench" / "gpu_check" / "gpu_check.py"
BUILD = Path(sys.argv.pop(1)) if len(sys.argv) > 1 and "/" in sys.argv[1] else None

sys.path.insert(0, str(PROGRAM.parent))
import constants
import predictions
import programs
import recordings
import report as reports
import steps
from environment import QUERY
from measurements import KEPT
from proofs import EXAMPLES

GPU = {"name": "NVIDIA H200", "driver": "580.65", "runtime": "13.0", "clocks": "SM 1980 MHz, memory 3201 MHz"}
DESCRIPTION = {
    "version": "0.1.0", "commit": "abc1234567", "compiler": "g++ 12", "cpu": "Xeon", "cores": 16, "peers": ["zlib"],
    "backend": "cuda", "device": GPU, "simulated": False, "processors": 132,
}  # fmt: skip
SIMULATED = DESCRIPTION | {"backend": "sim", "device": None, "simulated": True, "processors": None}
TIMES = {"runs": 5, "median_seconds": 1e-4, "best_seconds": 9e-5, "cv": 0.01, "gb_per_s": 600.0}

# Shell, which begins sooner than Python. DATA is a file that the script has beside it.
GTEST = """for word; do case $word in --gtest_output=json:*) cat DATA > "${word#*json:}"; esac; done"""
EXPERIMENTS = """grep -F "\\"$1\\"" DATA"""
BENCH = """out=
for word; do
  case $word in
    --list) printf 'encode/%s/f32/s:0.90/clustered/1MiB/gpu\\n' zvc nvcomp-lz4 nvcomp-ans; exit
  esac
  test "$out" = next && cat DATA > "$word"
  out=; test "$word" = --out && out=next
done
exit 0"""
# tuck-bench at a limit: it ends its row at a polite signal, and writes what it has. The first time only.
CUT_OFF = """out=
for word; do test "$word" = --list && exit; test "$out" = next && out=$word; test "$word" = --out && out=next; done
test -e DATA.again && cat DATA.again > "$out" && exit
mv DATA.next DATA.again 2> /dev/null
trap 'cat DATA > "$out"; exit 130' TERM
sleep 1000 & wait
"""
LIMITED = """import dataclasses, sys
sys.dont_write_bytecode = True
sys.path.insert(0, "{}")
import gpu_check, steps
steps.STEPS = tuple(dataclasses.replace(step, seconds={}) for step in steps.STEPS)
sys.exit(gpu_check.main())"""


def gtest_results(bad):
    tests = [{"name": f"t{i}", "classname": "suite", "status": "RUN", "result": "COMPLETED"} for i in range(3)]
    tests[2]["result"] = "SKIPPED"
    if bad:
        tests[0]["failures"] = [{"failure": "no"}]
    return json.dumps({"testsuites": [{"testsuite": tests}]})


def records():
    """What tuck-experiments might print."""
    point = {"codec": "zvc", "type": "f32", "operation": "encode", "sparsity": 0.9, "raw_bytes": 1 << 26, "R": 0.8}
    swap = {"path": "direct", "operation": "out", "sparsity": 0.9, "raw_bytes": 1 << 26, "of_link": 0.9}
    return {
        "copy": [{"what": what, "raw_bytes": 1 << 28} | TIMES for what in ("kernel", "to the host", "from the host")],
        "machine": [{"what": what, "instructions": 1, "latency_clocks": 33.5, "clocks_each": 1.0}
                    for what in ("shared_load", "load, second level", "load, DRAM")],
        "blocks": [swap | TIMES | {"max_blocks": 4, "beside": True, "processors_taken": 3.5}],
        "swap": [swap | TIMES], "latency": [point | TIMES | {"way": "graph", "calls": 32, "raw_bytes": 4096}],
    }  # fmt: skip


def rows():
    """What tuck-bench might write."""
    row = dict.fromkeys(KEPT) | TIMES | {
        "operation": "encode", "codec": "zvc", "peer": False, "type": "f32", "sparsity": 0.9, "pattern": "clustered",
        "raw_bytes": 1 << 26, "ratio": 7.5, "R": 0.8}  # fmt: skip
    return [row, row | {"operation": "decode", "R": 0.9}, row | {"codec": "rle", "R": 0.5}]


# A package that any Python imports, and its test.
PACKAGE = {"numpy.py": "", "torch.py": "class cuda:\n    is_available = staticmethod(lambda: True)\n",
           "tuck/__init__.py": "", "tuck/device.py": "def _library():\n    pass\n",
           "tuck/_tuck.cpython-39-any.so": ""}  # fmt: skip
PACKAGE_TEST = """import json, sys
if "--times" in sys.argv:
    row = {"codec": "zvc", "operation": "encode", "raw_bytes": 1 << 26, "ratio": 2.5, "gb_per_s": 640.0,
           "call_seconds": 4.25e-5}
    sys.exit(print(json.dumps(row)))
print("test_a (m.C) ... ok\\ntest_b (m.C) ... skipped 'no PyTorch'\\nRan 2 tests in 1s\\n\\nOK (skipped=1)")
"""


class Fakes:
    """A folder of scripts in place of all programs and tools."""

    def __init__(self, folder, description):
        self.folder = folder
        for name in ("bin", "lib", "tools", "out", "none"):
            (folder / name).mkdir()
        self.describe(description)
        self.shell("bin/tuck-bench", BENCH, json.dumps({"rows": rows()}))
        for step in steps.STEPS:
            if step.name.startswith("test/"):
                self.gtest(step.program)
        for name, *_ in EXAMPLES:
            self.shell(f"bin/{name}", "exit 0")
        self.shell("tools/nvidia-smi", f"echo '{', '.join(['NVIDIA H200'] + ['1'] * (len(QUERY) - 1))}'")
        self.shell("tools/compute-sanitizer", "echo '========= ERROR SUMMARY: 0 errors'")
        self.shell("tools/ncu", "echo counters")
        (folder / "gpu_check").mkdir()
        (folder / "python" / "tuck").mkdir(parents=True)
        for name, text in PACKAGE.items():
            (folder / "python" / name).write_text(text)
        (folder / "gpu_check" / "python_device_test.py").write_text(PACKAGE_TEST)

    def describe(self, description):
        lines = [description | {"asked by": "--describe"}]
        lines += [{"experiment": name} | record for name, made in records().items() for record in made]
        self.shell("bin/tuck-experiments", EXPERIMENTS, "".join(json.dumps(line) + "\n" for line in lines))

    def gtest(self, name, bad=False, before="true"):
        self.shell(f"bin/{name}", f"{before}\n{GTEST}\nexit {int(bad)}", gtest_results(bad))

    def shell(self, name, script, data=""):
        path = self.folder / name
        beside = path.with_suffix(".data")
        beside.write_text(data)
        path.write_text(f"#!/bin/sh\n{script.replace('DATA', str(beside))}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def command(self, *words, limit=None):
        """Of gpu_check.py; with a limit, each step has so many seconds."""
        program = [PROGRAM] if limit is None else ["-c", LIMITED.format(PROGRAM.parent, limit)]
        return [sys.executable, *program, "--prebuilt", self.folder, *map(str, words)]

    def environment(self):
        # A toolkit that this machine has is not looked at.
        return os.environ | {"PATH": f"{self.folder / 'tools'}:/usr/bin:/bin", "CUDA_HOME": str(self.folder / "none")}

    def run(self, *words, limit=None):
        return subprocess.run(self.command(*words, limit=limit), env=self.environment(), text=True,
                              capture_output=True, timeout=100)  # fmt: skip


def runs(pid):
    """Is there such a process that is more than a dead one's remains?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class GpuCheck(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.fakes = Fakes(Path(scratch.name), DESCRIPTION)
        self.out = self.fakes.folder / "out" / "h200.json"

    def printed_with(self, code, *words, limit=None):
        """Runs it, expects that exit code, and gives what it printed."""
        ran = self.fakes.run(*words, limit=limit)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        self.assertNotIn("Traceback", ran.stderr)
        return ran.stdout + ran.stderr

    def run_to(self, code, *words, limit=None):
        """The same, and the steps of its file."""
        return self.printed_with(code, *words, limit=limit), self.steps()

    def steps(self):
        return {s["name"]: s for s in json.loads(self.out.read_text())["steps"]}

    def refuses(self, why, *words):
        """It says why, and leaves the file as it was."""
        before = self.out.read_text() if self.out.exists() else None
        self.assertIn(why, self.printed_with(2, *words))
        self.assertEqual(self.out.read_text() if self.out.exists() else None, before)

    def test_all_is_well(self):
        printed, made = self.run_to(0, "--out", self.out)
        self.assertEqual(list(made), ["build", "environment", *(step.name for step in steps.STEPS)])
        self.assertEqual({name for name, s in made.items() if s["result"] != "ok"}, {"build"}, printed)
        report = json.loads(self.out.read_text())
        self.assertEqual((report["schema"], report["complete"]), ("tuck-gpu-check/1", True))
        self.assertEqual((report["environment"]["gpu"], report["environment"]["processors"]), ("NVIDIA H200", 132))
        self.assertEqual(report["environment"]["nvidia_smi"]["name"], "NVIDIA H200")
        for s in made.values():
            self.assertEqual(set(s), {"name", "result", "detail", "seconds", "limit_seconds", "forgone", "cut_off",
                                      "log", "figures"})
            self.assertTrue(s["log"] is None or (self.out.with_suffix(".logs") / s["log"]).is_file(), s)
        self.assertNotIn(str(self.fakes.folder), self.out.read_text())

    def test_the_summary_has_figures(self):
        self.run_to(0, "--out", self.out)
        text = self.out.with_suffix(".txt").read_text()
        self.assertRegex(text, r"test/device_test +ok +\d+ s +2 passed, 0 failed, 1 skipped")
        self.assertRegex(text, r"4 +yes +0.90 +600.0 +0.90 +3.5")
        self.assertIn("encode of rle, encode of zvc: in the log", text)
        self.assertIn("nvcomp-lz4", text)
        self.assertRegex(text, r"shared load +1 +33.5 +1.000")
        self.assertRegex(text, r"kv +zvc +f32 +encode +64 MiB")
        self.assertRegex(text, r"zvc by 1024 KiB")
        self.assertRegex(text, r"zvc +encode +64 MiB +2.50 +640.0 +42.5")

    def test_the_python_package(self):
        package, test = self.fakes.folder / "python", self.fakes.folder / "gpu_check" / "python_device_test.py"
        library = package / "tuck" / "_tuck.cpython-39-any.so"

        def step(code=0):
            made = self.run_to(code, "--out", self.out, "--only", "python")[1]["python"]
            self.out.unlink()
            return made["result"], made["detail"]

        self.assertEqual(step(), ("ok", "1 passed, 0 failed, 1 skipped (no PyTorch); most: encode of zvc, 640 GB/s"))
        test.write_text("print('FAIL: test_a (m.C)\\nERROR: test_b (m.C)\\nRan 3 tests in 1s'); raise SystemExit(1)")
        self.assertEqual(step(1), ("FAILED", "1 passed, 2 failed, 0 skipped: test_a, test_b"))
        test.write_text("print('skipped: no functions for tests'); raise SystemExit(77)")
        self.assertEqual(step(), ("skipped", "skipped: no functions for tests"))
        test.write_text("import os; os.abort()")
        self.assertEqual(step(1), ("FAILED", "ended by SIGABRT"))
        (package / "tuck" / "device.py").write_text("raise ImportError('no libcuda')")
        result, detail = step()
        self.assertEqual(result, "skipped")
        self.assertRegex(detail, r"for Python 3\.9, cannot be imported: exit code 1: ImportError: no libcuda")
        library.unlink()
        self.assertEqual(step(), ("skipped", "the Python package is not built: build the target gpu_check"))
        (package / "why_not.txt").write_text("no nanobind\n")
        self.assertEqual(step(), ("skipped", "no nanobind"))

    def predicted(self):
        """A cut of the model's predictions that come with tuck, and rows as tuck-bench would measure them in twice the
        time."""
        file = max((ROOT / "bench" / "results").glob("model-today-*.json"))
        rows_of_model = [row for row in json.loads(file.read_text())["rows"] if row["codec"] in ("zvc", "huffman")]
        measured = [dict.fromkeys(KEPT) | TIMES | {key: row[key] for key in row if key != "model"}
                    | {"peer": False, "R": 0.5, "median_seconds": 2 * row["model"]["seconds"]} for row in rows_of_model]
        return file, rows_of_model, measured  # fmt: skip

    def test_predictions_stand_beside_what_was_measured(self):
        file, rows_of_model, measured = self.predicted()
        h100 = DESCRIPTION | {"device": GPU | {"name": "NVIDIA H100 80GB HBM3"}}
        self.fakes.describe(h100)
        self.fakes.shell("tools/nvidia-smi", f"echo 'NVIDIA H100 80GB HBM3{', 1' * (len(QUERY) - 1)}'")
        self.fakes.shell("bin/tuck-bench", BENCH, json.dumps({"rows": measured}))
        printed, made = self.run_to(0, "--out", self.out, "--only", "sweep")  # by default those that come with tuck
        self.assertEqual(len(made["sweep"]["figures"]), len(rows_of_model))
        errors = f"The model's errors ({file.name}): {len(rows_of_model)} rows, median 50%, worst 0.50 of the measured"
        self.assertIn(errors, printed)
        text = self.out.with_suffix(".txt").read_text()
        self.assertIn(errors, text)
        zvc = next(row for row in rows_of_model if row["codec"] == "zvc" and row["type"] == "f32")
        us = zvc["model"]["seconds"] * 1e6
        self.assertRegex(text, rf"{zvc['operation']} zvc f32 clustered 256 MiB +0.60 +{2 * us:.1f} +{us:.1f} +0.50")
        file = self.fakes.folder / "other.json"
        self.run_to(0, "--resume", self.out, "--only", "sweep", "--predictions", file)
        compared = [{key: row[key] for key in row if key != "model"} | {"predicted_seconds": row["model"]["seconds"]}
                    for row in rows_of_model]  # fmt: skip
        for content, why in (("{", "no predictions that can be read"), ('{"rows": []}', "it predicts nothing for"),
                             (json.dumps({"rows": [row | {"codec": "x"} for row in compared]}), "No measured row"),
                             (json.dumps({"rows": compared}), "rows, median 50%")):  # of model.py compare
            file.write_text(content)
            self.assertIn(why, self.run_to(0, "--resume", self.out, "--only", "sweep", "--predictions", file)[0])
            self.run_to(0, "--resume", self.out, "--only", "sweep")  # they are in the file
            self.assertIn(why, self.out.with_suffix(".txt").read_text())

    def test_a_prediction_stands_beside_its_own_tensor_only(self):
        _, rows_of_model, measured = self.predicted()
        zvc = next(row for row in rows_of_model if row["codec"] == "zvc")
        dense = next(row for row in rows_of_model if row["pattern"] == "recorded")
        file = self.fakes.folder / "model.json"
        file.write_text(json.dumps({"rows": [zvc, dense]}))
        report = {"steps": [], "predictions": predictions.read(file, "NVIDIA H100 PCIe")}
        at = [rows_of_model.index(zvc), rows_of_model.index(dense)]
        report["steps"] = [{"name": "ans", "figures": [
            measured[at[0]], measured[at[0]] | {"chunk_bytes": 65536}, measured[at[0]] | {"sparsity": 0.5},
            measured[at[1]] | {"recording": "kv"}, measured[at[1]] | {"recording": "same"},
            measured[at[1]] | {"recording": "k", "ratio": dense["ratio"] * 1.02}]}]  # fmt: skip
        self.assertEqual([(row["codec"], row.get("recording")) for row, _ in predictions.pairs(report)],
                         [("zvc", None), ("huffman", "kv"), ("huffman", "same")])
        for gpu, there in (("NVIDIA H100", 2), ("NVIDIA H200", 0), ("NVIDIA GH1000", 0), (None, 0)):
            self.assertEqual(len(predictions.read(file, gpu)["rows"]), there, gpu)
        file.write_text(json.dumps({"rows": [zvc | {"model": zvc["model"] | {"gpu": "a10"}}]}))
        self.assertEqual([len(predictions.read(file, gpu)["rows"]) for gpu in ("NVIDIA A10", "NVIDIA A100")], [1, 0])

    def test_ans_and_dense_measure_the_same_tensors(self):
        folder = self.fakes.folder / "dense"
        folder.mkdir()
        for name in ("weights_bf16.npy", "keys_fp8.npy"):
            (folder / name).write_text("")
        said = self.fakes.folder / "said"
        self.fakes.shell("bin/tuck-bench", f'echo "$@" >> {said}\n{BENCH}', json.dumps({"rows": rows()}))
        _, made = self.run_to(0, "--out", self.out, "--only", "dense,ans", "--recordings", folder)
        tensors = ["kv", "kv", "keys_fp8", "weights_bf16"]
        self.assertEqual([r["recording"] for r in made["dense"]["figures"]][::3], tensors)
        self.assertEqual([r["recording"] for r in made["ans"]["figures"]][::15], tensors)
        seen = [re.search(r"--data (\S+) --type (\S+)", line) for line in said.read_text().splitlines()]
        data = ROOT / "examples" / "data"
        of_dense = [match.groups() for match in seen if match][:4]
        self.assertEqual(of_dense[0], (str(data / "kv"), "bf16"))
        self.assertEqual(of_dense[1][1], "f8e4m3")
        self.assertEqual(of_dense[2:], [(f"{folder}/keys_fp8.npy", "f8e4m3"), (f"{folder}/weights_bf16.npy", "bf16")])

    def test_keys_and_values_are_cast_to_fp8(self):
        source, target = self.fakes.folder / "kv", self.fakes.folder / "fp8"
        source.mkdir()
        # 1, -1.1875, 448, 500, 2^-9, ties of the smallest steps, -0, infinity, NaN
        values = [0x3F80, 0xBF98, 0x43E0, 0x43FA, 0x3B00, 0x3A80, 0x3B40, 0x8000, 0x7F80, 0x7FC0]
        header = "{'descr': '<u2', 'fortran_order': False, 'shape': (10,), }".ljust(117) + "\n"
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H118s10H", 118, header.encode(), *values)
        (source / "k_bf16.npy").write_bytes(content)
        recordings.cast(source, target)
        made = (target / "k_f8e4m3.npy").read_bytes()
        self.assertEqual(made[:10], content[:10])
        self.assertEqual(made[10:128], header.replace("<u2", "|u1").encode())
        self.assertEqual(made[128:], bytes([0x38, 0xBA, 0x7E, 0x7E, 0x01, 0x00, 0x02, 0x80, 0x7E, 0x7F]))
        (source / "v_bf16.npy").write_bytes(content.replace(b"<u2", b"<f4"))
        with self.assertRaises(ValueError):
            recordings.cast(source, target)

    def cut_off_at_first(self):
        self.fakes.shell("bin/tuck-bench", CUT_OFF, json.dumps({"rows": rows()[:2]}))
        (self.fakes.folder / "bin" / "tuck-bench.data.next").write_text(json.dumps({"rows": rows()}))

    def test_a_step_that_is_cut_off_keeps_its_rows_and_is_repeated(self):
        self.cut_off_at_first()
        _, made = self.run_to(1, "--out", self.out, "--only", "codecs/16MiB", limit=1)
        step = made["codecs/16MiB"]
        self.assertEqual((step["result"], step["cut_off"], len(step["figures"])), ("FAILED", True, 2))
        self.assertRegex(step["detail"], "2 rows; stopped at its limit")
        self.assertRegex(self.out.with_suffix(".txt").read_text(), r"zvc +f32 +decode +64 MiB")
        _, made = self.run_to(0, "--resume", self.out)
        step = made["codecs/16MiB"]
        self.assertEqual((step["result"], step["cut_off"], len(step["figures"])), ("ok", False, 3))

    def test_when_the_time_is_over_rows_are_kept(self):
        self.cut_off_at_first()
        printed, made = self.run_to(0, "--out", self.out, "--minutes", ".02", "--only", "codecs/16MiB")
        step = made["codecs/16MiB"]
        self.assertEqual((step["result"], step["forgone"], len(step["figures"])), ("skipped", True, 2), printed)
        self.assertIn("the time was over before it was done: 2 rows", step["detail"])
        self.run_to(0, "--resume", self.out, "--minutes", ".0001")
        self.assertEqual(len(self.steps()["codecs/16MiB"]["figures"]), 2)  # no time: what was there stays
        self.assertEqual(len(self.run_to(0, "--resume", self.out)[1]["codecs/16MiB"]["figures"]), 3)

    def test_one_bad_codec_does_not_take_the_others_with_it(self):
        self.fakes.shell("bin/tuck-bench", f'case "$*" in *f8e4m3*) echo bad; exit 1; esac\n{BENCH}',
                         json.dumps({"rows": rows()}))  # fmt: skip
        self.fakes.shell("bin/tuck-experiments", f"{EXPERIMENTS}\ntest $1 != swap", "".join(
            json.dumps(line) + "\n" for line in [DESCRIPTION | {"asked by": "--describe"},
                                                 *({"experiment": "swap"} | r for r in records()["swap"])]))
        _, made = self.run_to(1, "--out", self.out, "--only", "dense,ans,swap")
        self.assertEqual({name: (made[name]["result"], len(made[name]["figures"])) for name in
                          ("dense", "ans", "swap")},
                         {"dense": ("FAILED", 3), "ans": ("FAILED", 15), "swap": ("FAILED", 1)})  # fmt: skip

    def test_what_failed_is_repeated_last_and_loses_no_figures(self):
        self.fakes.shell("bin/tuck-bench", BENCH.replace("exit 0", "exit 1"), json.dumps({"rows": rows()}))
        self.fakes.gtest("swap_test", bad=True)
        self.run_to(1, "--out", self.out, "--only", "test/swap_test,sweep")
        (self.fakes.folder / "bin" / "tuck-bench.data").write_text('{"rows": []}')
        printed, made = self.run_to(1, "--resume", self.out, "--only", "test/swap_test,sweep,copy")
        self.assertEqual([line.split()[0] for line in printed.splitlines() if " s  " in line][-3:],
                         ["copy", "test/swap_test", "sweep"])
        self.assertEqual(len(made["sweep"]["figures"]), 3)
        self.assertIn("the figures are those of an earlier try", made["sweep"]["detail"])

    def test_resume_without_a_name_takes_what_was_made_here(self):
        """A report of another commit, a broken one: a new file is begun, and gone on with."""
        folder = self.fakes.folder
        shutil.copytree(PROGRAM.parent, folder / "gpu_check", dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("*.c*", "__pycache__"))
        command = [sys.executable, folder / "gpu_check" / "gpu_check.py", "--resume", "--only", "copy"]
        run = lambda: subprocess.run(command, env=self.fakes.environment(), text=True, capture_output=True, timeout=100)
        self.assertEqual(run().returncode, 0)
        first, = folder.glob("h200-*.json")
        other = json.loads(first.read_text())
        other["environment"]["commit"] = "5c9dcd72f4"
        first.write_text(json.dumps(other))
        (folder / "h200-2099-01-01.json").write_text("{")
        before = first.read_text()
        for _ in range(2):
            ran = run()
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            self.assertEqual(len(list(folder.glob("h200-*.json"))), 3)
        self.assertEqual(first.read_text(), before)

    def test_limits_do_not_change_with_the_minutes(self):
        for minutes in (4, 18):
            self.run_to(0, "--out", self.out, "--minutes", minutes, "--only", "copy")
            self.assertEqual(self.steps()["copy"]["limit_seconds"], 10)
            self.out.unlink()

    def test_a_carried_build_needs_no_sources(self):
        """Scripts and recordings are beside the programs; the file of results is there, too."""
        folder = self.fakes.folder
        shutil.copytree(PROGRAM.parent, folder / "gpu_check", dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("*.c*", "__pycache__"))
        (folder / "data" / "kv").mkdir(parents=True)
        shutil.copy(ROOT / "examples" / "data" / "kv" / "lm_layer0_k_bf16.npy", folder / "data" / "kv" / "k_bf16.npy")
        command = [sys.executable, folder / "gpu_check" / "gpu_check.py", "--minutes", "9", "--resume"]
        for words in (["--only", "dense,copy"], ["--only", "machine"]):
            ran = subprocess.run([*command, *words], env=self.fakes.environment(), text=True, capture_output=True,
                                 cwd="/", timeout=100)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        files = list(folder.glob("h200-*.json"))  # --resume went on with the one that the first run began
        self.assertEqual(len(files), 1)
        report = json.loads(files[0].read_text())
        self.assertEqual([s["name"] for s in report["steps"]], ["build", "environment", "dense", "machine", "copy"])

    def test_a_step_that_fails_does_not_stop_the_others(self):
        self.fakes.gtest("swap_test", bad=True)
        self.fakes.shell("bin/batch_test", "echo out of order; exit 3")
        self.fakes.shell("bin/kv_cache", "kill -SEGV $$")
        self.fakes.shell("tools/compute-sanitizer", "echo '========= ERROR SUMMARY: 7 errors'; exit 86")
        _, made = self.run_to(1, "--out", self.out)
        self.assertEqual(made["test/swap_test"]["detail"], "1 passed, 1 failed, 1 skipped: suite.t0")
        self.assertEqual(made["test/batch_test"]["detail"], "exit code 3: out of order")
        self.assertEqual(made["examples"]["detail"], "kv_cache: ended by SIGSEGV")
        self.assertEqual(made["sanitizer/memcheck"]["detail"], "device_test: ERROR SUMMARY: 7 errors")
        self.assertEqual(made["ncu"]["result"], "ok")

    def test_what_programs_write_may_be_nonsense(self):
        self.fakes.shell("bin/tuck-bench", "exit 0")
        self.fakes.shell("bin/device_test", "exit 0")
        _, made = self.run_to(1, "--out", self.out, "--only", "sweep,test/device_test")
        self.assertEqual({made[name]["result"] for name in ("sweep", "test/device_test")}, {"FAILED"})

    def test_a_step_that_does_not_end_is_stopped_with_its_children(self):
        pid = self.fakes.folder / "pid"
        self.fakes.shell("bin/device_test", f"sleep 1000 & echo $! > {pid}; wait")
        _, made = self.run_to(1, "--out", self.out, "--only", "test/device_test,test/kv_pool_test", limit=2)
        self.assertRegex(made["test/device_test"]["detail"], "stopped at its limit, after 2 s")
        self.assertEqual(made["test/kv_pool_test"]["result"], "ok")
        self.assertFalse(runs(int(pid.read_text())))

    def test_the_test_that_a_program_did_not_end_is_named(self):
        tests = """printf '[ RUN      ] suite.t0\\n[       OK ] suite.t0 (1 ms)\\n'; %s"""
        begins = """printf '[ RUN      ] suite/zvc.t1\\n'; """
        self.fakes.shell("bin/batch_test", tests % "exit 3")
        self.fakes.shell("bin/device_test", tests % begins + "exec sleep 1000")
        self.fakes.shell("bin/kv_pool_test", tests % begins + "echo no; kill -SEGV $$")
        self.fakes.shell("tools/compute-sanitizer", tests % begins + "exit 4")
        _, made = self.run_to(1, "--out", self.out, "--only",
                              "test/device_test,test/batch_test,test/kv_pool_test,sanitizer/memcheck", limit=2)
        self.assertRegex(made["test/device_test"]["detail"], "^suite/zvc.t1: stopped at its limit, after 2 s")
        self.assertEqual(made["test/batch_test"]["detail"], "exit code 3: [       OK ] suite.t0 (1 ms)")
        self.assertIn("suite/zvc.t1: ended by SIGSEGV: no", made["test/kv_pool_test"]["detail"])
        self.assertRegex(made["sanitizer/memcheck"]["detail"], "^device_test: suite/zvc.t1: exit code 4")

    def test_what_is_not_there_is_skipped_by_name(self):
        for name in ("tools/compute-sanitizer", "tools/ncu", "bin/block_test", "bin/kv_cache"):
            (self.fakes.folder / name).unlink()
        _, made = self.run_to(0, "--out", self.out)
        self.assertEqual(made["sanitizer/racecheck"]["detail"], "compute-sanitizer is not here")
        self.assertEqual(made["ncu"]["detail"], "ncu is not here")
        self.assertEqual(made["test/block_test"]["detail"], "block_test is not built")
        self.assertEqual(made["examples"]["detail"], "6 programs; not built: kv_cache")

    def test_tools_that_may_not_run_here_are_skipped(self):
        self.fakes.shell("tools/compute-sanitizer", "echo '========= Error: Device not supported.'; exit 1")
        self.fakes.shell("tools/ncu", "echo '==ERROR== ERR_NVGPUCTRPERM - no permission'; exit 1")
        _, made = self.run_to(0, "--out", self.out)
        self.assertRegex(made["sanitizer/memcheck"]["detail"], "cannot run here: Error: Device not supported")
        self.assertIn("ERR_NVGPUCTRPERM", made["ncu"]["detail"])

    def test_on_the_simulator_what_needs_a_gpu_is_skipped(self):
        self.fakes.describe(SIMULATED)
        printed = self.printed_with(0, "--sim", "--only", "sanitizer,ncu,peers,test")
        files = list(self.fakes.folder.glob("gpu_check-*.json"))
        self.assertEqual(len(files), 1)
        self.assertIn(f"results go to {files[0]}", printed)
        made = {s["name"]: s for s in json.loads(files[0].read_text())["steps"]}
        for name in ("sanitizer/synccheck", "ncu", "peers"):
            self.assertEqual((made[name]["result"], made[name]["detail"]), ("skipped", "needs a GPU"))
        self.assertEqual(made["test/device_test"]["detail"],
                         "2 passed, 0 failed, 1 skipped; a few of them, ctest has all")
        self.assertIn("No GPU has run this", files[0].with_suffix(".txt").read_text())

    def test_programs_for_a_gpu_without_one_run_nothing(self):
        self.fakes.describe(DESCRIPTION | {"device": None, "processors": None})
        (self.fakes.folder / "tools/nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
        _, made = self.run_to(0, "--out", self.out)
        self.assertEqual({s["result"] for name, s in made.items() if name != "environment"}, {"skipped"})

    def test_resume_goes_on_with_what_is_missing(self):
        count = self.fakes.folder / "count"
        self.fakes.gtest("kv_pool_test", before=f"printf x >> {count}")
        (self.fakes.folder / "tools/ncu").rename(self.fakes.folder / "ncu")
        _, made = self.run_to(0, "--out", self.out, "--only", "test/kv_pool_test,ncu")
        self.assertFalse(json.loads(self.out.read_text())["complete"])
        self.assertEqual(made["ncu"]["result"], "skipped")
        (self.fakes.folder / "ncu").rename(self.fakes.folder / "tools/ncu")
        printed, made = self.run_to(0, "--resume", self.out)
        self.assertTrue(json.loads(self.out.read_text())["complete"])
        self.assertEqual(count.read_text(), "x")
        self.assertRegex(printed, r"test/kv_pool_test +ok .*\(kept\)")
        self.assertEqual(made["ncu"]["result"], "ok")  # what was skipped is tried again
        self.run_to(0, "--resume", self.out, "--only", "test/kv_pool_test")
        self.assertEqual(count.read_text(), "xx")

    def test_when_the_time_is_over_the_rest_is_forgone(self):
        self.fakes.shell("bin/swap_test", "sleep 1000")
        printed, made = self.run_to(0, "--out", self.out, "--minutes", ".01", "--only", "test")
        self.assertIn("the time was over before", made["test/swap_test"]["detail"])
        self.assertEqual(made["test/device_test"]["detail"], "the time is over")
        self.assertTrue(made["test/device_test"]["forgone"])
        self.assertIn("Not complete", printed)
        self.fakes.gtest("swap_test")
        self.refuses("another set of programs", "--resume", self.out)

    def test_resume_refuses_what_is_not_of_here(self):
        self.run_to(0, "--out", self.out, "--only", "copy")
        report = json.loads(self.out.read_text())
        for key, name in (("gpu", "GPU"), ("commit", "commit"), ("programs", "set of programs")):
            other = report | {"environment": report["environment"] | {key: "other"}}
            self.out.write_text(json.dumps(other))
            self.refuses(f"was made with another {name}: other", "--resume", self.out)

    def test_resume_refuses_what_is_no_report(self):
        self.run_to(0, "--out", self.out, "--only", "copy")
        report = json.loads(self.out.read_text())
        figures = [s | {"figures": [{"what": 1}]} for s in report["steps"]]
        for text, why in (("{", "is not JSON"), ("[]", "is no file of"),
                          ('{"schema": "tuck-bench/1"}', "is no file of"),
                          (json.dumps(report | {"steps": {}}), "no steps"),
                          (json.dumps(report | {"steps": [{"name": "copy"}]}), "a step that is none"),
                          (json.dumps(report | {"steps": figures}), "figures that cannot be read"),
                          (json.dumps(report | {"steps": [report["steps"][0] | {"figures": None}]}),
                           "figures that cannot be read"),
                          (json.dumps(report | {"steps": 2 * report["steps"]}), "a step twice"),
                          (json.dumps(report | {"predictions": [1]}), "predictions that cannot be read")):  # fmt: skip
            with self.subTest(text=text[:40]):
                self.out.write_text(text)
                self.refuses(why, "--resume", self.out)
        self.out.unlink()
        self.refuses("No such file", "--resume", self.out)

    def test_places_that_cannot_be_written_to_are_refused_at_once(self):
        self.refuses("cannot be written", "--out", self.fakes.folder / "nowhere" / "h200.json")
        self.refuses("ends in .json", "--out", self.fakes.folder / "h200.txt")
        self.out.write_text("mine")
        self.refuses("is there already", "--out", self.out)

    def test_bad_usage(self):
        for words in (("--only", "nonsense"), ("--minutes", "0"), ("--minutes", "nan"), ("--sim",),
                      ("--out", "a.json", "--resume", "b.json")):  # fmt: skip
            with self.subTest(words=words):
                self.printed_with(2, *words)
        (self.fakes.folder / "bin" / "tuck-experiments").unlink()
        self.refuses("build the target gpu_check", "--out", self.out)

    def test_a_driver_that_is_too_old_is_named(self):
        self.fakes.describe(DESCRIPTION | {"device": None})
        self.refuses("the driver may be too old", "--out", self.out)

    def test_an_interrupt_keeps_what_is_complete(self):
        begun = self.fakes.folder / "begun"
        self.fakes.shell("bin/device_test", f"touch {begun}; sleep 1000")
        running = subprocess.Popen(self.fakes.command("--out", self.out, "--only", "copy,test/device_test"), text=True,
                                   env=self.fakes.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        while not begun.exists() and running.poll() is None:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        printed, _ = running.communicate(timeout=30)
        self.assertEqual(running.returncode, 130, printed)
        self.assertIn("--resume", printed)
        self.assertEqual(list(self.steps()), ["build", "environment", "copy"])
        self.assertEqual([path.name for path in self.out.parent.glob(".h200*")], [])

    def test_recordings_that_are_not_there_are_refused_at_once(self):
        printed = self.printed_with(2, "--out", self.out, "--only", "dense", "--recordings", self.out.parent / "nothing")
        self.assertIn("nothing is no folder", printed)
        self.assertFalse(self.out.exists())

    def test_the_list_has_every_step(self):
        printed = self.printed_with(0, "--list")
        for step in steps.STEPS:
            self.assertIn(step.name, printed)

    def test_steps_take_no_longer_than_they_may(self):
        self.assertEqual(len({step.name for step in steps.STEPS}), len(steps.STEPS))
        self.assertTrue(all(step.seconds < 90 for step in steps.STEPS))
        for half in (steps.FIRST_HALF, steps.SECOND_HALF):
            self.assertLess(sum(step.seconds for step in half), 60 * steps.MINUTES)


class Simulated(unittest.TestCase):
    def test_the_simulator_s_build_runs_end_to_end(self):
        if BUILD is None or not (BUILD / "bin" / "tuck-experiments").is_file():
            self.skipTest("needs the folder of a build on the simulator whose target gpu_check was built")
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch) / "sim.json"
            command = [sys.executable, PROGRAM, "--sim", "--prebuilt", BUILD, "--out", out, "--minutes", "120"]
            ran = subprocess.run(command, text=True, capture_output=True, timeout=1000)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            report = json.loads(out.read_text())
        skipped = {step["name"] for step in report["steps"] if step["result"] == "skipped"}
        needs_gpu = {step.name for step in steps.STEPS if step.gpu_only}
        self.assertLessEqual(needs_gpu, skipped)
        self.assertFalse([step for step in report["steps"] if step["forgone"]])


class Constants(unittest.TestCase):
    folder = ROOT / "test" / "ptx" / "time"

    def test_names_are_those_of_the_model(self):
        text = (self.folder / "machine.hpp").read_text().partition("struct constant")[0]
        declared = re.findall(r"^  (?:double|std::string|int|bool) ([^;]*);", text, re.M)
        known = {word.split("=")[0].strip() for text in declared for word in text.split(",")}
        named = [name for name, *_ in constants.CONSTANTS]
        self.assertEqual(len(set(named)), len(named))
        self.assertLessEqual({*named, *constants.NOT_MEASURED}, known)
        self.assertFalse(set(named) & set(constants.NOT_MEASURED))
        sizes = {"name", "title", "source", "calibrated", "arch", "ghz", "processors", "registers", "shared_bytes",
                 "threads", "blocks", "reserved_bytes", "l1_bytes"}  # of sheets and guides
        self.assertEqual(known - {*named, *constants.NOT_MEASURED}, sizes)

    def test_records_are_those_of_the_experiment(self):
        text = (PROGRAM.parent / "machine_experiments.cu").read_text()
        chains = set(re.findall(r"^  X\((\w+), \d", text, re.M))
        for _, what, _, made in constants.CONSTANTS:
            self.assertTrue(what in chains or f'"{what}"' in text, what)
            self.assertTrue(not isinstance(made, str) or made in chains)

    def test_a_report_becomes_lines_of_the_table(self):
        figures = [{"what": "logic", "latency_clocks": 4.5, "clocks_each": 0.5, "first_code_clocks": 33},
                   {"what": "vote", "latency_clocks": 12.0}, {"what": "shuffle", "clocks_each": 1.0},
                   {"what": "sleep", "of_asked": 1.25}]  # fmt: skip
        made = constants.lines({"steps": [{"name": "machine", "figures": figures}]},
                               "machine h100() {\n  m.alu = 5, m.vote = 8;\n  return m; m.alu = 9;")
        self.assertEqual(made, [
            "m.alu = 4.5;  // measured; the H100's is 5", "m.alu_every = 2;  // measured; the H100's is nan",
            "m.vote = 7.5;  // measured; the H100's is 8", "m.shuffle_every = 1;  // measured; the H100's is nan",
            "m.first_code = 33;  // measured; the H100's is nan", "m.sleep = 1.25;  // measured; the H100's is nan"])
        self.assertEqual(constants.earlier((self.folder / "machines.cpp").read_text()).keys() &
                         {"alu", "l2_bytes", "next_block"}, {"alu", "l2_bytes", "next_block"})  # fmt: skip


class Programs(unittest.TestCase):
    def test_a_process_that_no_signal_reaches_does_not_stop_the_check(self):
        class Stuck:
            pid = 1 << 30  # of nothing

            def poll(self):
                return None

            def wait(self, timeout=60):
                raise subprocess.TimeoutExpired("stuck", timeout)

        programs.stop(Stuck())


class Files(unittest.TestCase):
    def test_a_write_that_fails_leaves_the_old_file(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "a.json"
            reports.write(path, "old")
            with self.assertRaises(UnicodeEncodeError):
                reports.write(path, "new \ud800")
            self.assertEqual(path.read_text(), "old")
            self.assertEqual([entry.name for entry in Path(scratch).iterdir()], ["a.json"])


if __name__ == "__main__":
    unittest.main()
