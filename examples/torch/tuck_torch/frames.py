"""Frames and deltas of single tensors, for programs that send or store them."""

from __future__ import annotations

import torch

from .functions import has_values
from .library import DTYPES, Choice, host


def _check(*tensors: torch.Tensor) -> None:
    _check_dense(*tensors)
    if tensors[0].dtype not in DTYPES:
        raise BufferError(f"no codec is for {tensors[0].dtype}")


def _check_dense(*tensors: torch.Tensor) -> None:
    for t in tensors:
        if not _is_dense(t):
            raise ValueError("a frame needs a contiguous tensor on the CPU, with its values in memory")
        if t.dtype != tensors[0].dtype or t.numel() != tensors[0].numel():
            raise ValueError("a tensor and its base must have the same type and size")


def _is_dense(t: torch.Tensor) -> bool:
    return t.device.type == "cpu" and has_values(t) and t.is_contiguous()


def _check_frame(frame: torch.Tensor) -> None:
    if frame.dtype != torch.uint8 or not _is_dense(frame):
        raise ValueError("a frame is a contiguous tensor of uint8 on the CPU")


def _count_write(t: torch.Tensor) -> None:
    """Tells autograd of a write that PyTorch has not made, by one of its own that changes no value."""
    if not t.is_inference():  # PyTorch counts no writes to those
        t.detach().view(-1)[:0].zero_()


def encode(t: torch.Tensor, codec: str) -> torch.Tensor:
    """Returns the frame of a contiguous tensor on the CPU, by a lossless codec. Raises BufferError if the codec does not
    take the type."""
    lossless = [name for name in host().codecs if not host().is_lossy(name.encode())]
    if codec not in lossless:
        raise ValueError(f"codec: {codec!r} is not one of {', '.join(lossless)}")
    _check(t)
    return host().encode(Choice(codec), t)


def decode(frame: torch.Tensor, into: torch.Tensor) -> None:
    """Decodes a frame into a tensor of the same type and size. Autograd counts that as a write in place."""
    _check(into)
    _check_frame(frame)
    _count_write(into)  # also if the frame is damaged: the values before the damage may have been written
    host().decode(frame, into)


def encode_delta(t: torch.Tensor, base: torch.Tensor, codec: str | None = None) -> torch.Tensor:
    """Returns the frame of what differs between `t` and `base`: by steps, for floats, by gaps, for few changes, or by
    zvc+rle+huffman. Without a codec: steps for floats of up to 4 bytes, else gaps. Raises BufferError if the codec does
    not take the type."""
    _check(t, base)
    if codec is None:
        codec = "steps" if t.is_floating_point() and t.element_size() <= 4 else "gaps"
    return host().encode_delta(t, base, codec)


def decode_delta(frame: torch.Tensor, base: torch.Tensor, into: torch.Tensor | None = None) -> None:
    """Restores a tensor from its delta and its base, in place unless `into` is given. Verifies the frame and the base
    first: if one of them is wrong, raises Error and changes nothing. Autograd counts the rest as a write in place."""
    into = base if into is None else into
    _check(base, into)
    _check_frame(frame)
    host().decode_delta(frame, base, into)
    _count_write(into)


def digest(t: torch.Tensor) -> int:
    """Returns a 64-bit checksum of a tensor. It finds accidents, not forgery."""
    _check_dense(t)
    return host().digest(t.data_ptr(), t.numel() * t.element_size())
