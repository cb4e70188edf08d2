"""Activations that autograd saves for the backward pass, tucked away until it comes.

    policy = tuck_torch.Codec("zvc+rle+huffman")     # or Raw(), Advised(), Comet(optimizer)
    for x, y in batches:
        optimizer.zero_grad()
        with tuck_torch.saved_tensors(policy):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

What is saved on the CPU becomes a frame of the package tuck; what is saved on a CUDA device goes
through that device's swap stream to pinned host memory (libtuck_torch.so).

The backward pass reads what was there when a tensor was saved, whoever writes to the memory later: each tensor is
copied at the save. On the CPU, tensors of the same digest are stored once, in whatever shapes they are seen. Tensors
below `smallest` bytes and those that are not dense in memory, nor views of a dense result, are copied and not encoded.
Parameters are not copied: if one is not what it was, also by a write that PyTorch does not count, the backward pass
raises Error. Subclasses of tensors, such as DTensor, FakeTensor and quantized tensors, are left alone: their values may
be in another place. If a backward function overwrites what it was given, the next reader of an encoded tensor gets the
saved values, that of another an error.

Frames of 64 KiB or more are encoded and decoded on a thread of that package beside the training's own.

Policies count what they stored, by layer: `policy.take_counts()`. One policy is for one training loop; in a
DistributedDataParallel training each process has its own, and one swap stream for each device that it uses.

On a CUDA device, Raw copies to the host what the GPU needs no more, as vDNN does; float64 is stored by zvc or rle
alone, and integers as they are; what the pinned memory has no room for (TUCK_PINNED_BYTES, 1 GiB) stays there. A tensor
is copied on the device, by the stream that saved it, before it leaves. Each save is stored by itself, and uncounted
writes to parameters are not seen, as the host would have to wait for a digest. Nothing waits, so the seconds of codecs
are not known and count as 0, and what went wrong in a decode is said later, by `synchronize()`. Only `take_counts`
waits for the device, as it needs the sizes of all frames.
"""

from __future__ import annotations

import contextlib

from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules import module as modules
from tuck.saved import uncompiled

from .comet import Comet
from .library import Choice, Error, codecs, synchronize
from .policies import Advised, Codec, Counts, Policy, Raw, Site
from .session import Session

__all__ = ["saved_tensors", "Raw", "Codec", "Advised", "Comet", "Policy", "Counts", "Choice", "Site", "Error", "codecs",
           "synchronize"]


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
