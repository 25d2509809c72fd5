"""From a batch of rows to one sendable body per row, with its record in log and metrics."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from makemar.handlers.device import end_worker
from makemar.handlers.engine import BatchRun, Outcome, Stages
from makemar.handlers.errors import RequestError
from makemar.handlers.exchange import ReplySnapshot, read_requests, send, take_reply
from makemar.handlers.failures import Failed, let_interrupt_through
from makemar.handlers.reply import Reply, error_reply, render
from makemar.handlers.request import Request
from makemar.handlers.settings import HandlerSettings
from makemar.handlers.statistics import BatchStatistics

__all__ = ["answer_batch"]

logger = logging.getLogger(__name__)


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
    replies = [_reply(o, r, context, limit) for o, r in zip(run.outcomes(), requests)]
    statistics.failed = sum([reply.status >= 400 for reply in replies])
    _record(statistics, context, handler.settings)
    _end_if_lost(handler)
    return [send(reply, context, index) for index, reply in enumerate(replies)]


def _reply(outcome: Outcome, request: Request, context: Any, limit: int) -> Reply:
    """Turn one request's outcome into a reply that TorchServe can send."""
    value = take_reply(outcome, context, request.index)
    if not isinstance(outcome, Failed):
        try:
            return render(value, max_bytes=limit)
        except BaseException as error:  # noqa: BLE001  (a sparse tensor in a reply, say, has its own way to fail)
            let_interrupt_through(error)
            outcome = Failed(error, stage="encode")
    told = outcome.told()
    _log_failure(request, outcome, told)
    return error_reply(told, request.id)


def _log_failure(request: Request, outcome: Failed, told: RequestError) -> None:
    """Log what the client was told; with the traceback when the handler did not choose it."""
    logger.log(
        logging.INFO if told.status < 500 else logging.ERROR,
        "request %s answered %d: %s",
        request.id,
        told.status,
        told.message,
        exc_info=None if outcome.is_chosen else outcome.error,
    )


def _record(statistics: BatchStatistics, context: Any, settings: HandlerSettings) -> None:
    # A line costs a small batch a tenth of its time here, and the server more when it copies it.
    if settings.log_batches or statistics.eventful:
        logger.info("%s", statistics.line())
    metrics = getattr(context, "metrics", None)
    if settings.metrics and metrics is not None:
        statistics.emit(metrics)


def _end_if_lost(handler: Stages) -> None:
    forwards = handler.forwards
    if forwards.lost and not forwards.ending:
        forwards.ending = True
        end_worker(forwards.lost)
