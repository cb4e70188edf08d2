# SPDX-License-Identifier: Apache-2.0
"""The errors of tuck. All are ValueError too."""

from typing import Dict, Tuple, Type

from . import _tuck

__all__ = ["BoundError", "ByteOrderError", "ContiguityError", "DamagedFrameError", "DeviceError", "DtypeError",
           "NeedsBaseError", "NotADeltaError", "OutputTooSmallError", "OverlapError", "ReadOnlyError", "SizeError",
           "StreamError", "TuckError", "UnknownCodecError", "WrongBaseError"]


# _codes: numbers of tuck::status, also those that are not in use yet; from 1000 on those of array.hpp.
class TuckError(ValueError):
    """Any error of tuck."""

    _codes: Tuple[int, ...] = (*range(1, 128), *range(1000, 1008))


class UnknownCodecError(TuckError):
    """No codec has this name; see codecs()."""

    _codes = (29,)


class DtypeError(TuckError):
    """tuck, or this codec, does not take the type of the array."""

    _codes = (16, 30, 1002)


class BoundError(TuckError):
    """The bound is missing, belongs to no lossy codec, or is not positive and finite."""

    _codes = (11, 1005, 1006)


class OutputTooSmallError(TuckError):
    """`out` has fewer bytes than the frame needs."""

    _codes = (3,)


class SizeError(TuckError):
    """An array has another number of values than it must have."""

    _codes = (4, 1007)


class OverlapError(TuckError):
    """Arrays share memory that must not."""

    _codes = (31, 1004)


class ReadOnlyError(TuckError):
    """`out` cannot be written to."""

    _codes = (1003,)


class ContiguityError(TuckError):
    """An array is not contiguous."""

    _codes = (6, 1000)


class DeviceError(TuckError):
    """An array is in memory that this build cannot use."""

    _codes = (1001,)


class ByteOrderError(TuckError):
    """An array is big-endian."""

    _codes = ()


class WrongBaseError(TuckError):
    """The base is not the one that the delta was made against."""

    _codes = (20,)


class NeedsBaseError(TuckError):
    """The frame is a delta, which apply_delta restores with its base."""

    _codes = (18,)


class NotADeltaError(TuckError):
    """The frame is not a delta; decode restores it."""

    _codes = (19,)


class DamagedFrameError(TuckError):
    """The bytes or the file are no frame, or a damaged one."""

    _codes = (17, *range(32, 48))


class StreamError(TuckError):
    """A version of weights is missing, not as it must be, or cannot be published; see tuck.streams."""

    _codes = ()


_errors: Tuple[Type[TuckError], ...] = (TuckError, *TuckError.__subclasses__())
_by_code: Dict[int, Type[TuckError]] = {code: error for error in _errors for code in error._codes}
_tuck.set_errors(_by_code)
for _error in _errors:
    _error.__module__ = "tuck"


def error_of(code: int) -> Type[TuckError]:
    return _by_code.get(code, TuckError)


class of_tensor:
    """Lets the errors of a batch name their tensor: keys[at]. Without keys they stay as they are."""

    def __init__(self, keys=None) -> None:
        self.keys, self.at = keys, 0

    def __enter__(self) -> "of_tensor":
        return self

    def __exit__(self, kind, error, trace) -> None:
        if self.keys is not None and isinstance(error, (TuckError, TypeError)):
            text, name = str(error), f"tensor {self.keys[self.at]!r}"
            text = name + text[10:] if text.startswith("the tensor ") else f"{name}: {text}"
            raise type(error)(text) from error
