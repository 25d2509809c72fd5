"""The folder that a worker runs its model in."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

from makemar.archiver import Archive, ArchiveFormat
from makemar.archiver.container import translate_damage, walk_archive
from makemar.errors import ArchiveError, ServingError

__all__ = ["place_model"]

_CHUNK = 1 << 20


def place_model(archive: Archive, folder: Path) -> Path:
    """Return the folder of an archive's files: a directory's own, or `folder`, unpacked into.

    Raises ArchiveError for a name that leads out of the folder, or a damaged archive, and
    ServingError if the folder cannot be written.
    """
    path = archive.path
    if archive.archive_format is ArchiveFormat.DIRECTORY:
        children = list(path.iterdir())
        # TorchServe 0.12 steps into a directory that holds nothing but another one.
        inside = children[0] if len(children) == 1 and children[0].is_dir() else path
        return inside.resolve()
    with translate_damage(path):
        for member, open_it in walk_archive(path):
            target = folder / _safe(member.name, path)
            with open_it() as contents:
                try:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("wb") as file:
                        shutil.copyfileobj(contents, file, _CHUNK)
                except OSError as error:
                    raise ServingError(
                        f"{path}: cannot be unpacked to {folder}: {error.strerror or error}; set "
                        "TMPDIR to a folder with room for it"
                    ) from error
    return folder.resolve()


def _safe(name: str, path: Path) -> PurePosixPath:
    """Return a member's name as a relative path; TorchServe 0.12 puts `/x` inside too."""
    relative = PurePosixPath(name.lstrip("/"))
    if ".." in relative.parts or not relative.parts:
        raise ArchiveError(
            f"{path}: the member {name!r} leads out of the archive; pack it again", path=path
        )
    return relative
