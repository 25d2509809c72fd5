"""The time an archive claims to be made at: never the clock's, so that bytes repeat."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

from makemar.errors import ArchiveError

__all__ = ["find_build_time"]

# A zip cannot say an earlier time than this, gzip no later one than 32 bits hold.
_EARLIEST = datetime(1980, 1, 1, tzinfo=timezone.utc)
_LAST_SECOND = 2**32 - 1


def find_build_time(environment: Mapping[str, str] | None = None) -> datetime:
    """Return `SOURCE_DATE_EPOCH` (seconds since 1970) in UTC, else 1980-01-01 00:00:00.

    Times that not every format can hold are moved to the nearest that each can. Raises
    ArchiveError if the variable is not a whole number.
    """
    text = (os.environ if environment is None else environment).get("SOURCE_DATE_EPOCH", "")
    if not text:
        return _EARLIEST
    try:
        seconds = int(text)
    except ValueError as error:
        raise ArchiveError(
            f"SOURCE_DATE_EPOCH={text!r} is not a number of seconds; "
            "set it as in SOURCE_DATE_EPOCH=$(git log -1 --format=%ct), or unset it"
        ) from error
    start = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return max(_EARLIEST, start + timedelta(seconds=min(max(seconds, 0), _LAST_SECOND)))
