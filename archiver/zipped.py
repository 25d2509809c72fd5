"""The `.mar` file: a zip of stored members that TorchServe can stream."""

from __future__ import annotations

import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from makemar.archiver.copying import CHUNK, Progress, open_member
from makemar.archiver.draft import Seal, open_draft
from makemar.archiver.member import Member
from makemar.archiver.record import RecordLine
from makemar.archiver.sink import Sink

__all__ = ["open_zip"]

_MODE = (stat.S_IFREG | 0o644) << 16
_UNIX = 3


@contextmanager
def open_zip(
    target: Path, *, force: bool, time: datetime, seal: Seal | None = None
) -> Iterator[Sink]:
    """Open a `.mar` for writing; it is published if the block succeeds.

    TorchServe 0.12 reads the zip as a stream and answers 500 to a stored member whose size only
    follows its data, so every local header is complete: the draft can be sought.
    """
    with (
        open_draft(target, force=force, seal=seal) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
    ):

        def add(member: Member, progress: Progress | None = None) -> RecordLine:
            info = _describe(member, time)
            with open_member(member, progress) as source, archive.open(info, "w") as sink:
                shutil.copyfileobj(source, sink, CHUNK)
            return source.make_line()

        yield add


def _describe(member: Member, time: datetime) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(member.name, time.timetuple()[:6])
    info.compress_type = zipfile.ZIP_STORED
    info.create_system = _UNIX
    info.external_attr = _MODE
    # Known beforehand, so that a member over 4 GiB gets the long form of its header.
    info.file_size = member.size
    return info
