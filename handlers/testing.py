"""Run a handler as TorchServe would, without a server: three lines in a test, breakpoints work.

handler = load(MyHandler, model_dir, model={"modelFile": "net.py"})
answers = ask(handler, [b"...", {"body": [1, 2, 3]}])
assert answers[0].status == 200
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar, Union

__all__ = ["Answer", "Context", "ask", "load"]


class Handler(Protocol):
    """What TorchServe calls: any handler class, made by makemar or not."""

    def initialize(self, context: Any) -> None: ...
    def handle(self, data: Any, context: Any) -> Sequence[Any]: ...


H = TypeVar("H", bound=Handler)
Sent = Union[bytes, str, Mapping[str, object]]


class Context:
    """The part of TorchServe's context that handlers use, for one batch of requests."""

    def __init__(
        self,
        *,
        model_dir: Path,
        model: Mapping[str, object],
        config: Mapping[str, object],
        headers: Sequence[Mapping[str, object]] = (),
        batch_size: int = 1,
        gpu_id: int | None = None,
    ) -> None:
        self.model_name = str(model.get("modelName", "model"))
        self.manifest = {"runtime": "python", "model": dict(model)}
        self.model_yaml_config = dict(config)
        self.system_properties = {
            "model_dir": str(model_dir),
            "gpu_id": gpu_id,
            "batch_size": batch_size,
            "server_name": "MMS",
            "server_version": "0.12.0",
            "limit_max_image_pixels": True,
        }
        self.metrics = None
        self.stopping_criteria = None
        self.cl_socket = None
        self.request_ids = {index: f"request-{index}" for index in range(len(headers))}
        self.request_processor = [_Exchange(given) for given in headers]

    def get_request_id(self, idx: int = 0) -> str | None:
        """Return the id that the server gave request `idx`."""
        return self.request_ids.get(idx)

    def get_request_header(self, idx: int, key: str) -> object:
        """Return a header in the exact case in which it was sent, or None."""
        return self.request_processor[idx].headers.get(key)

    def get_all_request_header(self, idx: int) -> Mapping[str, object]:
        """Return every header of request `idx`."""
        return self.request_processor[idx].headers

    def set_response_status(self, code: int = 200, phrase: str = "", idx: int = 0) -> None:
        """Set the status of reply `idx`; the index comes last, as in TorchServe."""
        self.request_processor[idx].status = (code, phrase)

    def set_all_response_status(self, code: int = 200, phrase: str = "") -> None:
        """Set one status for every reply."""
        for exchange in self.request_processor:
            exchange.status = (code, phrase)

    def get_response_status(self, idx: int) -> tuple[Any, Any]:
        """Return status and phrase of reply `idx`."""
        return self.request_processor[idx].status

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        """Set one header of reply `idx`."""
        self.request_processor[idx].response_headers[key] = value

    def get_response_headers(self, idx: int) -> dict[str, str]:
        """Return the headers set for reply `idx`; a live mapping, as in TorchServe."""
        return self.request_processor[idx].response_headers

    def set_response_content_type(self, idx: int, value: str) -> None:
        """Set the content type of reply `idx`."""
        self.set_response_header(idx, "content-type", value)

    def get_response_content_type(self, idx: int) -> str | None:
        """Return the content type of reply `idx`, or None."""
        return self.get_response_headers(idx).get("content-type")


class _Exchange:
    """Headers of one request, and what will be sent back with its reply."""

    def __init__(self, headers: Mapping[str, object]) -> None:
        self.headers = headers
        self.status: tuple[Any, Any] = (200, None)
        self.response_headers: dict[str, str] = {}


class Answer:
    """What one client would read: `status`, `headers` (lower case), `body`, `json()`."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body

    def __repr__(self) -> str:
        return f"Answer(status={self.status}, body={self.body[:80]!r})"

    def json(self) -> Any:
        """Parse the body."""
        return json.loads(self.body)


def load(
    handler_type: type[H],
    model_dir: Path,
    *,
    model: Mapping[str, object] | None = None,
    config: Mapping[str, object] | None = None,
) -> H:
    """Build and initialize a handler as a worker would, with `model_dir` first on `sys.path`.

    `model` is the manifest's section of that name (`modelFile`, `serializedFile`, …), `config`
    the content of model-config.yaml. Whatever `initialize` raises comes through.
    """
    handler = handler_type()
    with _importable(model_dir):
        handler.initialize(Context(model_dir=model_dir, model=model or {}, config=config or {}))
    return handler


def ask(
    handler: Handler,
    requests: Sequence[Sent],
    *,
    headers: Sequence[Mapping[str, str]] | None = None,
) -> list[Answer]:
    """Send requests as one batch; return one answer each, in order.

    A request is the bytes or text of a body, or a whole row (`{"body": …}`, `{"field": …}`);
    `headers` holds one mapping per request, `{"explain": "True"}` for /explanations. Raises
    `AssertionError` if the handler breaks TorchServe's contract: a list of as many elements, each
    of them bytes, text or what JSON can hold.
    """
    rows = [_row(request) for request in requests]
    context = Context(
        model_dir=Path(),
        model={},
        config={},
        headers=headers if headers is not None else [{} for _ in rows],
        batch_size=len(rows),
    )
    bodies = handler.handle(rows, context)
    if not isinstance(bodies, list) or len(bodies) != len(rows):
        raise AssertionError(f"handle returned {bodies!r} for {len(rows)} requests")
    return [_answer(body, context, index) for index, body in enumerate(bodies)]


def _row(request: Sent) -> Mapping[str, object]:
    if isinstance(request, Mapping):
        return request
    return {"body": bytearray(request) if isinstance(request, bytes) else request}


def _answer(body: object, context: Context, index: int) -> Answer:
    data = body.encode("utf-8") if isinstance(body, str) else body
    if not isinstance(data, (bytes, bytearray)):
        # TorchServe writes anything else as indented JSON, or kills the worker trying.
        try:
            data = json.dumps(data, indent=2).encode("utf-8")
        except (TypeError, ValueError, RecursionError) as error:
            raise AssertionError(f"reply {index} cannot be sent: {error}") from error
    status, _ = context.get_response_status(index)
    return Answer(status, context.get_response_headers(index), bytes(data))


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Put `folder` on the path for a while, and forget what was imported from it.

    Two archives may each have a `network.py`; a worker process sees only one of them.
    """
    known = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - known:
            source = getattr(sys.modules[name], "__file__", None)
            if source and Path(source).is_relative_to(folder):
                del sys.modules[name]
