"""A plan becomes an archive, or nothing at all."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from makemar.archiver.archive_format import ArchiveFormat
from makemar.archiver.copying import Progress
from makemar.archiver.directory import open_directory
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
    """An archive as it was published: its size in bytes, and the SHA-256 of its RECORD, in hex.

    RECORD has the digests of all other members, so its own stands for the contents, whatever the
    format. Of a directory the size is that of all its files.
    """

    path: Path
    size: int
    record_sha256: str


def write_archive(
    plan: ArchivePlan,
    target: Path,
    *,
    archive_format: ArchiveFormat = ArchiveFormat.MAR,
    compress: bool = False,
    link: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write a plan to `target`, in one pass, and return `target`.

    Members follow in the plan's order, RECORD last: it holds the hashes of all the others. Equal
    plans over equal files give equal bytes. The target is there as a
    whole or not at all. `progress` is told the bytes copied since it was last called; in the end
    they are the plan's `size`.

    `compress` deflates the members of a `.mar`, which loads more slowly. `link` makes the large
    files of a directory clones of their sources where the file system has such, else hard links,
    else copies. A hard link is the source under a second name: who edits it in place, instead of
    replacing it, changes the archive too, and `check_record` tells.

    Raises ArchiveError if the plan has errors (they are its `findings`), if TorchServe would not
    read the target's name as that format, the format has no such way to write it, or a file
    cannot be read or written; ArchiveExistsError if the target exists and `force` is not set.
    """
    write_and_hash(
        plan,
        target,
        archive_format=archive_format,
        compress=compress,
        link=link,
        force=force,
        progress=progress,
    )
    return target


def write_and_hash(
    plan: ArchivePlan,
    target: Path,
    *,
    archive_format: ArchiveFormat = ArchiveFormat.MAR,
    compress: bool = False,
    link: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> WrittenArchive:
    """Write a plan as `write_archive` does, and tell the size and the digest of its RECORD.

    Both are those of what got the target's name, whatever happens to that name later.
    """
    _refuse_errors(plan, target)
    archive_format.check_target(target)
    _refuse_option(target, archive_format, compress=compress, link=link)
    opened = _open_sink(plan, target, archive_format, compress=compress, link=link, force=force)
    with opened as sink:
        record = make_record_member([sink(member, progress) for member in plan.members])
        sink(record)
    return WrittenArchive(path=target, size=sink.size, record_sha256=_digest(record))


def _digest(record: Member) -> str:
    with record.open() as stream:
        return hashlib.sha256(stream.read()).hexdigest()


def _refuse_errors(plan: ArchivePlan, target: Path) -> None:
    if errors := plan.errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise ArchiveError(f"not packed: {errors[0]}{more}", path=target, findings=errors)


def _refuse_option(target: Path, shape: ArchiveFormat, *, compress: bool, link: bool) -> None:
    """Raise ArchiveError for a way to write that the format does not have."""
    if compress and shape is not ArchiveFormat.MAR:
        detail = "deflates the members of a .mar; a .tar.gz is compressed anyway, a directory never"
        raise ArchiveError(f"{target}: compress (--compress) {detail}; leave it out", path=target)
    if link and shape is not ArchiveFormat.DIRECTORY:
        detail = "makes a directory's files links; choose the format no-archive"
        raise ArchiveError(f"{target}: link (--link) {detail}, or leave it out", path=target)


def _open_sink(
    plan: ArchivePlan,
    target: Path,
    archive_format: ArchiveFormat,
    *,
    compress: bool,
    link: bool,
    force: bool,
) -> AbstractContextManager[Sink]:
    if archive_format is ArchiveFormat.MAR:
        return open_zip(target, force=force, time=plan.time, compress=compress)
    if archive_format is ArchiveFormat.DIRECTORY:
        return open_directory(target, force=force, time=plan.time, link=link)
    folder = plan.manifest.model_name
    return open_tarball(target, force=force, time=plan.time, folder=folder)
