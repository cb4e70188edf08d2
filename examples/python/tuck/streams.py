# SPDX-License-Identifier: Apache-2.0
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
import os
import re
import shutil
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple, Union

from . import _tuck, foreign
from .checkpoints import (CHECKSUMS, INDEX, MARKER, SUFFIX, Folder, Mapped, begin_file, clear_folder, errors_about,
                          link_or_copy, marked_version, shown, sync, system_errors_about, tensors_of, write_file,
                          write_range)
from .errors import DtypeError, StreamError, TuckError
from .published import (Form, Progress, Version, Worker, Workers, Writer, bytes_of, encode, equal, folder_name,
                        versions)

__all__ = ["Publisher", "Receiver", "tensors_of", "versions"]

Hook = Callable[[Path, int], None]  # called with the folder of a version, and its number


def _number(version: Any) -> int:
    if not hasattr(version, "__index__") or isinstance(version, bool):
        raise StreamError(f"version {version!r}: pass an int")
    if not 0 <= int(version) < 10**18:
        raise StreamError(f"version {version}: pass a number from 0 to 10**18 - 1")
    return int(version)


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
        after_write        called with the folder of each complete version and its number, to upload it. If it raises,
                           the version is published all the same, and the next publish or complete, or `send`, calls it
                           again first. Of several writers, only number 0 calls it

        Keeps in memory the last published values of tensors that have changed. Raises OSError, or a subclass of
        TuckError."""
        self.folder = Path(folder)
        os.makedirs(self.folder, exist_ok=True)
        self._checkpoint = Folder(Path(base_checkpoint), "the base checkpoint")
        if not self._checkpoint.tensors:
            raise StreamError(f"the base checkpoint: {base_checkpoint} has no tensors")
        self.version = marked_version(Path(base_checkpoint)) if version is None else _number(version)
        self._form = Form(compression_format, delta_encoding, checksum_format or foreign.fast_checksum())
        self._form.check(level)
        self._level, self._workers, self._after_write = level, Workers(threads), after_write
        self._rank, self._count = writer
        if not 0 <= self._rank < self._count:
            raise ValueError(f"writer: pass a number from 0 and how many there are, not {writer!r}")
        mapped = Mapped(self._checkpoint)
        self._base = {name: mapped.bytes(t) for name, t in self._checkpoint.tensors.items()}
        self._pending: Optional[Tuple[Writer, bool, Dict[str, Tuple[Any, bool]]]] = None
        self._unsent: List[Tuple[Path, int]] = []  # for after_write
        self._completed = False
        if self._count > 1:  # what a run that has crashed left is not this run's
            for path in self.folder.glob(f".weight_v*.tmp/{Writer.file(self._rank, self._count)}"):
                path.unlink()

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
        version = _number(version)
        about = f"version {version}"
        self.send()
        there = versions(self.folder)
        if self._rank > 0 and self._completed and self.version not in there:
            raise StreamError(f"{about}: version {self.version} has not appeared; writer 0 must complete it first")
        is_first = full and not there and version == self.version
        if version <= self.version and not is_first:
            raise StreamError(f"{about}: it is not after version {self.version}")
        if there and version <= there[-1]:
            raise StreamError(f"{about}: {'it' if version in there else f'version {there[-1]}'} is published already")
        if there and there[-1] > self.version and not full:
            raise StreamError(f"{about}: the weights here are those of version {self.version}, but {there[-1]} is "
                              "published. Pull it to a checkpoint and publish from that, or publish a full version")
        for name, x in tensors.items():
            if name not in self._base:
                raise StreamError(f"{about}: tensor {shown(str(name))}: the base checkpoint does not have it")
            if x is None:
                raise DtypeError(f"{about}: tensor {shown(name)}: it is None; leave out what has not changed")
        self._pending = None
        names = list(self._base) if full and self._count == 1 else list(tensors)
        names.sort(key=lambda name: -self._checkpoint.tensors[name].bytes)
        made = self._workers.run(lambda name, worker: self._encode(about, name, tensors.get(name), full, worker), names,
                                 [self._checkpoint.tensors[name].bytes for name in names], progress)
        writer = Writer(self.folder, version, self.version, self._form, self.folder / folder_name(version))
        changed = {name: (new, is_copy) for name, (new, is_copy, _, _) in zip(names, made) if new is not None}
        checksums = {name: checksum for name, (_, _, checksum, _) in zip(names, made) if checksum}
        if full:
            all = {name: (t.dtype, t.shape, changed[name][0] if name in changed else self._base[name])
                   for name, t in self._checkpoint.tensors.items() if name in checksums}
            writer.write(self._rank, self._count, all, next(iter(self._checkpoint.texts.values()), {}))
            content = {"checksum_format": self._form.checksum, "checksums": checksums}
            write_file(writer.temporary / self._checksums(self._rank), [json.dumps(content).encode()])
        else:
            deltas = {name: ("U8", (len(delta),), delta) for name, (_, _, _, delta) in zip(names, made)
                      if delta is not None}
            writer.write(self._rank, self._count, deltas, checksums)
        self._pending = writer, full, changed
        if self._count == 1:
            self.complete(version)

    def _encode(self, about: str, name: str, x, full: bool, worker: Worker):
        """Returns the new bytes or None, whether they are a copy, the checksum or None, and the delta or None."""
        with errors_about(f"{about}: tensor {shown(name)}"):
            tensor, base = self._checkpoint.tensors[name], self._base[name]
            new, is_copy = (base, False) if x is None else bytes_of(x, tensor)
            is_changed = x is not None and not equal(new, base)
            if not is_changed and not full:
                return None, False, None, None
            delta = None if full else encode(new, base, tensor.type, self._form, self._level, worker)
            return new if is_changed else None, is_copy, foreign.checksum(self._form.checksum)(new), delta

    def _checksums(self, rank: int) -> str:
        return f"{CHECKSUMS}{rank:05}-of-{self._count:05}.json"

    def complete(self, version: int) -> None:
        """Completes a version of several writers. Each of them calls it, when publish has returned in all of them:
        number 0 writes the index and lets the folder appear. For one writer publish does this. Raises StreamError if a
        writer has not published or if tensors of a full version are missing, or OSError."""
        if self._pending is None or self._pending[0].version != version:
            raise StreamError(f"version {version}: publish has not written it")
        self.send()
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
        self.version, self._pending, self._completed = version, None, True
        if self._rank == 0:
            self._unsent.append((writer.place, version))
            self.send()

    def send(self) -> None:
        """Calls after_write for the versions for which it has raised."""
        while self._unsent:
            if self._after_write:
                self._after_write(*self._unsent[0])
            del self._unsent[0]

    def _complete_full(self, writer: Writer) -> None:
        there: Dict[str, int] = {}
        for rank in range(self._count):
            path = writer.temporary / writer.file(rank, self._count)
            if path.exists():
                there.update({t[0]: rank for t in _tuck.read_safetensors_header(os.fsencode(path))[1]})
        missing = self._base.keys() - there.keys()
        if missing:
            raise StreamError(f"version {writer.version}: tensor {shown(min(missing))}: no writer has published it")
        for name in self._checkpoint.others():
            if name.endswith(SUFFIX):  # which no index names
                continue
            os.makedirs((writer.temporary / name).parent, exist_ok=True)
            shutil.copyfile(self._checkpoint.path / name, writer.temporary / name)
        writer.complete(self._count, {"total_size": sum(map(len, self._base.values())),
                                      "version": f"{writer.version:06}", "checksum_format": self._form.checksum})


class _Plan(NamedTuple):
    origin: Optional[Version]  # a full version, or None: the local checkpoint
    deltas: List[Version]  # in order


class _Work:
    """Computes tensors of a version from `origin`, which is the local checkpoint or a full version."""

    def __init__(self, plan: _Plan, origin: Folder) -> None:
        self.plan, self.origin = plan, origin
        self.check(plan)
        self._mapped = None if plan.origin else Mapped(origin)

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

    def restore(self, name: str, worker: Worker):
        """Returns the values of a tensor, verified: an array that stays until the worker's next call."""
        tensor = self.origin.tensors[name]
        out = worker.room("values", tensor.bytes)
        if self._mapped is not None:
            self._mapped.expect(tensor)
            values = self._mapped.bytes(tensor)
        else:
            assert self.plan.origin is not None
            with errors_about(self.plan.origin.about_tensor(name)):
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
        self._workers, self._before_read = Workers(threads), before_read

    @property
    def version(self) -> Optional[int]:
        """The version of the local checkpoint: 0 if it was never pulled, None if it is missing."""
        return marked_version(self.local) if self.local.is_dir() else None

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
        """Does what pull does, but writes nothing but a lock beside the local checkpoint. Returns the version. Raises
        what pull raises."""
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
        a, b = _number(a), _number(b)
        place, form = self.source / folder_name(b, a), Form(compression_format, delta_encoding, checksum_format or
                                                              foreign.fast_checksum())
        form.check(level)
        if a >= b:
            raise StreamError(f"version {b}: it is not after version {a}")
        if place.exists():
            raise StreamError(f"version {b}: {place} is there already")
        with self._locked():
            made = self._fold(a, b, form, level, progress)
        writer = Writer(self.source, b, a, form, place)
        writer.write(0, 1, {name: ("U8", (len(delta),), delta) for name, (delta, _) in made.items()},
                     {name: checksum for name, (_, checksum) in made.items()})
        writer.clean({writer.file(0, 1)})
        writer.complete(1, writer.delta_metadata())
        return place

    def _fold(self, a: int, b: int, form: Form, level: int,
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
            if equal(before, base):
                return None
            return encode(new, base, type, form, level, worker), foreign.checksum(form.checksum)(new)

        names = sorted({name for delta in after.deltas for name in delta.tensors})
        made = self._workers.run(merge, names, work.sizes(names), progress)
        return {name: m for name, m in zip(names, made) if m}

    def _target(self, version: Optional[int]) -> int:
        if version is not None:
            return _number(version)
        there = versions(self.source)
        if not there:
            raise StreamError(f"{self.source} has no version")
        return there[-1]

    def _local(self) -> Folder:
        if not self.local.is_dir():
            raise StreamError(f"the local checkpoint: {self.local} is missing, and no full version is in the source")
        return Folder(self.local, "the local checkpoint")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._side.is_symlink():
            raise StreamError(f"{self._side} is a symbolic link; it must be a folder beside {self.local}")
        os.makedirs(self._side, exist_ok=True)
        with open(self._side / "lock", "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _open(self, version: int, target: int, start: Optional[int]) -> Version:
        path = self.source / folder_name(version)
        if self._before_read:
            self._before_read(path, version)
        if not path.is_dir():
            needs = "" if version == target else f"it needs version {version}: "
            here = "missing" if start is None else f"at version {start}"
            raise StreamError(f"version {target}: {needs}{path} is missing; the local checkpoint is {here}")
        return Version(path, version)

    def _fold_to(self, version: int, start: int) -> Optional[int]:
        """The lowest base, but `start` or later, of folded deltas to a version."""
        bases = [int(match[1]) for match in (re.fullmatch(folder_name(version) + "_from_([0-9]{6,18})", name)
                                             for name in os.listdir(self.source)) if match]
        return min((base for base in bases if start <= base < version), default=None)

    def _open_fold(self, version: int, start: int) -> Optional[Version]:
        base = self._fold_to(version, start)
        if base is None:
            return None
        try:
            return Version(self.source / folder_name(version, base), version, base)
        except (TuckError, OSError):
            if (self.source / folder_name(version)).is_dir():  # its delta may do
                return None
            raise

    def _plan(self, target: int, start: Optional[int]) -> _Plan:
        """How to come from version `start`, or from a full version, to another."""
        deltas: List[Version] = []
        at, origin = target, None
        while at != start:
            fold = None if start is None or at < start else self._open_fold(at, start)
            if fold is not None:
                deltas.append(fold)
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
            with system_errors_about(f"version {target}"):
                self._make(new, plan, target, progress)
            if self.local.is_dir():
                shutil.copymode(self.local, new)
                self._exchange(new)
            else:
                os.rename(new, self.local)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)  # the disk may be full
            raise
        sync(self.local.parent)
        sync(self._side)

    def _exchange(self, new: Path) -> None:
        try:
            _tuck.exchange(os.fsencode(new), os.fsencode(self.local))
        except OSError as error:
            raise StreamError(f"the file system cannot exchange {new} and {self.local} ({error.strerror}); put the "
                              "local checkpoint on ext4, xfs, btrfs or tmpfs") from error

    def _check_types(self, full: Version) -> None:
        """Raises StreamError if a full version is not of the local checkpoint's model."""
        try:
            tensors = self._local().tensors
        except (TuckError, OSError):  # damaged: the full version takes its place
            return
        for name, t in tensors.items():
            seen = full.tensors.get(name)
            if seen and (seen.dtype, seen.shape) != (t.dtype, t.shape):
                raise StreamError(f"{full.about_tensor(name)}: it is {seen.dtype} {seen.shape}, in the local "
                                  f"checkpoint {t.dtype} {t.shape}")

    def _make(self, new: Path, plan: _Plan, target: int, progress: Optional[Progress]) -> None:
        """Writes the checkpoint of a version to a folder, verified and on the disk."""
        work = _Work(plan, plan.origin or self._local())
        origin, is_local = work.origin, plan.origin is None
        if plan.origin and self.local.is_dir():
            self._check_types(plan.origin)
        changed = {origin.tensors[name].file for delta in plan.deltas for name in delta.tensors}
        changed = changed if is_local else set(origin.first)
        if new.is_symlink():
            new.unlink()
        os.makedirs(new, exist_ok=True)
        clear_folder(new, changed)
        for name in [*origin.others(), *(set(origin.first) - changed)]:
            link_or_copy(origin.path / name, new / name, is_local)
        if origin.has_index:
            link_or_copy(origin.path / INDEX, new / INDEX, is_local)
        names = [name for name in work.names() if origin.tensors[name].file in changed]
        with ExitStack() as opened:
            files = {file: opened.enter_context(begin_file(origin, file, new / file, is_local)) for file in changed}
            left = Counter(origin.tensors[name].file for name in names)
            lock = threading.Lock()

            def restore(name, worker):
                tensor = origin.tensors[name]
                write_range(files[tensor.file], tensor.begin, work.restore(name, worker))
                with lock:
                    left[tensor.file] -= 1
                    is_last = left[tensor.file] == 0
                if is_last:
                    os.fsync(files[tensor.file])

            self._workers.run(restore, names, work.sizes(names), progress)
        if Folder(new, f"version {target}").tensors != origin.tensors:
            raise StreamError(f"version {target}: {origin.path} has changed meanwhile")
        write_file(new / MARKER, [json.dumps({"version": target}).encode()])
        for folder, _, _ in os.walk(new):
            sync(folder)
