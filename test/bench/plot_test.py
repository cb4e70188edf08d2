#!/usr/bin/env python3
"""Tests of bench/plot.py, which needs Matplotlib; exits with 77 where there is none."""

import contextlib
import importlib.util
import io
import json
import math
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

PLOT = Path(__file__).parents[2] / "bench" / "plot.py"
KINDS = ("sparsity", "size", "break-even", "pareto")
KIB, MIB = 1 << 10, 1 << 20
SIZES = [4 * KIB << step for step in range(0, 20, 2)] + [1 << 30]
SPARSITIES = [0.0, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99]

# codec: (peer, GB/s of encoding and of decoding, bytes for each value that is not zero, bytes for each value, error)
CODECS = {
    "zvc": (False, 6.0, 8.0, 4.0, 0.125, 0.0),
    "rle": (False, 3.0, 5.0, 4.2, 0.06, 0.0),
    "bitpack": (False, 7.0, 9.0, 3.9, 0.3, 0.0),
    "deflate": (False, 0.25, 0.8, 3.5, 0.09, 0.0),
    "quantize": (False, 2.0, 4.0, 1.4, 0.1, 5e-4),
    "zvc+huffman": (False, 0.3, 0.9, 3.2, 0.08, 0.0),
    "zvc+rle+huffman": (False, 0.28, 0.85, 3.2, 0.05, 0.0),
    "huffman": (False, 0.22, 0.7, 3.4, 0.1, 0.0),
    "quantize+delta+zvc+huffman": (False, 0.2, 0.6, 1.2, 0.06, 5e-4),
    "delta+rle+bitpack": (False, 2.5, 3.5, 4.1, 0.2, 0.0),
    "zlib -6": (True, 0.03, 0.35, 3.45, 0.06, 0.0),
    "libdeflate -6": (True, 0.1, 0.9, 3.44, 0.06, 0.0),
    "lz4": (True, 0.7, 3.8, 3.9, 0.1, 0.0),
    "zstd -1": (True, 0.45, 1.3, 3.5, 0.07, 0.0),
    "zfp": (True, 0.3, 0.4, 1.8, 0.3, 8e-4),
}


def row(operation, codec, peer, where, size, sparsity, pattern, encoded, rate, error):
    """A row as tuck-bench writes it; without a time where the simulator is."""
    overhead = {"host": 4e-7, "gpu": 6e-6}.get(where, 0)
    seconds = None if where == "sim" else overhead + size / rate / 1e9
    return {
        "name": f"{operation}/{codec}/f32/s:{sparsity}/{pattern}/{size}/{where}", "operation": operation,
        "codec": codec, "peer": peer, "type": "f32", "sparsity": sparsity, "pattern": pattern, "raw_bytes": size,
        "where": where, "encoded_bytes": encoded, "ratio": size / encoded, "runs": 7,
        "best_seconds": seconds and seconds * 0.97, "median_seconds": seconds, "cv": seconds and 0.02,
        "gb_per_s": seconds and size / seconds / 1e9, "R": seconds and 0.5, "moved_per_byte": 1 + encoded / size,
        "max_error": error,
    }  # fmt: skip


def results(where="host", sizes=SIZES, sparsities=SPARSITIES, codecs=CODECS, full_grid=True, pattern="clustered"):
    """What a run over these axes might find: a cross of the middle size and sparsity, or all of them."""
    speedup = 60 if where == "gpu" else 1
    rows = []
    for size in sizes:
        rate = {"host": 11.0 if size > 16 * MIB else 30.0, "gpu": 2000.0}.get(where, 1.0)
        copy = "memcpy" if where == "host" else "copy"
        rows.append(row("copy", copy, False, where, size, None, None, size, rate, None))
        for sparsity in sparsities:
            if not full_grid and size != sizes[len(sizes) // 2] and sparsity != sparsities[len(sparsities) // 2]:
                continue
            for codec, (peer, encode, decode, dense, fixed, error) in codecs.items():
                encoded = round(64 + size / 4 * (dense * (1 - sparsity) + fixed))
                for operation, rate in (("encode", encode), ("decode", decode)):
                    faster = speedup * rate * (1 + 1.5 * sparsity**4)
                    rows.append(row(operation, codec, peer, where, size, sparsity, pattern, encoded, faster, error))
    device = {"name": "NVIDIA H200", "driver": "580.1", "runtime": "13.0", "clocks": "1980 MHz"}
    environment = {
        "date": "2026-11-21T23:10:00Z", "commit": "abc1234", "version": "0.1.0", "compiler": "g++ 12.2.0",
        "cpu": "Intel Xeon", "cores": 2, "threads": 1, "backend": "cuda" if where == "gpu" else "sim",
        "device": device if where == "gpu" else None, "peers": ["zlib 1.2.13"], "command": "tuck-bench --quick",
    }  # fmt: skip
    return {"schema": "tuck-bench/1", "environment": environment, "rows": rows}


def small(where="host", sizes=(MIB, 64 * MIB), sparsities=(0.5, 0.9), codecs=("zvc", "rle", "zlib -6")):
    return results(where, sizes, sparsities, {name: CODECS[name] for name in codecs})


def run(path, out, *options):
    """What plot.py says and gives."""
    command = [sys.executable, PLOT, path, "--out", out, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def run_here(path, out, *options):
    """The same, without the time a process takes."""
    sys.dont_write_bytecode = True
    with unittest.mock.patch("sys.path", [str(PLOT.parent), *sys.path]):
        import plot
    said = io.StringIO()
    words = [str(PLOT), str(path), "--out", str(out), *options]
    with unittest.mock.patch("sys.argv", words), contextlib.redirect_stderr(said):
        return plot.main(), said.getvalue()


def drawn(content):
    """{kind: figure} of what results hold of the host, as far as it is enough for one."""
    with unittest.mock.patch("sys.path", [str(PLOT.parent), *sys.path]):
        import plot
        from plotting.results import Results, TooLittle, by_way, to_row
    plot.matplotlib.rcParams.update(plot.LOOK)
    rows = by_way([to_row("row", fields) for fields in content["rows"]])
    figures = {}
    for kind, make in plot.PLOTS.items():
        with contextlib.suppress(TooLittle):
            figures[kind] = make(Results(content["environment"], rows, "host", 1.25), str)
    return figures


class PlotTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.file, self.out = Path(directory.name) / "results.json", Path(directory.name) / "plots"

    def plot(self, content, *options):
        self.file.write_text(content if isinstance(content, str) else json.dumps(content))
        return run(self.file, self.out, *options)

    def plot_here(self, content, *options):
        self.file.write_text(json.dumps(content))
        return run_here(self.file, self.out, *options)

    def written(self):
        return sorted(path.name for path in self.out.iterdir()) if self.out.exists() else []

    def expect_plots(self, *names):
        self.assertEqual(self.written(), sorted(f"{name}.{suffix}" for name in names for suffix in ("png", "svg")))
        for name in names:
            png, svg = (self.out / f"{name}.png").read_bytes(), (self.out / f"{name}.svg").read_text()
            self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
            self.assertEqual(int.from_bytes(png[16:20], "big"), 1350)
            self.assertGreater(len(png), 10000)
            self.assertIn("<text", svg)
            self.assertIn("abc1234", svg)

    def expect_refusal(self, content, reason):
        self.file.write_text(content if isinstance(content, str) else json.dumps(content))
        code, said = run_here(self.file, self.out)
        self.assertEqual(code, 2, said)
        self.assertIn(str(self.file), said)
        self.assertIn(reason, said)
        self.assertEqual(self.written(), [])

    def test_a_full_run_has_all_plots(self):
        found = self.plot(results())
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        self.expect_plots(*(f"{kind}-host" for kind in KINDS))
        self.assertIn(">zvc+rle+huffman</text>", (self.out / "sparsity-host.svg").read_text())
        size, sparsity = ((self.out / f"{name}-host.svg").read_text() for name in ("size", "sparsity"))
        for value in SPARSITIES:
            self.assertIn(f">Decode, sparsity {value:.3g}</text>", size)
        for value in ("4 KiB", "64 MiB", "1 GiB"):
            self.assertIn(f">Ratio, {value}</text>", sparsity)

    def test_what_is_drawn_can_be_chosen(self):
        self.assertEqual(self.plot_here(results(), "--sparsity", "0.6", "--size", "4KiB,1MiB,4MiB"),
                         (0, "plot.py: no sparsity-host: it needs two values of sparsity, all else equal\n"))
        size = (self.out / "size-host.svg").read_text()
        self.assertIn(">shortest call: 890 ns</text>", size)
        self.assertIn("f32, clustered zeros, sparsity 0.6", size)
        self.assertIn(">4 MiB</text>", size)
        self.assertIn("sparsity 0.6, 4 MiB (one of 3 in the file)", (self.out / "pareto-host.svg").read_text())
        code, said = self.plot_here(small(), "--size", "2MiB")
        self.assertEqual(code, 2)
        self.assertIn("no row of host has size 2 MiB; there are 1 MiB, 64 MiB", said)
        for words in (("--size", "1MB"), ("--size", ""), ("--sparsity", "x"), ("--link", "pcie9")):
            self.assertEqual(run(self.file, self.out, *words).returncode, 2, words)

    def test_nothing_is_clipped(self):
        """Every text is within its page, every value within its axes."""
        from matplotlib.text import Text

        long = results(sizes=SIZES[::3], sparsities=SPARSITIES[::2])
        long["environment"]["command"] = "tuck-bench " + " ".join(f"--codec codec-number-{i}" for i in range(40))
        for content in (long, small(), small(sizes=[MIB], sparsities=[0.5])):
            for name, fig in drawn(content).items():
                fig.draw_without_rendering()
                ticks = {label for ax in fig.axes for label in (*ax.get_xticklabels(), *ax.get_yticklabels())}
                for text in fig.findobj(lambda of: isinstance(of, Text) and of.get_visible() and of.get_text()):
                    if text not in ticks:  # some are beyond their axes, and are not drawn
                        left, bottom, right, top = text.get_window_extent().extents
                        inside = left >= -1 <= bottom and right <= fig.bbox.width + 1 and top <= fig.bbox.height + 1
                        self.assertTrue(inside, f"{name}: {text.get_text()}")
                for line in (line for ax in fig.axes for line in ax.get_lines() if line.get_color() != "#222222"):
                    for x, y in zip(*line.get_data()):
                        low, high = line.axes.get_ylim()
                        self.assertTrue(math.isnan(y) or low <= y <= high, f"{name}: {y} of {low} to {high}")
        self.assertIn("codec-number-39", "".join(t.get_text() for t in drawn(long)["pareto"].texts))

    def test_noise_is_no_fact(self):
        """Of noisy rows there are points and bars, and no lines that could cross; what swaps best is not sure."""
        noisy = small(sizes=(MIB, 4 * MIB, 64 * MIB))
        for r in noisy["rows"]:
            if r["raw_bytes"] == 4 * MIB and r["codec"] != "memcpy":
                r |= {"runs": 9, "cv": 1.08}  # as in old files
        found = drawn(noisy)
        self.assertIn("faint: noisy", "".join(text.get_text() for text in found["size"].texts))
        lines = [line for ax in found["size"].axes for line in ax.get_lines()
                 if line.get_linestyle() != "None" and line.get_color() != "#222222"]
        self.assertEqual(len(lines), 2 * 2 * 3)
        for line in lines:
            self.assertEqual([math.isnan(y) for y in line.get_ydata()], [False, True, False])
        cells = [text.get_text() for text in found["break-even"].axes[0].texts]
        self.assertEqual(sum("≈" in text for text in cells), 2, cells)

    def test_break_even_has_no_blank_halves(self):
        cross = results(sizes=[MIB, 4 * MIB, 16 * MIB], sparsities=[0.5, 0.6, 0.9], codecs={"zvc": CODECS["zvc"]})
        cross["rows"] = [r for r in cross["rows"] if r["sparsity"] != 0.6 or r["raw_bytes"] == MIB]
        fig = drawn(cross)["break-even"]
        texts = [text.get_text() for text in (*fig.texts, *fig.legends[0].get_texts())]
        self.assertNotIn("not measured", texts)
        self.assertTrue(any(text.endswith("Too few points: sparsity 0.6") for text in texts), texts)
        self.assertGreater(fig.axes[0].get_position().width, 0.85)

    def test_new_files_say_what_is_noisy(self):
        new = small(sizes=(MIB, 4 * MIB, 64 * MIB), codecs=("zvc",))
        for r in new["rows"]:
            r |= {"noisy": False, "median_low_seconds": 0.99 * r["median_seconds"],
                  "median_high_seconds": 1.02 * r["median_seconds"], "cv": 1.5}  # fmt: skip
        self.assertNotIn("noisy", "".join(text.get_text() for text in drawn(new)["size"].texts))
        new["rows"][-1]["noisy"] = True
        self.assertIn("noisy", "".join(text.get_text() for text in drawn(new)["size"].texts))
        self.file.write_text(json.dumps(new | {"rows": [new["rows"][0] | {"noisy": 1}]}))
        self.assertEqual(run_here(self.file, self.out)[0], 2)

    def test_host_and_gpu_have_plots_of_their_own(self):
        both = small()
        both["rows"] += small("gpu")["rows"] + small("sim")["rows"]
        found = self.plot(both, "--only", "break-even", "pareto")
        self.assertEqual(found.returncode, 0, found.stderr)
        self.expect_plots("break-even-host", "pareto-host", "break-even-gpu", "pareto-gpu")

    def test_a_quick_run_has_all_plots(self):
        found = self.plot(small())
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        self.expect_plots(*(f"{kind}-host" for kind in KINDS))

    def test_all_sizes_of_a_recording_are_drawn(self):
        """Each size has a share of zeros of its own, by a little."""
        recorded = small(sizes=[4 * KIB, 64 * KIB, MIB, 16 * MIB], sparsities=[0.6])
        for r in recorded["rows"]:
            r["pattern"], r["sparsity"] = "recorded", 0.6 + r["raw_bytes"] / (1 << 30)
        found = self.plot_here(recorded)
        self.assertEqual(found, (0, "plot.py: no sparsity-host: it needs two values of sparsity, all else equal\n"))
        self.expect_plots("size-host", "break-even-host", "pareto-host")
        size, swap = ((self.out / f"{name}-host.svg").read_text() for name in ("size", "break-even"))
        self.assertIn("f32, recorded, sparsity 0.6 to 0.616", size)
        for text in ("4 KiB", "64 KiB", "1 MiB", "16 MiB"):
            self.assertIn(f">{text}</text>", size)
            self.assertIn(f">{text}</text>", swap)
        self.assertEqual(swap.count("×</text>"), 4)
        self.assertNotIn("not measured", swap)

    def test_every_pattern_is_drawn(self):
        """Those that are too little for a plot are named."""
        both = small(sizes=(MIB, 16 * MIB, 64 * MIB))
        iid = results(sizes=[MIB, 64 * MIB], sparsities=[0.5, 0.9], codecs={"zvc": CODECS["zvc"]}, pattern="iid")
        smooth = results(sizes=[MIB], sparsities=[0.0], codecs={"zvc": CODECS["zvc"]}, pattern="smooth")
        both["rows"] += iid["rows"] + smooth["rows"]
        code, said = self.plot_here(both, "--only", "size", "pareto")
        self.assertEqual(code, 0, said)
        self.expect_plots("size-host", "size-host-iid", "pareto-host")
        self.assertIn(">Encode, sparsity 0.9</text>", (self.out / "size-host.svg").read_text())
        self.assertIn("iid zeros", (self.out / "size-host-iid.svg").read_text())
        self.assertEqual(said.splitlines(), [
            "plot.py: no size-host of smooth: it needs two values of raw_bytes, all else equal",
            "plot.py: no pareto-host of iid, smooth: it needs two codecs at one point"])

    def test_types_that_are_not_drawn_are_named(self):
        both = small()
        both["rows"] += [r | {"type": "bf16", "gb_per_s": r["gb_per_s"] / 2, "median_seconds": 2 * r["median_seconds"]}
                         for r in both["rows"]]
        self.assertEqual(self.plot_here(both, "--only", "size"),
                         (0, "plot.py: plots of host are of f32; --type takes bf16\n"))
        self.assertIn("f32, clustered", (self.out / "size-host.svg").read_text())
        code, said = self.plot_here(both, "--only", "size", "--type", "bf16")
        self.assertEqual((code, said), (0, "plot.py: plots of host are of bf16; --type takes f32\n"))
        self.assertIn("bf16, clustered", (self.out / "size-host.svg").read_text())
        self.assertEqual(self.plot_here(both, "--type", "u8")[0], 1)

    def test_ways_to_run_are_codecs_of_their_own(self):
        found = {
            "host": ([{"threads": 1, "cpu_level": "avx2"}, {"threads": 2, "cpu_level": "avx2"}],
                     ("zvc (avx2, 1 thread)", "zvc (avx2, 2 threads)")),
            "gpu": ([{}, {"blocks": 2}, {"blocks": 2, "chunk_bytes": 4096}],
                    ("zvc", "zvc (2 blocks)", "zvc (2 blocks, chunks of 4 KiB)")),
        }  # fmt: skip
        for where, (fields, names) in found.items():
            ways = small(where, codecs=("zvc",))
            coded = [r for r in ways["rows"] if r["operation"] != "copy"]
            ways["rows"] = [r | way for r in coded for way in fields]
            self.assertEqual(self.plot_here(ways, "--only", "size"), (0, ""))
            svg = (self.out / f"size-{where}.svg").read_text().replace("</text>", " ").replace("\n", " ")
            for text in names:
                self.assertIn(text + " ", svg)

    def test_a_file_of_gpu_check_has_its_sweep_and_the_peers(self):
        rows = small("gpu")["rows"]
        steps = [{"name": "copy", "figures": [{"what": "kernel"}]},
                 {"name": "sweep", "figures": [r for r in rows if not r["peer"]]},
                 {"name": "peers", "figures": rows}]  # fmt: skip
        check = {"schema": "tuck-gpu-check/1", "date": "2026-11-26T03:06:39Z", "steps": steps,
                 "environment": {"gpu": "NVIDIA H100", "commit": "abc1234"}}  # fmt: skip
        found = self.plot(check, "--only", "pareto")
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        self.expect_plots("pareto-gpu")
        self.assertIn(">zlib -6</text>", (self.out / "pareto-gpu.svg").read_text())
        self.assertIn("NVIDIA H100", (self.out / "pareto-gpu.svg").read_text())

    def test_what_one_point_is_too_little_for_is_said(self):
        found = self.plot(small(sizes=[MIB], sparsities=[0.5]))
        self.assertEqual(found.returncode, 0, found.stderr)
        self.expect_plots("pareto-host")
        self.assertEqual([line.split(":")[1] for line in found.stderr.splitlines()],
                         [f" no {kind}-host" for kind in KINDS[:3]])

    def test_the_link_decides_what_is_fastest(self):
        for link, factor in (("0.001", "8.32×</text>"), ("1000", ">1×</text>")):
            found = self.plot(small(), "--only", "break-even", "--link", link, "--title", "A link")
            self.assertEqual(found.returncode, 0, found.stderr)
            svg = (self.out / "break-even-host.svg").read_text()
            self.assertIn(factor, svg)
            self.assertIn(f">A link: The fastest swap over a link of {link} GB/s</text>", svg)
        self.assertEqual(self.plot_here(small(), "--only", "break-even", "--link", "pcie4")[0], 0)
        self.assertIn(">The fastest swap over PCIe 4.0 x16, 25 GB/s</text>",
                      (self.out / "break-even-host.svg").read_text())

    def test_lossy_codecs_are_named_so_and_swap_nothing(self):
        found = self.plot(small(codecs=("zvc", "quantize")), "--link", "0.01")
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertIn("lossy, errors up to 0.0005", (self.out / "pareto-host.svg").read_text())
        self.assertIn(">quantize*</text>", (self.out / "sparsity-host.svg").read_text())
        self.assertNotIn("quantize", (self.out / "break-even-host.svg").read_text())

    def test_the_same_results_give_the_same_bytes(self):
        contents = []
        for _ in range(2):
            self.assertEqual(self.plot(small(), "--only", "pareto", "size").returncode, 0)
            contents.append([(self.out / name).read_bytes() for name in self.written()])
        self.assertEqual(*contents)

    def test_a_simulator_has_nothing_to_draw(self):
        found = self.plot(small("sim"))
        self.assertEqual(found.returncode, 1)
        self.assertIn("nothing to draw", found.stderr)
        self.assertEqual(self.written(), [])

    def test_bad_files_are_refused(self):
        whole = small()
        self.expect_refusal(json.dumps(whole)[:-100], "no JSON")
        self.expect_refusal("\0", "no JSON")
        self.expect_refusal("[" * 100000, "no JSON")
        self.expect_refusal([], "schema")
        self.expect_refusal(whole | {"schema": "tuck-bench/2"}, "tuck-bench/2")
        self.expect_refusal(whole | {"rows": None}, "rows")
        self.expect_refusal(whole | {"rows": [[]]}, "row 0")
        self.expect_refusal({"schema": "tuck-gpu-check/1", "environment": {}}, "steps")
        for name, value in (("codec", None), ("raw_bytes", 0), ("raw_bytes", "1"), ("where", "../x"), ("sparsity", "a"),
                            ("ratio", float("nan")), ("gb_per_s", float("inf")), ("median_seconds", -1),
                            ("operation", "x"), ("peer", 1)):
            rows = whole["rows"][:3] + [whole["rows"][3] | {name: value}]
            self.expect_refusal(whole | {"rows": rows}, f"row 3: {name}")

    def test_rates_in_another_unit_are_refused(self):
        whole = small()
        rows = [whole["rows"][0], whole["rows"][1] | {"gb_per_s": whole["rows"][1]["gb_per_s"] * 1e9}]
        self.expect_refusal(whole | {"rows": rows}, "row 1: gb_per_s is")
        found = self.plot(whole, "--link", "25e9")
        self.assertEqual(found.returncode, 2)
        self.assertIn("25e9 is no rate in GB/s", found.stderr)

    def test_a_broken_file_is_refused_by_the_program(self):
        found = self.plot(json.dumps(small())[:-1])
        self.assertEqual((found.returncode, found.stderr.count("\n")), (2, 1), found.stderr)
        self.assertIn(str(self.file), found.stderr)
        self.assertEqual(self.written(), [])

    def test_a_missing_file_is_refused(self):
        found = run(self.file, self.out)
        self.assertEqual(found.returncode, 2)
        self.assertIn(str(self.file), found.stderr)

    def test_a_place_that_cannot_be_written_is_named(self):
        self.out.write_text("")
        found = self.plot(small())
        self.assertEqual(found.returncode, 2)
        self.assertIn(str(self.out), found.stderr)
        self.assertNotIn("Traceback", found.stderr)


if __name__ == "__main__":
    if importlib.util.find_spec("matplotlib") is None:
        print(f"skipped: {sys.executable} has no Matplotlib")
        sys.exit(77)
    unittest.main()
