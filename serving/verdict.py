"""What is wrong with one reply, as far as the reply alone can tell."""

from __future__ import annotations

import json
from dataclasses import replace

from makemar.serving.worker_messages import WorkerReply

__all__ = ["find_wrong", "without_id"]

_ID = b"<request id>"
_STATUSES = range(100, 600)
_SHOWN = 120  # characters of a body


def find_wrong(reply: WorkerReply) -> str:
    """Say why a reply is no good answer, '' if it is one.

    TorchServe 0.12 ends the worker, and with it the answers of the whole batch, for a status,
    phrase or header that HTTP cannot carry.
    """
    if reply.failure:
        return f"status {reply.status} for the whole batch, {reply.failure}"
    told = (reply.phrase, *reply.headers, *reply.headers.values())
    if reply.status not in _STATUSES or not all(text.isprintable() for text in told):
        return f"status {reply.status} {reply.phrase!r} or its headers cannot be sent by HTTP"
    if reply.cut_off:
        return "a stream began and nothing ends it, so the client waits for ever"
    return "" if reply.ok else f"status {reply.status}, {_message(reply)}"


def without_id(reply: WorkerReply) -> WorkerReply:
    """Return a reply whose body names no request id, which is another one each time."""
    name = reply.request_id.encode("utf-8")
    return replace(reply, body=reply.body.replace(name, _ID))


def _message(reply: WorkerReply) -> str:
    """Return the message of an error's body, as TorchServe and makemar write it, or its start."""
    try:
        data = json.loads(reply.body)
    except (ValueError, RecursionError):
        data = None
    message = data.get("message") if isinstance(data, dict) else None
    return repr((message if isinstance(message, str) else reply.text)[:_SHOWN])
