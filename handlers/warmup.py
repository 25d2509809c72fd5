"""The first calls of a model, made before anyone waits for them.

The first forward of a size allocates, picks kernels and, with torch.compile, compiles; it can
take seconds. Run from `initialize`, it is over before TorchServe calls the worker READY.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Protocol

from makemar.handlers.errors import LoadError
from makemar.handlers.grouping import Group, take_chunk
from makemar.handlers.memory import is_out_of_memory, release_memory
from makemar.handlers.settings import HandlerSettings

__all__ = ["largest_forward", "planned_sizes", "warm_up"]

logger = logging.getLogger(__name__)


class Warmable(Protocol):
    """What a handler needs for a warm-up: example samples, and the way through the model."""

    settings: HandlerSettings

    def length(self, sample: Any) -> int | None: ...
    def examples(self) -> Sequence[Any]: ...
    def collate(self, samples: Sequence[Any]) -> Any: ...
    def inference(self, data: Any) -> Any: ...


def planned_sizes(batch_size: int) -> list[int]:
    """Return the batch sizes to run: the powers of two below `batch_size`, and itself."""
    return sorted({1 << i for i in range(batch_size.bit_length())} | {batch_size})


def largest_forward(handler: Warmable, example: Any, *, batch_size: int) -> int:
    """Return how many samples like this one the settings let into one forward, at least 1."""
    length = handler.length(example)
    lengths = None if length is None else [length] * batch_size
    group = Group(list(range(batch_size)), lengths=lengths)
    return take_chunk(group, 0, handler.settings, most=batch_size)


def warm_up(handler: Warmable, *, batch_size: int) -> None:
    """Run every planned batch size with each of the handler's examples; log what each cost.

    None is larger than a forward that the settings (`max_forward_batch`, `max_tokens`) allow: it
    would cost memory and time, and no request would ever meet it. A size that does not fit into
    memory is skipped with a warning. Raises `LoadError` when the model fails on the handler's own
    example: it would fail on every request too.
    """
    for example in handler.examples():
        for size in planned_sizes(largest_forward(handler, example, batch_size=batch_size)):
            started = time.perf_counter()
            try:
                handler.inference(handler.collate([example] * size))
            except Exception as error:
                if not is_out_of_memory(error):
                    raise LoadError(
                        f"the warm-up with batch size {size} failed: {error}"
                    ) from error
                release_memory(error)
                logger.warning("warmup batch=%d does not fit into memory", size)
                break
            took = (time.perf_counter() - started) * 1000
            logger.info("warmup batch=%d first_call_ms=%.1f", size, took)
