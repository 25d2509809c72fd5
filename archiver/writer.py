"""A plan becomes an archive, or nothing at all."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from makemar.archiver.archive_format import ArchiveFormat
from makemar.archiver.copying import CHUNK, Progress
from makemar.archiver.directory import open_directory
from makemar.archiver.draft import Seal
from makemar.archiver.member import Member
from makemar.archiver.plan import ArchivePlan
from makemar.archiver.record import make_record_member
from makemar.archiver.sink import Sink
from makemar.archiver.tarball import open_tarball
from makemar.archiver.zipped import open_zip
from makemar.errors import ArchiveError

__all__ = ["WrittenArchive", "write_and_hash", "write_archive"]


@dataclass(frozen=True, kw_only=True)
class WrittenArchive:
    """An archive as it was published: its size in bytes and its SHA-256 in hexadecimal.

    Of a directory the size is that of all its files, the digest that of `MAR-INF/RECORD`, which
    holds the digests of the others.
    """

    path: Path
    size: int
    sha256: str


def write_archive(
    plan: ArchivePlan,
    target: Path,
    *,
    archive_format: ArchiveFormat = ArchiveFormat.MAR,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write a plan to `target`, in one pass, and return `target`.

    Members follow in the plan's order, RECORD last: it holds the hashes of all the others. Equal
    plans over equal files give equal bytes. The target is there as a
    whole or not at all. `progress` is told the bytes copied since it was last called; in the end
    they are the plan's `size`.

    Raises ArchiveError if the plan has errors (they are its `findings`), if TorchServe would not
    read the target's name as that format, or a file cannot be read or written;
    ArchiveExistsError if the target exists and `force` is not set.
    """
    _write(plan, target, archive_format, force, progress)
    return target


def write_and_hash(
    plan: ArchivePlan,
    target: Path,
    *,
    archive_format: ArchiveFormat = ArchiveFormat.MAR,
    force: bool = False,
    progress: Progress | None = None,
) -> WrittenArchive:
    """Write a plan as `write_archive` does, and tell the size and SHA-256 of what was written.

    The digest is that of the bytes that got the target's name, whatever happens to that name
    later. A stored member's checksum precedes its data in a zip and is known only after it, so
    the hash cannot go along with the copy: it runs while the system brings the file to the disk.
    """
    measure = _Measure()
    record = _write(plan, target, archive_format, force, progress, measure)
    if archive_format is ArchiveFormat.DIRECTORY:
        with record.open() as stream:
            measure(stream)
        return WrittenArchive(
            path=target, size=plan.size + record.size, sha256=measure.digest.hexdigest()
        )
    return WrittenArchive(path=target, size=measure.size, sha256=measure.digest.hexdigest())


class _Measure:
    """Takes the size and the hash of a stream."""

    def __init__(self) -> None:
        self.size = 0
        self.digest = hashlib.sha256()

    def __call__(self, stream: BinaryIO) -> None:
        while chunk := stream.read(CHUNK):
            self.size += len(chunk)
            self.digest.update(chunk)


def _write(
    plan: ArchivePlan,
    target: Path,
    archive_format: ArchiveFormat,
    force: bool,
    progress: Progress | None,
    seal: Seal | None = None,
) -> Member:
    """Write the archive and return RECORD, its last member."""
    _refuse_errors(plan, target)
    archive_format.check_target(target)
    with _open_sink(plan, target, archive_format, force, seal) as add:
        record = make_record_member([add(member, progress) for member in plan.members])
        add(record)
    return record


def _refuse_errors(plan: ArchivePlan, target: Path) -> None:
    if errors := plan.errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise ArchiveError(f"not packed: {errors[0]}{more}", path=target, findings=errors)


def _open_sink(
    plan: ArchivePlan,
    target: Path,
    archive_format: ArchiveFormat,
    force: bool,
    seal: Seal | None,
) -> AbstractContextManager[Sink]:
    if archive_format is ArchiveFormat.MAR:
        return open_zip(target, force=force, time=plan.time, seal=seal)
    if archive_format is ArchiveFormat.DIRECTORY:
        return open_directory(target, force=force, time=plan.time)
    folder = plan.manifest.model_name
    return open_tarball(target, force=force, time=plan.time, folder=folder, seal=seal)
