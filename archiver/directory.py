"""The model directory: the members as files, for a server that reads the same disk."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from makemar.archiver.copying import CHUNK, Progress, open_member
from makemar.archiver.draft import hidden_sibling, refuse_existing, sync_path, translate_errors
from makemar.archiver.linking import clone_or_link
from makemar.archiver.member import MANIFEST_NAME, Member
from makemar.archiver.record import RecordLine
from makemar.archiver.sink import Sink
from makemar.errors import ArchiveError

__all__ = ["open_directory"]

# Smaller files are copied even if links are wanted: it costs nothing, and code that is edited
# in place goes on to be what was packed.
_WORTH_LINKING = 1 << 20
# Nothing is written meanwhile, so larger pieces are passed on to be hashed, and fewer of them.
_PIECE = 4 * CHUNK
# Another build was quicker: a directory with something in it is not renamed over, and one that is
# gone cannot step aside.
_OVERTAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT)


@contextmanager
def open_directory(
    target: Path, *, force: bool, time: datetime, link: bool = False
) -> Iterator[Sink]:
    """Open a model directory for writing; it gets the target's name if the block succeeds.

    With `force` an existing model directory is replaced as a whole, so that no stale file stays;
    anything else under that name is left alone, with an ArchiveError. With `link` files over 1 MiB
    are cloned or hard links instead of copies, where the disk can do that. A kill leaves a hidden
    `.NAME.XXXX.tmp`, which TorchServe passes over.
    """
    refuse_existing(target, force=force)
    _refuse_foreign(target)
    draft = hidden_sibling(target)
    seconds = time.timestamp()

    def add(member: Member, progress: Progress | None) -> RecordLine:
        path = draft / member.name
        path.parent.mkdir(parents=True, exist_ok=True)
        line = _link(member, path, progress) if link else None
        if line is None:
            line = _copy(member, path, progress)
        # Of a hard link it would be the source's time too.
        if path.stat().st_nlink == 1:
            os.utime(path, (seconds, seconds))
        sink.size += member.size
        return line

    sink = Sink(add)
    with translate_errors(target):
        draft.mkdir()
        try:
            yield sink
            _publish(draft, target, force=force)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def _copy(member: Member, path: Path, progress: Progress | None) -> RecordLine:
    with open_member(member, progress) as source, path.open("xb") as sink:
        shutil.copyfileobj(source, sink, CHUNK)
    return source.make_line()


def _link(member: Member, path: Path, progress: Progress | None) -> RecordLine | None:
    """Link a member that is worth it, and hash what is there then; None if it has to be copied."""
    if not isinstance(member.source, Path) or member.size < _WORTH_LINKING:
        return None
    if not clone_or_link(member.source, path):
        return None
    with open_member(member, progress, path=path) as linked:
        while linked.read(_PIECE):
            pass
    return linked.make_line()


def _refuse_foreign(target: Path) -> None:
    """Raise ArchiveError if the target is there but is no model directory."""
    while os.path.lexists(target):
        before = _identify(target)
        if (target / MANIFEST_NAME).is_file():
            return
        # Of another build's archive that is just stepping aside it tells nothing.
        if before == _identify(target):
            raise ArchiveError(
                f"{target}: is there and is no model directory, so it is not replaced; "
                "move it away or choose another name",
                path=target,
            )


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _publish(draft: Path, target: Path, *, force: bool) -> None:
    """Give the draft its name, whoever else is at the same."""
    # What replaces something is on the disk before it does.
    if durable := os.path.lexists(target):
        for folder, _, files in os.walk(draft):
            for path in (*(Path(folder, file) for file in files), Path(folder)):
                sync_path(path)
    while True:
        refuse_existing(target, force=force)
        _refuse_foreign(target)
        try:
            if os.path.lexists(target):
                _replace(draft, target)
            else:
                draft.rename(target)
            break
        except OSError as error:
            if error.errno not in _OVERTAKEN or not draft.exists():
                raise
    if durable:
        sync_path(target.parent)


def _replace(draft: Path, target: Path) -> None:
    """Let the old one step aside, which comes back if the new one cannot take its place."""
    old = hidden_sibling(target)
    target.rename(old)
    try:
        draft.rename(target)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in _OVERTAKEN:
            _remove(old)
        else:
            old.rename(target)
        raise
    _remove(old)


def _remove(old: Path) -> None:
    if old.is_symlink():
        old.unlink()
    else:
        shutil.rmtree(old)
