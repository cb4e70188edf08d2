# SPDX-License-Identifier: Apache-2.0
"""The commands of tuck.streams: python -m tuck publish, pull, fold, verify. Exit codes: 0 done, 1 bad input, 2 bad
usage."""

import argparse
import sys
import time
from typing import List, Optional

from .streams import Publisher, Receiver, tensors_of

__all__ = ["main"]


class _Shown:
    """Progress on a terminal, from the second second on."""

    def __init__(self, verb: str) -> None:
        self.verb, self.begin = verb, time.monotonic()
        self.last = self.begin + 0.9
        self.is_shown = False

    def __call__(self, done: int, all: int) -> None:
        now = time.monotonic()
        if not sys.stderr.isatty() or now < self.last + 0.1 or not all:
            return
        self.last, self.is_shown = now, True
        speed = done / (now - self.begin) / 1e9
        print(f"\r\x1b[K{self.verb} {100 * done // all:3} %  {speed:.2f} GB/s", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tuck")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.add_argument("--threads", type=int, default=0, help="most threads; 0, the default: one per core")
        return made

    def add_form(made: argparse.ArgumentParser) -> None:
        made.add_argument("--compression-format", choices=("tuck", "zstd"), default="tuck")
        made.add_argument("--delta-encoding", choices=("xor", "overwrite"), default="xor", help="overwrite needs zstd")
        made.add_argument("--level", type=int, default=1, help="of zstd")

    publish = command("publish", "Publish the checkpoint NEW as a version, relative to the checkpoint BASE")
    publish.add_argument("folder", metavar="FOLDER", help="of the versions")
    publish.add_argument("base", metavar="BASE", help="checkpoint of the version published before, or of version 0")
    publish.add_argument("new", metavar="NEW", help="checkpoint with tensors of the same types and shapes")
    publish.add_argument("version", metavar="VERSION", type=int)
    publish.add_argument("--base-version", type=int, help="version of BASE; default: as pull marked it, else 0")
    publish.add_argument("--full", action="store_true", help="write all tensors as an ordinary checkpoint")
    publish.add_argument("--checksum-format", help="adler32, xxh3-128 or blake3")
    add_form(publish)
    for name, text in (("pull", "Bring the checkpoint LOCAL up to a version"),
                       ("verify", "Do what pull does, but write nothing")):
        made = command(name, text)
        made.add_argument("source", metavar="SOURCE", help="folder of the versions")
        made.add_argument("local", metavar="LOCAL", help="checkpoint")
        made.add_argument("version", metavar="VERSION", type=int, nargs="?", help="default: the newest")
    fold = command("fold", "Merge the deltas from version A to version B into one, for checkpoints that lag")
    fold.add_argument("source", metavar="SOURCE", help="folder of the versions, which receives the new one")
    fold.add_argument("local", metavar="LOCAL", help="checkpoint at version A or before")
    fold.add_argument("a", metavar="A", type=int)
    fold.add_argument("b", metavar="B", type=int)
    fold.add_argument("--checksum-format", help="adler32, xxh3-128 or blake3")
    add_form(fold)
    return parser


def _run(given: argparse.Namespace, shown: _Shown) -> str:
    if given.command == "publish":
        publisher = Publisher(given.folder, given.base, version=given.base_version, level=given.level,
                              compression_format=given.compression_format, delta_encoding=given.delta_encoding,
                              checksum_format=given.checksum_format, threads=given.threads)
        publisher.publish(given.version, tensors_of(given.new), full=given.full, progress=shown)
        return f"published version {given.version}"
    receiver = Receiver(given.source, given.local, threads=given.threads)
    if given.command == "fold":
        made = receiver.fold(given.a, given.b, compression_format=given.compression_format, level=given.level,
                             delta_encoding=given.delta_encoding, checksum_format=given.checksum_format,
                             progress=shown)
        return f"wrote {made}"
    if given.command == "verify":
        return f"version {receiver.verify(given.version, progress=shown)} is right"
    return f"{given.local} is at version {receiver.pull(given.version, progress=shown)}"


def main(arguments: Optional[List[str]] = None) -> int:
    given = _parser().parse_args(arguments)
    verbs = {"publish": "publishing", "pull": "pulling", "fold": "folding", "verify": "verifying"}
    shown = _Shown(verbs[given.command])
    try:
        text = _run(given, shown)
    except (ValueError, OSError) as error:  # TuckError too
        shown.end()
        print(f"tuck: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        shown.end()
        return 130
    shown.end()
    print(text)
    return 0
