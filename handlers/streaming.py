"""Parts of a reply that go out while the rest is still being made."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["EVENTS", "event", "send_parts"]

# Server-sent events: what browsers and the common clients of language models read.
EVENTS = "text/event-stream; charset=utf-8"


def event(content: Mapping[str, object]) -> bytes:
    """Write one event: a line of JSON, and an empty line."""
    return b"data: " + json.dumps(content, separators=(",", ":")).encode("ascii") + b"\n\n"


def send_parts(context: Any, parts: Mapping[int, bytes], content_type: str) -> bool:
    """Send each of some requests, by its index in the batch, a part of its reply.

    Returns False where nothing can be sent: outside TorchServe's worker. TorchServe 0.12 answers
    in chunks, with the status and headers of the first; what the handler returns is the last one.
    """
    if getattr(context, "cl_socket", None) is None:
        return False
    handler = importlib.import_module("ts.handler_utils.utils")
    for index in parts:
        context.set_response_content_type(index, content_type)
    ids = {index: context.get_request_id(index) for index in parts}
    # Only these requests are in the message; the others of the batch go on waiting.
    handler.send_intermediate_predict_response(
        dict(parts), ids, "Intermediate Prediction success", 200, context
    )
    return True
