"""The imports of a pickle, those of the pickles inside of it included."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import BinaryIO

from makemar.archiver.pickle_machine import BadPickle, PickleImport
from makemar.archiver.pickle_walk import Budget, walk_pickle
from makemar.archiver.weight_file import FoundPickle, find_pickles

__all__ = ["PickleScan", "scan_pickle", "scan_row"]

_DEPTH = 8


@dataclass(frozen=True, kw_only=True)
class PickleScan:
    """The imports of a pickle and of the pickles inside of it, sorted.

    `problem` is empty, or says why it could not be followed to its end; `protocol` is the pickle
    protocol that it names, 0 if it names none.
    """

    imports: tuple[PickleImport, ...]
    protocol: int
    problem: str


def scan_pickle(source: BinaryIO | bytes) -> PickleScan:
    """Return what unpickling one pickle would import; it is not unpickled.

    A stream has to be seekable, is read from where it stands, and then stands after the pickle.
    Ten million opcodes are followed, those of pickles inside of it included.
    """
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    return _scan(stream, Budget(), depth=0)


def scan_row(found: FoundPickle, budget: Budget) -> PickleScan:
    """Scan one pickle after the other; what follows the first need not be one."""
    first = _scan(found.stream, budget, depth=0)
    imports, last = set(first.imports), first
    for _ in range(found.row - 1):
        if last.problem or not found.stream.read(1):
            break
        found.stream.seek(-1, 1)
        last = _scan(found.stream, budget, depth=0)
        imports |= set(last.imports)
    return PickleScan(
        imports=tuple(sorted(imports)),
        protocol=first.protocol,
        problem=first.problem or budget.exceeded,
    )


def _scan(stream: BinaryIO, budget: Budget, *, depth: int) -> PickleScan:
    walk = walk_pickle(stream, budget)
    imports, problem = set(walk.imports), walk.problem
    if walk.inner and depth == _DEPTH:
        budget.exceeded = "it has too many pickles in one another"
    for data in walk.inner if depth < _DEPTH else ():
        inner = _scan_inside(data, budget, depth + 1)
        imports |= set(inner.imports)
        problem = problem or inner.problem
    problem = problem or budget.exceeded
    return PickleScan(imports=tuple(sorted(imports)), protocol=walk.protocol, problem=problem)


def _scan_inside(data: bytes, budget: Budget, depth: int) -> PickleScan:
    """Scan what looks like a pickle inside of one; it need not be one."""
    imports: set[PickleImport] = set()
    problem = ""
    try:
        for found in find_pickles(io.BytesIO(data), ""):
            scan = _scan(found.stream, budget, depth=depth)
            imports |= set(scan.imports)
            problem = problem or scan.problem
    except BadPickle as error:
        problem = str(error)
    # Numbers may begin like a pickle by chance, and then break off without any import.
    told = problem if imports else ""
    return PickleScan(imports=tuple(sorted(imports)), protocol=0, problem=told)
