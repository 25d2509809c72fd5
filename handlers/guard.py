"""What a subclass wrote itself, made safe: `handle` for neighbours, `initialize` to fail."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Callable, TypeVar, cast

from makemar.handlers.answers import answer_batch
from makemar.handlers.errors import LoadError

__all__ = ["cleanly_failing", "guarded"]

Handle = Callable[..., Any]
Initialize = TypeVar("Initialize", bound=Callable[..., None])


def cleanly_failing(initialize: Initialize) -> Initialize:
    """Wrap an `initialize`: its RuntimeErrors and want of memory become a `LoadError`.

    TorchServe 0.12 keeps a model whose worker answered with one of these registered, without
    workers, and every retry is answered 409; after any other exception it unregisters the model.
    """

    @functools.wraps(initialize)
    def outer(self: Any, context: Any) -> None:
        try:
            initialize(self, context)
        except (RuntimeError, MemoryError) as error:
            raise LoadError(f"{type(error).__name__}: {error}") from error

    return cast(Initialize, outer)


def guarded(handle: Handle) -> Handle:
    """Wrap a `handle(self, data, context)`: if it fails, it is run again on halves of the rows.

    What it returns is sent as usual: TorchServe's rules for bodies, one element per row. Inside
    it `super().handle()` and a `handle` of another class in between run as they are.
    """

    @functools.wraps(handle)
    def outer(self: Any, data: Sequence[Mapping[str, object]], context: Any) -> Any:
        if self.inside_handle:
            return handle(self, data, context)
        self.inside_handle = True
        self.context = context
        try:
            return answer_batch(
                self, data, context, whole=lambda rows: handle(self, rows, self.context)
            )
        finally:
            self.inside_handle = False

    return outer
