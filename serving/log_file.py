"""A log that a server is still writing, read from a place on."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

__all__ = ["LogFile", "LogReader"]


class LogReader(Protocol):
    """Something that has a server's log, wherever that is."""

    def mark(self) -> int:
        """Return the place where the log ends now."""

    def since(self, mark: int) -> str:
        """Return what was written after a place."""


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
        try:
            with self.path.open("rb") as log:
                log.seek(mark if mark <= self.mark() else 0)
                return log.read().decode("utf-8", errors="replace")
        except OSError:
            return ""
