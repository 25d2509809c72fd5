"""What takes members into an archive, whatever its format."""

from __future__ import annotations

from typing import Protocol

from makemar.archiver.copying import Progress
from makemar.archiver.member import Member
from makemar.archiver.record import RecordLine

__all__ = ["Sink"]


class Sink(Protocol):
    """Adds one member to the archive that is being written, and returns its line for RECORD."""

    def __call__(self, member: Member, progress: Progress | None = None, /) -> RecordLine:
        """Copy the member's contents; raises ArchiveError if its source cannot be read."""
