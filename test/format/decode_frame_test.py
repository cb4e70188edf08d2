#!/usr/bin/env python3
"""Tests of decode_frame.py against the program `tuck`: both restore the same bytes, and refuse the same frames.

usage: decode_frame_test.py [TUCK]      the program, else that in TUCK_CLI

TUCK_LONG in the environment damages ten times as many frames.
"""

import itertools
import json
import math
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True  # no __pycache__ among the sources

if sys.version_info < (3, 9):
    print("skipped: Python 3.9 or later is needed")
    sys.exit(77)
import decode_frame  # noqa: E402
import lossless  # noqa: E402
from bits import ceil_div, pack, round_up, unpack  # noqa: E402

DATA = Path(__file__).parents[2] / "examples" / "data"
GOLDEN = Path(__file__).with_name("golden")
PAGE = Path(__file__).parents[2] / "docs" / "format.md"
TYPES = {dtype.name: dtype for dtype in decode_frame.DTYPES.values()}
CHUNK = 256
SIZES = (0, 1, 31, 32, 33, CHUNK - 1, CHUNK, CHUNK + 1)
BOUNDS = [(mode, bound) for bound in ("1e-3", "1e-1", "1e-6") for mode in ("absolute", "range", "pointwise")]
ROWS = ("1", "3", "100", "auto")
DAMAGED_FRAMES = 1200 * (10 if os.environ.get("TUCK_LONG") else 1)
TUCK = os.environ.get("TUCK_CLI", "")
CODECS = {}  # by name, the types that they take; the program says


def parameters(codec, i):
    if codec.startswith("rows"):
        return "--row", ROWS[i % len(ROWS)]
    mode, bound = BOUNDS[i % len(BOUNDS)]
    return ("--bound", mode, "--error-bound", bound) if "quantize" in codec else ()


# Values, as bit patterns


def bits_of(value, dtype):
    """A number as an element of that type."""
    if not dtype.mantissa:
        return int(value * 1000) % 2 ** (8 * dtype.width)
    if dtype.name == "bf16":
        return struct.unpack("<I", struct.pack("<f", value))[0] >> 16
    if dtype.width == 1:  # an f16's upper byte, and of f8e4m3 one of its exponent's bits less
        half = struct.unpack("<H", struct.pack("<e", value / (256 if dtype.mantissa == 3 else 1)))[0]
        return half >> 8 if dtype.mantissa == 2 else (half >> 7 & 0x7F) | half >> 8 & 0x80
    return unpack(struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[dtype.name], value), dtype.width)[0]


def zeros(rng, dtype, count):
    return [0] * count


def uniform(rng, dtype, count):
    return [rng.getrandbits(8 * dtype.width)] * count


def dense(rng, dtype, count):
    return [rng.getrandbits(8 * dtype.width) for _ in range(count)]


def normal(rng, dtype, count):
    return [bits_of(rng.gauss(0, 1), dtype) for _ in range(count)]


def sparse(rng, dtype, count):
    return [bits_of(abs(rng.gauss(0, 1)), dtype) if rng.random() < 0.3 else 0 for _ in range(count)]


def clustered(rng, dtype, count):
    values = []
    while len(values) < count:
        values += [rng.choice((0, bits_of(rng.gauss(0, 1), dtype)))] * rng.randint(1, 60)
    return values[:count]


def smooth(rng, dtype, count):
    step = rng.choice((1e-4, 1e-2, 0.3))
    return [bits_of(3 * math.sin(i * step), dtype) for i in range(count)]


def small(rng, dtype, count):
    return [rng.randrange(9) for _ in range(count)]


def special(rng, dtype, count):
    """Mostly smooth, with -0, infinities, NaN and denormals (of integers: extremes) between."""
    sign = 1 << 8 * dtype.width - 1
    infinity = sign - (1 << dtype.mantissa) if dtype.mantissa else sign - 1
    odd = (sign, infinity, infinity | sign, infinity + 1, 2 * sign - 1, 1, sign | 1, (1 << dtype.mantissa) - 1, 0)
    return [rng.choice(odd) if rng.random() < 0.1 else value for value in smooth(rng, dtype, count)]


PATTERNS = (zeros, uniform, dense, normal, sparse, clustered, smooth, small, special)


def mixed(rng, dtype, count, chunk=CHUNK):
    """Chunks of all patterns, one after the other."""
    values = []
    while len(values) < count:
        values += PATTERNS[len(values) // chunk % len(PATTERNS)](rng, dtype, chunk)
    return values[:count]


# Frames


class Header:
    """The header of a frame as numbers that can be changed, to be sealed again."""

    FORMAT = struct.Struct("<4sHBBIIQQQ64sQQQ")
    FIELDS = ("magic", "version", "type", "alignment", "flags", "chunk_values", "values", "bytes", "metadata_bytes",
              "stages", "base_digest", "contents_digest", "header_digest")  # fmt: skip

    def __init__(self, frame):
        for name, value in zip(self.FIELDS, self.FORMAT.unpack_from(frame)):
            setattr(self, name, value)

    @property
    def chunks(self):
        return ceil_div(self.values, self.chunk_values)

    @property
    def directory(self):
        return 128 + round_up(self.metadata_bytes, 8)

    @property
    def contents_end(self):
        return self.directory + 8 * self.chunks * (1 + (self.flags & 1)) + 8 * (self.flags >> 1 & 1)

    def put(self, frame):
        """Into a frame, with digests that are right as far as there is anything to sum."""
        if self.chunk_values and self.contents_end <= len(frame):
            self.contents_digest = decode_frame.checksum(bytes(frame[128 : self.contents_end]))
        self.FORMAT.pack_into(frame, 0, *(getattr(self, name) for name in self.FIELDS))
        struct.pack_into("<Q", frame, 120, decode_frame.checksum(bytes(frame[:120])))


def without_metadata(frame):
    """The same frame, in which the metadata has become a hole behind the directory."""
    moved, header = bytearray(frame), Header(frame)
    contents = frame[header.directory : header.contents_end]
    header.metadata_bytes = 0
    moved[128 : 128 + len(contents)] = contents
    header.put(moved)
    return moved


def payloads_of(frame):
    header = Header(frame)
    entries = unpack(frame[header.directory : header.directory + 8 * header.chunks], 8)
    places = [((entry & 2**40 - 1) << header.alignment, entry >> 40 & 0xFFFFF) for entry in entries]
    return [place for place in places if place[1]]


class FrameTest(unittest.TestCase):
    """Programs are run from four threads, for they mostly wait."""

    @classmethod
    def setUpClass(cls):
        memory = "/dev/shm"  # where disks are slow, thousands of small files take long
        cls.folder = tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None)
        cls.addClassCleanup(cls.folder.cleanup)
        cls.pool = ThreadPoolExecutor(4)
        cls.addClassCleanup(cls.pool.shutdown)
        cls.counts = Counter()
        cls.addClassCleanup(lambda: print(f"\n{cls.__name__}:", ", ".join(f"{n} {k}" for k, n in cls.counts.items())))

    def path(self, name):
        """A file of this thread's own."""
        return str(Path(self.folder.name) / f"{threading.get_ident()}-{name}")

    def tuck(self, *arguments):
        return subprocess.run([TUCK, *arguments], capture_output=True, text=True, timeout=60)

    def codecs(self):
        """What the program says it has, and the element types that it takes for each."""
        if not CODECS:
            names = re.search(r"--codec NAME\S* +Codec: (.*)", self.tuck("encode", "--help").stdout)
            pairs = [(codec, dtype) for codec in names.group(1).split(", ") for dtype in TYPES.values()]
            for (codec, dtype), (frame, _) in zip(pairs, self.pool.map(lambda pair: self.encode(*pair, []), pairs)):
                CODECS.setdefault(codec, []).extend([dtype] if frame is not None else [])
        return CODECS

    def codecs_for(self, dtype):
        return [codec for codec, types in self.codecs().items() if dtype in types]

    def encode(self, codec, dtype, values, *options):
        """The frame, and the .npy file that it was made of; no frame where the codec does not take the type."""
        data = pack(values, dtype.width)
        file = decode_frame.npy_header(decode_frame.Frame(dtype, data, b"")) + data
        Path(self.path("in.npy")).write_bytes(file)
        options += ("--as", dtype.name) if dtype.name == "bf16" or dtype.name.startswith("f8") else ()
        options += ("--error-bound", "1e-3") if "quantize" in codec and "--error-bound" not in options else ()
        done = self.tuck("encode", "--codec", codec, *options, self.path("in.npy"), self.path("a.tuck"))
        if done.returncode != 0:
            self.assertRegex(done.stderr, "takes .*, not " + dtype.name)
            return None, file
        return Path(self.path("a.tuck")).read_bytes(), file

    def by_tuck(self, frame):
        """The .npy file that the program makes of a frame, or None and why it does not."""
        Path(self.path("b.tuck")).write_bytes(frame)
        done = self.tuck("decode", self.path("b.tuck"), self.path("b.npy"))
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return (Path(self.path("b.npy")).read_bytes(), "") if done.returncode == 0 else (None, done.stderr.strip())

    def by_python(self, frame):
        try:
            decoded = decode_frame.decode(bytes(frame))
            return decode_frame.npy_header(decoded) + decoded.values, ""
        except ValueError as reason:
            return None, str(reason)

    def by_both(self, frame):
        return self.by_tuck(frame), self.by_python(frame)


class Sound(FrameTest):
    def complaint(self, case):
        """What is wrong with a frame of these values, or nothing."""
        codec, dtype, values, *options = case
        frame, original = self.encode(codec, dtype, values, *options)
        (restored, reason), (mine, my_reason) = self.by_both(frame)
        if mine is None or restored is None:
            return f"refused: {reason} {my_reason}"
        if mine != restored:
            return "other values than those of tuck decode"
        return "" if "quantize" in codec or mine == original else "other values than were encoded"

    def compare(self, cases):
        for (codec, dtype, values, *options), complaint in zip(cases, self.pool.map(self.complaint, cases)):
            with self.subTest(codec=codec, dtype=dtype.name, values=len(values), options=options):
                self.assertEqual(complaint, "")
                self.counts["frames compared"] += 1

    def test_every_codec_and_type(self):
        cases = []
        for codec, dtype in ((codec, dtype) for codec, types in self.codecs().items() for dtype in types):
            rng, chunk = random.Random(codec + dtype.name), ("--chunk-values", str(CHUNK))
            bounds = [parameters(codec, i) for i in range(len(BOUNDS) if "quantize" in codec else len(ROWS))]
            bounds = bounds[: None if bounds[0] else 1]
            for i, size in enumerate(SIZES):
                values, sums = rng.choice(PATTERNS)(rng, dtype, size), ("--no-checksums",) if i % 5 == 2 else ()
                cases.append((codec, dtype, values, *chunk, *bounds[i % len(bounds)], *sums))
            for bound in bounds:
                cases.append((codec, dtype, mixed(rng, dtype, len(PATTERNS) * CHUNK + 17), *chunk, *bound))
            large = 20000 // dtype.width  # more than a piece of deflate, and than a chunk of others
            cases.append((codec, dtype, mixed(rng, dtype, large, chunk=large // 40), *bounds[0]))
        self.compare(cases)

    def test_every_shape_of_chunks(self):
        rng, f32, cases = random.Random(1), TYPES["f32"], []
        for codec in self.codecs_for(f32):
            for size in ("32", "64", "1056", "2048"):
                cases.append((codec, f32, mixed(rng, f32, 4300, int(size)), "--chunk-values", size))
        self.compare(cases)

    def test_recorded_activations(self):
        files, f32, cases = sorted(DATA.glob("*.npy")), TYPES["f32"], []
        self.assertGreater(len(files), 0)
        for i, file in enumerate(files):
            data = file.read_bytes()
            values = unpack(data[10 + unpack(data[8:10], 2)[0] :], 4)
            cases += [(codec, f32, values, *parameters(codec, i)) for codec in self.codecs_for(f32)]
        self.compare(cases)

    def test_without_metadata(self):
        for dtype in TYPES.values():
            frame, _ = self.encode("rle", dtype, mixed(random.Random(2), dtype, 1000), "--chunk-values", "96")
            (restored, reason), (mine, my_reason) = self.by_both(without_metadata(frame))
            self.assertEqual(reason + my_reason, "")
            self.assertTrue(mine == restored, dtype.name)

    def test_program(self):
        rng = random.Random(3)
        frame, original = self.encode("zvc", TYPES["f16"], sparse(rng, TYPES["f16"], 1000))
        program = [sys.executable, "-B", str(Path(__file__).with_name("decode_frame.py"))]
        for out, expected in (("out.npy", original), ("out.bin", original[-2000:])):
            subprocess.run([*program, self.path("a.tuck"), self.path(out)], check=True)
            self.assertEqual(Path(self.path(out)).read_bytes(), expected)
        Path(self.path("a.tuck")).write_bytes(frame[:-1])
        refused = subprocess.run([*program, self.path("a.tuck"), self.path("no")], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("truncated", refused.stderr)


def read_safetensors(data):
    """Metadata, and by name dtype, shape and bytes of each tensor."""
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    metadata = header.pop("__metadata__", {})
    return metadata, {
        name: (t["dtype"], t["shape"], data[begin + t["data_offsets"][0] : begin + t["data_offsets"][1]])
        for name, t in header.items()
    }


class Safetensors(FrameTest):
    """Each frame of a file of frames is one that Python reads, too, with and without a base. Small tensors are raw."""

    def write(self, name, tensors):
        header, data = {}, b""
        for key, (dtype, shape, values) in tensors.items():
            header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
        text = json.dumps(header).encode()
        path = self.path(name + ".safetensors")
        Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)
        return path

    def test_frames(self):
        rng = random.Random(5)
        old = {"w": ("BF16", [40, 1639], bytes(65560) + rng.randbytes(65560)), "b": ("F32", [7], rng.randbytes(28)),
               "0": ("U8", [0], b"")}  # fmt: skip

        def changed(values):  # at the beginning, and in the last of two chunks
            values = values[:3] + bytes(len(values[3:5])) + values[5:]
            return values[:-9] + bytes(len(values[-9:-7])) + values[-7:] if len(values) > 28 else values

        new = {name: (dtype, shape, changed(values)) for name, (dtype, shape, values) in old.items()}
        base, model, packed = self.write("old", old), self.write("new", new), self.path("packed.safetensors")
        for options in ((), ("--base", base)):
            done = self.tuck("encode", *options, model, packed)
            self.assertEqual(done.returncode, 0, done.stderr)
            metadata, frames = read_safetensors(Path(packed).read_bytes())
            self.assertEqual(sorted(frames), sorted(new))
            self.assertIn('"w"', metadata["tuck.header"])
            for name, (dtype, shape, frame) in frames.items():
                if name != "w":
                    self.assertEqual((dtype, shape, frame), new[name])
                    continue
                self.assertEqual((dtype, shape), ("U8", [len(frame)]))
                decoded = decode_frame.decode(frame, old[name][2] if options else None)
                self.assertEqual(decoded.values, new[name][2])
                self.assertEqual(decoded.dtype.name, new[name][0].lower())
                self.counts["frames compared"] += 1


class Golden(unittest.TestCase):
    """The frames that were committed; values.txt has FNV-1a digests of what is in them."""

    def test_every_frame(self):
        digests = dict(line.split() for line in (GOLDEN / "values.txt").read_text().splitlines())
        self.assertEqual(sorted(digests), sorted(path.stem for path in GOLDEN.glob("*.tuck")))
        self.assertGreater(len(digests), 50)
        for name, expected in digests.items():
            with self.subTest(frame=name):
                data, base = (GOLDEN / f"{name}.tuck").read_bytes(), GOLDEN / f"{name}.base"
                frame = decode_frame.decode(data, base.read_bytes() if base.exists() else None)
                digest = 0xCBF29CE484222325
                for byte in frame.values:
                    digest = (digest ^ byte) * 0x100000001B3 % 2**64
                self.assertEqual(f"{digest:016x}", expected)
                self.assertIn(frame.metadata, (b"", b"golden frames"))

    def test_every_kind_and_rule_of_masks(self):
        heads, decode = Counter(), lossless.with_packed_mask

        def spy(data, count, width, has_runs):
            head = data[0]
            heads["packed" if head >> 5 else "plain", "runs" if has_runs else "no runs", "kind", head & 3] += 1
            heads["rule", head >> 2 & 7] += head >> 5
            return decode(data, count, width, has_runs)

        with mock.patch.object(lossless, "with_packed_mask", spy):
            self.test_every_frame()
        for kind in range(4):
            self.assertGreater(heads["packed", "runs", "kind", kind], 0, kind)
            self.assertEqual(heads["packed", "no runs", "kind", kind] > 0, kind != lossless.RUNS, kind)
            self.assertGreater(heads["plain", "runs", "kind", kind] + heads["plain", "no runs", "kind", kind], 0, kind)
        for rule in range(6):
            self.assertGreater(heads["rule", rule], 1, rule)

    def test_deltas_want_their_base(self):
        for path in GOLDEN.glob("*.base"):
            data, base = path.with_suffix(".tuck").read_bytes(), path.read_bytes()
            restored = decode_frame.decode(data, base).values
            for other in (None, restored, base[:-1], bytes(len(base))):
                with self.subTest(frame=path.name), self.assertRaisesRegex(ValueError, "base"):
                    decode_frame.decode(data, other)

    def test_deltas_are_lossless(self):
        frame = bytearray((GOLDEN / "zvc.f32.against-a-base.tuck").read_bytes())
        base = (GOLDEN / "zvc.f32.against-a-base.base").read_bytes()
        header = Header(frame)
        header.stages = struct.pack("<HBBIQ48x", decode_frame.QUANTIZE, 1, 0, 0, 1023 << 52)
        header.put(frame)
        with self.assertRaisesRegex(ValueError, "a delta cannot be quantized"):
            decode_frame.decode(bytes(frame), base)


def handmade(dtype, codec, chunk_values, count, chunks, alignment=5, mode=0, bound=0, stages=()):
    """A frame of a codec of one stage and more `stages`. Chunks are (kind, payload), or the index of one to share it
    with."""
    header = Header(bytes(128))
    header.magic, header.version, header.alignment, header.chunk_values = b"TUCK", 1, alignment, chunk_values
    header.type = next(number for number, known in decode_frame.DTYPES.items() if known == dtype)
    header.values, header.stages = count, struct.pack("<HBBIQ", codec, 1, mode, 0, bound)
    header.stages = (header.stages + b"".join(struct.pack("<HB13x", stage, 1) for stage in stages)).ljust(64, b"\0")
    frame = bytearray(round_up(header.contents_end, 1 << alignment))
    entries = {}
    for i, chunk in reversed(list(enumerate(chunks))):  # encoders write them the other way round
        if isinstance(chunk, tuple):
            kind, payload = chunk
            entries[i] = kind << 60 | len(payload) << 40 | len(frame) >> alignment
            frame += payload.ljust(round_up(len(payload), 1 << alignment), b"?")
    for i, chunk in enumerate(chunks):
        entry = entries[i if isinstance(chunk, tuple) else chunk]
        struct.pack_into("<Q", frame, header.directory + 8 * i, entry)
    header.bytes = len(frame)
    header.put(frame)
    return bytes(frame)


def chunk_of_page(text):
    """The bytes of the example that docs/format.md has behind this text."""
    page = PAGE.read_text()
    lines = page[page.index(text) :].split("```")[1].strip().splitlines()
    chunk = b""
    for line in lines:
        zeros = re.match(r"(\d+) bytes of 0", line)
        chunk += bytes(int(zeros[1])) if zeros else bytes.fromhex(re.match(r"([0-9a-f]{2} ?)+", line)[0])
    return chunk


class Handmade(FrameTest):
    """Frames that are as specified, though nobody here writes them so, and some that are not."""

    def assert_same(self, frame):
        (restored, reason), (mine, my_reason) = self.by_both(frame)
        self.assertTrue(mine == restored, f"they disagree: {reason} {my_reason}")
        self.counts["accepted by both" if mine is not None else "refused by both"] += 1
        return mine

    def test_order_gaps_and_sharing(self):
        u16 = TYPES["u16"]
        raw, first = pack(range(64), 2), b"\x80\0\0\x80\0\0\0\0" + b"abcd"
        values = bytes(14) + b"ab" + bytes(46) + b"cd" + bytes(64)
        chunks = [(0, first), (1, raw), (2, b"xy"), 1, (2, b""), 0]
        for alignment in range(4, 13):
            npy = self.assert_same(handmade(u16, decode_frame.ZVC, 64, 6 * 64, chunks, alignment))
            self.assertEqual(npy[-6 * 128 :], values + raw + b"xy" * 64 + raw + bytes(128) + values)
        for alignment in (3, 13):
            self.assertIsNone(self.assert_same(handmade(u16, decode_frame.ZVC, 64, 6 * 64, chunks, alignment)))

    def test_chunks_of_the_page(self):
        f32, u16, u32 = TYPES["f32"], TYPES["u16"], TYPES["u32"]
        ones = [1, -2, 1.5, 1.25] + [1] * 27 + [0]
        zeros = [1 << 31] * 64
        zeros[3], zeros[5], zeros[40], zeros[60] = 0x3F812345, 0, 0, 0x40765432
        texture = [i if i % 32 in (3, 4, 5) and i != 67 else 0 for i in range(96)]
        for text, dtype, codec, values in (
            ("32 f32 values", f32, (decode_frame.HUFFMAN,), [bits_of(x, f32) for x in ones]),
            ("64 u16 values, the first", u16, (decode_frame.ZVC, decode_frame.HUFFMAN),
             [0, 0x1234, 0, 0, 0x5678] + [0] * 26 + [0x9ABC] + [0] * 32),
            ("64 u16 values, 40 times", u16, (decode_frame.RLE,), [5] * 40 + [9] * 24),
            ("96 u32 values", u32, (decode_frame.RLE,), texture),
            ("64 f32 values", f32, (decode_frame.RLE,), zeros),
        ):  # fmt: skip
            with self.subTest(text):
                chunk, data = chunk_of_page(text), pack(values, dtype.width)
                count, stages, mode = len(values), codec[1:], int(codec[0] == decode_frame.ZVC)
                npy = self.assert_same(handmade(dtype, codec[0], count, count, [(0, chunk)], mode=mode, stages=stages))
                self.assertEqual(npy and npy[-len(data) :], data)
                frame, _ = self.encode("+".join({1: "zvc", 2: "rle", 10: "huffman"}[i] for i in codec), dtype, values)
                start, size = payloads_of(frame)[0]
                self.assertEqual(frame[start : start + size].hex(" ", 4), chunk.hex(" ", 4))

    def test_heads_of_packed_masks(self):
        """Each kind and rule, with as many values as it needs."""
        packed = b"\2\0\0\0" b"\2" b"\1" b"\7"  # marks 40, 41, 42
        plain = pack([0, 0x700], 4)
        for head in range(128):
            kind, rule, is_packed = head & 3, head >> 2 & 7, head >> 5 & 1
            distance = {2: 1, 3: 2, 4: 16, 5: 32}.get(rule, 64) if is_packed else 64
            mask = [False] * 64
            for i in range(64):
                mask[i] = (i in (40, 41, 42)) ^ (i >= distance and mask[i - distance]) ^ (is_packed == rule == 1)
            dropped = 64 - sum(mask)
            signs = bytes(ceil_div(dropped, 8) - 1) + b"\1" if kind == 2 else b""
            side = pack([head], 4) + (packed if is_packed else plain) + signs
            side += bytes(-len(side) % 8)
            kept = list(range(1, sum(mask) + 1))
            following, values = iter(kept), []
            for i, one in enumerate(mask):
                place = i - sum(mask[:i])
                negative = kind == 3 or (kind == 2 and place == 8 * len(signs) - 8)
                values.append(next(following) if one else (values or [0])[-1] if kind == 1 else negative << 63)
            allowed = head < 64 and rule < (6 if is_packed else 1)
            for first, rest in ((decode_frame.RLE, ()), (decode_frame.ZVC, (decode_frame.HUFFMAN,))):
                chunk = side + pack(kept, 8)
                if rest:
                    padding, record = bytes(-len(side) % 4), pack([len(kept) << 16 | len(side)], 4)
                    chunk = pack(kept, 8) + side + padding + record
                npy = self.assert_same(handmade(TYPES["u64"], first, 64, 64, [(0, chunk)], mode=len(rest), stages=rest))
                expected = pack(values, 8) if allowed and (kind != 1 or not rest) else None
                self.assertEqual(npy and npy[-512:], expected, (head, first))

    def test_parts_of_packed_masks(self):
        """Each with what it should have, and with what nobody writes."""
        u16, kept = TYPES["u16"], b"abcd"
        values = b"ab" + bytes(14) + b"cd" + bytes(110)
        for parts, sound in (
            ("01000000 03 00 00 00", True),
            ("01000000 03 00 00 01", False),  # padding behind the mask
            ("05000000 03 00 00 00", False),  # a word past the end
            ("03000000 03 00 00 00", False),  # without bytes
            ("01000000 13 00 00 00", False),  # a byte of a word that is not there
            ("01000000 03 04 00 00", False),  # more of a byte that is not there
            ("01000000 03 00 40 00", False),  # bits of a byte that is not there
            ("01000000 01 01 03 00", True),  # both in one byte
            ("01000000 01 01 01 00", False),  # one, as if it were more
            ("01000000 01 01 00 00", False),  # none
        ):
            chunk = b"\x20\0\0\0" + bytes.fromhex(parts) + kept
            npy = self.assert_same(handmade(u16, decode_frame.RLE, 64, 64, [(0, chunk)]))
            expected = kept + bytes(124) if parts[9:11] == "01" else values
            self.assertEqual(npy and npy[-128:], expected if sound else None, parts)
        for count, mark, sound in ((40, "00", True), (33, "00", True), (40, "07", True), (39, "07", False)):
            chunk = b"\x20\0\0\0" + bytes.fromhex("02000000 01 00" + mark)  # of value 32 or 39
            npy = self.assert_same(handmade(TYPES["u8"], decode_frame.RLE, 64, count, [(0, chunk + b"x")]))
            place = 32 + int(mark)
            self.assertEqual(npy and npy[-count:], bytes(place) + b"x" + bytes(count - place - 1) if sound else None)

    def test_padding_in_chains(self):
        side = b"\x20\0\0\0" b"\1\0\0\0" b"\3" b"\0" b"\0"  # of rle: values 0 and 8
        for padding in (b"\0", b"\1", b"\x80", b"", b"\0\0\0\0\0"):
            chunk = b"ab" + side + padding + pack([2 << 16 | 2 << 14 | len(side)], 4)
            stages = (decode_frame.RLE, decode_frame.BITPACK)
            npy = self.assert_same(handmade(TYPES["u8"], decode_frame.DELTA, 64, 64, [(0, chunk)], stages=stages))
            values = b"a" + bytes(7) + b"b" + bytes(55)
            self.assertEqual(npy and npy[-64:], values if padding == b"\0" else None)

    def test_least_bound_of_quantize(self):
        for exponent, sound in ((-125, True), (-126, False)):
            bound = (1023 + exponent) << 52
            npy = self.assert_same(handmade(TYPES["f32"], decode_frame.QUANTIZE, 64, 64, [(0, bytes(8))], bound=bound))
            self.assertEqual(npy and npy[-256:], bytes(256) if sound else None)

    def test_predictor_of_bitpack(self):
        first = b"\x02\0\0\0" b"\1\0\0\0" b"\xc1\0\0\0" b"\xfe\xff\xff\xff" b"\1\0\0\0"  # -1, -2, -3, ...
        for mode in range(4):
            npy = self.assert_same(handmade(TYPES["i16"], decode_frame.BITPACK, 32, 32, [(0, first)], mode=mode))
            values = struct.pack("<32h", *range(1, -31, -1))
            self.assertEqual(npy and npy[-64:], values if mode < 2 else None)

    def test_forms_of_delta(self):
        """Any of the three that there are, in the record of zvc; none in that of quantize."""
        f32, rng = TYPES["f32"], random.Random(8)
        options = ("--bound", "absolute", "--error-bound", "0.01", "--no-checksums", "--chunk-values", "640")
        for pattern in (smooth, normal, sparse):
            frame, _ = self.encode("quantize+delta+zvc+huffman", f32, pattern(rng, f32, 640), *options)
            ((start, size),) = payloads_of(without_metadata(frame))
            for record, form in itertools.product((-4, -8), range(4)):
                changed = bytearray(without_metadata(frame))
                at = start + size + record + 1
                changed[at] = changed[at] & 0x3F | form << 6
                accepted = self.assert_same(bytes(changed)) is not None
                self.assertEqual(accepted, form < 3 if record == -4 else form == 0, (pattern, record, form))

    def test_forms_and_lengths_of_rows(self):
        """Either form, and any length but 0, whatever the encoder took."""
        bf16, rng = TYPES["bf16"], random.Random(9)
        options = ("--row", "40", "--no-checksums", "--chunk-values", "640")
        for values in (sparse(rng, bf16, 640), sparse(rng, bf16, 40) * 16):
            frame, _ = self.encode("rows+zvc+huffman", bf16, values, *options)
            ((start, size),) = payloads_of(without_metadata(frame))
            for length, form in itertools.product((0, 1, 39, 640, 2**32 - 1), range(4)):
                changed = bytearray(without_metadata(frame))
                changed[start + size - 3] = changed[start + size - 3] & 0x3F | form << 6
                header = Header(changed)
                stages = bytearray(header.stages)
                struct.pack_into("<I", stages, 4, length)
                header.stages = bytes(stages)
                header.put(changed)
                accepted = self.assert_same(bytes(changed)) is not None
                self.assertEqual(accepted, form < 2 and length > 0, (length, form))

    def test_widths_and_codes_that_nobody_writes(self):
        rng = random.Random(7)
        shapes = [form << 5 | field for form in range(8) for field in (0, 15, 16, 17, 18, 23, 24, 25, 30, 31)]
        for dtype, mode, shape in itertools.product(TYPES.values(), (0, 2), shapes):
            if dtype.mantissa:
                form, sparse, unit = shape >> 6, shape >> 5 & 1, 2 if dtype.width == 8 else 1
                bits = ((shape & 31) + (form < 2)) * unit * (31 if form == 3 else 32) + (17 if form > 1 else 0)
                masks, payload = b"\xff" * 4 * sparse, rng.randbytes(4 * ceil_div(bits, 32))
                side = bytes(4 if dtype.width == 2 else 0)
                chunk = b"\x11\x11\0\0" b"\1\0\0\0" + bytes((shape, 0, 0, 0)) + masks + payload + side
                chunks = [(0, chunk)]
                self.assert_same(handmade(dtype, decode_frame.QUANTIZE, 96, 96, chunks, mode=mode, bound=1023 << 52))

    def test_streams_of_zlib(self):
        """Which are no chunks, whatever index stands behind them."""
        rng = random.Random(6)
        data = bytes(rng.choice(b"aaaaaaabbbcdef") for _ in range(500)) + bytes(140)
        for strategy in (zlib.Z_RLE, zlib.Z_HUFFMAN_ONLY, zlib.Z_FIXED, zlib.Z_DEFAULT_STRATEGY):
            deflater = zlib.compressobj(9, zlib.DEFLATED, -15, 9, strategy)
            stream = deflater.compress(data) + deflater.flush()
            entry = (len(data) // 32 - 1 | (8 * len(stream) - 300) % 8192 << 11).to_bytes(3, "little")
            index = bytes([32] * 8) + entry + bytes(-(len(stream) + 11) % 4) + struct.pack("<HBB", len(stream), 0, 1)
            frame = handmade(TYPES["u8"], decode_frame.DEFLATE, len(data), len(data), [(0, stream + index)])
            with self.subTest(strategy=strategy):
                self.assertIsNone(self.assert_same(frame))


# What can happen to a frame. Each takes it as a bytearray and returns what it has become.


def any_byte(rng, frame):
    frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
    return frame


def cut(rng, frame):
    return frame[: rng.randrange(len(frame))] if rng.random() < 0.8 else frame + bytes(rng.randrange(1, 100))


def payload(rng, frame):
    """A byte or two of a payload, often near its ends, where its structure is."""
    places = payloads_of(frame)
    for _ in range(rng.choice((1, 1, 2)) if places else 0):
        start, size = rng.choice(places)
        at = rng.choice((rng.randrange(size), rng.randrange(min(size, 12)), size - 1 - rng.randrange(min(size, 12))))
        frame[start + at] = rng.choice((frame[start + at] ^ 1 << rng.randrange(8), rng.randrange(256), 0, 255))
    return frame


def directory(rng, frame):
    header = Header(frame)
    if header.chunks:
        at = header.directory + 8 * rng.randrange(header.chunks)
        (entry,) = unpack(frame[at : at + 8], 8)
        entry ^= rng.choice((1 << rng.randrange(64), 1 << 60, 2 << 60, rng.randrange(1, 64) << 40, rng.randrange(1, 9)))
        frame[at : at + 8] = pack([entry], 8)
    header.put(frame)
    return frame


def header(rng, frame):
    h = Header(frame)
    name = rng.choice(("version", "type", "alignment", "flags", "chunk_values", "values", "bytes", "metadata_bytes",
                       "base_digest"))  # fmt: skip
    most = {"type": 255, "alignment": 255, "version": 2**16 - 1, "flags": 2**32 - 1, "chunk_values": 2**32 - 1}
    most = most.get(name, 2**64 - 1)
    old = getattr(h, name)
    flipped, anything = old ^ 1 << rng.randrange(64), rng.randrange(most)
    changed = rng.choice((old + 1, old - 1, flipped, old + 32, old * 2, 0, most, most >> 3, anything))
    setattr(h, name, changed % (most + 1))
    h.put(frame)
    return frame


def stages(rng, frame):
    h = Header(frame)
    changed = bytearray(h.stages)
    at = rng.choice((rng.randrange(64), rng.randrange(16)))
    changed[at] = rng.choice((changed[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
    h.stages = bytes(changed)
    h.put(frame)
    return frame


class Damaged(FrameTest):
    # The program refuses what it was not built for, and metadata that is not its own; the frame may be as specified.
    OTHER_REASONS = re.compile("another element type|another codec|metadata is")

    @staticmethod
    def has_other_masks(codec, frame):
        """Whether zvc has packed masks alone, or others in a chain: as specified, but the program has no such codec."""
        stages = struct.iter_unpack("<HBBIQ", Header(frame).stages)
        modes = [mode for number, _, mode, _, _ in stages if number == decode_frame.ZVC]
        return modes not in ([], [0 if codec == "zvc" else decode_frame.PACKED])

    def frames(self):
        """Of every codec, with checksums and without; small, for there are many damaged ones of each."""
        rng = random.Random(4)
        for codec, types in self.codecs().items():
            for i in range(len(BOUNDS)):
                options = ["--chunk-values", rng.choice(("64", "160"))] + ["--no-checksums"] * (i % 3 != 0)
                dtype, pattern = rng.choice(types), rng.choice((mixed, sparse, clustered, smooth, small, special))
                frame, _ = self.encode(codec, dtype, pattern(rng, dtype, 400), *options, *parameters(codec, i))
                yield codec, without_metadata(frame)

    def test_both_refuse_the_same(self):
        rng, cases = random.Random(5), []
        frames = list(self.frames())
        for i in range(DAMAGED_FRAMES):
            codec, frame = frames[i % len(frames)]
            damage = rng.choice((any_byte, cut, payload, payload, payload, payload, directory, header, stages))
            cases.append((codec, damage.__name__, bytes(damage(rng, bytearray(frame)))))
        verdicts = self.pool.map(self.by_both, [damaged for _, _, damaged in cases])
        for (codec, damage, damaged), ((restored, reason), (mine, my_reason)) in zip(cases, verdicts):
            with self.subTest(codec=codec, damage=damage, tuck=reason, python=my_reason, frame=damaged.hex()):
                refused = restored is None and mine is not None
                if refused and (self.OTHER_REASONS.search(reason) or self.has_other_masks(codec, damaged)):
                    self.counts["that only the program is not for"] += 1
                    continue
                self.assertTrue(mine == restored, "they disagree")
                self.counts["accepted by both" if mine is not None else "refused by both"] += 1


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        TUCK = sys.argv.pop(1)
    if not TUCK:
        sys.exit(__doc__)
    unittest.main()
