"""One value to bytes, however they were sent: raw, base64, a data URL, or `{"b64": …}`."""

from __future__ import annotations

import base64
import binascii

from makemar.handlers.errors import BadRequestError

__all__ = ["from_base64", "open_b64", "to_bytes"]


def to_bytes(value: object) -> bytes:
    """Return the bytes that a client meant: text is base64, bare or as a data URL.

    Bytes pass untouched, except a data URL sent as such. Raises `BadRequestError` for anything
    else, or text that is not base64.
    """
    if isinstance(value, bytes) and not value.startswith(b"data:"):
        return value
    if isinstance(value, (bytes, bytearray, str)):
        return from_base64(value)
    opened = open_b64(value)
    if isinstance(opened, bytes):
        return opened
    kind = "several fields" if isinstance(value, dict) else f"JSON ({type(value).__name__})"
    raise BadRequestError(
        f'expected the bytes of a file, got {kind}; send the file as the body, or as {{"b64": …}}'
    )


def open_b64(value: object) -> object:
    """Return the bytes of `{"b64": "…"}`; any other value stays what it is."""
    if isinstance(value, dict) and len(value) == 1:
        text = value.get("b64")
        if isinstance(text, str):
            return from_base64(text)
    return value


def from_base64(text: bytes | bytearray | str) -> bytes:
    """Decode base64, bare or as a data URL; line breaks and missing padding do no harm."""
    try:
        data = text.encode("ascii") if isinstance(text, str) else bytes(text)
        if data.startswith(b"data:"):
            head, comma, data = data.partition(b",")
            if not comma or not head.endswith(b";base64"):
                raise BadRequestError("the data URL is not one with base64: data:TYPE;base64,…")
        data = b"".join(data.split()).rstrip(b"=")
        return base64.b64decode(data + b"=" * (-len(data) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequestError("the text sent is not base64") from error
