"""What a handler's `encode` returned, as the arrays that binary formats can carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from makemar.handlers.codecs.numbers import flatten, from_numbers
from makemar.handlers.errors import BadRequestError

__all__ = ["stack_named", "stack_results"]


def stack_results(results: Sequence[object], *, several: bool) -> torch.Tensor | None:
    """Return the results as one array, (n, …) where there are several, or None if they are none.

    Python's integers become int64, its floats float64.
    """
    arrays = [_array(result) for result in results]
    return _stack(arrays, several=several)


def stack_named(results: Sequence[object], *, several: bool) -> Mapping[str, torch.Tensor] | None:
    """Return results that are dicts of arrays under their names, or None if they are not.

    A dict of plain numbers is no set of arrays: its keys may be class names.
    """
    first = results[0]
    if not isinstance(first, Mapping) or not first:
        return None
    if any(not isinstance(r, Mapping) or r.keys() != first.keys() for r in results):
        return None
    stacked = {}
    for name in first:
        values = [r[name] for r in results if isinstance(r, Mapping)]
        if not all(hasattr(value, "shape") for value in values):
            return None
        array = _stack([_array(value) for value in values], several=several)
        if array is None:
            return None
        stacked[str(name)] = array
    return stacked


def _stack(arrays: Sequence[torch.Tensor | None], *, several: bool) -> torch.Tensor | None:
    known = [array for array in arrays if array is not None]
    if len(known) < len(arrays) or len({(a.shape, a.dtype) for a in known}) != 1:
        return None
    return torch.stack(known) if several else known[0]


def _array(value: Any) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if hasattr(value, "__array__"):  # numpy arrays and scalars
        try:
            return torch.as_tensor(value)
        except (TypeError, ValueError):
            return None
    if isinstance(value, (list, tuple)):
        return _array_of(list(value))
    return _array_of(value) if isinstance(value, (bool, int, float)) else None


def _array_of(value: object) -> torch.Tensor | None:
    """Return nested lists of numbers or arrays as one array."""
    if isinstance(value, list) and value and hasattr(value[0], "shape"):
        return _stack([_array(item) for item in value], several=True)
    try:
        elements, shape = flatten(value)
        kinds = set(map(type, elements))
        if not kinds <= {bool, int, float}:
            return None
        dtype = torch.float64 if float in kinds else torch.int64
        dtype = torch.bool if kinds == {bool} else dtype
        return from_numbers(elements, dtype).reshape(shape)
    except BadRequestError:  # irregular, or an integer beyond int64
        return None
