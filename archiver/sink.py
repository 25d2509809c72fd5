"""What takes members into an archive, whatever its format."""

from __future__ import annotations

from collections.abc import Callable

from makemar.archiver.copying import Progress
from makemar.archiver.member import Member
from makemar.archiver.record import RecordLine

__all__ = ["Sink"]


class Sink:
    """Adds members to the archive that is being written, one after the other.

    `size` is the archive's, in bytes; it is known once the archive is complete.
    """

    def __init__(self, add: Callable[[Member, Progress | None], RecordLine]) -> None:
        self._add = add
        self.size = 0

    def __call__(self, member: Member, progress: Progress | None = None) -> RecordLine:
        """Copy a member's contents and return its line for RECORD.

        Raises ArchiveError if its source cannot be read or has changed since it was planned.
        """
        return self._add(member, progress)
