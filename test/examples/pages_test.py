#!/usr/bin/env python3
"""examples/kv_cache in Python: tuck_pages.py, and the small language model. pages_test.py LIBTUCK_PAGES LIBPAGES_DEVICE"""

import ctypes
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "kv_cache"))
LIBRARY, SIMULATOR = sys.argv[1:3]

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

import tuck_pages

VALUES, SLOT, PAGES, SLOTS, CHUNK = 2048, 3584, 3, 4, 512
RESULT = np.dtype([("bytes", "u8"), ("bound", "f8"), ("status", "u4"), ("form", "u4")])


class Simulator:
    def __init__(self):
        self.functions = ctypes.CDLL(SIMULATOR, ctypes.RTLD_GLOBAL)
        self.functions.pages_device_allocate.restype = ctypes.c_void_p
        self.functions.pages_device_wait.argtypes = [ctypes.c_void_p]
        self.functions.pages_device_waits.restype = ctypes.c_uint64
        self.functions.pages_host_frame.restype = ctypes.c_uint64
        self.functions.pages_host_frame.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_double,
                                                    ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64]

    def array(self, values):
        values = np.ascontiguousarray(values)
        memory = (ctypes.c_ubyte * values.nbytes).from_address(
            self.functions.pages_device_allocate(ctypes.c_size_t(values.nbytes)))
        made = np.ctypeslib.as_array(memory).view(values.dtype).reshape(values.shape)
        made[...] = values
        return made

    def wait(self):
        return self.functions.pages_device_wait(None)

    def frame(self, values, bound):
        room = np.zeros(SLOT, np.uint8)
        size = self.functions.pages_host_frame(values.ctypes.data, values.size, bound, CHUNK, room.ctypes.data, SLOT)
        return room[:size]


simulator = Simulator()
library = tuck_pages.Library(LIBRARY)


def config(**changes):
    fields = dict(type=tuck_pages.BF16, page_values=VALUES, page_stride=2 * VALUES, page_count=PAGES, slot_bytes=SLOT,
                  slot_stride=SLOT, slot_count=SLOTS, chunk_values=CHUNK, most_pairs=4)
    return tuck_pages.Config(**{**fields, **changes})


class Pages(unittest.TestCase):
    def setUp(self):
        normal = np.random.default_rng(1).normal(size=(PAGES, VALUES)).astype(np.float32)
        self.pages = simulator.array((normal.view(np.uint32) >> 16).astype(np.uint16))
        self.slots = simulator.array(np.zeros((SLOTS, SLOT), np.uint8))
        self.results = simulator.array(np.zeros(4, RESULT))

    def run_pairs(self, call, c, pairs, source, target):
        size = library.workspace_bytes(c)
        workspace = simulator.array(np.zeros(size, np.uint8))
        on_device = simulator.array(np.array(pairs, np.int32))
        library.initialize(c, workspace, size, 0)
        before = simulator.functions.pages_device_waits()
        call(c, on_device, len(pairs), source, target, self.results, workspace, size, 0)
        self.assertEqual(simulator.functions.pages_device_waits(), before)
        self.assertEqual(simulator.wait(), 0)
        return self.results[:len(pairs)].copy()

    def test_lossless_pages_come_back(self):
        c = config()
        written = self.run_pairs(library.encode, c, [[3, 0], [0, 2], [1, 5]], self.pages, self.slots)
        self.assertEqual(written["status"].tolist(), [tuck_pages.OK, tuck_pages.OK, tuck_pages.BAD_INDEX])
        self.assertEqual(written["form"].tolist(), [tuck_pages.LOSSLESS, tuck_pages.LOSSLESS, tuck_pages.RAW])
        for slot, page, size in ((3, 0, written["bytes"][0]), (0, 2, written["bytes"][1])):
            expected = simulator.frame(self.pages[page], 0)
            self.assertEqual(self.slots[slot, :size].tobytes(), expected.tobytes())
        before = self.pages.copy()
        self.pages[...] = 0
        read = self.run_pairs(library.decode, c, [[1, 3], [2, 0]], self.slots, self.pages)
        self.assertEqual(read["status"].tolist(), [tuck_pages.OK] * 2)
        self.assertTrue((self.pages[1:] == before[[0, 2]]).all())
        self.assertTrue((self.pages[0] == 0).all())

    def test_bounds_hold(self):
        c = config(loss=tuck_pages.OF_RANGE, bound=1e-2, slot_bytes=2048)
        written = self.run_pairs(library.encode, c, [[0, 0], [1, 1]], self.pages, self.slots)
        self.assertEqual(written["form"].tolist(), [tuck_pages.BOUNDED] * 2)
        self.assertEqual(self.slots[1, :written["bytes"][1]].tobytes(), simulator.frame(self.pages[1], 1e-2).tobytes())
        before = self.pages.copy()
        self.run_pairs(library.decode, c, [[1, 0], [0, 1]], self.slots, self.pages)
        numbers = [(p.astype(np.uint32) << 16).view(np.float32) for p in (before[[0, 1]], self.pages[[1, 0]])]
        error = np.abs(numbers[0] - numbers[1]).max(axis=1)
        self.assertTrue((error <= written["bound"]).all())
        self.assertTrue((error > 0).all())
        spans = numbers[0].max(axis=1) - numbers[0].min(axis=1)
        self.assertTrue((written["bound"] <= 1e-2 * spans).all())

    def test_8_bit_floats_come_back(self):
        c = config(type=tuck_pages.F8E5M2, page_stride=VALUES, slot_bytes=2048)
        pages = simulator.array((self.pages >> 8).astype(np.uint8))
        written = self.run_pairs(library.encode, c, [[0, 0], [1, 1]], pages, self.slots)
        self.assertEqual(written["form"].tolist(), [tuck_pages.LOSSLESS] * 2)
        self.assertTrue((written["bytes"] < VALUES).all())
        before = pages.copy()
        self.run_pairs(library.decode, c, [[1, 0], [0, 1]], self.slots, pages)
        self.assertTrue((pages[[1, 0]] == before[[0, 1]]).all())
        with self.assertRaises(ValueError):
            library.encode(c, self.slots, 1, pages[:2], self.slots, self.results, 0, 0, 0)
        with self.assertRaises(tuck_pages.PagesError) as refused:
            library.workspace_bytes(config(type=tuck_pages.F8E4M3, loss=tuck_pages.POINTWISE, bound=1e-2))
        self.assertEqual(refused.exception.status, tuck_pages.NO_BOUNDS)

    def test_what_does_not_fit_is_refused(self):
        written = self.run_pairs(library.encode, config(slot_bytes=1024), [[0, 0]], self.pages, self.slots)
        self.assertEqual(written["status"].tolist(), [tuck_pages.NO_FIT])
        read = self.run_pairs(library.decode, config(), [[1, 0]], self.slots, self.pages)
        self.assertGreaterEqual(read["status"][0], 32)

    def test_misuse_has_a_name(self):
        for changes, status in (({"type": 1}, 16), ({"slot_stride": 8}, 1), ({"loss": 2, "bound": -1.0}, 11)):
            with self.assertRaises(tuck_pages.PagesError) as refused:
                library.workspace_bytes(config(**changes))
            self.assertEqual(refused.exception.status, status)
            self.assertEqual(str(refused.exception), library.message(status))
        self.assertEqual(library.worst_slot_bytes(config(type=1)), 0)
        self.assertGreater(library.worst_slot_bytes(config()), 2 * VALUES)

    def test_numbers_are_not_cut(self):
        for changes in ({"type": tuck_pages.BF16 + 2**32}, {"type": -2**31 - 1}, {"loss": 2**32},
                        {"chunk_values": 2**32 + CHUNK}, {"most_pairs": -1}, {"page_count": 2**64 + PAGES}):
            with self.assertRaisesRegex(ValueError, f"{list(changes)[0]}: .* does not fit into (32|64) bits"):
                config(**changes)
        c, size = config(), library.workspace_bytes(config())
        workspace, pairs = simulator.array(np.zeros(size, np.uint8)), simulator.array(np.zeros((1, 2), np.int32))
        library.initialize(c, workspace, size, 0)
        for count, room in ((2**32 + 1, size), (-1, size), (1, size + 2**64)):
            for call in (library.encode, library.decode):
                with self.assertRaisesRegex(ValueError, "does not fit"):
                    call(c, pairs.ctypes.data, count, self.pages.ctypes.data, self.slots.ctypes.data,
                         self.results.ctypes.data, workspace.ctypes.data, room, 0)
        with self.assertRaisesRegex(ValueError, "workspace_bytes: .* does not fit into 64 bits"):
            library.initialize(c, workspace.ctypes.data, size + 2**64, 0)

    def test_wrong_buffers_are_refused(self):
        c = config()
        right = dict(pairs=np.array([[0, 0], [1, 1]], np.int32), pages=self.pages, slots=self.slots,
                     results=self.results)
        wrong = [dict(pairs=right["pairs"].astype(np.int64)), dict(pairs=right["pairs"][:1]),
                 dict(pairs=np.zeros((2, 4), np.int32)[:, ::2]), dict(pages=self.pages[:, :-1]),
                 dict(pages=self.pages[1:]), dict(slots=self.slots[1:]), dict(slots=self.slots[:, 16:]),
                 dict(results=self.results[:1]), dict(results=self.results[::2])]
        if torch is not None:
            wrong += [dict(pairs=torch.zeros(2, 2)[:1]), dict(pairs=torch.zeros(2, 2, dtype=torch.int64)),
                      dict(pages=torch.from_numpy(self.pages.view(np.int16)).t())]
        workspace = simulator.array(np.zeros(library.workspace_bytes(c), np.uint8))
        library.initialize(c, workspace, workspace.size, 0)
        for changes in wrong:
            b = {**right, **changes}
            with self.assertRaises(ValueError):
                library.encode(c, b["pairs"], 2, b["pages"], b["slots"], b["results"], workspace, workspace.size, 0)
            with self.assertRaises(ValueError):
                library.decode(c, b["pairs"], 2, b["slots"], b["pages"], b["results"], workspace, workspace.size, 0)
        for size in (-1, workspace.size + 1):
            with self.assertRaises(ValueError):
                library.initialize(c, workspace, size, 0)
        self.assertTrue((self.slots == 0).all())


@unittest.skipIf(torch is None, "there is no PyTorch")
class LanguageModel(unittest.TestCase):
    def test_lossless_pages_give_the_same_tokens_and_bounds_hardly_others(self):
        import lm
        torch.set_num_threads(1)
        plans = {name: lm.PLANS[name] for name in ("lossless", "within 1e-2", "within 3e-2")}
        found, tokens = lm.compare(lm.load(), library, lm.Device(SIMULATOR), windows=4, plans=plans, prompts=1)
        raw, lossless = found["raw"], found["lossless"]
        self.assertLess(raw[0], 20)  # it has learnt something: chance is 128
        self.assertEqual(lossless[:2], (raw[0], tokens))
        self.assertEqual(lossless[3], {tuck_pages.RAW: 0, tuck_pages.LOSSLESS: sum(lossless[3].values()),
                                       tuck_pages.BOUNDED: 0})
        for name in ("within 1e-2", "within 3e-2"):
            print(f"perplexity: raw {raw[0]:.4f}, {name} of the range {found[name][0]:.4f}")
            self.assertLess(abs(found[name][0] / raw[0] - 1), .02)
            self.assertNotEqual(found[name][0], raw[0])
            self.assertGreater(found[name][2], 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
