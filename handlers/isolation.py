"""Bisection: run many items as one, and when that fails find out which of them is to blame.

With one poisonous item among n, at most 1 + 2·log2(n) runs are made: 11 for 32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, TypeVar

from makemar.handlers.failures import Failed, let_interrupt_through

__all__ = ["halve", "isolate"]

Item = TypeVar("Item")
Output = TypeVar("Output")


def halve(error: BaseException, count: int) -> int:  # noqa: ARG001
    """Divide a failed part of `count` items into two."""
    return (count + 1) // 2


def isolate(
    items: Sequence[Item],
    run: Callable[[Sequence[Item]], Sequence[Output]],
    *,
    divide: Callable[[BaseException, int], int] = halve,
) -> list[Output | Failed]:
    """Return one outcome per item, in order: what `run` gave for it, or why it failed.

    `run` takes a part of `items` and returns as many outputs; it is called again on pieces of
    whatever part it failed on, so it must be safe to repeat. `divide(error, count)` is told of
    every failure and says how many items the pieces have.
    """
    outcomes: list[Output | Failed] = [None] * len(items)  # type: ignore[list-item]
    pending = [(0, len(items))] if items else []
    while pending:
        start, stop = pending.pop()
        try:
            outputs = run(items[start:stop])
        except BaseException as error:  # noqa: BLE001
            let_interrupt_through(error)
            size = divide(error, stop - start)
            if stop - start == 1:
                outcomes[start] = Failed(error)
                continue
            pieces = [(i, min(i + size, stop)) for i in range(start, stop, size)]
            pending += reversed(pieces)
        else:
            outcomes[start:stop] = outputs
    return outcomes
