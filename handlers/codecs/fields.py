"""The fields of one request to values: JSON parsed, arrays read, all else as it came."""

from __future__ import annotations

from makemar.handlers.codecs.json_text import check_nesting, is_json_type, parse_json
from makemar.handlers.codecs.npy import NPY_TYPES, is_npy, read_npy
from makemar.handlers.codecs.tensor_file import (
    SAFETENSORS_TYPES,
    is_safetensors,
    read_safetensors,
)
from makemar.handlers.errors import BadRequestError, PayloadTooLargeError, UnsupportedTypeError
from makemar.handlers.request import Request
from makemar.handlers.settings import HandlerSettings

__all__ = ["check_request", "check_size", "read_field"]

# Types that say nothing about what is inside; curl and many clients send them for everything.
_UNTOLD = ("", "application/octet-stream", "application/x-www-form-urlencoded")


def check_request(request: Request, settings: HandlerSettings) -> None:
    """Refuse what no codec opens: too many bytes (413), compressed bodies (415)."""
    check_size(request, settings)
    encoding = request.headers.get("content-encoding")
    if encoding and encoding.lower() != "identity":
        # TorchServe 0.12 hands compressed bodies on as they came.
        raise UnsupportedTypeError("the body is compressed; send it without Content-Encoding")


def check_size(request: Request, settings: HandlerSettings) -> None:
    """Raise `PayloadTooLargeError` when a request has more bytes than it may."""
    limit = settings.max_request_bytes
    if limit is None:
        return
    size = request.size()
    if size > limit:
        raise PayloadTooLargeError(f"the request has {size} bytes, the limit is {limit}")


def read_field(request: Request, name: str, settings: HandlerSettings) -> object:
    """Return what a field holds.

    TorchServe 0.12 parses JSON only under its exact media type, and never in a form's plain
    fields; what is JSON there is parsed here. Raises a `RequestError` for what announces a format
    and breaks it.
    """
    value = request.row[name]
    if isinstance(value, memoryview):
        value = value.tobytes()
    if isinstance(value, (bytes, bytearray)):
        return _read_bytes(value, request.content_type(name), settings.max_nesting)
    check_nesting(value, settings.max_nesting)
    return value


def _read_bytes(data: bytes | bytearray, content_type: str, max_nesting: int) -> object:
    if content_type in NPY_TYPES or is_npy(data):
        return read_npy(data)
    if content_type in SAFETENSORS_TYPES or is_safetensors(data):
        tensors = read_safetensors(data)
        return next(iter(tensors.values())) if len(tensors) == 1 else tensors
    if is_json_type(content_type):
        if not data:
            raise BadRequestError("the request has no body")
        return parse_json(data, max_nesting=max_nesting)
    told = content_type not in _UNTOLD and not content_type.startswith("multipart/")
    if not told and data[:64].lstrip()[:1] in (b"[", b"{") and _is_text(data):
        return parse_json(data, max_nesting=max_nesting)
    return bytes(data)


def _is_text(data: bytes | bytearray) -> bool:
    """Tell text from binary data that happens to start like JSON."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
