"""One batch on its way through a handler: decoded, flattened, run, regrouped, encoded.

A handler that keeps the default `preprocess` is run sample by sample: what cannot be decoded never
reaches the model, and a failing forward is bisected over samples. A handler with a `preprocess` of
its own (TorchServe's way) sees whole rows, and is bisected over rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Union

from makemar.handlers.errors import BadRequestError, ModelError, RequestError, as_request_error
from makemar.handlers.exchange import part, read_requests
from makemar.handlers.isolation import CAUGHT, Failed, isolate
from makemar.handlers.request import Request, Samples

__all__ = ["BatchRun", "Stages"]

Rows = Sequence[Mapping[str, object]]
Outcome = Union[object, Failed]


class Stages(Protocol):
    """What the engine needs of a handler: TorchServe's stages and the hooks between them."""

    context: Any
    running: Sequence[Request]

    def preprocess(self, data: Rows) -> Any: ...
    def inference(self, data: Any) -> Any: ...
    def postprocess(self, data: Any) -> Sequence[object]: ...
    def decode(self, request: Request) -> Any: ...
    def collate(self, samples: Sequence[Any]) -> Any: ...
    def split(self, outputs: Any, count: int) -> list[Any]: ...
    def encode(self, output: Any, request: Request) -> object: ...


class BatchRun:
    """Run one batch; `outcomes()` holds one result or failure per request, in order.

    `own_stages` names the whole-batch stages that the handler's class defines itself; `forwards`
    counts the calls of `inference`.
    """

    def __init__(
        self, handler: Stages, rows: Rows, context: Any, *, own_stages: frozenset[str]
    ) -> None:
        self.handler = handler
        self.own_stages = own_stages
        self.rows = rows
        self.context = context
        self.requests = read_requests(rows, context)
        self.forwards = 0

    def outcomes(self) -> list[Outcome]:
        """Answer every request, whatever happens to its neighbours."""
        try:
            if "preprocess" in self.own_stages:
                return isolate(range(len(self.rows)), self._run_rows)
            return self._by_sample()
        finally:
            self.handler.context = self.context
            self.handler.running = ()

    def _run_rows(self, indices: Sequence[int]) -> Sequence[object]:
        """Send some rows through the handler's own stages."""
        self._show(indices)
        batch = self.handler.preprocess([self.rows[i] for i in indices])
        return self._checked(self.handler.postprocess(self._infer(batch)), len(indices))

    def _by_sample(self) -> list[Outcome]:
        """Decode each request, run all samples, give every request its own outcomes back."""
        decoded = [self._decode(request) for request in self.requests]
        owners = [i for i, own in enumerate(decoded) if isinstance(own, list) for _ in own]
        flat = [s for own in decoded if isinstance(own, list) for s in own]
        outputs = isolate(list(zip(owners, flat)), self._run_samples)
        mine: list[list[Outcome]] = [[] for _ in self.requests]
        for owner, output in zip(owners, outputs):
            mine[owner].append(output)
        return [
            own if isinstance(own, Failed) else self._finish(request, own, got)
            for request, own, got in zip(self.requests, decoded, mine)
        ]

    def _decode(self, request: Request) -> list[Any] | Failed:
        try:
            decoded = self.handler.decode(request)
        except CAUGHT as error:
            return Failed(error, stage="decode")
        if not isinstance(decoded, Samples):
            return [decoded]
        if not decoded:
            return Failed(BadRequestError("the request carries an empty list of samples"))
        return decoded

    def _run_samples(self, items: Sequence[tuple[int, Any]]) -> Sequence[object]:
        own_postprocess = "postprocess" in self.own_stages
        if own_postprocess:
            self._show([owner for owner, _ in items])
        outputs = self._infer(self.handler.collate([sample for _, sample in items]))
        if own_postprocess:
            return self._checked(self.handler.postprocess(outputs), len(items))
        return self.handler.split(outputs, len(items))

    def _finish(self, request: Request, own: list[Any], outputs: list[Outcome]) -> Outcome:
        """Encode one request's outputs: one reply, or a list where it sent `Samples`."""
        several = isinstance(own, Samples)
        for position, output in enumerate(outputs):
            if isinstance(output, Failed):
                return _in_sample(output, position) if several else output
        if "postprocess" not in self.own_stages:
            try:
                outputs = [self.handler.encode(output, request) for output in outputs]
            except CAUGHT as error:
                return Failed(error, stage="encode")
        return outputs if several else outputs[0]

    def _infer(self, batch: Any) -> Any:
        self.forwards += 1
        return self.handler.inference(batch)

    def _show(self, indices: Sequence[int]) -> None:
        """Let the handler see just the requests whose rows are running, numbered from 0."""
        handler = self.handler
        handler.context = part(self.context, indices)
        handler.running = [self.requests[i] for i in indices]

    def _checked(self, results: Any, count: int) -> Sequence[object]:
        if not isinstance(results, (list, tuple)) or len(results) != count:
            what = f"{len(results)} results" if hasattr(results, "__len__") else repr(results)
            raise ModelError(
                f"postprocess gave {what} for {count} requests; return a list of one each"
            )
        return results


def _in_sample(failed: Failed, position: int) -> Failed:
    """Say which of a request's samples failed; the cause stays for the log."""
    error = as_request_error(failed.error, failed.stage)
    told = RequestError(error.status, f"sample {position}: {error.message}")
    told.__cause__ = failed.error
    return Failed(told)
