"""What TorchServe would unpack from an archive of any format, in one pass over its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from makemar.archiver.archive_format import ArchiveFormat
from makemar.archiver.container import detect_format
from makemar.archiver.content import Content
from makemar.archiver.directory_contents import read_directory
from makemar.archiver.fault import stop_reading
from makemar.archiver.tar_contents import read_tarball
from makemar.archiver.zip_contents import read_zip
from makemar.errors import Finding

__all__ = ["read_contents"]

_READERS: dict[ArchiveFormat, Callable[[Path], Iterator[Content | Finding]]] = {
    ArchiveFormat.MAR: read_zip,
    ArchiveFormat.TGZ: read_tarball,
    ArchiveFormat.DIRECTORY: read_directory,
}


def read_contents(path: Path) -> Iterator[Content | Finding]:
    """Yield what TorchServe would unpack from an archive, and what is wrong with it.

    Raises ArchiveError, with a finding, where TorchServe could read no further, here and out of
    the chunks.
    """
    reader = _READERS[detect_format(path)]
    with _translate_errors(path):
        for found in reader(path):
            if isinstance(found, Content):
                yield replace(found, chunks=_read(found.chunks, path))
            else:
                yield found


def _read(chunks: Iterable[bytes], path: Path) -> Iterator[bytes]:
    with _translate_errors(path):
        yield from chunks


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = f"{error.filename} " if error.filename else ""
        message = f"{place}cannot be read: {error.strerror or error}"
        fix = "check its permissions and try again"
        raise stop_reading("unreadable-archive", message, path, fix=fix) from error
