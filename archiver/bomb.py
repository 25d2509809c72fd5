"""A limit on what comes out of an archive: a small one can hold more than a disk."""

from __future__ import annotations

from pathlib import Path

from makemar.archiver.fault import stop_reading

__all__ = ["BombGuard"]

# Zeros shrink to a thousandth, so a small archive may do so; a large one is meant to fill a disk.
_SIZE, _RATIO = 1 << 30, 100


class BombGuard:
    """Counts the bytes that come out of an archive and stops when no model could be so large.

    With `max_bytes` that is the limit. Without, it is 1 GiB, or a hundred times the file's size if
    that is more; a directory has none.
    """

    def __init__(self, path: Path, max_bytes: int | None = None) -> None:
        packed = None if path.is_dir() else path.stat().st_size
        limit = None if packed is None else max(_SIZE, packed * _RATIO)
        self._limit = limit if max_bytes is None else max_bytes
        self._path = path
        self._total = 0

    def count(self, size: int) -> None:
        """Add bytes; raises IntegrityError, with a finding, above the limit."""
        self._total += size
        if self._limit is not None and self._total > self._limit:
            message = f"it unpacks to more than {self._limit:,} bytes"
            fix = "unpack it with a higher limit (--max-bytes) if that is meant"
            raise stop_reading("archive-bomb", message, self._path, fix=fix)
