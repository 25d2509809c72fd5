"""From a batch of rows to one sendable body per row, with its record in log and metrics."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Protocol

from makemar.handlers.device import end_worker, is_sticky
from makemar.handlers.engine import BatchRun, Outcome, Stages
from makemar.handlers.errors import RequestError
from makemar.handlers.exchange import (
    ReplySnapshot,
    forget,
    read_requests,
    send,
    take_reply,
)
from makemar.handlers.failures import Failed, let_interrupt_through
from makemar.handlers.reply import Reply, error_reply, render
from makemar.handlers.request import Request
from makemar.handlers.settings import HandlerSettings
from makemar.handlers.statistics import BatchStatistics

__all__ = ["answer_batch", "describe"]

logger = logging.getLogger(__name__)


class Describing(Protocol):
    """What describes its own input and output."""

    settings: HandlerSettings

    def describe(self) -> Mapping[str, object]: ...


def answer_batch(
    handler: Stages,
    rows: Sequence[Mapping[str, object]],
    context: Any,
    *,
    own_stages: frozenset[str] = frozenset(),
    inside: bool = False,
    whole: Callable[[Sequence[Mapping[str, object]]], Any] | None = None,
) -> list[bytes]:
    """Answer every row of a batch; `context` gets each one's status, type and headers.

    `own_stages` names the stages that the handler's class wrote itself; `whole` is its own
    `handle`, if it has one; `inside` says that such a one is calling.
    """
    statistics = BatchStatistics(len(rows))
    requests = read_requests(rows, context)
    run = BatchRun(
        handler,
        rows,
        requests,
        own_stages=own_stages,
        whole=whole,
        statistics=statistics,
        before=ReplySnapshot(context) if inside else None,
    )
    limit = handler.settings.max_response_bytes
    outcomes = run.outcomes()
    replies = [_reply(o, r, context, limit) for o, r in zip(outcomes, requests)]
    statistics.failed = sum([reply.status >= 400 for reply in replies])
    _record(statistics, context, handler.settings)
    if statistics.failed:
        _end_if_lost(handler, outcomes)
    return [send(reply, context, index) for index, reply in enumerate(replies)]


def describe(handler: Describing, context: Any) -> bytes:
    """Answer TorchServe's describe job, which comes alone."""
    request = Request({}, request_id=context.get_request_id(0))
    try:
        outcome: Outcome = handler.describe()
    except BaseException as error:  # noqa: BLE001
        let_interrupt_through(error)
        outcome = Failed(error, stage="encode")
    return send(_reply(outcome, request, context, handler.settings.max_response_bytes), context, 0)


def _reply(outcome: Outcome, request: Request, context: Any, limit: int) -> Reply:
    """Turn one request's outcome into a reply that TorchServe can send."""
    try:
        value = take_reply(outcome, context, request.index)
        if not isinstance(outcome, Failed):
            return render(value, max_bytes=limit)
    except BaseException as error:  # noqa: BLE001  (a sparse tensor in a reply, say, has its own way to fail)
        let_interrupt_through(error)
        forget(context, request.index)
        if not isinstance(outcome, Failed):
            outcome = Failed(error, stage="encode")
    told = outcome.told()
    _log_failure(request, outcome, told)
    return error_reply(told, request.id, max_bytes=limit)


def _log_failure(request: Request, outcome: Failed, told: RequestError) -> None:
    """Log what the client was told; with the traceback when the handler did not choose it."""
    logger.log(
        logging.INFO if told.status < 500 else logging.ERROR,
        "request %s answered %d: %s%s",
        request.id,
        told.status,
        told.message,
        "" if outcome.is_chosen else f"\n{outcome.trace()}",
    )


def _record(statistics: BatchStatistics, context: Any, settings: HandlerSettings) -> None:
    # A line costs a small batch a tenth of its time here, and the server more when it copies it.
    if settings.log_batches or statistics.eventful:
        logger.info("%s", statistics.line())
    metrics = getattr(context, "metrics", None) if settings.metrics else None
    if metrics is not None:
        try:
            statistics.emit(metrics)
        except Exception:
            logger.exception("the metrics of a batch could not be sent")


def _end_if_lost(handler: Stages, outcomes: Sequence[Outcome]) -> None:
    """End the worker whose device is lost; it may show first where outputs are looked at."""
    forwards = handler.forwards
    for outcome in outcomes:
        if isinstance(outcome, Failed) and not forwards.lost and is_sticky(outcome.error):
            forwards.lose(outcome.error)
    if forwards.lost and not forwards.ending:
        forwards.ending = True
        end_worker(forwards.lost)
