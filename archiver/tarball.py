"""The `.tar.gz` file: one folder named like the model, gzipped without a time of its own."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from makemar.archiver.copying import Progress, open_member
from makemar.archiver.draft import open_draft
from makemar.archiver.member import Member
from makemar.archiver.record import RecordLine
from makemar.archiver.sink import Sink

__all__ = ["open_tarball"]

_LEVEL = 6


@contextmanager
def open_tarball(target: Path, *, force: bool, time: datetime, folder: str) -> Iterator[Sink]:
    """Open a `.tar.gz` for writing; it is published if the block succeeds.

    TorchServe 0.12 drops the first path component of every entry, whatever it is, so all members
    lie in `folder`. The bytes depend on the version of zlib, as with every gzip.
    """
    seconds = int(time.timestamp())
    with open_draft(target, force=force) as stream:
        with (
            # An empty name and a fixed time: gzip would write the draft's and the clock's.
            gzip.GzipFile("", "wb", _LEVEL, stream, mtime=seconds) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):

            def add(member: Member, progress: Progress | None) -> RecordLine:
                info = tarfile.TarInfo(f"{folder}/{member.name}")
                info.size, info.mtime, info.mode = member.size, seconds, 0o644
                with open_member(member, progress) as source:
                    archive.addfile(info, source)
                return source.make_line()

            sink = Sink(add)
            yield sink
        sink.size = stream.seek(0, io.SEEK_END)
