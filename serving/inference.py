"""The client of TorchServe's inference API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from makemar.errors import ServingError
from makemar.serving.model_paths import model_path, model_title
from makemar.serving.reply import Reply
from makemar.serving.responses import error_for, server_fault
from makemar.serving.tokens import token_source
from makemar.serving.transport import Transport

__all__ = ["DEFAULT_CONCURRENCY", "InferenceClient"]

DEFAULT_CONCURRENCY = 64  # requests in flight unless the caller says otherwise


class InferenceClient:
    """Sends inputs to models and returns what their handlers answer.

    `key_file` is the server's `key_file.json`; it is read at the first call, and again when the
    server refuses the key. `token` is an inference key given directly. `timeout` is in seconds:
    TorchServe 0.12 never answers some requests, so every call has one. Safe to share among threads.

    What a handler answers is a Reply, whatever its status. What TorchServe itself answers instead
    (no such model, key refused, queue full, worker died) raises: its error bodies are JSON of
    `code`, `type` (a Java exception) and `message` only, while makemar's handlers add a
    `request_id`. An exception that a handler lets out is told by TorchServe, so it raises too.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        key_file: Path | None = None,
        token: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        tokens = token_source("inference", key_file=key_file, token=token)
        self._transport = Transport(url, tokens=tokens, timeout=timeout)

    def __repr__(self) -> str:
        return f"InferenceClient({self.url!r})"

    def __enter__(self) -> InferenceClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The address that this client talks to."""
        return self._transport.url

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def predict(
        self,
        model: str,
        body: bytes,
        *,
        version: str | None = None,
        content_type: str = "application/octet-stream",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one input to a model, to its default version if None, and return the reply.

        TorchServe 0.12 hands `application/json` to the handler parsed, `text/*` as text and the
        rest as bytes. Raises UnreachableError, AuthorizationError, ModelNotFoundError, or another
        ResponseError for what the server answers in the handler's place.
        """
        reply = self._transport.send(
            "POST",
            ("predictions", *model_path(model, version)),
            body=body,
            headers={**(headers or {}), "Content-Type": content_type},
        )
        if server_fault(reply) is not None:
            advice = self._transport.token_advice()
            about = model_title(model, version)
            raise error_for(reply, url=self.url, about=about, token_advice=advice)
        return reply

    def predict_many(
        self,
        model: str,
        bodies: Iterable[bytes],
        *,
        version: str | None = None,
        content_type: str = "application/octet-stream",
        headers: Mapping[str, str] | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
    ) -> tuple[Reply, ...]:
        """Send many inputs at the same time, so that they can share batches.

        Returns the replies in the order of the bodies; `concurrency` is how many are in flight at
        most. Raises what `predict` raises, for the first body that failed; what was not sent by
        then stays unsent.
        """
        if concurrency < 1:
            raise ServingError(f"the concurrency is {concurrency}; give 1 or more")
        send = partial(
            self.predict, model, version=version, content_type=content_type, headers=headers
        )
        todo = list(bodies)
        if not todo:
            return ()
        with ThreadPoolExecutor(max_workers=min(concurrency, len(todo))) as pool:
            return tuple(pool.map(send, todo))
