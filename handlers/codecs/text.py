"""One value to text."""

from __future__ import annotations

from makemar.handlers.errors import BadRequestError

__all__ = ["to_text"]


def to_text(value: object) -> str:
    """Return the text that a client sent, as text or as UTF-8 bytes (with or without a mark).

    Raises `BadRequestError` for bytes that are no UTF-8, for text that is no valid Unicode (a
    lone surrogate from JSON), and for anything else.
    """
    if isinstance(value, (bytes, bytearray)):
        try:
            return value.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise BadRequestError("the text sent is not UTF-8") from error
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise BadRequestError("the text sent holds half a surrogate pair") from error
        return value
    raise BadRequestError(f"expected text, got {type(value).__name__}")
