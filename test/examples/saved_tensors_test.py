#!/usr/bin/env python3
"""tuck.saved_tensors: gradients are those of plain PyTorch. The cases of torch_edges_test.py run with it, too."""

import gc
import sys
import unittest
from unittest import mock

try:
    import torch
    import tuck
    from tuck import saved
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import torch_edges_test as edges
from torch import nn
from torch.nn import functional as F


def gradients(model, x, y, context):
    model.zero_grad()
    with context:
        loss = F.cross_entropy(model(x), y)
    loss.backward()
    return [p.grad.clone() for p in model.parameters()]


class SavedTensors(unittest.TestCase):
    def test_each_codec(self):
        model, x, y = edges.perceptron()
        plain = gradients(model, x, y, edges.contextlib.nullcontext())
        for codec, _, is_lossy in tuck.codecs():
            context = tuck.saved_tensors(codec, bound=tuck.pointwise(1e-3) if is_lossy else None, smallest=64)
            got = gradients(model, x, y, context)
            for a, b in zip(got, plain):
                self.assertTrue(torch.allclose(a, b, rtol=0.1, atol=1e-4) if is_lossy else torch.equal(a, b), codec)

    def test_what_is_stored(self):
        x = F.relu(torch.randn(1000, 100)).requires_grad_()
        with tuck.saved_tensors("zvc+huffman") as context:
            y = (x * x).sum() + x.view(100, 1000).sin().sum()  # one memory
        size = tuck.encode(x, "zvc+huffman").numel()
        self.assertEqual((context.raw_bytes, context.stored_bytes), (400000, size))
        y.backward()
        noise = torch.randint(256, (100000,), dtype=torch.uint8).view(torch.float32).nan_to_num().requires_grad_()
        with tuck.saved_tensors("zvc", smallest=0) as context:
            noise.square().sum().backward()
        self.assertEqual(context.raw_bytes, context.stored_bytes)  # the frame is larger

    def test_is_entered_again(self):
        model, x, y = edges.perceptron()
        plain, context = gradients(model, x, y, edges.contextlib.nullcontext()), tuck.saved_tensors("zvc")
        for _ in range(3):
            self.assertTrue(all(map(torch.equal, gradients(model, x, y, context), plain)))
        self.assertLess(context.stored_bytes, context.raw_bytes)

    def test_backward_of_changed_parameters(self):
        model, x, _ = edges.perceptron()
        with tuck.saved_tensors("zvc"):
            loss = model(x).square().sum()
        model[2].weight.data.add_(1)
        with self.assertRaisesRegex(RuntimeError, r"is needed .* modified in place: shape \(128, 128\)"):
            loss.backward()

    def test_what_is_refused(self):
        for error, text, call in ((tuck.UnknownCodecError, "zip", lambda: tuck.saved_tensors("zip")),
                                  (tuck.BoundError, "quantize", lambda: tuck.saved_tensors("quantize")),
                                  (tuck.BoundError, "zvc", lambda: tuck.saved_tensors("zvc", bound=tuck.pointwise(1.0))),
                                  (ValueError, "smallest", lambda: tuck.saved_tensors("zvc", smallest=-1))):
            with self.assertRaisesRegex(error, text):
                call()

    def test_nothing_outlives_its_graph(self):
        model, x, y = edges.perceptron()
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for _ in range(3):
            gradients(model, x, y, tuck.saved_tensors("zvc", smallest=64))
        self.assertEqual([o for o in gc.get_objects() if isinstance(o, (saved.Stored, saved.SavedTensors))], [])

    def test_readers_that_overwrite(self):
        self.addCleanup(setattr, edges.Overwriting, "seen", True)
        case = edges.Overwritten()
        for edges.Overwriting.seen in (True, False):
            for name, form in case.forms.items():
                self.addCleanup(setattr, edges.Overwriting, "overwrites", True)
                edges.Overwriting.overwrites = False
                right = case.gradients(form, edges.contextlib.nullcontext())
                edges.Overwriting.overwrites = True
                self.assertTrue(torch.equal(case.gradients(form, tuck.saved_tensors("zvc")), right), name)


def load_tests(loader, tests, _):
    for case, name in ((edges.Filled, "test_the_noise_of_rrelu"), (edges.Lossless, "test_forward_differentiation"),
                       (edges.Lossless, "test_batches_of_gradients"),
                       (edges.Lossless, "test_signs_that_are_still_to_be_written"),
                       (edges.Overwritten, "test_backward_in_inference_mode"),
                       (edges.GivenBack, "test_gradients_are_right"), (edges.Rewritten, "test_what_was_saved_comes_back"),
                       (edges.Subclasses, "test_train_as_without"), (edges.Traced, "test_by_each_tracer"),
                       (edges.DefaultDevice, "test_tensors_of_another_device")):
        tests.addTest(case(name))
    return tests


def of_the_package(policy, smallest=4096):
    return tuck.saved_tensors("zvc+huffman", smallest=smallest)


if __name__ == "__main__":
    with mock.patch.object(edges.tuck_torch, "saved_tensors", of_the_package), \
            mock.patch.object(edges, "ALL", {"zvc": lambda: None}):
        unittest.main()
