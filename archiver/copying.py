"""A member's contents on their way into an archive: hashed and checked while they are read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from makemar.archiver.member import Member
from makemar.archiver.record import RecordLine, encode_digest
from makemar.errors import ArchiveError

__all__ = ["CHUNK", "MemberReader", "Progress", "open_member"]

Progress = Callable[[int], None]
CHUNK = 1 << 20


@contextmanager
def open_member(
    member: Member, progress: Progress | None = None, *, path: Path | None = None
) -> Iterator[MemberReader]:
    """Open a member's contents for one reading, from start to end.

    They are read from `path`, a link to the member's source, if there is one. Raises ArchiveError
    if the source cannot be read, or is no more what it was when the archive was planned or when
    the reading began.
    """
    try:
        source = member.open() if path is None else path.open("rb")
    except OSError as error:
        raise _unreadable(member, error) from error
    with source, ThreadPoolExecutor(max_workers=1) as pool:
        reader = MemberReader(member, source, pool, progress)
        yield reader
        reader.check_unchanged()


class MemberReader:
    """A readable stream that hashes what passes, one chunk behind.

    The hash of a chunk overlaps with whatever the caller does with it: hashing, checksums and
    writing all run outside of the interpreter lock.
    """

    def __init__(
        self,
        member: Member,
        source: BinaryIO,
        pool: ThreadPoolExecutor,
        progress: Progress | None,
    ) -> None:
        self._member = member
        self._source = source
        self._pool = pool
        self._progress = progress
        self._digest = hashlib.sha256()
        self._hashing: Future[None] | None = None
        self._left = member.size
        self._before = self._fingerprint()
        if self._before is not None and not _is_as_planned(member, *self._before):
            raise _changed(member)

    def read(self, size: int = CHUNK) -> bytes:
        """Return exactly `size` bytes, fewer only at the end; raises ArchiveError."""
        wanted = min(size if size >= 0 else self._left, self._left)
        try:
            chunk = self._source.read(wanted)
        except OSError as error:
            raise _unreadable(self._member, error) from error
        if len(chunk) != wanted:
            raise _changed(self._member)
        self._left -= wanted
        self._hash(chunk)
        if chunk and self._progress is not None:
            self._progress(wanted)
        return chunk

    def check_unchanged(self) -> None:
        """Raise ArchiveError if the file was written to while it was read."""
        if self._left or self._fingerprint() != self._before:
            raise _changed(self._member)

    def make_line(self) -> RecordLine:
        """Return RECORD's line, once everything has been read."""
        self._wait()
        digest = encode_digest(self._digest.digest())
        return RecordLine(name=self._member.name, digest=digest, size=self._member.size)

    def _hash(self, chunk: bytes) -> None:
        self._wait()
        if len(chunk) >= CHUNK:
            self._hashing = self._pool.submit(self._digest.update, chunk)
        else:
            # A thread would cost more than it saves.
            self._digest.update(chunk)

    def _wait(self) -> None:
        if self._hashing is not None:
            self._hashing.result()

    def _fingerprint(self) -> tuple[int, int] | None:
        if isinstance(self._member.source, bytes):
            return None
        status = os.fstat(self._source.fileno())
        return status.st_size, status.st_mtime_ns


def _is_as_planned(member: Member, size: int, modified: int) -> bool:
    return size == member.size and member.modified in (None, modified)


def _unreadable(member: Member, error: OSError) -> ArchiveError:
    return ArchiveError(
        f"{member.place}: cannot be read: {error.strerror or error}; "
        "make it readable or leave it out",
        path=_path(member),
    )


def _changed(member: Member) -> ArchiveError:
    return ArchiveError(
        f"{member.place}: changed while it was packed; wait for whoever writes it, and pack again",
        path=_path(member),
    )


def _path(member: Member) -> Path | None:
    return member.source if isinstance(member.source, Path) else None
