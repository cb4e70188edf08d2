# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as tuck.streams reads and writes them: folders of safetensors files."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple, Union

from . import _tuck
from .errors import StreamError, TuckError
from .types import AS_INTEGERS, NUMPY, np

INDEX = "model.safetensors.index.json"
MARKER = ".tuck-version.json"  # in a local checkpoint
SUFFIX = ".safetensors"
CHECKSUMS = "tuck-checksums-"  # begins the names of files in full versions, which have no place for checksums
_MOST_JSON = 100_000_000  # bytes, as for headers of safetensors


def shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:80] + "...")


@contextmanager
def errors_about(text: str) -> Iterator[None]:
    """Lets errors begin with what they are about, such as "version 42: tensor 'a'"."""
    try:
        yield
    except (TuckError, OSError) as error:
        if str(error).startswith(text.partition(":")[0]):
            raise
        raise (type(error) if isinstance(error, TuckError) else StreamError)(f"{text}: {error}") from error


@contextmanager
def system_errors_about(text: str) -> Iterator[None]:
    """Lets errors of the system, such as a full disk, begin with what they are about. They keep their types."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"{text}: {error.strerror or error}", error.filename) from error


class Tensor(NamedTuple):
    file: str
    dtype: str  # in the file: "BF16"
    type: str  # of tuck: "bf16"; "u8" for others than tuck has
    shape: Tuple[int, ...]
    begin: int  # offsets in the file
    end: int

    @property
    def bytes(self) -> int:
        return self.end - self.begin

    @property
    def is_known(self) -> bool:
        """Whether tuck has the type."""
        return self.type != "u8" or self.dtype in ("U8", "BOOL")


@contextmanager
def regular_file(path: Path) -> Iterator[int]:
    """A descriptor of a regular file, to read. Does not wait for the writer of a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StreamError(f"{shown(path.name)} is not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def read_range(path: Path, begin: int, room) -> None:
    """Fills a uint8 array from a regular file. Untrusted files are read, not mapped: a mapped one may shrink, and then
    the process ends."""
    with regular_file(path) as descriptor:
        done = 0
        while done < len(room):
            got = os.preadv(descriptor, [memoryview(room)[done:done + (1 << 30)]], begin + done)
            if got == 0:
                raise StreamError(f"{shown(path.name)} is truncated")
            done += got


def read_json(path: Path) -> Any:
    with regular_file(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
        text = file.read(_MOST_JSON + 1)
    if len(text) > _MOST_JSON:
        raise StreamError(f"{shown(path.name)} has more than {_MOST_JSON} bytes")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StreamError(f"{shown(path.name)} is not JSON: {error}") from error


def strings(value: Any, what: str) -> Dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise StreamError(f"{what} is not an object of strings")
    return value


class Folder:
    """A folder of safetensors files: a checkpoint, or a published version. Reads the headers only. It is not trusted.
    Raises StreamError, which begins with `about`."""

    def __init__(self, path: Path, about: str) -> None:
        self.path, self.about = path, about
        self.tensors: Dict[str, Tensor] = {}
        self.first: Dict[str, int] = {}  # by file: the offset of the data
        self.texts: Dict[str, Dict[str, str]] = {}  # by file: its metadata
        self.metadata: Dict[str, Any] = {}
        self.has_index = os.path.lexists(path / INDEX)
        with errors_about(about):
            present = {name for name in os.listdir(path) if name.endswith(SUFFIX)}
            index = read_json(path / INDEX) if self.has_index else None
            files: Dict[str, List[str]] = {}
            if not self.has_index:
                files = {name: [] for name in sorted(present)}
            else:
                if not isinstance(index, dict):
                    raise StreamError(f"{INDEX} is not a JSON object")
                metadata = index.get("metadata") or {}
                if not isinstance(metadata, dict):
                    raise StreamError(f"the metadata of {INDEX} is not a JSON object")
                self.metadata = metadata
                for name, file in strings(index.get("weight_map"), f"'weight_map' of {INDEX}").items():
                    if file not in present:  # so it has no '/'
                        raise StreamError(f"tensor {shown(name)}: its file {shown(file)} is missing")
                    files.setdefault(file, []).append(name)
            for file, names in files.items():
                count = self._read(file)
                for name in names:
                    if name not in self.tensors or self.tensors[name].file != file:
                        raise StreamError(f"tensor {shown(name)}: it is not in its file {shown(file)}")
                if self.has_index and len(names) != count:
                    raise StreamError(f"{shown(file)} has tensors that are not in {INDEX}")

    def _read(self, file: str) -> int:
        self.first[file], tensors, self.texts[file] = _tuck.read_safetensors_header(os.fsencode(self.path / file))
        for name, dtype, type, shape, begin, end in tensors:
            if name in self.tensors:
                raise StreamError(f"tensor {shown(name)}: it is in {shown(self.tensors[name].file)} and "
                                  f"in {shown(file)}")
            self.tensors[name] = Tensor(file, dtype, type, tuple(shape), self.first[file] + begin,
                                         self.first[file] + end)
        return len(tensors)

    def others(self) -> List[str]:
        """Paths in the folder of all files but the tensors', the index and the marker."""
        found = []
        for folder, folders, files in os.walk(self.path):
            for name in files + [f for f in folders if os.path.islink(os.path.join(folder, f))]:
                path = os.path.relpath(os.path.join(folder, name), self.path)
                if path not in self.first and path not in (MARKER, INDEX) and not path.startswith(CHECKSUMS):
                    found.append(path)
        return found

    def read(self, tensor: Tensor, room=None):
        """Returns the bytes of a tensor, in an array of its own or in `room`."""
        room = np.empty(tensor.bytes, np.uint8) if room is None else room
        read_range(self.path / tensor.file, tensor.begin, room)
        return room


class Mapped:
    """The values of a local checkpoint in memory maps, which are not written to."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._maps = {file: _map(folder.path / file) for file in folder.first}

    def bytes(self, tensor: Tensor):
        return np.frombuffer(self._maps[tensor.file], np.uint8, tensor.bytes, tensor.begin)

    def expect(self, tensor: Tensor) -> None:
        """Begins to read a tensor from the disk."""
        begin = tensor.begin & -mmap.PAGESIZE
        if tensor.bytes:
            self._maps[tensor.file].madvise(mmap.MADV_WILLNEED, begin, tensor.end - begin)


def _map(path: Path) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def values_of(data, type: str):
    """The values of bytes: an aligned array and the type that its integers stand for, as the extension takes them."""
    values = data.view(NUMPY[type]) if data.ctypes.data % np.dtype(NUMPY[type]).itemsize == 0 else (
        data.copy().view(NUMPY[type]))
    return values, type if type in AS_INTEGERS else ""


def tensors_of(checkpoint: Union[str, os.PathLike]) -> Dict[str, Any]:
    """Returns the tensors of a folder of safetensors files by name, as NumPy arrays in memory maps. bf16 and 8-bit
    floats are integers; types that tuck does not have are bytes, without a shape. Raises StreamError or OSError."""
    folder = Folder(Path(checkpoint), str(checkpoint))
    mapped = Mapped(folder)

    def values(t: Tensor):
        flat = values_of(mapped.bytes(t), "bool" if t.dtype == "BOOL" else t.type)[0]
        return flat.reshape(t.shape) if t.is_known else flat

    return {name: values(t) for name, t in folder.tensors.items()}


def sync(path: Union[str, Path]) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, pieces) -> None:
    """Writes a file that appears when it is complete and on the disk."""
    temporary = path.with_name("." + path.name + ".tmp")
    with open(temporary, "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)


def marked_version(path: Path) -> int:
    """The version of a local checkpoint: 0 without a marker."""
    try:
        marker = read_json(path / MARKER)
    except FileNotFoundError:
        return 0
    version = marker.get("version") if isinstance(marker, dict) else None
    if not isinstance(version, int) or not 0 <= version < 10**18:
        raise StreamError(f"{path / MARKER} does not say a version")
    return version


def clear_folder(new: Path, kept: set) -> None:
    """Removes everything from a folder but files of these names that may be written over: no links, nor files that have
    other names too."""
    for entry in list(os.scandir(new)):
        is_file = entry.is_file(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif not (entry.name in kept and is_file and entry.stat().st_nlink == 1 and os.access(entry.path, os.W_OK)):
            os.unlink(entry.path)


def link_or_copy(old: Path, new: Path, may_link: bool) -> None:
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
    sync(new)


@contextmanager
def begin_file(origin: Folder, file: str, path: Path, copies_mode: bool) -> Iterator[int]:
    """Makes a file with the header of a file of `origin` and place for its values, or writes over it."""
    size = max([origin.first[file], *(t.end for t in origin.tensors.values() if t.file == file)])
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(descriptor, size)
        if copies_mode:
            os.fchmod(descriptor, stat.S_IMODE(os.stat(origin.path / file).st_mode) | 0o600)
        header = np.empty(origin.first[file], np.uint8)
        read_range(origin.path / file, 0, header)
        write_range(descriptor, 0, header)
        yield descriptor
        os.fsync(descriptor)  # also where it has no tensors
    finally:
        os.close(descriptor)


def write_range(descriptor: int, begin: int, data) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, memoryview(data)[done:done + (1 << 30)], begin + done)
