"""Requests to samples, each on its own, in threads where that helps."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Union

from makemar.handlers.errors import BadRequestError
from makemar.handlers.failures import Failed, let_interrupt_through
from makemar.handlers.request import Request, Samples

__all__ = ["Decoding"]

Decoded = Union[Sequence[Any], Failed]


class Decoding:
    """Decode the requests of one batch after the other, keeping threads between them.

    New threads for each batch would ask the system for their memory anew: a tenth of the time of
    a photograph.
    """

    def __init__(self, *, threads: int) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    def __getstate__(self) -> Mapping[str, object]:
        """Leave the threads out of a copy: it makes its own."""
        return {"_threads": self._threads, "_pool": None}

    def each(self, decode: Callable[[Request], Any], requests: Sequence[Request]) -> list[Decoded]:
        """Return the samples of each request (a list of one where it has no `Samples`), in order.

        With more than one thread `decode` runs in several at once, so it must not change the
        handler. All are done when this returns, and what one raises reaches its own request.
        """
        if min(self._threads, len(requests)) <= 1:
            return [_decoded(decode, request) for request in requests]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "decode")
        return list(self._pool.map(functools.partial(_decoded, decode), requests))


def _decoded(decode: Callable[[Request], Any], request: Request) -> Decoded:
    try:
        samples = decode(request)
    except BaseException as error:  # noqa: BLE001
        let_interrupt_through(error)
        return Failed(error, stage="decode")
    if not isinstance(samples, Samples):
        return [samples]
    if not samples:
        return Failed(BadRequestError("the request carries an empty list of samples"))
    return samples
