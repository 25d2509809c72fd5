"""An archive becomes a folder: what TorchServe would unpack, or nothing at all."""

from __future__ import annotations

import os
from pathlib import Path

from makemar.archiver.bomb import BombGuard
from makemar.archiver.container import detect_format
from makemar.archiver.content import Content, ContentKind
from makemar.archiver.contents import read_contents
from makemar.archiver.fault import stop_reading
from makemar.archiver.folder_draft import open_folder_draft
from makemar.archiver.stored_names import check_name, settle_name
from makemar.errors import Finding, IntegrityError, Severity

__all__ = ["unpack_archive"]

_FILE_MODE, _FOLDER_MODE = 0o644, 0o755
_FIX = "not unpacked; `make-mar verify` tells all that is wrong"


def unpack_archive(
    path: Path, target: Path, *, force: bool = False, max_bytes: int | None = None
) -> Path:
    """Unpack an archive into the new folder `target` and return `target`.

    Files get mode 644 and folders 755, whatever the archive says; no link and no device is made.
    The folder is there as a whole or not at all. `force` replaces a model directory that is there.
    `max_bytes` limits what may come out; without it the limit is 1 GiB or a hundred times the
    archive's size, whichever is more.

    Raises ArchiveExistsError if the target is there; IntegrityError, with its finding, if the
    archive is damaged, has a name or a link that leads out of it, has two members of one name, or
    unpacks to more than the limit; ArchiveError if something cannot be read or written.
    """
    detect_format(path)
    guard = BombGuard(path, max_bytes)
    with open_folder_draft(target, force=force) as draft:
        draft.chmod(_FOLDER_MODE)
        for found in read_contents(path):
            if isinstance(found, Finding):
                _refuse(found)
                continue
            for finding in check_name(found, path):
                _refuse(finding)
            _write(found, draft, path, guard)
    return target


def _refuse(finding: Finding) -> None:
    """Raise what verify calls an error, and for a link that leads out of a directory."""
    if finding.severity is Severity.ERROR or finding.code == "outside-link":
        raise IntegrityError(
            f"{finding.path}: {finding.message}; {_FIX}", path=finding.path, findings=(finding,)
        )


def _write(content: Content, draft: Path, path: Path, guard: BombGuard) -> None:
    place = draft / settle_name(content.name)
    if content.kind is ContentKind.FOLDER:
        _make_folder(place, draft, path)
        return
    if content.kind is not ContentKind.FILE:
        message = f"{content.name!r} is a {content.kind.value}, not a file"
        raise stop_reading("link-member", message, path, fix=_FIX)
    _make_folder(place.parent, draft, path)
    try:
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        message = f"{content.name!r} is in it twice"
        raise stop_reading("duplicate-member", message, path, fix=_FIX) from error
    with os.fdopen(descriptor, "wb") as sink:
        for chunk in content.chunks:
            guard.count(len(chunk))
            sink.write(chunk)
        os.fchmod(sink.fileno(), _FILE_MODE)


def _make_folder(place: Path, draft: Path, path: Path) -> None:
    """Make a folder below the draft with all that are above it, whatever the umask."""
    if place == draft or place.is_dir():
        return
    _make_folder(place.parent, draft, path)
    try:
        place.mkdir()
    except FileExistsError as error:
        message = f"{place.relative_to(draft).as_posix()!r} is a file and a folder"
        raise stop_reading("file-as-folder", message, path, fix=_FIX) from error
    place.chmod(_FOLDER_MODE)
