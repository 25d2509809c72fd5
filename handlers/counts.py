"""As many results as samples: what every place insists on that gives clients their own answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from makemar.handlers.errors import ModelError

__all__ = ["checked"]


def checked(results: Any, count: int, what: str = "postprocess") -> Sequence[object]:
    """Return `results` if it is a list of one for each of `count` samples.

    One too many or too few would shift answers to other clients. Raises `ModelError` that says
    `what` gave them, and how many.
    """
    if type(results) is list and len(results) == count:
        return results
    if isinstance(results, (list, tuple)) and len(listed := list(results)) == count:
        return listed
    got = f"{len(results)} results" if hasattr(results, "__len__") else type(results).__name__
    raise ModelError(f"{what} gave {got} for {count} samples; return a list of one each")
