"""Requests to samples, each on its own, in threads where that helps."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Union

from makemar.handlers.errors import BadRequestError
from makemar.handlers.failures import Failed, let_interrupt_through
from makemar.handlers.request import Request, Samples

__all__ = ["decode_each"]

Decoded = Union[Sequence[Any], Failed]


def decode_each(
    decode: Callable[[Request], Any], requests: Sequence[Request], *, threads: int
) -> list[Decoded]:
    """Return the samples of each request (a list of one where it has no `Samples`), in order.

    With more than one thread `decode` runs in several at once, so it must not change the handler.
    The threads live for this batch alone: none can be left behind waiting, and what one raises
    reaches its own request.
    """

    def one(request: Request) -> Decoded:
        try:
            decoded = decode(request)
        except BaseException as error:  # noqa: BLE001
            let_interrupt_through(error)
            return Failed(error, stage="decode")
        if not isinstance(decoded, Samples):
            return [decoded]
        if not decoded:
            return Failed(BadRequestError("the request carries an empty list of samples"))
        return decoded

    if min(threads, len(requests)) <= 1:
        return [one(request) for request in requests]
    with ThreadPoolExecutor(min(threads, len(requests)), "decode") as pool:
        return list(pool.map(one, requests))
