#!/usr/bin/env python3
"""Arrays in device memory for the package tuck, on the simulator: stand-ins with CuPy's interface, DLPack, PyTorch."""

import ctypes
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
LIBRARY.tuck_device_stream.restype = ctypes.c_void_p
LIBRARY.tuck_device_waits.restype = ctypes.c_uint64
LIBRARY.tuck_device_capture.argtypes = [ctypes.c_void_p]
LIBRARY.tuck_device_replay.argtypes = [ctypes.c_void_p, ctypes.c_uint]
STREAM = LIBRARY.tuck_device_stream()


def sparse(shape=(30, 500), dtype=np.float32):
    random = np.random.default_rng(1)
    return (random.standard_normal(shape) * (random.random(shape) < 0.4) * 50).astype(dtype)


class Standin:
    """An array of CuPy's kind: memory of the device, seen by NumPy, which the simulator allows."""

    def __init__(self, x, stream=None, **other):
        self.memory = tuck.DeviceArray(x.shape, device._NAMES[x.dtype.name], 0, device._LEGACY)
        self.memory.numpy()  # waits: the simulator fills new memory
        room = (ctypes.c_byte * max(x.nbytes, 1)).from_address(self.memory.pointer.value)
        self.seen = np.frombuffer(room, x.dtype, x.size).reshape(x.shape)
        self.seen[...] = x
        self.__cuda_array_interface__ = {
            "data": (self.memory.pointer.value, False), "shape": x.shape, "typestr": x.dtype.str, "strides": None,
            "version": 3, "stream": stream, **other}


class WithDlpack:
    """An array that has DLPack alone. streams: those it was asked for."""

    def __init__(self, x):
        self.x, self.streams = Standin(x), []

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        capsule = self.x.seen.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value = 2
        return capsule


class Stream:
    ptr = STREAM


def frame_of(seen):
    return seen.trimmed().numpy()


class Device(unittest.TestCase):
    def test_the_bytes_are_those_of_the_cpu(self):
        for codec, bound in (("zvc", None), ("rle", None), ("quantize", tuck.range_relative(1e-3)),
                             ("zvc+rle+huffman", None)):
            x = sparse()
            frame = tuck.encode(Standin(x), codec, bound=bound, checksums=True)
            wanted = tuck.encode(x, codec, bound=bound, checksums=True)
            self.assertEqual((frame.wait(), int(frame.size.numpy())), (wanted.size, wanted.size))
            self.assertEqual(frame_of(frame).tobytes(), wanted.tobytes())
            self.assertEqual(tuck.info(frame), tuck.info(wanted))
            y = tuck.decode(frame, check=True)
            self.assertEqual((y.shape, y.numpy().tobytes()), (x.shape, tuck.decode(wanted).tobytes()))
            most = tuck.max_frame_bytes(Standin(x), codec, bound=bound, checksums=True)
            self.assertEqual(most, frame.buffer.nbytes)

    def test_nothing_waits(self):
        x, out = Standin(sparse()), Standin(sparse() * 0)
        for stream in (STREAM, Stream, None):
            before = LIBRARY.tuck_device_waits()
            frame = tuck.encode(x, stream=stream)
            self.assertIs(tuck.decode(frame, out=out, stream=stream), out)
            self.assertIsInstance(frame.size, tuck.DeviceArray)
            delta = tuck.encode_delta(x, out, stream=stream)
            tuck.apply_delta(delta, out, stream=stream)
            tuck.decode_batch(tuck.encode_batch([x, out], stream=stream), stream=stream)
            tuck.apply_delta_batch(tuck.encode_delta_batch([x], [out], stream=stream), [out], out=[out], stream=stream)
            self.assertEqual(LIBRARY.tuck_device_waits(), before)
            frame.wait()
            self.assertGreater(LIBRARY.tuck_device_waits(), before)
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
        frame = tuck.encode(Standin(bits), "exponents", dtype="bf16")
        self.assertEqual(tuck.info(frame_of(frame)).dtype, "bf16")
        self.assertEqual(tuck.decode(frame).numpy().tobytes(), bits.tobytes())

    def test_frames_of_the_cpu(self):
        x = sparse()
        frame = Standin(tuck.encode(x))
        made = tuck.DeviceFrame(frame, *[getattr(tuck.info(frame), name) for name in ("codec", "dtype", "shape")])
        self.assertTrue((tuck.decode(made, check=True).numpy() == x).all())
        self.assertEqual(made.wait(), frame.seen.size)
        frame.seen[-1000:] ^= 1
        with self.assertRaises(tuck.DamagedFrameError):
            tuck.decode(tuck.DeviceFrame(frame, "rle", "f32", x.shape), check=True)
        checked = Standin(tuck.encode(x, checksums=True))
        checked.seen[-1000:] ^= 1
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
        ctypes.memset(frames["b"].buffer.pointer.value + 128, 0xff, 64)
        with self.assertRaisesRegex(tuck.DamagedFrameError, "'b'"):
            tuck.decode_batch(frames, check=True)
        for error, name, batch in [(tuck.DeviceError, "1", [many[1], sparse()]), (tuck.DtypeError, "0", [
                Standin(np.arange(3)), many[1]]), (tuck.ContiguityError, "1", [many[1], Standin(
                    sparse(), data=(many[1].memory.pointer.value + 2, False), shape=(3,))])]:
            with self.assertRaisesRegex(error, f"tensor {name}"):
                tuck.encode_batch(batch, "exponents")
        with self.assertRaises(tuck.SizeError):
            tuck.encode_delta_batch(many, many[1:])

    def test_graphs(self):
        x, out, room = Standin(sparse()), Standin(sparse() * 0), Standin(np.zeros(1 << 17, np.uint8))
        self.assertEqual(LIBRARY.tuck_device_capture(STREAM), 0)
        tuck.decode(tuck.encode(x, out=room, stream=STREAM), out=out, stream=STREAM)
        x.seen[...] *= 2
        self.assertEqual(LIBRARY.tuck_device_replay(STREAM, 2), 0)
        self.assertTrue((out.seen == x.seen).all())
        self.assertEqual(tuck.decode(room.seen).tobytes(), x.seen.tobytes())

    def test_errors(self):
        x, device_x = sparse(), Standin(sparse())
        frame, delta = tuck.encode(device_x), tuck.encode_delta(device_x, device_x)
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
                (tuck.DtypeError, lambda: tuck.encode(Standin(x.astype(np.int32)), "exponents")),
                (tuck.DtypeError, lambda: tuck.encode(device_x, dtype="bf16")),
                (tuck.ByteOrderError, lambda: tuck.encode(Standin(x, typestr=big.dtype.str))),
                (tuck.DtypeError, lambda: tuck.encode(Standin(x, typestr="<c8", shape=(30, 250)))),
                (tuck.ContiguityError, lambda: tuck.encode(Standin(x, strides=(4, 120)))),
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
        self.x.seen[::10, ::50] += 1
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
        self.assertEqual([tuck.info(d).codec for d in deltas.values()], ["steps", "gaps"])
        new = tuck.apply_delta_batch(deltas, bases, check=True)
        self.assertTrue((new["w"].numpy() == self.x.seen).all() and (new["i"].numpy() == integers.seen).all())
        with self.assertRaisesRegex(tuck.WrongBaseError, "'w'"):
            tuck.apply_delta_batch(deltas, {"i": integers, "w": self.x}, check=True)
        tuck.apply_delta_batch(deltas, bases, out=bases, check=True)
        self.assertTrue((self.base.seen == self.x.seen).all())

    def test_wrong_base(self):
        wrong = Standin(self.base.seen)
        wrong.seen[0, 0] += 1
        kept = wrong.seen.copy()
        for error, call in [(tuck.WrongBaseError, lambda: tuck.apply_delta(self.delta, wrong, out=wrong, check=True)),
                            (tuck.WrongBaseError, lambda: tuck.apply_delta(self.delta, Standin(kept[:3]), out=wrong)),
                            (tuck.NeedsBaseError, lambda: tuck.decode(self.delta, out=wrong, check=True)),
                            (tuck.NotADeltaError, lambda: tuck.apply_delta(tuck.encode(self.x), wrong, check=True))]:
            with self.assertRaises(error):
                call()
            self.assertTrue((wrong.seen == kept).all())


@unittest.skipIf(torch is None, "there is no PyTorch")
class Torch(unittest.TestCase):
    """PyTorch has no such device: tensors on the CPU play it."""

    def setUp(self):
        class Current:
            cuda_stream = STREAM

        def on_device(x):
            return device.is_torch(x)

        kept = []  # PyTorch keeps the memory of a GPU until the stream has done the work
        empty = torch.empty

        def keep(*a, device=None, **k):
            kept.append(empty(*a, **k))
            return kept[-1]

        for target, name, new in [(device, "is_on_device", on_device), (tuck, "is_on_device", on_device),
                                  (torch.cuda, "current_stream", lambda _: Current),
                                  (torch.cuda, "stream", lambda _: mock.MagicMock()),
                                  (torch, "empty", keep)]:
            patch = mock.patch.object(target, name, new)
            patch.start()
            self.addCleanup(patch.stop)
        self.addCleanup(LIBRARY.tuck_device_wait, None, None, 0, 0, STREAM)

    def test_tensors(self):
        for dtype in (torch.float32, torch.bfloat16, torch.uint8, torch.bool):
            x = torch.from_numpy(sparse()).to(dtype).requires_grad_(dtype.is_floating_point)
            frame = tuck.encode(x)
            self.assertEqual((frame.wait(), frame.trimmed().numel()), (int(frame.size), int(frame.size)))
            y = tuck.decode(frame, check=True)
            self.assertEqual(y.shape, x.shape)
            self.assertTrue(torch.equal(y.to(dtype), x))
        x = torch.from_numpy(sparse())
        for error, wrong in [(tuck.ContiguityError, x.t()), (tuck.DtypeError, x.to_sparse()), (
                tuck.DtypeError, torch._neg_view(x)), (tuck.DtypeError, torch.complex(x, x))]:
            with self.assertRaises(error):
                tuck.encode(wrong)

    def test_deltas(self):
        base = {"a": torch.from_numpy(sparse()).bfloat16(), "b": torch.arange(9)}
        new = {k: x + (x > 40) for k, x in base.items()}
        before = LIBRARY.tuck_device_waits()
        deltas = tuck.encode_delta_batch(new, base)
        tuck.apply_delta_batch(deltas, base, out=base)
        self.assertEqual(LIBRARY.tuck_device_waits(), before)
        for k, d in deltas.items():
            d.wait()
            self.assertTrue(torch.equal(base[k], new[k]))

    @unittest.skipIf(torch is None or not hasattr(torch.library, "custom_op"), "there is no PyTorch 2.4 or newer")
    def test_operators(self):
        import tuck.ops

        with mock.patch.object(tuck.ops, "is_on_device", device.is_on_device):
            for x in (torch.from_numpy(sparse()), torch.from_numpy(sparse()) > 0, torch.zeros(0, 3)):
                before = LIBRARY.tuck_device_waits()
                frame, size = torch.ops.tuck.encode(x, "zvc")
                y = torch.ops.tuck.decode(frame, x.shape, x.dtype, codec="zvc")
                self.assertEqual(LIBRARY.tuck_device_waits(), before)
                wanted = tuck.encode(x)
                self.assertEqual((wanted.wait(), tuple(size.shape), size.dtype), (size, (), torch.int64))
                self.assertTrue(torch.equal(wanted.trimmed(), frame[:size]) and torch.equal(x, y))
            with self.assertRaises(tuck.DeviceError):
                torch.ops.tuck.decode(frame, x.shape, x.dtype)


if __name__ == "__main__":
    unittest.main()
