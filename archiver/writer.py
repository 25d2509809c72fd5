"""A plan becomes an archive, or nothing at all."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from makemar.archiver.archive_format import ArchiveFormat
from makemar.archiver.build_time import find_build_time
from makemar.archiver.copying import Progress
from makemar.archiver.directory import open_directory
from makemar.archiver.plan import ArchivePlan
from makemar.archiver.record import make_record_member
from makemar.archiver.sink import Sink
from makemar.archiver.tarball import open_tarball
from makemar.archiver.zipped import open_zip
from makemar.errors import ArchiveError

__all__ = ["write_archive"]


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
    plans over equal files give equal bytes (`SOURCE_DATE_EPOCH` counts). The target is there as a
    whole or not at all. `progress` is told the bytes copied since it was last called; in the end
    they are the plan's `size`.

    Raises ArchiveError if the plan has errors (they are its `findings`), if TorchServe would not
    read the target's name as that format, or a file cannot be read or written;
    ArchiveExistsError if the target exists and `force` is not set.
    """
    _refuse_errors(plan, target)
    archive_format.check_target(target)
    with _open_sink(plan, target, archive_format, force) as add:
        lines = [add(member, progress) for member in plan.members]
        add(make_record_member(lines))
    return target


def _refuse_errors(plan: ArchivePlan, target: Path) -> None:
    if errors := plan.errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise ArchiveError(f"not packed: {errors[0]}{more}", path=target, findings=errors)


def _open_sink(
    plan: ArchivePlan,
    target: Path,
    archive_format: ArchiveFormat,
    force: bool,
) -> AbstractContextManager[Sink]:
    time = find_build_time()
    if archive_format is ArchiveFormat.MAR:
        return open_zip(target, force=force, time=time)
    if archive_format is ArchiveFormat.DIRECTORY:
        return open_directory(target, force=force, time=time)
    folder = plan.manifest.model_name
    return open_tarball(target, force=force, time=time, folder=folder)
