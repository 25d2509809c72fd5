"""One thing in an archive that somebody made, as TorchServe comes upon it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Content", "ContentKind"]


class ContentKind(enum.Enum):
    """What an archive, or a folder, can hold; SPECIAL are pipes, devices and sockets."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    SPECIAL = "special"


@dataclass(frozen=True, kw_only=True)
class Content:
    """A name, as the archive has it and nobody has checked it, and what is under it.

    Of a tar the first component of the name is gone, as TorchServe drops it. `chunks` gives a
    file's bytes once, before the next content is asked for.
    """

    name: str
    kind: ContentKind = ContentKind.FILE
    chunks: Iterable[bytes] = ()
