"""libtuck_pages.so for Python: the functions of tuck_pages.h.

Buffers are addresses, PyTorch tensors (data_ptr) or NumPy arrays. They must be memory that the device can use, and
must stay alive until the stream has done the work. Tensors and arrays must be contiguous and large enough, and pairs
int32, or ValueError is raised, as for a number that its field or argument cannot hold: ctypes would cut it. A stream
is its address, such as torch.cuda.current_stream().cuda_stream; 0 is the default stream.
"""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_uint32, c_uint64, c_void_p

F16, BF16, F8E4M3, F8E5M2 = 9, 10, 13, 14
NO_LOSS, ABSOLUTE, OF_RANGE, POINTWISE = range(4)
RAW, LOSSLESS, BOUNDED = range(3)
OK, NO_FIT, BAD_INDEX, OTHER_TYPE, NO_BOUNDS = 0, 3, 4, 16, 30


def fitting(name, value, kind):
    """Returns a number that the C type can hold."""
    if isinstance(value, int) and kind is not None and kind(value).value != value:
        raise ValueError(f"{name}: {value} does not fit into {8 * ctypes.sizeof(kind)} bits")
    return value


class Config(ctypes.Structure):
    _fields_ = [("type", c_int32), ("loss", c_int32), ("bound", c_double), ("page_values", c_uint64),
                ("page_stride", c_uint64), ("page_count", c_uint64), ("slot_bytes", c_uint64),
                ("slot_stride", c_uint64), ("slot_count", c_uint64), ("chunk_values", c_uint32),
                ("most_pairs", c_uint32), ("checksums", c_uint32)]

    def __setattr__(self, name, value):
        super().__setattr__(name, fitting(name, value, dict(self._fields_).get(name)))


class Pair(ctypes.Structure):
    _fields_ = [("dst", c_int32), ("src", c_int32)]


class Result(ctypes.Structure):
    _fields_ = [("bytes", c_uint64), ("bound", c_double), ("status", c_uint32), ("form", c_uint32)]


class PagesError(Exception):
    """A call failed. `status` is its tuck::status."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def address(buffer, size, widths=None):
    """Returns the address of a buffer that has at least `size` bytes, in elements of one of these widths. If the buffer
    is an address, nothing is checked."""
    if buffer is None or isinstance(buffer, int):
        return buffer
    if hasattr(buffer, "data_ptr"):
        begin, dense, width, count = buffer.data_ptr(), buffer.is_contiguous(), buffer.element_size(), buffer.numel()
    else:
        begin, dense, width, count = buffer.ctypes.data, buffer.flags.c_contiguous, buffer.itemsize, buffer.size
    if not dense:
        raise ValueError("a buffer is not contiguous")
    if widths and width not in widths:
        raise ValueError(f"elements have {width} bytes instead of {widths[0]}")
    if not 0 <= size <= width * count:
        raise ValueError(f"a buffer has {width * count} bytes instead of {size}")
    return begin


def pages_bytes(config):
    width = 1 if config.type in (F8E4M3, F8E5M2) else 2
    return (config.page_count - 1) * config.page_stride + width * config.page_values if config.page_count else 0


def slots_bytes(config):
    return config.slot_count * config.slot_stride


class Library:
    """The functions of tuck_pages.h. They raise PagesError instead of returning a status."""

    def __init__(self, path):
        self._functions = ctypes.CDLL(path)
        call = [POINTER(Config), c_void_p, c_uint32, c_void_p, c_void_p, c_void_p, c_void_p, c_uint64, c_void_p]
        for name, result, arguments in (("message", c_char_p, [c_int32]),
                                        ("worst_slot_bytes", c_uint64, [POINTER(Config)]),
                                        ("workspace_bytes", c_int32, [POINTER(Config), POINTER(c_uint64)]),
                                        ("initialize", c_int32, [POINTER(Config), c_void_p, c_uint64, c_void_p]),
                                        ("encode", c_int32, call), ("decode", c_int32, call)):
            function = getattr(self._functions, "tuck_pages_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, "_" + name, function)

    def message(self, status):
        return self._message(status).decode()

    def worst_slot_bytes(self, config):
        return self._worst_slot_bytes(byref(config))

    def workspace_bytes(self, config):
        size = c_uint64()
        self._check(self._workspace_bytes(byref(config), byref(size)))
        return size.value

    def initialize(self, config, workspace, workspace_bytes, stream):
        fitting("workspace_bytes", workspace_bytes, c_uint64)
        self._check(self._initialize(byref(config), address(workspace, workspace_bytes), workspace_bytes, stream))

    def encode(self, config, pairs, count, pages, slots, results, workspace, workspace_bytes, stream):
        self._call(self._encode, config, pairs, count, address(pages, pages_bytes(config)),
                   address(slots, slots_bytes(config)), results, workspace, workspace_bytes, stream)

    def decode(self, config, pairs, count, slots, pages, results, workspace, workspace_bytes, stream):
        self._call(self._decode, config, pairs, count, address(slots, slots_bytes(config)),
                   address(pages, pages_bytes(config)), results, workspace, workspace_bytes, stream)

    def _call(self, function, config, pairs, count, source, target, results, workspace, workspace_bytes, stream):
        fitting("count", count, c_uint32)
        fitting("workspace_bytes", workspace_bytes, c_uint64)
        self._check(function(byref(config), address(pairs, count * ctypes.sizeof(Pair), (4, 1)), count, source, target,
                             address(results, count * ctypes.sizeof(Result)), address(workspace, workspace_bytes),
                             workspace_bytes, stream))

    def _check(self, status):
        if status != OK:
            raise PagesError(status, self.message(status))
