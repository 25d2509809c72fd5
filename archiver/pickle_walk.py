"""The imports of a pickle, found by following its opcodes: nothing is unpickled or imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from makemar.archiver.pickle_machine import BadPickle, PickleImport, PickleMachine
from makemar.archiver.pickle_opcodes import STEPS

__all__ = ["Budget", "PickleWalk", "walk_pickle"]


@dataclass(kw_only=True)
class Budget:
    """What may still be spent on a pickle and all those that are inside of it.

    `left` is a number of opcodes; `exceeded` is what there was too much of, if there was.
    """

    left: int = 10_000_000
    exceeded: str = ""


@dataclass(frozen=True, kw_only=True)
class PickleWalk:
    """What one pickle was seen to do; `problem` says why it could not be followed to its end.

    `inner` are bytes in it that look like pickles themselves.
    """

    imports: frozenset[PickleImport]
    inner: tuple[bytes, ...]
    protocol: int
    problem: str


def walk_pickle(stream: BinaryIO, budget: Budget) -> PickleWalk:
    """Follow one pickle from where a seekable stream stands to just after its STOP.

    Stack, marks and memo are kept as the unpickler keeps them, frames are passed over as it passes
    them over, and what makes it raise ends the walk with a `problem`; the imports up to there
    count, for they would have been made.
    """
    machine = PickleMachine(stream)
    problem = ""
    try:
        _run(machine, budget)
    except BadPickle as error:
        problem = str(error)
    return PickleWalk(
        imports=frozenset(machine.imports),
        inner=tuple(machine.inner),
        protocol=machine.protocol,
        problem=problem,
    )


def _run(machine: PickleMachine, budget: Budget) -> None:
    read = machine.stream.read
    while budget.left > 0:
        budget.left -= 1
        code = read(1)
        if code == b".":
            machine.pop(1)
            return
        step = STEPS.get(code)
        if step is None:
            raise BadPickle(f"{code!r} is no opcode" if code else "it ends too early")
        step(machine)
    budget.exceeded = "it has more opcodes than are followed"
    raise BadPickle(budget.exceeded)
