"""The three shapes an archive can have."""

from __future__ import annotations

import enum
from pathlib import Path

from makemar.errors import ArchiveError

__all__ = ["ArchiveFormat"]


class ArchiveFormat(enum.Enum):
    """A shape that TorchServe loads; `ArchiveFormat(text)` knows the names of `--archive-format`.

    "default" is MAR as well.
    TorchServe 0.12: a file named `*.mar` (in lower case) is read as a zip, every other file as a
    gzipped tar whose first path component is dropped, and a directory is linked, not copied.
    """

    MAR = "zip-store"
    TGZ = "tgz"
    DIRECTORY = "no-archive"

    @classmethod
    def _missing_(cls, value: object) -> ArchiveFormat | None:
        # torch-model-archiver deflates by default; a stored .mar is what its users get here.
        return cls.MAR if value == "default" else None

    @property
    def suffix(self) -> str:
        """Return what follows the model's name in the target's name."""
        return _SUFFIXES[self][0]

    def check_target(self, target: Path) -> None:
        """Raise ArchiveError if TorchServe would not read a target of that name as this format."""
        endings = _SUFFIXES[self]
        if self is ArchiveFormat.DIRECTORY:
            if target.name.endswith(_READ_AS_FILE):
                raise ArchiveError(
                    f"{target}: a directory named like an archive file confuses whoever loads it; "
                    "leave the ending out",
                    path=target,
                )
        elif not target.name.endswith(endings) or target.name in endings:
            raise ArchiveError(
                f"{target}: TorchServe would not read that name as {self.name.lower()}; "
                f"end it in {' or '.join(endings)}",
                path=target,
            )


_SUFFIXES: dict[ArchiveFormat, tuple[str, ...]] = {
    ArchiveFormat.MAR: (".mar",),
    ArchiveFormat.TGZ: (".tar.gz", ".tgz"),
    ArchiveFormat.DIRECTORY: ("",),
}
_READ_AS_FILE = (".mar", ".tar.gz", ".tgz")
