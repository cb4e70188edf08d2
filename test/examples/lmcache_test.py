#!/usr/bin/env python3
"""tuck.lmcache: pages of LMCache through its interface of serdes. Where LMCache is not installed, a stand-in has the
same calls; the first line that is printed says which of the two it was."""

import ctypes
import sys
import threading
import types
import unittest
from math import prod

try:
    import torch
    import tuck
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def width(dtype):  # PyTorch 1.13 has no itemsize
    return torch.empty(0, dtype=dtype).element_size()


def stand_in():
    """The modules that tuck.lmcache imports, and what the tests need of LMCache, with the same names and calls."""
    factories = {}

    class AsyncSerdeProcessor:
        def __init__(self, serializer, deserializer, max_workers=1):
            self._serializer, self._deserializer = serializer, deserializer
            self._done, self.max_workers = {}, max_workers

        def _run(self, call, *columns):
            self._done[len(self._done)] = True
            try:
                for row in zip(*columns):
                    call(*row)
            except Exception:
                self._done[len(self._done) - 1] = False
            return len(self._done) - 1

        def submit_serialize(self, sources, targets, keys):
            return self._run(lambda src, dst, key: dst.set_used_size(self._serializer.serialize(src, dst, key)),
                             sources, targets, keys)

        def submit_deserialize(self, sources, targets, keys):
            return self._run(self._deserializer.deserialize, sources, targets, keys)

        def query_serialize_result(self, task):
            return self._done[task]

        query_deserialize_result = query_serialize_result

        def estimate_serialized_size(self, layout):
            return self._serializer.estimate_serialized_size(layout)

        def close(self):
            pass

    class TensorMemoryObj:
        def __init__(self, raw_data, metadata, parent_allocator):
            self.raw_data, self.metadata, self._used, self.valid = raw_data, metadata, None, True

        def set_used_size(self, n):
            self._used = n

        def get_size(self):
            return self._used if self._used is not None else sum(
                prod(shape) * width(dtype) for shape, dtype in zip(self.metadata.shapes, self.metadata.dtypes))

        def get_tensor(self, i):
            sizes = [prod(shape) * width(dtype) for shape, dtype in zip(self.metadata.shapes, self.metadata.dtypes)]
            part = self.raw_data[sum(sizes[:i]):sum(sizes[:i + 1])]
            return part.view(self.metadata.dtypes[i]).view(self.metadata.shapes[i]) if self.valid else None

        @property
        def byte_array(self):  # as LMCache has it: of ctypes, whose format is "<B"
            return memoryview((ctypes.c_ubyte * self.get_size()).from_address(self.raw_data.data_ptr()))

        def invalidate(self):
            self.valid = False

    def create(config):
        return factories[config.type](config.kwargs)

    serde = {"async_processor": {"AsyncSerdeProcessor": AsyncSerdeProcessor},
             "base": {"Serializer": object, "Deserializer": object,
                      "SerdeConfig": lambda type, kwargs: types.SimpleNamespace(type=type, kwargs=kwargs)},
             "factory": {"register_serde_factory": factories.__setitem__, "create_serde_processor": create}}
    modules = {"v1.distributed.api": {"MemoryLayoutDesc": lambda shapes, dtypes: types.SimpleNamespace(
                   shapes=shapes, dtypes=dtypes)},
               "v1.memory_management": {"TensorMemoryObj": TensorMemoryObj, "MemoryObjMetadata": lambda **fields:
                                        types.SimpleNamespace(**fields)},
               **{f"v1.distributed.serde.{name}": of for name, of in serde.items()}}
    for name, of in modules.items():
        parts = f"lmcache.{name}".split(".")
        for i in range(1, len(parts) + 1):
            sys.modules.setdefault(".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
        vars(sys.modules[".".join(parts)]).update(of)


try:
    import lmcache.v1.distributed.serde  # noqa: F401
    print("LMCache itself")
except ImportError as missing:
    print(f"a stand-in for LMCache: {missing}")
    stand_in()

import tuck.lmcache
from lmcache.v1.distributed.api import MemoryLayoutDesc
from lmcache.v1.distributed.serde.base import SerdeConfig
from lmcache.v1.distributed.serde.factory import create_serde_processor
from lmcache.v1.memory_management import MemoryObjMetadata, TensorMemoryObj

SHAPE = (2, 4, 64, 128)  # keys and values, layers, tokens, channels
F8 = [getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)]


def memory(shapes, dtypes):
    shapes = [torch.Size(shape) for shape in shapes]
    size = sum(shape.numel() * width(dtype) for shape, dtype in zip(shapes, dtypes))
    of = MemoryObjMetadata(shape=shapes[0], dtype=dtypes[0], address=0, phy_size=size, ref_count=1, shapes=shapes,
                           dtypes=dtypes)
    return TensorMemoryObj(torch.zeros(size, dtype=torch.uint8), of, None)


def pages(shapes, dtypes):
    made = memory(shapes, dtypes)
    for i, (shape, dtype) in enumerate(zip(shapes, dtypes)):
        made.get_tensor(i).copy_(torch.randn(shape, generator=torch.Generator().manual_seed(i)).mul(3).to(dtype))
    return made


class Serde(unittest.TestCase):
    def make(self, **options):
        made = create_serde_processor(SerdeConfig("tuck", options))
        self.addCleanup(made.close)
        return made

    def result(self, query, task):
        for _ in range(1000):
            done = query(task)
            if done is not None:
                return done
            threading.Event().wait(0.01)
        self.fail("the serde does not answer")

    def store(self, serde, source, room=None):
        layout = MemoryLayoutDesc(source.metadata.shapes, source.metadata.dtypes)
        most = serde.estimate_serialized_size(layout) if room is None else room
        to = memory([(most,)], [torch.uint8])
        return to, self.result(serde.query_serialize_result, serde.submit_serialize([source], [to], [None]))

    def load(self, serde, stored, shapes, dtypes):
        to = memory(shapes, dtypes)
        return to, self.result(serde.query_deserialize_result, serde.submit_deserialize([stored], [to], [None]))

    def test_pages_come_back(self):
        for dtypes, least in (([torch.bfloat16], 1.4), ([torch.float16], 1.1), *(([f8], 1.05) for f8 in F8),
                              ([torch.bfloat16, torch.float32, torch.int8], 1.1)):  # groups of layers
            with self.subTest(dtypes=dtypes):
                shapes, serde = [SHAPE[i:] for i in range(len(dtypes))], self.make()
                source = pages(shapes, dtypes)
                stored, done = self.store(serde, source)
                self.assertTrue(done)
                self.assertGreater(source.get_size() / stored.get_size(), least)
                back, done = self.load(serde, stored, shapes, dtypes)
                self.assertTrue(done)
                self.assertEqual(bytes(back.byte_array), bytes(source.byte_array))

    def test_within_a_bound(self):
        serde, source = self.make(codec="quantize", range_relative=1e-2, max_workers=2), pages([SHAPE], [torch.bfloat16])
        stored, done = self.store(serde, source)
        self.assertTrue(done)
        self.assertGreater(source.get_size() / stored.get_size(), 2)
        back, _ = self.load(serde, stored, [SHAPE], [torch.bfloat16])
        x, y = source.get_tensor(0).float(), back.get_tensor(0).float()
        self.assertLessEqual((x - y).abs().max(), 1e-2 * (x.max() - x.min()))
        self.assertTrue((x != y).any())

    def test_failures_are_failures(self):
        serde, source = self.make(), pages([SHAPE], [torch.bfloat16])
        for what, of in (("no room", lambda: self.store(serde, source, room=1000)),
                         ("complex pages", lambda: self.store(serde, pages([SHAPE], [torch.complex64]), room=1 << 20))):
            stored, done = of()
            self.assertFalse(done, what)
        lossy = self.make(codec="quantize", pointwise=1e-2)
        for f8 in F8:
            self.assertFalse(self.store(lossy, pages([SHAPE], [f8]), room=1 << 20)[1])
        stored, done = self.store(serde, source)
        for shapes, dtypes in (([SHAPE], [torch.float16]), ([SHAPE[1:]], [torch.bfloat16]),
                               ([SHAPE, SHAPE], [torch.bfloat16] * 2)):
            self.assertFalse(self.load(serde, stored, shapes, dtypes)[1], (shapes, dtypes))
        for at in (0, 40, 200, stored.get_size() // 2, stored.get_size() - 100):
            stored.raw_data[at] ^= 1
            self.assertFalse(self.load(serde, stored, [SHAPE], [torch.bfloat16])[1], at)
            stored.raw_data[at] ^= 1
        self.assertTrue(self.load(serde, stored, [SHAPE], [torch.bfloat16])[1])
        stored.set_used_size(stored.get_size() // 2)
        self.assertFalse(self.load(serde, stored, [SHAPE], [torch.bfloat16])[1])
        source.invalidate()
        self.assertFalse(self.store(serde, source, room=1 << 20)[1])

    def test_options(self):
        for error, text, options in (
                (tuck.UnknownCodecError, "zip", {"codec": "zip"}), (tuck.BoundError, "quantize", {"codec": "quantize"}),
                (tuck.BoundError, "codebooks", {"codec": "codebooks", "absolute": 1.0}),
                (tuck.BoundError, "positive", {"codec": "quantize", "absolute": -1.0}),
                (ValueError, "level is no option", {"level": 3}),
                (ValueError, "more than one bound", {"codec": "quantize", "absolute": 1.0, "pointwise": 0.1}),
                (TypeError, "codec", {"codec": 5})):
            with self.assertRaisesRegex(error, text):
                self.make(**options)


if __name__ == "__main__":
    unittest.main()
