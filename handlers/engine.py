"""One batch on its way through a handler: decoded, flattened, run, regrouped, encoded.

A handler that keeps the default `preprocess` is run sample by sample: what cannot be decoded never
reaches the model, and a failing forward is bisected over samples. A handler with a `preprocess` of
its own (TorchServe's way) sees whole rows, and is bisected over rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any, Callable, Protocol, Union

from makemar.handlers.codecs import check_count, check_size
from makemar.handlers.counts import checked
from makemar.handlers.decoding import Decoding
from makemar.handlers.exchange import ReplySnapshot, forget, part
from makemar.handlers.failures import Failed, let_interrupt_through
from makemar.handlers.forwards import Forwards
from makemar.handlers.request import Request, Samples
from makemar.handlers.settings import HandlerSettings
from makemar.handlers.statistics import BatchStatistics

__all__ = ["BatchRun", "Outcome", "Stages"]

Rows = Sequence[Mapping[str, object]]
Outcome = Union[object, Failed]


class Stages(Protocol):
    """What the engine needs of a handler: TorchServe's stages and the hooks between them."""

    context: Any
    running: Sequence[Request]
    settings: HandlerSettings

    @property
    def decoding(self) -> Decoding: ...
    @property
    def forwards(self) -> Forwards: ...
    def preprocess(self, data: Rows) -> Any: ...
    def inference(self, data: Any) -> Any: ...
    def postprocess(self, data: Any) -> Sequence[object]: ...
    def decode(self, request: Request) -> Any: ...
    def length(self, sample: Any) -> int | None: ...
    def collate(self, samples: Sequence[Any]) -> Any: ...
    def split(self, outputs: Any, count: int) -> list[Any]: ...
    def encode(self, output: Any, request: Request) -> object: ...
    def assemble(self, results: Sequence[object], request: Request, *, several: bool) -> object: ...
    def explain(self, request: Request) -> object: ...


class BatchRun:
    """Run the rows of one batch; `outcomes()` holds one result or failure per request, in order.

    `own_stages` names the whole-batch stages that the handler's class defines itself; `whole` is
    a `handle` of its own, which takes rows and returns one result each. `before` holds what such a
    `handle` had set for the replies when it called ours.
    """

    def __init__(
        self,
        handler: Stages,
        rows: Rows,
        requests: Sequence[Request],
        *,
        own_stages: frozenset[str],
        whole: Callable[[Rows], Any] | None,
        statistics: BatchStatistics,
        before: ReplySnapshot | None = None,
    ) -> None:
        self.handler = handler
        self.rows = rows
        self.requests = requests
        self.context = handler.context
        self.own_stages = own_stages
        self.own_handle = whole is not None
        self.whole = whole or (self._stages if "preprocess" in own_stages else None)
        self.statistics = statistics
        self.before = before
        # The positions, of samples or of rows, that were in a run that failed.
        self._failed: set[int] = set()

    def outcomes(self) -> list[Outcome]:
        """Answer every request, whatever happens to its neighbours.

        A batch may mix predictions and explanations; each is answered as its own kind.
        """
        explanations = [r for r in self.requests if r.explain]
        predictions = [r for r in self.requests if not r.explain] if explanations else self.requests
        try:
            if self.whole is not None:
                results = self._by_row(self.whole, predictions)
            else:
                results = self._by_sample(predictions)
            if not explanations:
                return results
            outcomes = {r.index: result for r, result in zip(predictions, results)}
            outcomes.update({r.index: self._explain(r) for r in explanations})
            return [outcomes[r.index] for r in self.requests]
        finally:
            self._show(self.requests)

    def _explain(self, request: Request) -> Outcome:
        self._show([request])
        try:
            # By class: TorchServe's own handlers keep a flag called `explain` on the instance.
            return type(self.handler).explain(self.handler, self.handler.running[0])
        except BaseException as error:  # noqa: BLE001
            let_interrupt_through(error)
            return Failed(error)

    def _by_row(self, whole: Callable[[Rows], Any], requests: Sequence[Request]) -> list[Outcome]:
        """Send whole rows through code that takes nothing less."""

        def run(positions: Sequence[int]) -> Sequence[object]:
            part = [requests[i] for i in positions]
            self._show_clean(part, positions)
            rows = [self.rows[r.index] for r in part]
            try:
                results = self._timed(whole, rows) if self.own_handle else whole(rows)
                return checked(results, len(part))
            except BaseException:
                self._failed.update(positions)
                raise

        self.statistics.samples += len(requests)
        return self.handler.forwards.run(
            requests,
            run,
            length=None,
            limits=self.handler.settings,
            statistics=self.statistics,
        )

    def _stages(self, rows: Rows) -> Any:
        return self.handler.postprocess(
            self._timed(self.handler.inference, self.handler.preprocess(rows))
        )

    def _by_sample(self, requests: Sequence[Request]) -> list[Outcome]:
        """Decode each request, run all samples, give every request its own outcomes back."""
        self._show(self.requests)
        self.statistics.lap()
        decoded = self.handler.decoding.each(self._decode, requests)
        self.statistics.decode_ms += self.statistics.lap()
        if "postprocess" in self.own_stages:
            # What `decode` set for a reply outlives a run of the stages that fails.
            self.before = ReplySnapshot(self.context)
        lists = [[] if isinstance(own, Failed) else own for own in decoded]
        outputs = iter(self._run_samples(requests, lists))
        mine = [[next(outputs) for _ in own] for own in lists]
        self._show(self.requests)
        self.statistics.lap()
        finished = [
            own if isinstance(own, Failed) else self._finish(request, own, got)
            for request, own, got in zip(requests, decoded, mine)
        ]
        self.statistics.encode_ms += self.statistics.lap()
        return finished

    def _decode(self, request: Request) -> Any:
        check_size(request, self.handler.settings)
        decoded = self.handler.decode(request)
        if isinstance(decoded, Samples):
            check_count(len(decoded), self.handler.settings)
        return decoded

    def _run_samples(
        self, requests: Sequence[Request], lists: Sequence[Sequence[Any]]
    ) -> list[Outcome]:
        """Run the samples of all requests; return one outcome per sample, in order."""
        samples = [sample for own in lists for sample in own]
        owners = [request for request, own in zip(requests, lists) for _ in own]
        self.statistics.samples += len(samples)

        def forward(positions: Sequence[int]) -> Sequence[object]:
            if "postprocess" in self.own_stages:
                self._show_clean([owners[i] for i in positions], positions)
            try:
                return self._run_chunk([samples[i] for i in positions])
            except BaseException:
                self._failed.update(positions)
                raise

        return self.handler.forwards.run(
            samples,
            forward,
            length=self.handler.length,
            limits=self.handler.settings,
            statistics=self.statistics,
            owners=owners,
        )

    def _run_chunk(self, samples: Sequence[Any]) -> Sequence[object]:
        if "postprocess" not in self.own_stages:
            outputs = self._timed(self.handler.inference, self.handler.collate(samples))
            return checked(self.handler.split(outputs, len(samples)), len(samples), "split")
        outputs = self._timed(self.handler.inference, self.handler.collate(samples))
        return checked(self.handler.postprocess(outputs), len(samples))

    def _timed(self, forward: Callable[[Any], Any], batch: Any) -> Any:
        self.statistics.forwards += 1
        self.statistics.lap()
        try:
            return forward(batch)
        finally:
            self.statistics.forward_ms += self.statistics.lap()

    def _finish(self, request: Request, own: Sequence[Any], outputs: list[Outcome]) -> Outcome:
        """Encode one request's outputs: one reply, or a list where it sent `Samples`."""
        several = isinstance(own, Samples)
        for position, output in enumerate(outputs):
            if isinstance(output, Failed):
                return output.in_sample(position) if several else output
        if "postprocess" in self.own_stages:
            return outputs if several else outputs[0]
        try:
            results = [self.handler.encode(output, request) for output in outputs]
            return self.handler.assemble(results, request, several=several)
        except BaseException as error:  # noqa: BLE001
            let_interrupt_through(error)
            return Failed(error, stage="encode")

    def _show(self, requests: Sequence[Request]) -> None:
        """Let the handler see just these requests, numbered from 0."""
        if len(requests) == len(self.requests) and all(map(is_, requests, self.requests)):
            self.handler.context, self.handler.running = self.context, self.requests
            return
        self.handler.context = part(self.context, [request.index for request in requests])
        self.handler.running = [r.renumbered(new) for new, r in enumerate(requests)]

    def _show_clean(self, requests: Sequence[Request], positions: Sequence[int]) -> None:
        """Show some requests to a stage; what a run that failed had set for them is forgotten.

        A request may have samples in several forwards, and keeps what was set in those that went
        well.
        """
        if self._failed and not self._failed.isdisjoint(positions):
            restore = self.before.restore if self.before is not None else forget
            for request in requests:
                restore(self.context, request.index)
        self._show(requests)
