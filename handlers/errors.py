"""What a handler raises to give one request its own error.

RequestError(status, message)
├── BadRequestError            400  the request cannot be read
├── PayloadTooLargeError       413  more bytes, pixels, samples or nesting than allowed
├── UnsupportedTypeError       415  a content type that this handler does not decode
├── ModelError                 500  the model failed on this input
├── ReplyError                 500  the output cannot be sent as a reply
├── DeviceLostError            503  the worker's device failed; a new worker will take over
└── OutOfMemoryError           507  not even this request alone fits into memory

This module travels in the archive, so it stands alone. Messages go to the client: one line that
names what is wrong and what to do, never a traceback, never another request's data.
"""

from __future__ import annotations

from http import HTTPStatus

__all__ = [
    "BadRequestError",
    "DeviceLostError",
    "LoadError",
    "ModelError",
    "OutOfMemoryError",
    "PayloadTooLargeError",
    "ReplyError",
    "RequestError",
    "UnsupportedTypeError",
]


_LONGEST = 1000


class LoadError(ValueError):
    """The model cannot be loaded as the archive asks.

    A `ValueError` on purpose: after a `RuntimeError` in `initialize`, TorchServe 0.12 leaves the
    model registered without workers, and every retry is answered 409.
    """


class RequestError(Exception):
    """Answer this one request with `status` and `message`; its neighbours are not touched.

    `status` is an HTTP status from 400 to 599; anything else is a `ValueError` at once, because
    TorchServe would kill the worker for it.
    """

    def __init__(self, status: int, message: str) -> None:
        if isinstance(status, bool) or not isinstance(status, int) or not 400 <= status <= 599:
            raise ValueError(f"RequestError: status is {status!r}, not an integer from 400 to 599")
        # Clients' own words are quoted in messages: neither their length nor their line ends may
        # reach a reply, which TorchServe limits, or a log, where it reads metrics from lines.
        self.message = _one_line(str(message))
        super().__init__(self.message)
        self.status = status

    def prefixed(self, prefix: str) -> RequestError:
        """Return the same error with something before its message.

        Without calling `__init__`: that of a subclass may take anything.
        """
        twin: RequestError = type(self).__new__(type(self))
        vars(twin).update(vars(self), message=_one_line(prefix + self.message))
        return twin

    def body(self, request_id: str | None) -> dict[str, object]:
        """Return the JSON body of the reply: `code`, `type`, `message`, `request_id`."""
        return {
            "code": self.status,
            "type": type(self).__name__,
            "message": self.message,
            "request_id": request_id,
        }


def _one_line(text: str) -> str:
    """Return text that a log and a reply can carry: short, printable, without line ends."""
    words = " ".join(text[: 2 * _LONGEST].split())
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"


class _FixedStatusError(RequestError):
    status_code = HTTPStatus.INTERNAL_SERVER_ERROR

    def __init__(self, message: str) -> None:
        super().__init__(int(self.status_code), message)


class BadRequestError(_FixedStatusError):
    """Answer 400: the request cannot be read."""

    status_code = HTTPStatus.BAD_REQUEST


class PayloadTooLargeError(_FixedStatusError):
    """Answer 413: the request holds more than this handler accepts."""

    status_code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class UnsupportedTypeError(_FixedStatusError):
    """Answer 415: the content type is not one this handler decodes."""

    status_code = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class ModelError(_FixedStatusError):
    """Answer 500: the model failed on this input."""


class ReplyError(_FixedStatusError):
    """Answer 500: the output cannot be sent as a reply."""


class DeviceLostError(_FixedStatusError):
    """Answer 503: the device failed and this worker is about to be replaced; a retry may work."""

    status_code = HTTPStatus.SERVICE_UNAVAILABLE


class OutOfMemoryError(_FixedStatusError):
    """Answer 507: this request alone does not fit into memory."""

    status_code = HTTPStatus.INSUFFICIENT_STORAGE
