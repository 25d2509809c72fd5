"""Waiting for workers: ready, failed, or late."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from makemar.errors import ServingError, WorkersFailedError
from makemar.serving.descriptions import ModelDescription
from makemar.serving.log_file import LogReader
from makemar.serving.worker_log import WorkerFault, count_failures, find_fault

__all__ = ["WorkerWatch", "await_workers"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.25  # seconds between two polls
_STARTS_WITHOUT_WORDS = 3  # failed starts after which no traceback is to be expected
_TOLD_LINES = 12  # of a traceback, at its end


@dataclass
class WorkerWatch:
    """Remembers what the workers of one model version did since the watch began at `mark`.

    The management API never says that a worker failed: it is UNLOADING before, during and after.
    So a failure is read from the server's log when there is one at hand, and else from a worker's
    process id, which changes when the server tries again.
    """

    log: LogReader | None = None
    mark: int = 0
    _pids: dict[str, set[int]] = field(default_factory=dict)
    _told: str = ""  # what the log has of this version's workers so far

    @classmethod
    def from_now(cls, log: LogReader | None) -> WorkerWatch:
        """Begin a watch that looks at nothing older than this moment."""
        return cls(log, log.mark() if log is not None else 0)

    def failure(self, model: ModelDescription) -> tuple[str, WorkerFault | None] | None:
        """Say whether a worker failed for good: how it is told, and its exception if known."""
        log = self._read_on(model)
        for worker in model.workers:
            if worker.ready:
                self._pids.pop(worker.id, None)
                continue
            if worker.pid > 0:
                self._pids.setdefault(worker.id, set()).add(worker.pid)
            failures = count_failures(log, worker.id)
            fault = find_fault(log, worker.id) if failures else None
            if fault is not None:
                return str(fault), fault
            if failures >= _STARTS_WITHOUT_WORDS:
                return "its process ends without a traceback", None
            # A log that is here, but silent, is no reason to wait for the deadline.
            if not failures and len(self._pids.get(worker.id, ())) > 1:
                return "its process ends; the reason is in the server's model_log.log", None
        return None

    def last_words(self, model: ModelDescription) -> WorkerFault | None:
        """Look for an exception of a worker that is not ready, however often it was started."""
        log = self._read_on(model)
        faults = (find_fault(log, worker.id) for worker in model.workers if not worker.ready)
        return next((fault for fault in faults if fault is not None), None)

    def _read_on(self, model: ModelDescription) -> str:
        """Read what the log has got since the last look: other models may fill it meanwhile."""
        if self.log is not None:
            text, self.mark = self.log.read_on(self.mark)
            title = f"{model.name}_{model.version}"
            # Java may write other letters as it likes.
            tag = f"-{title}" if title.isascii() else " W-"
            self._told += "".join(f"{line}\n" for line in text.split("\n") if tag in line)
        return self._told


def await_workers(
    describe: Callable[[], ModelDescription],
    minimum: int | None = None,
    maximum: int | None = None,
    *,
    wait: float,
    watch: WorkerWatch,
    url: str,
) -> ModelDescription:
    """Look again and again until enough workers are READY, and no more than `maximum` are there.

    `minimum` is the model's own min_workers when None. Raises WorkersFailedError as soon as a
    worker is known to have failed, or after `wait` seconds.
    """
    deadline = time.monotonic() + wait
    pause = _FIRST_PAUSE
    while True:
        model = describe()
        wanted = model.min_workers if minimum is None else minimum
        if model.ready_workers >= wanted and (maximum is None or len(model.workers) <= maximum):
            return model
        failure = watch.failure(model)
        if failure is not None:
            raise _failed(model, *failure, url=url)
        if time.monotonic() >= deadline:
            why = f"{model.ready_workers} of {wanted} workers are READY after {wait:g} s"
            raise _failed(model, why, watch.last_words(model), url=url)
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def _failed(
    model: ModelDescription, why: str, fault: WorkerFault | None, *, url: str
) -> ServingError:
    """Write the error: one line, and the end of the worker's own traceback beside it."""
    return WorkersFailedError(
        f"model {model.name!r} version {model.version}: a worker did not come up: {why}; correct "
        "the archive and register it again",
        status=500,
        url=url,
        traceback=() if fault is None else fault.lines(_TOLD_LINES),
    )
