"""Batch invariance: a sample's answer is the same alone, at any place, beside any neighbour.

What breaks it: batch norm in training mode, padding that the model attends to, a softmax over the
wrong dimension, state that one sample leaves for the next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from makemar.handlers.testing import Answer, Handler, Sent, ask

__all__ = ["BATCH_SIZES", "TOLERANCES", "assert_batch_invariant", "difference"]

BATCH_SIZES = (1, 2, 3, 7, 8, 32)
# Largest difference, relative to the larger value or absolute below 1; kernels for other batch
# sizes add in another order, so the last bits may differ.
TOLERANCES = {"float32": 1e-4, "bfloat16": 5e-2, "float16": 1e-2}


def assert_batch_invariant(
    handler: Handler,
    samples: Sequence[Sent],
    *,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    tolerance: float | None = None,
) -> None:
    """Ask each sample alone, then in batches of every size among the others; compare the replies.

    `tolerance` is relative to the larger value (absolute below 1); the default is that of the
    handler's `dtype` setting. Raises `AssertionError` that names sample, batch size and place, or
    the sample that is no example of anything: its answer alone is an error.
    """
    if not samples:
        raise AssertionError("there are no samples to compare")
    if tolerance is None:
        tolerance = TOLERANCES[getattr(getattr(handler, "settings", None), "dtype", "float32")]
    alone = [ask(handler, [sample])[0] for sample in samples]
    for i, answer in enumerate(alone):
        if answer.status >= 400:
            raise AssertionError(f"sample {i} is answered {answer.status} alone: {answer.body!r}")
    for size in batch_sizes:
        for first in range(len(samples)):
            chosen = [(first + place) % len(samples) for place in range(size)]
            answers = ask(handler, [samples[i] for i in chosen])
            for place, (i, answer) in enumerate(zip(chosen, answers)):
                wrong = _compare(alone[i], answer, tolerance)
                if wrong:
                    raise AssertionError(
                        f"sample {i} gets another answer at place {place} of {size}: {wrong}"
                    )


def _compare(alone: Answer, answer: Answer, tolerance: float) -> str:
    if alone.status != answer.status:
        return f"status {alone.status} alone, {answer.status} in the batch"
    if alone.headers.get("content-type") != "application/json":
        return "" if alone.body == answer.body else "the bodies differ"
    return difference(alone.json(), answer.json(), tolerance)


def difference(a: Any, b: Any, tolerance: float, place: str = "$") -> str:
    """Say where two JSON values differ by more than `tolerance`; '' where they do not."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if set(a) != set(b):
            return f"{place} has other keys: {sorted(set(a) ^ set(b))}"
        parts = (difference(a[key], b[key], tolerance, f"{place}.{key}") for key in a)
        return next((part for part in parts if part), "")
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return f"{place} has {len(a)} entries alone, {len(b)} in the batch"
        parts = (difference(x, y, tolerance, f"{place}[{i}]") for i, (x, y) in enumerate(zip(a, b)))
        return next((part for part in parts if part), "")
    numbers = isinstance(a, (int, float)) and isinstance(b, (int, float))
    if numbers and math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance):
        return ""
    return "" if a == b else f"{place} is {a!r} alone, {b!r} in the batch"
