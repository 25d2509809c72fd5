"""Nested lists of numbers to tensors: strict about type, shape and range, faster than torch."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

import torch

from makemar.handlers.dtypes import name_of
from makemar.handlers.errors import BadRequestError
from makemar.handlers.quoting import quote

__all__ = ["check_shape", "flatten", "from_numbers"]

_MOST_DIMENSIONS = 64
_MOST_ROWS_OF_NOTHING = 2**16

# What each type's elements are collected as before torch takes the buffer over.
_TYPECODES: Mapping[torch.dtype, str] = MappingProxyType(
    {
        torch.float32: "f",
        torch.float64: "d",
        torch.float16: "f",
        torch.bfloat16: "f",
        torch.int8: "b",
        torch.int16: "h",
        torch.int32: "i",
        torch.int64: "q",
        torch.uint8: "B",
        torch.bool: "B",
    }
)
_BUFFERS: Mapping[str, torch.dtype] = MappingProxyType(
    {code: dtype for dtype, code in reversed(list(_TYPECODES.items())) if dtype != torch.bool}
)


def flatten(value: object) -> tuple[list[Any], tuple[int, ...]]:
    """Return the elements of a nested list, and its shape; a bare element has the shape ().

    Raises `BadRequestError` when lists of one level differ in length.
    """
    if not isinstance(value, list):
        return [value], ()
    level: list[Any] = value
    shape = [len(level)]
    while level and isinstance(level[0], list):
        size = len(level[0])
        if set(map(type, level)) != {list} or set(map(len, level)) != {size}:
            raise BadRequestError("the list sent is not a regular array: its rows differ in length")
        if len(shape) == _MOST_DIMENSIONS:
            raise BadRequestError(f"the list sent has more than {_MOST_DIMENSIONS} dimensions")
        level = list(chain.from_iterable(level))
        shape.append(size)
    return level, tuple(shape)


def check_shape(shape: Sequence[int]) -> None:
    """Raise `BadRequestError` for an array of nothing that is enormous all the same.

    A shape of (10**12, 0) needs no data, so the size of the request does not limit it; as lists
    in a reply it would fill the memory.
    """
    if 0 in shape and math.prod(size for size in shape if size) > _MOST_ROWS_OF_NOTHING:
        raise BadRequestError(f"the array sent has no elements in its shape {quote(list(shape))}")


def from_numbers(elements: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
    """Return a 1-D tensor of `elements`; booleans count as 0 and 1, text is never a number.

    Raises `BadRequestError` for what is no number, or lies outside of an integer type's range.
    """
    code = _TYPECODES[dtype]
    try:
        values = array(code, elements)
    except OverflowError as error:
        raise BadRequestError(
            f"a number sent lies outside of what {name_of(dtype)} holds"
        ) from error
    except TypeError as error:
        wrong = next((e for e in elements if not _fits(e, dtype)), None)
        kind = "null" if wrong is None else type(wrong).__name__
        wanted = "numbers" if dtype.is_floating_point else f"{name_of(dtype)} values"
        raise BadRequestError(f"expected {wanted}, found {kind} among them") from error
    if dtype is torch.bool and values and max(values) > 1:
        raise BadRequestError("expected bool values, found a number above 1")
    if not values:
        return torch.empty(0, dtype=dtype)
    buffer = _BUFFERS[code]
    tensor = torch.frombuffer(values, dtype=buffer)
    return tensor if buffer is dtype else tensor.to(dtype)


def _fits(element: object, dtype: torch.dtype) -> bool:
    return isinstance(element, (int, float) if dtype.is_floating_point else int)
