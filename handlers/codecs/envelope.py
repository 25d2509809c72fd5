"""What a request carries, out of the protocol that it came in; and the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from makemar.handlers.codecs.accept import BINARY_TYPE, JSON_TYPE, TEXT_TYPE, wanted_types
from makemar.handlers.codecs.npy import NPY_TYPES, write_npy
from makemar.handlers.codecs.results import stack_named, stack_results
from makemar.handlers.codecs.tensor_file import write_safetensors
from makemar.handlers.errors import PayloadTooLargeError, ReplyError, RequestError
from makemar.handlers.reply import Reply, write_json
from makemar.handlers.request import Request
from makemar.handlers.settings import HandlerSettings

__all__ = ["Envelope", "check_count", "wants_arrays"]


class Envelope:
    """The values of one request, and how its reply has to look.

    `values` are what the client sent, one per sample: bytes, text, JSON values, tensors, or a
    dict of them by name. `several` tells a request that carries a list of samples, be it of one,
    from one that is a sample itself. `parameters` are what a protocol sends beside its inputs.
    """

    # Whether the protocol's replies name the type of every array.
    typed = False

    def __init__(
        self,
        values: Sequence[object],
        *,
        several: bool = False,
        parameters: Mapping[str, object] | None = None,
    ) -> None:
        self.values = values
        self.several = several
        self.parameters = parameters or {}

    def close(self, results: Sequence[object], request: Request, context: Any = None) -> object:
        """Turn one result per value into the reply, in the format that `Accept` asks for.

        A `Reply` or bytes that the handler chose stay as they are. Raises `RequestError` (406)
        when the client accepts nothing that the result can be written as.
        """
        if not self.several:
            if isinstance(results[0], (Reply, bytes, bytearray, memoryview)):
                return results[0]
        elif any(isinstance(result, Reply) for result in results):
            raise ReplyError("encode gave a Reply for one of several samples; return its content")
        accept = request.headers.get("accept")
        if accept is None or accept == "*/*":
            return self.wrap(results, request, context)
        natural = TEXT_TYPE if not self.several and isinstance(results[0], str) else JSON_TYPE
        for wanted in wanted_types(accept, natural):
            reply = self._written(wanted, results, request, context)
            if reply is not None:
                return reply
        raise RequestError(
            406,
            f"the answer cannot be written as {accept[:100]!r}; accept application/json, or for "
            "arrays application/x-npy or application/safetensors",
        )

    def wrap(self, results: Sequence[object], request: Request, context: Any) -> object:  # noqa: ARG002
        """Return the results in this protocol's own shape, still to be written as JSON."""
        return list(results) if self.several else results[0]

    def _written(
        self, wanted: str, results: Sequence[object], request: Request, context: Any
    ) -> Reply | None:
        """Return the reply in one format, or None where the results do not fit into it."""
        if wanted in (JSON_TYPE, TEXT_TYPE):
            return _as_text(self.wrap(results, request, context), wanted)
        if wanted == BINARY_TYPE:
            framed = self.wrap(results, request, context)
            return framed if isinstance(framed, Reply) else None
        array = stack_results(results, several=self.several)
        if wanted in NPY_TYPES:
            return None if array is None else Reply(write_npy(array), content_type=wanted)
        named = (
            {"output": array} if array is not None else stack_named(results, several=self.several)
        )
        return None if named is None else Reply(write_safetensors(named), content_type=wanted)


def wants_arrays(request: Request) -> bool:
    """Tell whether a reply may need results as arrays, whose types plain numbers have lost."""
    envelope = request.envelope
    if isinstance(envelope, Envelope) and envelope.typed:
        return True
    return request.headers.get("accept", "*/*") != "*/*"


def _as_text(value: object, wanted: str) -> Reply:
    if isinstance(value, Reply):
        return value
    if wanted == TEXT_TYPE:
        text = value if isinstance(value, str) else write_json(value).decode("ascii")
        return Reply(text, content_type="text/plain; charset=utf-8")
    return Reply(write_json(value), content_type=JSON_TYPE)


def check_count(count: int, settings: HandlerSettings) -> None:
    """Raise `PayloadTooLargeError` when a request brings more samples than it may."""
    if count > settings.max_samples:
        raise PayloadTooLargeError(
            f"the request has {count} samples, the limit is {settings.max_samples}"
        )
