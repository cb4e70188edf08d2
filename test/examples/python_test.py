#!/usr/bin/env python3
"""The installed package tuck, without the source tree: arrays, PyTorch where it is installed, errors, threads, fork, and
the program. python.sh runs it."""

import ctypes
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import tuck

try:
    import resource
except ImportError:
    resource = None
try:
    import torch
except ImportError:
    torch = None

NAMES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]


def sparse(shape=(30, 500), dtype=np.float32):
    random = np.random.default_rng(1)
    return (random.standard_normal(shape) * (random.random(shape) < 0.4) * 50).astype(dtype)


class Arrays(unittest.TestCase):
    def test_every_codec_and_type_restores_the_array(self):
        for codec in tuck.codecs():
            bound = tuck.absolute(0.5) if codec.is_lossy else None
            for name in NAMES:
                x = sparse(dtype=name)
                short = {"float": "f", "uint": "u", "int": "i", "bool": "u8"}[name.rstrip("0123456789")]
                short += name.lstrip("floatuinb")
                if short not in codec.dtypes:
                    with self.assertRaisesRegex(tuck.DtypeError, "not " + (name if name == "bool" else short)):
                        tuck.encode(x, codec.name, bound=bound)
                    continue
                y = tuck.decode(tuck.encode(x, codec.name, bound=bound))
                self.assertEqual((y.shape, y.dtype), (x.shape, x.dtype))
                if codec.is_lossy:
                    self.assertLessEqual(np.abs(y.astype(float) - x.astype(float)).max(), 0.5)
                else:
                    self.assertEqual(y.tobytes(), x.tobytes(), (codec.name, name))

    def test_shapes(self):
        for x in [np.float32(3), np.zeros((), np.int8), np.zeros((3, 0, 2), np.float16), np.zeros(0), np.ones((2, 3, 4)),
                  np.array([True, False])]:
            y = tuck.decode(tuck.encode(x))
            self.assertEqual(y.shape, x.shape)
            self.assertEqual(y.tobytes(), x.tobytes())

    def test_out(self):
        x = sparse()
        room = np.zeros(tuck.max_frame_bytes(x), np.uint8)
        frame = tuck.encode(x, out=room)
        self.assertTrue(np.shares_memory(frame, room))
        self.assertEqual(frame.tobytes(), tuck.encode(x).tobytes())
        y = np.empty_like(x)
        self.assertIs(tuck.decode(frame, out=y), y)
        self.assertIs(tuck.decode_into(frame, y), y)
        self.assertTrue((x == y).all())

    def test_frames_may_be_any_bytes(self):
        x = sparse()
        frame = tuck.encode(x)
        for form in (bytes, bytearray, lambda f: memoryview(f.tobytes())):
            self.assertTrue((tuck.decode(form(frame)) == x).all())

    def test_integers_stand_for_floats(self):
        x = (sparse().view(np.uint32) >> 16).astype(np.uint16)
        frame = tuck.encode(x, "codebooks", dtype="bf16")
        self.assertEqual(tuck.info(frame).dtype, "bf16")
        y = tuck.decode(frame)
        self.assertEqual((y.dtype, y.tobytes()), (np.uint16, x.tobytes()))
        with self.assertRaisesRegex(tuck.DtypeError, "16 bits"):
            tuck.encode(sparse(), dtype="bf16")
        with self.assertRaisesRegex(tuck.DtypeError, "'e3m4'"):
            tuck.encode(x, dtype="e3m4")

    def test_info(self):
        x = sparse((7, 9))
        seen = tuck.info(tuck.encode(x, "quantize", bound=tuck.range_relative(1e-2), checksums=True))
        self.assertEqual((seen.dtype, seen.shape, seen.codec, seen.values), ("f32", (7, 9), "quantize", 63))
        self.assertEqual(seen.bound, tuck.range_relative(1e-2))
        self.assertTrue(seen.has_checksums)
        self.assertIsNone(tuck.info(tuck.encode(x)).bound)

    def test_batches(self):
        tensors = {"a": sparse((3, 5)), "b": np.arange(10)}
        restored = tuck.decode_batch(tuck.encode_batch(tensors))
        for name, x in tensors.items():
            self.assertTrue((restored[name] == x).all())
        out = [np.zeros_like(x) for x in tensors.values()]
        self.assertIs(tuck.decode_batch(tuck.encode_batch(list(tensors.values())), out=out)[1], out[1])
        self.assertTrue((out[0] == tensors["a"]).all())
        self.assertTrue((tuck.decode_batch(tuck.encode_batch([tensors["a"]]))[0] == tensors["a"]).all())


    def test_digest(self):
        x = sparse()
        self.assertEqual(tuck.digest(x), tuck.digest(x.tobytes()))
        self.assertNotEqual(tuck.digest(x), tuck.digest(x + 1))


class Deltas(unittest.TestCase):
    def setUp(self):
        self.base = sparse()
        self.x = self.base.copy()
        self.x[::10, ::50] += 1
        self.delta = tuck.encode_delta(self.x, self.base)

    def test_delta(self):
        self.assertLess(self.delta.size, self.x.nbytes / 20)
        self.assertTrue((tuck.apply_delta(self.delta, self.base) == self.x).all())
        self.assertTrue(tuck.info(self.delta).is_delta)
        in_place = self.base.copy()
        self.assertIs(tuck.apply_delta(self.delta, in_place, out=in_place), in_place)
        self.assertTrue((in_place == self.x).all())

    def test_out(self):
        for view, how in ((np.float32, {}), (np.uint16, {"dtype": "bf16"})):
            x, base = self.x.view(view), self.base.view(view)
            room = np.empty(tuck.max_frame_bytes(x, None, is_delta=True, **how), np.uint8)
            frame = tuck.encode_delta(x, base, out=room, **how)
            self.assertIs(frame.base, room)
            self.assertEqual(frame.tobytes(), tuck.encode_delta(x, base, **how).tobytes())
        with self.assertRaises(tuck.OutputTooSmallError):
            tuck.encode_delta(self.x, self.base, out=room[:100])

    def test_batches(self):
        bases = {"w": self.base.copy(), "i": np.arange(9), "unused": self.x}
        deltas = tuck.encode_delta_batch({"w": self.x, "i": bases["i"]}, bases)
        self.assertIs(tuck.apply_delta_batch(deltas, bases, out=bases)["w"], bases["w"])
        self.assertTrue((bases["w"] == self.x).all())
        with self.assertRaisesRegex(tuck.WrongBaseError, "'w'"):
            tuck.apply_delta_batch(deltas, bases)
        with self.assertRaisesRegex(tuck.DtypeError, "tensor 1"):
            tuck.encode_batch([self.x, self.x.astype(complex)])
        for error, text, of in [(tuck.SizeError, "^bases has 2 elements, tensors has 1", [self.x, self.x]),
                                (TypeError, "^bases: pass a list", {0: self.x})]:
            with self.assertRaisesRegex(error, text):
                tuck.encode_delta_batch([self.x], of)
        for name, call in [("bases", lambda: tuck.encode_delta_batch({"w": self.x}, {"v": self.x})),
                           ("bases", lambda: tuck.apply_delta_batch(deltas, {"w": self.x})),
                           ("out", lambda: tuck.apply_delta_batch(deltas, bases, out={"w": self.x}))]:
            with self.assertRaisesRegex(KeyError, f"{name}: there is no '[wi]', which (tensors|deltas) has"):
                call()

    def test_tied_arrays_in_a_batch(self):
        for like in (np.array,) if torch is None else (np.array, torch.tensor):
            w, v, x = like(self.base), like(self.base), like(self.x)
            server = {"emb": w, "v": v, "head": w}
            deltas = tuck.encode_delta_batch(dict.fromkeys(server, x), server)
            made = tuck.apply_delta_batch(deltas, server, out=server)
            self.assertTrue(made["emb"] is w and made["head"] is w)
            self.assertTrue((w == x).all() and (v == x).all())
            w[...] = v[...] = like(self.base)
            tuck.apply_delta_batch([deltas["v"]] * 3, [v, v[:], v], out=[v, v[:], v])  # other objects, the same memory
            self.assertTrue((v == x).all())

    def test_batches_write_all_or_nothing(self):
        w, v, other = self.base.copy(), self.base.copy(), tuck.encode_delta(self.x + 1, self.base)
        wrong, half = self.x.copy(), self.base.copy().reshape(-1)
        part = tuck.encode_delta(half[:200], half[1:201])
        for deltas, arrays, bases, error, name in [
                ([self.delta, self.delta, self.delta], [v, wrong, w], None, tuck.WrongBaseError, 1),
                ([self.delta, self.delta[: self.delta.size // 2], self.delta], [v, self.x, w], None,
                 tuck.DamagedFrameError, 1),
                ([self.delta, self.delta, other], [v, w, w], None, tuck.OverlapError, 2),
                ([self.delta, self.delta], [w, w[:]], [w, self.base], None, None),
                ([self.delta, part], [w, w.reshape(-1)[1:201]], None, tuck.OverlapError, "[01]"),
                ([self.delta, self.delta], [w, v], [w, w], tuck.OverlapError, "[01]"),
                ([self.delta, self.delta], [w, self.delta[:0]], [w, v], tuck.TuckError, 1)]:
            w[...] = v[...] = self.base
            call = lambda: tuck.apply_delta_batch(deltas, arrays if bases is None else bases, out=arrays)  # noqa: E731
            if error is None:
                call()
                self.assertTrue((w == self.x).all())
                continue
            with self.assertRaisesRegex(error, f"tensor {name}"):
                call()
            self.assertTrue((w == self.base).all() and (v == self.base).all())

    def test_checksums_are_always_there(self):
        x = [self.x]
        self.assertEqual(tuck.encode_delta(self.x, self.base, checksums=True).tobytes(), self.delta.tobytes())
        self.assertEqual(tuck.encode_delta_batch(x, [self.base], checksums=True)[0].tobytes(), self.delta.tobytes())
        for call in (lambda: tuck.encode_delta(self.x, self.base, checksums=False),
                     lambda: tuck.encode_delta_batch(x, x, checksums=False)):
            with self.assertRaisesRegex(tuck.TuckError, "checksums=False is not for deltas"):
                call()

    def test_wrong_base(self):
        wrong = self.base.copy()
        wrong[0, 0] += 1
        kept = wrong.copy()
        with self.assertRaises(tuck.WrongBaseError):
            tuck.apply_delta(self.delta, wrong, out=wrong)
        self.assertTrue((wrong == kept).all())
        with self.assertRaises(tuck.WrongBaseError):
            tuck.apply_delta(self.delta, self.base[:3], out=np.empty_like(self.base))
        with self.assertRaises(tuck.NeedsBaseError):
            tuck.decode(self.delta)
        for base in (self.base, self.base[:3]):
            with self.assertRaises(tuck.NotADeltaError):
                tuck.apply_delta(tuck.encode(self.x), base)
        for text, base in [(r"^the base has shape \(29, 500\), the tensor \(30, 500\)$", self.base[1:]),
                           ("^the base has dtype i32, the tensor f32$", self.base.view(np.int32))]:
            with self.assertRaisesRegex(tuck.SizeError, text):
                tuck.encode_delta(self.x, base)
            with self.assertRaisesRegex(tuck.SizeError, text.replace("base", "base of tensor 'a'").replace("tuck", "")):
                tuck.save(os.devnull + ".tuck", {"a": self.x}, base={"a": base})

    def check_refused(self, x, base, text, **how):
        with tempfile.TemporaryDirectory() as folder:
            for suffix, of_all in (("", {}), (" of tensor 'a'", {"dtype": {"a": how["dtype"]}} if how else {})):
                path = Path(folder) / "x.tuck"
                calls = [lambda: tuck.save(path, {"a": x}, base={"a": base}, **of_all)] if suffix else [
                    lambda: tuck.encode_delta(x, base, **how), lambda: tuck.save(path, x, base=base, **how)]
                calls += [] if suffix or how else [lambda: tuck.encode_delta_batch([x], [base])]
                for call in calls:
                    with self.assertRaisesRegex(tuck.TuckError, text.replace("base", "base" + suffix, 1)):
                        call()
                self.assertFalse(path.exists())

    def test_a_base_of_another_type_of_the_same_size(self):
        x = sparse(dtype=np.float16)
        for name in ("int16", "uint16"):
            self.check_refused(x, x.view(name), f"the base has dtype {name[0]}16, the tensor f16$")
            self.check_refused(x.view(name), x, f"the base has dtype f16, the tensor {name[0]}16$")
        self.check_refused(x.view(np.uint16), x, "the base has dtype float16; dtype='bf16' takes integers",
                           dtype="bf16")
        delta = tuck.encode_delta(x.view(np.uint16), x.view(np.int16), dtype="bf16")  # both stand for others
        self.assertEqual(tuck.info(delta).dtype, "bf16")
        if torch is None or not hasattr(torch, "float8_e5m2"):
            return
        names = {"float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "int8": "i8", "uint8": "u8", "bfloat16": "bf16",
                 "float16": "f16", "int16": "i16"}
        values = torch.ones(500, dtype=torch.uint8)
        for name, of in names.items():
            for other, of_other in names.items():
                x, base = values.to(getattr(torch, name)), values.to(getattr(torch, other))
                if name != other and x.element_size() == base.element_size():
                    self.check_refused(x, base, f"the base has dtype {of_other}, the tensor {of}$")
        x, other = values.to(torch.float8_e4m3fn), values.to(torch.float8_e5m2)
        for call in (lambda: tuck.encode(other, dtype="f8e4m3"), lambda: tuck.encode_delta(x, other, dtype="f8e4m3")):
            with self.assertRaisesRegex(tuck.DtypeError, "has dtype torch.float8_e5m2; dtype='f8e4m3' is for integers"):
                call()
        with tempfile.TemporaryDirectory() as folder:
            tuck.save(folder + "/x.tuck", {"a": x}, base={"a": x})
            with self.assertRaisesRegex(tuck.TuckError, "the base of tensor 'a' has dtype f8e5m2, the frame f8e4m3"):
                tuck.load(folder + "/x.tuck", base={"a": x.view(torch.float8_e5m2)})


class Errors(unittest.TestCase):
    def test_calls(self):
        x = sparse()
        frame = tuck.encode(x, checksums=True)
        both = np.zeros(x.nbytes, np.uint8)
        both[: frame.size] = frame
        locked = np.zeros(x.nbytes, np.uint8)
        locked.flags.writeable = False
        for error, call in [
                (tuck.UnknownCodecError, lambda: tuck.encode(x, "nope")),
                (tuck.BoundError, lambda: tuck.encode(x, "quantize")),
                (tuck.BoundError, lambda: tuck.encode(x, bound=tuck.absolute(1))),
                (tuck.BoundError, lambda: tuck.encode(x, "quantize", bound=tuck.absolute(0))),
                (TypeError, lambda: tuck.encode(x, "quantize", bound=1e-3)),
                (TypeError, lambda: tuck.encode(x, 3)),
                (TypeError, lambda: tuck.encode([1, 2])),
                (tuck.ContiguityError, lambda: tuck.encode(x.T)),
                (tuck.ContiguityError, lambda: tuck.encode(x[:, ::2])),
                (tuck.ByteOrderError, lambda: tuck.encode(x.astype(">f4"))),
                (tuck.DtypeError, lambda: tuck.encode(x.astype(complex))),
                (tuck.DtypeError, lambda: tuck.encode(np.array(["a"]))),
                (tuck.DtypeError, lambda: tuck.encode(np.array([None]))),
                (tuck.OutputTooSmallError, lambda: tuck.encode(x, out=np.empty(200, np.uint8))),
                (tuck.ReadOnlyError, lambda: tuck.encode(x, out=locked)),
                (tuck.ReadOnlyError, lambda: tuck.encode(x, out=bytes(x.nbytes))),
                (tuck.OverlapError, lambda: tuck.encode(x, out=x.view(np.uint8))),
                (tuck.SizeError, lambda: tuck.decode(frame, out=np.empty(3, np.float32))),
                (tuck.DtypeError, lambda: tuck.decode(frame, out=np.empty(x.shape, np.float64))),
                (tuck.DtypeError, lambda: tuck.decode(frame, out=np.empty(x.shape, np.int32))),
                (tuck.DtypeError, lambda: tuck.encode(x, out=np.empty(x.size, np.float32))),
                (tuck.OverlapError, lambda: tuck.decode(both[:frame.size], out=both.view(np.float32))),
                (tuck.DamagedFrameError, lambda: tuck.decode(b"hello")),
                (tuck.DamagedFrameError, lambda: tuck.decode(frame[:-1])),
        ]:
            with self.assertRaises(error):
                call()
        self.assertTrue(issubclass(tuck.TuckError, ValueError))

    def test_texts(self):
        x = sparse()
        frame, delta = tuck.encode(x), tuck.encode_delta(x, x)
        for error, text, call in [
                (tuck.UnknownCodecError, "'zcv'; there are zvc, rle,", lambda: tuck.encode(x, "zcv")),
                (tuck.DtypeError, "complex128; tuck takes u8,", lambda: tuck.encode(x.astype(complex))),
                (tuck.DtypeError, "datetime64", lambda: tuck.encode(np.zeros(3, "datetime64[s]"))),
                (tuck.DtypeError, "float32; dtype='bf16' takes integers", lambda: tuck.encode(x, dtype="bf16")),
                (TypeError, "^dtype: .*bf16", lambda: tuck.encode(x, dtype=np.float32)),
                (TypeError, "^codec: ", lambda: tuck.encode(x, ["zvc"])),
                (TypeError, "^codec: ", lambda: tuck.encode(x, "\ud800")),
                (tuck.UnknownCodecError, r"'zvc\?a'; there are", lambda: tuck.encode(x, "zvc\0a")),
                (TypeError, "^bound: ", lambda: tuck.encode(x, "quantize", bound=tuck.Bound(0, "a"))),
                (tuck.TuckError, "^threads: .* 1024", lambda: tuck.encode(x, threads=-1)),
                (TypeError, "^threads: .* str", lambda: tuck.decode(frame, threads="1")),
                (TypeError, "^the tensor is None", lambda: tuck.encode(None)),
                (TypeError, "^the frame is of type str.*load", lambda: tuck.decode("x.tuck")),
                (tuck.DamagedFrameError, "^the frame is truncated$", lambda: tuck.decode(frame[:-1])),
                (tuck.NeedsBaseError, "apply_delta", lambda: tuck.decode(delta)),
                (tuck.NotADeltaError, "decode", lambda: tuck.apply_delta(frame, x)),
                (tuck.DtypeError, "^the base has dtype int32", lambda: tuck.apply_delta(delta, x.view(np.int32))),
                (tuck.ContiguityError, "^tensor 1 is not .*ascontiguous", lambda: tuck.encode_batch([x, x.T])),
                (TypeError, "^frames: pass a list or a dict", lambda: tuck.decode_batch(frame)),
                (tuck.UnknownCodecError, "'f32:zvc'; by type it is 'f32=zvc'", lambda: tuck.encode(x, "f32:zvc")),
                (tuck.UnknownCodecError, "save of a dict", lambda: tuck.encode(x, "f32=zvc")),
                (tuck.BoundError, r"tuck.absolute\(v\), tuck.range_relative\(v\) or tuck.pointwise\(v\)",
                 lambda: tuck.encode(x, "quantize")),
                (tuck.BoundError, "^a bound is positive and finite, not nan", lambda: tuck.pointwise(float("nan"))),
                (tuck.DtypeError, "^out has dtype bool, the frame u8",
                 lambda: tuck.decode(tuck.encode(np.array([2], np.uint8)), out=np.zeros(1, bool))),
                (TypeError, "^x: .* not list", lambda: tuck.save("a.safetensors", [x])),
        ]:
            with self.assertRaisesRegex(error, text):
                call()

    def test_nothing_of_an_array_is_lost(self):
        class Array(np.ndarray):
            pass

        class WithDlpack:
            def __dlpack__(self, **how):
                return sparse().astype(np.complex64).__dlpack__(**how)

            def __dlpack_device__(self):
                return (1, 0)

        x = sparse()
        self.assertEqual(tuck.decode(tuck.encode(x.view(Array))).tobytes(), x.tobytes())
        self.assertEqual(tuck.decode(tuck.encode(np.float32(3))), 3)
        numbers = (ctypes.c_float * 4 * 3)()  # has no strides
        numbers[1][2] = 5
        self.assertEqual(tuck.decode(tuck.encode(numbers)).tolist(), np.array(numbers).tolist())
        pair = np.zeros(3, [("a", "i1"), ("b", "i1")])
        for error, text, call in [
                (TypeError, r"^the tensor is a masked array; encode x\.data and x\.mask", lambda: tuck.encode(
                    np.ma.masked_array(x, x > 3))),
                (TypeError, r"^out is a masked array; pass out\.data", lambda: tuck.decode(
                    tuck.encode(x), out=np.ma.masked_array(x))),
                (tuck.ByteOrderError, "big-endian", lambda: tuck.encode(x.astype(">f4").view(Array))),
                (tuck.DtypeError, "'a', 'i1'", lambda: tuck.encode(pair, dtype="bf16")),
                (tuck.DtypeError, "object", lambda: tuck.digest(np.array([None]))),  # else that of a pointer
                (tuck.DtypeError, "has dtype 5 of DLPack with 64 bits", lambda: tuck.encode(WithDlpack())),
                (tuck.ContiguityError, "not contiguous", lambda: tuck.encode(np.broadcast_to(np.float32(3), (4, 5)))),
                (tuck.ContiguityError, "not contiguous", lambda: tuck.encode(x[::-1])),
        ]:
            with self.assertRaisesRegex(error, text):
                call()

    def test_what_models_are_given(self):
        from tuck.training import Advisor, BoundController

        advisor, bounds = Advisor(1e9, 1e9, 1), BoundController()
        self.assertEqual((advisor.add(np.int64(5), hidden_in=1), bounds.bound), (0, 1e-4))
        for error, text, call in [
                (TypeError, "^d2h: pass a number, not 'fast'$", lambda: Advisor("fast", 1e9, 1)),
                (TypeError, "^codecs: pass a whole number, not 1.5$", lambda: Advisor(1e9, 1e9, 1.5)),
                (ValueError, "^codecs: pass a number from 0", lambda: Advisor(1e9, 1e9, -1)),
                (TypeError, "missing 1 required positional argument", lambda: Advisor(1e9, 1e9)),
                (TypeError, "^hidden_out: .*None$", lambda: advisor.add(1, None)),
                (ValueError, "^tensor: .*-1$", lambda: advisor.decide(-1, 0.5)),
                (TypeError, "^ratio: ", lambda: advisor.measured(0, 0, 0.5, 0, 0, "2")),
                (ValueError, "^share: pass a positive, finite number, not 0$", lambda: BoundController(share=0)),
                (TypeError, "^refresh: pass a whole number", lambda: BoundController(refresh="often")),
                (TypeError, "^iteration: ", lambda: bounds.wants(None)),
                (TypeError, "^batch: ", lambda: bounds.update(1, 0.1, [], 1, 1)),
        ]:
            with self.assertRaisesRegex(error, text):
                call()

    @unittest.skipIf(find_spec("mypy") is None, "there is no mypy")
    def test_types(self):
        # Reading all of PyTorch takes longer than all other tests.
        how = (b"[mypy]\ndisable_error_code = overload-cannot-match\n[mypy-torch.*]\nfollow_imports = skip\n"
               b"ignore_missing_imports = True\n")
        run = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", os.devnull, "--config-file", "/dev/stdin",
                              "-p", "tuck"], input=how, stdout=subprocess.PIPE, cwd=Path(tuck.__file__).parent.parent)
        self.assertEqual(run.returncode, 0, run.stdout.decode())

    def test_names(self):
        self.assertEqual(set(dir(tuck)), {*tuck.__all__, "streams", "training", "__doc__", "__version__"})
        self.assertTrue(tuck.training.encode_job)
        self.assertRaises(AttributeError, lambda: tuck.nothing)
        code = "import sys, tuck; sys.exit('numpy' in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_damage(self):
        x = sparse()
        frame = tuck.encode(x, checksums=True)
        random = np.random.default_rng(2)
        found = 0
        for _ in range(2000):
            bad = frame.copy()
            bad[random.integers(bad.size)] ^= random.integers(1, 256)
            try:
                y = tuck.decode(bad)
            except (tuck.TuckError, MemoryError):
                found += 1
            else:
                self.assertEqual(y.tobytes(), x.tobytes())
        self.assertGreater(found, 1500)


class Processes(unittest.TestCase):
    def test_threads(self):
        x = sparse((200, 1000))
        wanted = tuck.encode(x, "zvc+huffman").tobytes()
        wrong = []

        def work():
            for _ in range(5):
                frame = tuck.encode(x, "zvc+huffman", threads=2)
                if frame.tobytes() != wanted or not (tuck.decode(frame, threads=2) == x).all():
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertFalse(wrong)

    def test_fork(self):
        x = sparse()
        frame = tuck.encode(x)
        child = os.fork()
        if child == 0:
            os._exit(0 if (tuck.decode(frame, threads=0) == x).all() else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    # The threads wait for the interpreter's lock in a call, also in Python code that the extension calls.
    def test_exit_while_daemon_threads_are_in_calls(self):
        code = """if True:
            import sys, threading, time
            import numpy as np, tuck, tuck.training
            x, path = np.zeros(1 << 18, np.float32), sys.argv[1] + "/x.tuck"
            frame, delta, out = tuck.encode(x), tuck.encode_delta(x, x), np.empty_like(x)
            tuck.save(path, x)
            tuck.save(sys.argv[1] + "/all.tuck", {"x": x})
            class Slow:
                def __dlpack__(self, **how):
                    for _ in range(100): time.sleep(0)  # gives the lock away
                    return x.__dlpack__(**how)
                def __index__(self):
                    for _ in range(100): time.sleep(0)  # gives the lock away
                    return 1
            def job(made):
                made.start()
                made.wait()
            def refused():
                try: tuck.encode(np.zeros(1, "M8[s]"))
                except tuck.DtypeError: pass
            calls = [lambda: tuck.encode(x), lambda: tuck.decode(frame, out=out), lambda: tuck.digest(x),
                     lambda: tuck.save(path, x), lambda: tuck.load(path), lambda: tuck.load(sys.argv[1] + "/all.tuck"),
                     lambda: tuck.save(sys.argv[1] + "/all.tuck", {"x": x}), lambda: tuck.encode_delta(x, x),
                     lambda: tuck.apply_delta(delta, x), lambda: tuck.encode_batch([x, x]),
                     lambda: job(tuck.training.encode_job(x)), lambda: job(tuck.training.decode_job(frame, out)),
                     lambda: tuck.training.encode_job(x).start(), lambda: tuck.encode(Slow()),
                     lambda: tuck.encode(x[:9], threads=Slow()), refused]
            def forever(call):
                while True: call()
            for call in calls[int(sys.argv[2])::2]:
                threading.Thread(target=forever, args=(call,), daemon=True).start()
            time.sleep(0.3)
            """
        with tempfile.TemporaryDirectory() as folder:
            for half in "01":
                ran = subprocess.run([sys.executable, "-c", code, folder, half], stderr=subprocess.PIPE)
                self.assertEqual((ran.returncode, ran.stderr), (0, b""))

    @unittest.skipIf(resource is None or resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY,
                     "no stack of any size can be asked for")
    def test_goes_on_without_threads(self):
        """Stacks of 128 TiB cannot be had, as where the system has no more threads."""
        def limit():
            resource.setrlimit(resource.RLIMIT_STACK, (1 << 47, resource.RLIM_INFINITY))

        script = """if True:
            import sys, threading
            import numpy as np, tuck
            x = np.load(sys.argv[1])
            try:
                threading.Thread(target=print).start()
            except RuntimeError:
                for codec in "zvc+huffman", "deflate":
                    frame = tuck.encode(x, codec, threads=4)
                    assert frame.tobytes() == tuck.encode(x, codec).tobytes()
                    assert (tuck.decode(frame, threads=4) == x).all()
                    job = tuck.training.encode_job(x, codec)
                    job.start()
                    assert not job.is_done and job.wait()[0] > 0
            else:
                sys.exit("threads start")
            """
        x = sparse((400, 1000))
        with tempfile.TemporaryDirectory() as folder:
            path, tuck_program = Path(folder), [sys.executable, "-m", "tuck"]
            np.save(path / "x.npy", x)
            for words in ([sys.executable, "-c", script, path / "x.npy"],
                          [*tuck_program, "encode", "--threads", "4", path / "x.npy", path / "y.tuck"],
                          [*tuck_program, "decode", "--threads", "4", path / "y.tuck", path / "y.npy"]):
                done = subprocess.run(words, preexec_fn=limit, stderr=subprocess.PIPE, text=True,
                                      cwd=Path(tuck.__file__).parent.parent,
                                      env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((np.load(path / "y.npy") == x).all())

    def test_files_and_the_program(self):
        x = sparse()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            tuck.save(path / "x.tuck", x, "rle")
            self.assertTrue((tuck.load(path / "x.tuck") == x).all())
            program = [sys.executable, "-m", "tuck"]
            subprocess.run([*program, "decode", path / "x.tuck", path / "x.npy"], check=True)
            self.assertTrue((np.load(path / "x.npy") == x).all())
            subprocess.run([*program, "encode", "--codec", "zvc", path / "x.npy", path / "y.tuck"], check=True)
            self.assertTrue((tuck.load(path / "y.tuck") == x).all())
            ran = subprocess.run([*program, "encode", "--on", "device", path / "x.npy", path / "z.tuck"],
                                 stderr=subprocess.PIPE)
            self.assertNotEqual(ran.returncode, 0)
            self.assertIn(b"no GPU code", ran.stderr)
            self.assertEqual(sorted(p.name for p in path.iterdir()), ["x.npy", "x.tuck", "y.tuck"])
            with self.assertRaises(OSError):
                tuck.save(path / "missing" / "x.tuck", x)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        random = np.random.default_rng(3)
        self.tensors = {"bits": random.random((3, 5)) < 0.5, "a": sparse(), "b/0": sparse((40, 50), np.int16),
                        "scalar": np.array(7.0), "none": np.zeros((0, 3), np.float16),
                        "noise": random.integers(0, 255, 4001).astype(np.uint8)}

    def same(self, seen, tensors):
        self.assertEqual(set(seen), set(tensors))
        for name, x in tensors.items():
            self.assertEqual((seen[name].dtype, seen[name].shape), (x.dtype, x.shape), name)
            self.assertEqual(seen[name].tobytes(), x.tobytes(), name)

    def run_program(self, *arguments):
        subprocess.run([sys.executable, "-m", "tuck", *arguments], check=True, stdout=subprocess.DEVNULL, cwd=self.folder)

    def test_many_tensors(self):
        for name in ("m.tuck", "m.safetensors"):
            path = self.folder / name
            self.assertEqual(tuck.save(path, self.tensors, "rle"), {})
            self.assertLess(path.stat().st_size, sum(x.nbytes for x in self.tensors.values()))
            self.same(tuck.load(path), self.tensors)
            self.assertEqual(list(tuck.load(path)), list(self.tensors))
            self.same(tuck.load(path, names=["none", "a"]), {k: self.tensors[k] for k in ("a", "none")})
            self.same(tuck.load(path, names="bits"), {"bits": self.tensors["bits"]})
            with self.assertRaisesRegex(KeyError, "'c'; it has 'bits', 'a',"):
                tuck.load(path, names=["a", "c"])
            self.run_program("verify", path)
        # The program reads and writes the same.
        self.run_program("decode", "m.tuck", "plain.safetensors")
        self.same(tuck.load(self.folder / "plain.safetensors"), self.tensors)
        self.run_program("decode", "m.tuck", "arrays/")
        for name, x in self.tensors.items():
            seen = np.load(self.folder / "arrays" / f"{name}.npy")
            self.assertEqual((seen.dtype, seen.shape, seen.tobytes()), (x.dtype, x.shape, x.tobytes()))
        self.run_program("encode", "arrays", "packed.safetensors")
        self.same(tuck.load(self.folder / "packed.safetensors"), self.tensors)
        self.run_program("encode", "--codec", "rle", "plain.safetensors", "again.safetensors")
        self.assertEqual((self.folder / "again.safetensors").read_bytes(), (self.folder / "m.tuck").read_bytes())

    def test_codecs_by_type(self):
        path = self.folder / "m.tuck"
        left = tuck.save(path, self.tensors, "f32=quantize,i16=rle", bound=tuck.absolute(0.5))
        self.assertEqual(left, {"bits": "no codec for u8, as booleans are", "scalar": "no codec for f64", "none": "no codec for f16",
                                "noise": "no codec for u8"})
        seen = tuck.load(path)
        self.assertLessEqual(np.abs(seen["a"] - self.tensors["a"]).max(), 0.5)
        self.same({**seen, "a": self.tensors["a"]}, self.tensors)
        for error, codec, bound in [(tuck.BoundError, "f32=quantize", None), (tuck.BoundError, "quantize", None),
                                    (tuck.BoundError, "*=zvc", tuck.absolute(1)), (tuck.UnknownCodecError, "nope", None),
                                    (tuck.UnknownCodecError, "f32=nope", None), (tuck.UnknownCodecError, "e3=zvc", None)]:
            with self.assertRaises(error):
                tuck.save(path, self.tensors, codec, bound=bound)

    def test_types_that_numpy_has_not(self):
        path, bits = self.folder / "m.tuck", (sparse().view(np.uint32) >> 16).astype(np.uint16)
        tuck.save(path, {"w": bits, "v": bits}, "bf16=codebooks,*=zvc", dtype={"w": "bf16"})
        self.same(tuck.load(path), {"w": bits, "v": bits})
        if torch is not None:
            seen = tuck.load(path, names=["w"], torch=True)
            self.assertEqual(seen["w"].dtype, torch.bfloat16)
            tuck.save(path, seen)
            self.assertEqual(tuck.load(path, torch=True)["w"].view(torch.int16).tolist(), bits.view(np.int16).tolist())

    def test_errors(self):
        path, x = self.folder / "m.tuck", sparse()
        for error, call in [
                (tuck.TuckError, lambda: tuck.save(self.folder / "m.npz", {"a": x})),
                (tuck.TuckError, lambda: tuck.save(self.folder / "m.safetensors", x)),
                (tuck.TuckError, lambda: tuck.save(self.folder / "x.npy", x)),
                (tuck.TuckError, lambda: tuck.save(path, {"__metadata__": x})),
                (tuck.BoundError, lambda: tuck.save(path, {"a": x}, "quantize", bound=tuck.absolute(-1))),
                (KeyError, lambda: tuck.save(path, {"a": x}, dtype={"b": "bf16"})),
                (KeyError, lambda: tuck.save(path, {"a": x}, base={"b": x})),
                (TypeError, lambda: tuck.save(path, {"a": x}, base={"a": None})),
                (tuck.ContiguityError, lambda: tuck.save(path, {"a": x.T})),
                (tuck.DtypeError, lambda: tuck.save(path, {"a": x.astype(complex)})),
                (TypeError, lambda: tuck.save(path, {3: x})),
                (TypeError, lambda: tuck.save(path, {"a": [1]})),
                (TypeError, lambda: tuck.save(path, {"a": x}, dtype="bf16")),
                (FileNotFoundError, lambda: tuck.load(self.folder / "missing.tuck")),
                (ValueError, lambda: tuck.load("a\0b")),
        ]:
            with self.assertRaises(error):
                call()
        self.assertEqual(list(self.folder.iterdir()), [])
        tuck.save(path, self.tensors)
        whole = path.read_bytes()
        for bad in (whole[:-1], whole + b"0", whole[:-100] + bytes(100), whole[:20] + b"x" + whole[21:], b"TUCK"):
            path.write_bytes(bad)
            with self.assertRaises(tuck.DamagedFrameError):
                tuck.load(path)
        np.save(self.folder / "x.npy", x)
        np.savez(self.folder / "x.npz", x)
        (self.folder / "x.tuck").write_bytes((self.folder / "x.npz").read_bytes())
        for name, text in [("x.npy", "numpy.load"), ("x.npz", "no .npz archives"), ("x.tuck", "numpy.load")]:
            with self.assertRaisesRegex(tuck.DamagedFrameError, text):
                tuck.load(self.folder / name)

    def test_deltas(self):
        new = {name: x.copy() for name, x in self.tensors.items()}
        new["a"][::3, ::7] += 1
        one, many = self.folder / "a.tuck", self.folder / "m.safetensors"
        self.assertEqual(tuck.save(one, new["a"], base=self.tensors["a"]), {})
        tuck.save(many, new, base=self.tensors)
        self.assertLess(max(one.stat().st_size, many.stat().st_size), 12000)
        self.same({"a": tuck.load(one, base=self.tensors["a"])}, {"a": new["a"]})
        self.same(tuck.load(many, base=self.tensors), new)
        np.save(self.folder / "base.npy", self.tensors["a"])
        tuck.encode_delta(new["a"], self.tensors["a"]).tofile(one)  # is the same
        self.run_program("decode", "--base", "base.npy", "a.tuck", "new.npy")
        self.assertTrue((np.load(self.folder / "new.npy") == new["a"]).all())
        if torch is not None:
            self.assertTrue((tuck.load(one, base=self.tensors["a"], torch=True).numpy() == new["a"]).all())
        for error, call in [
                (tuck.NeedsBaseError, lambda: tuck.load(many)), (tuck.NeedsBaseError, lambda: tuck.load(one)),
                (tuck.WrongBaseError, lambda: tuck.load(many, base=new)), (KeyError, lambda: tuck.load(many, base={})),
                (tuck.WrongBaseError, lambda: tuck.load(one, base=new["a"])), (TypeError, lambda: tuck.load(one, base={})),
                (tuck.SizeError, lambda: tuck.save(many, {"a": new["a"]}, base={"a": new["a"][1:]})),
                (tuck.BoundError, lambda: tuck.save(many, new, base=new, bound=tuck.absolute(1)))]:
            with self.assertRaises(error):
                call()


    def test_fortran_order(self):
        x = sparse((30, 40))
        base, new = np.asfortranarray(x), np.asfortranarray(x + (x > 40))
        np.save(self.folder / "base.npy", base)
        np.save(self.folder / "new.npy", new)
        self.run_program("encode", "new.npy", "new.tuck")
        self.run_program("encode", "--base", "base.npy", "new.npy", "delta.tuck")
        frame, delta = (np.fromfile(self.folder / name, np.uint8) for name in ("new.tuck", "delta.tuck"))
        self.assertTrue(tuck.info(frame).fortran_order)
        self.assertFalse(tuck.info(tuck.encode(x)).fortran_order)
        out = np.empty(x.shape, x.dtype, "F")
        for seen in (tuck.decode(frame), tuck.decode(frame, out=out), tuck.load(self.folder / "new.tuck"),
                     tuck.load(self.folder / "delta.tuck", base=base), tuck.apply_delta(delta, base),
                     tuck.apply_delta(delta, base, out=out), tuck.apply_delta(delta, base.copy("F"))):
            self.assertTrue((seen == new).all() and seen.flags.f_contiguous)
        wrong = [lambda: tuck.decode(frame, out=x.copy()), lambda: tuck.decode(frame, out=x.ravel()),
                 lambda: tuck.apply_delta(delta, x), lambda: tuck.apply_delta(delta, base, out=x.copy()),
                 lambda: tuck.load(self.folder / "delta.tuck", base=x)]
        if torch is not None:
            out = torch.empty(40, 30).t()
            self.assertEqual(tuck.decode(frame, out=out).tolist(), new.tolist())
            self.assertEqual(tuck.apply_delta(delta, torch.from_numpy(base)).tolist(), new.tolist())
            wrong.append(lambda: tuck.decode(frame, out=torch.empty(30, 40)))
        for call in wrong:
            with self.assertRaisesRegex(tuck.ContiguityError, "in Fortran order; (out|the base) must be"):
                call()

    def test_handlers_of_signals_stay(self):
        path = self.folder / "x.tuck"
        code = ("import os, signal, sys, tuck, numpy\n"
                "signal.signal(signal.SIGTERM, lambda *_: print('handled', flush=True))\n"
                "tuck.save(sys.argv[1], numpy.zeros(9))\n"
                "os.kill(os.getpid(), signal.SIGTERM)\n"
                "try: os.kill(os.getpid(), signal.SIGINT)\n"
                "except KeyboardInterrupt: print('interrupted')\n")
        ran = subprocess.run([sys.executable, "-c", code, path], stdout=subprocess.PIPE, check=True)
        self.assertEqual(ran.stdout.split(), [b"handled", b"interrupted"])


@unittest.skipIf(torch is None, "there is no PyTorch")
class Torch(unittest.TestCase):
    def test_types(self):
        names = ["float32", "float64", "float16", "bfloat16", "uint8", "int8", "int16", "int32", "int64", "bool",
                 "float8_e4m3fn", "float8_e5m2"]
        for name in names:
            if not hasattr(torch, name):
                continue
            x = torch.from_numpy(sparse()).to(getattr(torch, name))
            frame = tuck.encode(x)
            self.assertIsInstance(frame, torch.Tensor)
            y = tuck.decode(frame)
            self.assertEqual(y.shape, x.shape)
            self.assertEqual(y.dtype, x.dtype)
            self.assertEqual(y.float().tolist(), x.float().tolist())

    def test_autograd_and_views(self):
        x = torch.from_numpy(sparse()).requires_grad_()
        self.assertTrue((tuck.decode(tuck.encode(x)) == x).all())
        with self.assertRaisesRegex(tuck.ContiguityError, r"x\.contiguous\(\)"):
            tuck.encode(x.t())
        z = torch.complex(x.detach(), x.detach() + 1).conj().imag  # has the negative bit
        self.assertTrue((tuck.decode(tuck.encode(z.contiguous())) == z).all())
        x = x.detach()
        for what, wrong in [("sparse", x.to_sparse()), ("quantized", torch.quantize_per_tensor(x, 1, 0, torch.quint8)),
                            ("nested", torch.nested.nested_tensor([x, x])), ("complex64", torch.complex(x, x).conj())]:
            with self.assertRaisesRegex(tuck.DtypeError, what):
                tuck.encode(wrong)
        if hasattr(torch, "uint4"):
            with self.assertRaisesRegex(tuck.DtypeError, "uint4"):
                tuck.encode(torch.empty(4, dtype=torch.uint4))
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            fake = torch.empty(3)
        for what, wrong in [("Tensor on meta", torch.empty(3, device="meta")), ("FakeTensor on cpu", fake)]:
            with self.assertRaisesRegex(tuck.DeviceError, f"no memory of its own.*{what}"):
                tuck.encode(wrong)
        if hasattr(torch, "func"):
            with self.assertRaisesRegex(tuck.DeviceError, "no memory"):
                torch.func.vmap(tuck.encode)(x)
        frame, y = tuck.encode(x.detach()), torch.empty(x.shape)
        for wrong in (torch._neg_view(y), torch._efficientzerotensor(x.shape), torch.nested.nested_tensor([y, y])):
            with self.assertRaises(tuck.DtypeError):
                tuck.decode(frame, out=wrong)
        (y.untyped_storage() if hasattr(y, "untyped_storage") else y.storage()).resize_(0)
        for call in (lambda: tuck.decode(frame, out=y), lambda: tuck.encode(y), lambda: tuck.digest(y)):
            self.assertRaises(tuck.DeviceError, call)

    def test_tensors_of_other_classes(self):
        class Image(torch.Tensor):
            pass

        x = torch.from_numpy(sparse())
        for of in (x, torch._neg_view(x), x.bfloat16()):
            frame = tuck.encode(of.as_subclass(Image))
            self.assertIs(type(frame), torch.Tensor)
            self.assertEqual(tuck.decode(frame).tolist(), of.tolist())
        out = torch.zeros(30, 500).as_subclass(Image)
        self.assertIs(tuck.decode(tuck.encode(x), out=out), out)
        self.assertEqual(out.tolist(), x.tolist())
        with self.assertRaisesRegex(TypeError, "Storage"):
            tuck.encode(x.untyped_storage() if hasattr(x, "untyped_storage") else x.storage())

    def test_autograd_counts_writes(self):
        x = torch.from_numpy(sparse())
        frame, delta = tuck.encode(x), tuck.encode_delta(x, x + 1)
        for write in (lambda t: tuck.decode(frame, out=t), lambda t: tuck.apply_delta(delta, x + 1, out=t)):
            for of in (lambda w: w, lambda w: w * 2, lambda w: (w.repeat(2, 1) * 2)[30:]):
                t = of(torch.ones(30, 500, requires_grad=True))
                y, version = (t * t).sum(), t._version
                write(t)
                self.assertTrue(torch.equal(t.detach(), x))
                self.assertEqual(t._version, version + 1)
                with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                    y.backward()
            with torch.inference_mode():
                t = torch.zeros(30, 500)
            self.assertTrue(torch.equal(write(t), x))
        t = torch.zeros(30, 500)
        with self.assertRaises(tuck.WrongBaseError):
            tuck.apply_delta(delta, x, out=t)
        self.assertEqual((t._version, t.count_nonzero().item()), (0, 0))

    def test_jobs(self):
        from tuck.training import decode_job, encode_job

        x = torch.from_numpy(sparse((300, 1000)))
        for started in (False, True):
            job = encode_job(x, "zvc+huffman")
            if started:
                job.start()
            size, seconds = job.wait()
            frame = torch.empty(size, dtype=torch.uint8)
            job.copy_frame(frame)
            self.assertTrue(job.is_done and seconds > 0)
            self.assertFalse(tuck.info(frame).has_checksums)  # as encode makes it
            self.assertRaises(tuck.SizeError, job.copy_frame, frame[1:])
            out = torch.empty(x.numel())
            job = decode_job(frame, out)
            if started:
                job.start()
            self.assertEqual(job.wait()[0], 0)
            self.assertTrue(torch.equal(out.view_as(x), x))
            frame[size // 2:] = 255
            self.assertRaises(tuck.DamagedFrameError, decode_job(frame, out).wait)
        jobs = [encode_job(x, "zvc+huffman") for _ in range(20)]
        for job in jobs:
            job.start()
        del job, jobs  # takes back what has not begun
        self.assertRaises(tuck.DtypeError, encode_job, x, "codebooks", dtype="f64")
        self.assertRaises(tuck.BoundError, encode_job, x, "quantize")

    @unittest.skipIf(torch is None or hasattr(torch.library, "custom_op"), "PyTorch has operators")
    def test_operators_need_a_newer_version(self):
        with self.assertRaisesRegex(ImportError, "2.4"):
            import tuck.ops  # noqa: F401

    def test_deltas(self):
        base = torch.from_numpy(sparse()).bfloat16()
        x = base.clone()
        x[::10, ::50] += 1
        delta = tuck.encode_delta(x, base)
        self.assertTrue((tuck.apply_delta(delta, base) == x).all())
        tuck.apply_delta(delta, base, out=base)
        self.assertTrue((base == x).all())


@unittest.skipIf(torch is None or not hasattr(torch.library, "custom_op"), "there is no PyTorch 2.4 or newer")
class Operators(unittest.TestCase):
    def setUp(self):
        import tuck.ops  # noqa: F401

        self.x = torch.from_numpy(sparse())

    def test_the_frame_is_that_of_encode(self):
        frame, size = torch.ops.tuck.encode(self.x, "rle")
        self.assertEqual(frame[:size].tolist(), tuck.encode(self.x, "rle").tolist())
        self.assertTrue(torch.equal(torch.ops.tuck.decode(frame, self.x.shape, self.x.dtype), self.x))
        frame, size = torch.ops.tuck.encode(self.x, "quantize", *tuck.absolute(0.5))
        self.assertLessEqual((torch.ops.tuck.decode(frame, self.x.shape, self.x.dtype) - self.x).abs().max(), 0.5)
        with self.assertRaises(tuck.SizeError):
            torch.ops.tuck.decode(frame, [3], self.x.dtype)

    def test_opcheck(self):
        for x in (self.x, self.x.bfloat16(), self.x > 0, self.x[0, 0], self.x[:0]):
            torch.library.opcheck(torch.ops.tuck.encode.default, (x, "zvc"))
            frame, _ = torch.ops.tuck.encode(x, "zvc")
            torch.library.opcheck(torch.ops.tuck.decode.default, (frame, list(x.shape), x.dtype))

    def test_graphs(self):
        def both(x):
            frame, size = torch.ops.tuck.encode(x * 2, "zvc")
            return torch.ops.tuck.decode(frame, x.shape, x.dtype) + size

        compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
        for x in (self.x, self.x[:7], self.x[:9]):  # the second one makes the shape dynamic
            self.assertTrue(torch.equal(compiled(x), both(x)))
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            frame, size = torch.ops.tuck.encode(torch.empty(30, 500), "zvc")
            y = torch.ops.tuck.decode(frame, [30, 500], torch.float32)
        self.assertEqual(frame.numel(), tuck.max_frame_bytes(self.x))
        self.assertEqual((tuple(size.shape), size.dtype, tuple(y.shape)), ((), torch.int64, (30, 500)))


if __name__ == "__main__":
    unittest.main()
