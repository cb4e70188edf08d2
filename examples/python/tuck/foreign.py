# SPDX-License-Identifier: Apache-2.0
"""What published versions of weights take from other packages: zstd, and checksums. Each is imported when it is needed.

zstd comes from the first of these that is there: compression.zstd (Python 3.14), zstandard, pyzstd, libzstd.so.1."""

import ctypes
import io
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Callable, Dict, NamedTuple, Tuple

from .errors import TuckError
from .types import np


class Zstd(NamedTuple):
    compress: Callable[[Any, int], Any]  # (bytes, level): bytes
    fill: Callable[[Any, Any], int]  # (bytes, uint8 array): how many bytes they decompress to, at most as many as fit


def _like_python(module) -> Zstd:
    def fill(data, room):
        stream = module.ZstdDecompressor()
        made = stream.decompress(data, len(room) + 1)
        if not stream.eof or stream.unused_data or len(made) > len(room):
            raise ValueError("not one whole frame of zstd of at most the size that is right")
        room[:len(made)] = np.frombuffer(made, np.uint8)
        return len(made)

    return Zstd(lambda data, level: module.compress(data, level), fill)


def _like_zstandard(module) -> Zstd:
    def fill(data, room):
        done = 0
        with module.ZstdDecompressor().stream_reader(io.BytesIO(data)) as stream:
            while done < len(room):
                got = stream.readinto(memoryview(room)[done:])
                if got == 0:
                    break
                done += got
            if stream.read(1):
                raise ValueError("more bytes than are right")
        return done

    return Zstd(lambda data, level: module.ZstdCompressor(level=level).compress(data), fill)


def _like_c(library) -> Zstd:
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    library.ZSTD_compressBound.restype, library.ZSTD_compressBound.argtypes = size, (size,)
    library.ZSTD_isError.argtypes = (size,)
    library.ZSTD_compress.restype, library.ZSTD_decompress.restype = size, size
    library.ZSTD_compress.argtypes = pointer, size, pointer, size, ctypes.c_int
    library.ZSTD_decompress.argtypes = pointer, size, pointer, size

    def checked(done):
        if library.ZSTD_isError(done):
            raise ValueError("not one whole frame of zstd of at most the size that is right")
        return done

    def compress(data, level):
        data = np.frombuffer(data, np.uint8)
        room = np.empty(library.ZSTD_compressBound(len(data)), np.uint8)
        return room[:checked(library.ZSTD_compress(room.ctypes.data, len(room), data.ctypes.data, len(data), level))]

    def fill(data, room):
        data = np.frombuffer(data, np.uint8)
        return checked(library.ZSTD_decompress(room.ctypes.data, len(room), data.ctypes.data, len(data)))

    return Zstd(compress, fill)


def _import_c(name):
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(name) from error


_SOURCES: Tuple[Tuple[str, Callable, Callable], ...] = (
    ("compression.zstd", import_module, _like_python), ("zstandard", import_module, _like_zstandard),
    ("pyzstd", import_module, _like_python), ("libzstd.so.1", _import_c, _like_c))


@lru_cache(maxsize=None)
def zstd() -> Zstd:
    """Returns zstd. Raises TuckError if there is none."""
    for name, find, adapt in _SOURCES:
        try:
            return adapt(find(name))
        except ImportError:
            pass
    raise TuckError("zstd is not installed: pip install zstandard")


def _adler32() -> Callable[[Any], str]:
    from zlib import adler32

    return lambda data: f"{adler32(data):08x}"


def _xxh3() -> Callable[[Any], str]:
    return import_module("xxhash").xxh3_128_hexdigest


def _blake3() -> Callable[[Any], str]:
    blake3 = import_module("blake3").blake3
    return lambda data: blake3(data).hexdigest()


_CHECKSUMS: Dict[str, Callable[[], Callable[[Any], str]]] = {"adler32": _adler32, "xxh3-128": _xxh3, "blake3": _blake3}


@lru_cache(maxsize=None)
def checksum(name: str) -> Callable[[Any], str]:
    """Returns the function from bytes to hexadecimal digits that a checksum_format names. Raises TuckError."""
    if name not in _CHECKSUMS:
        raise TuckError(f"unknown checksum_format {name!r}; there are {', '.join(_CHECKSUMS)}")
    try:
        return _CHECKSUMS[name]()
    except ImportError as error:
        raise TuckError(f"checksum_format {name} needs a package: pip install {error.name}") from error


def fast_checksum() -> str:
    """Returns the name of the fastest checksum that is installed."""
    return "adler32" if find_spec("xxhash") is None else "xxh3-128"
