"""Weight streams: a trainer publishes versions of its weights in a folder, others bring a local checkpoint up to one.

    publisher = tuck.streams.Publisher("weights", "base")             # trainer: "base" is a checkpoint folder
    publisher.publish(1, {"w": w, "b": b})                            # writes weights/weight_v000001

    tuck.streams.Receiver("weights", "local").pull()                  # "local" began as a copy of "base"

A version is a folder of safetensors files: of all tensors, or of the changed ones as deltas, each a U8 tensor of bytes.
The form is the one that slime, miles and SGLang publish, and with compression_format "zstd" they read it. With "tuck" a
delta is a frame of encode_delta.

What a receiver guarantees. Beside the folder LOCAL is the folder .LOCAL.tuck with `lock` and `next`.
  1. No file of LOCAL is ever written to. A pull writes to `next` alone, and there to no file that has other names too:
     files that do not change are hard links to those of LOCAL.
  2. `next` becomes LOCAL when all its values are verified and on the disk. The marker in it says the version. The two
     folders exchange their names in one step of the file system, so LOCAL is at each moment one version or the other.
  3. Nothing in `next` is trusted. A pull writes each file of it anew, from LOCAL and the source, or links it. So a pull
     may be killed anywhere, and the next one starts anew.
After a pull `next` is the version before; its files, unless linked from elsewhere, are written over by the next pull,
which is faster than new ones. On the disk are therefore two checkpoints.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import re
import shutil
import stat
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple, Union

from . import _ML_DTYPES, _tuck, encode_delta, foreign
from .errors import DamagedFrameError, DtypeError, SizeError, StreamError, TuckError
from .types import AS_INTEGERS, NUMPY, OWN, TORCH, check_dense, is_torch, np

__all__ = ["Publisher", "Receiver", "tensors_of", "versions"]

INDEX = "model.safetensors.index.json"
MARKER = ".tuck-version.json"  # in a local checkpoint
_SUFFIX = ".safetensors"
_CHECKSUMS = "tuck-checksums-"  # begins the names of files in full versions, which have no place for checksums
_MOST_JSON = 100_000_000  # bytes, as for headers of safetensors
_PIECE = 1 << 20

Progress = Callable[[int, int], None]  # called with the bytes of tensors that are done, and of all
Hook = Callable[[Path, int], None]  # called with the folder of a version, and its number


def _folder_name(version: int, base: Optional[int] = None) -> str:
    return f"weight_v{version:06}" + ("" if base is None else f"_from_{base:06}")


def versions(folder: Union[str, os.PathLike]) -> List[int]:
    """Returns the versions that are complete in a folder, in order. Reads names only, no times."""
    found = []
    for name in os.listdir(folder):
        match = re.fullmatch(r"weight_v([0-9]{6,18})", name)
        if match and name == _folder_name(int(match[1])):
            if any(os.path.exists(os.path.join(folder, name, file)) for file in (INDEX, "model.safetensors")):
                found.append(int(match[1]))
    return sorted(found)


def tensors_of(checkpoint: Union[str, os.PathLike]) -> Dict[str, Any]:
    """Returns the tensors of a folder of safetensors files by name, as NumPy arrays in memory maps. bf16 and 8-bit
    floats are integers; types that tuck does not have are bytes. Raises StreamError or OSError."""
    folder = _Folder(Path(checkpoint), str(checkpoint))
    mapped = _Mapped(folder)
    return {name: _values(mapped.bytes(t), "bool" if t.dtype == "BOOL" else t.type)[0]
            for name, t in folder.tensors.items()}


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:80] + "...")


@contextmanager
def _about(text: str) -> Iterator[None]:
    """Lets errors begin with what they are about, such as "version 42: tensor 'a'"."""
    try:
        yield
    except (TuckError, OSError) as error:
        if str(error).startswith(text.partition(":")[0]):
            raise
        raise (type(error) if isinstance(error, TuckError) else StreamError)(f"{text}: {error}") from error


class _Tensor(NamedTuple):
    file: str
    dtype: str  # in the file: "BF16"
    type: str  # of tuck: "bf16"; "u8" for others than tuck has
    shape: Tuple[int, ...]
    begin: int  # offsets in the file
    end: int

    @property
    def bytes(self) -> int:
        return self.end - self.begin


@contextmanager
def _regular(path: Path) -> Iterator[int]:
    """A descriptor of a regular file, to read. Does not wait for the writer of a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StreamError(f"{_shown(path.name)} is not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def _read_range(path: Path, begin: int, room) -> None:
    """Fills a uint8 array from a regular file. Untrusted files are read, not mapped: a mapped one may shrink, and then
    the process ends."""
    with _regular(path) as descriptor:
        done = 0
        while done < len(room):
            got = os.preadv(descriptor, [memoryview(room)[done:done + (1 << 30)]], begin + done)
            if got == 0:
                raise StreamError(f"{_shown(path.name)} is truncated")
            done += got


def _read_json(path: Path) -> Any:
    with _regular(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
        text = file.read(_MOST_JSON + 1)
    if len(text) > _MOST_JSON:
        raise StreamError(f"{_shown(path.name)} has more than {_MOST_JSON} bytes")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StreamError(f"{_shown(path.name)} is not JSON: {error}") from error


def _strings(value: Any, what: str) -> Dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise StreamError(f"{what} is not an object of strings")
    return value


class _Folder:
    """A folder of safetensors files: a checkpoint, or a published version. Reads the headers only. It is not trusted.
    Raises StreamError, which begins with `about`."""

    def __init__(self, path: Path, about: str) -> None:
        self.path, self.about = path, about
        self.tensors: Dict[str, _Tensor] = {}
        self.first: Dict[str, int] = {}  # by file: the offset of the data
        self.texts: Dict[str, Dict[str, str]] = {}  # by file: its metadata
        self.metadata: Dict[str, Any] = {}
        self.has_index = os.path.lexists(path / INDEX)
        with _about(about):
            present = {name for name in os.listdir(path) if name.endswith(_SUFFIX)}
            index = _read_json(path / INDEX) if self.has_index else None
            files: Dict[str, List[str]] = {}
            if index is None:
                files = {name: [] for name in sorted(present)}
            else:
                if not isinstance(index, dict):
                    raise StreamError(f"{INDEX} is not a JSON object")
                metadata = index.get("metadata") or {}
                if not isinstance(metadata, dict):
                    raise StreamError(f"the metadata of {INDEX} is not a JSON object")
                self.metadata = metadata
                for name, file in _strings(index.get("weight_map"), f"'weight_map' of {INDEX}").items():
                    if file not in present:  # so it has no '/'
                        raise StreamError(f"tensor {_shown(name)}: its file {_shown(file)} is missing")
                    files.setdefault(file, []).append(name)
            for file, names in files.items():
                count = self._read(file)
                for name in names:
                    if name not in self.tensors or self.tensors[name].file != file:
                        raise StreamError(f"tensor {_shown(name)}: it is not in its file {_shown(file)}")
                if index is not None and len(names) != count:
                    raise StreamError(f"{_shown(file)} has tensors that are not in {INDEX}")

    def _read(self, file: str) -> int:
        self.first[file], tensors, self.texts[file] = _tuck.read_safetensors_header(os.fsencode(self.path / file))
        for name, dtype, type, shape, begin, end in tensors:
            if name in self.tensors:
                raise StreamError(f"tensor {_shown(name)}: it is in {_shown(self.tensors[name].file)} and "
                                  f"in {_shown(file)}")
            self.tensors[name] = _Tensor(file, dtype, type, tuple(shape), self.first[file] + begin,
                                         self.first[file] + end)
        return len(tensors)

    def others(self) -> List[str]:
        """Paths in the folder of all files but the tensors', the index and the marker."""
        found = []
        for folder, folders, files in os.walk(self.path):
            for name in files + [f for f in folders if os.path.islink(os.path.join(folder, f))]:
                path = os.path.relpath(os.path.join(folder, name), self.path)
                if path not in self.first and path not in (MARKER, INDEX) and not path.startswith(_CHECKSUMS):
                    found.append(path)
        return found

    def read(self, tensor: _Tensor, room=None):
        """Returns the bytes of a tensor, in an array of its own or in `room`."""
        room = np.empty(tensor.bytes, np.uint8) if room is None else room
        _read_range(self.path / tensor.file, tensor.begin, room)
        return room


class _Mapped:
    """The values of a local checkpoint in memory maps, which are not written to."""

    def __init__(self, folder: _Folder) -> None:
        self.folder = folder
        self._maps = {file: _map(folder.path / file) for file in folder.first}

    def bytes(self, tensor: _Tensor):
        return np.frombuffer(self._maps[tensor.file], np.uint8, tensor.bytes, tensor.begin)

    def expect(self, tensor: _Tensor) -> None:
        """Begins to read a tensor from the disk."""
        begin = tensor.begin & -mmap.PAGESIZE
        if tensor.bytes:
            self._maps[tensor.file].madvise(mmap.MADV_WILLNEED, begin, tensor.end - begin)


def _map(path: Path) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _sync(path: Union[str, Path]) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, pieces) -> None:
    """Writes a file that appears when it is complete and on the disk."""
    temporary = path.with_name("." + path.name + ".tmp")
    with open(temporary, "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)


def _marked_version(path: Path) -> int:
    """The version of a local checkpoint: 0 without a marker."""
    try:
        marker = _read_json(path / MARKER)
    except FileNotFoundError:
        return 0
    version = marker.get("version") if isinstance(marker, dict) else None
    if not isinstance(version, int) or not 0 <= version < 10**18:
        raise StreamError(f"{path / MARKER} does not say a version")
    return version


class _Workers:
    """Calls for many tensors, in threads."""

    def __init__(self, threads: int) -> None:
        self.threads = threads or len(os.sched_getaffinity(0))

    def run(self, call: Callable, names: List[str], sizes: List[int], progress: Optional[Progress] = None) -> list:
        """Returns call(name, worker) for each name, in order. After an error no more calls begin; then the error is
        raised."""
        done, all, local = 0, sum(sizes), threading.local()

        def work(name, size):
            if not hasattr(local, "worker"):
                local.worker = _Worker()
            local.worker.threads = self.threads if size * self.threads > all else 1  # large ones are shared
            return call(name, local.worker)

        with ThreadPoolExecutor(min(self.threads, max(1, len(names)))) as pool:
            futures = [pool.submit(work, name, size) for name, size in zip(names, sizes)]
            try:
                for future, size in zip(futures, sizes):
                    future.result()
                    done += size
                    if progress:
                        progress(done, all)
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
        return [future.result() for future in futures]


class _Worker:
    """What calls in one thread share: memory that is used again, and how many threads a call may take."""

    def __init__(self) -> None:
        self.threads = 1
        self._rooms: Dict[str, Any] = {}

    def room(self, role: str, size: int):
        """A uint8 array, which stays until the next one of this role."""
        if role not in self._rooms or len(self._rooms[role]) < size:
            self._rooms[role] = None
            self._rooms[role] = np.empty(size, np.uint8)
        return self._rooms[role][:size]


# Deltas of one tensor.

class _Form(NamedTuple):
    """How a version stores its deltas."""

    compression: str  # compression_format: "tuck", "zstd"
    encoding: str  # delta_encoding: "xor", "overwrite"
    checksum: str  # checksum_format

    def check(self) -> None:
        if self.compression not in ("tuck", "zstd"):
            raise StreamError(f"unknown compression_format {self.compression!r}; there are tuck, zstd")
        if self.encoding not in ("xor", "overwrite"):
            raise StreamError(f"unknown delta_encoding {self.encoding!r}; there are xor, overwrite")
        if (self.compression, self.encoding) == ("tuck", "overwrite"):
            raise StreamError("delta_encoding overwrite is for compression_format zstd")
        foreign.checksum(self.checksum)
        if self.compression == "zstd":
            foreign.zstd()


def _values(data, type: str):
    """The values of bytes: an aligned array and the type that its integers stand for, as the extension takes them."""
    values = data.view(NUMPY[type]) if data.ctypes.data % np.dtype(NUMPY[type]).itemsize == 0 else (
        data.copy().view(NUMPY[type]))
    return values, type if type in AS_INTEGERS else ""


def _encode(new, base, type: str, form: _Form, level: int, worker: _Worker):
    """Returns the delta of a tensor from uint8 arrays of the same size."""
    if form.compression == "tuck":
        values, own = _values(new, type)
        return encode_delta(values, _values(base, type)[0], dtype=own or None, threads=worker.threads)
    if form.encoding == "xor":
        payload = np.bitwise_xor(new, base, out=worker.room("payload", len(new)))
    else:
        if len(new) >= 1 << 32:
            raise StreamError("delta_encoding overwrite is for tensors of less than 4 GiB")
        places = np.flatnonzero(new != base).astype("<u4")
        payload = np.concatenate([np.array([len(places)], "<u4").view(np.uint8), places.view(np.uint8), new[places]])
    return np.frombuffer(foreign.zstd().compress(payload, level), np.uint8)


def _apply(delta, base, out, type: str, form: _Form, worker: _Worker) -> None:
    """Applies a delta to uint8 arrays of the same size; `out` may be `base`. After an error `out` is unspecified."""
    if form.compression == "tuck":
        before, own = _values(base, type)
        to = _values(out, type)[0]
        _tuck.apply_delta(delta, before, own, to, own, worker.threads, _tuck.chunk_by_chunk)
        if not np.shares_memory(to, out):
            out[:] = to.view(np.uint8)
        return
    room = worker.room("payload", len(out) if form.encoding == "xor" else 4 + 5 * len(out))
    try:
        size = foreign.zstd().fill(delta, room)
    except Exception as error:  # each package has its own
        raise DamagedFrameError(f"its zstd data are damaged: {error}") from error
    if form.encoding == "xor":
        if size != len(out):
            raise DamagedFrameError(f"its delta has {size} bytes, the tensor {len(out)}")
        np.bitwise_xor(base, room, out=out)
        return
    count = int(room[:4].view("<u4")[0]) if size >= 4 else 0
    if size != 4 + 5 * count:
        raise DamagedFrameError(f"its delta has {size} bytes, its count of {count} needs {4 + 5 * count}")
    places = room[4:4 + 4 * count].view("<u4")
    if count and int(places.max()) >= len(out):
        raise DamagedFrameError(f"its delta writes byte {int(places.max())} of {len(out)}")
    if base is not out:
        out[:] = base
    out[places] = room[4 + 4 * count:size]


def _equal(a, b) -> bool:
    """Whether two uint8 arrays of the same size are equal. Ends at the first piece that is not."""
    return all(np.array_equal(a[i:i + _PIECE], b[i:i + _PIECE]) for i in range(0, len(a), _PIECE))


# Published versions.

class _Version(_Folder):
    """A version in the source."""

    def __init__(self, path: Path, version: int, base: Optional[int] = None) -> None:
        about = f"version {version}"
        super().__init__(path, about)
        self.version = version
        self.base: Optional[int] = None
        if "base_version" not in self.metadata:  # a full version
            if not self.first:
                raise StreamError(f"{about}: {path} has no {INDEX} and no {_SUFFIX} file")
            self.checksums, self.form = self._checksums_of_files(), None
            return
        with _about(about):
            texts = _strings(self.metadata, f"the metadata of {INDEX}")
            numbers = {}
            for key in ("version", "base_version"):
                if not re.fullmatch("[0-9]{1,18}", texts.get(key, "")):
                    raise StreamError(f"the metadata of {INDEX} has no number as '{key}'")
                numbers[key] = int(texts[key])
            self.base = numbers["base_version"]
            if numbers["version"] != version or (base is not None and self.base != base):
                raise StreamError(f"{INDEX} is of version {numbers['version']} from {self.base}")
            if self.base >= version:
                raise StreamError(f"its base is version {self.base}, which is not before it")
            self.form = _Form(texts.get("compression_format", ""), texts.get("delta_encoding", ""),
                              texts.get("checksum_format", ""))
            self.form.check()
            for name, tensor in self.tensors.items():
                if tensor.dtype != "U8" or name not in self.texts[tensor.file]:
                    raise StreamError(f"tensor {_shown(name)}: it is not a U8 tensor with a checksum in the metadata "
                                      f"of {_shown(tensor.file)}")

    def _checksums_of_files(self) -> Dict[str, Tuple[str, str]]:
        """By tensor: format and checksum, if the version was published by tuck."""
        found: Dict[str, Tuple[str, str]] = {}
        with _about(self.about):
            for name in os.listdir(self.path):
                if name.startswith(_CHECKSUMS):
                    content = _read_json(self.path / name)
                    content = content if isinstance(content, dict) else {}
                    for tensor, text in _strings(content.get("checksums"), f"'checksums' of {_shown(name)}").items():
                        found[tensor] = str(content.get("checksum_format")), text
        return found

    def about_tensor(self, name: str) -> str:
        return f"{self.about}: tensor {_shown(name)}"

    def check(self, name: str, values) -> None:
        """Compares the checksum of new values. Raises DamagedFrameError."""
        if self.form is None:
            if name not in self.checksums:
                return
            format, wanted = self.checksums[name]
        else:
            format, wanted = self.form.checksum, self.texts[self.tensors[name].file][name]
        seen = foreign.checksum(format)(values)
        if seen != wanted.lower():
            raise DamagedFrameError(f"its {format} is {seen}, not {_shown(wanted)}: the version is damaged" +
                                    ("" if self.base is None else ", or the checkpoint is not its base"))

    def apply(self, name: str, base, out, type: str, worker: _Worker) -> None:
        """Applies the delta of a tensor and verifies the result. After an error `out` is unspecified."""
        with _about(self.about_tensor(name)):
            _apply(self.read(self.tensors[name]), base, out, type, self.form, worker)
            self.check(name, out)


class _Writer:
    """Writes a version. Its folder appears when it is complete and on the disk."""

    def __init__(self, folder: Path, version: int, base: Optional[int], form: _Form, place: Path) -> None:
        self.version, self.base, self.form, self.place = version, base, form, place
        self.temporary = folder / f".{place.name}.tmp"
        os.makedirs(self.temporary, exist_ok=True)

    @staticmethod
    def file(rank: int, count: int) -> str:
        return f"model-{rank:05}-of-{count:05}{_SUFFIX}"

    def write(self, rank: int, count: int, tensors: Dict[str, Tuple[str, Tuple[int, ...], Any]],
              metadata: Dict[str, str]) -> None:
        """Writes the file of a writer: tensors by name as type in the file, shape, and uint8 array."""
        order = sorted(tensors, key=lambda name: -_value_bits(tensors[name][0]))  # so that values are aligned
        end, described = 0, []
        for name in order:
            dtype, shape, data = tensors[name]
            described.append((name, dtype, "", list(shape), end, end + len(data)))
            end += len(data)
        header = _tuck.make_safetensors_header(described, metadata)
        _write(self.temporary / self.file(rank, count), [header, *(memoryview(tensors[name][2]) for name in order)])

    def clean(self, kept: Set[str]) -> None:
        """Removes what an attempt before may have left."""
        for entry in list(os.scandir(self.temporary)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            elif entry.name not in kept:
                os.unlink(entry.path)

    def complete(self, count: int, metadata: Dict[str, Any]) -> None:
        """Writes the index of the files of all writers, and renames the folder."""
        for rank in range(count):
            if not os.path.exists(self.temporary / self.file(rank, count)):
                raise StreamError(f"version {self.version}: writer {rank} of {count} has not published it")
        files = _Folder(self.temporary, f"version {self.version}")
        index = {"metadata": metadata, "weight_map": {name: t.file for name, t in files.tensors.items()}}
        _write(self.temporary / INDEX, [json.dumps(index, indent=2).encode()])
        _sync(self.temporary)
        os.rename(self.temporary, self.place)  # fails if the version is there
        _sync(self.place.parent)

    def delta_metadata(self) -> Dict[str, str]:
        return {"version": f"{self.version:06}", "base_version": f"{self.base:06}",
                "delta_encoding": self.form.encoding, "compression_format": self.form.compression,
                "checksum_format": self.form.checksum}


_OF_TORCH = {own: name for name, own in TORCH.items()}
_OF_NUMPY = {**{own: name for name, own in OWN.items()}, **_ML_DTYPES}


def _value_bits(dtype: str) -> int:
    digits = re.search("[0-9]+", dtype)
    return int(digits[0]) if digits else 8


def _bytes_of(x, tensor: _Tensor, name: str):
    """The bytes of an array or a torch tensor, which must be of the type and size of the base. A tensor on a GPU is
    copied. Returns a uint8 array, and whether it is a copy."""
    role, is_copy = f"tensor {_shown(name)}", False
    if is_torch(x):
        import torch

        check_dense(x, role)
        is_copy = x.device.type != "cpu"
        own = _OF_TORCH.get(str(x.dtype).partition(".")[2], "")
        data = x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    else:
        x = np.asarray(x)
        own = _OF_NUMPY.get(x.dtype.name, "")
        if not x.dtype.isnative or x.dtype.hasobject:
            raise DtypeError(f"{role} has dtype {x.dtype}")
        data = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    wanted = "bool" if tensor.dtype == "BOOL" else tensor.type
    is_known = wanted != "u8" or tensor.dtype == "U8"  # bytes of other types may come from any array
    if is_known and own != wanted and OWN.get(own) != AS_INTEGERS.get(wanted, ""):
        raise DtypeError(f"{role} has dtype {x.dtype}, the base checkpoint {tensor.dtype}")
    if len(data) != tensor.bytes:
        raise SizeError(f"{role} has {len(data)} bytes, the base checkpoint {tensor.bytes}")
    return data, is_copy


class Publisher:
    """Publishes versions of weights in a folder. Not for several threads at a time."""

    def __init__(self, folder: Union[str, os.PathLike], base_checkpoint: Union[str, os.PathLike], *,
                 version: Optional[int] = None, compression_format: str = "tuck", delta_encoding: str = "xor",
                 checksum_format: Optional[str] = None, level: int = 1, writer: Tuple[int, int] = (0, 1),
                 threads: int = 0, after_write: Optional[Hook] = None) -> None:
        """folder             of the versions; made if it is missing
        base_checkpoint    folder of safetensors files with all tensors. Its files must not change
        version            of base_checkpoint; None: as a Receiver marked it, else 0
        compression_format "tuck", or "zstd", which other receivers read too
        delta_encoding     "xor"; with zstd also "overwrite": positions and values of changed bytes
        checksum_format    of the new bytes of each tensor: "adler32"; "xxh3-128", which needs the package xxhash and is
                           ten times as fast; or "blake3", which needs blake3. None: "xxh3-128" with xxhash, else
                           "adler32". Receivers need the package too
        level              of zstd
        writer             number of this writer, from 0, and how many there are; see complete
        threads            most threads; 0: one per core
        after_write        called with the folder of each complete version and its number, to upload it. Of several
                           writers, only number 0 calls it

        Keeps in memory the last published values of tensors that have changed. Raises OSError, or a subclass of
        TuckError."""
        self.folder = Path(folder)
        os.makedirs(self.folder, exist_ok=True)
        self._checkpoint = _Folder(Path(base_checkpoint), "the base checkpoint")
        if not self._checkpoint.tensors:
            raise StreamError(f"the base checkpoint: {base_checkpoint} has no tensors")
        self.version = _marked_version(Path(base_checkpoint)) if version is None else version
        self._form = _Form(compression_format, delta_encoding, checksum_format or foreign.fast_checksum())
        self._form.check()
        self._level, self._workers, self._after_write = level, _Workers(threads), after_write
        self._rank, self._count = writer
        if not 0 <= self._rank < self._count:
            raise ValueError(f"writer: pass a number from 0 and how many there are, not {writer!r}")
        mapped = _Mapped(self._checkpoint)
        self._base = {name: mapped.bytes(t) for name, t in self._checkpoint.tensors.items()}
        self._pending: Optional[Tuple[_Writer, bool, Dict[str, Tuple[Any, bool]]]] = None

    @property
    def names(self) -> Set[str]:
        """The names of all tensors."""
        return set(self._base)

    def publish(self, version: int, tensors: Mapping[str, Any], *, full: bool = False,
                progress: Optional[Progress] = None) -> None:
        """Publishes a version.

        version   larger than that before. A full one may also be that of the base checkpoint, before all others
        tensors   by name: NumPy arrays or torch tensors, of the types and sizes of the base checkpoint. Those on a GPU
                  are copied to the CPU one after the other. Tensors that are not there have not changed. Integers of
                  16 bits stand for bf16
        full      whether to write all tensors as an ordinary checkpoint, rather than deltas. With several writers, all
                  that this writer has

        With several writers the version is complete after complete(), until which `tensors` must not change. After an
        error nothing is published, and the next call may publish the same version. Raises StreamError, DtypeError or
        SizeError, or OSError."""
        about = f"version {version}"
        if not 0 <= version < 10**18:
            raise StreamError(f"{about}: pass a number from 0 to 10**18 - 1")
        there = versions(self.folder)
        is_first = full and not there and version == self.version
        if version <= self.version and not is_first:
            raise StreamError(f"{about}: it is not after version {self.version}")
        if there and version <= there[-1]:
            raise StreamError(f"{about}: {'it' if version in there else f'version {there[-1]}'} is published already")
        if there and there[-1] > self.version and not full:
            raise StreamError(f"{about}: the weights here are those of version {self.version}, but {there[-1]} is "
                              "published. Pull it to a checkpoint and publish from that, or publish a full version")
        unknown = tensors.keys() - self._base.keys()
        if unknown:
            raise StreamError(f"{about}: tensor {_shown(min(unknown))}: the base checkpoint does not have it")
        self._pending = None
        names = list(self._base) if full and self._count == 1 else list(tensors)
        names.sort(key=lambda name: -self._checkpoint.tensors[name].bytes)
        made = self._workers.run(lambda name, worker: self._encode(about, name, tensors.get(name), full, worker), names,
                                 [self._checkpoint.tensors[name].bytes for name in names], progress)
        writer = _Writer(self.folder, version, self.version, self._form, self.folder / _folder_name(version))
        changed = {name: (new, is_copy) for name, (new, is_copy, _, _) in zip(names, made) if new is not None}
        checksums = {name: checksum for name, (_, _, checksum, _) in zip(names, made) if checksum}
        if full:
            all = {name: (t.dtype, t.shape, changed[name][0] if name in changed else self._base[name])
                   for name, t in self._checkpoint.tensors.items() if name in checksums}
            writer.write(self._rank, self._count, all, next(iter(self._checkpoint.texts.values()), {}))
            content = {"checksum_format": self._form.checksum, "checksums": checksums}
            _write(writer.temporary / self._checksums(self._rank), [json.dumps(content).encode()])
        else:
            deltas = {name: ("U8", (len(delta),), delta) for name, (_, _, _, delta) in zip(names, made)
                      if delta is not None}
            writer.write(self._rank, self._count, deltas, checksums)
        self._pending = writer, full, changed
        if self._count == 1:
            self.complete(version)

    def _encode(self, about: str, name: str, x, full: bool, worker: _Worker):
        """Returns the new bytes or None, whether they are a copy, the checksum or None, and the delta or None."""
        with _about(f"{about}: tensor {_shown(name)}"):
            tensor, base = self._checkpoint.tensors[name], self._base[name]
            new, is_copy = (base, False) if x is None else _bytes_of(x, tensor, name)
            is_changed = x is not None and not _equal(new, base)
            if not is_changed and not full:
                return None, False, None, None
            delta = None if full else _encode(new, base, tensor.type, self._form, self._level, worker)
            return new if is_changed else None, is_copy, foreign.checksum(self._form.checksum)(new), delta

    def _checksums(self, rank: int) -> str:
        return f"{_CHECKSUMS}{rank:05}-of-{self._count:05}.json"

    def complete(self, version: int) -> None:
        """Completes a version of several writers. Each of them calls it, when publish has returned in all of them:
        number 0 writes the index and lets the folder appear. For one writer publish does this. Raises StreamError if a
        writer has not published or if tensors of a full version are missing, or OSError."""
        if self._pending is None or self._pending[0].version != version:
            raise StreamError(f"version {version}: publish has not written it")
        writer, full, changed = self._pending
        if self._rank == 0:
            files = {writer.file(rank, self._count) for rank in range(self._count)}
            writer.clean(files | {self._checksums(rank) for rank in range(self._count) if full})
            if full:
                self._complete_full(writer)
            else:
                writer.complete(self._count, writer.delta_metadata())

        def keep(name, worker):
            new, is_copy = changed[name]
            if is_copy:
                self._base[name] = new
            elif self._base[name].flags.writeable:
                self._base[name][:] = new
            else:
                self._base[name] = new.copy()

        self._workers.run(keep, list(changed), [len(new) for new, _ in changed.values()])
        self.version, self._pending = version, None
        if self._after_write and self._rank == 0:
            self._after_write(writer.place, version)

    def _complete_full(self, writer: _Writer) -> None:
        there: Dict[str, int] = {}
        for rank in range(self._count):
            path = writer.temporary / writer.file(rank, self._count)
            if path.exists():
                there.update({t[0]: rank for t in _tuck.read_safetensors_header(os.fsencode(path))[1]})
        missing = self._base.keys() - there.keys()
        if missing:
            raise StreamError(f"version {writer.version}: tensor {_shown(min(missing))}: no writer has published it")
        for name in self._checkpoint.others():
            if name.endswith(_SUFFIX):  # which no index names
                continue
            os.makedirs((writer.temporary / name).parent, exist_ok=True)
            shutil.copyfile(self._checkpoint.path / name, writer.temporary / name)
        writer.complete(self._count, {"total_size": sum(map(len, self._base.values())),
                                      "version": f"{writer.version:06}"})


class _Plan(NamedTuple):
    origin: Optional[_Version]  # a full version, or None: the local checkpoint
    deltas: List[_Version]  # in order


class _Work:
    """Computes tensors of a version from `origin`, which is the local checkpoint or a full version."""

    def __init__(self, plan: _Plan, origin: _Folder) -> None:
        self.plan, self.origin = plan, origin
        self.check(plan)
        self._mapped = None if plan.origin else _Mapped(origin)

    def check(self, plan: _Plan) -> None:
        """Raises StreamError if deltas are of tensors that are not there."""
        for delta in plan.deltas:
            for name in delta.tensors:
                if name not in self.origin.tensors:
                    raise StreamError(f"{delta.about_tensor(name)}: {self.origin.about} does not have it")

    def names(self) -> List[str]:
        """All tensors in the order in which they are on the disk."""
        return sorted(self.origin.tensors, key=lambda name: self.origin.tensors[name][::4])  # file, begin

    def sizes(self, names: List[str]) -> List[int]:
        return [self.origin.tensors[name].bytes for name in names]

    def restore(self, name: str, worker: _Worker):
        """Returns the values of a tensor, verified: an array that stays until the worker's next call."""
        tensor = self.origin.tensors[name]
        out = worker.room("values", tensor.bytes)
        if self._mapped is not None:
            self._mapped.expect(tensor)
            values = self._mapped.bytes(tensor)
        else:
            assert self.plan.origin is not None
            with _about(self.plan.origin.about_tensor(name)):
                values = self.origin.read(tensor, out)
                self.plan.origin.check(name, out)
        for delta in self.plan.deltas:
            if name in delta.tensors:
                delta.apply(name, values, out, tensor.type, worker)
                values = out
        return values


class Receiver:
    """Brings a local checkpoint up to published versions. Several processes may do so at a time: one waits for the
    other."""

    def __init__(self, source: Union[str, os.PathLike], local_checkpoint: Union[str, os.PathLike], *, threads: int = 0,
                 before_read: Optional[Hook] = None) -> None:
        """source            folder of the versions
        local_checkpoint  folder of safetensors files. At first a copy of the base checkpoint; or missing, if the source
                          has a full version. The folder above it must allow a folder beside it, and the file system to
                          exchange two folders, as ext4, xfs, btrfs and tmpfs do
        threads           most threads; 0: one per core
        before_read       called with the folder of a version and its number before it is read, to download it. Versions
                          are then asked for from the newest back

        Raises StreamError if the local checkpoint can not be replaced."""
        self.source, self.local = Path(source), Path(os.path.realpath(local_checkpoint))
        if os.path.ismount(self.local):
            raise StreamError(f"{self.local} is where a file system is mounted; name a folder in it")
        self._side = self.local.parent / f".{self.local.name}.tuck"
        self._workers, self._before_read = _Workers(threads), before_read

    @property
    def version(self) -> Optional[int]:
        """The version of the local checkpoint: 0 if it was never pulled, None if it is missing."""
        return _marked_version(self.local) if self.local.is_dir() else None

    def pull(self, version: Optional[int] = None, *, progress: Optional[Progress] = None) -> int:
        """Brings the local checkpoint to a version, older ones too if a full version leads to it. None: the newest in
        the source. Returns the version.

        Who reads the local checkpoint meanwhile reads the version before, then the new one. Programs that open its
        files one after the other at the moment of the switch may get both: let them load when this has returned. After
        an error the local checkpoint is as it was. Raises StreamError, WrongBaseError or DamagedFrameError, which name
        version and tensor, or OSError."""
        with self._locked():
            target = self._target(version)
            if self.version != target:
                self._switch_to(self._plan(target, self.version), target, progress)
            return target

    def verify(self, version: Optional[int] = None, *, progress: Optional[Progress] = None) -> int:
        """Does what pull does, but writes nothing. Returns the version. Raises what pull raises."""
        with self._locked():
            target = self._target(version)
            plan = self._plan(target, self.version)
            work = _Work(plan, plan.origin or self._local())
            names = [name for name in work.names() if plan.origin or any(name in d.tensors for d in plan.deltas)]
            self._workers.run(work.restore, names, work.sizes(names), progress)
            return target

    def fold(self, a: int, b: int, *, compression_format: str = "tuck", delta_encoding: str = "xor",
             checksum_format: Optional[str] = None, level: int = 1, progress: Optional[Progress] = None) -> Path:
        """Merges the deltas from version a to version b into one, which receivers at version a or before take instead.
        The local checkpoint must be at version a or before; it does not change. Returns the folder, which is in the
        source, beside the versions; receivers of others ignore it. The parameters are those of Publisher. Raises what
        pull raises."""
        place, form = self.source / _folder_name(b, a), _Form(compression_format, delta_encoding, checksum_format or
                                                              foreign.fast_checksum())
        form.check()
        if a >= b:
            raise StreamError(f"version {b}: it is not after version {a}")
        if place.exists():
            raise StreamError(f"version {b}: {place} is there already")
        with self._locked():
            made = self._fold(a, b, form, level, progress)
        writer = _Writer(self.source, b, a, form, place)
        writer.write(0, 1, {name: ("U8", (len(delta),), delta) for name, (delta, _) in made.items()},
                     {name: checksum for name, (_, checksum) in made.items()})
        writer.clean({writer.file(0, 1)})
        writer.complete(1, writer.delta_metadata())
        return place

    def _fold(self, a: int, b: int, form: _Form, level: int,
              progress: Optional[Progress]) -> Dict[str, Tuple[Any, str]]:
        """Returns deltas and checksums by tensor."""
        before, after = self._plan(a, self.version), self._plan(b, a)
        if after.origin:
            raise StreamError(f"version {after.origin.version}: it is full; fold from there")
        work = _Work(before, before.origin or self._local())
        work.check(after)

        def merge(name, worker):
            base, type = work.restore(name, worker), work.origin.tensors[name].type
            new = worker.room("new", len(base))
            before = base
            for delta in after.deltas:
                if name in delta.tensors:
                    delta.apply(name, before, new, type, worker)
                    before = new
            if _equal(before, base):
                return None
            return _encode(new, base, type, form, level, worker), foreign.checksum(form.checksum)(new)

        names = sorted({name for delta in after.deltas for name in delta.tensors})
        made = self._workers.run(merge, names, work.sizes(names), progress)
        return {name: m for name, m in zip(names, made) if m}

    def _target(self, version: Optional[int]) -> int:
        if version is not None:
            return version
        there = versions(self.source)
        if not there:
            raise StreamError(f"{self.source} has no version")
        return there[-1]

    def _local(self) -> _Folder:
        if not self.local.is_dir():
            raise StreamError(f"the local checkpoint: {self.local} is missing, and no full version is in the source")
        return _Folder(self.local, "the local checkpoint")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        os.makedirs(self._side, exist_ok=True)
        with open(self._side / "lock", "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _open(self, version: int, target: int, start: Optional[int]) -> _Version:
        path = self.source / _folder_name(version)
        if self._before_read:
            self._before_read(path, version)
        if not path.is_dir():
            needs = "" if version == target else f"it needs version {version}: "
            here = "missing" if start is None else f"at version {start}"
            raise StreamError(f"version {target}: {needs}{path} is missing; the local checkpoint is {here}")
        return _Version(path, version)

    def _fold_to(self, version: int, start: int) -> Optional[int]:
        """The lowest base, but `start` or later, of folded deltas to a version."""
        bases = [int(match[1]) for match in (re.fullmatch(_folder_name(version) + "_from_([0-9]{6,18})", name)
                                             for name in os.listdir(self.source)) if match]
        return min((base for base in bases if start <= base < version), default=None)

    def _plan(self, target: int, start: Optional[int]) -> _Plan:
        """How to come from version `start`, or from a full version, to another."""
        deltas: List[_Version] = []
        at, origin = target, None
        while at != start:
            fold = None if start is None or at < start else self._fold_to(at, start)
            if fold is not None:
                deltas.append(_Version(self.source / _folder_name(at, fold), at, fold))
            else:
                found = self._open(at, target, start)
                if found.base is None:
                    origin = found
                    break
                deltas.append(found)
            at = deltas[-1].base  # type: ignore[assignment]  # which is lower
        return _Plan(origin, deltas[::-1])

    def _switch_to(self, plan: _Plan, target: int, progress: Optional[Progress]) -> None:
        new = self._side / "next"
        try:
            self._make(new, plan, target, progress)
            if self.local.is_dir():
                shutil.copystat(self.local, new)
                self._exchange(new)
            else:
                os.rename(new, self.local)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)  # the disk may be full
            raise
        _sync(self.local.parent)
        _sync(self._side)

    def _exchange(self, new: Path) -> None:
        try:
            _tuck.exchange(os.fsencode(new), os.fsencode(self.local))
        except OSError as error:
            raise StreamError(f"the file system cannot exchange {new} and {self.local} ({error.strerror}); put the "
                              "local checkpoint on ext4, xfs, btrfs or tmpfs") from error

    def _make(self, new: Path, plan: _Plan, target: int, progress: Optional[Progress]) -> None:
        """Writes the checkpoint of a version to a folder, verified and on the disk."""
        work = _Work(plan, plan.origin or self._local())
        origin, is_local = work.origin, plan.origin is None
        changed = {origin.tensors[name].file for delta in plan.deltas for name in delta.tensors}
        changed = changed if is_local else set(origin.first)
        os.makedirs(new, exist_ok=True)
        _clear(new, changed)
        for name in [*origin.others(), *(set(origin.first) - changed)]:
            _link_or_copy(origin.path / name, new / name, is_local)
        if origin.has_index:
            _link_or_copy(origin.path / INDEX, new / INDEX, is_local)
        names = [name for name in work.names() if origin.tensors[name].file in changed]
        with ExitStack() as opened:
            files = {file: opened.enter_context(_begin_file(origin, file, new / file, is_local)) for file in changed}
            left = Counter(origin.tensors[name].file for name in names)
            lock = threading.Lock()

            def restore(name, worker):
                tensor = origin.tensors[name]
                _write_range(files[tensor.file], tensor.begin, work.restore(name, worker))
                with lock:
                    left[tensor.file] -= 1
                    is_last = left[tensor.file] == 0
                if is_last:
                    os.fsync(files[tensor.file])

            self._workers.run(restore, names, work.sizes(names), progress)
        if _Folder(new, f"version {target}").tensors != origin.tensors:
            raise StreamError(f"version {target}: {origin.path} has changed meanwhile")
        _write(new / MARKER, [json.dumps({"version": target}).encode()])
        for folder, _, _ in os.walk(new):
            _sync(folder)


def _clear(new: Path, kept: set) -> None:
    """Removes everything from a folder but files of these names that may be written over: no links, nor files that have
    other names too."""
    for entry in list(os.scandir(new)):
        is_file = entry.is_file(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif not (entry.name in kept and is_file and entry.stat().st_nlink == 1 and os.access(entry.path, os.W_OK)):
            os.unlink(entry.path)


def _link_or_copy(old: Path, new: Path, may_link: bool) -> None:
    """Makes a file the same as another. Folders of its name are made."""
    os.makedirs(new.parent, exist_ok=True)
    if os.path.isdir(old):
        raise StreamError(f"{old} is a link to a folder; copy the folder")
    if not stat.S_ISREG(os.stat(old).st_mode):
        raise StreamError(f"{old} is not a regular file")
    if may_link:
        try:
            os.link(os.path.realpath(old), new)
            return
        except OSError:  # another file system, or not allowed
            pass
    shutil.copyfile(old, new)
    _sync(new)


@contextmanager
def _begin_file(origin: _Folder, file: str, path: Path, copies_mode: bool) -> Iterator[int]:
    """Makes a file with the header of a file of `origin` and place for its values, or writes over it."""
    size = max([origin.first[file], *(t.end for t in origin.tensors.values() if t.file == file)])
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(descriptor, size)
        if copies_mode:
            os.fchmod(descriptor, stat.S_IMODE(os.stat(origin.path / file).st_mode) | 0o600)
        header = np.empty(origin.first[file], np.uint8)
        _read_range(origin.path / file, 0, header)
        _write_range(descriptor, 0, header)
        yield descriptor
        os.fsync(descriptor)  # also where it has no tensors
    finally:
        os.close(descriptor)


def _write_range(descriptor: int, begin: int, data) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, memoryview(data)[done:done + (1 << 30)], begin + done)
