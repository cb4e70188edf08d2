#!/usr/bin/env python3
"""examples/torch on a device: what goes through libtuck_torch.so, which the simulator runs. PyTorch has no such device:
tensors on the CPU are copied to memory of the simulator's and back.

TUCK_TORCH_LIBRARY: torch_allocator.cu with the simulator in it."""

import contextlib
import ctypes
import os
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "torch"))
os.environ["TUCK_PINNED_BYTES"] = str(1 << 24)

try:
    import torch
    import tuck  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import tuck_torch
from torch import nn
from torch.nn import functional as F
from tuck_torch import library, session, store


class Stream:
    """What torch.cuda.Stream is asked for. `events` has who waited for whom, and what was offloaded and restored."""

    cuda_stream = 0
    events: list = []

    def __init__(self, name):
        self.name = name

    def wait_stream(self, other):
        Stream.events.append((self.name, "waits for", other.name))

    def record_event(self):
        return Event()


class Event:
    """Recorded behind the n-th tensor that was offloaded. happened: so many of them have left."""

    happened = 1 << 30

    def __init__(self):
        self.number = Stream.events.count("offload")

    def query(self):
        return self.number <= Event.happened

    def synchronize(self):
        if not self.query():
            Stream.events.append(f"waits for {self.number}")
            Event.happened = self.number


SIDE, FIRST, SECOND = Stream("side"), Stream("first"), Stream("second")


class Simulated(library.Swap):
    """A Swap of tensors on the CPU. hidden: so many times a size is said to be unknown yet."""

    hidden = 0

    def __init__(self):
        super().__init__()
        loaded = library._library("tuck_torch")
        function = library._prototypes(loaded)
        self._allocate = function("tuck_alloc", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
        self._free = function("tuck_free", None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
        self._offload_device, self._offload = self._offload, self._offload_copy
        self._restore_device, self._restore = self._restore, self._restore_copy
        self._settle = function("cudaDeviceSynchronize" if hasattr(loaded, "cudaDeviceSynchronize") else
                                "_Z21cudaDeviceSynchronizev", ctypes.c_int)
        self.codecs = []

    @contextlib.contextmanager
    def _memory(self, size):
        memory = self._allocate(size, 0, None)
        self._settle()
        yield memory
        self._settle()
        self._free(memory, size, 0, None)

    def _offload_copy(self, values, size, dtype, codec, mode, bound, _device, _stream, number):
        Stream.events.append("offload")
        self.codecs.append(codec.decode())
        with self._memory(size) as memory:
            ctypes.memmove(memory, values, size)
            return self._offload_device(memory, size, dtype, codec, mode, bound, 0, None, number)

    def _restore_copy(self, number, into, size, _stream):
        Stream.events.append("restore")
        with self._memory(size) as memory:
            code = self._restore_device(number, memory, size, None)
            self._settle()
            ctypes.memmove(into, memory, size)
            return code

    def _side(self, device):
        SIDE.wait_stream(torch.cuda.current_stream(device))
        return SIDE

    def stored_bytes(self, number):
        if self.hidden > 0:
            self.hidden -= 1
            return 0
        return super().stored_bytes(number)


def network(dtype):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, padding=1),
                         nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)).to(dtype)


def gradients(policy, dtype=torch.float32):
    model, random = network(dtype), torch.Generator().manual_seed(1)
    x, y = torch.randn(16, 1, 16, 16, generator=random).to(dtype), torch.randint(10, (16,), generator=random)
    with tuck_torch.saved_tensors(policy) if policy else contextlib.nullcontext():
        loss = F.cross_entropy(model(x), y)
    loss.backward()
    return [p.grad for p in model.parameters()]


class Device(unittest.TestCase):
    def setUp(self):
        """What is saved is taken for a device's."""
        self.now = FIRST
        for owner, name, fake in (
                (torch.cuda, "current_stream", lambda _device=None: self.now), (torch.cuda, "stream", self.on),
                (torch.cuda, "synchronize", lambda _device=None: self.swap._settle()),
                (torch.Tensor, "record_stream", lambda t, stream: Stream.events.append(("recorded", stream.name))),
                (session, "is_offloaded", lambda _: True), (store, "is_offloaded", lambda _: True)):
            patch = mock.patch.object(owner, name, fake)
            patch.start()
            self.addCleanup(patch.stop)
        self.swap = library._swap = Simulated()
        self.offload_device = self.swap._offload_device
        Stream.events.clear()

    @contextlib.contextmanager
    def on(self, stream):
        before, self.now = self.now, stream
        yield
        self.now = before

    def test_each_codec_stores_what_it_is_called(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            plain = gradients(None, dtype)
            stored = {}
            for name in ("raw", "zvc", "rle", "zvc+rle+huffman", "quantize", "quantize+delta+zvc+huffman"):
                with self.subTest(dtype=dtype, codec=name):
                    lossy = name.startswith("quantize")
                    policy = tuck_torch.Raw() if name == "raw" else tuck_torch.Codec(name, 1e-3 if lossy else None,
                                                                                     least=1e-6)
                    self.swap.codecs.clear()
                    got = gradients(policy, dtype)
                    counts = policy.take_counts().values()
                    used = "zvc" if dtype == torch.float64 and name not in ("raw", "rle") else name
                    self.assertEqual(set(self.swap.codecs) - {"raw"}, {used} - {"raw"})
                    self.assertEqual({codec for c in counts for codec in c.choices}, {used})
                    stored[name] = sum(c.stored for c in counts)
                    if not lossy:
                        self.assertTrue(all(torch.equal(a, b) for a, b in zip(plain, got)))
            if dtype != torch.float64:
                self.assertEqual(len(set(stored.values())), len(stored), stored)
                self.assertLess(stored["zvc+rle+huffman"], stored["zvc"])

    def test_sizes_that_are_not_known_yet_are_counted_later(self):
        expected, late = tuck_torch.Codec("zvc"), tuck_torch.Codec("zvc")
        gradients(expected)
        self.swap.hidden = 5
        gradients(late)
        self.assertEqual({k: c.stored for k, c in late.take_counts().items()},
                         {k: c.stored for k, c in expected.take_counts().items()})

    def test_what_was_saved_comes_back(self):
        """Whoever writes to it between saves or later, and from where it has to stay on the device."""
        for stays in (False, True):
            for policy in (tuck_torch.Raw, lambda: tuck_torch.Codec("zvc")):
                x = torch.randn(64, 64, requires_grad=True)
                self.swap._offload_device = lambda *_: library.Swap.KEPT if stays else self.offload_device(*_)
                with tuck_torch.saved_tensors(policy()):
                    y = x * 1
                    z = (y * y).sum() + y[:, :48].square().sum()
                    y.data.mul_(2)
                    z = z + (y * y).sum()
                    with torch.no_grad():
                        y.add_(1)
                for _ in range(2):
                    x.grad = None
                    z.backward(retain_graph=True)
                    expected = 6 * x.detach()
                    expected[:, :48] += 2 * x.detach()[:, :48]
                    self.assertTrue(torch.allclose(x.grad, expected), (stays, policy()))

    def test_each_save_is_stored(self):
        """What is proof on the CPU, a digest, would let the host wait."""
        x, policy = torch.randn(64, 64, requires_grad=True), tuck_torch.Codec("zvc")
        with tuck_torch.saved_tensors(policy), mock.patch.object(session, "digest_of", side_effect=AssertionError):
            y = x * 1
            z = y.sin().sum() + y.cos().sum()
        self.assertEqual(policy.take_counts()["functions"].tensors, 2)
        z.backward()

    def test_the_stream_that_saved_it_is_waited_for(self):
        x = torch.randn(4096, requires_grad=True)
        with tuck_torch.saved_tensors("zvc"):
            with self.on(SECOND):
                z = (x * 1).square().sum()
        self.assertEqual(Stream.events, [("side", "waits for", "second"), "offload", ("recorded", "side")])
        Stream.events.clear()
        with self.on(SECOND):
            z.backward()
        self.assertEqual(Stream.events, [("side", "waits for", "second"), "restore", ("second", "waits for", "side")])

    def test_an_allocator_that_records_no_streams_is_waited_for(self):
        self.swap._records_streams = False
        self.swap.offload(None, torch.randn(4096))
        self.assertEqual(Stream.events[1:], ["offload", ("first", "waits for", "side")])

    def test_few_bytes_are_on_their_way_at_once(self):
        Event.happened, self.swap.LEAVING = 0, 3 << 14
        self.addCleanup(setattr, Event, "happened", 1 << 30)
        events = lambda: [e for e in Stream.events if type(e) is str]
        for _ in range(5):
            self.swap.offload(None, torch.randn(4096))
        self.assertEqual(events(), ["offload"] * 4 + ["waits for 1", "offload", "waits for 2"])
        Event.happened = 4
        self.swap.offload(None, torch.randn(2 << 14))  # more than may be on their way, but the others have to leave
        self.assertEqual(events()[7:], ["offload", "waits for 5"])
        Event.happened = 6
        self.swap.offload(None, torch.randn(4096))
        self.assertEqual(events()[9:], ["offload"])
        self.assertEqual(sum(self.swap._sizes.values()), 1 << 14)

    def test_a_stream_that_reads_what_another_restored_waits(self):
        x = torch.randn(4096)
        policy = tuck_torch.Codec("zvc")
        stored = store.Offloaded(x.detach(), session.OUTSIDE, policy)
        stored.choice = tuck_torch.Choice("zvc")
        stored.encode()
        self.assertTrue(torch.equal(stored.value(), x))
        Stream.events.clear()
        self.assertTrue(torch.equal(stored.value(), x))
        self.assertEqual(Stream.events, [])
        with self.on(SECOND):
            self.assertTrue(torch.equal(stored.value(), x))
        self.assertEqual(Stream.events, [("second", "waits for", "first"), ("recorded", "second")])


if __name__ == "__main__":
    unittest.main()
