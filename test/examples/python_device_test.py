#!/usr/bin/env python3
"""Arrays in device memory for the package tuck: stand-ins with CuPy's interface, DLPack, PyTorch. The same
tests run on the simulator, where tensors of the CPU play PyTorch's, and on a GPU.

    python_device_test.py [unittest's options]
    python_device_test.py --times BYTES     a line of JSON for each codec and direction

Exit code 77: this build of the package has nothing for tests."""

import contextlib
import ctypes
import json
import os
import statistics
import sys
import time
import unittest
from unittest import mock

import numpy as np
import tuck
from tuck import device

try:
    import torch
except ImportError:
    torch = None

LIBRARY = device._library()
if not hasattr(LIBRARY, "tuck_device_stream"):
    print("skipped: libtuck_device.so was built without TUCK_DEVICE_TESTS")
    sys.exit(77)
SIMULATED = hasattr(LIBRARY, "tuck_device_waits")
for name, result, arguments in (("stream", ctypes.c_void_p, 0), ("capture", ctypes.c_uint64, 1),
                                ("captured", ctypes.c_uint64, 2), ("replay", ctypes.c_uint64, 2),
                                ("waits" if SIMULATED else "hold", ctypes.c_uint64, 0 if SIMULATED else 2)):
    function = getattr(LIBRARY, f"tuck_device_{name}")
    function.restype, function.argtypes = result, [ctypes.c_void_p] * arguments
STREAM = LIBRARY.tuck_device_stream()
# Why tensors of PyTorch are not tested; "" if they are. On a GPU they are on it.
NO_TORCH = ("there is no PyTorch" if torch is None else
            "" if SIMULATED or torch.cuda.is_available() else "this PyTorch sees no GPU")


def copy(source, to, count):
    """Copies bytes from or to the device, when all that was begun is done."""
    device._check(LIBRARY.tuck_device_wait(None, None, 0, 0, STREAM))
    device._check(LIBRARY.tuck_device_wait(source, to, count, 0, device._LEGACY))


@contextlib.contextmanager
def nothing_waits(stream=STREAM):
    """Fails if a call waits for the device. The simulator counts such calls; on a GPU the stream is held meanwhile.
    What runs within has run before: a kernel that is loaded may wait."""
    if SIMULATED:
        before = LIBRARY.tuck_device_waits()
        yield
        assert LIBRARY.tuck_device_waits() == before, "a call has waited"
        return
    device._check(LIBRARY.tuck_device_wait(None, None, 0, 0, stream))
    released = ctypes.c_uint32()
    device._check(LIBRARY.tuck_device_hold(stream, ctypes.byref(released)))
    if not NO_TORCH:
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        before, released.value = released.value, 1
        if not NO_TORCH:
            torch.cuda.set_sync_debug_mode("default")
        device._check(LIBRARY.tuck_device_wait(None, None, 0, 0, stream))
    assert before == 0, "a call has waited for the stream"


class Graph:
    """What was captured: as torch.cuda.CUDAGraph."""

    def __init__(self):
        self.runnable = ctypes.c_void_p()

    def replay(self):
        device._check(LIBRARY.tuck_device_replay(self.runnable, STREAM))


@contextlib.contextmanager
def capture(graph):
    device._check(LIBRARY.tuck_device_capture(STREAM))
    yield
    device._check(LIBRARY.tuck_device_captured(STREAM, ctypes.byref(graph.runnable)))


def sparse(shape=(30, 500), dtype=np.float32):
    random = np.random.default_rng(1)
    return (random.standard_normal(shape) * (random.random(shape) < 0.4) * 50).astype(dtype)


class Standin:
    """An array of CuPy's kind."""

    def __init__(self, x, stream=None, **other):
        self.memory = tuck.DeviceArray(x.shape, device._NAMES[x.dtype.name], 0, device._LEGACY)
        self.like = x
        self.put(x)
        self.__cuda_array_interface__ = {
            "data": (self.memory.pointer.value, False), "shape": x.shape, "typestr": x.dtype.str, "strides": None,
            "version": 3, "stream": stream, **other}

    def put(self, x):
        x = np.ascontiguousarray(x, self.like.dtype)
        copy(x.ctypes.data, self.memory.pointer, x.nbytes)

    @property
    def seen(self):
        """A copy of the values."""
        x = np.empty_like(self.like, order="C")
        copy(self.memory.pointer, x.ctypes.data, x.nbytes)
        return x

    @contextlib.contextmanager
    def changed(self):
        x = self.seen
        yield x
        self.put(x)

    def address(self):
        """An array of NumPy that only says where the values are."""
        room = (ctypes.c_byte * max(self.like.nbytes, 1)).from_address(self.memory.pointer.value)
        return np.frombuffer(room, self.like.dtype, self.like.size).reshape(self.like.shape)


class WithDlpack:
    """An array that has DLPack alone. streams: those it was asked for."""

    def __init__(self, x):
        self.x, self.streams = Standin(x), []

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        capsule = self.x.address().__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value = 2
        return capsule


class Stream:
    ptr = STREAM


class StreamOfProtocol:
    def __cuda_stream__(self):
        return 0, STREAM  # the protocol's version, and the handle


class StreamOfOldProtocol:
    __cuda_stream__ = 0, STREAM  # not yet a method


def frame_of(seen):
    return seen.trimmed().numpy()


def tensors_of_all_types():
    """(type, tensor), as the CPU passes them to encode."""
    x = sparse()
    bits = x.view(np.uint32)
    yield from ((name, x.astype(of)) for of, name in device._NAMES.items())
    yield "bf16", (bits >> 16).astype(np.uint16)
    yield from ((name, (bits >> 24 & 0x3f).astype(np.uint8)) for name in ("f8e4m3", "f8e5m2"))


def cases():
    """(codec, bound, type, tensor): all of them."""
    for codec in tuck.codecs():
        bound = tuck.range_relative(1e-3) if codec.is_lossy else None
        yield from ((codec.name, bound, name, x) for name, x in tensors_of_all_types()
                   if device._in_frame(name) in codec.dtypes)


class Device(unittest.TestCase):
    def test_the_bytes_are_those_of_the_cpu(self):
        for codec, bound, name, x in cases():
            how = {"bound": bound, "dtype": name, "checksums": True}
            with self.subTest(codec=codec, type=name):
                frame = tuck.encode(Standin(x), codec, **how)
                wanted = tuck.encode(x, codec, **how)
                self.assertEqual((frame.wait(), int(frame.size.numpy())), (wanted.size, wanted.size))
                self.assertEqual(frame_of(frame).tobytes(), wanted.tobytes())
                self.assertEqual(tuck.info(frame), tuck.info(wanted))
                y = tuck.decode(frame, check=True)
                self.assertEqual((y.shape, y.numpy().tobytes()), (x.shape, tuck.decode(wanted).tobytes()))
                self.assertEqual(y.numpy().dtype, tuck.decode(wanted).dtype)
                self.assertEqual(tuck.max_frame_bytes(Standin(x), codec, **how), frame.buffer.nbytes)

    def test_nothing_waits(self):
        x, out = Standin(sparse()), Standin(sparse() * 0)

        def work(stream):
            frame = tuck.encode(x, stream=stream)
            self.assertIs(tuck.decode(frame, out=out, stream=stream), out)
            self.assertIsInstance(frame.size, tuck.DeviceArray)
            delta = tuck.encode_delta(x, out, stream=stream)
            tuck.apply_delta(delta, out, stream=stream)
            tuck.decode_batch(tuck.encode_batch([x, out], stream=stream), stream=stream)
            tuck.apply_delta_batch(tuck.encode_delta_batch([x], [out], stream=stream), [out], out=[out], stream=stream)
            return frame

        for stream in (STREAM, Stream, StreamOfProtocol(), StreamOfOldProtocol(), None):
            work(stream).wait()
            with nothing_waits(device._LEGACY if stream is None else STREAM):
                frame = work(stream)
            if SIMULATED:
                with self.assertRaises(AssertionError), nothing_waits():
                    frame.wait()
            tuck.decode(frame, out=out, stream=stream, check=True)
            self.assertTrue((out.seen == x.seen).all())

    def test_the_stream_of_the_producer_is_waited_for(self):
        other = LIBRARY.tuck_device_stream()
        x = Standin(sparse(), other)
        with mock.patch.object(LIBRARY, "tuck_device_after", wraps=LIBRARY.tuck_device_after) as after:
            frame = tuck.encode(x, stream=STREAM)
            after.assert_called_once_with(STREAM, other, 0)
            y = tuck.decode(frame)  # on the frame's stream
            self.assertEqual(after.call_count, 1)
            self.assertEqual(y.__cuda_array_interface__["stream"], STREAM)
        self.assertTrue((y.numpy() == x.seen).all())
        again = tuck.encode(y)  # what was allocated here is an array as well
        self.assertTrue((tuck.decode(frame_of(again)).reshape(x.seen.shape) == x.seen).all())

    def test_dlpack(self):
        x = WithDlpack(sparse())
        frame = tuck.encode(x, stream=STREAM)
        tuck.encode(x).wait()
        self.assertEqual(x.streams, [STREAM, device._LEGACY])
        self.assertTrue((tuck.decode(frame).numpy() == x.x.seen).all())

    def test_types_and_shapes(self):
        for dtype in device._NAMES:
            for shape in ((3, 50), (), (0, 4)):
                x = sparse(shape).astype(dtype)
                y = tuck.decode(tuck.encode(Standin(x)), check=True)
                self.assertEqual((y.shape, y.numpy().tobytes()), (x.shape, x.tobytes()), dtype)
        bits = (sparse().view(np.uint32) >> 16).astype(np.uint16)
        frame = tuck.encode(Standin(bits), "codebooks", dtype="bf16")
        self.assertEqual(tuck.info(frame_of(frame)).dtype, "bf16")
        self.assertEqual(tuck.decode(frame).numpy().tobytes(), bits.tobytes())

    def test_frames_of_the_cpu(self):
        x = sparse()
        frame = Standin(tuck.encode(x))
        made = tuck.DeviceFrame(frame, *[getattr(tuck.info(frame), name) for name in ("codec", "dtype", "shape")])
        self.assertTrue((tuck.decode(made, check=True).numpy() == x).all())
        self.assertEqual(made.wait(), frame.seen.size)
        with frame.changed() as seen:
            seen[-1000:] ^= 1
        with self.assertRaises(tuck.DamagedFrameError):
            tuck.decode(tuck.DeviceFrame(frame, "rle", "f32", x.shape), check=True)
        checked = Standin(tuck.encode(x, checksums=True))
        with checked.changed() as seen:
            seen[-1000:] ^= 1
        with self.assertRaises(tuck.DamagedFrameError):
            tuck.decode(tuck.DeviceFrame(checked, "zvc", "f32", x.shape), check=True)

    def test_batches(self):
        tensors = {"a": sparse(), "b": np.arange(7), "c": np.zeros((0, 2), np.float16)}
        frames = tuck.encode_batch({k: Standin(x) for k, x in tensors.items()}, checksums=True)
        for name, y in tuck.decode_batch(frames, check=True).items():
            self.assertEqual((y.shape, y.numpy().tobytes()), (tensors[name].shape, tensors[name].tobytes()))
            wanted = tuck.encode(tensors[name], checksums=True)
            self.assertEqual((int(frames[name].size.numpy()), frame_of(frames[name]).tobytes()),
                             (wanted.size, wanted.tobytes()))
        many = [Standin(sparse((2, n))) for n in range(70)]  # whose metadata needs several launches
        for x, y in zip(many, tuck.decode_batch(tuck.encode_batch(many, "rle"), check=True)):
            self.assertTrue((x.seen == y.numpy()).all())
        copy(np.full(64, 0xff, np.uint8).ctypes.data, frames["b"].buffer.pointer.value + 128, 64)
        with self.assertRaisesRegex(tuck.DamagedFrameError, "'b'"):
            tuck.decode_batch(frames, check=True)
        for error, name, batch in [(tuck.DeviceError, "1", [many[1], sparse()]), (tuck.DtypeError, "0", [
                Standin(np.arange(3)), many[1]]), (tuck.ContiguityError, "1", [many[1], Standin(
                    sparse(), data=(many[1].memory.pointer.value + 2, False), shape=(3,))])]:
            with self.assertRaisesRegex(error, f"tensor {name}"):
                tuck.encode_batch(batch, "codebooks")
        with self.assertRaises(tuck.SizeError):
            tuck.encode_delta_batch(many, many[1:])

    def test_graphs(self):
        x, out, room = Standin(sparse()), Standin(sparse() * 0), Standin(np.zeros(1 << 17, np.uint8))
        tuck.decode(tuck.encode(x, out=room, stream=STREAM), out=out, stream=STREAM).seen  # the kernels are loaded
        graph = Graph()
        with capture(graph):
            tuck.decode(tuck.encode(x, out=room, stream=STREAM), out=out, stream=STREAM)
        x.put(x.seen * 2)
        graph.replay()
        graph.replay()
        self.assertTrue((out.seen == x.seen).all())
        self.assertEqual(tuck.decode(room.seen).tobytes(), x.seen.tobytes())

    def test_errors(self):
        x, device_x = sparse(), Standin(sparse())
        frame, delta = tuck.encode(device_x), tuck.encode_delta(device_x, device_x)
        for text, base in [(r"the base has shape \(29, 500\), the tensor \(30, 500\)", x[1:]),
                           ("the base has dtype i32, the tensor f32", x.view(np.int32))]:
            with self.assertRaisesRegex(tuck.SizeError, text):
                tuck.encode_delta(device_x, Standin(base))
        with self.assertRaisesRegex(tuck.DtypeError, "the base has dtype i32, the delta f32"):
            tuck.apply_delta(delta, Standin(x.view(np.int32)), out=Standin(x.copy()))
        big = x.astype(">f4")
        for error, call in [
                (tuck.UnknownCodecError, lambda: tuck.encode(device_x, "nope")),
                (tuck.UnknownCodecError, lambda: tuck.decode(tuck.DeviceFrame(frame.buffer, "nope", "f32", x.shape))),
                (tuck.UnknownCodecError, lambda: tuck.encode_delta(device_x, device_x, "huffman")),
                (tuck.UnknownCodecError, lambda: tuck.apply_delta(
                    tuck.DeviceFrame(delta.buffer, "huffman", "f32", x.shape), device_x)),
                (tuck.BoundError, lambda: tuck.encode(device_x, "quantize")),
                (tuck.BoundError, lambda: tuck.encode(device_x, bound=tuck.absolute(1))),
                (tuck.BoundError, lambda: tuck.encode(device_x, "quantize", bound=tuck.absolute(0))),
                (tuck.DtypeError, lambda: tuck.encode(Standin(x.astype(np.int32)), "codebooks")),
                (tuck.DtypeError, lambda: tuck.encode(device_x, dtype="bf16")),
                (tuck.ByteOrderError, lambda: tuck.encode(Standin(x, typestr=big.dtype.str))),
                (tuck.DtypeError, lambda: tuck.encode(Standin(x, typestr="<c8", shape=(30, 250)))),
                (tuck.ContiguityError, lambda: tuck.encode(Standin(x, strides=(4, 120)))),
                (TypeError, lambda: tuck.encode(Standin(x, mask=device_x))),
                (tuck.DeviceError, lambda: tuck.encode(Standin(x, data=(x.ctypes.data, False)))),
                (tuck.DeviceError, lambda: tuck.encode(x, stream=STREAM)),
                (tuck.DeviceError, lambda: tuck.encode(x, out=device_x)),
                (tuck.DeviceError, lambda: tuck.encode(device_x, out=np.zeros(1 << 20, np.uint8))),
                (tuck.DeviceError, lambda: tuck.encode_delta(device_x, x)),
                (tuck.DeviceError, lambda: tuck.encode_delta(x, device_x)),
                (tuck.DeviceError, lambda: tuck.apply_delta(delta, x)),
                (tuck.DeviceError, lambda: tuck.apply_delta(tuck.encode_delta(x, x), device_x)),
                (tuck.ReadOnlyError, lambda: tuck.encode(device_x, out=Standin(x, data=(1, True)))),
                (tuck.OverlapError, lambda: tuck.encode(device_x, out=device_x)),
                (tuck.OverlapError, lambda: tuck.encode_delta(Standin(x), device_x, out=device_x)),
                (tuck.OverlapError, lambda: tuck.decode(frame, out=Standin(x, data=(
                    frame.buffer.pointer.value, False)))),
                (tuck.OverlapError, lambda: tuck.apply_delta(delta, device_x, out=Standin(x, data=(
                    device_x.memory.pointer.value + 16, False)))),
                (tuck.OutputTooSmallError, lambda: tuck.encode(device_x, out=Standin(np.zeros(4096, np.uint8))).wait()),
                (tuck.OutputTooSmallError, lambda: tuck.info(
                    tuck.encode(device_x, out=Standin(np.zeros(4096, np.uint8))))),
                (tuck.DeviceError, lambda: tuck.decode(frame.buffer)),
                (tuck.DeviceError, lambda: tuck.DeviceFrame(frame.buffer, "zvc", "f32", x.shape).size),
                (tuck.DamagedFrameError, lambda: tuck.info(device_x)),
                (tuck.SizeError, lambda: tuck.decode(frame, out=Standin(x[1:]))),
                (tuck.SizeError, lambda: tuck.encode_delta(device_x, Standin(x[1:]))),
                (tuck.SizeError, lambda: tuck.encode_delta(device_x, Standin(x.view(np.int32)))),
                (tuck.DtypeError, lambda: tuck.decode(frame, out=Standin(x.astype(np.float64)))),
                (tuck.DeviceError, lambda: tuck.save("x.tuck", device_x)),
                (tuck.DeviceError, lambda: tuck.save("x.tuck", {"x": device_x})),
                (TypeError, lambda: tuck.encode(device_x, stream="0")),
                (TypeError, lambda: tuck.encode_batch([device_x], 3)),
                (TypeError, lambda: tuck.encode_delta_batch([device_x], {0: device_x})),
        ]:
            with self.assertRaises(error):
                call()


class Deltas(unittest.TestCase):
    def setUp(self):
        self.base, self.x = Standin(sparse()), Standin(sparse())
        with self.x.changed() as seen:
            seen[::10, ::50] += 1
        self.delta = tuck.encode_delta(self.x, self.base)

    def test_delta(self):
        self.assertLess(self.delta.wait(), self.x.seen.nbytes / 15)
        self.assertEqual(self.delta.buffer.nbytes, tuck.max_frame_bytes(self.x, None, is_delta=True))
        seen = tuck.info(self.delta)
        self.assertEqual((seen.codec, seen.shape, seen.is_delta), ("steps", self.x.seen.shape, True))
        self.assertTrue((tuck.apply_delta(frame_of(self.delta), self.base.seen) == self.x.seen).all())
        y = tuck.apply_delta(self.delta, self.base, check=True)
        self.assertEqual((y.shape, y.numpy().tobytes()), (self.x.seen.shape, self.x.seen.tobytes()))
        self.assertIs(tuck.apply_delta(self.delta, self.base, out=self.base, check=True), self.base)
        self.assertTrue((self.base.seen == self.x.seen).all())

    def test_the_bytes_are_those_of_the_cpu(self):
        for codec in (None, "rle", "zvc"):
            wanted = tuck.encode_delta(self.x.seen, self.base.seen, codec, for_gpu=True)
            self.assertEqual(frame_of(tuck.encode_delta(self.x, self.base, codec)).tobytes(), wanted.tobytes())
            delta = tuck.DeviceFrame(Standin(wanted), codec or "steps", "f32", self.x.seen.shape)
            self.assertTrue((tuck.apply_delta(delta, self.base, check=True).numpy() == self.x.seen).all())
        large = Standin(tuck.encode_delta(self.x.seen, self.base.seen))
        with self.assertRaisesRegex(tuck.TuckError, "chunks of this size"):
            tuck.apply_delta(tuck.DeviceFrame(large, "steps", "f32", self.x.seen.shape), self.base, check=True)

    def test_batches(self):
        integers = Standin(np.arange(500))
        bases = {"w": self.base, "i": integers, "unused": integers}
        deltas = tuck.encode_delta_batch({"w": self.x, "i": integers}, bases)
        self.assertEqual([tuck.info(d).codec for d in deltas.values()], ["steps", "zvc+huffman"])
        new = tuck.apply_delta_batch(deltas, bases, check=True)
        self.assertTrue((new["w"].numpy() == self.x.seen).all() and (new["i"].numpy() == integers.seen).all())
        with self.assertRaisesRegex(tuck.WrongBaseError, "'w'"):
            tuck.apply_delta_batch(deltas, {"i": integers, "w": self.x}, check=True)
        tuck.apply_delta_batch(deltas, bases, out=bases, check=True)
        self.assertTrue((self.base.seen == self.x.seen).all())

    def test_tied_arrays_in_a_batch(self):
        before, x = self.base.seen, self.x.seen
        w, v = Standin(before), Standin(before)
        server = {"emb": w, "v": v, "head": w}
        deltas = tuck.encode_delta_batch(dict.fromkeys(server, self.x), server)  # three frames
        tuck.apply_delta_batch(deltas, server, out=server)  # also loads the kernels
        self.assertTrue((w.seen == x).all() and (v.seen == x).all())
        w.put(before), v.put(before)
        with nothing_waits():
            tuck.apply_delta_batch(deltas, server, out=server, stream=STREAM)
        self.assertTrue((w.seen == x).all() and (v.seen == x).all())
        w.put(before), v.put(before)
        tuck.apply_delta_batch(deltas, server, out=server, check=True)
        self.assertTrue((w.seen == x).all() and (v.seen == x).all())

    def test_batches_write_all_or_nothing(self):
        before, x = self.base.seen, self.x.seen
        w, v, more = Standin(before), Standin(before), Standin(x + 1)
        other = tuck.encode_delta(more, self.base)
        first = w.memory._part((20, 500), "f32")
        part = tuck.encode_delta(first, first)
        for deltas, arrays, bases, error, name in [
                ([self.delta, self.delta, self.delta], [v, self.x, w], None, tuck.WrongBaseError, 1),
                ([self.delta, self.delta, other], [v, w, w], None, tuck.OverlapError, 1),
                ([self.delta, other, self.delta], [w, w, w], None, tuck.OverlapError, 0),
                ([self.delta, part], [w, first], None, tuck.OverlapError, "[01]"),
                ([self.delta, self.delta], [w, v], [w, w], tuck.OverlapError, "[01]")]:
            for check in (True, False):
                is_raised = check or "[" in str(name)
                with self.assertRaisesRegex(error, f"tensor {name}") if is_raised else contextlib.nullcontext():
                    tuck.apply_delta_batch(deltas, bases or arrays, out=arrays, check=check)
                self.assertTrue((w.seen == (x if not check and error is tuck.WrongBaseError else before)).all())
                self.assertTrue((v.seen == before).all() or not check)
                w.put(before), v.put(before)

    def test_wrong_base(self):
        wrong = Standin(self.base.seen)
        with wrong.changed() as seen:
            seen[0, 0] += 1
        kept = wrong.seen
        for error, call in [(tuck.WrongBaseError, lambda: tuck.apply_delta(self.delta, wrong, out=wrong, check=True)),
                            (tuck.WrongBaseError, lambda: tuck.apply_delta(self.delta, Standin(kept[:3]), out=wrong)),
                            (tuck.NeedsBaseError, lambda: tuck.decode(self.delta, out=wrong, check=True)),
                            (tuck.NotADeltaError, lambda: tuck.apply_delta(tuck.encode(self.x), wrong, check=True))]:
            with self.assertRaises(error):
                call()
            self.assertTrue((wrong.seen == kept).all())


@unittest.skipIf(NO_TORCH, NO_TORCH)
class Torch(unittest.TestCase):
    def setUp(self):
        self.addCleanup(LIBRARY.tuck_device_wait, None, None, 0, 0, STREAM)
        patches = self.standins() if SIMULATED else [torch.cuda.stream(torch.cuda.ExternalStream(STREAM))]
        for patch in patches:
            patch.__enter__()
            self.addCleanup(patch.__exit__, None, None, None)

    @staticmethod
    def standins():
        """PyTorch has no such device as the simulator: tensors on the CPU play it."""
        kept = []  # PyTorch keeps the memory of a GPU until the stream has done the work
        empty = torch.empty

        class Current:
            cuda_stream = STREAM

        def keep(*a, device=None, **k):
            kept.append(empty(*a, **k))
            return kept[-1]

        def replace(target, name, new):
            return mock.patch.object(target, name, new)

        return [replace(device, "is_on_device", device.is_torch), replace(tuck, "is_on_device", device.is_torch),
                replace(torch.cuda, "current_stream", lambda _: Current),
                replace(torch.cuda, "stream", lambda _: mock.MagicMock()), replace(torch, "empty", keep),
                replace(torch.cuda, "CUDAGraph", Graph), replace(torch.cuda, "graph", capture)]

    @staticmethod
    def tensor(x):
        x = torch.from_numpy(x) if isinstance(x, np.ndarray) else x
        return x if SIMULATED else x.cuda()

    def test_tensors(self):
        for dtype in (torch.float32, torch.bfloat16, torch.uint8, torch.bool):
            x = self.tensor(sparse()).to(dtype).requires_grad_(dtype.is_floating_point)
            frame = tuck.encode(x)
            self.assertEqual((frame.wait(), frame.trimmed().numel()), (int(frame.size), int(frame.size)))
            y = tuck.decode(frame, check=True)
            self.assertEqual((y.shape, y.dtype), (x.shape, dtype))
            self.assertTrue(torch.equal(y, x))
        x = self.tensor(sparse())
        for error, wrong in [(tuck.ContiguityError, x.t()), (tuck.DtypeError, x.to_sparse()), (
                tuck.DtypeError, torch._neg_view(x)), (tuck.DtypeError, torch.complex(x, x))]:
            with self.assertRaises(error):
                tuck.encode(wrong)

    def test_deltas(self):
        base = {"a": self.tensor(sparse()).bfloat16(), "b": self.tensor(torch.arange(9))}
        new = {k: x + (x > 40) for k, x in base.items()}

        def work(out):
            deltas = tuck.encode_delta_batch(new, base)
            tuck.apply_delta_batch(deltas, base, out=out)
            return deltas

        out = {k: x.clone() for k, x in base.items()}
        work(out)["b"].wait()
        with nothing_waits():
            deltas = work(base)
        for k, d in deltas.items():
            d.wait()
            self.assertTrue(torch.equal(base[k], new[k]))

    def test_graphs(self):
        x = self.tensor(sparse())
        out = torch.zeros_like(x)
        room = self.tensor(torch.zeros(tuck.max_frame_bytes(x, "zvc"), dtype=torch.uint8))

        def work():
            return tuck.decode(tuck.encode(x, out=room), out=out)

        work()
        tuck.encode(x).wait()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        x.mul_(2)
        out.zero_()
        graph.replay()
        tuck.encode(x).wait()
        self.assertTrue(torch.equal(out, x))

    def test_saved_tensors(self):
        from tuck.saved import Stored
        value = Stored.value

        def waiting(stored):  # as no stream does what follows
            t = value(stored)
            device._check(LIBRARY.tuck_device_wait(None, None, 0, 0, STREAM))
            return t

        if SIMULATED:
            patch = mock.patch.object(Stored, "value", waiting)
            patch.__enter__()
            self.addCleanup(patch.__exit__, None, None, None)
        x = self.tensor(sparse((100, 500))).requires_grad_()

        def gradient(context):
            x.grad = None
            with context:
                odd = x.bfloat16().flatten()[1:]  # not aligned to 4 bytes
                loss = (x * x).sum() + x.view(500, 100).sin().sum() + (odd * odd).float().sum()
            loss.backward()
            return x.grad

        plain = gradient(contextlib.nullcontext())
        with tuck.saved_tensors("zvc+huffman") as saved:
            pass
        self.assertTrue(torch.equal(gradient(saved), plain))
        self.assertEqual(saved.raw_bytes, 6 * x.numel() - 2)  # x once, and what is odd
        self.assertLess(saved.stored_bytes, saved.raw_bytes)

    @unittest.skipIf(torch is None or not hasattr(torch.library, "custom_op"), "there is no PyTorch 2.4 or newer")
    def test_operators(self):
        import tuck.ops

        with mock.patch.object(tuck.ops, "is_on_device", device.is_on_device):
            for x in (self.tensor(sparse()), self.tensor(sparse()) > 0, self.tensor(torch.zeros(0, 3))):
                for waits in (contextlib.nullcontext(), nothing_waits()):
                    with waits:
                        frame, size = torch.ops.tuck.encode(x, "zvc")
                        y = torch.ops.tuck.decode(frame, x.shape, x.dtype, codec="zvc")
                    wanted = tuck.encode(x)
                    self.assertEqual((wanted.wait(), tuple(size.shape), size.dtype), (size, (), torch.int64))
                    self.assertTrue(torch.equal(wanted.trimmed(), frame[:size]) and torch.equal(x, y))
                    last = frame
                    del frame, size, y, wanted  # PyTorch has their memory for the next round
            with self.assertRaises(tuck.DeviceError):
                torch.ops.tuck.decode(last, x.shape, x.dtype)
            x = self.tensor(sparse())
            compiled = torch.compile(self.there_and_back, fullgraph=True, backend="aot_eager")  # no compiler is needed
            y, size = compiled(x)
            self.assertEqual(tuck.encode(x).wait(), int(size))
            self.assertTrue(torch.equal(x, y))

    @staticmethod
    def there_and_back(x):
        frame, size = torch.ops.tuck.encode(x, "zvc")
        return torch.ops.tuck.decode(frame, x.shape, x.dtype, codec="zvc"), size


def measured(call, raw_bytes, runs=7, calls=20):
    """Seconds of a call: of the GPU, as a graph in a row of many, and of Python, until the call returns."""
    wait = lambda: device._check(LIBRARY.tuck_device_wait(None, None, 0, 0, STREAM))
    graph, seconds = Graph(), {"graph": [], "call": []}
    with capture(graph):
        call()
    graph.replay()
    for _ in range(runs):
        for way, one in (("graph", graph.replay), ("call", call)):
            wait()
            begin = time.perf_counter()
            for _ in range(calls):
                one()
            if way == "graph":
                wait()
            seconds[way].append((time.perf_counter() - begin) / calls)
    wait()
    median = statistics.median(seconds["graph"])
    return {"runs": runs, "calls": calls, "median_seconds": median, "best_seconds": min(seconds["graph"]),
            "call_seconds": statistics.median(seconds["call"]), "gb_per_s": raw_bytes / median / 1e9}


def times(size):
    """Prints what each codec does with a tensor of f32 of so many bytes: times, but not of the simulator. Ends if a
    frame is not that of the CPU."""
    x = np.resize(sparse((1 << 16,)), size // 4)
    source, out = Standin(x), Standin(x)
    for codec in tuck.codecs():
        if "f32" not in codec.dtypes:
            continue
        bound = tuck.range_relative(1e-3) if codec.is_lossy else None
        frame = tuck.encode(source, codec.name, bound=bound, stream=STREAM)
        wanted = tuck.encode(x, codec.name, bound=bound, threads=os.cpu_count())
        if frame_of(frame).tobytes() != wanted.tobytes():
            sys.exit(f"{codec.name}: the frame of {size} bytes is not that of the CPU")
        calls_of = {
            "encode": lambda: tuck.encode(source, codec.name, bound=bound, out=frame.buffer, stream=STREAM),
            "decode": lambda: tuck.decode(frame, out=out, stream=STREAM)}
        for operation, call in calls_of.items():
            row = {"codec": codec.name, "type": "f32", "operation": operation, "raw_bytes": x.nbytes,
                   "sparsity": round(float((x == 0).mean()), 2), "ratio": x.nbytes / wanted.size}
            call()
            seconds = measured(call, x.nbytes, *((1, 1) if SIMULATED else ()))
            row |= {} if SIMULATED else seconds
            print(json.dumps(row), flush=True)
        if tuck.decode(wanted).tobytes() != out.seen.tobytes():
            sys.exit(f"{codec.name}: a GPU decodes other values than the CPU")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--times"]:
        times(int(sys.argv[2]))
    else:
        unittest.main()
