"""Samples to a batch and back: the default `collate` and `split`, on nested tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

import torch

from makemar.handlers.errors import ModelError

__all__ = ["apply", "split", "stack"]


def apply(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """Apply `function` to every tensor inside dicts, lists and tuples; leave all else as it is."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return {key: apply(function, item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(apply(function, item) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(apply(function, item) for item in value)
    return value


def stack(samples: Sequence[Any]) -> Any:
    """Stack samples of one shape along a new first dimension: n × (…) → (n, …).

    Samples may be tensors, arrays or numbers, or dicts and tuples of them (stacked per entry).
    """
    first = samples[0]
    if isinstance(first, Mapping):
        return {key: stack([sample[key] for sample in samples]) for key in first}
    if isinstance(first, tuple):
        return tuple(stack([sample[i] for sample in samples]) for i in range(len(first)))
    if not isinstance(first, torch.Tensor):
        samples = [torch.as_tensor(sample) for sample in samples]
    return torch.stack(list(samples))


def split(outputs: Any, count: int) -> list[Any]:
    """Split what a forward gave into one output per sample: (n, …) → n × (…).

    Dicts and tuples are split per entry; a list is taken as one output per sample already.
    Raises `ModelError` when the first dimension is not `count`.
    """
    if type(outputs) is list and len(outputs) == count:
        return outputs
    if isinstance(outputs, Mapping):
        parts = {key: split(value, count) for key, value in outputs.items()}
        return [{key: parts[key][i] for key in parts} for i in range(count)]
    if isinstance(outputs, tuple):
        columns = [split(value, count) for value in outputs]
        return [tuple(column[i] for column in columns) for i in range(count)]
    size = len(outputs) if hasattr(outputs, "__len__") and not _is_scalar(outputs) else None
    if size != count:
        raise ModelError(
            f"the model gave {'one value' if size is None else f'{size} outputs'} "
            f"for {count} samples; each sample needs one output along the first dimension"
        )
    return list(outputs)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 0
