"""A worker under examination: what is sent to it, and what its replies say about it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from makemar.errors import ServingError
from makemar.serving.check_report import Breach, Contract
from makemar.serving.comparison import find_reply_difference
from makemar.serving.corruption import corrupted_copies
from makemar.serving.golden import golden_path, read_golden
from makemar.serving.verdict import find_wrong, without_id
from makemar.serving.worker import Worker
from makemar.serving.worker_messages import WorkerReply, WorkerRequest

__all__ = ["CheckInput", "Examination", "WorkerLostError", "planned_batches", "planned_sizes"]


@dataclass(frozen=True, kw_only=True)
class CheckInput:
    """One body to send, under the name that breaches call it by."""

    name: str
    body: bytes = field(repr=False)
    content_type: str = ""


class WorkerLostError(Exception):
    """The worker has ended; the breach is noted, and nothing more can be asked."""


def planned_sizes(batch_size: int) -> tuple[int, ...]:
    """Return the batch sizes to try: the powers of two below `batch_size`, and itself."""
    return tuple(sorted({1 << i for i in range(batch_size.bit_length())} | {batch_size}))


def planned_batches(inputs: int, size: int) -> Iterator[tuple[int, ...]]:
    """Yield batches of that size in which each input comes first once; the others follow it."""
    for first in range(inputs):
        yield tuple((first + place) % inputs for place in range(size))


class Examination:
    """Asks a worker, compares, and takes down each contract's verdict and each breach."""

    def __init__(
        self,
        worker: Worker,
        inputs: Sequence[CheckInput],
        *,
        tolerance: float,
        sizes: Sequence[int],
    ) -> None:
        self._worker, self._inputs, self._tolerance = worker, inputs, tolerance
        self._sizes = sizes
        self._alone: dict[CheckInput, WorkerReply] = {}
        self.verdicts: dict[Contract, bool | None] = dict.fromkeys(Contract)
        self.breaches: list[Breach] = []
        self.notes: list[str] = []

    @property
    def answers(self) -> dict[CheckInput, WorkerReply]:
        """The answers of the inputs alone, as far as they were good and twice the same."""
        return dict(self._alone)

    def ask_alone(self) -> None:
        """Ask with each input alone, twice."""
        self._begin(Contract.LIFE, Contract.ANSWER)
        for item in self._inputs:
            first, second = (self._ask([item])[0] for _ in range(2))
            if wrong := find_wrong(first):
                self._note(Contract.ANSWER, item.name, 1, wrong)
                continue
            self._begin(Contract.STABILITY)
            if wrong := find_wrong(second) or self._difference(first, second):
                self._note(Contract.STABILITY, item.name, 1, wrong)
            else:
                self._alone[item] = first

    def ask_in_batches(self) -> None:
        """Ask with every input at many places beside every other; answers must stay the same."""
        known = list(self._alone)
        for size in self._sizes[1:] if known else ():
            self._begin(Contract.INVARIANCE)
            for chosen in planned_batches(len(known), size):
                batch = [known[i] for i in chosen]
                self._compare(Contract.INVARIANCE, batch, self._ask(batch))

    def measure(self, repeats: int) -> dict[int, float]:
        """Return the median time in ms of a batch of each size; the first of each was asked."""
        known, taken = list(self._alone), {}
        for size in self._sizes if known else ():
            batch = [known[i % len(known)] for i in range(size)]
            taken[size] = round(statistics.median(self._time(batch) for _ in range(repeats)), 3)
        return taken

    def spoil(self) -> None:
        """Put a corrupted copy among good inputs: it must fail, alone, and change no answer."""
        kinds = {item.content_type: item for item in reversed(self._alone)}
        refused = False
        for item in reversed(kinds.values()):
            for what, body in corrupted_copies(item.body):
                bad = replace(item, name=f"{item.name} {what}", body=body)
                # What the handler takes, alone, is no bad input.
                if self._sizes[1:] and not self._ask([bad])[0].ok:
                    refused = True
                    for size in self._sizes[1:]:
                        self._begin(Contract.ISOLATION)
                        self._spoil_batch(bad, size)
        if kinds and self._sizes[1:] and not refused:
            self.notes.append(
                "isolation was not looked at: the handler takes halves, noise and nothing for input"
            )

    def compare_golden(self, folder: Path) -> None:
        """Compare the answers with the golden replies of a folder."""
        self._begin(Contract.GOLDEN)
        for item, reply in self._alone.items():
            path = golden_path(folder, item.name)
            golden = read_golden(path)
            if golden is None:
                wrong = f"there is no {path}; write it with --update"
            else:
                wrong = find_reply_difference(golden, reply, self._tolerance)
            if wrong:
                self._note(Contract.GOLDEN, item.name, 1, wrong)

    def _spoil_batch(self, bad: CheckInput, size: int) -> None:
        known, place = list(self._alone), size // 2
        batch = [known[i % len(known)] for i in range(size)]
        batch[place] = bad
        replies = self._ask(batch)
        if replies[place].failure:
            wrong = f"its neighbours lost their answers: {find_wrong(replies[place])}"
            self._note(Contract.ISOLATION, bad.name, size, wrong, place)
            return
        if replies[place].ok:
            wrong = f"status {replies[place].status} beside good inputs, but an error alone"
            self._note(Contract.ISOLATION, bad.name, size, wrong, place)
        self._compare(Contract.ISOLATION, batch, replies, beside=bad)

    def _compare(
        self,
        contract: Contract,
        batch: Sequence[CheckInput],
        replies: Sequence[WorkerReply],
        *,
        beside: CheckInput | None = None,
    ) -> None:
        """Compare a batch's replies with those of the inputs alone."""
        if replies[0].failure:  # then it is everybody's
            self._note(contract, batch[0].name, len(batch), find_wrong(replies[0]))
            return
        told = "" if beside is None else f"; beside {beside.name}"
        for place, (item, reply) in enumerate(zip(batch, replies, strict=True)):
            if item is not beside:
                wrong = find_wrong(reply) or self._difference(self._alone[item], reply)
                if wrong:
                    self._note(contract, item.name, len(batch), wrong + told, place)

    def _difference(self, alone: WorkerReply, reply: WorkerReply) -> str:
        return find_reply_difference(alone, reply, self._tolerance)

    def _time(self, batch: Sequence[CheckInput]) -> float:
        started = time.perf_counter()
        self._ask(batch)
        return (time.perf_counter() - started) * 1000

    def _ask(self, batch: Sequence[CheckInput]) -> list[WorkerReply]:
        """Ask, and take down what ends the worker; raises WorkerLostError then."""
        requests = [WorkerRequest.from_body(item.body, item.content_type) for item in batch]
        try:
            return [without_id(reply) for reply in self._worker.predict(requests)]
        except ServingError as error:
            # Whose fault it is nobody knows; a corrupted copy is the likeliest.
            suspect = next((item for item in batch if item not in self._inputs), batch[0])
            self._note(Contract.LIFE, suspect.name, len(batch), str(error))
            raise WorkerLostError from error

    def _begin(self, *contracts: Contract) -> None:
        """Let contracts hold until a breach."""
        for contract in contracts:
            if self.verdicts[contract] is None:
                self.verdicts[contract] = True

    def _note(
        self, contract: Contract, name: str, size: int, message: str, place: int | None = None
    ) -> None:
        """Take a breach down; of one input and batch size the first place is enough."""
        self.verdicts[contract] = False
        known = {(b.contract, b.input, b.batch_size) for b in self.breaches}
        if (contract, name, size) not in known:
            self.breaches.append(
                Breach(contract=contract, input=name, batch_size=size, message=message, place=place)
            )
