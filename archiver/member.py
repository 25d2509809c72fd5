"""One file inside an archive that is still to be written."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

__all__ = ["MANIFEST_NAME", "META_FOLDER", "RECORD_NAME", "Member", "member_order"]

META_FOLDER = "MAR-INF"
MANIFEST_NAME = f"{META_FOLDER}/MANIFEST.json"
RECORD_NAME = f"{META_FOLDER}/RECORD"


@dataclass(frozen=True, kw_only=True)
class Member:
    """A name in the archive, and the file or bytes that become its contents.

    `name` has `/` between folders. `size` is in bytes, as found when the archive was planned, and
    `modified` the time of the file's last change then, in ns since 1970, if that is known: a file
    that differs when it is read is refused. `origin` says in words which flag, key or rule brought
    the member in.
    """

    name: str
    source: Path | bytes = field(repr=False)
    size: int
    origin: str
    modified: int | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of_file(cls, name: str, path: Path, *, origin: str) -> Member:
        """Return the member that a file becomes; raises OSError if the file is not there."""
        status = path.stat()
        return cls(
            name=name,
            source=path,
            size=status.st_size,
            origin=origin,
            modified=status.st_mtime_ns,
        )

    @property
    def place(self) -> str:
        """Return in words where the contents come from."""
        return str(self.source) if isinstance(self.source, Path) else "made by makemar"

    def open(self) -> BinaryIO:
        """Open the contents for reading; raises OSError if the file cannot be opened."""
        if isinstance(self.source, Path):
            return self.source.open("rb")
        return io.BytesIO(self.source)


def member_order(name: str) -> tuple[bool, str]:
    """Return the sort key of a member's name: `MAR-INF` first, then by code point."""
    return (not name.startswith(f"{META_FOLDER}/"), name)
