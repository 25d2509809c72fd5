"""Where a worker's cold start went."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["WorkerTimes", "warm_up_ms"]

_WARM_UP = re.compile(r"^warmup batch=\d+ first_call_ms=([\d.]+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class WorkerTimes:
    """Milliseconds from the archive to the first answer; None is what did not happen or is unknown.

    `start` is the process until it listens: Python, TorchServe and torch. `load` is the handler's
    imports and `initialize` together: the worker tells nothing in between. `warm_up` is the part of
    `load` in which makemar's handlers ran the model; other handlers do not tell. `first_answer`
    is the first batch, of whatever size.
    """

    unpack_ms: float | None
    start_ms: float
    load_ms: float
    warm_up_ms: float | None
    first_answer_ms: float | None = None

    @property
    def total_ms(self) -> float:
        """All of it; `warm_up` is in `load` already."""
        return (self.unpack_ms or 0) + self.start_ms + self.load_ms + (self.first_answer_ms or 0)


def warm_up_ms(output: str) -> float | None:
    """Add up what makemar's handlers logged of their warm-up, in ms; None if they did not."""
    found = [float(text) for text in _WARM_UP.findall(output)]
    return round(sum(found), 1) if found else None
