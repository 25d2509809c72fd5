"""A `handle` that a subclass wrote itself, made safe for the neighbours of a bad request."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from makemar.handlers.answers import answer_batch

__all__ = ["guarded"]

Handle = Callable[..., Any]


def guarded(handle: Handle) -> Handle:
    """Wrap a `handle(self, data, context)`: if it fails, it is run again on halves of the rows.

    What it returns is sent as usual: TorchServe's rules for bodies, one element per row. Inside
    it `super().handle()` and a `handle` of another class in between run as they are.
    """

    @functools.wraps(handle)
    def outer(self: Any, data: Sequence[Mapping[str, object]], context: Any) -> Any:
        if getattr(self, "_inside_handle", False):
            return handle(self, data, context)
        self._inside_handle = True
        self.context = context
        try:
            return answer_batch(
                self, data, context, whole=lambda rows: handle(self, rows, self.context)
            )
        finally:
            self._inside_handle = False

    return outer
