"""One answer of the server, whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from makemar.errors import ServingError

__all__ = ["Reply"]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What one request got back.

    `headers` ignores case in its keys. A handler's own 4xx and 5xx are replies too: look at
    `status`, or at `ok`, before using the body.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status < 400

    @property
    def text(self) -> str:
        """The body as UTF-8; what is none becomes U+FFFD.

        TorchServe 0.12 sends no content type unless the handler sets one, so there is no charset
        to go by.
        """
        return self.body.decode("utf-8", errors="replace")

    def json(self) -> object:
        """Parse the body as JSON; raise ServingError if it is none."""
        try:
            data: object = json.loads(self.body)
        except ValueError as error:
            start = self.text[:60]
            raise ServingError(
                f"the reply (status {self.status}) is not JSON: it starts with {start!r}"
            ) from error
        return data
