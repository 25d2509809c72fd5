"""The client of TorchServe's management API."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from makemar.errors import MakeMarError, ResponseError, ServingError
from makemar.serving.descriptions import (
    ModelDescription,
    ModelEntry,
    read_descriptions,
    read_page,
)
from makemar.serving.log_file import LogReader
from makemar.serving.model_paths import model_path, model_title
from makemar.serving.model_settings import check_settings
from makemar.serving.readiness import WorkerWatch, await_workers
from makemar.serving.registration import Registration, stays_registered
from makemar.serving.reply import Reply
from makemar.serving.responses import error_for
from makemar.serving.tokens import token_source
from makemar.serving.transport import Transport

__all__ = ["ManagementClient"]

_PAGE = 100  # the most that the server puts on one page
# Seconds for calls that unpack an archive, install its requirements or end workers.
_SLOW_CALL = 120.0

_Read = TypeVar("_Read")


class ManagementClient:
    """Registers, describes, scales and unregisters models.

    `key_file` is the server's `key_file.json`; it is read at the first call, and again when the
    server refuses the key. `token` is a management key given directly. `timeout` is in seconds
    and holds for every call; calls that make the server unpack or end something get two minutes at
    least. `worker_log` reads the server's `ts_log.log`: with it, a registration that fails does so
    at once and with the worker's own traceback.

    Every method raises UnreachableError if nobody answers, AuthorizationError if the key is
    refused, and another ResponseError for what the server refuses. Safe to share among threads.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8081",
        *,
        key_file: Path | None = None,
        token: str | None = None,
        timeout: float = 10.0,
        worker_log: LogReader | None = None,
    ) -> None:
        tokens = token_source("management", key_file=key_file, token=token)
        self._transport = Transport(url, tokens=tokens, timeout=timeout)
        self._worker_log = worker_log

    def __repr__(self) -> str:
        return f"ManagementClient({self.url!r})"

    def __enter__(self) -> ManagementClient:
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

    def register(
        self,
        url: str,
        *,
        model_name: str | None = None,
        handler: str | None = None,
        runtime: str | None = None,
        batch_size: int | None = None,
        max_batch_delay: int | None = None,
        initial_workers: int = 1,
        response_timeout: int | None = None,
        startup_timeout: int | None = None,
        wait: float | None = 120.0,
    ) -> ModelDescription:
        """Register an archive and wait until its workers are READY.

        `url` is the name of an archive in the model store, or a URL that the server's
        `allowed_urls` let through. `max_batch_delay` is in milliseconds, both timeouts in seconds;
        None leaves a setting to the archive and the server. `wait` is in seconds; None returns
        without waiting. Raises ModelConflictError if that name and version is registered already
        and WorkersFailedError if a worker does not come up; then nothing new stays registered.
        After an UnreachableError the server may still be at it: look at `models`.

        TorchServe 0.12: a pair of minWorkers and maxWorkers in the archive's model-config.yaml
        beats `initial_workers`; its timeouts beat these.
        """
        if model_name is not None:
            model_path(model_name)
        numbers = {
            "batch_size": batch_size,
            "max_batch_delay": max_batch_delay,
            "initial_workers": initial_workers,
            "response_timeout": response_timeout,
            "startup_timeout": startup_timeout,
        }
        check_settings(**numbers)
        texts = {"url": url, "model_name": model_name, "handler": handler, "runtime": runtime}
        # A synchronous call would block a thread that serves other clients meanwhile.
        query = _query(**texts, **numbers, synchronous="false")
        registration = Registration(self, url, model_name)
        watch = WorkerWatch.from_now(self._worker_log)
        try:
            self._call(
                "POST",
                "models",
                query=query,
                about=f"registering {url!r}",
                timeout=self._patience(wait),
            )
        except ResponseError as error:
            if stays_registered(error):
                registration.undo()
            raise
        name, version = registration.added()
        return self._settle(name, version, wait=wait, watch=watch)

    def models(self) -> tuple[ModelEntry, ...]:
        """List every registered model, sorted by name, page by page."""
        entries: list[ModelEntry] = []
        query = {"limit": str(_PAGE)}
        while True:
            reply = self._call("GET", "models", query=query, about="listing the models")
            page = self._read(reply, read_page)
            entries += page[0]
            # TorchServe 0.12: a token may lead to an empty page, where the last one was full.
            if page[1] is None or not page[0]:
                return tuple(entries)
            query["next_page_token"] = page[1]

    def describe(self, model: str, version: str | None = None) -> tuple[ModelDescription, ...]:
        """Describe one version of a model, the default one if None, or every one with "all".

        Raises ModelNotFoundError if there is no such model or version.
        """
        reply = self._call(
            "GET", "models", *model_path(model, version), about=model_title(model, version)
        )
        return self._read(reply, read_descriptions)

    def scale(
        self,
        model: str,
        version: str | None = None,
        *,
        min_worker: int,
        max_worker: int | None = None,
        wait: float | None = 120.0,
    ) -> ModelDescription:
        """Change the number of workers and wait until they are READY.

        `max_worker` is `min_worker` if None, `wait` is in seconds, None returns without waiting.
        TorchServe 0.12 kills surplus workers at once: requests inside them get no answer.
        Raises WorkersFailedError if a new worker does not come up; the server goes on trying, so
        scale back if that is not wanted.
        """
        maximum = min_worker if max_worker is None else max_worker
        if not 0 <= min_worker <= maximum:
            # The server kills every worker of the model when it is given a negative number.
            raise ServingError(
                f"{model_title(model, version)} cannot have {min_worker} to {maximum} workers; "
                "give a min_worker from 0 up to max_worker"
            )
        watch = WorkerWatch.from_now(self._worker_log)
        self._call(
            "PUT",
            "models",
            *model_path(model, version),
            query=_query(min_worker=min_worker, max_worker=maximum, synchronous="false"),
            about=f"scaling {model_title(model, version)}",
            timeout=self._patience(wait),
        )
        if wait is None:
            return self._one(model, version)
        return self._await(
            model, version, minimum=min_worker, maximum=maximum, wait=wait, watch=watch
        )

    def set_default(self, model: str, version: str) -> None:
        """Make a version the one that requests without a version get."""
        self._call(
            "PUT",
            "models",
            *model_path(model, version),
            "set-default",
            about=f"making {model_title(model, version)} the default",
        )

    def unregister(self, model: str, version: str | None = None) -> None:
        """Remove a version, the default one if None, and end its workers.

        TorchServe 0.12: the default version goes last, and requests that a worker or the queue
        still holds get no answer.
        """
        self._call(
            "DELETE",
            "models",
            *model_path(model, version),
            about=f"unregistering {model_title(model, version)}",
            timeout=self._patience(None),
        )

    def _call(
        self,
        method: str,
        *path: str,
        about: str,
        query: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Reply:
        reply = self._transport.send(method, path, query=query, timeout=timeout)
        if not reply.ok:
            advice = self._transport.token_advice()
            raise error_for(reply, url=self.url, about=about, token_advice=advice)
        return reply

    def _read(self, reply: Reply, reader: Callable[[object], _Read]) -> _Read:
        """Read a good reply; one that is not as TorchServe writes it is somebody else's."""
        try:
            return reader(reply.json())
        except (ServingError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise ResponseError(
                f"{self.url} does not answer as TorchServe's management API does; check the port",
                status=reply.status,
                url=self.url,
            ) from error

    def _patience(self, wait: float | None) -> float:
        """Seconds for a call that makes the server unpack, install or end something."""
        return max(wait or 0.0, _SLOW_CALL, self._transport.timeout)

    def _one(self, model: str, version: str | None) -> ModelDescription:
        return self.describe(model, version)[0]

    def _settle(
        self, name: str, version: str, *, wait: float | None, watch: WorkerWatch
    ) -> ModelDescription:
        """Wait for a new version's workers, or take it back."""
        if wait is None:
            return self._one(name, version)
        try:
            return self._await(name, version, wait=wait, watch=watch)
        except BaseException:  # also Ctrl-C: a broken worker would be tried again for minutes
            with contextlib.suppress(MakeMarError):
                self.unregister(name, version)
            raise

    def _await(
        self,
        model: str,
        version: str | None,
        *,
        wait: float,
        watch: WorkerWatch,
        minimum: int | None = None,
        maximum: int | None = None,
    ) -> ModelDescription:
        describe = partial(self._one, model, version)
        return await_workers(
            describe, minimum=minimum, maximum=maximum, wait=wait, watch=watch, url=self.url
        )


def _query(**values: str | int | None) -> dict[str, str]:
    """Write the parameters that were given.

    TorchServe 0.12: they go into the query string; in a JSON body an omitted delay caps every
    batch at two.
    """
    return {key: str(value) for key, value in values.items() if value is not None}
