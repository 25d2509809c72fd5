"""The weight files inside of an archive: what loading each of them would import."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from makemar.archiver.content import Content, ContentKind
from makemar.archiver.contents import read_contents
from makemar.archiver.directory_contents import find_top
from makemar.archiver.pickles import scan_weights
from makemar.archiver.stored_names import settle_name
from makemar.errors import ArchiveError, Finding

__all__ = ["scan_stored_weights"]

_TEXT = ".bin .ckpt .dat .data .joblib .model .npy .npz .pickle .pkl .pt .pt2 .pth .sav .th"
_ENDINGS = frozenset(_TEXT.split())


def scan_stored_weights(path: Path) -> Iterator[Finding]:
    """Yield what `scan_weights` finds in the weight files of an archive that is whole.

    A weight file in a `.mar` or a `.tar.gz` has a place in the folder for temporary files while it
    is looked into, for a zip in a zip cannot be read from its start. Raises ArchiveError if there
    is no room for it.
    """
    top = find_top(path) if path.is_dir() else None
    for content in read_contents(path):
        if isinstance(content, Content) and _is_weights(content):
            name = settle_name(content.name)
            if top is not None:
                yield from scan_weights(top / content.name, name=name, path=path)
            else:
                yield from _scan(content.chunks, name, path)


def _is_weights(content: Content) -> bool:
    suffixes = {suffix.lower() for suffix in PurePosixPath(content.name).suffixes}
    return content.kind is ContentKind.FILE and bool(suffixes & _ENDINGS)


def _scan(chunks: Iterable[bytes], name: str, path: Path) -> tuple[Finding, ...]:
    try:
        with tempfile.TemporaryFile() as copy:
            for chunk in chunks:
                copy.write(chunk)
            copy.seek(0)
            return scan_weights(copy, name=name, path=path)
    except OSError as error:
        raise ArchiveError(
            f"{path}: no room to look into {name!r}: {error.strerror or error}; set TMPDIR to a "
            "larger place",
            path=path,
        ) from error
