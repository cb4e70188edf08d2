"""Builds the package, as scikit-build-core does. A source archive also gets what the build takes from the repository:
the folder `root` of the archive stands for it."""

import io
import tarfile
from pathlib import Path

from scikit_build_core import build as _build
from scikit_build_core.build import *  # noqa: F403

_HERE = Path(__file__).resolve().parent
_NEEDED = ("LICENSE", "cmake/TuckDependencies.cmake", "include", "examples/support", "examples/tuck", "test/cudasim")


def _needed_files(root):
    for name in _NEEDED:
        for path in sorted([root / name, *(root / name).rglob("*")]):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def build_sdist(sdist_directory, config_settings=None):
    made = _build.build_sdist(sdist_directory, config_settings)
    if (_HERE / "root").exists():  # this is an unpacked archive
        return made
    archive, root = Path(sdist_directory, made), _HERE.parents[1]
    with tarfile.open(archive) as old:
        members = [(member, old.extractfile(member) if member.isfile() else None) for member in old.getmembers()]
        members = [(member, content and content.read()) for member, content in members]
    time = max(member.mtime for member, _ in members)
    # The version's file is in `root`, too.
    members = [(member, content.replace(b'"../../', b'"root/') if member.name.endswith("/pyproject.toml") else content)
               for member, content in members]
    for path in _needed_files(root):
        content = path.read_bytes()
        member = tarfile.TarInfo("/".join((made[: -len(".tar.gz")], "root", path.relative_to(root).as_posix())))
        member.size, member.mode, member.mtime = len(content), 0o644, time
        members.append((member, content))
    with tarfile.open(archive, "w:gz", format=tarfile.PAX_FORMAT) as new:
        for member, content in members:
            member.size = len(content or b"")
            new.addfile(member, None if content is None else io.BytesIO(content))
    return made
