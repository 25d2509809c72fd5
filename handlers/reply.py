"""One reply: whatever a handler returned, as bytes that TorchServe can send without dying.

TorchServe 0.12 serialises outside its own error handling: a circular structure, a lone surrogate,
a header with a newline or a status of -1 ends the worker and every request of the batch with it.
So nothing reaches it here but bytes, plain headers and a status it knows.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from makemar.handlers.errors import ModelError, ReplyError, RequestError

__all__ = ["STREAM_HEADER", "Reply", "error_reply", "reason_phrase", "render", "write_json"]

# TorchServe 0.12 tells with it whether more parts of a reply follow.
STREAM_HEADER = "ts_stream_next"
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"

# RFC 9110: a field name is a token; values are kept to visible ASCII, space and tab.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*\Z")


_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Reply:
    """What one request gets back; return it from `encode` to choose status, type or headers."""

    def __init__(
        self,
        body: object,
        *,
        status: int = 200,
        content_type: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.body = body
        self.status = status
        self.content_type = content_type
        self.headers = dict(headers or {})

    def __repr__(self) -> str:
        return f"Reply(status={self.status!r}, content_type={self.content_type!r})"


def render(value: object, *, max_bytes: int) -> Reply:
    """Turn a handler's result into a reply whose body is bytes.

    bytes stay, `str` becomes UTF-8, all else what `write_json` makes of it.
    Raises `ReplyError` for what cannot be sent, or for a body over `max_bytes`: TorchServe kills
    the worker that answers more than `max_response_size`.
    """
    body, content_type = _body(value.body if isinstance(value, Reply) else value)
    if len(body) > max_bytes:
        raise ReplyError(
            f"the reply has {len(body)} bytes, the limit is {max_bytes}; "
            "raise max_response_size in config.properties and handler.max_response_bytes"
        )
    if not isinstance(value, Reply):
        return Reply(body, content_type=content_type)
    if value.content_type is not None:
        content_type = _header_value("content-type", value.content_type)
    headers = {_header_name(k): _header_value(k, v) for k, v in value.headers.items()}
    return Reply(body, status=_status(value.status), content_type=content_type, headers=headers)


def error_reply(error: RequestError, request_id: str | None, *, max_bytes: int) -> Reply:
    """Return the JSON reply for one request's own error."""
    try:
        body = write_json(error.body(request_id))
        status = _status(error.status)
        if len(body) > max_bytes:
            raise ReplyError(f"the error has {len(body)} bytes, the limit is {max_bytes}")
    except BaseException as wrong:
        if isinstance(wrong, KeyboardInterrupt):
            raise
        plain = ModelError("the request failed; the server's log has the reason under this id")
        body, status = write_json(plain.body(request_id)), plain.status
    return Reply(body, status=status, content_type=JSON)


def _status(status: object) -> int:
    """Return `status` if TorchServe can send it: an integer from 200 to 599."""
    if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
        raise ReplyError(f"the reply's status is {status!r}, not an integer from 200 to 599")
    return int(status)


def reason_phrase(status: int) -> str:
    """Return the standard phrase: ASCII, so that TorchServe's length count stays right."""
    return _PHRASES.get(status, "")


def _header_value(name: str, value: object) -> str:
    """Return a header's value as text that HTTP can carry; raise `ReplyError` otherwise."""
    text = value if isinstance(value, str) else str(value)
    if not _HEADER_VALUE.match(text):
        raise ReplyError(f"the reply's header {name!r} has a value that HTTP cannot carry")
    return text


def _header_name(name: object) -> str:
    if not isinstance(name, str) or not _HEADER_NAME.match(name):
        raise ReplyError(f"the reply has a header name that HTTP cannot carry: {name!r}")
    if name.lower() == STREAM_HEADER:
        raise ReplyError(f"the header {name} is TorchServe's own; its client would wait for more")
    return name


def _body(value: object) -> tuple[bytes, str]:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), BYTES
    if not isinstance(value, str):
        return write_json(value), JSON
    try:
        # By class: a subclass may give anything.
        return str.encode(value, "utf-8"), TEXT
    except UnicodeEncodeError as error:
        raise ReplyError("the reply's text holds a lone surrogate, not valid Unicode") from error


def write_json(value: object) -> bytes:
    """Write strict JSON: no NaN; arrays as lists, bytes as `{"b64": "…"}`.

    Raises `ReplyError` for what JSON cannot hold.
    """
    try:
        # As ASCII, so that even a lone surrogate inside it can be sent.
        return _ENCODER.encode(value).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise ReplyError(f"the output cannot be written as JSON: {error}") from error


def _plain(value: Any) -> object:
    """Turn what json does not know into what it does: arrays, tensors and their scalars."""
    if hasattr(value, "detach"):  # torch; bfloat16 has no numpy twin, so tolist() it is
        return value.detach().cpu().tolist()
    if hasattr(value, "tolist"):  # numpy arrays and scalars
        return value.tolist()
    if isinstance(value, (bytes, bytearray)):
        return {"b64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, (set, frozenset)):
        raise TypeError("a set has no order; return a sorted list")
    raise TypeError(f"{type(value).__name__} is not a JSON value")


# Made once: json.dumps would build an encoder for each reply.
_ENCODER = json.JSONEncoder(allow_nan=False, default=_plain, separators=(",", ":"))
