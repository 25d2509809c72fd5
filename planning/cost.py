"""The cost of a batch: T(B) = c + m·B, and what follows from it.

c seconds are paid once per forward (kernel launches, transfers, framework), m seconds for every
sample in it. Batching deletes all but one of the c; it can never delete an m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from makemar.errors import PlanError

__all__ = ["CostModel"]


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """Hold c and m, both in seconds; m > 0, c >= 0.

    Raises `PlanError` for a cost that no model can have: a sample never saves time.
    """

    c: float
    m: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.c) or self.c < 0:
            raise PlanError(f"c is {self.c!r} s; the fixed cost of a forward is finite and >= 0")
        if not math.isfinite(self.m) or self.m <= 0:
            raise PlanError(f"m is {self.m!r} s; the cost of one more sample is finite and > 0")

    @property
    def ceiling(self) -> float:
        """Return the speedup that no batch size reaches: 1 + c/m, the limit of S(B)."""
        return 1 + self.c / self.m

    @property
    def throughput_limit(self) -> float:
        """Return the requests per second that no batch size reaches on one instance: 1/m."""
        return 1 / self.m

    def serial_time(self, batch: int) -> float:
        """Return the seconds that `batch` samples take one by one: B·(c + m)."""
        return _size(batch) * (self.c + self.m)

    def batch_time(self, batch: int) -> float:
        """Return the seconds that `batch` samples take in one forward: c + B·m."""
        return self.c + _size(batch) * self.m

    def speedup(self, batch: int) -> float:
        """Return S(B) = B·(c + m) / (c + B·m): how many times faster than one by one."""
        return self.serial_time(batch) / self.batch_time(batch)

    def throughput(self, batch: int, *, instances: int = 1) -> float:
        """Return requests per second of busy instances: N·B / (c + B·m)."""
        return _size(instances, what="instances") * batch / self.batch_time(batch)


def _size(value: int, *, what: str = "batch size") -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PlanError(f"{what} is {value!r}; it counts whole things, so an integer >= 1")
    return value
