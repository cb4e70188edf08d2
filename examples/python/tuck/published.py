# SPDX-License-Identifier: Apache-2.0
"""Published versions: their folders, and the deltas of their tensors."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple, Union

from . import _ML_DTYPES, _tuck, foreign
from .checkpoints import (CHECKSUMS, INDEX, SUFFIX, Folder, Tensor, errors_about, read_json, shown, strings, sync,
                          system_errors_about, values_of, write_file)
from .errors import DamagedFrameError, DtypeError, SizeError, StreamError
from .types import AS_INTEGERS, OWN, TORCH, check_dense, is_torch, np

Progress = Callable[[int, int], None]  # called with the bytes of tensors that are done, and of all
_PIECE = 1 << 20


def folder_name(version: int, base: Optional[int] = None) -> str:
    return f"weight_v{version:06}" + ("" if base is None else f"_from_{base:06}")


def versions(folder: Union[str, os.PathLike]) -> List[int]:
    """Returns the versions that are complete in a folder, in order. Reads names only, no times."""
    found = []
    for name in os.listdir(folder):
        match = re.fullmatch(r"weight_v([0-9]{6,18})", name)
        if match and name == folder_name(int(match[1])):
            if any(os.path.exists(os.path.join(folder, name, file)) for file in (INDEX, "model.safetensors")):
                found.append(int(match[1]))
    return sorted(found)


class Workers:
    """Calls for many tensors, in threads."""

    def __init__(self, threads: int) -> None:
        if threads < 0:
            raise ValueError(f"threads: pass 0 or more, not {threads}")
        self.threads = threads or len(os.sched_getaffinity(0))

    def run(self, call: Callable, names: List[str], sizes: List[int], progress: Optional[Progress] = None) -> list:
        """Returns call(name, worker) for each name, in order. After an error no more calls begin; then the error is
        raised."""
        done, all, local = 0, sum(sizes), threading.local()

        def work(name, size):
            if not hasattr(local, "worker"):
                local.worker = Worker()
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


class Worker:
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


class Form(NamedTuple):
    """How a version stores its deltas."""

    compression: str  # compression_format: "tuck", "zstd"
    encoding: str  # delta_encoding: "xor", "overwrite"
    checksum: str  # checksum_format

    def check(self, level: int = 1) -> None:
        if self.compression == "zstd" and not 1 <= level <= 22:
            raise StreamError(f"level {level}: zstd has the levels 1 to 22")
        if self.compression not in ("tuck", "zstd"):
            raise StreamError(f"unknown compression_format {self.compression!r}; there are tuck, zstd")
        if self.encoding not in ("xor", "overwrite"):
            raise StreamError(f"unknown delta_encoding {self.encoding!r}; there are xor, overwrite")
        if (self.compression, self.encoding) == ("tuck", "overwrite"):
            raise StreamError("delta_encoding overwrite is for compression_format zstd")
        foreign.checksum(self.checksum)
        if self.compression == "zstd":
            foreign.zstd()


def encode(new, base, type: str, form: Form, level: int, worker: Worker):
    """Returns the delta of a tensor from uint8 arrays of the same size."""
    if form.compression == "tuck":
        values, own = values_of(new, type)
        how = _tuck.Settings("", own, -1, 0.0, True, worker.threads, False, False)  # without the shape
        room = worker.room("frame", _tuck.most_bytes(values, how, True))
        return room[:_tuck.encode_delta(values, values_of(base, type)[0], own, room, how)].copy()
    if form.encoding == "xor":
        payload = np.bitwise_xor(new, base, out=worker.room("payload", len(new)))
    else:
        if len(new) >= 1 << 32:
            raise StreamError("delta_encoding overwrite is for tensors of less than 4 GiB")
        places = np.flatnonzero(new != base).astype("<u4")
        payload = np.concatenate([np.array([len(places)], "<u4").view(np.uint8), places.view(np.uint8), new[places]])
    return np.frombuffer(foreign.zstd().compress(payload, level), np.uint8)


def apply(delta, base, out, type: str, form: Form, worker: Worker) -> None:
    """Applies a delta to uint8 arrays of the same size; `out` may be `base`. After an error `out` is unspecified."""
    if form.compression == "tuck":
        before, own = values_of(base, type)
        to = values_of(out, type)[0]
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


def equal(a, b) -> bool:
    """Whether two uint8 arrays of the same size are equal. Ends at the first piece that is not."""
    return all(np.array_equal(a[i:i + _PIECE], b[i:i + _PIECE]) for i in range(0, len(a), _PIECE))


class Version(Folder):
    """A version in the source."""

    def __init__(self, path: Path, version: int, base: Optional[int] = None) -> None:
        about = f"version {version}" if base is None else f"version {version}, folded from {base}"
        super().__init__(path, about)
        self.version = version
        self.base: Optional[int] = None
        if base is None and not {"base_version", "compression_format", "delta_encoding"} & self.metadata.keys():
            self._check_full()
            self.checksums, self.form = self._checksums_of_files(), None
            return
        with errors_about(about):
            texts = strings(self.metadata, f"the metadata of {INDEX}")
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
            self.form = Form(texts.get("compression_format", ""), texts.get("delta_encoding", ""),
                              texts.get("checksum_format", ""))
            self.form.check()
            for name in os.listdir(path):
                if name.endswith(SUFFIX) and name not in self.first and _tuck.read_safetensors_header(
                        os.fsencode(path / name))[1]:
                    raise StreamError(f"{shown(name)} has tensors that are not in {INDEX}")
            for name, tensor in self.tensors.items():
                if tensor.dtype != "U8" or name not in self.texts[tensor.file]:
                    raise StreamError(f"tensor {shown(name)}: it is not a U8 tensor with a checksum in the metadata "
                                      f"of {shown(tensor.file)}")

    def _check_full(self) -> None:
        """A delta that has lost its index, or what the index says, is no full version."""
        if not self.first:
            raise StreamError(f"{self.about}: {self.path} has no {INDEX} and no {SUFFIX} file")
        if not self.has_index and self.first.keys() != {"model.safetensors"}:
            raise StreamError(f"{self.about}: {self.path} has no {INDEX}, so it is not complete")
        for name, tensor in self.tensors.items():
            if tensor.dtype == "U8" and name in self.texts[tensor.file]:
                raise StreamError(f"{self.about_tensor(name)}: it is a delta, but {INDEX} does not say of which "
                                  "version")

    def _checksums_of_files(self) -> Dict[str, Tuple[str, str]]:
        """By tensor: format and checksum, if the version was published by tuck."""
        found: Dict[str, Tuple[str, str]] = {}
        with errors_about(self.about):
            for name in os.listdir(self.path):
                if name.startswith(CHECKSUMS):
                    content = read_json(self.path / name)
                    content = content if isinstance(content, dict) else {}
                    for tensor, text in strings(content.get("checksums"), f"'checksums' of {shown(name)}").items():
                        found[tensor] = str(content.get("checksum_format")), text
            differing = found.keys() ^ self.tensors.keys()
            if differing and (found or "checksum_format" in self.metadata):
                name = min(differing)
                raise StreamError(f"tensor {shown(name)}: " + ("it is missing" if name in found else
                                                               f"it has no checksum in {CHECKSUMS}*.json"))
        return found

    def about_tensor(self, name: str) -> str:
        return f"{self.about}: tensor {shown(name)}"

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
            raise DamagedFrameError(f"its {format} is {seen}, not {shown(wanted)}: the version is damaged" +
                                    ("" if self.base is None else ", or the checkpoint is not its base"))

    def apply(self, name: str, base, out, type: str, worker: Worker) -> None:
        """Applies the delta of a tensor and verifies the result. After an error `out` is unspecified."""
        assert self.form is not None  # else it is full
        with errors_about(self.about_tensor(name)):
            apply(self.read(self.tensors[name]), base, out, type, self.form, worker)
            self.check(name, out)


class Writer:
    """Writes a version. Its folder appears when it is complete and on the disk."""

    def __init__(self, folder: Path, version: int, base: Optional[int], form: Form, place: Path) -> None:
        self.version, self.base, self.form, self.place = version, base, form, place
        self.temporary = folder / f".{place.name}.tmp"
        os.makedirs(self.temporary, exist_ok=True)

    @staticmethod
    def file(rank: int, count: int) -> str:
        return f"model-{rank:05}-of-{count:05}{SUFFIX}"

    def write(self, rank: int, count: int, tensors: Mapping[str, Tuple[str, Tuple[int, ...], Any]],
              metadata: Dict[str, str]) -> None:
        """Writes the file of a writer: tensors by name as type in the file, shape, and uint8 array."""
        order = sorted(tensors, key=lambda name: -_value_bits(tensors[name][0]))  # so that values are aligned
        end, described = 0, []
        for name in order:
            dtype, shape, data = tensors[name]
            described.append((name, dtype, "", list(shape), end, end + len(data)))
            end += len(data)
        header = _tuck.make_safetensors_header(described, metadata)
        with system_errors_about(f"version {self.version}"):
            write_file(self.temporary / self.file(rank, count),
                       [header, *(memoryview(tensors[name][2]) for name in order)])

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
        files = Folder(self.temporary, f"version {self.version}")
        index = {"metadata": metadata, "weight_map": {name: t.file for name, t in files.tensors.items()}}
        with system_errors_about(f"version {self.version}"):
            write_file(self.temporary / INDEX, [json.dumps(index, indent=2).encode()])
            sync(self.temporary)
            os.rename(self.temporary, self.place)  # fails if the version is there
            sync(self.place.parent)

    def delta_metadata(self) -> Dict[str, str]:
        return {"version": f"{self.version:06}", "base_version": f"{self.base:06}",
                "delta_encoding": self.form.encoding, "compression_format": self.form.compression,
                "checksum_format": self.form.checksum}


_OF_TORCH = {own: name for name, own in TORCH.items()}
_OF_NUMPY = {**{own: name for name, own in OWN.items()}, **_ML_DTYPES}


def _value_bits(dtype: str) -> int:
    digits = re.search("[0-9]+", dtype)
    return int(digits[0]) if digits else 8


def bytes_of(x, tensor: Tensor):
    """The bytes of an array or a torch tensor, which must be of the type and shape of the base, or flat. A tensor
    on a GPU is copied. Returns a uint8 array, and whether it is a copy."""
    role, is_copy = "it", False
    if is_torch(x):
        import torch

        check_dense(x, role)
        is_copy = x.device.type != "cpu"
        own = _OF_TORCH.get(str(x.dtype).partition(".")[2], "")
        data = x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    else:
        if np.ma.isMaskedArray(x):
            raise DtypeError("it is a masked array; pass x.data")
        x = np.asarray(x)
        own = _OF_NUMPY.get(x.dtype.name, "")
        if not x.dtype.isnative or x.dtype.hasobject:
            raise DtypeError(f"{role} has dtype {x.dtype}")
        data = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    wanted = "bool" if tensor.dtype == "BOOL" else tensor.type
    # Bytes of types that tuck does not have may come from any array.
    if tensor.is_known and own != wanted and OWN.get(own) != AS_INTEGERS.get(wanted, ""):
        raise DtypeError(f"{role} has dtype {x.dtype}, the base checkpoint {tensor.dtype}")
    if len(data) != tensor.bytes:
        raise SizeError(f"{role} has {len(data)} bytes, the base checkpoint {tensor.bytes}")
    if tensor.is_known and len(x.shape) != 1 and tuple(x.shape) != tensor.shape:
        raise SizeError(f"{role} has shape {tuple(x.shape)}, the base checkpoint {tensor.shape}")
    return data, is_copy
