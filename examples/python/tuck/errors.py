"""The errors of tuck. All are ValueError too."""

from . import _tuck

__all__ = ["TuckError"]


class TuckError(ValueError):
    """Any error of tuck."""


def _error(name, text, *codes):
    made = type(name, (TuckError,), {"__doc__": text, "__module__": "tuck"})
    globals()[name] = made
    __all__.append(name)
    for code in codes:
        _by_code[code] = made


# By tuck::status; from 1000 on by the numbers of module.cpp.
_by_code = {}
_error("UnknownCodecError", "No codec has this name; see codecs().", 29)
_error("DtypeError", "tuck, or this codec, does not take the type of the array.", 16, 30, 1002)
_error("BoundError", "The bound is missing, belongs to no lossy codec, or is not positive and finite.", 11, 1005, 1006)
_error("OutputTooSmallError", "`out` has fewer bytes than the frame needs.", 3)
_error("SizeError", "An array has another number of values than it must have.", 4, 1007)
_error("OverlapError", "Arrays share memory that must not.", 1004)
_error("ReadOnlyError", "`out` cannot be written to.", 1003)
_error("ContiguityError", "An array is not contiguous.", 6, 1000)
_error("DeviceError", "An array is in memory that this build cannot use.", 1001)
_error("ByteOrderError", "An array is big-endian.")
_error("WrongBaseError", "The base is not the one that the delta was made against.", 20)
_error("NeedsBaseError", "The frame is a delta, which apply_delta restores with its base.", 18)
_error("NotADeltaError", "The frame is not a delta; decode restores it.", 19)
_error("DamagedFrameError", "The bytes are not a frame, or a damaged one.", 17, *range(32, 41))
_tuck.set_errors({code: _by_code.get(code, TuckError) for code in [*range(1, 80), *range(1000, 1008)]})
