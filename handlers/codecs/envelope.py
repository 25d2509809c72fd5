"""What a request carries, out of the protocol that it came in; and the way back."""

from __future__ import annotations

from collections.abc import Sequence

from makemar.handlers.request import Request

__all__ = ["Envelope", "open_envelope"]


class Envelope:
    """The values of one request, and how its reply has to look.

    `values` are what the client sent, one per sample, still as it came: bytes, text, numbers in
    lists, arrays. `several` tells a request that carries a list of samples, be it of one, from
    one that is a sample itself.
    """

    def __init__(self, values: Sequence[object], *, several: bool = False) -> None:
        self.values = values
        self.several = several

    def close(self, results: Sequence[object], request: Request) -> object:
        """Turn one result per value into the reply."""
        return list(results) if self.several else results[0]


def open_envelope(request: Request) -> Envelope:
    """Find the values of a request, whatever protocol it came in."""
    return Envelope([request.payload()])
