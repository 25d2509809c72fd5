"""A client's own words in a message: enough of them to be found again, never all."""

from __future__ import annotations

import heapq
import reprlib
from collections.abc import Collection

__all__ = ["list_names", "quote"]

_LONGEST = 100
_MOST_NAMES = 5
# As repr() writes it, but only the ends of a long text and the first of many items: to write all
# of a large request down would take longer than to answer it.
_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = _LONGEST
_short.maxlist = _short.maxtuple = 8
_short.maxlevel = 2


def quote(value: object) -> str:
    """Return a value as Python would write it, cut to a hundred characters."""
    return _cut(_short.repr(value))


def list_names(names: Collection[object]) -> str:
    """Return the first names in order, at most 5 of at most 100 characters, and how many more."""
    shown = [_cut(name) for name in heapq.nsmallest(_MOST_NAMES, map(str, names))]
    if len(names) > _MOST_NAMES:
        shown.append(f"… ({len(names) - _MOST_NAMES} more)")
    return ", ".join(shown) or "none"


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else name[:_LONGEST] + "…"
