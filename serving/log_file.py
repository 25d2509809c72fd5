"""A log that a server is still writing, read from a place on."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

__all__ = ["LogFile", "LogReader"]


class LogReader(Protocol):
    """Something that has a server's log, wherever that is."""

    def mark(self) -> int:
        """Return the place where the log ends now."""

    def read_on(self, mark: int) -> tuple[str, int]:
        """Return the whole lines that were written after a place, and the place after them."""


class LogFile:
    """A log on this machine; one that does not exist yet is empty."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> int:
        """Return the size in bytes."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def since(self, mark: int) -> str:
        """Return the text from that byte on, or all of it if the log was rotated meanwhile."""
        return self._read(mark)[0].decode("utf-8", errors="replace")

    def read_on(self, mark: int) -> tuple[str, int]:
        """Return the whole lines from that byte on, and the byte after them.

        A line that is still being written is left for the next time; of a log that was rotated
        meanwhile all lines are returned.
        """
        found, start = self._read(mark)
        whole = found[: found.rfind(b"\n") + 1]
        return whole.decode("utf-8", errors="replace"), start + len(whole)

    def _read(self, mark: int) -> tuple[bytes, int]:
        """Read what there is from a byte on, or from the first if there are not so many."""
        try:
            with self.path.open("rb") as log:
                start = log.seek(mark if mark <= self.mark() else 0)
                return log.read(), start
        except OSError:
            return b"", 0
