"""Activations that autograd saves for the backward pass, tucked away until it comes.

    policy = tuck_torch.Codec("zvc+rle+huffman")     # or Raw(), Advised(), Comet(optimizer)
    for x, y in batches:
        optimizer.zero_grad()
        with tuck_torch.saved_tensors(policy):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

What is saved on the CPU becomes a frame of the package tuck; what is saved on a CUDA device goes
through that device's swap stream to pinned host memory (libtuck_torch.so). Parameters, tensors below `smallest` bytes
and those that are not dense in memory, nor views of a dense result, are left alone. So are subclasses of tensors, such
as DTensor, FakeTensor and quantized tensors: their values may be in another place. Memory that several operations save
is stored once, in whatever shapes they see it. Writes that PyTorch does not count, as through `.data`, are not seen. A
tensor that is written to after it was saved, and before it is encoded, is an error in the backward pass. Memory that is
freed before, by `untyped_storage().resize_(0)`, has to be filled again for the backward pass, as without tuck. If a
backward function overwrites what it was given, the next reader of an encoded tensor gets the saved values.

Frames of 64 KiB or more are encoded and decoded on a thread of that package beside the training's own.

Policies count what they stored, by layer: `policy.take_counts()`. One policy is for one training loop; in a
DistributedDataParallel training each process has its own, and one swap stream for each device that it uses.

On a CUDA device, Raw copies to the host what the GPU needs no more, as vDNN does; float64 is stored by zvc or rle
alone, and integers as they are; what the pinned memory has no room for (TUCK_PINNED_BYTES, 1 GiB) stays where it is.
There, a write to a tensor after it was saved is an error in the backward pass even once it is encoded. Nothing waits,
so the seconds of codecs are not known and count as 0, and what went wrong in a decode is said later, by
`synchronize()`. Only `take_counts` waits for the device, as it needs the sizes of all frames.
"""

from __future__ import annotations

import contextlib
import sys

from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules import module as modules

from .comet import Comet
from .library import Choice, Error, codecs, synchronize
from .policies import Advised, Codec, Counts, Policy, Raw, Site
from .session import Session

__all__ = ["saved_tensors", "Raw", "Codec", "Advised", "Comet", "Policy", "Counts", "Choice", "Site", "Error", "codecs",
           "synchronize"]


def uncompiled(hook):
    """A hook that torch.compile leaves alone, where the program uses it."""
    dynamo = sys.modules.get("torch._dynamo")
    return dynamo.disable(hook) if dynamo is not None else hook


@contextlib.contextmanager
def saved_tensors(policy: Policy | str, *, smallest: int = 4096):
    """While it is entered, what autograd saves is stored as the policy - or the codec of that name - says; `as` gives
    the policy. The backward pass may come inside or outside, and more than once where the graph is retained."""
    if isinstance(policy, str):
        policy = Codec(policy)
    if not isinstance(policy, Policy):
        raise TypeError(f"policy: {policy!r} is neither a Policy nor a codec's name")
    if not isinstance(smallest, int) or smallest < 0:
        raise ValueError(f"smallest: {smallest!r} is no number of bytes")
    policy.iteration += 1
    policy.entered()
    session = Session(policy, smallest)
    hooks = [modules.register_module_forward_pre_hook(session.enter),
             modules.register_module_forward_hook(session.leave)]
    try:
        with saved_tensors_hooks(uncompiled(session.pack), uncompiled(session.unpack)), session.functions:
            yield policy
    finally:
        for hook in hooks:
            hook.remove()
        session.close()
