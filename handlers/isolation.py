"""Bisection: run many items as one, and when that fails find out which of them is to blame.

With one poisonous item among n, at most 1 + 2·log2(n) runs are made: 11 for 32. Items may belong
together: once one of them has failed alone, the others of its owner need no run any more.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Callable, TypeVar

from makemar.handlers.failures import Failed, let_interrupt_through

__all__ = ["Owners", "halve", "isolate"]

Item = TypeVar("Item")
Output = TypeVar("Output")


def halve(error: BaseException, count: int) -> int:  # noqa: ARG001
    """Divide a failed part of `count` items into two."""
    return (count + 1) // 2


class Owners:
    """Whose each position is, and which owners have failed already.

    A request is answered with an error as soon as one of its samples has failed. To look for all
    others too would cost two forwards for each, while its neighbours wait: 20,003 for one request
    with 10,000 bad samples.
    """

    def __init__(self, owners: Sequence[Hashable]) -> None:
        self._owners = owners
        self._failed: dict[Hashable, Failed] = {}

    @property
    def have_failed(self) -> bool:
        """Tell whether any owner has; in most batches none has."""
        return bool(self._failed)

    def failure(self, position: int) -> Failed | None:
        """Return what has decided this position's outcome without a run of its own."""
        return self._failed.get(self._owners[position])

    def failed(self, position: int, failure: Failed) -> Failed:
        """Note that a position failed alone; return its outcome, which knows its place then."""
        owner = self._owners[position]
        failure.sample = list(self._owners[:position]).count(owner)
        return self._failed.setdefault(owner, failure)


def isolate(
    positions: Sequence[int],
    run: Callable[[Sequence[int]], Sequence[Output]],
    *,
    divide: Callable[[BaseException, int], int] = halve,
    owners: Owners | None = None,
) -> list[Output | Failed]:
    """Return one outcome per position, in order: what `run` gave for it, or why it failed.

    `run` takes some of the positions and returns as many outputs; it is called again on pieces of
    whatever part it failed on, so it must be safe to repeat. `divide(error, count)` is told of
    every failure and says how many positions the pieces have. A position whose owner has failed
    gets that failure, and is left out of every later run; without `owners` each is on its own.
    """
    outcomes: dict[int, Output | Failed] = {}
    pending = [positions] if positions else []
    while pending:
        piece = pending.pop()
        if owners is not None and owners.have_failed:
            piece = _undecided(piece, owners, outcomes)
            if not piece:
                continue
        try:
            outputs = run(piece)
        except BaseException as error:  # noqa: BLE001
            let_interrupt_through(error)
            size = divide(error, len(piece))
            if len(piece) == 1:
                alone = piece[0]
                failure = Failed(error)
                outcomes[alone] = failure if owners is None else owners.failed(alone, failure)
                continue
            pieces = [piece[i : i + size] for i in range(0, len(piece), size)]
            pending += reversed(pieces)
        else:
            outcomes.update(zip(piece, outputs))
    return [outcomes[position] for position in positions]


def _undecided(
    piece: Sequence[int], owners: Owners, outcomes: dict[int, Output | Failed]
) -> Sequence[int]:
    """Return what is left to run of a piece; what is decided already goes to `outcomes`."""
    left = []
    for position in piece:
        failure = owners.failure(position)
        if failure is None:
            left.append(position)
        else:
            outcomes[position] = failure
    return left
