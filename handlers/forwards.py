"""All samples of a batch through the model, in as few forwards as fit and none that fails twice.

A forward that fails for want of memory is cut to a size that fits; one that fails for any other
reason is bisected until the samples to blame are alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Callable

from makemar.handlers.device import is_sticky
from makemar.handlers.errors import DeviceLostError
from makemar.handlers.failures import Failed
from makemar.handlers.grouping import ForwardLimits, group_samples, take_chunk
from makemar.handlers.isolation import Owners, halve, isolate
from makemar.handlers.memory import MemoryCaps, is_out_of_memory, release_memory, words_of
from makemar.handlers.statistics import BatchStatistics

__all__ = ["Forwards"]


class Forwards:
    """Run samples through `model`, remembering between batches what fits into memory.

    `lost` holds the reason once the device is lost; from then on nothing reaches the model, and
    `ending` says that the worker has been told. `statistics` are those of the batch in hand.
    """

    def __init__(self) -> None:
        self.caps = MemoryCaps()
        self.lost = ""
        self.ending = False
        self.statistics = BatchStatistics(0)

    def lose(self, error: BaseException) -> None:
        """Let nothing reach the model any more: this error says why its device is lost."""
        self.lost = self.lost or words_of(error)

    def run(
        self,
        samples: Sequence[Any],
        model: Callable[[Sequence[int]], Sequence[Any]],
        *,
        length: Callable[[Any], int | None] | None,
        limits: ForwardLimits,
        statistics: BatchStatistics,
        owners: Sequence[Hashable] | None = None,
    ) -> list[Any | Failed]:
        """Return one outcome per sample, in order.

        `model` runs the samples at the given positions in one forward and returns their outputs.
        `length` tells how long a ragged sample is; None: all are alike, as rows are.
        `owners` names the request of each sample: one sample that fails alone decides for all of
        its request's, which are then run no more. Without it each sample is on its own.
        """
        self.statistics = statistics
        known = None if owners is None else Owners(owners)
        outcomes: list[Any | Failed] = [None] * len(samples)
        call = _Call(self, model, statistics)
        groups, unmeasured = group_samples(samples, length)
        for position, error in unmeasured.items():
            failure = Failed(error, stage="decode")
            outcomes[position] = failure if known is None else known.failed(position, failure)
        for group in groups:
            start = 0
            while start < len(group.positions):
                bucket = group.bucket(start)
                most = self.caps.limit(bucket, len(group.positions))
                stop = take_chunk(group, start, limits, most=most)
                if group.lengths is not None:
                    statistics.add_padding(group.lengths, start, stop)
                positions = group.positions[start:stop]
                results = isolate(positions, call.on(bucket), divide=call.divide, owners=known)
                for position, result in zip(positions, results):
                    outcomes[position] = result
                start = stop
        return outcomes


class _Call:
    """One model call after another, each counted and learnt from."""

    def __init__(
        self,
        forwards: Forwards,
        model: Callable[[Sequence[int]], Sequence[Any]],
        statistics: BatchStatistics,
    ) -> None:
        self.forwards = forwards
        self.model = model
        self.statistics = statistics
        self.bucket: Hashable = None

    def on(self, bucket: Hashable) -> Callable[[Sequence[int]], Sequence[Any]]:
        """Return the run for samples of this bucket."""
        self.bucket = bucket
        return self

    def __call__(self, positions: Sequence[int]) -> Sequence[Any]:
        if self.forwards.lost:
            raise DeviceLostError("the device failed; a new worker takes over, try again")
        outputs = self.model(positions)
        self.forwards.caps.fitted(self.bucket, len(positions))
        return outputs

    def divide(self, error: BaseException, count: int) -> int:
        """Say how large the next pieces are, and learn from the failure."""
        if is_out_of_memory(error):
            release_memory(error)
            self.statistics.memory_splits += 1
            return self.forwards.caps.failed(self.bucket, count)
        if is_sticky(error):
            self.forwards.lose(error)
        elif count > 1:
            self.statistics.bisections += 1
        return halve(error, count)
