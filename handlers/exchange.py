"""TorchServe's context, narrowed to what a batch needs: who asked, and where answers go.

The context counts requests from 0 within the batch it was made for. When only some of the rows
run (a bisection), a handler must still find request i of *its* rows at index i; `part` gives it
such a view, whose headers and statuses land on the right requests.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from makemar.handlers.reply import STREAM_HEADER, Reply, reason_phrase
from makemar.handlers.request import Request

__all__ = ["ReplySnapshot", "forget", "is_describe", "part", "read_requests", "send", "take_reply"]


def read_requests(rows: Sequence[Mapping[str, object]], context: Any) -> list[Request]:
    """Pair each row with its request id and headers."""
    return [
        Request(
            row,
            index=index,
            request_id=context.get_request_id(index),
            headers=context.get_all_request_header(index),
        )
        for index, row in enumerate(rows)
    ]


def is_describe(rows: Sequence[Mapping[str, object]], context: Any) -> bool:
    """Tell TorchServe's own describe job from a client that sends its header.

    TorchServe 0.12 sends it alone, with an empty row.
    """
    return len(rows) == 1 and not rows[0] and context.get_request_header(0, "describe") == "True"


class ReplySnapshot:
    """What had been set for each reply of a batch at one moment, to come back to.

    TorchServe hands a batch over with nothing set.
    """

    def __init__(self, context: Any) -> None:
        self._kept = [
            (context.get_response_status(index), dict(context.get_response_headers(index)))
            for index in range(len(context.request_processor))
        ]

    def restore(self, context: Any, index: int) -> None:
        """Forget what was set for one reply since then."""
        (status, phrase), headers = self._kept[index]
        context.set_response_status(status, phrase, index)
        now = context.get_response_headers(index)
        now.clear()
        now.update(headers)


def part(context: Any, indices: Sequence[int]) -> Any:
    """Return a context for these requests alone, numbered from 0; `whole` is that of the batch."""
    view = copy.copy(context)
    view.whole = context
    view.request_ids = {new: context.get_request_id(old) for new, old in enumerate(indices)}
    view.request_processor = [context.request_processor[old] for old in indices]
    return view


def take_reply(value: object, context: Any, index: int) -> object:
    """Join a handler's result with the status and headers that it set through the context.

    Where it set none, the result comes back as it is, otherwise as a `Reply`.

    The context is left clean, so that nothing unchecked stays behind in it. Where both say
    something, the `Reply` wins.
    """
    status, _ = context.get_response_status(index)
    headers = context.get_response_headers(index)
    if not headers and status in (200, None):
        return value
    reply = value if isinstance(value, Reply) else Reply(value)
    # Which part of a stream is its last TorchServe finds out without this header.
    headers = {name: text for name, text in headers.items() if name != STREAM_HEADER}
    forget(context, index)
    named = next((k for k in headers if str(k).lower() == "content-type"), None)
    content_type = headers.pop(named) if named is not None else None
    return Reply(
        reply.body,
        status=status if reply.status == 200 and status is not None else reply.status,
        content_type=reply.content_type or content_type,
        headers={**headers, **reply.headers},
    )


def send(reply: Reply, context: Any, index: int) -> bytes:
    """Set status, content type and headers of one request; return its body.

    `reply` comes from `render` or `error_reply`, so all of it is known to be sendable.
    """
    if not isinstance(reply.body, bytes):
        raise TypeError(f"reply {index} was not rendered: its body is {type(reply.body).__name__}")
    if reply.status != 200:
        context.set_response_status(reply.status, reason_phrase(reply.status), index)
    headers = context.get_response_headers(index)
    if reply.content_type:
        headers["content-type"] = reply.content_type
    headers.update(reply.headers)
    return reply.body


def forget(context: Any, index: int) -> None:
    """Leave a reply with nothing set, as TorchServe hands it over."""
    context.set_response_status(200, "", index)
    context.get_response_headers(index).clear()
