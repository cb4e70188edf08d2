#!/usr/bin/env python3
"""tuck.streams: versions published and pulled, the form of others, damage, and receivers that are killed.

    streams_test.py                     all, in some seconds
    streams_test.py --kills 200         a trainer and two receivers, of which one is killed 200 times
"""

import errno
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import tuck
from tuck import foreign
from tuck.streams import Publisher, Receiver, versions

SIZES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "U8": 1, "F8_E4M3": 1, "BOOL": 1, "C64": 8}
NUMPY = {"F64": "f8", "I64": "i8", "F32": "f4", "I32": "i4", "BF16": "u2", "F16": "f2", "U8": "u1", "F8_E4M3": "u1",
         "BOOL": "?", "C64": "c8"}
INDEX = "model.safetensors.index.json"


# A reader and a writer of safetensors, so that the package's are not tested by themselves.

def write_file(path, tensors, metadata=None, padding=0):
    """tensors: by name type, shape, bytes."""
    header, end = {"__metadata__": metadata or {}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8 + padding)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(bytes(t[2]) for t in tensors.values()))


def read_file(path):
    content = Path(path).read_bytes()
    first = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:first])
    metadata = header.pop("__metadata__", {})
    return {name: (t["dtype"], t["shape"], content[first + t["data_offsets"][0]:first + t["data_offsets"][1]])
            for name, t in header.items()}, metadata


def write_checkpoint(folder, files, padding=0):
    """files: by name, tensors."""
    os.makedirs(folder)
    for name, tensors in files.items():
        write_file(f"{folder}/{name}", tensors, {"format": "pt"}, padding)
    if len(files) > 1:
        index = {"metadata": {"total_size": 1}, "weight_map": {t: name for name, ts in files.items() for t in ts}}
        Path(folder, INDEX).write_text(json.dumps(index))
    Path(folder, "config.json").write_text("{}")


def read_checkpoint(folder):
    tensors = {}
    index = Path(folder, INDEX)
    names = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else {"model.safetensors"}
    for name in names:
        tensors.update(read_file(f"{folder}/{name}")[0])
    return tensors


def digest(tensors):
    made = hashlib.sha256()
    for name in sorted(tensors):
        dtype, shape, data = tensors[name]
        made.update(f"{name} {dtype} {list(shape)}".encode() + bytes(data))
    return made.hexdigest()


class Model:
    """Weights of several types in several files, and steps of a training that change some of them."""

    def __init__(self, seed=0, values=3000):
        self.random = np.random.default_rng(seed)
        weights = (self.random.standard_normal(values, dtype=np.float32) * 0.02).view(np.uint32)
        bf16 = (weights >> 16).astype(np.uint16)
        self.files = {
            "model-00001-of-00003.safetensors": {"embed": ("BF16", (values // 10, 10), bf16),
                                                 "frozen": ("F16", (7,), bf16[:7]),
                                                 "norm": ("F32", (values,), weights)},
            "model-00002-of-00003.safetensors": {"q": ("BF16", (values,), bf16[::-1]),
                                                 "none": ("F32", (0, 3), bf16[:0]),
                                                 "fp8": ("F8_E4M3", (values,), (bf16 >> 8).astype(np.uint8)),
                                                 "mask": ("BOOL", (5,), np.array([1, 0, 1, 1, 0], np.uint8)),
                                                 "ids": ("I64", (50,), np.arange(50))},
            "model-00003-of-00003.safetensors": {"double": ("F64", (), weights[:2]),
                                                 "other": ("C64", (9,), weights[:18])}}
        self.files = {file: {name: (dtype, shape, np.ascontiguousarray(data).view(np.uint8).copy())
                             for name, (dtype, shape, data) in tensors.items()} for file, tensors in self.files.items()}

    def tensors(self):
        return {name: t for tensors in self.files.values() for name, t in tensors.items()}

    def arrays(self):
        return {name: data.view(NUMPY[dtype]).reshape(shape) for name, (dtype, shape, data) in self.tensors().items()}

    def step(self, share=0.03, still=("frozen",)):
        for name, (dtype, shape, data) in self.tensors().items():
            if name in still or len(data) == 0 or (name in ("ids", "other") and self.random.random() < 0.5):
                continue
            if dtype == "BOOL":
                data[self.random.integers(len(data))] ^= 1
                continue
            low = data[::SIZES[dtype]]
            low[self.random.integers(0, len(low), max(1, int(share * len(low))))] ^= 1

    def digest(self):
        return digest(self.tensors())


def has(module):
    try:
        import_module(module)
    except ImportError:
        return False
    return True


def has_zstd():
    try:
        return bool(foreign.zstd())
    except tuck.TuckError:
        return False


CHECKSUMS = ["adler32"] + ["xxh3-128"] * has("xxhash") + ["blake3"] * has("blake3")


def checksum_of(name, data):
    if name == "adler32":
        return "%08x" % zlib.adler32(data)
    made = import_module("xxhash").xxh3_128(data) if name == "xxh3-128" else import_module("blake3").blake3(data)
    return made.hexdigest()


class Theirs:
    """A publisher and a receiver of the form that slime, miles and SGLang have, written from its description, without
    tuck's code."""

    @staticmethod
    def publish(folder, version, base, old, new, encoding, checksum, writers=2):
        os.makedirs(f"{folder}/weight_v{version:06d}")
        index = {"metadata": {"version": f"{version:06d}", "base_version": f"{base:06d}", "delta_encoding": encoding,
                              "compression_format": "zstd", "checksum_format": checksum}, "weight_map": {}}
        changed = [name for name in new if bytes(new[name][2]) != bytes(old[name][2])]
        for writer in range(writers):
            tensors, checksums = {}, {}
            name_of_file = f"model-{writer:05d}-of-{writers:05d}.safetensors"
            for name in changed[writer::writers]:
                before, after = (np.frombuffer(bytes(t[name][2]), np.uint8) for t in (old, new))
                if encoding == "xor":
                    payload = (before ^ after).tobytes()
                else:
                    places = np.flatnonzero(before != after)
                    payload = struct.pack("<I", len(places)) + places.astype("<u4").tobytes() + after[places].tobytes()
                blob = bytes(foreign.zstd().compress(payload, 1))
                tensors[name], checksums[name] = ("U8", [len(blob)], blob), checksum_of(checksum, after.tobytes())
                index["weight_map"][name] = name_of_file
            write_file(f"{folder}/weight_v{version:06d}/{name_of_file}", tensors, checksums)
        Path(folder, f"weight_v{version:06d}", INDEX).write_text(json.dumps(index))

    @staticmethod
    def apply(folder, version, tensors):
        """Applies a version to tensors by name."""
        path = f"{folder}/weight_v{version:06d}"
        index = json.loads(Path(path, INDEX).read_text())
        assert index["metadata"]["compression_format"] == "zstd" and all(
            isinstance(text, str) for text in index["metadata"].values())
        files = sorted(set(index["weight_map"].values()))
        assert files == [f"model-{i:05d}-of-{len(files):05d}.safetensors" for i in range(len(files))], files
        for name, file in index["weight_map"].items():
            blobs, checksums = read_file(f"{path}/{file}")
            dtype, shape, data = tensors[name]
            is_xor = index["metadata"]["delta_encoding"] == "xor"
            room = np.zeros(len(data) if is_xor else 4 + 5 * len(data), np.uint8)
            size = foreign.zstd().fill(blobs[name][2], room)
            out = np.frombuffer(bytes(data), np.uint8).copy()
            if is_xor:
                assert size == len(out)
                out ^= room
            else:
                count = struct.unpack("<I", room[:4].tobytes())[0]
                out[room[4:4 + 4 * count].view("<u4")] = room[4 + 4 * count:size]
            assert checksum_of(index["metadata"]["checksum_format"], out.tobytes()) == checksums[name]
            tensors[name] = dtype, shape, out.tobytes()


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.source, self.base, self.local = (f"{folder.name}/{name}" for name in ("source", "base", "local"))
        self.model = Model()
        write_checkpoint(self.base, self.model.files)
        shutil.copytree(self.base, self.local)
        self.digests = {0: self.model.digest()}

    def publisher(self, **options):
        return Publisher(self.source, self.base, **options)

    def receiver(self, **options):
        return Receiver(self.source, self.local, **options)

    def publish(self, publisher, version, **options):
        self.model.step()
        publisher.publish(version, self.model.arrays(), **options)
        self.digests[version] = self.model.digest()

    def expect(self, version, local=None):
        local = local or self.local
        self.assertEqual(Receiver(self.source, local).version, version)
        self.assertEqual(digest(read_checkpoint(local)), self.digests[version])
        self.assertTrue(os.path.exists(f"{local}/config.json"))

    def expect_error(self, kind, pattern, version, pull=None):
        """A pull fails, and the local checkpoint stays as it was."""
        for call in (self.receiver().verify, self.receiver().pull):
            with self.assertRaisesRegex(kind, pattern):
                call(pull)
            self.expect(version)


class Streams(Case):
    def test_every_form(self):
        forms = [("tuck", "xor")] + [("zstd", "xor"), ("zstd", "overwrite")] * has_zstd()
        self.assertEqual(len(forms), 3, "no zstd")
        version = 0
        for compression, encoding in forms:
            for checksum in CHECKSUMS:
                publisher = Publisher(self.source, self.base if version == 0 else self.local, delta_encoding=encoding,
                                      compression_format=compression, checksum_format=checksum)
                theirs = read_checkpoint(self.local)
                for _ in range(2):
                    version += 1
                    self.publish(publisher, version)
                    self.assertEqual(self.receiver().verify(), version)
                    self.expect(version - 1)
                    self.assertEqual(self.receiver().pull(), version)
                    self.expect(version)
                    if compression == "zstd":  # today's receivers
                        Theirs.apply(self.source, version, theirs)
                        self.assertEqual(digest(theirs), self.digests[version])
        shutil.copytree(self.base, f"{self.folder}/late")
        Receiver(self.source, f"{self.folder}/late").pull()  # through all forms
        self.expect(version, f"{self.folder}/late")

    @unittest.skipUnless(has_zstd(), "no zstd")
    def test_form_of_others(self):
        version = 0
        os.makedirs(self.source)
        for encoding in ("xor", "overwrite"):
            for checksum in CHECKSUMS:
                for writers in (1, 3):
                    old = {name: (d, s, x.copy()) for name, (d, s, x) in self.model.tensors().items()}
                    self.model.step()
                    version += 1
                    Theirs.publish(self.source, version, version - 1, old, self.model.tensors(), encoding, checksum,
                                   writers)
                    self.digests[version] = self.model.digest()
                    self.receiver(threads=writers).pull(version)
                    self.expect(version)
        version += 1  # an ordinary checkpoint, with other names of files
        self.model.step(still=())
        write_checkpoint(f"{self.source}/weight_v{version:06d}", {"model.safetensors": self.model.tensors()})
        self.digests[version] = self.model.digest()
        self.receiver().pull()
        self.expect(version)
        self.assertEqual(sorted(os.listdir(self.local)), [".tuck-version.json", "config.json", "model.safetensors"])

    def test_small_deltas_of_changed_tensors_only(self):
        publisher = self.publisher()
        publisher.publish(1, {"norm": self.model.arrays()["norm"]})
        self.assertEqual(read_file(f"{self.source}/weight_v000001/model-00000-of-00001.safetensors")[0], {})
        self.publish(publisher, 2)
        names = json.loads(Path(self.source, "weight_v000002", INDEX).read_text())["weight_map"]
        self.assertNotIn("frozen", names)
        self.assertIn("norm", names)
        blob = read_file(f"{self.source}/weight_v000002/model-00000-of-00001.safetensors")[0]["embed"][2]
        self.assertEqual((tuck.info(blob).codec, tuck.info(blob).is_delta), ("steps", True))
        self.digests[1] = self.digests[0]
        for version in (1, 2):
            self.receiver().pull(version)
            self.expect(version)

    def test_full_versions_and_lag(self):
        publisher = self.publisher(threads=1)
        self.publish(publisher, 0, full=True)  # of the base checkpoint, and tensors may have changed
        for version in range(1, 12):
            self.publish(publisher, version, full=version == 6)
        self.assertEqual(versions(self.source), list(range(12)))
        self.assertTrue(os.path.exists(f"{self.source}/weight_v000006/config.json"))
        new = Receiver(self.source, f"{self.folder}/new")
        self.assertIsNone(new.version)
        for version in (3, 9, 4, 11, 6, 0, 7):
            new.pull(version)
            self.expect(version, f"{self.folder}/new")
        shutil.rmtree(f"{self.source}/weight_v000002")  # old ones may go
        new.pull(11)
        self.expect(11, f"{self.folder}/new")
        with self.assertRaisesRegex(tuck.StreamError, "^version 5: it needs version 2: .* is missing; .*at version 11"):
            new.pull(5)

    def test_fold(self):
        publisher = self.publisher()
        for version in range(1, 9):
            self.publish(publisher, version)
        late = f"{self.folder}/late"
        shutil.copytree(self.base, late)
        self.receiver().pull(2)
        made = self.receiver().fold(3, 7)
        self.assertEqual(os.path.basename(made), "weight_v000007_from_000003")
        self.assertEqual(versions(self.source), list(range(1, 9)))
        for version in (4, 5, 6):  # so the merged one is taken
            shutil.rmtree(f"{self.source}/weight_v{version:06d}")
        for local in (self.local, late):
            Receiver(self.source, local).pull(8)
            self.expect(8, local)
        self.expect_error(tuck.StreamError, "^version 5: ", 8, 5)
        self.assertLess(size_of(made), 3 * size_of(f"{self.source}/weight_v000008"))
        with self.assertRaisesRegex(tuck.StreamError, "^version 3: it is not after version 3"):
            self.receiver().fold(3, 3)

    @unittest.skipUnless(has_zstd(), "no zstd")
    def test_fold_of_other_forms(self):
        for version, (compression, encoding) in enumerate(
                [("zstd", "overwrite"), ("tuck", "xor"), ("zstd", "xor")], 1):
            publisher = Publisher(self.source, self.base, version=version - 1, compression_format=compression,
                                  delta_encoding=encoding)
            if version > 1:  # its base is this version
                Receiver(self.source, self.base).pull()
                publisher = Publisher(self.source, self.base, compression_format=compression, delta_encoding=encoding)
            self.publish(publisher, version)
        for compression, encoding in (("tuck", "xor"), ("zstd", "xor"), ("zstd", "overwrite")):
            self.receiver().fold(0, 3, compression_format=compression, delta_encoding=encoding)
            local = f"{self.folder}/{compression}{encoding}"
            shutil.copytree(self.local, local)
            Receiver(self.source, local).pull()
            self.expect(3, local)
            shutil.rmtree(f"{self.source}/weight_v000003_from_000000")

    def test_several_writers(self):
        writers = [self.publisher(writer=(i, 3)) for i in range(3)]
        for version in range(1, 4):
            self.model.step()
            arrays = self.model.arrays()
            for i, writer in enumerate(writers):
                writer.publish(version, {name: arrays[name] for name in sorted(arrays)[i::3]}, full=version == 2)
                self.assertEqual(versions(self.source), list(range(1, version)))
            for writer in writers:
                writer.complete(version)
            self.digests[version] = self.model.digest()
            self.receiver().pull()
            self.expect(version)
        self.assertEqual(sorted(n for n in os.listdir(f"{self.source}/weight_v000003") if n.startswith("model-")),
                         [f"model-0000{i}-of-00003.safetensors" for i in range(3)])
        writers[0].publish(4, self.model.arrays())
        with self.assertRaisesRegex(tuck.StreamError, "version 4: writer 1 of 3 has not published it"):
            writers[0].complete(4)
        writers[0].publish(4, {}, full=True)
        for i in (1, 2):
            writers[i].publish(4, {}, full=True)
        with self.assertRaisesRegex(tuck.StreamError, "version 4: tensor '.*': no writer has published it"):
            writers[0].complete(4)
        with self.assertRaisesRegex(tuck.StreamError, "version 5: publish has not written it"):
            writers[0].complete(5)
        self.assertEqual(versions(self.source), [1, 2, 3])

    def test_hooks(self):
        bucket = f"{self.folder}/bucket"
        publisher = self.publisher(after_write=lambda path, version: shutil.move(path, f"{bucket}/{path.name}"))
        os.makedirs(bucket)
        asked = []

        def download(path, version):
            asked.append(version)
            if not path.exists():
                shutil.copytree(f"{bucket}/{path.name}", path)

        for version in range(1, 5):
            self.publish(publisher, version)
        cache = f"{self.folder}/cache"
        os.makedirs(cache)
        Receiver(cache, self.local, before_read=download).pull(4)
        self.expect(4)
        self.assertEqual(asked, [4, 3, 2, 1])

    def test_what_is_no_full_version(self):
        publisher = self.publisher()
        self.publish(publisher, 1)
        folder, index = f"{self.source}/weight_v000001", f"{self.source}/weight_v000001/model.safetensors.index.json"
        with open(index, "rb") as file:
            good = file.read()
        content = json.loads(good)
        damaged = [None, b"null", b"{}"]
        for metadata in ({}, None, {"version": "000001"}):
            damaged.append(json.dumps({**content, "metadata": metadata}).encode())
        damaged.append(json.dumps({**content, "weight_map": {}}).encode())
        for text in damaged:
            os.remove(index)
            if text is not None:
                with open(index, "wb") as file:
                    file.write(text)
            for call in (self.receiver().pull, self.receiver().verify):
                with self.assertRaisesRegex((tuck.TuckError, OSError), "version 1|has no version", msg=text):
                    call(1)
            self.expect(0)
            if text is None:
                with open(index, "wb") as file:
                    file.write(good)
        with open(index, "wb") as file:
            file.write(good)
        self.receiver().pull()
        self.expect(1)

    def test_full_versions_are_whole_and_of_the_model(self):
        publisher = self.publisher()
        self.publish(publisher, 1, full=True)
        folder = f"{self.source}/weight_v000001"
        checksums = next(f"{folder}/{name}" for name in os.listdir(folder) if name.startswith("tuck-checksums-"))
        with open(checksums, "rb") as file:
            good = file.read()
        os.remove(checksums)
        with self.assertRaisesRegex(tuck.StreamError, "version 1: tensor '.*': it has no checksum"):
            self.receiver().pull()
        content = json.loads(good)
        content["checksums"]["more"] = "0"
        with open(checksums, "w") as file:
            json.dump(content, file)
        with self.assertRaisesRegex(tuck.StreamError, "version 1: tensor 'more': it is missing"):
            self.receiver().pull()
        with open(checksums, "wb") as file:
            file.write(good)
        self.expect(0)
        other = f"{self.folder}/other"
        shutil.copytree(self.local, other)
        path = next(f"{other}/{name}" for name in os.listdir(other) if name.endswith(".safetensors"))
        with open(path, "rb") as file:
            content = file.read()
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + size])
        name = next(n for n, t in header.items() if n != "__metadata__" and len(t["shape"]) == 2)
        header[name]["shape"].reverse()
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + content[8 + size:])
        with self.assertRaisesRegex(tuck.StreamError, f"version 1: tensor '{name}': it is .* in the local checkpoint"):
            Receiver(self.source, other).pull()
        self.receiver().pull()
        self.expect(1)

    def test_a_damaged_fold_is_passed_over(self):
        publisher = self.publisher()
        for version in (1, 2):
            self.publish(publisher, version)
        fold = self.receiver().fold(0, 2)
        os.remove(fold / "model.safetensors.index.json")
        self.receiver().pull()
        self.expect(2)

    def test_a_failed_upload_is_repeated(self):
        sent, fails = [], [True]

        def send(path, version):
            if fails.pop() if fails else False:
                raise OSError("no network")
            sent.append(version)

        publisher = Publisher(self.source, self.base, after_write=send)
        with self.assertRaisesRegex(OSError, "no network"):
            self.publish(publisher, 1)
        self.publish(publisher, 2)
        self.assertEqual(sent, [1, 2])
        publisher.send()
        self.assertEqual(sent, [1, 2])

    def test_writers_of_a_run_that_crashed(self):
        half = self.model.arrays()
        names = sorted(half)
        parts = [{n: half[n] for n in names[k::2]} for k in range(2)]
        for k in range(2):
            self.model.step()
            Publisher(self.source, self.base, writer=(k, 2)).publish(1, parts[k])
        first, second = [Publisher(self.source, self.base, writer=(k, 2)) for k in range(2)]
        first.publish(1, parts[0])
        with self.assertRaisesRegex(tuck.StreamError, "writer 1 of 2 has not published"):
            first.complete(1)
        second.publish(1, parts[1])
        second.complete(1)
        with self.assertRaisesRegex(tuck.StreamError, "version 1 has not appeared"):
            second.publish(2, parts[1])
        first.complete(1)
        self.assertEqual(versions(self.source), [1])

    def test_arguments(self):
        publisher = self.publisher()
        arrays = self.model.arrays()
        for version in (1.0, "1", None, True):
            with self.assertRaisesRegex(tuck.StreamError, "pass an int"):
                publisher.publish(version, {})
        name = next(n for n, x in arrays.items() if x.ndim == 2 and x.shape[0] != x.shape[1])
        with self.assertRaisesRegex(tuck.SizeError, "has shape"):
            publisher.publish(1, {name: arrays[name].T})
        with self.assertRaisesRegex(tuck.DtypeError, "masked"):
            publisher.publish(1, {name: np.ma.masked_array(arrays[name])})
        with self.assertRaisesRegex(tuck.DtypeError, "it is None"):
            publisher.publish(1, {name: None})
        if has_zstd():
            with self.assertRaisesRegex(tuck.StreamError, "levels 1 to 22"):
                Publisher(self.source, self.base, compression_format="zstd", level=99)
        with self.assertRaisesRegex(ValueError, "threads: pass 0 or more"):
            Publisher(self.source, self.base, threads=-1)
        side = f"{os.path.dirname(self.local)}/.{os.path.basename(self.local)}.tuck"
        self.publish(publisher, 1)
        os.symlink(self.folder, side)
        with self.assertRaisesRegex(tuck.StreamError, "symbolic link"):
            self.receiver().pull()

    def test_failed_publication(self):
        publisher = self.publisher()
        arrays = self.model.arrays()
        for kind, name, x, pattern in (
                (tuck.StreamError, "unknown", arrays["norm"], "does not have it"),
                (tuck.SizeError, "norm", arrays["norm"][1:], "bytes, the base checkpoint"),
                (tuck.DtypeError, "norm", arrays["norm"].view(np.int32), "int32, the base checkpoint F32"),
                (tuck.DtypeError, "embed", arrays["embed"].view(np.float16), "float16, the base checkpoint BF16"),
                (tuck.DtypeError, "mask", arrays["mask"].view(np.uint8), "uint8, the base checkpoint BOOL"),
                (tuck.DtypeError, "norm", arrays["norm"].astype(">f4"), ">f4|float32")):
            self.model.step()
            with self.assertRaisesRegex(kind, f"^version 1: tensor '{name}': .*{pattern}"):
                publisher.publish(1, {**arrays, name: x})
            self.assertEqual(versions(self.source), [])
        self.publish(publisher, 1)
        self.receiver().pull()
        self.expect(1)
        for version, pattern in ((1, "it is not after version 1"), (0, "it is not after"), (-1, "pass a number")):
            with self.assertRaisesRegex(tuck.StreamError, pattern):
                publisher.publish(version, {})
        with self.assertRaisesRegex(tuck.StreamError, "version 1: it is published already"):
            self.publisher().publish(1, {})
        with self.assertRaisesRegex(tuck.StreamError, "version 2: the weights here are those of version 0, but 1 "):
            self.publisher().publish(2, {})
        with self.assertRaisesRegex(tuck.StreamError, "has no tensors"):
            os.makedirs(f"{self.folder}/empty")
            Publisher(self.source, f"{self.folder}/empty")
        for options in ({"compression_format": "lz4"}, {"checksum_format": "md5"}, {"delta_encoding": "overwrite"}):
            with self.assertRaisesRegex(tuck.TuckError, "lz4|md5|overwrite is for"):
                self.publisher(**options)

    def test_page(self):
        page = Path(__file__).resolve().parents[2].joinpath("docs/streams.md").read_text()
        first, second = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)[:2]
        self.model.step()
        self.digests[1] = self.model.digest()
        model = SimpleNamespace(state_dict=lambda: {**self.model.arrays(), "tied": np.zeros(1)})
        text = (first + second).replace("/shared/weights", self.source)
        for name in ("base", "local"):
            text = text.replace(f'"{name}"', repr(f"{self.folder}/{name}"), 1)
        exec(text, {"model": model})
        self.expect(1)

    def test_program(self):
        def run(*arguments):
            done = subprocess.run([sys.executable, "-m", "tuck", *map(str, arguments)], capture_output=True, text=True,
                                  cwd=self.folder)
            return done.returncode, done.stdout + done.stderr

        for version in (1, 2):
            self.model.step()
            write_checkpoint(f"{self.folder}/new{version}", self.model.files)
            self.digests[version] = self.model.digest()
        self.assertEqual(run("publish", "source", "base", "new1", 1), (0, "published version 1\n"))
        self.assertEqual(run("publish", "source", "new1", "new2", 2, "--base-version", 1), (0, "published version 2\n"))
        self.assertEqual(run("verify", "source", "local"), (0, "version 2 is right\n"))
        self.assertEqual(run("fold", "source", "local", 0, 2), (0, "wrote source/weight_v000002_from_000000\n"))
        self.assertEqual(run("pull", "source", "local"), (0, "local is at version 2\n"))
        self.expect(2)
        code, text = run("pull", "source", "local", 7)
        self.assertEqual(code, 1)
        self.assertRegex(text, "^tuck: version 7: source/weight_v000007 is missing; the local checkpoint is at ver")
        self.assertEqual(run("pull")[0], 2)
        self.assertRegex(run("verify", "base/config.json")[1], "base/config.json: not a tuck frame")  # the program's

    @unittest.skipUnless(find_spec("torch"), "no PyTorch")
    def test_torch(self):
        import torch  # takes seconds

        state = {"w": torch.randn(300, 40).bfloat16(), "b": torch.randn(40),
                 "f8": torch.randn(64).to(torch.float8_e5m2), "mask": torch.tensor([True, False]),
                 "scalar": torch.tensor(2.5)}
        types = {"w": "BF16", "b": "F32", "f8": "F8_E5M2", "mask": "BOOL", "scalar": "F32"}

        def tensors():
            return {name: (types[name], list(x.shape), x.reshape(-1).view(torch.uint8).numpy().tobytes())
                    for name, x in state.items()}

        shutil.rmtree(self.local)
        write_checkpoint(self.local, {"model.safetensors": tensors()})
        shutil.copytree(self.local, f"{self.folder}/torch")
        publisher = Publisher(self.source, f"{self.folder}/torch")
        self.assertEqual(publisher.names, set(state))
        for version in range(1, 4):
            state["w"] += torch.randn(300, 40) * 1e-3
            state["scalar"].mul_(1.5)
            state["mask"] ^= True
            state["f8"] = (-state["f8"].float()).to(torch.float8_e5m2)
            publisher.publish(version, {**state, "w": torch.nn.Parameter(state["w"].t().contiguous().t())})
            self.digests[version] = digest(tensors())
            self.receiver().pull()
            self.expect(version)
        with self.assertRaisesRegex(tuck.DtypeError, "torch.float32, the base checkpoint BF16"):
            publisher.publish(4, {"w": state["w"].float()})


def size_of(folder):
    return sum(entry.stat().st_size for entry in os.scandir(folder))


class Checkpoints(Case):
    """What a local checkpoint may look like, and that its files are never written to."""

    def test_files_of_the_local_checkpoint_are_not_written_to(self):
        publisher = self.publisher()
        backup = f"{self.folder}/backup"
        shutil.copytree(self.local, backup, copy_function=os.link)  # the same files by other names
        maps = {}
        for version in range(1, 5):
            maps[version - 1] = [open(f"{self.local}/{name}", "rb") for name in self.model.files]
            self.publish(publisher, version)
            self.receiver().pull()
            self.expect(version)
            self.assertEqual(digest(read_checkpoint(backup)), self.digests[0])
            for name, file in zip(self.model.files, maps[version - 1]):  # of who has them open
                file.seek(0)
                self.assertIn(hashlib.sha256(file.read()).digest(), {
                    hashlib.sha256(Path(f"{self.folder}/.local.tuck/next/{name}").read_bytes()).digest()})
        for files in maps.values():
            for file in files:
                file.close()
        self.assertEqual(sorted(os.listdir(f"{self.folder}/.local.tuck")), ["lock", "next"])

    def test_links_folders_and_a_single_file(self):
        for name in ("one", "one_local"):
            write_checkpoint(f"{self.folder}/{name}", {"model.safetensors": self.model.tensors()}, padding=3)
        local = f"{self.folder}/one_local"
        os.makedirs(f"{local}/nested/folder")
        Path(local, "nested/folder/tokens.txt").write_text("tokens")
        os.rename(f"{local}/model.safetensors", f"{self.folder}/blob")
        before = Path(self.folder, "blob").read_bytes()
        os.symlink("../blob", f"{local}/model.safetensors")
        os.symlink("one_local", f"{self.folder}/link")
        publisher = Publisher(self.source, f"{self.folder}/one")
        for version in range(1, 4):
            self.publish(publisher, version)
            Receiver(self.source, f"{self.folder}/link").pull()
            self.expect(version, local)
            self.assertTrue(os.path.islink(f"{self.folder}/link"))
            self.assertEqual(Path(local, "nested/folder/tokens.txt").read_text(), "tokens")
        self.assertEqual(Path(self.folder, "blob").read_bytes(), before)

    def fails_without_space(self, version, call):
        """Expects an error of the system that names the version, where no file may have more than 5,000 bytes."""
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
            try:
                call()
                os._exit(1)
            except OSError as error:
                os._exit(0 if error.errno == errno.EFBIG and f"version {version}: " in str(error) else 3)
            except BaseException:
                os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_no_space(self):
        publisher = self.publisher()
        self.publish(publisher, 1)
        self.fails_without_space(1, lambda: self.receiver().pull())
        self.expect(0)
        self.receiver().pull()
        self.expect(1)
        self.fails_without_space(2, lambda: self.publish(publisher, 2, full=True))
        self.publish(publisher, 2)
        self.receiver().pull()
        self.expect(2)

    def test_receivers_at_the_same_time(self):
        publisher = self.publisher()
        for version in range(1, 4):
            self.publish(publisher, version)
        errors = []

        def pull():
            try:
                self.receiver().pull(3)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=pull) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        self.expect(3)


class Damage(Case):
    """What a source may have wrong."""

    def setUp(self):
        super().setUp()
        self.publisher_ = self.publisher(checksum_format="adler32")
        for version in (1, 2):
            self.publish(self.publisher_, version)
        self.receiver().pull(1)
        self.file = Path(self.source, "weight_v000002/model-00000-of-00001.safetensors")
        self.index = Path(self.source, "weight_v000002", INDEX)

    def change_index(self, change):
        index = json.loads(self.index.read_text())
        change(index)
        self.index.write_text(json.dumps(index))

    def test_truncated(self):
        content = self.file.read_bytes()
        for size in (0, 7, 100, len(content) - 1):
            self.file.write_bytes(content[:size])
            self.expect_error(tuck.StreamError, "^version 2: .*model-00000-of-00001.safetensors", 1)
        text = self.index.read_text()
        self.index.write_text(text[:-10])
        self.expect_error(tuck.StreamError, "^version 2: .*is not JSON", 1)

    def test_flipped(self):
        tensors, _ = read_file(self.file)
        content = self.file.read_bytes()
        first = len(content) - sum(len(t[2]) for t in tensors.values())
        chance = random.Random(1)
        begin = first
        for name, (_, _, data) in tensors.items():
            for _ in range(3):
                at = begin + chance.randrange(len(data))
                self.file.write_bytes(content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1:])
                try:
                    self.receiver().verify()  # a bit may have no meaning
                except tuck.TuckError as error:
                    self.assertRegex(str(error), f"^version 2: tensor '{name}': ")
                    self.expect_error(type(error), f"^version 2: tensor '{name}': ", 1)
            begin += len(data)
        self.file.write_bytes(content)
        self.receiver().pull()
        self.expect(2)

    def test_wrong_checksum(self):
        tensors, checksums = read_file(self.file)
        write_file(self.file, tensors, {**checksums, "norm": "00000000"})
        self.expect_error(tuck.DamagedFrameError, "^version 2: tensor 'norm': its adler32 is [0-9a-f]{8}, not '0+'", 1)
        del checksums["norm"]
        write_file(self.file, tensors, checksums)
        self.expect_error(tuck.StreamError, "^version 2: tensor 'norm': it is not a U8 tensor with a checksum", 1)

    def test_missing(self):
        self.change_index(lambda index: index["weight_map"].update(q="model-00001-of-00001.safetensors"))
        self.expect_error(tuck.StreamError, "^version 2: tensor 'q': its file 'model-00001-.*' is missing", 1)
        self.change_index(lambda index: index["weight_map"].pop("q"))
        self.expect_error(tuck.StreamError, "^version 2: .*has tensors that are not in", 1)
        self.file.unlink()
        self.expect_error(tuck.StreamError, "^version 2: tensor '.*': its file 'model-00000-.*' is missing", 1)
        self.index.unlink()
        self.expect_error(tuck.StreamError, "^version 2: .* has no ", 1, 2)
        shutil.rmtree(self.index.parent)
        self.expect_error(tuck.StreamError, "^version 2: .* is missing; the local checkpoint is at version 1", 1, 2)
        self.assertEqual(self.receiver().pull(), 1)

    def test_another_base(self):
        path = f"{self.local}/model-00001-of-00003.safetensors"
        tensors, metadata = read_file(path)
        changed = bytearray(tensors["norm"][2])
        changed[5] ^= 1
        write_file(path, {**tensors, "norm": (*tensors["norm"][:2], changed)}, metadata)
        self.digests[1] = digest(read_checkpoint(self.local))
        self.expect_error(tuck.WrongBaseError, "^version 2: tensor 'norm': the base is not", 1)

    @unittest.skipUnless(has_zstd(), "no zstd")
    def test_damaged_zstd(self):
        for encoding, payload in (("xor", bytes(11999)), ("xor", bytes(12001)), ("xor", bytes(10 ** 7)),
                                  ("overwrite", b"\x01\0\0\0\xe0\x2e\0\0\7"), ("overwrite", b"\x02\0\0\0\0\0\0\0\0"),
                                  ("overwrite", b"\x01\0"), ("xor", None)):
            blob = b"nonsense" if payload is None else bytes(foreign.zstd().compress(payload, 1))
            write_file(self.file, {"norm": ("U8", [len(blob)], blob)}, {"norm": "00000000"})
            metadata = {"version": "000002", "base_version": "000001", "compression_format": "zstd",
                        "checksum_format": "adler32", "delta_encoding": encoding}
            self.index.write_text(json.dumps({"metadata": metadata, "weight_map": {"norm": self.file.name}}))
            self.expect_error(tuck.DamagedFrameError, "^version 2: tensor 'norm': its (delta|zstd)", 1)

    def test_hostile_indexes(self):
        original = self.index.read_text()
        for name in ("../../base/model-00001-of-00003.safetensors", "/etc/passwd", "..", "", ".", "a\0b", "x/y"):
            self.change_index(lambda index: index["weight_map"].update(norm=name))
            self.expect_error(tuck.StreamError, "^version 2: tensor 'norm': its file .* is missing", 1)
        for change, pattern in (
                (lambda i: i["metadata"].update(base_version="000002"), "its base is version 2, which is not before"),
                (lambda i: i["metadata"].pop("base_version"), "no number as 'base_version'"),
                (lambda i: i["metadata"].update(base_version="-1"), "no number as 'base_version'"),
                (lambda i: i["metadata"].update(base_version="9" * 30), "no number as 'base_version'"),
                (lambda i: i["metadata"].update(version="000003"), "is of version 3"),
                (lambda i: i["metadata"].update(version=2), "not an object of strings"),
                (lambda i: i["metadata"].pop("version"), "no number as 'version'"),
                (lambda i: i["metadata"].update(compression_format="lz4"), "unknown compression_format 'lz4'"),
                (lambda i: i["metadata"].update(delta_encoding="add"), "unknown delta_encoding 'add'"),
                (lambda i: i["metadata"].pop("checksum_format"), "unknown checksum_format ''"),
                (lambda i: i.update(metadata=[1]), "not a JSON object"),
                (lambda i: i.update(weight_map=[1]), "not an object of strings"),
                (lambda i: i.pop("weight_map"), "not an object of strings")):
            self.index.write_text(original)
            self.change_index(change)
            self.expect_error(tuck.TuckError, "^version 2: .*" + pattern, 1)
        self.index.write_text("[" * 100000)
        self.expect_error(tuck.StreamError, "^version 2: .*is not JSON", 1)
        self.index.write_text("[]")
        self.expect_error(tuck.StreamError, "^version 2: .*is not a JSON object", 1)

    def test_hostile_files(self):
        tensors, checksums = read_file(self.file)
        self.file.write_bytes(struct.pack("<Q", 1 << 40) + b"{" * 100)
        self.expect_error(tuck.StreamError, "^version 2: .*not a safetensors file", 1)
        for name, offsets in (("norm", [0, 1 << 60]), ("norm", [5, 2]), ("embed", [1, 1])):
            header = {"__metadata__": checksums}
            end = 0
            for key, (dtype, shape, data) in tensors.items():
                header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
                end += len(data)
            header[name]["data_offsets"] = offsets
            text = json.dumps(header).encode()
            self.file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
            self.expect_error(tuck.StreamError, "^version 2: .*tensor", 1)
        write_file(self.file, {**tensors, "strange": tensors["norm"]}, {**checksums, "strange": "0"})
        self.change_index(lambda index: index["weight_map"].update(strange=self.file.name))
        self.expect_error(tuck.StreamError, "^version 2: tensor 'strange': the local checkpoint does not have it", 1)
        self.file.unlink()
        os.mkfifo(self.file)
        self.expect_error(tuck.StreamError, "^version 2: ", 1)
        self.index.unlink()
        os.mkfifo(self.index)
        self.expect_error(tuck.StreamError, "^version 2: .*not a regular file", 1)

    def test_hostile_full_version(self):
        self.publish(self.publisher_, 3, full=True)
        full = f"{self.source}/weight_v000003"
        os.symlink(self.base, f"{full}/folder")
        with self.assertRaisesRegex(tuck.StreamError, "link to a folder"):
            self.receiver().pull()
        os.unlink(f"{full}/folder")
        path = Path(full, "model-00000-of-00001.safetensors")
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        self.expect_error(tuck.DamagedFrameError, "^version 3: tensor '.*': its adler32 is", 1)
        content[-1] ^= 1
        path.write_bytes(content)
        self.receiver().pull()
        self.expect(3)


# Two programs that share only a folder, and receivers that are killed.

def train(folder, pause):
    """Publishes versions, a full one at times, until there is a file "stop". Their digests are in "digests"."""
    model, version = Model(values=20000), 0
    publisher = Publisher(f"{folder}/source", f"{folder}/base", threads=1)
    while not os.path.exists(f"{folder}/stop"):
        version += 1
        model.step(still=("frozen", "double", "other") if version % 3 else ("frozen", "embed", "norm"))
        Path(f"{folder}/digests/.{version}").write_text(model.digest())
        os.rename(f"{folder}/digests/.{version}", f"{folder}/digests/{version}")
        publisher.publish(version, model.arrays(), full=version % 40 == 0)
        time.sleep(pause)
    Path(folder, ".last").write_text(str(version))
    os.rename(f"{folder}/.last", f"{folder}/last")  # the others read it when it is there


def digest_of(folder, version):
    return Path(folder, "digests", str(version)).read_text()


def follow(folder):
    """Pulls one version after the other, and compares each."""
    receiver, version = Receiver(f"{folder}/source", f"{folder}/steady"), 1
    while True:
        if os.path.exists(f"{folder}/source/weight_v{version:06d}"):
            receiver.pull(version)
            assert digest(read_checkpoint(f"{folder}/steady")) == digest_of(folder, version), version
            version += 1
        elif os.path.exists(f"{folder}/last") and version > int(Path(folder, "last").read_text()):
            return
        time.sleep(0.002)


def killed_at_line(lines):
    """Lets the process kill itself before a line of the package."""
    left = [lines]

    def trace(frame, event, argument):
        if os.path.dirname(frame.f_code.co_filename) != os.path.dirname(tuck.__file__):
            return None
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    threading.settrace(trace)
    sys.settrace(trace)


class Killed(unittest.TestCase):
    kills = 12

    def test_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("digests", "source"):
                os.makedirs(f"{folder}/{name}")
            model = Model(values=20000)
            write_checkpoint(f"{folder}/base", model.files)
            for name in ("steady", "killed"):
                shutil.copytree(f"{folder}/base", f"{folder}/{name}")
            Path(folder, "digests", "0").write_text(model.digest())
            others = [subprocess.Popen([sys.executable, __file__, role, folder]) for role in ("--train", "--follow")]
            try:
                counts = self.kill(folder, others)
                Path(folder, "stop").touch()
                self.assertEqual([p.wait(timeout=300) for p in others], [0, 0])
            finally:
                for p in others:
                    p.kill()
                    p.wait()
            last = int(Path(folder, "last").read_text())
            Receiver(f"{folder}/source", f"{folder}/killed").pull(last)
            for name in ("killed", "steady"):
                self.assertEqual(digest(read_checkpoint(f"{folder}/{name}")), digest_of(folder, last))
            print(f"{last} versions; {counts['killed']} kills, {counts['ended']} pulls that ended before; versions of "
                  f"the killed receiver: {counts['versions']}", file=sys.stderr)

    def kill(self, folder, others):
        chance, counts, seen = random.Random(self.kills), {"killed": 0, "ended": 0}, [0]
        lines, seconds = 3000, 0.08  # a pull of one version takes about 2200 and 0.04
        while counts["killed"] < self.kills:
            self.assertEqual([p.poll() for p in others], [None, None])
            if not versions(f"{folder}/source"):
                continue
            by_line = counts["killed"] % 2 == 0
            child = os.fork()
            if child == 0:
                try:
                    if by_line:
                        killed_at_line(chance.randrange(lines))
                    Receiver(f"{folder}/source", f"{folder}/killed", threads=2).pull()
                except BaseException as error:
                    print(error, file=sys.stderr, flush=True)
                    os._exit(1)
                os._exit(0)
            if by_line:
                chance.randrange(lines)  # as the child did
            else:
                time.sleep(chance.random() * seconds)
                os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            self.assertIn(status, (0, signal.SIGKILL))
            counts["killed" if status else "ended"] += 1
            version = Receiver(f"{folder}/source", f"{folder}/killed").version
            self.assertGreaterEqual(version, seen[-1])
            self.assertEqual(digest(read_checkpoint(f"{folder}/killed")), digest_of(folder, version))
            seen += [version] * (version != seen[-1])
        counts["versions"] = len(seen) - 1
        return counts


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        sys.exit(train(sys.argv[2], 0.1))
    if sys.argv[1:2] == ["--follow"]:
        sys.exit(follow(sys.argv[2]))
    if sys.argv[1:2] == ["--kills"]:
        Killed.kills = int(sys.argv[2])
        sys.argv[1:] = ["Killed"]
    unittest.main()
