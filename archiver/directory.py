"""The model directory: the members as files, for a server that reads the same disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from makemar.archiver.copying import CHUNK, Progress, open_member
from makemar.archiver.draft import hidden_sibling, refuse_existing, sync_folder, translate_errors
from makemar.archiver.member import MANIFEST_NAME, Member
from makemar.archiver.record import RecordLine
from makemar.archiver.sink import Sink
from makemar.errors import ArchiveError

__all__ = ["open_directory"]


@contextmanager
def open_directory(target: Path, *, force: bool, time: datetime) -> Iterator[Sink]:
    """Open a model directory for writing; it gets the target's name if the block succeeds.

    With `force` an existing model directory is replaced as a whole, so that no stale file stays;
    anything else under that name is left alone, with an ArchiveError. A kill leaves a hidden
    `.NAME.XXXX.tmp`, which TorchServe passes over.
    """
    refuse_existing(target, force=force)
    _refuse_foreign(target)
    draft = hidden_sibling(target)
    with translate_errors(target):
        draft.mkdir()
        try:
            yield lambda member, progress=None: _add(draft, member, time, progress)
            sync_folder(draft)
            _publish(draft, target, force=force)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        sync_folder(target.parent)


def _add(draft: Path, member: Member, time: datetime, progress: Progress | None) -> RecordLine:
    path = draft / member.name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_member(member, progress) as source, path.open("xb") as sink:
        shutil.copyfileobj(source, sink, CHUNK)
        sink.flush()
        os.fsync(sink.fileno())
    os.utime(path, (time.timestamp(), time.timestamp()))
    return source.make_line()


def _refuse_foreign(target: Path) -> None:
    """Raise ArchiveError if the target is there but is no model directory."""
    if os.path.lexists(target) and not (target / MANIFEST_NAME).is_file():
        raise ArchiveError(
            f"{target}: is there and is no model directory, so it is not replaced; "
            "move it away or choose another name",
            path=target,
        )


def _publish(draft: Path, target: Path, *, force: bool) -> None:
    refuse_existing(target, force=force)
    _refuse_foreign(target)
    if not os.path.lexists(target):
        draft.rename(target)
        return
    # A directory that is not empty cannot be renamed over, so the old one steps aside first.
    old = hidden_sibling(target)
    target.rename(old)
    try:
        draft.rename(target)
    except BaseException:
        old.rename(target)
        raise
    if old.is_symlink():
        old.unlink()
    else:
        shutil.rmtree(old)
