"""What TorchServe makes of a model directory: it is linked, so everything in it is as it lies."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from makemar.archiver.content import Content, ContentKind
from makemar.archiver.copying import CHUNK
from makemar.archiver.fault import make_error, make_warning
from makemar.errors import Finding

__all__ = ["find_top", "read_directory"]

_CACHE = "__pycache__"


def find_top(path: Path) -> Path:
    """Return the folder that TorchServe uses: the only thing in `path`, if that is a folder."""
    children = list(path.iterdir())
    return children[0] if len(children) == 1 and children[0].is_dir() else path


def read_directory(path: Path) -> Iterator[Content | Finding]:
    """Yield the files of a model directory, links followed, compiled Python left out.

    No pipe and no device is opened. Raises OSError if a folder cannot be read.
    """
    top = find_top(path)
    yield from _walk(top, "", top.resolve(), frozenset(), path)


def _walk(
    folder: Path, prefix: str, top: Path, above: frozenset[Path], path: Path
) -> Iterator[Content | Finding]:
    real = folder.resolve()
    if real in above:
        yield make_warning("link-loop", f"{prefix!r} leads back to where it lies", path)
        return
    for child in sorted(folder.iterdir()):
        name = prefix + child.name
        if child.is_symlink():
            yield from _check_link(child, name, top, path)
        try:
            mode = child.stat().st_mode
        except OSError:
            continue  # a broken link: said above
        if stat.S_ISDIR(mode) and child.name != _CACHE:
            yield Content(name=f"{name}/", kind=ContentKind.FOLDER)
            yield from _walk(child, f"{name}/", top, above | {real}, path)
        elif stat.S_ISREG(mode):
            yield from _offer(child, name, path)
        elif not stat.S_ISDIR(mode):
            yield make_warning(
                "special-file", f"{name!r} is a pipe, a device or a socket", path, fix="remove it"
            )


def _check_link(link: Path, name: str, top: Path, path: Path) -> Iterator[Finding]:
    target = link.resolve()
    if not target.exists():
        yield make_warning(
            "broken-link", f"{name!r} is a link to nothing", path, fix="remove it or mend it"
        )
    elif not target.is_relative_to(top):
        yield make_warning(
            "outside-link",
            f"{name!r} is a link to {target}, which has to stay where it is",
            path,
            fix="put a copy in its place",
        )


def _offer(file: Path, name: str, path: Path) -> Iterator[Content | Finding]:
    if not os.access(file, os.R_OK):
        yield make_error("unreadable-member", f"{name!r} cannot be read", path, fix="chmod +r it")
        return
    yield Content(name=name, chunks=_Chunks(file))


class _Chunks:
    """A file's bytes, opened when they are asked for."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        with self._file.open("rb") as stream:
            yield from iter(partial(stream.read, CHUNK), b"")
