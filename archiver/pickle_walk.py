"""The imports of a pickle, found by following its opcodes: nothing is unpickled or imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

from makemar.archiver.joblib_opcodes import WRAPPER, make_joblib_steps
from makemar.archiver.pickle_machine import BadPickle, PickleImport, PickleMachine
from makemar.archiver.pickle_names import is_dangerous
from makemar.archiver.pickle_opcodes import STEPS, UNKNOWN, Step

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
    count, for they would have been made. The arrays that joblib puts between opcodes are passed
    over as joblib reads them.
    """
    start = stream.tell()
    walk = _walk(stream, budget, STEPS)
    if WRAPPER not in walk.imports:
        return walk
    stream.seek(start)
    theirs = _walk(stream, budget, make_joblib_steps(lambda machine: _run_inner(machine, budget)))
    # Nobody has to read it with joblib. Read without, arrays are taken for opcodes, and what those
    # import is mostly made up; names that run code are not.
    unsafe = {found for found in walk.imports - {UNKNOWN} if is_dangerous(found)}
    return replace(theirs, imports=theirs.imports | unsafe, inner=walk.inner + theirs.inner)


def _walk(stream: BinaryIO, budget: Budget, steps: Mapping[bytes, Step]) -> PickleWalk:
    machine = PickleMachine(stream)
    problem = ""
    try:
        _run(machine, budget, steps)
    except BadPickle as error:
        problem = str(error)
    return PickleWalk(
        imports=frozenset(machine.imports),
        inner=tuple(machine.inner),
        protocol=machine.protocol,
        problem=problem,
    )


def _run_inner(machine: PickleMachine, budget: Budget) -> None:
    """Follow a pickle in the middle of another one, in whose stream it is."""
    walk = _walk(machine.stream, budget, STEPS)
    machine.imports |= walk.imports
    for data in walk.inner:
        machine.keep_inner(data)
    if walk.problem:
        raise BadPickle(walk.problem)


def _run(machine: PickleMachine, budget: Budget, steps: Mapping[bytes, Step]) -> None:
    read = machine.stream.read
    while budget.left > 0:
        budget.left -= 1
        code = read(1)
        if code == b".":
            machine.pop(1)
            return
        step = steps.get(code)
        if step is None:
            raise BadPickle(f"{code!r} is no opcode" if code else "it ends too early")
        step(machine)
    budget.exceeded = "it has more opcodes than are followed"
    raise BadPickle(budget.exceeded)
