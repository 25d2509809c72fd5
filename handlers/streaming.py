"""Parts of a reply that go out while the rest is still being made."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import Any, Callable

__all__ = ["EVENTS", "Streams", "event", "send_parts"]

# Server-sent events: what browsers and the common clients of language models read.
EVENTS = "text/event-stream; charset=utf-8"


class Streams:
    """Which replies have begun to go out in parts, so that the last part of each says it is one.

    TorchServe 0.12: a client waits until a part has the header `ts_stream_next: false`. The worker
    sets it where that header of the reply is still `true`, which it is not once another reply (an
    error's) has taken the place of the one that began; or where `context.stopping_criteria[index]`
    answers True, called with the last part. That is what this is: it outlives whatever happens to
    headers, and the worker's context keeps it from batch to batch.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._begun: frozenset[str] = frozenset()

    @classmethod
    def of(cls, context: Any) -> Streams:
        """Return those of a context; from the first call on it has some."""
        # Of a part of a batch: TorchServe asks the whole one.
        context = getattr(context, "whole", context)
        known = getattr(context, "stopping_criteria", None)
        if not isinstance(known, Streams):
            known = context.stopping_criteria = cls(context)
        return known

    def __getitem__(self, index: int) -> Callable[[object], bool | None]:
        """Return what tells TorchServe whether a request's part is the last one of a stream."""
        begun = self._context.get_request_id(index) in self._begun
        # None leaves the headers of a reply alone that was never streamed.
        return lambda part: True if begun else None  # noqa: ARG005

    def begin(self, ids: Mapping[int, str]) -> None:
        """Note that parts go out; what began in batches before is over."""
        here = frozenset(self._context.request_ids.values())
        self._begun = (self._begun & here) | frozenset(ids.values())


def event(content: Mapping[str, object]) -> bytes:
    """Write one event: a line of JSON, and an empty line."""
    return b"data: " + json.dumps(content, separators=(",", ":")).encode("ascii") + b"\n\n"


def send_parts(context: Any, parts: Mapping[str, bytes], content_type: str) -> bool:
    """Send each of some requests, by its id, a part of its reply.

    Returns False where nothing can be sent: outside TorchServe's worker. TorchServe 0.12 answers
    in chunks, with the status and headers of the first; what the handler returns is the last one.
    """
    if getattr(context, "cl_socket", None) is None:
        return False
    handler = importlib.import_module("ts.handler_utils.utils")
    ids = {index: name for index, name in context.request_ids.items() if name in parts}
    for index in ids:
        context.set_response_content_type(index, content_type)
    Streams.of(context).begin(ids)
    # Only these requests are in the message; the others of the batch go on waiting.
    handler.send_intermediate_predict_response(
        {index: parts[name] for index, name in ids.items()},
        ids,
        "Intermediate Prediction success",
        200,
        context,
    )
    return True
