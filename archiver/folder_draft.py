"""A folder that gets its name only when it is whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from makemar.archiver.draft import hidden_sibling, refuse_existing, translate_errors
from makemar.archiver.member import MANIFEST_NAME
from makemar.errors import ArchiveError

__all__ = ["open_folder_draft"]


@contextmanager
def open_folder_draft(target: Path, *, force: bool) -> Iterator[Path]:
    """Make an empty, hidden folder beside the target; it gets the target's name at the end.

    If the block fails or is interrupted nothing is left and the target is as it was; a kill leaves
    a hidden `.NAME.XXXX.tmp`. With `force` a model directory that is there is replaced as a whole;
    anything else raises ArchiveError, and without `force` ArchiveExistsError.
    """
    _refuse(target, force=force)
    draft = hidden_sibling(target)
    with translate_errors(target):
        draft.mkdir()
        try:
            yield draft
            _refuse(target, force=force)
            _publish(draft, target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def _refuse(target: Path, *, force: bool) -> None:
    refuse_existing(target, force=force)
    if not os.path.lexists(target):
        return
    if target.is_symlink() or not (target / MANIFEST_NAME).is_file():
        raise ArchiveError(
            f"{target}: is there and is no model directory, so it is not replaced; "
            "move it away or choose another name",
            path=target,
        )


def _publish(draft: Path, target: Path) -> None:
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
    shutil.rmtree(old)
