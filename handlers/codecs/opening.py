"""From a request to its envelope: which protocol it speaks."""

from __future__ import annotations

from makemar.handlers.codecs.binary import open_b64
from makemar.handlers.codecs.envelope import Envelope
from makemar.handlers.codecs.fields import check_request, read_field
from makemar.handlers.codecs.instances import is_instances, open_instances
from makemar.handlers.codecs.v2_request import BINARY_HEADER, is_v2, open_v2, open_v2_binary
from makemar.handlers.errors import BadRequestError
from makemar.handlers.request import Request
from makemar.handlers.settings import HandlerSettings

__all__ = ["open_envelope", "open_single"]

_DEFAULTS = HandlerSettings()


def open_envelope(request: Request, settings: HandlerSettings = _DEFAULTS) -> Envelope:
    """Find the values of a request, whatever protocol it came in.

    A body, the form field `data` or the only field is the payload: KServe v1, Open Inference
    Protocol v2, or else one sample. Several other fields are one sample, a dict by name. Raises a
    `RequestError` and nothing else.
    """
    check_request(request, settings)
    main = request.main_field()
    if main is None:
        parts = {name: read_field(request, name, settings) for name in request.row}
        return Envelope([{name: open_b64(value) for name, value in parts.items()}])
    if BINARY_HEADER in request.headers:
        return open_v2_binary(request.row[main], request.headers[BINARY_HEADER], settings)
    value = read_field(request, main, settings)
    if isinstance(value, dict):
        if is_instances(value):
            return open_instances(value, settings)
        if is_v2(value):
            return open_v2(value, settings)
        value = open_b64(value)
    elif main == "body" and value == b"":
        raise BadRequestError("the request has no body")
    return Envelope([value])


def open_single(request: Request, settings: HandlerSettings) -> object:
    """Return the one value of a request that is about one, as an explanation is.

    Raises `BadRequestError` for none and for several.
    """
    values = open_envelope(request, settings).values
    if len(values) != 1:
        raise BadRequestError(
            f"this is done for one input at a time, the request has {len(values)}"
        )
    return values[0]
