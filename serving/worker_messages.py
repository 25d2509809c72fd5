"""What goes to a backend worker and what comes back, as TorchServe's Java side sees it."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from makemar.errors import ServingError
from makemar.serving.reply import Reply

__all__ = ["WorkerPart", "WorkerReply", "WorkerRequest", "with_ids"]


@dataclass(frozen=True, kw_only=True)
class WorkerPart:
    """One named part of a request: a form's field, or the one `body` of other requests.

    TorchServe 0.12: the worker parses `application/json` and decodes `text/*`; any other content
    type reaches the handler as a bytearray.
    """

    value: bytes = field(repr=False)
    name: str = "body"
    content_type: str = ""


@dataclass(frozen=True, kw_only=True)
class WorkerRequest:
    """One row of a batch; an empty `request_id` is filled in when it is sent."""

    parts: tuple[WorkerPart, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    request_id: str = ""

    @classmethod
    def from_body(cls, body: bytes, content_type: str = "") -> WorkerRequest:
        """Make the request that TorchServe makes of an HTTP POST with this body."""
        headers = {"explain": "False"}  # the server's own addition
        if content_type:
            headers["Content-Type"] = content_type
        return cls(parts=(WorkerPart(value=body, content_type=content_type),), headers=headers)


@dataclass(frozen=True, kw_only=True)
class WorkerReply(Reply):
    """What one request of a batch got; `body` is all of it, `parts` the pieces of a stream.

    `failure` is the worker's message when it gave up on the whole batch, with the exception and its
    place where the log tells them; clients are sent that message's first words. `cut_off` says that
    a stream began and nothing ended it: TorchServe 0.12 keeps such a client waiting for ever.
    """

    request_id: str
    phrase: str = ""
    failure: str = ""
    parts: tuple[bytes, ...] = field(default=(), repr=False)
    cut_off: bool = False


def with_ids(requests: Sequence[WorkerRequest]) -> tuple[WorkerRequest, ...]:
    """Give an id to each request that has none; raises ServingError if two have the same."""
    named = tuple(
        request if request.request_id else replace(request, request_id=str(uuid.uuid4()))
        for request in requests
    )
    (name, count), *_ = Counter(r.request_id for r in named).most_common(1) or [("", 0)]
    if count > 1:
        raise ServingError(f"{count} requests of one batch have the id {name!r}; give each its own")
    return named
