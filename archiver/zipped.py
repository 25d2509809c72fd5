"""The `.mar` file: a zip of members that TorchServe can stream."""

from __future__ import annotations

import io
import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from makemar.archiver.copying import CHUNK, Progress, open_member
from makemar.archiver.draft import open_draft
from makemar.archiver.member import Member
from makemar.archiver.record import RecordLine
from makemar.archiver.sink import Sink

__all__ = ["open_zip", "write_zip"]

_MODE = (stat.S_IFREG | 0o644) << 16
_UNIX = 3


@contextmanager
def open_zip(
    target: Path, *, force: bool, time: datetime, compress: bool = False
) -> Iterator[Sink]:
    """Open a `.mar` for writing; it is published if the block succeeds."""
    with open_draft(target, force=force) as stream:
        with write_zip(stream, time=time, compress=compress) as sink:
            yield sink
        sink.size = stream.seek(0, io.SEEK_END)


@contextmanager
def write_zip(stream: BinaryIO, *, time: datetime, compress: bool = False) -> Iterator[Sink]:
    """Write a zip to a stream that can be sought: stored members, or deflated ones.

    TorchServe 0.12 reads the zip as a stream and answers 500 to a stored member whose size only
    follows its data, so every local header is complete. Deflated bytes depend on the version of
    zlib.
    """
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(stream, "w", method, allowZip64=True) as archive:

        def add(member: Member, progress: Progress | None) -> RecordLine:
            info = _describe(member, time, method)
            with open_member(member, progress) as source, archive.open(info, "w") as sink:
                shutil.copyfileobj(source, sink, CHUNK)
            return source.make_line()

        yield Sink(add)


def _describe(member: Member, time: datetime, method: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(member.name, time.timetuple()[:6])
    info.compress_type = method
    info.create_system = _UNIX
    info.external_attr = _MODE
    # Known beforehand, so that a member over 4 GiB gets the long form of its header.
    info.file_size = member.size
    return info
