"""The folder that a worker runs its model in."""

from __future__ import annotations

from pathlib import Path

from makemar.archiver import Archive, ArchiveFormat, unpack_archive

__all__ = ["place_model"]


def place_model(archive: Archive, folder: Path) -> Path:
    """Return the folder of an archive's files: a directory's own, or `folder`, unpacked into.

    Raises ArchiveError for what cannot be unpacked: damage, names that lead outside, a full disk.
    """
    path = archive.path
    if archive.archive_format is not ArchiveFormat.DIRECTORY:
        return unpack_archive(path, folder).resolve()
    children = list(path.iterdir())
    # TorchServe 0.12 steps into a directory that holds nothing but another one.
    inside = children[0] if len(children) == 1 and children[0].is_dir() else path
    return inside.resolve()
