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
            wanted = tuck.decode(tuck.encode(x, codec, bound=bound))
            trimmed = frame_of(frame)
            self.assertEqual((frame.wait(), int(frame.size.numpy())), (trimmed.size, trimmed.size))
            self.assertEqual(tuck.decode(trimmed).tobytes(), wanted.tobytes())
            self.assertEqual(tuck.info(trimmed).codec, codec)
            y = tuck.decode(frame, check=True)
            self.assertEqual((y.shape, y.numpy().tobytes()), (x.shape, wanted.tobytes()))
            most = tuck.max_frame_bytes(Standin(x), codec, bound=bound, checksums=True)
            self.assertEqual(most, frame.buffer.nbytes)

    def test_nothing_waits(self):
        x, out = Standin(sparse()), Standin(sparse() * 0)
        for stream in (STREAM, Stream, None):
            before = LIBRARY.tuck_device_waits()
            frame = tuck.encode(x, stream=stream)
            self.assertIs(tuck.decode(frame, out=out, stream=stream), out)
            self.assertIsInstance(frame.size, tuck.DeviceArray)
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
        self.assertTrue((tuck.decode(tuck.DeviceFrame(frame, "zvc", "f32", x.shape), check=True).numpy() == x).all())
        frame.seen[-1000:] ^= 1
        with self.assertRaises(tuck.DamagedFrameError):
            tuck.decode(tuck.DeviceFrame(frame, "rle", "f32", x.shape), check=True)
        checked = Standin(tuck.encode(x, checksums=True))
        checked.seen[-1000:] ^= 1
        with self.assertRaises(tuck.DamagedFrameError):
            tuck.decode(tuck.DeviceFrame(checked, "zvc", "f32", x.shape), check=True)

    def test_errors(self):
        x, device_x = sparse(), Standin(sparse())
        frame = tuck.encode(device_x)
        big = x.astype(">f4")
        for error, call in [
                (tuck.UnknownCodecError, lambda: tuck.encode(device_x, "nope")),
                (tuck.BoundError, lambda: tuck.encode(device_x, "quantize")),
                (tuck.DtypeError, lambda: tuck.encode(Standin(x.astype(np.int32)), "exponents")),
                (tuck.DtypeError, lambda: tuck.encode(device_x, dtype="bf16")),
                (tuck.ByteOrderError, lambda: tuck.encode(Standin(x, typestr=big.dtype.str))),
                (tuck.DtypeError, lambda: tuck.encode(Standin(x, typestr="<c8", shape=(30, 250)))),
                (tuck.ContiguityError, lambda: tuck.encode(Standin(x, strides=(4, 120)))),
                (tuck.DeviceError, lambda: tuck.encode(Standin(x, data=(x.ctypes.data, False)))),
                (tuck.DeviceError, lambda: tuck.encode(x, stream=STREAM)),
                (tuck.DeviceError, lambda: tuck.encode(device_x, out=np.zeros(1 << 20, np.uint8))),
                (tuck.ReadOnlyError, lambda: tuck.encode(device_x, out=Standin(x, data=(1, True)))),
                (tuck.OverlapError, lambda: tuck.encode(device_x, out=device_x)),
                (tuck.OutputTooSmallError, lambda: tuck.encode(device_x, out=Standin(np.zeros(4096, np.uint8))).wait()),
                (tuck.DeviceError, lambda: tuck.decode(frame.buffer)),
                (tuck.SizeError, lambda: tuck.decode(frame, out=Standin(x[1:]))),
                (tuck.DtypeError, lambda: tuck.decode(frame, out=Standin(x.astype(np.float64)))),
                (TypeError, lambda: tuck.encode(device_x, stream="0")),
        ]:
            with self.assertRaises(error):
                call()


@unittest.skipIf(torch is None, "there is no PyTorch")
class Torch(unittest.TestCase):
    """PyTorch has no such device: tensors on the CPU play it."""

    def test_tensors(self):
        class Current:
            cuda_stream = STREAM

        empty = torch.empty
        with mock.patch.object(device, "is_on_device", device.is_torch), \
                mock.patch.object(tuck, "is_on_device", device.is_torch), \
                mock.patch.object(torch.cuda, "current_stream", lambda _: Current), \
                mock.patch.object(torch.cuda, "stream", lambda _: mock.MagicMock()), \
                mock.patch.object(torch, "empty", lambda *a, device, **k: empty(*a, **k)):
            for dtype in (torch.float32, torch.bfloat16, torch.uint8, torch.bool):
                x = torch.from_numpy(sparse()).to(dtype).requires_grad_(dtype.is_floating_point)
                frame = tuck.encode(x)
                self.assertEqual((frame.wait(), frame.trimmed().numel()), (int(frame.size), int(frame.size)))
                y = tuck.decode(frame, check=True)
                self.assertEqual(y.shape, x.shape)
                self.assertTrue(torch.equal(y.to(dtype), x))
            with self.assertRaises(tuck.ContiguityError):
                tuck.encode(x.t())


if __name__ == "__main__":
    unittest.main()
