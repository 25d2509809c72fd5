"""Hints for names that are nearly right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["near_match", "same_letters"]


def near_match(word: str, known: Iterable[str], *, cutoff: float = 0.7) -> str | None:
    """Return the known name that `word` was probably meant to be, or None.

    Case, dashes and underscores do not count: `batch_size` and `batchSize` are one spelling.
    """
    names = {_letters(name): name for name in known}
    found = difflib.get_close_matches(_letters(word), names, n=1, cutoff=cutoff)
    return names[found[0]] if found else None


def same_letters(word: str, other: str) -> bool:
    """Say whether two names differ in nothing but case, dashes and underscores."""
    return _letters(word) == _letters(other)


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
